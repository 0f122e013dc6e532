"""A thread that ends the process when the event loop stands still: a standby takes over."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

BEAT = 0.05


def queued() -> float:
    """For how many seconds, ever, this thread was ready to run and had no processor; 0 where nobody says so."""
    try:
        told = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(told.split()[1]) / 1e9


class Watchdog:
    """Beats on the loop, listens in a thread."""

    def __init__(self, most: float, queued: Callable[[], float] = queued) -> None:
        self._most = most
        self._queued = queued
        self._beaten = time.monotonic()
        self._over = threading.Event()
        self.longest = 0.0
        """The longest time for which the loop did not come round, in seconds.

        What it waited for a processor does not count: on a busy machine that says nothing about us.
        """

    async def beat(self) -> None:
        """Until it is cancelled: then nobody listens any more, for whoever begins anew in this process has his own."""
        self._beaten = time.monotonic()
        threading.Thread(target=self._listen, name="watchdog", daemon=True).start()
        queued = self._queued()
        try:
            while True:
                self._beaten = time.monotonic()
                await asyncio.sleep(BEAT)
                before, queued = queued, self._queued()
                self.longest = max(self.longest, time.monotonic() - self._beaten - BEAT - (queued - before))
        finally:
            self._over.set()

    def _listen(self) -> None:
        while time.monotonic() - self._beaten < self._most:
            if self._over.wait(BEAT):
                return
        sys.stderr.write(
            f"samara: the event loop stood still for {self._most:g} s; ending so that a standby takes over\n"
        )
        faulthandler.dump_traceback(all_threads=True)
        os._exit(70)
