"""Drives the controller by hand: no task runs, no time passes and no server answers unless a test says so."""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.samples import HOME, Clock, a_cache, a_namespace, a_registry, an_access

from samara.core.copy_counts import CopyCounts
from samara.core.model import QUOTA, Key, Object, Ref
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.core.writes import Write, WriteStatus
from samara.engine.controller import Controller
from samara.engine.deletions import DeletionGate
from samara.engine.event_sink import EventSink
from samara.engine.events import EventRecorder
from samara.engine.fetcher import Fetcher
from samara.engine.hold_records import Answer
from samara.engine.hold_store import HoldStore
from samara.engine.limiter import ConcurrencyLimiter
from samara.engine.limits import DriftLimiter, FlapDamper
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.messages import Fetched, HoldAnswered, Inbox, Message
from samara.engine.metrics import Metrics
from samara.engine.outbox import Outbox
from samara.engine.planner import Planner
from samara.engine.process import FaultPoints
from samara.engine.results import ResultHandler
from samara.engine.retry import RetryBackoff
from samara.engine.status import StatusReporter
from samara.engine.workqueue import WorkQueue
from samara.engine.write_gate import WriteGate
from samara.engine.writer import Applier, Ending, Result, WriteDone, Writer
from samara.kube.answers import NO_READINGS
from samara.kube.cache import Change
from samara.kube.client import Client, unrestricted
from samara.kube.codec import Codec
from samara.kube.reflector import Observed, QuotaChanged
from samara.secretstores.poller import PollTimings, SecretPoller
from samara.secretstores.readings import Readings

DONE = Result(Ending.DONE)


class ControllerHarness:
    """A controller that leads, with these objects in its cache. Nothing has been planned yet."""

    def __init__(
        self,
        *objects: Object,
        namespaces: Iterable[str] = (),
        registry: Registry | None = None,
        holds: MassDeleteGuard | None = None,
        observing: bool = False,
        clock: Clock | None = None,
        client: Client | None = None,
        gone_after: float = 3.0,
        reads_secrets: Iterable[str] = (),
    ) -> None:
        self.clock = clock = clock or Clock()
        self.registry = registry = registry or a_registry(on_source_gone="delete")
        self.client = client = client or Client(an_access(), may_write=unrestricted)
        self.inbox, self.metrics = Inbox(), Metrics()
        self.secrets = _secret_poller(reads_secrets, self)
        self.codec = Codec(registry.managers)
        self.cache = a_cache(registry, readings=NO_READINGS if self.secrets is None else self.secrets.readings.known)
        self.limiter = ConcurrencyLimiter(16, 0.0, clock)
        self.outbox = Outbox(clock, self.limiter)
        self.retry, self.holds = RetryBackoff(900.0, clock), holds or MassDeleteGuard(None, 0.0, clock)
        self.sink = EventSink(client, clock)
        self.events = EventRecorder(self.sink, self.cache, clock)
        self.counts: dict[Key, CopyCounts] = {}
        self.queue, self.drift, self.flaps = WorkQueue(clock), DriftLimiter(clock), FlapDamper(clock)
        self.hold_store = HoldStore(client, "samara", self.holds, self.inbox.post)
        self.deletions = DeletionGate(self.cache, registry, self.holds, self.flaps, clock, gone_after)
        self.statuses = StatusReporter(self.cache, registry, self.counts, clock)
        self.gate = WriteGate(self.outbox, self.retry, self.drift, self.events, clock, observe=observing)
        self.applier = Applier(client, self.codec, self.cache, registry, FaultPoints())
        self.writer = Writer(self.outbox, self.limiter, self.cache, self.applier, lambda: True, self.inbox.post, clock)
        self.fetcher = Fetcher(client, self.codec, self.cache, "operator", self.inbox.post)
        self.planner = Planner(
            self.cache,
            registry,
            ClusterPolicy(),
            self.counts,
            queue=self.queue,
            outbox=self.outbox,
            gate=self.gate,
            deletions=self.deletions,
            hold_store=self.hold_store,
            fetcher=self.fetcher,
            secrets=self.secrets,
            status=self.statuses,
            events=self.events,
            metrics=self.metrics,
            clock=clock,
        )
        self.controller = Controller(
            self.inbox,
            self.cache,
            registry,
            self.counts,
            queue=self.queue,
            planner=self.planner,
            outbox=self.outbox,
            writer=self.writer,
            fetcher=self.fetcher,
            results=ResultHandler(
                self.cache, registry, self.counts, self.retry, self.drift, self.flaps, self.events, self.metrics
            ),
            retry=self.retry,
            drift=self.drift,
            deletions=self.deletions,
            guard=self.holds,
            status=self.statuses,
            events=self.events,
            clock=clock,
        )
        self.inbox.open()
        for obj in (*map(a_namespace, [HOME, *namespaces]), *objects):
            self.cache.put(obj)

    # input

    def post(self, message: Message) -> None:
        """The controller handles this message, and all that waited before it."""
        self.inbox.post(message)
        while (waiting := self.inbox.take()) is not None:
            self.controller.handle(waiting)

    def put(self, obj: Object) -> Change:
        """The cache takes an object; the change is not delivered."""
        change = self.cache.put(obj)
        assert change is not None
        return change

    def deliver(self, *changes: Change | None) -> None:
        """A watch reports changes that the cache holds already."""
        self.post(Observed([change for change in changes if change is not None]))

    def observe(self, obj: Object) -> None:
        """A watch reports an object."""
        self.deliver(self.put(obj))

    def quota_changed(self, quota: Ref) -> None:
        assert quota.kind == QUOTA
        self.post(QuotaChanged(quota))

    def fetched(self, change: Change | None, delay: float) -> None:
        """A single read has changed the cache, before the watch reports the change."""
        assert change is not None
        self.post(Fetched((), delay, change))

    def answered(self, change: Change | None) -> None:
        """The answer to our status write on this object has changed the cache."""
        assert change is not None
        obj = change.old or change.new
        assert obj is not None
        write = WriteStatus(Key(self.registry.source_types[0].name, change.ref), change.ref, obj, {})
        self.finish(write, DONE._replace(changes=(change,)))

    def hold_answered(self, key: Key, answer: Answer) -> None:
        self.post(HoldAnswered(key, answer))

    # steps of the controller

    async def run(self) -> None:
        """The real loop, until cancelled."""
        await self.controller.run()

    def enqueue(self, key: Key) -> None:
        self.planner.enqueue(key)

    def resync(self) -> None:
        self.planner.resync()

    def reported(self) -> list[tuple[Ref, str]]:
        """The objects and reasons of the Events that the next flush sends."""
        self.events.gather()
        return self.sink.due()

    def work(self) -> None:
        """Handles and plans all that is queued."""
        while self.controller.work():
            pass

    def plan(self, *keys: Key) -> None:
        """Plans these keys, queued or not."""
        for key in keys:
            self.planner.plan(key)

    def continue_chunked(self) -> bool:
        """Takes the next chunk of a large plan; False if there is none."""
        return self.planner.continue_chunked()

    def finish_chunked(self) -> None:
        while self.continue_chunked():
            pass

    def is_chunked(self, key: Key) -> bool:
        """True while a large plan of this key is under way."""
        return key in self.planner._chunked

    def fail_next_chunk(self, key: Key) -> None:
        """The next step of a large plan raises an unexpected error."""
        self.planner._chunked[key].steps = (1 / 0 for _ in range(1))  # type: ignore[misc]

    # results

    def sent(self) -> list[Write]:
        """All writes that wait, taken out of the outbox. Their addresses are not locked."""
        writes = []
        while (write := self.outbox.take()) is not None:
            self.outbox.done(write)
            writes.append(write)
        return writes

    def finish(self, write: Write, result: Result = DONE) -> None:
        """The result of a write arrives."""
        if self.outbox.in_flight(write.ref) is None:
            self.outbox.lock(write)
        self.writer.adapt(write, result, 0.1)
        self.post(WriteDone(write, result, 0.1))

    def offer(self, write: Write, tally: CopyCounts) -> None:
        """Sends a write that no plan contains, unless it has to wait for its backoff."""
        self.gate.offer(write, tally, urgent=False)

    def requeued(self) -> list[Key]:
        """The keys that are to be planned now, taken out of the queue."""
        return list(iter(self.queue.take, None))

    def status(self, key: Key) -> WriteStatus | None:
        """The status write of a source; None if its status is up to date."""
        return self.statuses.take_report(key)

    def stale_statuses(self) -> set[Key]:
        """The sources whose status is written next."""
        return set(self.statuses.stale)

    def forget_statuses(self) -> None:
        self.statuses.stale.clear()

    @property
    def pending_reads(self) -> int:
        return self.fetcher.pending + (self.secrets.readings.pending if self.secrets is not None else 0)

    @property
    def synced(self) -> bool:
        """True if everything in the cache has been planned and written."""
        self.controller.note_sync()
        return self.controller.synced

    @property
    def obstacle(self) -> str | None:
        return self.controller.obstacle

    def appeared_from(self, namespace: str) -> int:
        """How many copies that we did not create name a source in this namespace."""
        return self.deletions._appeared.number_from(namespace)

    @property
    def grace_periods(self) -> set[Key]:
        """Keys whose source vanished and whose copies wait for it to come back."""
        return set(self.deletions._gone_since)


def _secret_poller(names: Iterable[str], harness: ControllerHarness) -> SecretPoller | None:
    if not (source_types := frozenset(names)):
        return None
    timings, count_call = PollTimings(harness.clock, lambda: "now", lambda: 1.0), harness.metrics.count_provider_call
    return SecretPoller(Readings(harness.clock, None), source_types, timings, post=harness.post, count_call=count_call)
