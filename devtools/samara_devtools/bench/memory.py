"""Peak memory: at a thousand copies, beside unrelated Secrets, and at a hundred thousand copies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from samara_devtools.bench.audit import Counts, count, of_user
from samara_devtools.bench.bare import spread
from samara_devtools.bench.controller import Controller
from samara_devtools.bench.fan_outs import run_fan_out
from samara_devtools.bench.lab import CONTROLLER, WORKERS, Lab, say
from samara_devtools.bench.options import SOURCES
from samara_devtools.bench.secrets import Source, unrelated_secrets


@dataclass(slots=True)
class Memory:
    """Megabytes are of 1,000,000 bytes; the peak is that of one process from its start."""

    namespaces: int
    ready: float | None = None
    """Seconds until the controller was ready when all namespaces existed and no copy did."""
    empty: float = 0.0
    """Resident size when it was ready, before any copy."""
    filled: float = 0.0
    """Peak of a process that made every copy."""
    after_change: float = 0.0
    """Peak of a process that started in sync and then changed every copy."""
    beside_unrelated: float = 0.0
    """The same with unrelated Secrets in the cluster."""
    unrelated: int = 0
    blocked: float | None = None
    """The longest wait for an answer of the controller, in seconds."""
    stall: float | None = None
    """The longest stall of its event loop in seconds, by its own metrics."""

    @property
    def growth(self) -> float:
        return self.beside_unrelated - self.after_change


async def measure_memory(lab: Lab) -> Memory:
    memory = Memory(len(lab.namespaces), unrelated=lab.options.unrelated)
    source = lab.source("first")
    with lab.running() as controller:
        memory.ready = await lab.wait_ready(controller)
        await lab.wait_settled()
        memory.empty = controller.resident()
        async with probed(controller):
            await run_fan_out(lab, controller, source)
        memory.filled, memory.stall = controller.peak(), await controller.stall()
        memory.blocked = controller.longest_answer
    memory.after_change = await _peak_of_change(lab, source.changed())
    say(f"peak memory: {memory.filled:.1f} MB filling, {memory.after_change:.1f} MB changing after a restart")
    await spread(
        unrelated_secrets(lab.namespaces, memory.unrelated), WORKERS, lambda request: lab.admin.send("POST", *request)
    )
    memory.beside_unrelated = await _peak_of_change(lab, source.changed().changed())
    say(f"peak memory beside {memory.unrelated} unrelated Secrets: {memory.beside_unrelated:.1f} MB")
    return memory


async def _peak_of_change(lab: Lab, source: Source) -> float:
    async with lab.ready() as controller:
        await run_fan_out(lab, controller, source)
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
    """From the first source to the last copy."""
    filled: float = 0.0
    """Peak of the process that made the copies, in megabytes."""
    started: float = 0.0
    """Peak of a process that started in sync."""
    ready: float | None = None
    synced: float | None = None
    restart: Counts | None = None
    blocked: float | None = None
    """The longest wait for an answer of the controller, in seconds."""
    stall: float | None = None

    @property
    def copies(self) -> int:
        return self.namespaces * self.sources


async def measure_large(lab: Lab) -> Large:
    large = Large(len(lab.namespaces), SOURCES)
    sources = [lab.source(f"large-{number}") for number in range(SOURCES)]
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
            await lab.wait_copied(source, mark)
        large.seconds = clock() - began
        await lab.wait_settled()
        for source in sources:
            await lab.verify(source)
        large.filled, large.stall = controller.peak(), await controller.stall()
    large.blocked = controller.longest_answer


async def _start(lab: Lab, large: Large) -> None:
    mark = lab.log.catch_up()
    with lab.running() as controller:
        await controller.wait_for_answer()
        async with probed(controller):
            large.ready, large.synced = await lab.wait_ready(controller), await controller.synced()
            await lab.wait_settled()
        large.started, stall = controller.peak(), await controller.stall()
    large.stall = _longest(large.stall, stall)
    large.blocked = _longest(large.blocked, controller.longest_answer)
    large.restart = count(of_user(lab.log.since(mark), CONTROLLER))


def _longest(*times: float | None) -> float | None:
    return max((time for time in times if time is not None), default=None)
