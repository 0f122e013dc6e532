"""Measures a controller in sync: the latency of a new namespace, requests at rest, and a restart."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from samara_devtools.bench.audit import Counts, count, creations, first_writes, of_user
from samara_devtools.bench.fan_outs import run_fan_out
from samara_devtools.bench.figures import delays
from samara_devtools.bench.lab import ADMIN, CONTROLLER, Lab, say
from samara_devtools.bench.secrets import Source

IDLE_PAUSE = 0.05
"""Seconds between two new namespaces when idle, in which Kubernetes' own controllers finish as well."""
BUSY_PAUSE = 0.1
"""Seconds between two new namespaces during a fan-out."""
BUSY_SAMPLES = 50
MAX_FAN_OUTS = 5
"""Fan-outs are repeated until there are enough samples, but not more often than this."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from the answer to the creation of each new namespace, in ascending order."""

    copied: list[float] = field(default_factory=list)
    """Until the answer to the write of its copy."""
    requested: list[float] = field(default_factory=list)
    """Until that write arrives at the server. This part is the controller's own."""
    refused: int = 0
    """Writes that the server refused meanwhile."""

    def __add__(self, other: Latency) -> Latency:
        both = sorted((*self.copied, *other.copied)), sorted((*self.requested, *other.requested))
        return Latency(*both, self.refused + other.refused)


@dataclass(slots=True)
class InSync:
    ready: float | None = None
    """Seconds from the start of a controller when all namespaces exist and no copy does."""
    idle: Latency = field(default_factory=lambda: Latency())
    busy: Latency = field(default_factory=lambda: Latency())
    rest: Counts | None = None
    restart: Counts | None = None
    restart_ready: float | None = None
    restart_synced: float | None = None


async def measure_in_sync(lab: Lab) -> InSync:
    in_sync, source = InSync(), lab.source("first")
    with lab.running() as controller:
        in_sync.ready = await lab.wait_ready(controller)
        await lab.wait_settled()
        await run_fan_out(lab, controller, source)
        if lab.options.wants("latency"):
            await _latency(lab, in_sync, source)
        if lab.options.wants("rest"):
            in_sync.rest = await _rest(lab)
    if lab.options.wants("restart"):
        await _restart(lab, in_sync)
    return in_sync


async def _latency(lab: Lab, in_sync: InSync, source: Source) -> None:
    in_sync.idle = await _idle(lab, source)
    say(f"new namespaces when idle: {len(in_sync.idle.copied)} served")
    for _ in range(MAX_FAN_OUTS):
        source = source.changed()
        in_sync.busy += await _busy(lab, source)
        if len(in_sync.busy.copied) >= BUSY_SAMPLES:
            break
    say(f"new namespaces during a fan-out: {len(in_sync.busy.copied)} served")


async def _idle(lab: Lab, source: Source) -> Latency:
    mark = lab.log.catch_up()
    for _ in range(lab.options.fresh):
        at = lab.log.catch_up()
        name = f"n-{len(lab.namespaces):05}"
        await lab.add_namespace(name)
        await lab.wait_copied(source, at, {name})
        await asyncio.sleep(IDLE_PAUSE)
    return _latency_of(lab, source, mark)


async def _busy(lab: Lab, source: Source) -> Latency:
    """Creates namespaces while a change is copied to all others."""
    mark = lab.log.catch_up()
    await lab.write(source)
    fan_out = asyncio.create_task(lab.wait_copied(source, mark))
    while not fan_out.done():
        await asyncio.sleep(BUSY_PAUSE)
        await lab.add_namespace(f"n-{len(lab.namespaces):05}")
    await fan_out
    await lab.wait_settled()
    await lab.verify(source)
    return _latency_of(lab, source, mark)


def _latency_of(lab: Lab, source: Source, mark: int) -> Latency:
    entries = lab.log.since(mark)
    created, requests = creations(of_user(entries, ADMIN), "namespaces"), of_user(entries, CONTROLLER)
    first = first_writes(requests, source.name)
    return Latency(
        delays(created, {name: entry.ended for name, entry in first.items()}),
        delays(created, {name: entry.began for name, entry in first.items()}),
        count(requests).failed,
    )


async def _rest(lab: Lab) -> Counts:
    await lab.wait_settled()
    say(f"{lab.options.rest:.0f} s at rest")
    mark = lab.log.catch_up()
    await asyncio.sleep(lab.options.rest)
    return count(of_user(lab.log.since(mark), CONTROLLER))


async def _restart(lab: Lab, in_sync: InSync) -> None:
    mark = lab.log.catch_up()
    with lab.running() as controller:
        in_sync.restart_ready = await lab.wait_ready(controller)
        in_sync.restart_synced = await controller.synced()
        await lab.wait_settled()
        await asyncio.sleep(2.0)
        controller.check()
    in_sync.restart = count(of_user(lab.log.since(mark), CONTROLLER))
    say(f"restart in sync: {in_sync.restart}")
