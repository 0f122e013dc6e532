"""Measures a controller in sync: the latency for a new namespace, requests at rest, and a restart."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from samara_devtools.bench.audit import Counts, by, count, created, first_writes
from samara_devtools.bench.figures import delays
from samara_devtools.bench.lab import ADMIN, CONTROLLER, Lab, say
from samara_devtools.bench.secrets import Source, source_of
from samara_devtools.bench.turns import fan

BREATH = 0.05
"""Seconds between two new namespaces when idle. Kubernetes' own controllers must finish, too."""
PACE = 0.1
"""Seconds between two new namespaces during a fan-out."""
BUSY_SAMPLES = 50
BUSY_FANS = 5


@dataclass(frozen=True, slots=True)
class Latency:
    """From the answer to the creation of a namespace: milliseconds, each list in order."""

    copied: list[float] = field(default_factory=list)
    """To the answer to the write of its copy."""
    requested: list[float] = field(default_factory=list)
    """To the arrival of that write at the server: the controller's own share."""
    refused: int = 0
    """Writes that the server refused meanwhile."""

    def __add__(self, other: Latency) -> Latency:
        both = sorted((*self.copied, *other.copied)), sorted((*self.requested, *other.requested))
        return Latency(*both, self.refused + other.refused)


@dataclass(slots=True)
class Calm:
    ready: float | None = None
    """Seconds from the start, with every namespace there and no copy yet."""
    idle: Latency = field(default_factory=lambda: Latency())
    busy: Latency = field(default_factory=lambda: Latency())
    rest: Counts | None = None
    restart: Counts | None = None
    restart_ready: float | None = None
    restart_synced: float | None = None


async def stay_calm(lab: Lab) -> Calm:
    calm, source = Calm(), source_of(lab.options, "first")
    with lab.running() as controller:
        calm.ready = await lab.up(controller)
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
    say(f"new namespaces when idle: {len(calm.idle.copied)} served")
    for _ in range(BUSY_FANS):
        source = source.changed()
        calm.busy += await _busy(lab, source)
        if len(calm.busy.copied) >= BUSY_SAMPLES:
            break
    say(f"new namespaces during a fan-out: {len(calm.busy.copied)} served")


async def _idle(lab: Lab, source: Source) -> Latency:
    mark = lab.log.catch_up()
    for _ in range(lab.options.fresh):
        at = lab.log.catch_up()
        name = f"n-{len(lab.namespaces):05}"
        await lab.add_namespace(name)
        await lab.copied(source, at, {name})
        await asyncio.sleep(BREATH)
    return _latency_of(lab, source, mark)


async def _busy(lab: Lab, source: Source) -> Latency:
    """Creates namespaces while a change is copied to all others."""
    mark = lab.log.catch_up()
    await lab.write(source)
    fan_out = asyncio.create_task(lab.copied(source, mark))
    while not fan_out.done():
        await asyncio.sleep(PACE)
        await lab.add_namespace(f"n-{len(lab.namespaces):05}")
    await fan_out
    await lab.settled()
    await lab.verify(source)
    return _latency_of(lab, source, mark)


def _latency_of(lab: Lab, source: Source, mark: int) -> Latency:
    entries = lab.log.since(mark)
    made, mine = created(by(entries, ADMIN), "namespaces"), by(entries, CONTROLLER)
    first = first_writes(mine, source.name)
    return Latency(
        delays(made, {name: entry.ended for name, entry in first.items()}),
        delays(made, {name: entry.began for name, entry in first.items()}),
        count(mine).failed,
    )


async def _rest(lab: Lab) -> Counts:
    await lab.settled()
    say(f"{lab.options.rest:.0f} s at rest")
    mark = lab.log.catch_up()
    await asyncio.sleep(lab.options.rest)
    return count(by(lab.log.since(mark), CONTROLLER))


async def _restart(lab: Lab, calm: Calm) -> None:
    mark = lab.log.catch_up()
    with lab.running() as controller:
        calm.restart_ready = await lab.up(controller)
        calm.restart_synced = await controller.synced()
        await lab.settled()
        await asyncio.sleep(2.0)
        controller.check()
    calm.restart = count(by(lab.log.since(mark), CONTROLLER))
    say(f"restart in sync: {calm.restart}")
