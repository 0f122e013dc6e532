"""What concerns the whole process: no core dumps, a watchdog for the event loop, fault points for crash tests, a
handler for bugs, and the time of day."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import os
import resource
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from samara import log

HEARTBEAT = 0.05
"""Seconds between two heartbeats of the event loop."""
RETRY_AFTER_BUG = 60.0
"""Seconds after which a key is planned again if planning it raised an unexpected error."""
_PR_SET_DUMPABLE = 4
_BLOCKED = 120.0
"""Seconds for which `SAMARA_BLOCK_AT` blocks the event loop."""


def forbid_core_dumps() -> None:
    """The memory holds values of Secrets, so no crash writes it to a file, and no process of the same user reads it.

    The limit alone is not enough: the kernel ignores it if dumps are piped to a program.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def cpu_wait() -> float:
    """Seconds for which this thread was ready to run but had no processor; 0 if the system does not report it."""
    try:
        statistics = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(statistics.split()[1]) / 1e9


class Watchdog:
    """Ends the process if the event loop does not run for `limit` seconds, so that a standby takes over.

    Its thread measures the heartbeats of the loop. It never ends the process because of a slow request: those do not
    block the loop.
    """

    def __init__(self, limit: float, cpu_wait: Callable[[], float] = cpu_wait) -> None:
        self._limit = limit
        self._cpu_wait = cpu_wait
        self._last_heartbeat = time.monotonic()
        self._stopped = threading.Event()
        self.longest_stall = 0.0
        """The longest time in seconds for which the loop did not run. Waiting for a processor does not count."""

    async def heartbeat(self) -> None:
        """Runs until cancelled; then the thread ends too."""
        self._last_heartbeat = time.monotonic()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        waited = self._cpu_wait()
        try:
            while True:
                self._last_heartbeat = time.monotonic()
                await asyncio.sleep(HEARTBEAT)
                before, waited = waited, self._cpu_wait()
                stall = time.monotonic() - self._last_heartbeat - HEARTBEAT - (waited - before)
                self.longest_stall = max(self.longest_stall, stall)
        finally:
            self._stopped.set()

    def _watch(self) -> None:
        while time.monotonic() - self._last_heartbeat < self._limit:
            if self._stopped.wait(HEARTBEAT):
                return
        sys.stderr.write(
            f"samara: the event loop stood still for {self._limit:g} s; ending so that a standby takes over\n"
        )
        faulthandler.dump_traceback(all_threads=True)
        os._exit(70)


class FaultPoints:
    """Named points at which a crash test ends or blocks the process. Set by the environment only.

    `SAMARA_CRASH_AT=after-write:3` ends the process when that point is reached for the third time, without cleaning up;
    `SAMARA_BLOCK_AT=after-write:3` blocks its event loop there.
    """

    def __init__(self) -> None:
        self._points = {variable: _point(variable) for variable in ("SAMARA_CRASH_AT", "SAMARA_BLOCK_AT")}
        """By variable: the name of a point, and how many more times it must be reached."""

    def reached(self, name: str) -> None:
        """Ends or blocks the process if the environment asks for that here."""
        for variable, (point, remaining) in self._points.items():
            if name == point:
                self._points[variable] = (point, remaining - 1)
                if remaining == 1:
                    _fail(variable)


def _point(variable: str) -> tuple[str, int]:
    name, _, number = os.environ.get(variable, "").partition(":")
    return name, int(number or "1")


def _fail(variable: str) -> None:
    if variable == "SAMARA_CRASH_AT":
        os._exit(137)
    time.sleep(_BLOCKED)


@contextmanager
def contain(about: object, retry: Callable[[], None] | None) -> Iterator[None]:
    """Catches unexpected errors about one object, so that it cannot stop the controller.

    `retry` queues the object again; None if the next event or resync does.
    """
    try:
        yield
    except Exception as fault:  # noqa: BLE001 - any. Its text may contain a secret, so only its location is logged.
        frame = traceback.extract_tb(fault.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        again = {} if retry is None else {"again_in": f"{RETRY_AFTER_BUG:g}s"}
        log.warning("plan.failed", about=about, fault=type(fault).__name__, at=where, **again)
        if retry is not None:
            retry()


def utc_timestamp() -> str:
    """The time of day, in the form that conditions use."""
    return _formatted(int(time.time()))


@lru_cache(maxsize=1)
def _formatted(second: int) -> str:
    """Cached, because a thousand writes end within a second."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
