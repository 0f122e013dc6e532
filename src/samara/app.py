"""Builds everything and runs it: one task group, from the first list to the last write."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from samara import __version__, crds, log
from samara.core.allow import Rules
from samara.core.model import CONFIG_MAP, SECRET, Ref
from samara.dialects import fishysecret
from samara.engine import holdbook, lease
from samara.engine.desk import Desk, desk_of
from samara.engine.holdbook import HoldBook
from samara.engine.lease import Lease
from samara.engine.loop import Engine
from samara.engine.moment import utc_now
from samara.engine.route import orphans
from samara.engine.watchdog import Watchdog
from samara.environment import Environment, discover_at_start, discover_environment, unless_stopped
from samara.kube.auth import Access
from samara.kube.client import Client
from samara.kube.errors import SamaraError
from samara.kube.reflector import Reflector, ReflectorTimings
from samara.secretstores.config import StoreConfigWatcher
from samara.secretstores.poller import PollTimings, SecretPoller, SecretValues
from samara.secretstores.readings import Readings
from samara.settings import Settings
from samara.vocabularies import CERTIFICATE, CONVERTERS, reserved, served, store_config, table_of
from samara.web.health import Health
from samara.web.metrics import MetricsPage, Sources
from samara.web.server import answering

if TYPE_CHECKING:
    from samara.admission.admission import Admission, Listener

DRAIN = 10.0
"""Running writes may take this long after a signal."""
LAST_WORDS = 0.5
"""And so long it may take to tell of them: a standby waits."""
STANDSTILL = 2.0
"""The event loop may stand still for this many durations of the lease before the process ends itself."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line adds to the settings."""

    observe: bool = False
    leader_elect: bool = False
    http_address: str = ":8080"
    watch_seconds: float = 300.0
    request_seconds: float = 30.0
    webhook: Listener | None = None
    """Where admission listens; None: no webhook server."""


DISCOVERY_FIRST, DISCOVERY_MAX = 2.0, 60.0
"""Seconds between discoveries while something is missing: at first, and at most."""
DISCOVERY_BESIDE_ORIGINAL = 8.0
"""At most, while an original controller runs. It takes several discoveries to see that it has stopped."""


class LeaseLostError(SamaraError):
    """Somebody else leads, or may: this process must not go on."""


def rules_of(settings: Settings, access: Access) -> Rules:
    """The settings' rules; in a cluster the operator's own namespace is always protected."""
    own = (access.namespace,) if access.in_cluster else ()
    names = reserved(settings, access.namespace)
    protected = (*settings.protected_namespaces, *own)
    return Rules(protected, settings.recreate == "allow", names, _own_objects(settings, access.namespace))


def _own_objects(settings: Settings, home: str) -> frozenset[Ref]:
    """What the operator reads and writes for itself; outside a cluster its namespace may be anybody's."""
    certificate, holds = Ref(SECRET, home, CERTIFICATE), Ref(CONFIG_MAP, home, holdbook.NAME)
    return frozenset((store_config(settings, home), certificate, holds, Ref(lease.LEASE, home, lease.NAME)))


def _stores(settings: Settings, desk: Desk, post: Callable[[SecretValues], None]) -> SecretPoller | None:
    """Where no vocabulary that is served reads a secret manager, none is looked for."""
    served = frozenset({fishysecret.NAME} & settings.vocabularies.keys())
    if not served:
        return None
    timings = PollTimings(desk.clock, utc_now)
    return SecretPoller(Readings(desk.clock), served, timings, post=post, count_call=desk.metrics.provider_called)


class Operator:
    """The running program."""

    def __init__(
        self,
        settings: Settings,
        options: Options,
        access: Access,
        clients: tuple[Client, Client, Client],
        environment: Environment | None = None,
    ) -> None:
        client, own, asking = clients
        self._own = own
        self._settings = settings
        self._options = options
        self.environment = environment or Environment()
        self._waiting = self.environment.waiting
        self._changed = asyncio.Event()
        self._lease = self._leased(settings, access, own) if options.leader_elect else None
        home, rules = access.namespace, rules_of(settings, access)
        table = table_of(settings, self.environment.kinds, frozenset(self.environment.originals), home=home)
        desk = desk_of(settings, client, table, rules, home, silent=options.observe)
        stores = _stores(settings, desk, lambda message: self._engine.secret_values(message))
        self._desk = replace(desk, stores=stores)
        self._provider = (
            StoreConfigWatcher(client, store_config(settings, home), stores) if stores is not None else None
        )
        self._book = HoldBook(own, access.namespace, self._desk.holds)
        client.may_write = self._may_write()
        self._engine = Engine(self._desk, client.may_write, options.observe)
        timings = ReflectorTimings(silence=settings.timers.silence, longest=options.watch_seconds)
        self._reflectors = tuple(
            Reflector(kind, client, self._desk.cache, self._desk.codec, self._engine, timings)
            for kind in self._desk.cache.stores
        )
        self._watchdog = Watchdog(STANDSTILL * settings.timers.lease)
        self._admission = self._admitting(asking) if options.webhook is not None and not options.observe else None

    def _admitting(self, client: Client) -> Admission | None:
        """Where no vocabulary that is served has anything to admit or to convert, nothing is listened for."""
        # Here, because certificates need 8 MB that an operator without a webhook server can do without.
        from samara.admission.admission import Admission, AdmissionDeps
        from samara.admission.certificates import Timings

        assert self._options.webhook is not None
        desk, engine, place = self._desk, self._engine, self._options.webhook
        guarding = tuple(dialect for dialect in desk.table.dialects if dialect.admit is not None)
        # Where the chart has registered us, the server asks us also about what waits for its original: we say yes.
        asked = served(self._settings, self.environment.kinds) if place.in_cluster else guarding
        if not any(dialect.admit is not None for dialect in asked):
            return None
        leads, listed = (lambda: engine.leading), desk.cache.is_settled
        deps = AdmissionDeps(client, desk.codec, desk.cache, desk.table, desk.home, leads, listed, desk.metrics)
        shipped = crds.needed(kind for dialect in guarding for kind in dialect.asking)
        return Admission(deps, place, asked, converters=CONVERTERS, crds=shipped, timings=Timings())

    @staticmethod
    def _leased(settings: Settings, access: Access, client: Client) -> Lease:
        identity = f"{socket.gethostname()}_{os.getpid()}_{os.urandom(4).hex()}"
        return Lease(client, access.namespace, identity, settings.timers.lease, settings.timers.renew)

    def _may_write(self) -> Callable[[], bool]:
        if self._options.observe:
            return lambda: False
        return self._lease.may_write if self._lease is not None else lambda: True

    async def run(self, stop: asyncio.Event) -> None:
        """Works until `stop`, or until the environment has changed; then lets running writes end."""
        listening = answering(self._options.http_address, self._health(), self._metrics())
        async with listening, asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in self._tasks()]
            await _first(stop, self._changed)
            log.info("stopping", flying=self._desk.outbox.flying)
            close = () if self._admission is None else (self._admission.close(),)
            await asyncio.gather(*close, self._engine.drain(DRAIN))  # in this order: to close asks who leads
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS):
                    await self._desk.news.tell()
            if self._lease is not None:
                await self._lease.release()
            for task in tasks:
                task.cancel()

    def _tasks(self) -> Iterator[Coroutine[None, None, None]]:
        yield self._watchdog.beat()
        for reflector in self._reflectors:
            yield reflector.run()
        if self._admission is not None:
            yield self._admission.run()
        if self.environment.waiting:
            yield self._await_environment()
        yield self._lead()

    async def _await_environment(self) -> None:
        """Waits until something that was missing is there. Kinds that disappear are reported by their watches."""
        for what, why in self.environment.waiting.items():
            log.warning("waiting", what=what, why=why)
        wait = DISCOVERY_FIRST
        while True:
            await asyncio.sleep(wait)
            wait = min(2 * wait, DISCOVERY_BESIDE_ORIGINAL if self.environment.originals else DISCOVERY_MAX)
            now = await discover_environment(self._own, self._settings, self.environment)
            self._waiting.update(now.waiting)
            if not now.serves_same_as(self.environment):
                log.info("surroundings.changed", waiting=",".join(now.waiting))
                self.environment = now
                self._changed.set()
                return

    def _health(self) -> Health:
        leases = (self._lease,) if self._lease is not None else ()
        admission = self._admission
        unanswered = (lambda: admission.not_ready_reason) if admission is not None else (lambda: None)
        asking = (kind for each in self._desk.table.dialects for kind in each.asking)
        converted = {kind for kind in asking if f"{kind.group}/{kind.name}" in CONVERTERS} if admission else set()
        obstacle = lambda: self._engine.obstacle  # noqa: E731 - asked when somebody asks
        return Health(self._reflectors, self._engine, leases, self._waiting, unanswered, obstacle, frozenset(converted))

    def _metrics(self) -> MetricsPage:
        engine, desk = self._engine, self._desk
        return MetricsPage(
            Sources(
                desk.table,
                engine.tallies,
                desk.queue,
                lambda: max(desk.queue.oldest(), desk.outbox.oldest()),
                desk.metrics,
                desk.holds,
                self._reflectors,
                lambda: engine.leading,
                self._health(),
                lambda dialect: orphans(dialect, desk),
                desk.cache.sources,
                lambda: self._watchdog.longest,
                tuple(self.environment.waiting),
            )
        )

    async def _lead(self) -> None:
        """Waits until it leads, then plans and writes."""
        if self._lease is not None:
            await self._lease.acquire()
        async with asyncio.TaskGroup() as group:
            if self._lease is not None:
                group.create_task(self._keep(self._lease))
            if not self._options.observe:
                await self._book.load()
                group.create_task(self._book.run(self._engine.answered, self._engine.add))
            group.create_task(self._engine.run())
            if self._provider is not None:
                group.create_task(self._provider.run())
            group.create_task(self._desk.news.run())

    async def _keep(self, lease: Lease) -> None:
        await lease.keep()
        raise LeaseLostError("the lease could not be kept; ending, so that at most one operator writes")


async def run(settings: Settings, options: Options, access: Access) -> None:
    """The operator, until a signal."""
    # The cache has no cycles and lives long: walking all of it for garbage would block the loop for nothing.
    gc.set_threshold(20_000, 10, 1000)
    stop = asyncio.Event()
    _on_signals(stop)
    log.info("starting", version=__version__, server=access.server, vocabularies=",".join(settings.vocabularies))
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(access, options.request_seconds))
        own = await stack.enter_async_context(Client(access, options.request_seconds, connections=2))
        # Whoever waits for an answer of admission waits for no write of ours; a standby answers, too.
        asking = own
        if options.webhook is not None:
            asking = await stack.enter_async_context(Client(access, options.request_seconds, connections=16))
        environment = await unless_stopped(stop, discover_at_start(own, settings))
        while environment is not None and not stop.is_set():
            operator = Operator(settings, options, access, (client, own, asking), environment)
            await operator.run(stop)
            environment = operator.environment
    log.info("stopped")


async def _first(*events: asyncio.Event) -> None:
    """Waits until one of the events is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()


def _on_signals(stop: asyncio.Event) -> None:
    """The first signal stops; a second one ends at once."""
    loop = asyncio.get_running_loop()

    def received(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)
