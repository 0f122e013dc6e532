"""The watchdog measures how long the loop is blocked, without the time that it waits for a CPU."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from itertools import count
from math import inf

from samara.engine.process import HEARTBEAT, Watchdog

BLOCKED = 0.3


def longest(cpu_wait: Callable[[], float]) -> float:
    """The longest stall that is measured while the loop is blocked."""

    async def measured() -> float:
        dog = Watchdog(inf, cpu_wait)
        beating = asyncio.create_task(dog.heartbeat())
        await asyncio.sleep(HEARTBEAT / 2)
        time.sleep(BLOCKED)  # noqa: ASYNC251 - it blocks the loop on purpose
        await asyncio.sleep(HEARTBEAT)  # the loop runs again
        beating.cancel()
        return dog.longest_stall

    return asyncio.run(measured())


def test_a_blocked_loop_counts_as_a_stall() -> None:
    assert longest(lambda: 0.0) >= BLOCKED - HEARTBEAT


def test_waiting_for_a_processor_counts_as_no_stall() -> None:
    growing = count(step=1000.0)
    assert longest(lambda: next(growing)) == 0.0


def test_a_stopped_watchdog_ends_its_thread() -> None:
    """Otherwise it would take the end of this loop for a stall, and end a process that runs another loop."""

    async def stopped() -> list[threading.Thread]:
        beating = asyncio.create_task(Watchdog(inf).heartbeat())
        await asyncio.sleep(HEARTBEAT)
        listening = [thread for thread in threading.enumerate() if thread.name == "watchdog"]
        beating.cancel()
        await asyncio.wait([beating])
        return listening

    listening = asyncio.run(stopped())
    assert listening
    for thread in listening:
        thread.join(20 * HEARTBEAT)
    assert not [thread for thread in listening if thread.is_alive()]
