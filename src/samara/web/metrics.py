"""The metrics of one process in Prometheus' format, read from the engine when asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from samara.core.model import Key
from samara.core.table import Table
from samara.core.tally import Tally, total
from samara.engine.holds import Holds
from samara.engine.meter import BUCKETS, Histogram, Meter
from samara.engine.queue import Queue
from samara.kube.reflector import Reflector
from samara.web.health import Health


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the figures come from."""

    table: Table
    tallies: Mapping[Key, Tally]
    queue: Queue
    oldest: Callable[[], float]
    meter: Meter
    holds: Holds
    reflectors: tuple[Reflector, ...]
    leading: Callable[[], bool]
    health: Health
    orphans: Callable[[str], int]
    sources: Callable[[str], Iterable[object]]
    stall: Callable[[], float]
    unserved: Iterable[str] = ()
    """What nobody watches: kinds that the server does not know, and vocabularies whose original is at work."""


class Metrics:
    """A collector over `Sources`."""

    def __init__(self, sources: Sources) -> None:
        self._from = sources
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        yield from self._copies()
        yield from self._work()
        yield from self._admission()
        yield from self._watches()
        yield _gauge("samara_leader", "1 where this process leads", float(self._from.leading()))
        synced, _ = self._from.health.synced()  # what /syncz says, and nothing else
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
            mine = [tally for key, tally in self._from.tallies.items() if key.dialect in names]
            for state, number in total(mine).items():
                copies.add_metric([title, state], number)
            sources.add_metric([title], sum(1 for name in names for _ in self._from.sources(name)))
            orphans.add_metric([title], sum(map(self._from.orphans, names)))
        return copies, sources, orphans

    def _vocabularies(self) -> dict[str, set[str]]:
        """The dialects of each vocabulary: a series per vocabulary, and never two of the same labels."""
        found: dict[str, set[str]] = {}
        for dialect in self._from.table.dialects:
            found.setdefault(dialect.title, set()).add(dialect.name)
        return found

    def _work(self) -> Iterable[Metric]:
        writes = CounterMetricFamily("samara_writes", "Writes", labels=["vocabulary", "verb", "result"])
        for labels, number in self._from.meter.writes.items():
            writes.add_metric(list(labels), number)
        calls = CounterMetricFamily("samara_provider_calls", "Calls to secret managers", labels=["store", "result"])
        for call, number in self._from.meter.provider_calls.items():
            calls.add_metric(list(call), number)
        yield writes
        yield calls
        yield _histogram("samara_write_seconds", "Duration of writes", self._from.meter.write_seconds)
        yield _histogram("samara_plan_seconds", "Duration of planning one key", self._from.meter.plan_seconds)
        yield _gauge("samara_queue_depth", "Keys waiting to be planned", len(self._from.queue))
        yield _gauge("samara_oldest_pending_seconds", "Age of the oldest work that waits", self._from.oldest())

    def _admission(self) -> Iterable[Metric]:
        meter = self._from.meter
        asked = CounterMetricFamily("samara_admission_requests", "Questions to admission", labels=["kind", "result"])
        for labels, number in meter.admissions.items():
            asked.add_metric(list(labels), number)
        yield asked
        yield _histogram("samara_admission_seconds", "Duration of answers of admission", meter.admission_seconds)

    def _watches(self) -> Iterable[Metric]:
        quiet = GaugeMetricFamily("samara_watch_last_event_seconds", "Since the server was last heard", labels=["kind"])
        restarts = CounterMetricFamily("samara_watch_restarts", "Watches reopened", labels=["kind", "reason"])
        told = "1 where a kind, or the vocabulary of that name, cannot be served yet"
        waiting = GaugeMetricFamily("samara_kind_waiting", told, labels=["kind"])
        now = asyncio.get_running_loop().time()
        for reflector in self._from.reflectors:
            if not reflector.not_served:  # nobody expects to hear of a kind that is not there
                quiet.add_metric([str(reflector.kind)], now - reflector.last_heard)
            waiting.add_metric([str(reflector.kind)], float(reflector.not_ready_reason is not None))
            for reason, number in reflector.restarts.items():
                restarts.add_metric([str(reflector.kind), reason], number)
        for name in self._from.unserved:
            waiting.add_metric([name], 1.0)
        return quiet, restarts, waiting


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _histogram(name: str, about: str, of: Histogram) -> Metric:
    edges = [*(str(edge) for edge in BUCKETS), "+Inf"]
    sums = [float(sum(of.counts[: index + 1])) for index in range(len(edges))]
    return HistogramMetricFamily(name, about, buckets=list(zip(edges, sums, strict=True)), sum_value=of.total)
