"""How long the loop stood still, and how long it only waited for a processor."""

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
    """What is measured while something keeps the loop to itself."""

    async def measured() -> float:
        dog = Watchdog(inf, cpu_wait)
        beating = asyncio.create_task(dog.heartbeat())
        await asyncio.sleep(HEARTBEAT / 2)
        time.sleep(BLOCKED)  # noqa: ASYNC251 - it is what a loop must not do
        await asyncio.sleep(HEARTBEAT)  # and now it comes round
        beating.cancel()
        return dog.longest_stall

    return asyncio.run(measured())


def test_a_blocked_loop_counts_as_a_stall() -> None:
    assert longest(lambda: 0.0) >= BLOCKED - HEARTBEAT


def test_waiting_for_a_processor_counts_as_no_stall() -> None:
    growing = count(step=1000.0)
    assert longest(lambda: next(growing)) == 0.0


def test_a_stopped_watchdog_ends_its_thread() -> None:
    """Otherwise the silence of an ended loop would end a later loop of this process."""

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
