"""Peak memory: at a thousand copies, beside unrelated Secrets, and at a hundred thousand copies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from samara_devtools.bench.audit import Counts, by, count
from samara_devtools.bench.bare import spread
from samara_devtools.bench.controller import Controller
from samara_devtools.bench.lab import CONTROLLER, WORKERS, Lab, say
from samara_devtools.bench.options import SOURCES
from samara_devtools.bench.secrets import Source, source_of, unrelated
from samara_devtools.bench.turns import fan


@dataclass(slots=True)
class Memory:
    """Megabytes are of 1,000,000 bytes; the peak is that of one process from its start."""

    namespaces: int
    ready: float | None = None
    """Seconds until it was ready, with all namespaces and no copy."""
    empty: float = 0.0
    """Resident size when it was ready, before any copy."""
    filled: float = 0.0
    """Peak of a process that made every copy."""
    alone: float = 0.0
    """Peak of a process that started in sync and then changed every copy."""
    crowded: float = 0.0
    """The same beside unrelated Secrets."""
    unrelated: int = 0
    blocked: float | None = None
    """The longest wait for an answer of the controller, in seconds."""
    stall: float | None = None

    @property
    def growth(self) -> float:
        return self.crowded - self.alone


async def weigh(lab: Lab) -> Memory:
    memory = Memory(len(lab.namespaces), unrelated=lab.options.unrelated)
    source = source_of(lab.options, "first")
    with lab.running() as controller:
        memory.ready = await lab.up(controller)
        await lab.settled()
        memory.empty = controller.resident()
        async with probed(controller):
            await fan(lab, controller, source)
        memory.filled, memory.blocked, memory.stall = (
            controller.peak(),
            controller.longest_answer,
            await controller.stall(),
        )
    memory.alone = await _peak_of_change(lab, source.changed())
    say(f"peak memory: {memory.filled:.1f} MB filling, {memory.alone:.1f} MB changing after a restart")
    await spread(unrelated(lab.namespaces, memory.unrelated), WORKERS, lambda request: lab.admin.send("POST", *request))
    memory.crowded = await _peak_of_change(lab, source.changed().changed())
    say(f"peak memory beside {memory.unrelated} unrelated Secrets: {memory.crowded:.1f} MB")
    return memory


async def _peak_of_change(lab: Lab, source: Source) -> float:
    async with lab.ready() as controller:
        await fan(lab, controller, source)
        return controller.peak()


@asynccontextmanager
async def probed(controller: Controller) -> AsyncIterator[None]:
    """Sends requests to the controller inside the context. A slow answer means that its event loop is blocked."""
    task = asyncio.create_task(controller.probe())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@dataclass(slots=True)
class Large:
    namespaces: int
    sources: int
    seconds: float = 0.0
    """Until every copy was written."""
    filled: float = 0.0
    """Peak of the process that made the copies, in megabytes."""
    started: float = 0.0
    """Peak of one that started in sync."""
    ready: float | None = None
    synced: float | None = None
    restart: Counts | None = None
    blocked: float | None = None
    """The longest wait for an answer of the controller, in seconds."""
    stall: float | None = None

    @property
    def copies(self) -> int:
        return self.namespaces * self.sources


async def enlarge(lab: Lab) -> Large:
    large = Large(len(lab.namespaces), SOURCES)
    sources = [source_of(lab.options, f"large-{number}") for number in range(SOURCES)]
    await _fill(lab, large, sources)
    say(f"{large.copies} copies in {large.seconds:.0f} s, peak {large.filled:.1f} MB")
    await _start(lab, large)
    say(f"started in sync: peak {large.started:.1f} MB")
    return large


async def _fill(lab: Lab, large: Large, sources: list[Source]) -> None:
    clock = asyncio.get_running_loop().time
    async with lab.ready() as controller, probed(controller):
        mark, began = lab.log.catch_up(), clock()
        for source in sources:
            await lab.write(source)
        for source in sources:
            await lab.copied(source, mark)
        large.seconds = clock() - began
        await lab.settled()
        for source in sources:
            await lab.verify(source)
        large.filled, large.stall = controller.peak(), await controller.stall()
    large.blocked = controller.longest_answer


async def _start(lab: Lab, large: Large) -> None:
    mark = lab.log.catch_up()
    with lab.running() as controller:
        await controller.answers()
        async with probed(controller):
            large.ready, large.synced = await lab.up(controller), await controller.synced()
            await lab.settled()
        large.started, stall = controller.peak(), await controller.stall()
    large.stall = _longest(large.stall, stall)
    large.blocked = _longest(large.blocked, controller.longest_answer)
    large.restart = count(by(lab.log.since(mark), CONTROLLER))


def _longest(*times: float | None) -> float | None:
    return max((time for time in times if time is not None), default=None)
