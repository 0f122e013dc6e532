"""The planner: takes keys out of the work queue, plans them, and puts their writes into the outbox.

It decides nothing about copies itself: `prepare` and `steps` (core/plan.py) do. It counts their steps, and lets only
those writes pass that need not wait for a backoff, the drift limit, or the limit on mass deletion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from samara.core.context import PlanContext
from samara.core.copy_counts import CopyCounts
from samara.core.desired import Desired
from samara.core.model import Key, vocabulary_of
from samara.core.plan import prepare
from samara.core.policy import ClusterPolicy
from samara.core.queries import SecretPath
from samara.core.registry import Registry
from samara.core.writes import (
    Apply,
    AskFirst,
    Blocked,
    Delete,
    Plan,
    ReadFirst,
    Release,
    Removal,
    SetFinalizer,
    Step,
    Write,
)
from samara.engine.chunks import CHUNK, MAX_WAITING, ChunkedPlan, rotate_to_pending
from samara.engine.deletions import DeletionGate, still_due
from samara.engine.events import EventRecorder
from samara.engine.fetcher import Fetcher
from samara.engine.hold_store import HoldStore
from samara.engine.limits import DriftLimiter, FlapDamper
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.metrics import Metrics
from samara.engine.outbox import Outbox
from samara.engine.process import RETRY_AFTER_BUG, contain
from samara.engine.results import note_refused, slice_of
from samara.engine.retry import RetryBackoff
from samara.engine.status import StatusReporter
from samara.engine.workqueue import WorkQueue
from samara.kube.cache import Cache
from samara.secretstores.poller import SecretPoller

RECHECK_TERMINATING = 10.0
"""Seconds between plans of a terminating source: the deletion of its CRD is not watched."""


@dataclass(eq=False)
class Planner:
    """Owns the work queue, the counts of each source, and the large plans under way. Nothing in it awaits."""

    cache: Cache
    registry: Registry
    policy: ClusterPolicy
    outbox: Outbox
    fetcher: Fetcher
    retry: RetryBackoff
    guard: MassDeleteGuard
    hold_store: HoldStore
    secrets: SecretPoller | None
    events: EventRecorder
    metrics: Metrics
    clock: Callable[[], float]
    gone_after: float
    """Seconds for which the copies of a vanished source stay."""
    observe: bool = False
    """Plan and count, but write nothing."""

    def __post_init__(self) -> None:
        self.queue = WorkQueue(self.clock)
        self.counts: dict[Key, CopyCounts] = {}
        self.chunked: dict[Key, ChunkedPlan] = {}
        """Large plans under way, by key; the first one continues next."""
        self.drift = DriftLimiter(self.clock)
        self.flaps = FlapDamper(self.clock)
        self.status = StatusReporter(self.cache, self.registry, self.counts, self._is_busy, self.clock)
        self.deletions = DeletionGate(self.cache, self.registry, self.guard, self.flaps, self.clock, self.gone_after)

    @property
    def is_idle(self) -> bool:
        """True if nothing waits to be planned, read or reported."""
        unread = self.fetcher.pending + (self.secrets.readings.pending if self.secrets is not None else 0)
        return not (self.chunked or len(self.queue) or unread or self.status.stale)

    # ------------------------------------------------------------------ the work queue

    def enqueue(self, key: Key, delay: float = 0.0) -> None:
        """Something changed: plans this key from the beginning."""
        if key.namespace is None:
            self.chunked.pop(key, None)
        self.requeue(key, delay)

    def requeue(self, key: Key, delay: float = 0.0) -> None:
        """Plans this key again. If a large plan of it is under way, that one goes on."""
        if key.all_namespaces in self.counts or not self.cache.is_idle(key):
            self.queue.add(key, delay)

    def requeue_all(self, keys: Iterable[Key], delay: float = 0.0) -> None:
        for key in keys:
            self.requeue(key, delay)

    def resync(self) -> None:
        """Plans everything again, and reports lasting problems."""
        self.events.note_observed(self.cache.with_near_misses())
        for key in tuple(self.keys()):
            self.enqueue(key)

    def keys(self) -> Iterator[Key]:
        """Every source, and every source that a copy names."""
        for source_type in self.registry.source_types:
            yield from (Key(source_type.name, source) for source in self.cache.sources(source_type.name))
        yield from self.cache.marked_sources()

    # ------------------------------------------------------------------ planning

    def plan_queued(self, end: float) -> bool:
        """Plans queued keys, and chunks of large plans, until this time. True if more is waiting."""
        while self.clock() < end:
            key = self.queue.take()
            if key is not None:
                with contain(key, partial(self.requeue, key, RETRY_AFTER_BUG)):
                    self.plan(key)
            elif not self.continue_chunked():
                return False
        return True

    def offer_statuses(self, end: float) -> bool:
        """Offers the statuses that are due, until this time. True if more is waiting."""
        for report in self.status.due():
            self._offer(report, self.counts[report.key], urgent=True)
            if self.clock() >= end:
                return True
        return False

    def plan(self, key: Key) -> None:
        """Compares the desired state of a key with the cluster (`prepare` and `steps` of core/plan.py), and offers the
        writes.

        A plan with more than one chunk is only started here; `continue_chunked` goes on with it.
        """
        started = self.clock()
        if (prepared := self._prepare(key)) is None:
            return
        ctx, desired = prepared
        self.outbox.clear(key)  # the new plan replaces what an older one still had waiting
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
        self.metrics.observe_plan(self.clock() - started)

    def _prepare(self, key: Key) -> tuple[PlanContext, Desired] | None:
        """The desired state of a key; None if something must be read first. The read queues the key again."""
        prepared = prepare(key, self.cache, self.registry, self.policy)
        if self._subscribe(key, prepared):  # the poller may know the new paths already
            prepared = prepare(key, self.cache, self.registry, self.policy)
        if not isinstance(prepared, Plan):
            return prepared
        self.fetcher.ask(prepared.reads, key)
        for unread in prepared.read_first:
            self.fetcher.fetch(unread.ref, key)
        return None

    def _subscribe(self, key: Key, prepared: Plan | tuple[PlanContext, Desired]) -> bool:
        """Subscribes a source to the paths that it reads now. True if that changed its subscription."""
        if self.secrets is None or vocabulary_of(key.source_type) not in self.secrets.vocabularies:
            return False
        reads = prepared.reads if isinstance(prepared, Plan) else prepared[1].reads
        if isinstance(prepared, Plan) and not reads:
            return False  # a kind is not listed yet, so the paths are not known
        source = self.cache.get(key.source)
        edition = (source.uid, source.generation) if source is not None else None
        return self.secrets.subscribe(
            key.all_namespaces, [read for read in reads if isinstance(read, SecretPath)], edition
        )

    def continue_chunked(self) -> bool:
        """Plans the next chunk of a large plan that has few writes waiting; False if there is none."""
        waiting = self.outbox.waiting
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
                self.retry.forget(plan.key.all_namespaces, step.ref)
                self.drift.reset(step.ref)
                self.flaps.reset(step.ref)
            case ReadFirst(ref=ref):
                self.fetcher.fetch(ref, plan.key.in_namespace(ref.namespace) if ref.namespace else plan.key)
            case AskFirst(ref=ref, queries=queries):
                self.fetcher.ask(queries, plan.key.in_namespace(ref.namespace) if ref.namespace else plan.key)
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
            self.hold_store.save_soon()
        held = self.guard.held.get(key.all_namespaces)
        counts.mark_held(held.refs if held is not None else frozenset())
        if desired.requeue_after is not None:
            self.requeue(key, desired.requeue_after)
        if source is not None and source.deleting and desired.finalizer in source.finalizers:
            self.requeue(key.all_namespaces, RECHECK_TERMINATING)
        self.events.record_plan(key, desired, counts, held)
        self.status.mark_stale(key)
        if source is None and not removals and not counts.wanted:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        """Drops the state of a key whose source is gone, and of whose copies the plan has found none."""
        self.counts.pop(key.all_namespaces, None)
        is_last = key.namespace is None or not self.cache.count(key.all_namespaces)
        if is_last:  # otherwise this is the plan of one namespace, and there are copies in others
            self.deletions.forget(key)
            self.retry.end_for_source(key.source)

    def _offer(self, write: Write, counts: CopyCounts, *, urgent: bool) -> None:
        """Puts a write into the outbox. If it has to wait for its backoff or for the drift limit, queues its key."""
        if self.observe or self._must_keep_finalizer(write):
            return
        state = self.retry.state_of(write)
        if state is not None and state.is_reported:
            note_refused(write, counts, state.message)  # until it succeeds, also while it is retried
        if state is not None and state.until > self.clock():
            self.requeue(slice_of(write), state.until - self.clock())
            return
        throttled = self.drift.throttle(write)
        if throttled is not None:
            if isinstance(write, Apply):
                self.events.report_blocked(write, "Fought", throttled.message)
            counts.mark_blocked(write.ref, "fought", throttled.message)
            self.requeue(slice_of(write), throttled.retry_in)
            return
        self.outbox.put(write, urgent)

    def _must_keep_finalizer(self, write: Write) -> bool:
        """A finalizer stays while a write of its source is in flight, because that may create a copy."""
        return isinstance(write, SetFinalizer) and not write.add and self.outbox.has_in_flight(write.key)

    def _is_busy(self, key: Key) -> bool:
        """True while a plan or a write of this source is under way."""
        return key in self.chunked or bool(self.outbox.waiting(key)) or self.outbox.has_in_flight(key)
