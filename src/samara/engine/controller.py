"""The controller: messages become keys, keys become plans, plans become writes, and their results are messages again.

    Reflector ─ Observed ─▶ Inbox ─▶ handle() ─▶ WorkQueue ─▶ plan() ─▶ Outbox ─▶ Writer ─ WriteDone ─▶ Inbox

`handle` and `work` do not await, so no state changes while they run. All I/O is done by the components that post to
the inbox: reflectors, writer, fetcher, secret poller and hold store.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from samara import log
from samara.core.context import PlanContext
from samara.core.copy_counts import CopyCounts
from samara.core.desired import Desired
from samara.core.model import NAMESPACE, QUOTA, Key, Ref, vocabulary_of
from samara.core.plan import prepare
from samara.core.policy import ClusterPolicy
from samara.core.queries import CrdExists, SecretPath
from samara.core.registry import Registry
from samara.core.writes import (
    Apply,
    Blocked,
    Delete,
    Plan,
    ReadFirst,
    Release,
    Removal,
    SetFinalizer,
    Step,
    Write,
    WriteStatus,
)
from samara.engine.apply import Outcome
from samara.engine.chunks import CHUNK, MAX_WAITING, ChunkedPlan, rotate_to_pending
from samara.engine.deletions import DeletionGate, still_due
from samara.engine.events import EventRecorder
from samara.engine.fetcher import Fetcher
from samara.engine.hold_store import HoldStore
from samara.engine.limits import DriftLimiter, FlapDamper
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.messages import Fetched, HoldAnswered, HoldsStored, Inbox, Message, WriteDone, WriteDropped
from samara.engine.metrics import Metrics
from samara.engine.process import RETRY_AFTER_BUG, contain
from samara.engine.results import ResultHandler, note_refused, slice_of
from samara.engine.retry import RetryBackoff
from samara.engine.status import StatusReporter
from samara.engine.triggers import Triggers, next_hops, triggers
from samara.engine.workqueue import WorkQueue
from samara.engine.writer import Writer
from samara.kube.cache import Cache, Change
from samara.kube.reflector import Listed, Observed, QuotaChanged
from samara.secretstores.poller import SecretPoller, SecretValues

TIME_SLICE = 0.005
"""Seconds. Messages, planning and status writes get one slice each in every turn, so that none starves the others."""
RECHECK_TERMINATING = 10.0
"""Seconds between plans of a terminating source: the deletion of its CRD is not watched."""
RECHECK_OUTBOX = 1.0
"""Seconds after which waiting writes are tried again. They may have waited for the lease to be renewed."""


@dataclass(frozen=True, slots=True)
class Options:
    """The settings and options that the controller itself needs."""

    gone_after: float
    """Seconds for which the copies of a vanished source stay."""
    resync: float = 0.0
    """Seconds between plans of everything; 0: never."""
    observe: bool = False
    """Plan and count, but write nothing."""


class Controller:
    """Owns the work queue, the counts of each source, and the large plans under way.

    On a standby the reflectors fill the cache, but its inbox is closed until it leads.
    """

    def __init__(  # noqa: PLR0913 - the components that it drives
        self,
        inbox: Inbox,
        cache: Cache,
        registry: Registry,
        policy: ClusterPolicy,
        *,
        writer: Writer,
        fetcher: Fetcher,
        retry: RetryBackoff,
        guard: MassDeleteGuard,
        hold_store: HoldStore,
        secrets: SecretPoller | None,
        events: EventRecorder,
        metrics: Metrics,
        clock: Callable[[], float],
        options: Options,
    ) -> None:
        self.leading = False
        self.synced = False
        """True once everything that was listed has been planned and written."""
        self.counts: dict[Key, CopyCounts] = {}
        self.queue = WorkQueue(clock)
        self.chunked: dict[Key, ChunkedPlan] = {}
        """Large plans under way, by key; the first one continues next."""
        self.drift = DriftLimiter(clock)
        self.flaps = FlapDamper(clock)
        self.status = StatusReporter(cache, registry, self.counts, self._is_busy, clock)
        self.deletions = DeletionGate(cache, registry, guard, self.flaps, clock, options.gone_after)
        self.results = ResultHandler(cache, registry, self.counts, retry, self.drift, self.flaps, events, metrics)
        self._inbox = inbox
        self._cache = cache
        self._registry = registry
        self._policy = policy
        self._writer = writer
        self._fetcher = fetcher
        self._retry = retry
        self._guard = guard
        self._hold_store = hold_store
        self._secrets = secrets
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._options = options
        self._resync_at: float | None = None
        self._echoed: set[Ref] = set()
        """Addresses of which the watch reported a change while our own write to them was in flight."""
        self._released = asyncio.Event()

    # ------------------------------------------------------------------ the loop

    async def run(self) -> None:
        """Leads: plans and writes until cancelled."""
        self.lead()
        async with asyncio.TaskGroup() as group:
            self._writer.start(group)
            self._fetcher.start(group)
            while True:
                is_busy = self.work()
                self._writer.pump()
                if is_busy:
                    await asyncio.sleep(0)
                else:
                    self.note_sync()
                    await self._inbox.wait(self._next_due())

    def lead(self) -> None:
        self.leading = True
        self._inbox.open()
        self._resync_at = self._next_resync()
        self.resync()

    def work(self) -> bool:
        """One turn: a time slice each for messages, plans and status writes. True if more is waiting."""
        has_messages = self._handle_messages(self._clock() + TIME_SLICE)
        self._requeue_due()
        has_keys = self._plan_keys(self._clock() + TIME_SLICE)
        has_statuses = self._write_statuses(self._clock() + TIME_SLICE)
        return has_messages or has_keys or has_statuses

    def _handle_messages(self, end: float) -> bool:
        while (message := self._inbox.take()) is not None:
            self.handle(message)
            if self._clock() >= end:
                break
        return len(self._inbox) > 0

    def _requeue_due(self) -> None:
        """Queues the keys whose held deletions are released by time, and all keys if a resync is due."""
        for key in self._guard.due():
            log.info("brake.over", key=key)
            self._guard.release(key)
            self.enqueue(key)
        if self._resync_at is not None and self._clock() >= self._resync_at:
            self._resync_at = self._next_resync()
            self.resync()

    def _plan_keys(self, end: float) -> bool:
        while self._clock() < end:
            key = self.queue.take()
            if key is not None:
                with contain(key, partial(self.requeue, key, RETRY_AFTER_BUG)):
                    self.plan(key)
            elif not self.continue_chunked():
                return False
        return True

    def _write_statuses(self, end: float) -> bool:
        for report in self.status.due():
            self._offer(report, self.counts[report.key], urgent=True)
            if self._clock() >= end:
                return True
        return False

    def _next_due(self) -> float | None:
        """Seconds for which nothing is due; None if only a message can change that."""
        due = [self.queue.next_due(), self._guard.next_due(), self.status.next_due()]
        if len(self._writer.outbox):
            due.append(self._writer.pause or RECHECK_OUTBOX)
        if self._resync_at is not None:
            due.append(max(0.0, self._resync_at - self._clock()))
        return min((seconds for seconds in due if seconds is not None), default=None)

    def _next_resync(self) -> float | None:
        """The time of the next resync; None if it is disabled. Jitter keeps many processes from resyncing together."""
        jitter = random.uniform(0.9, 1.1)  # noqa: S311 - not a secret
        return self._clock() + self._options.resync * jitter if self._options.resync else None

    async def drain(self, timeout: float) -> None:
        """Sends no more writes, and waits until the results of those in flight have been handled."""
        self.leading = False
        self._writer.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self.in_flight:
                    self._released.clear()
                    await self._released.wait()

    # ------------------------------------------------------------------ messages

    def handle(self, message: Message) -> None:  # noqa: C901 - one branch for each message
        """Updates the state for one message, and queues the keys that it concerns. Nothing else changes the state."""
        match message:
            case Observed(changes, first_list):
                for change in changes:
                    with contain(change.ref, retry=None):
                        self._observed(change, is_known=first_list)
            case WriteDone(write):
                self._release(write)  # first: an address must not stay locked, whatever else fails
                with contain(write.ref, partial(self.requeue, slice_of(write), RETRY_AFTER_BUG)):
                    self._write_done(message)
            case WriteDropped(write):
                self._release(write)
                self.requeue(slice_of(write))
            case Fetched(keys, delay, change):
                if change is not None:
                    with contain(change.ref, retry=None):
                        self._fetched(change, delay)
                self._requeue_all(keys, delay)
            case Listed(kind):
                self.deletions.restart_grace_periods(kind)
                self.resync()
            case QuotaChanged(ref):
                self._retry_namespace(ref.namespace)
            case SecretValues(changed, refreshed):
                self._requeue_all(changed)
                for key in refreshed:
                    self.status.mark_stale(key)
            case HoldAnswered(key, answer):
                log.info("brake.answered", key=key, word=answer)
                self._guard.release(key, discard=answer == "discard")
                self.enqueue(key)
            case HoldsStored(keys):
                for key in keys:
                    self.enqueue(key)
            case _:
                assert_never(message)

    def _observed(self, change: Change, delay: float = 0.0, *, is_known: bool = False) -> None:
        """`is_known`: the object is older than our watch, so that nobody can say who made it."""
        own = self._writer.in_flight(change.ref)  # if set, the change is most likely the echo of this write
        triggered = triggers(change, self._registry, self._cache)
        if own is None:
            self._note_edit(change, triggered)
            if not is_known:
                self.deletions.appeared.note_change(change)
        else:
            self._echoed.add(change.ref)
        if triggered.status_of:  # nothing that a plan depends on has changed
            return
        self._end_backoffs(change, triggered.edited)
        if triggered.deleted_kind is not None:
            self._cache.answers.forget(CrdExists(triggered.deleted_kind))
        for key in triggered.keys:
            if isinstance(own, Delete) and change.new is None and key.source == change.ref:
                self.deletions.note_intended(key.source)  # the echo arrived before the answer
            if own is None or key.all_namespaces != own.key:  # the key of our own write waits for its result
                self.enqueue(key, delay)

    def _note_edit(self, change: Change, triggered: Triggers) -> None:
        """Records that another client changed an object: a copy, or the status that we write to a source."""
        if triggered.status_of:
            for key in triggered.status_of:
                self.status.note_foreign_write(key)
        else:
            self.drift.observe_edit(change, self._registry.owner, self._cache)

    def _end_backoffs(self, change: Change, edited: Collection[Ref]) -> None:
        """Ends the backoffs of writes that may be accepted after this change, or that are no longer needed."""
        if change.ref.kind in (NAMESPACE, QUOTA):
            self._retry_namespace(change.ref.namespace_or_name)
        if change.new is None:
            self._retry.forget_object(change.ref)
        for source in edited:
            self._retry.release_source(source)

    def _retry_namespace(self, namespace: str) -> None:
        for key, delay in self._retry.release_namespace(namespace):
            self.requeue(key, delay)

    def _fetched(self, change: Change, delay: float) -> None:
        self._observed(change, delay)
        if change.new is None:
            self.drift.reset(change.ref)  # most likely our own delete, of which the answer was lost

    def _write_done(self, done: WriteDone) -> None:
        write, result = done.write, done.result
        is_echoed = write.ref in self._echoed
        self._echoed.discard(write.ref)
        for change in result.changes:
            self.deletions.appeared.note_write(change)
            self._continue_chain(change)
        follow_up = self.results.handle(done)
        for key, delay in follow_up.requeue:
            self.requeue(key, delay)
        for ref, key, delay in follow_up.refetch:
            self._fetcher.fetch(ref, key, delay)
        if is_echoed and result.outcome is Outcome.DONE and self._version_at(write.ref) != result.version:
            self.requeue(slice_of(write))  # the supposed echo was a change by another client
        if not isinstance(write, WriteStatus):
            self.status.mark_stale(write.key)

    def _version_at(self, ref: Ref) -> int | None:
        obj = self._cache.get(ref)
        return None if obj is None else obj.resource_version

    def _continue_chain(self, change: Change) -> None:
        """Queues the keys of which a write changed the source, without waiting for the watch to report the change."""
        for key in next_hops(change, self._registry, self._cache):
            if key.source == change.ref:
                self._retry.release_source(key.source)
                if change.new is None:
                    self.deletions.note_intended(key.source)
            self.requeue(key)

    def _release(self, write: Write) -> None:
        """Unlocks the address of a write, and queues the keys that wanted to write there meanwhile."""
        self._released.set()
        for key in self._writer.outbox.done(write):
            self.requeue(key.in_namespace(write.ref.namespace) if write.ref.namespace else key)

    # ------------------------------------------------------------------ the work queue

    def enqueue(self, key: Key, delay: float = 0.0) -> None:
        """Something changed: plans this key from the beginning."""
        if key.namespace is None:
            self.chunked.pop(key, None)
        self.requeue(key, delay)

    def requeue(self, key: Key, delay: float = 0.0) -> None:
        """Plans this key again. If a large plan of it is under way, that one goes on."""
        if key.all_namespaces in self.counts or not self._cache.is_idle(key):
            self.queue.add(key, delay)

    def _requeue_all(self, keys: Iterable[Key], delay: float = 0.0) -> None:
        for key in keys:
            self.requeue(key, delay)

    def resync(self) -> None:
        """Plans everything again."""
        for key in tuple(self._keys()):
            self.enqueue(key)

    def _keys(self) -> Iterator[Key]:
        """Every source, and every source that a copy names."""
        for source_type in self._registry.source_types:
            yield from (Key(source_type.name, source) for source in self._cache.sources(source_type.name))
        yield from self._cache.marked_sources()

    # ------------------------------------------------------------------ planning

    def plan(self, key: Key) -> None:
        """Compares the desired state of a key with the cluster, and offers the writes.

        A plan with more than one chunk is only started here; `continue_chunked` goes on with it.
        """
        started = self._clock()
        if (prepared := self._prepare(key)) is None:
            return
        ctx, desired = prepared
        self._writer.outbox.clear(key)  # the new plan replaces what an older one still had waiting
        counts = self.counts.setdefault(key.all_namespaces, CopyCounts())
        if key.namespace is not None and key.all_namespaces in self.chunked:
            self.chunked[key.all_namespaces].replanned.add(key.namespace)
        if key.namespace is None:
            self.chunked.pop(key, None)
            desired = rotate_to_pending(desired, counts)
            if len(desired.copies) > CHUNK:
                self.chunked[key] = ChunkedPlan.start(key, ctx, desired)
                counts.begin_chunked_plan()
                return
        plan = ChunkedPlan.single(key, ctx, desired)
        counts.reset(key.namespace)
        for step in plan.steps:
            self._handle_step(plan, counts, step)
        self._finish(plan, plan.removals, counts)
        self._metrics.observe_plan(self._clock() - started)

    def _prepare(self, key: Key) -> tuple[PlanContext, Desired] | None:
        """The desired state of a key; None if something must be read first. The read queues the key again."""
        prepared = prepare(key, self._cache, self._registry, self._policy)
        if self._subscribe(key, prepared):  # the poller may know the new paths already
            prepared = prepare(key, self._cache, self._registry, self._policy)
        if not isinstance(prepared, Plan):
            return prepared
        self._fetcher.ask(prepared.reads, key)
        return None

    def _subscribe(self, key: Key, prepared: Plan | tuple[PlanContext, Desired]) -> bool:
        """Subscribes a source to the paths that it reads now. True if that changed its subscription."""
        if self._secrets is None or vocabulary_of(key.source_type) not in self._secrets.vocabularies:
            return False
        reads = prepared.reads if isinstance(prepared, Plan) else prepared[1].reads
        if isinstance(prepared, Plan) and not reads:
            return False  # a kind is not listed yet, so the paths are not known
        source = self._cache.get(key.source)
        edition = (source.uid, source.generation) if source is not None else None
        return self._secrets.subscribe(
            key.all_namespaces, [read for read in reads if isinstance(read, SecretPath)], edition
        )

    def continue_chunked(self) -> bool:
        """Plans the next chunk of a large plan that has few writes waiting; False if there is none."""
        waiting = self._writer.outbox.waiting
        key = next((key for key in self.chunked if waiting(key) < MAX_WAITING), None)
        if key is None:
            return False
        plan = self.chunked.pop(key)  # it returns to the end, so that large plans take turns
        with contain(key, partial(self.requeue, key, RETRY_AFTER_BUG)):
            counts, chunk = self.counts[key], plan.take()
            for step in chunk:
                if step.ref.namespace not in plan.replanned:
                    self._handle_step(plan, counts, step)
                elif isinstance(step.outcome, Delete | Release):  # the mass-delete limit must count it all the same
                    plan.removals.append(step.outcome)
            if len(chunk) == CHUNK:
                self.chunked[key] = plan
            else:
                self._finish_chunked(plan, counts)
        return True

    def _finish_chunked(self, plan: ChunkedPlan, counts: CopyCounts) -> None:
        """Computes the desired state again before anything is deleted: namespaces changed while the plan was made."""
        if (prepared := self._prepare(plan.key)) is None:
            return
        ctx, desired = prepared
        for namespace in plan.dropped_namespaces(desired):
            self.requeue(plan.key.in_namespace(namespace))
        counts.end_chunked_plan({copy.ref for copy in desired.copies} | {target.ref for target in desired.blocked})
        self._finish(plan, still_due(ctx, desired, plan.removals), counts)

    def _handle_step(self, plan: ChunkedPlan, counts: CopyCounts, step: Step) -> None:
        """Counts one step, and offers its write. Deletions are collected until the plan is complete."""
        counts.count(step)
        self.deletions.appeared.note_step(plan.key, step)
        match step.outcome:
            case None | Blocked(reason="no-namespace"):
                self._retry.forget(plan.key.all_namespaces, step.ref)
                self.drift.reset(step.ref)
                self.flaps.reset(step.ref)
            case ReadFirst(ref=ref):
                self._fetcher.fetch(ref, plan.key)
            case Blocked():
                pass
            case Delete() | Release() as removal:
                plan.removals.append(removal)
            case write:
                self._offer(write, counts, urgent=plan.key.namespace is not None)

    def _finish(self, plan: ChunkedPlan, removals: Sequence[Removal], counts: CopyCounts) -> None:
        """Ends a plan of which all steps were taken: judges its deletions together, then reports it."""
        key, source, desired = plan.key, plan.ctx.source, plan.desired
        if key.namespace is None and source is not None:
            counts.mark_complete(source)
        verdict = self.deletions.judge(key, source, removals, desired.finalizer, counts.paused_removals(key.namespace))
        for removal in verdict.allowed:
            self._offer(removal, counts, urgent=key.namespace is not None)
        for delayed_key, delay in verdict.requeue:
            self.requeue(delayed_key, delay)
        if verdict.must_record:
            self._hold_store.save_soon()
        held = self._guard.held.get(key.all_namespaces)
        counts.mark_held(held.refs if held is not None else frozenset())
        if desired.requeue_after is not None:
            self.requeue(key, desired.requeue_after)
        if source is not None and source.deleting and desired.finalizer in source.finalizers:
            self.requeue(key.all_namespaces, RECHECK_TERMINATING)
        self._events.record_plan(key, desired, counts, held)
        self.status.mark_stale(key)
        if source is None and not removals and not counts.wanted:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        """Drops the state of a key whose source is gone, and of whose copies the plan has found none."""
        self.counts.pop(key.all_namespaces, None)
        is_last = key.namespace is None or not self._cache.count(key.all_namespaces)
        if is_last:  # otherwise this is the plan of one namespace, and there are copies in others
            self.deletions.forget(key)
            self._retry.release_source(key.source)

    def _offer(self, write: Write, counts: CopyCounts, *, urgent: bool) -> None:
        """Puts a write into the outbox. If it has to wait for its backoff or for the drift limit, queues its key."""
        if self._options.observe or self._must_keep_finalizer(write):
            return
        state = self._retry.state_of(write)
        if state is not None and state.is_reported:
            note_refused(write, counts, state.message)  # until it succeeds, also while it is retried
        if state is not None and state.until > self._clock():
            self.requeue(slice_of(write), state.until - self._clock())
            return
        throttled = self.drift.throttle(write)
        if throttled is not None:
            if isinstance(write, Apply):
                self._events.report_blocked(write, "Fought", throttled.message)
            counts.mark_blocked(write.ref, "fought", throttled.message)
            self.requeue(slice_of(write), throttled.retry_in)
            return
        self._writer.outbox.put(write, urgent)

    def _must_keep_finalizer(self, write: Write) -> bool:
        """A finalizer stays while a write of its source is in flight, because that may create a copy."""
        return isinstance(write, SetFinalizer) and not write.add and self._writer.outbox.has_in_flight(write.key)

    # ------------------------------------------------------------------ state for health and metrics

    def oldest_pending(self) -> float:
        """Seconds for which the oldest key or write has waited."""
        return max(self.queue.oldest(), self._writer.outbox.oldest())

    @property
    def in_flight(self) -> int:
        """How many writes were sent whose results have not been handled."""
        return self._writer.outbox.in_flight_count

    @property
    def obstacle(self) -> str | None:
        """Why no write can succeed now; None if writes can."""
        return self._writer.obstacle

    def _is_busy(self, key: Key) -> bool:
        return key in self.chunked or self._writer.is_busy(key)

    def note_sync(self) -> None:
        """Sets `synced` once nothing is left to do."""
        if self.synced or not all(map(self._cache.is_settled, self._registry.kinds)):
            return
        unread = self._fetcher.pending + (self._secrets.readings.pending if self._secrets is not None else 0)
        if self.chunked or len(self.queue) or not self._writer.is_idle or unread or self.status.stale:
            return
        if self._retry.is_retrying:
            return
        self.synced = True
        self._writer.stop_verifying()
        self._guard.settle({*self.counts, *self._keys()}, self._is_planned)
        log.info("synced", sources=len(self.counts))

    def _is_planned(self, vocabulary: str) -> bool:
        """True if all sources of a vocabulary are planned: it is served, and its kinds are listed."""
        source_types = [
            source_type for source_type in self._registry.source_types if source_type.vocabulary == vocabulary
        ]
        return all(
            source_type.enabled and all(map(self._cache.has_synced, source_type.kinds)) for source_type in source_types
        )
