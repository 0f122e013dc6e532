"""Computes the figures of the table from the audit log."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from samara_devtools.bench.audit import Counts, Entry, count, last_writes, of_user


class Cpu(NamedTuple):
    """CPU seconds that each process has used."""

    server: float
    etcd: float
    client: float

    def since(self, before: Cpu) -> Cpu:
        return Cpu(self.server - before.server, self.etcd - before.etcd, self.client - before.client)

    def per(self, copies: int) -> Cpu:
        """Milliseconds for each copy."""
        return Cpu(*(1000 * used / max(1, copies) for used in self))

    @property
    def serving(self) -> float:
        """CPU of the API server and etcd."""
        return self.server + self.etcd


@dataclass(frozen=True, slots=True)
class Burst:
    """Many writes of one kind: a trial of the bare client, or one fan-out of a controller."""

    copies: int
    seconds: float
    counts: Counts
    cpu_ms: Cpu
    """For each copy."""

    @property
    def per_second(self) -> float:
        return self.copies / self.seconds if self.seconds > 0 else 0.0

    def per_copy(self, requests: int) -> float:
        return requests / max(1, self.copies)


class WritesOf(NamedTuple):
    """Selects writes by user and name of the object."""

    user: str
    names: tuple[str, ...]
    resource: str = "secrets"


def fan_out(entries: Sequence[Entry], cause: WritesOf, effect: WritesOf, cpu: Cpu) -> Burst:
    """Measures from the answer to the first write of a source to the answer to the last write of a copy."""
    start = min(_times(of_user(entries, cause.user), cause))
    requests = of_user(entries, effect.user)
    ends = _times(requests, effect)
    return Burst(len(ends), max(ends) - start, count(requests), cpu.per(len(ends)))


def _times(entries: Sequence[Entry], writes: WritesOf) -> list[float]:
    """When each object was last written."""
    return [time for name in writes.names for time in last_writes(entries, name, writes.resource).values()]


def trial(entries: Sequence[Entry], user: str, cpu: Cpu) -> Burst:
    """Measures from the first request of a bare loop to its last answer."""
    requests = of_user(entries, user)
    writes = [entry for entry in requests if entry.is_write and entry.succeeded]
    seconds = max(entry.ended for entry in writes) - min(entry.began for entry in writes)
    return Burst(len(writes), seconds, count(requests), cpu.per(len(writes)))


def ratios(figures: Sequence[float], references: Sequence[float]) -> list[float]:
    """Divides each figure by the mean of the two references that were measured just before and just after it."""
    pairs = zip(figures, itertools.pairwise(references), strict=False)
    return [figure / statistics.fmean(pair) for figure, pair in pairs]


def delays(created: Mapping[str, float], written: Mapping[str, float]) -> list[float]:
    """Milliseconds from the creation of each namespace to the write in it, for those that have both."""
    return sorted(1000 * (written[name] - created[name]) for name in created if name in written)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The percentile by nearest rank, which is always a measured figure."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def median(values: Iterable[float]) -> float:
    listed = list(values)
    return statistics.median(listed) if listed else math.nan
