"""Counters and histograms of writes, plans and requests. State is read at scrape time instead (`web/metrics.py`)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The counters and histograms of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._writes = _Counters(self.registry, "samara_writes", "Writes", "vocabulary", "verb", "result")
        self._write_seconds = self._histogram("samara_write_seconds", "Duration of a write")
        self._plan_seconds = self._histogram("samara_plan_seconds", "Duration of planning one key")
        self._provider_calls = _Counters(
            self.registry, "samara_provider_calls", "Calls to secret managers", "store", "result"
        )
        self._admissions = _Counters(self.registry, "samara_admission_requests", "Admission requests", "kind", "result")
        self._admission_seconds = self._histogram("samara_admission_seconds", "Duration of an admission request")

    def count_write(self, vocabulary: str, verb: str, result: str, seconds: float) -> None:
        self._writes.increment(vocabulary, verb, result)
        self._write_seconds.observe(seconds)

    def observe_plan(self, seconds: float) -> None:
        self._plan_seconds.observe(seconds)

    def count_provider_call(self, store: str, result: str) -> None:
        self._provider_calls.increment(store, result)

    def count_admission(self, kind: str, result: str, seconds: float) -> None:
        self._admissions.increment(kind, result)
        self._admission_seconds.observe(seconds)

    def _histogram(self, name: str, description: str) -> Histogram:
        return Histogram(name, description, buckets=BUCKETS, registry=self.registry)


class _Counters:
    """A counter with labels. `Counter.labels` validates and locks on each call, so its children are kept."""

    def __init__(self, registry: CollectorRegistry, name: str, description: str, *labels: str) -> None:
        self._counter = Counter(name, description, labels, registry=registry)
        self._children: dict[tuple[str, ...], Counter] = {}

    def increment(self, *values: str) -> None:
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = self._counter.labels(*values)
        child.inc()
