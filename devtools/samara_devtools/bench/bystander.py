"""Measures the latency of another client's small writes during a fan-out, and beside an equally fast bare client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from samara_devtools.bench.audit import Entry, by
from samara_devtools.bench.bare import encode
from samara_devtools.bench.baseline import CONCURRENCY, MOST, BareLoop, watching
from samara_devtools.bench.figures import Burst, median, percentile
from samara_devtools.bench.lab import BARE, BYSTANDER, CONTROLLER, Lab, say
from samara_devtools.bench.secrets import source_of
from samara_devtools.bench.turns import fan

PAUSE = 0.01
"""Seconds between two writes of the bystander."""
AS_FAST = 0.95
"""A bare client with this share of our rate counts as equally fast. Two runs of one client differ as much."""


@dataclass(slots=True)
class Beside:
    """The runs of one client, and the latencies of the bystander's writes during all of them in milliseconds."""

    bursts: list[Burst] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    def add(self, burst: Burst, latencies: Sequence[float]) -> None:
        self.bursts.append(burst)
        self.latencies = sorted((*self.latencies, *latencies))

    @property
    def per_second(self) -> float:
        return median(burst.per_second for burst in self.bursts)

    @property
    def p99(self) -> float:
        return percentile(self.latencies, 99)


@dataclass(slots=True)
class Bystander:
    ours: Beside = field(default_factory=Beside)
    bare: dict[int, Beside] = field(default_factory=dict)
    """By the number of writes in flight."""

    @property
    def equal(self) -> int:
        """The writes in flight of the slowest bare client that reaches our rate, else of the fastest."""
        as_fast = [
            concurrency
            for concurrency, beside in self.bare.items()
            if beside.per_second >= AS_FAST * self.ours.per_second
        ]
        rates = {concurrency: self.bare[concurrency].per_second for concurrency in as_fast or self.bare}
        return min(rates, key=rates.__getitem__) if as_fast else max(rates, key=rates.__getitem__)


async def stand_by(lab: Lab) -> Bystander:
    bystander = Bystander(bare={concurrency: Beside() for concurrency in CONCURRENCY})
    for number in range(1, lab.options.rounds + 1):
        await _beside_us(lab, bystander.ours, f"bystander-{number}")
        for concurrency, beside in bystander.bare.items():
            await _beside_bare(lab, beside, concurrency, f"bystander-bare-{number}-{concurrency}")
    for name, beside in (
        ("the controller", bystander.ours),
        *((f"{concurrency} at a time", it) for concurrency, it in bystander.bare.items()),
    ):
        say(f"bystander beside {name}: {beside.per_second:.0f}/s, p99 {beside.p99:.1f} ms of {len(beside.latencies)}")
    return bystander


async def _beside_us(lab: Lab, beside: Beside, name: str) -> None:
    async with lab.ready() as controller, _writing(lab):
        mark = lab.log.catch_up()
        burst = await fan(lab, controller, source_of(lab.options, name))
        beside.add(burst, latencies_during(lab.log.since(mark), BYSTANDER, CONTROLLER))


async def _beside_bare(lab: Lab, beside: Beside, workers: int, name: str) -> None:
    loop = BareLoop(lab, name, min(MOST, len(lab.namespaces)))
    async with watching(lab), _writing(lab):
        mark = lab.log.catch_up()
        burst = await loop.measured(workers, loop.create)
        beside.add(burst, latencies_during(lab.log.since(mark), BYSTANDER, BARE))
    await loop.clean_up()


@asynccontextmanager
async def _writing(lab: Lab) -> AsyncIterator[None]:
    """Replaces a small ConfigMap repeatedly inside the context."""
    over = asyncio.Event()

    async def write() -> None:
        folder = f"/api/v1/namespaces/{lab.options.home}/configmaps"
        name = f"bystander-{lab.log.poll()}"
        await lab.other.send("POST", folder, _config_map(name, 0))
        for number in count(1):
            if over.is_set():
                return
            await lab.other.send("PUT", f"{folder}/{name}", _config_map(name, number))
            await asyncio.sleep(PAUSE)

    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        try:
            yield
        finally:
            over.set()


def _config_map(name: str, number: int) -> bytes:
    return encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": str(number)}})


def latencies_during(entries: Sequence[Entry], user: str, writer: str) -> list[float]:
    """Latencies of a user's writes that began between the first and the last write of a Secret by another user.

    By the server's clock: the bystander and the bare client share a process, and would wait for each other.
    """
    busy = [entry for entry in by(entries, writer) if entry.resource == "secrets" and entry.is_write and entry.is_good]
    if not busy:
        return []
    begin, end = min(entry.began for entry in busy), max(entry.ended for entry in busy)
    return [
        1000 * (entry.ended - entry.began)
        for entry in by(entries, user)
        if entry.is_write and entry.is_good and begin <= entry.began <= end
    ]
