"""The rows of the table, and the limits that the figures must meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import NamedTuple

from samara_devtools.bench.baseline import CREATES, UPDATES
from samara_devtools.bench.bystander import Bystander
from samara_devtools.bench.commands import KUBECTL, PLAN, STATUS, WHY, WHY_SOURCE, Commands, fastest
from samara_devtools.bench.fan_outs import FanOuts
from samara_devtools.bench.figures import Burst, median, percentile
from samara_devtools.bench.in_sync import InSync
from samara_devtools.bench.memory import Large, Memory


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
        if self.value is None or math.isnan(self.value):
            return "-"
        return f"{self.value:,.{self.digits}f} {self.unit}".strip()

    @property
    def limit(self) -> str:
        sign, figure = ("<=", self.most) if self.most is not None else (">=", self.least)
        return "" if figure is None else f"{sign} {figure:g} {self.unit}".strip()

    @property
    def passed(self) -> bool | None:
        if self.most is None and self.least is None:
            return None
        if self.value is None or math.isnan(self.value):
            return False
        # The figure is judged as it is shown: 1.0004 requests a copy are 1.00.
        shown = round(self.value, self.digits)
        return shown <= self.most if self.most is not None else shown >= (self.least or 0.0)


def fan_out_rows(fan_outs: FanOuts, least_rate: float) -> Iterator[Row]:
    """`least_rate` is the limit for the controller's rate, in percent of the bare client's."""
    bare = fan_outs.baseline
    for kind, verb, concurrency in ((CREATES, "creates", bare.creates), (UPDATES, "updates", bare.updates)):
        yield Row(f"B, {verb}, {concurrency} at a time", bare.per_second(kind), "/s", 0)
        yield Row(f"  {verb} without a watch", bare.per_second(kind, watched=False), "/s", 0)
        yield Row("  server and etcd CPU a write", bare.cpu_ms(kind), "ms")
    yield from _rows_of_bursts("fill", CREATES, fan_outs, least_rate)
    if fan_outs.changes:
        yield from _rows_of_bursts("change", UPDATES, fan_outs, least_rate)


def _rows_of_bursts(name: str, kind: int, fan_outs: FanOuts, least_rate: float) -> Iterator[Row]:
    rates = fan_outs.ratios_to_bare(kind, attrgetter("per_second"))
    cpus = fan_outs.ratios_to_bare(kind, lambda burst: burst.cpu_ms.serving)

    def middle(figure_of: Callable[[Burst], float]) -> float:
        return median(map(figure_of, fan_outs.bursts(kind)))

    yield Row(f"{name}: copies", middle(lambda burst: burst.per_second), "/s", 0)
    yield Row(f"{name}: of B", 100 * median(rates), "%", 0, least=least_rate)
    yield Row(f"{name}: mutating requests a copy", middle(lambda burst: burst.per_copy(burst.counts.writes)), most=1)
    yield Row(f"{name}: reading requests a copy", middle(lambda burst: burst.per_copy(burst.counts.reads)), most=0)
    yield Row(f"{name}: Events", middle(lambda burst: burst.counts.events), digits=0)
    yield Row(f"{name}: status writes", middle(lambda burst: burst.counts.status), digits=0)
    yield Row(f"{name}: server CPU a copy", middle(lambda burst: burst.cpu_ms.server), "ms")
    yield Row(f"{name}: etcd CPU a copy", middle(lambda burst: burst.cpu_ms.etcd), "ms")
    yield Row(f"{name}: controller CPU a copy", middle(lambda burst: burst.cpu_ms.client), "ms")
    yield Row(f"{name}: server and etcd CPU over bare", median(cpus), "x", most=1.15)


def bystander_rows(bystander: Bystander) -> Iterator[Row]:
    concurrency = bystander.equally_fast
    ours, bare = bystander.ours.p99, bystander.bare[concurrency].p99
    yield Row("bystander: p99 of its writes during a fill", ours, "ms", 1)
    yield Row(f"  beside a bare client as fast, {concurrency} at a time", bare, "ms", 1)
    yield Row("bystander: over that beside the bare client", ours / bare, "x", most=1.15)


def in_sync_rows(in_sync: InSync) -> Iterator[Row]:
    for when, latency, most in (("idle", in_sync.idle, (12, 60)), ("fan-out", in_sync.busy, (None, 1000))):
        if latency.copied:
            yield Row(f"new namespace, {when}, p50", percentile(latency.copied, 50), "ms", 1, most=most[0])
            yield Row("  until the server was asked", percentile(latency.requested, 50), "ms", 1)
            yield Row(f"new namespace, {when}, p99", percentile(latency.copied, 99), "ms", 1, most=most[1])
            yield Row("  until the server was asked", percentile(latency.requested, 99), "ms", 1)
    if in_sync.rest is not None:
        yield Row("at rest: writes", in_sync.rest.writes, digits=0, most=0)
        yield Row("at rest: reads", in_sync.rest.reads, digits=0)
        yield Row("at rest: Events", in_sync.rest.events, digits=0)
        yield Row("at rest: status writes", in_sync.rest.status, digits=0)
    if in_sync.restart is not None:
        yield Row("restart in sync: writes", in_sync.restart.writes, digits=0, most=0)
        yield Row("restart in sync: reads", in_sync.restart.reads, digits=0)
        yield Row("restart in sync: Events", in_sync.restart.events, digits=0)
        yield Row("restart in sync: status writes", in_sync.restart.status, digits=0)
        yield Row("restart in sync: ready after", in_sync.restart_ready, "s")
        yield Row("restart in sync: synced after", in_sync.restart_synced, "s")


def memory_rows(memory: Memory) -> Iterator[Row]:
    at = f"{memory.namespaces:,}"
    yield Row(f"ready on {at} namespaces after", memory.ready, "s", most=2)
    yield Row("memory before any copy", memory.empty, "MB", 1)
    yield Row(f"peak memory, {at} copies", max(memory.filled, memory.after_change), "MB", 1, most=60)
    yield Row(f"  more, beside {memory.unrelated:,} unrelated", memory.growth, "MB", 1, most=5)
    yield Row("loop blocked, filling", _blocked(memory.stall, memory.blocked), "ms", 0, most=200)


def command_rows(commands: Commands) -> Iterator[Row]:
    at = f"{commands.namespaces:,} namespaces, {commands.copies:,}"
    kubectl, status = fastest(commands.filled, KUBECTL), fastest(commands.before, STATUS)
    yield Row(f"{at} copies: {KUBECTL}", kubectl, "s")
    for command, most in ((WHY, 10), (WHY_SOURCE, None), (STATUS, 50)):
        seconds = fastest(commands.filled, command)
        yield Row(f"  {command}", seconds, "s")
        yield Row("    of kubectl", 100 * seconds / kubectl, "%", 1, most=most)
    yield Row(f"{at} to create: {STATUS}", status, "s")
    yield Row(f"  {PLAN}", fastest(commands.before, PLAN), "s")
    yield Row("    over status", fastest(commands.before, PLAN) / status, "x", most=2)


def large_rows(large: Large) -> Iterator[Row]:
    at = f"{large.copies:,} copies"
    yield Row(f"{at}: filled at", large.copies / max(large.seconds, 1e-9), "/s", 0)
    yield Row(f"{at}: peak memory, filling", large.filled, "MB", 1, most=150)
    yield Row(f"{at}: peak memory, starting", large.started, "MB", 1, most=150)
    yield Row(f"{at}: ready after", large.ready, "s", most=30)
    yield Row(f"{at}: synced after", large.synced, "s")
    yield Row(f"{at}: writes at restart", large.restart.writes if large.restart else None, digits=0, most=0)
    yield Row(f"{at}: loop blocked", _blocked(large.stall, large.blocked), "ms", 0, most=200)


def _blocked(stall: float | None, longest_answer: float | None) -> float | None:
    """The stall in milliseconds by the controller's metrics, else its longest answer, which is an upper bound."""
    seconds = longest_answer if stall is None else stall
    return None if seconds is None else 1000 * seconds


def table(rows: list[Row]) -> str:
    verdicts = {True: "pass", False: "FAIL", None: ""}
    widths = [
        max(len(cell) for cell in column)
        for column in zip(*((row.name, row.text, row.limit) for row in rows), strict=True)
    ]
    name, value, limit = widths
    return "\n".join(
        f"{row.name:<{name}}  {row.text:>{value}}  {row.limit:<{limit}}  {verdicts[row.passed]}".rstrip()
        for row in rows
    )
