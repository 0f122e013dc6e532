"""Builds the parts of the operator and runs them in one task group, from the first list to the last write."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import disable_created_metrics

from samara import __version__, crds, log
from samara.assembly import (
    CONVERTERS,
    cluster_policy,
    mass_delete_limit,
    registry_of,
    secret_store,
    secret_store_vocabularies,
    served_source_types,
)
from samara.core.copy_counts import CopyCounts
from samara.core.model import QUOTA, Key, Kind
from samara.core.registry import Registry
from samara.engine.controller import Controller
from samara.engine.deletions import DeletionGate
from samara.engine.event_sink import EventSink
from samara.engine.events import EventRecorder
from samara.engine.fetcher import Fetcher
from samara.engine.hold_store import HoldStore
from samara.engine.leader import LeaderElector
from samara.engine.limiter import ConcurrencyLimiter
from samara.engine.limits import DriftLimiter, FlapDamper
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.messages import Inbox
from samara.engine.metrics import Metrics
from samara.engine.outbox import Outbox
from samara.engine.planner import Planner
from samara.engine.process import FaultPoints, Watchdog, utc_timestamp
from samara.engine.results import ResultHandler
from samara.engine.retry import RetryBackoff
from samara.engine.status import StatusReporter
from samara.engine.workqueue import WorkQueue
from samara.engine.write_gate import WriteGate
from samara.engine.writer import Applier, Writer
from samara.environment import Environment, discover_at_start, discover_environment, unless_stopped
from samara.kube.answers import NO_READINGS
from samara.kube.auth import Access
from samara.kube.cache import Cache
from samara.kube.client import Client, unrestricted
from samara.kube.codec import Codec
from samara.kube.errors import SamaraError
from samara.kube.reflector import Reflector, ReflectorTimings
from samara.secretstores.config import StoreConfigWatcher
from samara.secretstores.poller import PollTimings, SecretPoller
from samara.secretstores.readings import Readings
from samara.settings import Settings
from samara.web.health import Health
from samara.web.metrics import CopyMetrics, MetricsPage, ProcessMetrics, QueueMetrics, WatchMetrics, count_orphans
from samara.web.server import serving

if TYPE_CHECKING:
    from samara.admission.admission import Admission, Listener

DRAIN = 10.0
"""Seconds that the writes in flight may take after a signal."""
LAST_EVENTS = 0.5
"""Seconds that sending their Events may take after that. It is short because a standby waits for the lease."""
STANDSTILL = 2.0
"""The process ends itself if the event loop does not run for this many durations of the lease."""
DISCOVERY_FIRST, DISCOVERY_MAX = 2.0, 60.0
"""Seconds between two discoveries while something is missing: at first, and at most."""
DISCOVERY_BESIDE_ORIGINAL = 8.0
"""Most seconds between two discoveries while an original controller runs. It takes several to see that it stopped."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `samara run` that are not settings."""

    observe: bool = False
    leader_elect: bool = False
    http_address: str = ":8080"
    watch_seconds: float = 300.0
    request_seconds: float = 30.0
    webhook: Listener | None = None
    """Where the webhook server listens. None if there is none."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Clients of the API server. There are several so that the lease does not wait for the requests of copies."""

    objects: Client
    """For sources and copies. It writes only while this process leads."""
    own: Client
    """For the lease, the held deletions and the environment. It writes also on a standby."""
    admission: Client
    """For reads and dry runs of the webhook server, which runs on a standby too."""


class Operator:
    """All parts of the program for one environment, and the order in which they start and stop."""

    def __init__(
        self,
        settings: Settings,
        options: Options,
        access: Access,
        clients: Clients,
        leader: LeaderElector | None,
        environment: Environment,
    ) -> None:
        self.environment = environment
        self._settings, self._options, self._clients, self._leader = settings, options, clients, leader
        self._unserved: Mapping[str, str] = environment.waiting
        """What is missing, and why."""
        self._changed = asyncio.Event()
        """Set when what is served has changed, so that the operator must be built again."""
        registry = self._registry = registry_of(
            settings, environment.kinds, frozenset(environment.originals), own_namespace=access.namespace
        )
        inbox, metrics = Inbox(), Metrics()
        secrets, self._store_config = _build_secret_poller(settings, access.namespace, clients.objects, metrics, inbox)
        codec = Codec(registry.managers)
        readings = secrets.readings.known if secrets is not None else NO_READINGS
        cache = Cache(registry, extra_kinds=(QUOTA,), build_content=codec.content, readings=readings)
        engine = _build_engine(
            settings, options, access, clients, may_write(options, leader), codec, cache, secrets, inbox, metrics
        )
        self._controller, self._events, self._hold_store = engine.controller, engine.events, engine.hold_store
        timings = ReflectorTimings(silence=settings.timers.silence, watch_length=options.watch_seconds)
        self._reflectors = tuple(
            Reflector(kind, clients.objects, cache, codec, inbox, timings) for kind in cache.stores
        )
        self._watchdog = Watchdog(STANDSTILL * settings.timers.lease)
        self._admission = _build_admission(
            settings, options, environment, clients.admission, access.namespace, codec, cache, metrics, self._is_leading
        )
        converted = _converted_kinds(registry) if self._admission is not None else frozenset()
        self.health = Health(
            self._reflectors, self._controller, leader, self._admission, lambda: self._unserved, converted
        )
        self.metrics = MetricsPage(
            metrics.registry,
            CopyMetrics(registry, engine.all_counts, cache.sources, partial(count_orphans, cache)),
            QueueMetrics(engine.queue, self._controller.oldest_pending),
            WatchMetrics(self._reflectors, tuple(environment.waiting)),
            ProcessMetrics(self.health, engine.guard, self._is_leading, lambda: self._watchdog.longest_stall),
        )

    def _is_leading(self) -> bool:
        return self._controller.leading

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set or the environment has changed, and then lets the writes in flight finish."""
        for setting, patterns in unselected_labels(self._registry):
            why = "no source selects a namespace by a label that only a pattern lets tenants set; write its key in full"
            log.warning("labels.not-selected", setting=setting, patterns=patterns, why=why)
        listening = serving(self._options.http_address, self.health, self.metrics)
        async with listening, asyncio.TaskGroup() as group:
            tasks = [group.create_task(task) for task in self._tasks()]
            await _wait_for_any(stop, self._changed)
            log.info("stopping", flying=self._controller.in_flight)
            await self._stop()
            for task in tasks:
                task.cancel()

    async def _stop(self) -> None:
        """Closes admission first, since that needs the lease. Releases the lease last, since a standby then leads."""
        close = () if self._admission is None else (self._admission.close(),)
        await asyncio.gather(*close, self._controller.drain(DRAIN))
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_EVENTS):
                await self._events.flush()
        if self._leader is not None:
            await self._leader.release()

    def _tasks(self) -> Iterator[Coroutine[None, None, None]]:
        yield self._watchdog.heartbeat()
        for reflector in self._reflectors:
            yield reflector.run()
        if self._admission is not None:
            yield self._admission.run()
        if self.environment.waiting:
            yield self._await_environment()
        yield self._lead()

    async def _await_environment(self) -> None:
        """Ends the run when something that was missing has appeared. Reflectors report kinds that disappear."""
        for name, why in self.environment.waiting.items():
            log.warning("waiting", what=name, why=why)
        wait = DISCOVERY_FIRST
        while True:
            await asyncio.sleep(wait)
            wait = min(2 * wait, DISCOVERY_BESIDE_ORIGINAL if self.environment.originals else DISCOVERY_MAX)
            now = await discover_environment(self._clients.own, self._settings, self.environment)
            self._unserved = {**self._unserved, **now.waiting}
            if not now.serves_same_as(self.environment):
                log.info("surroundings.changed", waiting=",".join(now.waiting))
                self.environment = now
                self._changed.set()
                return

    async def _lead(self) -> None:
        """Waits until this process leads, then plans and writes."""
        if self._leader is not None:
            await self._leader.acquire()
        async with asyncio.TaskGroup() as group:
            if self._leader is not None:
                group.create_task(_keep_leading(self._leader))
            if not self._options.observe:
                await self._hold_store.load()  # nothing may be deleted before the held sets are known
                group.create_task(self._hold_store.run())
            group.create_task(self._controller.run())
            if self._store_config is not None:
                group.create_task(self._store_config.run())
            group.create_task(self._events.run())


def unselected_labels(registry: Registry) -> list[tuple[str, str]]:
    """The settings with patterns of labels that tenants choose, each with its patterns, if a served source type selects
    namespaces by labels."""
    if not any(
        source_type.enabled and source_type.selected_labels is not None for source_type in registry.source_types
    ):
        return []
    return [(chosen.setting, ",".join(chosen.patterns)) for chosen in registry.chosen_labels if chosen.patterns]


class LeaseLostError(SamaraError):
    """The lease could not be renewed in time. Another process may lead, so this one must not go on."""


async def _keep_leading(leader: LeaderElector) -> None:
    await leader.renew_until_lost()
    raise LeaseLostError("the lease could not be kept; ending, so that at most one operator writes")


def may_write(options: Options, leader: LeaderElector | None) -> Callable[[], bool]:
    """The check that the client of copies makes directly before each write."""
    if options.observe:
        return _never
    return leader.is_leader if leader is not None else _always


def _never() -> bool:
    return False


def _always() -> bool:
    return True


def leader_elector(settings: Settings, access: Access, client: Client) -> LeaderElector:
    identity = f"{socket.gethostname()}_{os.getpid()}_{os.urandom(4).hex()}"
    return LeaderElector(client, access.namespace, identity, settings.timers.lease, settings.timers.renew)


@dataclass(frozen=True, slots=True)
class _Engine:
    """The parts that plan and write: three that the operator runs, and three that the metrics read."""

    controller: Controller
    events: EventRecorder
    hold_store: HoldStore
    guard: MassDeleteGuard
    queue: WorkQueue
    all_counts: Mapping[Key, CopyCounts]


def _build_engine(  # noqa: PLR0913 - what its parts are built from
    settings: Settings,
    options: Options,
    access: Access,
    clients: Clients,
    may_write: Callable[[], bool],
    codec: Codec,
    cache: Cache,
    secrets: SecretPoller | None,
    inbox: Inbox,
    metrics: Metrics,
) -> _Engine:
    client, registry, clock = clients.objects, cache.registry, time.monotonic
    queue, all_counts = WorkQueue(clock), dict[Key, CopyCounts]()
    limiter = ConcurrencyLimiter(settings.writes.in_flight, settings.writes.per_second, clock)
    outbox = Outbox(clock, limiter)
    events = EventRecorder(EventSink(client, clock, silent=options.observe), cache, clock)
    retry, drift, flaps = RetryBackoff(settings.timers.backoff_most, clock), DriftLimiter(clock), FlapDamper(clock)
    hold = settings.mass_delete.hold if settings.mass_delete else 0.0
    guard = MassDeleteGuard(mass_delete_limit(settings), hold, clock)
    hold_store = HoldStore(clients.own, access.namespace, guard, inbox.post)
    deletions = DeletionGate(cache, registry, guard, flaps, clock, settings.source_gone_after)
    fetcher = Fetcher(client, codec, cache, access.namespace, inbox.post)
    status = StatusReporter(cache, registry, all_counts, clock)
    planner = Planner(
        cache,
        registry,
        cluster_policy(settings, access.namespace, in_cluster=access.in_cluster),
        all_counts,
        queue=queue,
        outbox=outbox,
        gate=WriteGate(outbox, retry, drift, events, clock, observe=options.observe),
        deletions=deletions,
        hold_store=hold_store,
        fetcher=fetcher,
        secrets=secrets,
        status=status,
        events=events,
        metrics=metrics,
        clock=clock,
    )
    applier = Applier(client, codec, cache, registry, FaultPoints())
    controller = Controller(
        inbox,
        cache,
        registry,
        all_counts,
        queue=queue,
        planner=planner,
        outbox=outbox,
        writer=Writer(outbox, limiter, cache, applier, may_write, inbox.post, clock),
        fetcher=fetcher,
        results=ResultHandler(cache, registry, all_counts, retry, drift, flaps, events, metrics),
        retry=retry,
        drift=drift,
        deletions=deletions,
        guard=guard,
        status=status,
        events=events,
        clock=clock,
        resync_every=settings.resync,
    )
    return _Engine(controller, events, hold_store, guard, queue, all_counts)


def _build_secret_poller(
    settings: Settings, own_namespace: str, client: Client, metrics: Metrics, inbox: Inbox
) -> tuple[SecretPoller | None, StoreConfigWatcher | None]:
    """The poller, and the watch of the configuration that tells it the store. None if no served vocabulary reads a
    secret manager."""
    store, vocabularies = secret_store(settings, own_namespace), secret_store_vocabularies(settings)
    if store is None or not vocabularies:
        return None, None
    timings, readings = PollTimings(time.monotonic, utc_timestamp), Readings(time.monotonic, store.path_limit)
    poller = SecretPoller(readings, vocabularies, timings, post=inbox.post, count_call=metrics.count_provider_call)
    return poller, StoreConfigWatcher(client, store.config, own_namespace, poller)


def _build_admission(  # noqa: PLR0913 - what its parts are built from
    settings: Settings,
    options: Options,
    environment: Environment,
    client: Client,
    own_namespace: str,
    codec: Codec,
    cache: Cache,
    metrics: Metrics,
    is_leading: Callable[[], bool],
) -> Admission | None:
    """The webhook server. None if it is switched off or no vocabulary needs one."""
    if options.webhook is None or options.observe:
        return None
    # Imported here: certificates take 8 MB that an operator without a webhook server does not need.
    from samara.admission.admission import Admission, AdmissionDeps
    from samara.admission.certificates import Timings

    # Also the vocabularies that wait for their original: their rules must not be open meanwhile.
    named = Registry(served_source_types(settings, environment.kinds))
    if not any(source_type.admission is not None for source_type in named.source_types):
        return None
    is_listed = partial(_is_settled_or_unwatched, cache)
    deps = AdmissionDeps(client, codec, cache, named, own_namespace, is_leading, is_listed, metrics)
    # The original converts its custom resources as long as it runs.
    converting = (
        source_type.resource for source_type in cache.registry.source_types if source_type.admission is not None
    )
    shipped = crds.needed(kind for kind in converting if kind is not None)
    return Admission(deps, options.webhook, converters=CONVERTERS, crds=shipped, timings=Timings())


def _is_settled_or_unwatched(cache: Cache, kind: Kind) -> bool:
    """True if a kind was listed, or is not watched, since its vocabulary waits: then what it needs is read live."""
    return kind not in cache.stores or cache.is_settled(kind)


def _converted_kinds(registry: Registry) -> frozenset[Kind]:
    """Kinds that our own conversion webhook serves: the API server may need us ready before it can list them."""
    return frozenset(kind for kind in registry.resources if f"{kind.group}/{kind.name}" in CONVERTERS)


async def run(settings: Settings, options: Options, access: Access) -> None:
    """Runs the operator until a signal."""
    # The cache has no reference cycles and lives long: collecting it would only block the loop.
    gc.set_threshold(20_000, 10, 1000)
    # Otherwise each counter and histogram has a second series for the time when it began.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    stop = asyncio.Event()
    _stop_on_signals(stop)
    log.info("starting", version=__version__, server=access.server, vocabularies=",".join(settings.vocabularies))
    async with AsyncExitStack() as stack:
        own = await stack.enter_async_context(
            Client(access, options.request_seconds, connections=2, may_write=unrestricted)
        )
        admission = own
        if options.webhook is not None:
            admission = await stack.enter_async_context(
                Client(access, options.request_seconds, connections=16, may_write=unrestricted)
            )
        environment = await unless_stopped(stop, discover_at_start(own, settings))
        while environment is not None and not stop.is_set():
            leader = leader_elector(settings, access, own) if options.leader_elect else None
            async with Client(access, options.request_seconds, may_write=may_write(options, leader)) as objects:
                clients = Clients(objects, own, admission)
                operator = Operator(settings, options, access, clients, leader, environment)
                await operator.run(stop)
            environment = operator.environment
    log.info("stopped")


async def _wait_for_any(*events: asyncio.Event) -> None:
    """Waits until one of these events is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _stop_on_signals(stop: asyncio.Event) -> None:
    """Sets `stop` at the first signal. The second one ends the process at once."""
    loop = asyncio.get_running_loop()

    def received(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)
