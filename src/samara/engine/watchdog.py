"""A thread that ends the process when the event loop stands still: a standby takes over."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import threading
import time

BEAT = 0.05


class Watchdog:
    """Beats on the loop, listens in a thread."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._beaten = time.monotonic()
        self.longest = 0.0
        """The longest time for which the loop did not come round, in seconds."""

    async def beat(self) -> None:
        threading.Thread(target=self._listen, name="watchdog", daemon=True).start()
        while True:
            self._beaten = time.monotonic()
            await asyncio.sleep(BEAT)
            self.longest = max(self.longest, time.monotonic() - self._beaten - BEAT)

    def _listen(self) -> None:
        while time.monotonic() - self._beaten < self._most:
            time.sleep(BEAT)
        sys.stderr.write(
            f"samara: the event loop stood still for {self._most:g} s; ending so that a standby takes over\n"
        )
        faulthandler.dump_traceback(all_threads=True)
        os._exit(70)
