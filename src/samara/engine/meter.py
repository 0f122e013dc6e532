"""What is counted for the metrics; the web layer shows it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(slots=True)
class Histogram:
    """Counts of durations, cheap enough for every write."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def observe(self, seconds: float) -> None:
        self.total += seconds
        for index, edge in enumerate(BUCKETS):
            if seconds <= edge:
                self.counts[index] += 1
                return
        self.counts[-1] += 1


@dataclass(slots=True)
class Meter:
    """Counters of one process."""

    writes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """By vocabulary, verb and result."""
    write_seconds: Histogram = field(default_factory=Histogram)
    plan_seconds: Histogram = field(default_factory=Histogram)
    admissions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By kind and result."""
    admission_seconds: Histogram = field(default_factory=Histogram)
    provider_calls: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def wrote(self, vocabulary: str, verb: str, result: str, took: float) -> None:
        self.writes[vocabulary, verb, result] += 1
        self.write_seconds.observe(took)

    def called_provider(self, store: str, result: str) -> None:
        self.provider_calls[store, result] += 1

    def admitted(self, kind: str, result: str, took: float) -> None:
        self.admissions[kind, result] += 1
        self.admission_seconds.observe(took)
