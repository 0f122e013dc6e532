"""The page `/metrics`: what the engine has counted, and its state at the time of the scrape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from samara.core.copy_counts import CopyCounts, total
from samara.core.model import Key
from samara.core.registry import Registry
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.metrics import Metrics
from samara.engine.workqueue import WorkQueue
from samara.kube.cache import Cache
from samara.kube.reflector import Reflector
from samara.web.health import Health


@dataclass(frozen=True, slots=True)
class Sources:
    """What is read at each scrape."""

    registry: Registry
    tallies: Mapping[Key, CopyCounts]
    queue: WorkQueue
    oldest: Callable[[], float]
    metrics: Metrics
    holds: MassDeleteGuard
    reflectors: tuple[Reflector, ...]
    leading: Callable[[], bool]
    health: Health
    orphans: Callable[[str], int]
    sources: Callable[[str], Iterable[object]]
    stall: Callable[[], float]
    unserved: Iterable[str] = ()
    """Kinds that the API server does not serve, and vocabularies whose original operator is running."""


class MetricsPage(Collector):
    """Collects the state of the engine, and prints it with what the engine has counted."""

    def __init__(self, sources: Sources) -> None:
        self._from = sources
        self._state = CollectorRegistry(auto_describe=False)
        self._state.register(self)

    def text(self) -> bytes:
        return generate_latest(self._state) + generate_latest(self._from.metrics.registry)

    def collect(self) -> Iterable[Metric]:
        yield from self._copies()
        yield from self._work()
        yield from self._watches()
        yield _gauge("samara_leader", "1 where this process leads", float(self._from.leading()))
        synced, _ = self._from.health.synced()
        yield _gauge(
            "samara_synced",
            "1 where `/syncz` is true: ready, and everything listed has been planned and written",
            float(synced),
        )
        yield _gauge(
            "samara_mass_delete_held",
            "Removals held by the brake",
            sum(h.count for h in self._from.holds.held.values()),
        )
        yield _gauge(
            "samara_loop_stall_seconds",
            "The longest time for which the event loop stood still, not counting waits for a processor",
            self._from.stall(),
        )

    def _copies(self) -> Iterable[Metric]:
        copies = GaugeMetricFamily("samara_copies", "Wanted copies by state", labels=["vocabulary", "state"])
        sources = GaugeMetricFamily("samara_sources", "Sources", labels=["vocabulary"])
        orphans = GaugeMetricFamily(
            "samara_orphans",
            "Marked copies whose source is no source any more, of the kinds that are watched; namespaces do not count",
            labels=["vocabulary"],
        )
        for title, names in self._vocabularies().items():
            mine = [tally for key, tally in self._from.tallies.items() if key.source_type in names]
            for state, number in total(mine).items():
                copies.add_metric([title, state], number)
            sources.add_metric([title], sum(1 for name in names for _ in self._from.sources(name)))
            orphans.add_metric([title], sum(map(self._from.orphans, names)))
        return copies, sources, orphans

    def _vocabularies(self) -> dict[str, set[str]]:
        """The names of the vocabularies of each vocabulary. Prometheus refuses two samples with the same labels."""
        found: dict[str, set[str]] = {}
        for source_type in self._from.registry.source_types:
            found.setdefault(source_type.vocabulary, set()).add(source_type.name)
        return found

    def _work(self) -> Iterable[Metric]:
        yield _gauge("samara_queue_depth", "Keys waiting to be planned", len(self._from.queue))
        yield _gauge("samara_oldest_pending_seconds", "Age of the oldest work that waits", self._from.oldest())

    def _watches(self) -> Iterable[Metric]:
        quiet = GaugeMetricFamily("samara_watch_last_event_seconds", "Since the server was last heard", labels=["kind"])
        restarts = CounterMetricFamily("samara_watch_restarts", "Watches reopened", labels=["kind", "reason"])
        told = "1 where a kind, or the vocabulary of that name, cannot be served yet"
        waiting = GaugeMetricFamily("samara_kind_waiting", told, labels=["kind"])
        now = asyncio.get_running_loop().time()
        for reflector in self._from.reflectors:
            if not reflector.not_served:
                quiet.add_metric([str(reflector.kind)], now - reflector.last_heard)
            waiting.add_metric([str(reflector.kind)], float(reflector.not_ready_reason is not None))
            for reason, number in reflector.restarts.items():
                restarts.add_metric([str(reflector.kind), reason], number)
        for name in self._from.unserved:
            waiting.add_metric([name], 1.0)
        return quiet, restarts, waiting


def orphans(cache: Cache, source_type: str) -> int:
    """Marked copies whose source is no source any more. Namespaces do not count: they belong to their users."""
    sources = set(cache.sources(source_type))
    keys = [key for key in cache.marked_sources() if key.source_type == source_type and key.source not in sources]
    return sum(copy.ref.kind.namespaced for key in keys for copy in cache.copies_of(key))


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)
