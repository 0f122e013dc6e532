"""The process ends itself if its event loop is blocked, and at the crash points of tests."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

BLOCKED = """
import asyncio, time
from samara.engine.process import Watchdog

async def main():
    asyncio.get_running_loop().create_task(Watchdog(1.5).heartbeat())
    await asyncio.sleep(0.01)
    def block():
        time.sleep(30)
    block()

asyncio.run(main())
"""

RUNNING = """
import asyncio
from samara.engine.process import Watchdog

async def main():
    dog = Watchdog(1.5)
    beating = asyncio.create_task(dog.heartbeat())
    await asyncio.sleep(2.0)
    assert dog.longest_stall < 1.4, dog.longest_stall
    beating.cancel()

asyncio.run(main())
"""

FORBIDDEN = """
import ctypes, resource
from samara.engine.process import forbid_core_dumps

forbid_core_dumps()
assert ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 0  # PR_GET_DUMPABLE
assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
"""

PASSES = """
from samara.engine.process import FaultPoints
points = FaultPoints()
for _ in range(4):
    points.reached("before-write")
    print("write", flush=True)
    points.reached("after-write")
"""


def run(program: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SAMARA_")}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, env={**clean, **env}, check=False
    )


def test_a_blocked_loop_ends_the_process_and_its_stack_is_printed() -> None:
    ended = run(BLOCKED)

    assert ended.returncode == 70
    assert ended.stderr.startswith("samara: the event loop stood still for 1.5 s")
    assert "in block" in ended.stderr


def test_a_running_loop_is_left_alone() -> None:
    ended = run(RUNNING)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is a call of Linux")
def test_memory_cannot_be_dumped_to_a_file_or_read_by_another_process_of_the_user() -> None:
    ended = run(FORBIDDEN)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("point", "writes"),
    [("before-write:1", 0), ("before-write", 0), ("after-write:1", 1), ("before-write:3", 2), ("after-write:3", 3)],
)
def test_a_crash_point_ends_the_process_at_its_number_without_output(point: str, writes: int) -> None:
    ended = run(PASSES, SAMARA_CRASH_AT=point)

    assert (ended.returncode, ended.stdout, ended.stderr) == (137, "write\n" * writes, "")


@pytest.mark.parametrize("point", ["", "within-recreate:1", "after-write:9"])
def test_a_crash_point_that_is_not_reached_has_no_effect(point: str) -> None:
    assert run(PASSES, SAMARA_CRASH_AT=point).stdout == "write\n" * 4
