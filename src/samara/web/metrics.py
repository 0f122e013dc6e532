"""The page `/metrics`: what the engine has counted, and collectors that read its state at each scrape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from math import inf
from time import monotonic

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from samara.core.copy_counts import CopyCounts, count_by_state
from samara.core.model import Key
from samara.core.registry import Registry
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.workqueue import WorkQueue
from samara.kube.cache import Cache
from samara.kube.reflector import Reflector
from samara.web.health import Health

_REUSED = 10
"""A text is sent again for this many times the time that it took to compute, so that scrapes take at most a tenth of
the process's time. Any client that reaches the port can request the page, and it grows with the cluster."""


class MetricsPage:
    """The text of the page: the state that the collectors read, and then what the engine has counted."""

    def __init__(
        self, counted: CollectorRegistry, *collectors: Collector, clock: Callable[[], float] = monotonic
    ) -> None:
        self._counted = counted
        self._clock = clock
        self._recent = b""
        self._recent_until = -inf
        self._state = CollectorRegistry(auto_describe=False)
        for collector in collectors:
            self._state.register(collector)

    def text(self) -> bytes:
        return generate_latest(self._state) + generate_latest(self._counted)

    def recent_text(self) -> bytes:
        """The text, not computed again if that was done a short time ago."""
        started = self._clock()
        if started >= self._recent_until:
            self._recent = self.text()
            finished = self._clock()
            self._recent_until = finished + _REUSED * (finished - started)
        return self._recent


class CopyMetrics(Collector):
    """Sources, their copies by state, and orphans."""

    def __init__(
        self,
        registry: Registry,
        counts: Mapping[Key, CopyCounts],
        sources: Callable[[str], Iterable[object]],
        count_orphans: Callable[[str], int],
    ) -> None:
        """`sources` and `count_orphans` take the name of a source type."""
        self._counts = counts
        self._sources = sources
        self._count_orphans = count_orphans
        self._source_types: dict[str, set[str]] = {}
        """By vocabulary, which is the label: Prometheus refuses two samples with the same labels."""
        for source_type in registry.source_types:
            self._source_types.setdefault(source_type.vocabulary, set()).add(source_type.name)

    def collect(self) -> Iterable[Metric]:
        copies = GaugeMetricFamily("samara_copies", "Wanted copies by state", labels=["vocabulary", "state"])
        sources = GaugeMetricFamily("samara_sources", "Sources", labels=["vocabulary"])
        orphans = GaugeMetricFamily(
            "samara_orphans",
            "Marked copies without a source, of the watched kinds; namespaces do not count",
            labels=["vocabulary"],
        )
        for vocabulary, names in self._source_types.items():
            counts = [count for key, count in self._counts.items() if key.source_type in names]
            for state, number in count_by_state(counts).items():
                copies.add_metric([vocabulary, state], number)
            sources.add_metric([vocabulary], sum(1 for name in names for _ in self._sources(name)))
            orphans.add_metric([vocabulary], sum(map(self._count_orphans, names)))
        return copies, sources, orphans


class QueueMetrics(Collector):
    """How much work waits, and for how long."""

    def __init__(self, queue: WorkQueue, oldest_pending: Callable[[], float]) -> None:
        self._queue = queue
        self._oldest_pending = oldest_pending

    def collect(self) -> Iterable[Metric]:
        yield _gauge("samara_queue_depth", "Keys waiting to be planned", len(self._queue))
        yield _gauge("samara_oldest_pending_seconds", "Age of the oldest waiting work", self._oldest_pending())


class WatchMetrics(Collector):
    """The state of each watch."""

    def __init__(self, reflectors: tuple[Reflector, ...], unserved: Iterable[str]) -> None:
        """`unserved` names kinds that the API server does not serve, and vocabularies whose original is running."""
        self._reflectors = reflectors
        self._unserved = unserved

    def collect(self) -> Iterable[Metric]:
        quiet = GaugeMetricFamily(
            "samara_watch_last_event_seconds", "Time since the API server last sent something", labels=["kind"]
        )
        restarts = CounterMetricFamily("samara_watch_restarts", "Watches reopened", labels=["kind", "reason"])
        about = "1 if a kind, or the vocabulary of that name, cannot be served yet"
        waiting = GaugeMetricFamily("samara_kind_waiting", about, labels=["kind"])
        now = asyncio.get_running_loop().time()
        for reflector in self._reflectors:
            if not reflector.not_served:
                quiet.add_metric([str(reflector.kind)], now - reflector.last_received)
            waiting.add_metric([str(reflector.kind)], float(reflector.not_ready_reason is not None))
            for reason, number in reflector.restarts.items():
                restarts.add_metric([str(reflector.kind), reason], number)
        for name in self._unserved:
            waiting.add_metric([name], 1.0)
        return quiet, restarts, waiting


class ProcessMetrics(Collector):
    """The state of the process as a whole."""

    def __init__(
        self,
        health: Health,
        guard: MassDeleteGuard,
        is_leading: Callable[[], bool],
        longest_stall: Callable[[], float],
    ) -> None:
        self._health = health
        self._guard = guard
        self._is_leading = is_leading
        self._longest_stall = longest_stall

    def collect(self) -> Iterable[Metric]:
        yield _gauge("samara_leader", "1 if this process leads", float(self._is_leading()))
        synced, _ = self._health.synced()
        yield _gauge(
            "samara_synced",
            "1 if `/syncz` is true: ready, and everything listed has been planned and written",
            float(synced),
        )
        held = sum(held_set.count for held_set in self._guard.held.values())
        yield _gauge("samara_mass_delete_held", "Deletions held by the limit on mass deletion", held)
        yield _gauge(
            "samara_loop_stall_seconds",
            "The longest time for which the event loop was blocked, not counting waits for a processor",
            self._longest_stall(),
        )


def count_orphans(cache: Cache, source_type: str) -> int:
    """How many copies of a source type have lost their source. Namespaces belong to their users and do not count."""
    sources = set(cache.sources(source_type))
    keys = [key for key in cache.marked_sources() if key.source_type == source_type and key.source not in sources]
    return sum(copy.ref.kind.namespaced for key in keys for copy in cache.copies_of(key))


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)
