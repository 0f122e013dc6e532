"""The planner: takes keys out of the work queue, plans them, and puts their writes into the outbox.

It decides nothing about copies itself: `prepare` and `steps` (core/plan.py) do. It counts their steps. The write gate
and the deletion gate decide which of their writes must wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Self

from samara.core.context import PlanContext
from samara.core.copy_counts import CopyCounts
from samara.core.desired import Copy, Desired
from samara.core.model import Key, Ref, vocabulary_of
from samara.core.plan import prepare, steps
from samara.core.policy import ClusterPolicy
from samara.core.queries import SecretPath
from samara.core.registry import Registry
from samara.core.writes import (
    AskFirst,
    Blocked,
    Delete,
    Plan,
    ReadFirst,
    Release,
    Removal,
    Step,
    Write,
)
from samara.engine.deletions import DeletionGate, still_due
from samara.engine.events import EventRecorder
from samara.engine.fetcher import Fetcher
from samara.engine.hold_store import HoldStore
from samara.engine.metrics import Metrics
from samara.engine.outbox import Outbox
from samara.engine.process import RETRY_AFTER_BUG, contain
from samara.engine.results import slice_of
from samara.engine.status import StatusReporter
from samara.engine.workqueue import WorkQueue
from samara.engine.write_gate import WriteGate
from samara.kube.cache import Cache
from samara.secretstores.poller import SecretPoller

CHUNK = 250
"""Steps taken at a time."""
MAX_WAITING = 2000
"""A chunked plan pauses while this many of its namespaces wait for a write, so that the outbox stays small."""
RECHECK_TERMINATING = 10.0
"""Seconds between plans of a terminating source: the deletion of its CRD is not watched."""


@dataclass(slots=True)
class ChunkedPlan:
    """A plan under way. A small plan is one of a single chunk."""

    key: Key
    ctx: PlanContext
    desired: Desired
    steps: Iterator[Step]
    removals: list[Removal] = field(default_factory=list)
    """Judged when all steps have been taken, because the mass-delete limit counts the deletions of a plan together."""
    initial: frozenset[Ref] = frozenset()
    """The copies that were desired when the plan began."""
    replanned: set[str] = field(default_factory=set)
    """Namespaces planned as slices since the plan began. Those plans are newer, so this one skips them."""

    @classmethod
    def single(cls, key: Key, ctx: PlanContext, desired: Desired) -> Self:
        """A plan whose steps are all taken at once."""
        return cls(key, ctx, desired, steps(ctx, desired))

    @classmethod
    def start(cls, key: Key, ctx: PlanContext, desired: Desired) -> Self:
        """A plan whose copies are freed one by one, as their steps are taken: 100,000 copies take 11 MB."""
        without_copies = replace(desired, copies=())
        initial = frozenset(copy.ref for copy in desired.copies)
        copies = _freed_when_taken(desired.copies)
        return cls(key, ctx, without_copies, steps(ctx, without_copies, copies), initial=initial)

    def take(self) -> list[Step]:
        """The next chunk. If it has fewer than `CHUNK` steps, it is the last."""
        return list(islice(self.steps, CHUNK))

    def dropped_namespaces(self, desired: Desired) -> set[str]:
        """Namespaces of copies that were desired when the plan began and are not desired at its end."""
        return {ref.namespace for ref in self.initial.difference(copy.ref for copy in desired.copies)}


class Planner:
    """Takes keys out of the work queue. Owns the large plans under way; nothing in it awaits."""

    def __init__(  # noqa: PLR0913 - what a plan reads, and what its results go to
        self,
        cache: Cache,
        registry: Registry,
        policy: ClusterPolicy,
        all_counts: dict[Key, CopyCounts],
        *,
        queue: WorkQueue,
        outbox: Outbox,
        gate: WriteGate,
        deletions: DeletionGate,
        hold_store: HoldStore,
        fetcher: Fetcher,
        secrets: SecretPoller | None,
        status: StatusReporter,
        events: EventRecorder,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        """`all_counts`: by source. Only the planner adds and removes entries."""
        self._cache = cache
        self._registry = registry
        self._policy = policy
        self._all_counts = all_counts
        self._queue = queue
        self._outbox = outbox
        self._gate = gate
        self._deletions = deletions
        self._hold_store = hold_store
        self._fetcher = fetcher
        self._secrets = secrets
        self._status = status
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._chunked: dict[Key, ChunkedPlan] = {}
        """Large plans under way, by key; the first one continues next."""

    @property
    def is_idle(self) -> bool:
        """True if nothing waits to be planned, read or reported."""
        unread = self._fetcher.pending + (self._secrets.readings.pending if self._secrets is not None else 0)
        return not (self._chunked or len(self._queue) or unread or self._status.stale)

    # ------------------------------------------------------------------ the work queue

    def enqueue(self, key: Key, delay: float = 0.0) -> None:
        """Something changed: plans this key from the beginning."""
        if key.namespace is None:
            self._chunked.pop(key, None)
        self.requeue(key, delay)

    def requeue(self, key: Key, delay: float = 0.0) -> None:
        """Plans this key again. If a large plan of it is under way, that one goes on."""
        if key.all_namespaces in self._all_counts or not self._cache.is_idle(key):
            self._queue.add(key, delay)

    def requeue_all(self, keys: Iterable[Key], delay: float = 0.0) -> None:
        for key in keys:
            self.requeue(key, delay)

    def resync(self) -> None:
        """Plans everything again, and reports lasting problems."""
        self._events.note_observed(self._cache.with_near_misses())
        for key in tuple(self.keys()):
            self.enqueue(key)

    def keys(self) -> Iterator[Key]:
        """Every source, and every source that a copy names."""
        for source_type in self._registry.source_types:
            yield from (Key(source_type.name, source) for source in self._cache.sources(source_type.name))
        yield from self._cache.marked_sources()

    # ------------------------------------------------------------------ planning

    def plan_queued(self, end: float) -> bool:
        """Plans queued keys, and chunks of large plans, until this time. True if more is waiting."""
        while self._clock() < end:
            key = self._queue.take()
            if key is not None:
                with contain(key, partial(self.requeue, key, RETRY_AFTER_BUG)):
                    self.plan(key)
            elif not self.continue_chunked():
                return False
        return True

    def offer_statuses(self, end: float) -> bool:
        """Offers the statuses that are due, until this time. True if more is waiting."""
        for report in self._status.due(self._is_busy):
            self._offer(report, self._all_counts[report.key], urgent=True)
            if self._clock() >= end:
                return True
        return False

    def plan(self, key: Key) -> None:
        """Compares the desired state of a key with the cluster (`prepare` and `steps` of core/plan.py), and offers the
        writes.

        A plan with more than one chunk is only started here; `continue_chunked` goes on with it.
        """
        started = self._clock()
        if (prepared := self._prepare(key)) is None:
            return
        ctx, desired = prepared
        self._outbox.clear(key)  # the new plan replaces what an older one still had waiting
        counts = self._all_counts.setdefault(key.all_namespaces, CopyCounts())
        if key.namespace is not None and key.all_namespaces in self._chunked:
            self._chunked[key.all_namespaces].replanned.add(key.namespace)
        if key.namespace is None:
            self._chunked.pop(key, None)
            desired = _rotated_to_pending(desired, counts)
            if len(desired.copies) > CHUNK:
                self._chunked[key] = ChunkedPlan.start(key, ctx, desired)
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
        for unread in prepared.read_first:
            self._fetcher.fetch(unread.ref, key)
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
        waiting = self._outbox.waiting
        key = next((key for key in self._chunked if waiting(key) < MAX_WAITING), None)
        if key is None:
            return False
        plan = self._chunked.pop(key)  # it returns to the end, so that large plans take turns
        with contain(key, partial(self.requeue, key, RETRY_AFTER_BUG)):
            counts, chunk = self._all_counts[key], plan.take()
            for step in chunk:
                if step.ref.namespace not in plan.replanned:
                    self._handle_step(plan, counts, step)
                elif isinstance(step.outcome, Delete | Release):  # the mass-delete limit must count it all the same
                    plan.removals.append(step.outcome)
            if len(chunk) == CHUNK:
                self._chunked[key] = plan
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
        self._deletions.note_step(plan.key, step)
        match step.outcome:
            case None | Blocked(reason="no-namespace"):
                self._gate.note_settled(plan.key.all_namespaces, step.ref)
                self._deletions.note_settled(step.ref)
            case ReadFirst(ref=ref):
                self._fetcher.fetch(ref, plan.key.in_namespace(ref.namespace) if ref.namespace else plan.key)
            case AskFirst(ref=ref, queries=queries):
                self._fetcher.ask(queries, plan.key.in_namespace(ref.namespace) if ref.namespace else plan.key)
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
        verdict = self._deletions.judge(key, source, removals, desired.finalizer, counts.paused_removals(key.namespace))
        for removal in verdict.allowed:
            self._offer(removal, counts, urgent=key.namespace is not None)
        for delayed_key, delay in verdict.requeue:
            self.requeue(delayed_key, delay)
        if verdict.must_record:
            self._hold_store.save_soon()
        counts.mark_held(verdict.held.refs if verdict.held is not None else frozenset())
        if desired.requeue_after is not None:
            self.requeue(key, desired.requeue_after)
        if source is not None and source.deleting and desired.finalizer in source.finalizers:
            self.requeue(key.all_namespaces, RECHECK_TERMINATING)
        self._events.record_plan(key, desired, counts, verdict.held)
        self._status.mark_stale(key)
        if source is None and not removals and not counts.wanted:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        """Drops the state of a key whose source is gone, and of whose copies the plan has found none."""
        self._all_counts.pop(key.all_namespaces, None)
        is_last = key.namespace is None or not self._cache.count(key.all_namespaces)
        if is_last:  # otherwise this is the plan of one namespace, and there are copies in others
            self._deletions.forget(key)
            self._gate.forget_source(key.source)

    def _offer(self, write: Write, counts: CopyCounts, *, urgent: bool) -> None:
        """Puts a write into the outbox. If it has to wait, queues its key for later."""
        delay = self._gate.offer(write, counts, urgent=urgent)
        if delay is not None:
            self.requeue(slice_of(write), delay)

    def _is_busy(self, key: Key) -> bool:
        """True while a plan or a write of this source is under way."""
        return key in self._chunked or bool(self._outbox.waiting(key)) or self._outbox.has_in_flight(key)


def _rotated_to_pending(desired: Desired, counts: CopyCounts) -> Desired:
    """Starts with the copy that has been pending longest.

    Otherwise a source that changes faster than it is copied would never reach its last namespaces.
    """
    pending = counts.longest_pending()
    if pending is None:
        return desired
    first = next((index for index, copy in enumerate(desired.copies) if copy.ref == pending), 0)
    return replace(desired, copies=desired.copies[first:] + desired.copies[:first]) if first else desired


def _freed_when_taken(copies: tuple[Copy, ...]) -> Iterator[Copy]:
    remaining = list(reversed(copies))
    del copies  # the list holds the only reference to each copy now
    while remaining:
        yield remaining.pop()
