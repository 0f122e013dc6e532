"""A controller in sync: how soon a new namespace is served, what it does at rest, and what a restart costs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from bench.audit import Counts, by, count, created, first_written
from bench.figures import delays
from bench.lab import ADMIN, CONTROLLER, Lab, say
from bench.secrets import Source
from bench.turns import fan

BREATH = 0.05
"""Between two new namespaces when idle: the server's own controllers have to finish too."""
PACE = 0.1
"""Between two new namespaces during a fan-out."""
BUSY_SAMPLES = 50
BUSY_FANS = 5


@dataclass(slots=True)
class Calm:
    ready: float | None = None
    """Seconds from the start, with every namespace there and no copy yet."""
    idle: list[float] = field(default_factory=list)
    """Milliseconds, in order."""
    busy: list[float] = field(default_factory=list)
    rest: Counts | None = None
    restart: Counts | None = None
    restart_ready: float | None = None
    restart_synced: float | None = None


async def stay_calm(lab: Lab) -> Calm:
    calm, source = Calm(), Source(lab.options, "first")
    with lab.running() as controller:
        calm.ready = await controller.ready() if lab.options.ready_url else None
        await lab.settled()
        await fan(lab, controller, source)
        if lab.options.wants("latency"):
            await _latency(lab, calm, source)
        if lab.options.wants("rest"):
            calm.rest = await _rest(lab)
    if lab.options.wants("restart"):
        await _restart(lab, calm)
    return calm


async def _latency(lab: Lab, calm: Calm, source: Source) -> None:
    calm.idle = await _idle(lab, source)
    say(f"new namespaces when idle: {len(calm.idle)} served")
    for _ in range(BUSY_FANS):
        source = source.changed()
        calm.busy = sorted((*calm.busy, *await _busy(lab, source)))
        if len(calm.busy) >= BUSY_SAMPLES:
            break
    say(f"new namespaces during a fan-out: {len(calm.busy)} served")


async def _idle(lab: Lab, source: Source) -> list[float]:
    mark = lab.log.catch_up()
    for _ in range(lab.options.fresh):
        at = lab.log.catch_up()
        name = f"n-{len(lab.namespaces):05}"
        await lab.add_namespace(name)
        await lab.copied(source, at, {name})
        await asyncio.sleep(BREATH)
    return _delays(lab, source, mark)


async def _busy(lab: Lab, source: Source) -> list[float]:
    """Namespaces made while a change goes out to all the others."""
    mark = lab.log.catch_up()
    await lab.write(source)
    fan_out = asyncio.create_task(lab.copied(source, mark))
    while not fan_out.done():
        await asyncio.sleep(PACE)
        await lab.add_namespace(f"n-{len(lab.namespaces):05}")
    await fan_out
    await lab.settled()
    await lab.verify(source)
    return _delays(lab, source, mark)


def _delays(lab: Lab, source: Source, mark: int) -> list[float]:
    entries = lab.log.since(mark)
    return delays(created(by(entries, ADMIN), "namespaces"), first_written(by(entries, CONTROLLER), source.name))


async def _rest(lab: Lab) -> Counts:
    await lab.settled()
    say(f"{lab.options.rest:.0f} s at rest")
    mark = lab.log.catch_up()
    await asyncio.sleep(lab.options.rest)
    return count(by(lab.log.since(mark), CONTROLLER))


async def _restart(lab: Lab, calm: Calm) -> None:
    mark = lab.log.catch_up()
    with lab.running() as controller:
        if lab.options.ready_url:
            calm.restart_ready = await controller.ready()
            calm.restart_synced = await controller.synced()
        await lab.settled()
        await asyncio.sleep(2.0)
        controller.check()
    calm.restart = count(by(lab.log.since(mark), CONTROLLER))
    say(f"restart in sync: {calm.restart}")
