"""No process outlives its owner, however the owner ends."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cluster.support.waiting import eventually

from samara_devtools.devcluster import DevclusterError
from samara_devtools.devcluster.folder import remove_stale
from samara_devtools.devcluster.process import Children

SLEEPER = """
from pathlib import Path
from samara_devtools.devcluster.process import Children
import sys
children = Children(Path(sys.argv[1]))
children.start("sleeper", Path("/bin/sleep"), ["600"])
print(children.pids["sleeper"], flush=True)
input()
"""
CLUSTER = """
import json
from samara_devtools.devcluster import Devcluster
with Devcluster() as cluster:
    print(json.dumps({"pids": cluster.pids, "data": str(cluster.data)}), flush=True)
    ENDING
"""


@contextmanager
def python(*args: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A Python process and the first line it prints; it is killed at the end if it still runs."""
    owner = subprocess.Popen([sys.executable, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        try:
            yield owner, owner.stdout.readline().strip()
        finally:
            owner.kill()


def runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def children_of(pid: int) -> list[int]:
    return [int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]


def none_runs(pids: list[int]) -> bool:
    return not any(runs(pid) for pid in pids)


def test_a_child_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    with python("-c", SLEEPER, str(tmp_path)) as (owner, line):
        assert runs(int(line))
        owner.send_signal(signal.SIGKILL)
        eventually(lambda: not runs(int(line)), deadline=60.0)


def test_a_child_survives_the_thread_that_started_it(tmp_path: Path) -> None:
    children = Children(tmp_path)
    thread = threading.Thread(target=children.start, args=("sleeper", Path("/bin/sleep"), ["600"]))
    thread.start()
    thread.join()
    pid = children.pids["sleeper"]
    assert runs(pid)
    assert children.ended() is None
    children.stop_all()
    assert not runs(pid)


def test_a_child_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    children = Children(tmp_path)
    children.start("deaf", Path("/bin/sh"), ["-c", "trap '' TERM; echo ready; while :; do read x < /dev/zero; done"])
    pid = children.pids["deaf"]
    eventually(lambda: "ready" in children.tail("deaf"), deadline=60.0)
    children.stop("deaf", grace=0.05)
    assert not runs(pid)
    children.stop_all()


def test_a_child_that_ended_by_itself_is_named(tmp_path: Path) -> None:
    children = Children(tmp_path)
    children.start("brief", Path("/bin/sh"), ["-c", "echo done"])
    eventually(lambda: children.ended() == "brief", deadline=60.0)
    assert children.tail("brief") == "done\n"
    children.stop_all()


def test_two_children_cannot_have_the_same_name(tmp_path: Path) -> None:
    children = Children(tmp_path)
    children.start("sleeper", Path("/bin/sleep"), ["600"])
    with pytest.raises(DevclusterError, match="runs already"):
        children.start("sleeper", Path("/bin/sleep"), ["600"])
    children.stop_all()


@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_a_killed_owner_leaves_no_process_and_the_next_start_removes_its_data(
    temporary: Path, number: signal.Signals
) -> None:
    with python("-c", CLUSTER.replace("ENDING", "input()")) as (owner, line):
        state = json.loads(line)
        owner.send_signal(number)
        owner.wait()
        eventually(lambda: none_runs(list(state["pids"].values())), deadline=60.0)
    assert len(state["pids"]) == 3
    remove_stale()
    assert not Path(state["data"]).exists()


@pytest.mark.cluster
@pytest.mark.parametrize(
    "ending", ["raise ValueError", "raise SystemExit(3)", "import os, signal; os.kill(os.getpid(), signal.SIGINT)"]
)
def test_an_owner_that_fails_leaves_neither_process_nor_data(temporary: Path, ending: str) -> None:
    with python("-c", CLUSTER.replace("ENDING", ending)) as (owner, line):
        state = json.loads(line)
        assert owner.wait(60) != 0
        assert none_runs(list(state["pids"].values()))
    assert list(temporary.iterdir()) == []


@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_up_ends_cleanly_on_a_signal(temporary: Path, number: signal.Signals) -> None:
    with python("-m", "samara_devtools.devcluster", "up") as (owner, line):
        kubeconfig = Path(line.removeprefix("export KUBECONFIG="))
        assert kubeconfig.exists()
        started = children_of(owner.pid)
        assert len(started) == 3
        owner.send_signal(number)
        assert owner.wait(60) == 0
        assert none_runs(started)
    assert list(temporary.iterdir()) == []
