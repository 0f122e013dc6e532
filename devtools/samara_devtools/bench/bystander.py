"""Measures the latency of another client's small writes during a fan-out, and beside an equally fast bare client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from samara_devtools.bench.audit import Entry, of_user
from samara_devtools.bench.bare import encode
from samara_devtools.bench.baseline import CONCURRENCY, MAX_WRITES, BareLoop, watching
from samara_devtools.bench.fan_outs import run_fan_out
from samara_devtools.bench.figures import Burst, median, percentile
from samara_devtools.bench.lab import BARE, BYSTANDER, CONTROLLER, Lab, say

PAUSE = 0.01
"""Seconds between two writes of the bystander."""
SAME_RATE = 0.95
"""A bare client with this share of our rate counts as equally fast. Two runs of one client differ by as much."""


@dataclass(slots=True)
class ClientRuns:
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
    ours: ClientRuns = field(default_factory=ClientRuns)
    bare: dict[int, ClientRuns] = field(default_factory=dict)
    """By the number of writes in flight."""

    @property
    def equally_fast(self) -> int:
        """The writes in flight of the slowest bare client that reaches our rate, else of the fastest."""
        rates = {concurrency: runs.per_second for concurrency, runs in self.bare.items()}
        as_fast = [concurrency for concurrency, rate in rates.items() if rate >= SAME_RATE * self.ours.per_second]
        return min(as_fast, key=rates.__getitem__) if as_fast else max(rates, key=rates.__getitem__)


async def measure_bystander(lab: Lab) -> Bystander:
    bystander = Bystander(bare={concurrency: ClientRuns() for concurrency in CONCURRENCY})
    for number in range(1, lab.options.rounds + 1):
        await _beside_us(lab, bystander.ours, f"bystander-{number}")
        for concurrency, runs in bystander.bare.items():
            await _beside_bare(lab, runs, concurrency, f"bystander-bare-{number}-{concurrency}")
    _say_latencies("the controller", bystander.ours)
    for concurrency, runs in bystander.bare.items():
        _say_latencies(f"{concurrency} at a time", runs)
    return bystander


def _say_latencies(client: str, runs: ClientRuns) -> None:
    say(f"bystander beside {client}: {runs.per_second:.0f}/s, p99 {runs.p99:.1f} ms of {len(runs.latencies)}")


async def _beside_us(lab: Lab, runs: ClientRuns, name: str) -> None:
    async with lab.ready() as controller, _writing(lab):
        mark = lab.log.catch_up()
        burst = await run_fan_out(lab, controller, lab.source(name))
        runs.add(burst, latencies_during(lab.log.since(mark), BYSTANDER, CONTROLLER))


async def _beside_bare(lab: Lab, runs: ClientRuns, workers: int, name: str) -> None:
    loop = BareLoop(lab, name, min(MAX_WRITES, len(lab.namespaces)))
    async with watching(lab), _writing(lab):
        mark = lab.log.catch_up()
        burst = await loop.measured(workers, loop.create)
        runs.add(burst, latencies_during(lab.log.since(mark), BYSTANDER, BARE))
    await loop.clean_up()


@asynccontextmanager
async def _writing(lab: Lab) -> AsyncIterator[None]:
    """Replaces a small ConfigMap repeatedly inside the context."""
    over = asyncio.Event()

    async def write() -> None:
        path = f"/api/v1/namespaces/{lab.options.home}/configmaps"
        name = f"bystander-{lab.log.poll()}"
        await lab.bystander.send("POST", path, _config_map(name, 0))
        for number in count(1):
            if over.is_set():
                return
            await lab.bystander.send("PUT", f"{path}/{name}", _config_map(name, number))
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
    fan_out = [
        entry
        for entry in of_user(entries, writer)
        if entry.resource == "secrets" and entry.is_write and entry.succeeded
    ]
    if not fan_out:
        return []
    begin, end = min(entry.began for entry in fan_out), max(entry.ended for entry in fan_out)
    return [
        1000 * (entry.ended - entry.began)
        for entry in of_user(entries, user)
        if entry.is_write and entry.succeeded and begin <= entry.began <= end
    ]
