"""The rows of the table, and the limits that the figures must meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import NamedTuple

from samara_devtools.bench.audit import Counts
from samara_devtools.bench.bystander import Bystander
from samara_devtools.bench.figures import Burst, median, percentile
from samara_devtools.bench.fishysecret import SLOW_INTERVAL, SLOW_REFRESHES, Fishy
from samara_devtools.bench.idle import Calm
from samara_devtools.bench.memory import Large, Memory
from samara_devtools.bench.turns import Turns


class Row(NamedTuple):
    """One line of the table. A row without a limit is informative."""

    name: str
    value: float | None
    unit: str = ""
    digits: int = 2
    most: float | None = None
    least: float | None = None

    @property
    def text(self) -> str:
        return (
            "-"
            if self.value is None or math.isnan(self.value)
            else f"{self.value:,.{self.digits}f} {self.unit}".strip()
        )

    @property
    def bar(self) -> str:
        sign, bar = ("<=", self.most) if self.most is not None else (">=", self.least)
        return "" if bar is None else f"{sign} {bar:g} {self.unit}".strip()

    @property
    def passed(self) -> bool | None:
        if self.most is None and self.least is None:
            return None
        if self.value is None or math.isnan(self.value):
            return False
        # As it is shown: 1.0004 requests a copy are 1.00.
        shown = round(self.value, self.digits)
        return shown <= self.most if self.most is not None else shown >= (self.least or 0.0)


SHARE = {"accurate": 80}
"""Percent of the bare client's rate. In a tree each hop waits for the one before."""
USUAL_SHARE = 90


def of_turns(turns: Turns, vocabulary: str) -> Iterator[Row]:
    least = SHARE.get(vocabulary, USUAL_SHARE)
    base = turns.baseline
    for kind, verb, chosen in ((0, "creates", base.creates), (1, "updates", base.updates)):
        yield Row(f"B, {verb}, {chosen} at a time", base.per_second(kind), "/s", 0)
        yield Row(f"  {verb} without a watch", base.per_second(kind, watched=False), "/s", 0)
        yield Row("  server and etcd CPU a write", base.cpu_ms(kind), "ms")
    yield from _fans("fill", 0, turns, least)
    if turns.changes:
        yield from _fans("change", 1, turns, least)


def _fans(name: str, kind: int, turns: Turns, least: float) -> Iterator[Row]:
    bursts, base = (turns.fills, turns.changes)[kind], turns.baseline
    rates = turns.shares(kind, base.rounds, attrgetter("per_second"))
    cpus = turns.shares(kind, base.rounds, lambda burst: burst.cpu_ms.serving)

    def middle(of: Callable[[Burst], float]) -> float:
        return median(map(of, bursts))

    yield Row(f"{name}: copies", middle(lambda burst: burst.per_second), "/s", 0)
    yield Row(f"{name}: of B", 100 * median(rates), "%", 0, least=least)
    yield Row(f"{name}: mutating requests a copy", middle(lambda burst: burst.per_copy(burst.counts.writes)), most=1)
    yield Row(f"{name}: reading requests a copy", middle(lambda burst: burst.per_copy(burst.counts.reads)), most=0)
    yield Row(f"{name}: Events", middle(lambda burst: burst.counts.events), digits=0)
    yield Row(f"{name}: status writes", middle(lambda burst: burst.counts.status), digits=0)
    yield Row(f"{name}: server CPU a copy", middle(lambda burst: burst.cpu_ms.server), "ms")
    yield Row(f"{name}: etcd CPU a copy", middle(lambda burst: burst.cpu_ms.etcd), "ms")
    yield Row(f"{name}: controller CPU a copy", middle(lambda burst: burst.cpu_ms.client), "ms")
    yield Row(f"{name}: server and etcd CPU over bare", median(cpus), "x", most=1.15)


def of_bystander(bystander: Bystander) -> Iterator[Row]:
    ours, bare = bystander.ours.p99, bystander.bare[bystander.equal].p99
    yield Row("bystander: p99 of its writes during a fill", ours, "ms", 1)
    yield Row(f"  beside a bare client as fast, {bystander.equal} at a time", bare, "ms", 1)
    yield Row("bystander: over that beside the bare client", ours / bare, "x", most=1.15)


def of_calm(calm: Calm) -> Iterator[Row]:
    for when, latency, most in (("idle", calm.idle, (12, 60)), ("fan-out", calm.busy, (None, 1000))):
        if latency.copied:
            yield Row(f"new namespace, {when}, p50", percentile(latency.copied, 50), "ms", 1, most=most[0])
            yield Row("  until the server was asked", percentile(latency.requested, 50), "ms", 1)
            yield Row(f"new namespace, {when}, p99", percentile(latency.copied, 99), "ms", 1, most=most[1])
            yield Row("  until the server was asked", percentile(latency.requested, 99), "ms", 1)
    if calm.rest is not None:
        yield Row("at rest: writes", calm.rest.writes, digits=0, most=0)
        yield Row("at rest: reads", calm.rest.reads, digits=0)
        yield Row("at rest: Events", calm.rest.events, digits=0)
        yield Row("at rest: status writes", calm.rest.status, digits=0)
    if calm.restart is not None:
        yield Row("restart in sync: writes", calm.restart.writes, digits=0, most=0)
        yield Row("restart in sync: reads", calm.restart.reads, digits=0)
        yield Row("restart in sync: Events", calm.restart.events, digits=0)
        yield Row("restart in sync: status writes", calm.restart.status, digits=0)
        yield Row("restart in sync: ready after", calm.restart_ready, "s")
        yield Row("restart in sync: synced after", calm.restart_synced, "s")


def of_memory(memory: Memory) -> Iterator[Row]:
    at = f"{memory.namespaces:,}"
    yield Row(f"ready on {at} namespaces after", memory.ready, "s", most=2)
    yield Row("memory before any copy", memory.empty, "MB", 1)
    yield Row(f"peak memory, {at} copies", max(memory.filled, memory.alone), "MB", 1, most=60)
    yield Row(f"  more, beside {memory.unrelated:,} unrelated", memory.growth, "MB", 1, most=5)
    yield Row("loop blocked, filling", _blocked(memory.stall, memory.blocked), "ms", 0, most=200)


def of_large(large: Large) -> Iterator[Row]:
    at = f"{large.copies:,} copies"
    yield Row(f"{at}: filled at", large.copies / max(large.seconds, 1e-9), "/s", 0)
    yield Row(f"{at}: peak memory, filling", large.filled, "MB", 1, most=150)
    yield Row(f"{at}: peak memory, starting", large.started, "MB", 1, most=150)
    yield Row(f"{at}: ready after", large.ready, "s", most=30)
    yield Row(f"{at}: synced after", large.synced, "s")
    yield Row(f"{at}: writes at restart", large.restart.writes if large.restart else None, digits=0, most=0)
    yield Row(f"{at}: loop blocked", _blocked(large.stall, large.blocked), "ms", 0, most=200)


CONCURRENCY = 8
"""Reads of a secret manager at the same time."""


def of_fishy(fishy: Fishy) -> Iterator[Row]:
    yield Row("fill: Secrets", fishy.objects / max(fishy.filled, 1e-9), "/s", 0)
    yield Row("fill: reads of the manager", fishy.first_calls, digits=0, most=fishy.paths)
    yield Row("at rest: reads of a path in an interval", fishy.calls_each, most=1.15)
    yield Row("reads at the same time, ever", fishy.at_once, digits=0, most=CONCURRENCY)
    yield from _requests("at rest", fishy.rest, most=0)
    yield from _requests("restart in sync", fishy.restart, most=0)
    yield Row("restart in sync: reads of the manager", fishy.restart_calls, digits=0, most=fishy.paths)
    yield Row("rotation: from the manager to the last Secret", fishy.rotated, "s", 1)
    yield Row("rotation: writes", fishy.rotation.writes if fishy.rotation else None, digits=0)
    writes_of_object = fishy.timed.status / SLOW_REFRESHES / fishy.objects if fishy.timed else None
    yield Row(f"lastSynced: status writes an object in {SLOW_INTERVAL} s", writes_of_object, most=1.15)
    yield Row("  server and etcd CPU for each", fishy.timed_cpu.serving if fishy.timed_cpu else None, "ms")
    yield Row("peak memory", fishy.peak, "MB", 1)


def _requests(when: str, counts: Counts | None, most: float) -> Iterator[Row]:
    yield Row(f"{when}: writes", counts.writes if counts else None, digits=0, most=most)
    yield Row(f"{when}: status writes", counts.status if counts else None, digits=0, most=most)
    yield Row(f"{when}: requests that read", counts.reads if counts else None, digits=0)


def _blocked(stall: float | None, probed: float | None) -> float | None:
    """The stall in milliseconds by the controller's metrics, else its longest answer, which is an upper bound."""
    longest = probed if stall is None else stall
    return None if longest is None else 1000 * longest


def table(rows: list[Row]) -> str:
    verdicts = {True: "pass", False: "FAIL", None: ""}
    widths = [
        max(len(cell) for cell in column) for column in zip(*((r.name, r.text, r.bar) for r in rows), strict=True)
    ]
    name, value, bar = widths
    lines = [f"{r.name:<{name}}  {r.text:>{value}}  {r.bar:<{bar}}  {verdicts[r.passed]}".rstrip() for r in rows]
    return "\n".join(lines)
