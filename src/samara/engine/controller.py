"""The controller: messages become keys, keys become plans, plans become writes, and their results are messages again.

    Reflector ─ Observed ─▶ Inbox ─▶ handle() ─▶ Planner ─▶ Outbox ─▶ Writer ─ WriteDone ─▶ Inbox

`handle` and `work` do not await, so no state changes while they run. All I/O is done by the components that post to
the inbox: reflectors, writer, fetcher, secret poller and hold store.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import assert_never

from samara import log
from samara.core.copy_counts import CopyCounts
from samara.core.model import NAMESPACE, QUOTA, Key, Ref
from samara.core.queries import CrdExists
from samara.core.registry import Registry
from samara.core.writes import Delete, Write, WriteStatus
from samara.engine.deletions import DeletionGate
from samara.engine.events import EventRecorder
from samara.engine.fetcher import Fetcher
from samara.engine.limits import DriftLimiter
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.messages import Fetched, HoldAnswered, HoldsStored, Inbox, Message
from samara.engine.outbox import Outbox
from samara.engine.planner import Planner
from samara.engine.process import RETRY_AFTER_BUG, contain
from samara.engine.results import ResultHandler, slice_of
from samara.engine.retry import RetryBackoff
from samara.engine.status import StatusReporter
from samara.engine.triggers import Triggers, next_hops, triggers
from samara.engine.workqueue import WorkQueue
from samara.engine.writer import Ending, WriteDone, WriteDropped, Writer
from samara.kube.cache import Cache, Change
from samara.kube.reflector import Listed, Observed, QuotaChanged
from samara.secretstores.poller import SecretValues

TIME_SLICE = 0.005
"""Seconds. Messages, planning and status writes get one slice each in every turn, so that none starves the others."""
RECHECK_OUTBOX = 1.0
"""Seconds after which waiting writes are tried again. They may have waited for the lease to be renewed."""


class Controller:
    """Handles all messages, one after another, and lets the planner and the writer work in turns.

    On a standby the reflectors fill the cache, but its inbox is closed until it leads.
    """

    def __init__(  # noqa: PLR0913 - the components that it drives
        self,
        inbox: Inbox,
        cache: Cache,
        registry: Registry,
        all_counts: Mapping[Key, CopyCounts],
        *,
        queue: WorkQueue,
        planner: Planner,
        outbox: Outbox,
        writer: Writer,
        fetcher: Fetcher,
        results: ResultHandler,
        retry: RetryBackoff,
        drift: DriftLimiter,
        deletions: DeletionGate,
        guard: MassDeleteGuard,
        status: StatusReporter,
        events: EventRecorder,
        clock: Callable[[], float],
        resync_every: float = 0.0,
    ) -> None:
        self.leading = False
        self.synced = False
        """True once everything that was listed has been planned and written."""
        self._inbox = inbox
        self._cache = cache
        self._registry = registry
        self._all_counts = all_counts
        self._queue = queue
        self._planner = planner
        self._outbox = outbox
        self._writer = writer
        self._fetcher = fetcher
        self._results = results
        self._retry = retry
        self._drift = drift
        self._deletions = deletions
        self._guard = guard
        self._status = status
        self._events = events
        self._clock = clock
        self._resync_every = resync_every
        """Seconds between plans of everything; 0: never."""
        self._resync_at: float | None = None
        self._echoed: set[Ref] = set()
        """Addresses of which the watch reported a change while our own write to them was in flight."""
        self._unlocked = asyncio.Event()

    # ------------------------------------------------------------------ the loop

    async def run(self) -> None:
        """Leads: plans and writes until cancelled.

        Each round does one turn of work, which asks for reads and puts writes into the outbox, and then starts them.
        Requests and reads are tasks of their own, and post their results to the inbox.
        """
        self.lead()
        async with asyncio.TaskGroup() as group:
            while True:
                is_busy = self.work()
                self._fetcher.start_waiting(group)
                self._writer.send_waiting(group)
                if is_busy:
                    await asyncio.sleep(0)  # the tasks go on meanwhile
                else:
                    self.note_sync()
                    await self._inbox.wait(self._next_due())

    def lead(self) -> None:
        self.leading = True
        self._inbox.open()
        self._resync_at = self._next_resync()
        self._planner.resync()

    def work(self) -> bool:
        """One turn: messages put keys into the work queue, plans of these put writes into the outbox, and so do the
        statuses that are due. Each has one time slice. True if more is waiting."""
        has_messages = self._handle_messages(self._clock() + TIME_SLICE)
        self._requeue_due()
        has_keys = self._planner.plan_queued(self._clock() + TIME_SLICE)
        has_statuses = self._planner.offer_statuses(self._clock() + TIME_SLICE)
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
            self._planner.enqueue(key)
        if self._resync_at is not None and self._clock() >= self._resync_at:
            self._resync_at = self._next_resync()
            self._planner.resync()

    def _next_due(self) -> float | None:
        """Seconds for which nothing is due; None if only a message can change that."""
        due = [self._queue.next_due(), self._guard.next_due(), self._status.next_due()]
        if len(self._outbox):
            due.append(self._writer.pause or RECHECK_OUTBOX)
        if self._resync_at is not None:
            due.append(max(0.0, self._resync_at - self._clock()))
        return min((seconds for seconds in due if seconds is not None), default=None)

    def _next_resync(self) -> float | None:
        """The time of the next resync; None if it is disabled. Jitter keeps many processes from resyncing together."""
        jitter = random.uniform(0.9, 1.1)  # noqa: S311 - not a secret
        return self._clock() + self._resync_every * jitter if self._resync_every else None

    async def drain(self, timeout: float) -> None:
        """Sends no more writes, and waits until the results of those in flight have been handled."""
        self.leading = False
        self._writer.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self.in_flight:
                    self._unlocked.clear()
                    await self._unlocked.wait()

    # ------------------------------------------------------------------ messages

    def handle(self, message: Message) -> None:  # noqa: C901 - one branch for each message
        """Updates the state for one message, and queues the keys that it concerns. Nothing else changes the state."""
        match message:
            case Observed(changes, first_list):
                for change in changes:
                    with contain(change.ref, retry=None):
                        self._observed(change, is_known=first_list)
            case WriteDone(write):
                self._unlock(write)  # first: an address must not stay locked, whatever else fails
                with contain(write.ref, partial(self._planner.requeue, slice_of(write), RETRY_AFTER_BUG)):
                    self._write_done(message)
            case WriteDropped(write):
                self._unlock(write)
                self._planner.requeue(slice_of(write))
            case Fetched(keys, delay, change):
                if change is not None:
                    with contain(change.ref, retry=None):
                        self._fetched(change, delay)
                self._planner.requeue_all(keys, delay)
            case Listed(kind):
                self._deletions.restart_grace_periods(kind)
                self._planner.resync()
            case QuotaChanged(ref):
                self._retry_namespace(ref.namespace)
            case SecretValues(changed, refreshed):
                self._planner.requeue_all(changed)
                for key in refreshed:
                    self._status.mark_stale(key)
            case HoldAnswered(key, answer):
                log.info("brake.answered", key=key, word=answer)
                self._guard.release(key, discard=answer == "discard")
                self._planner.enqueue(key)
            case HoldsStored(keys):
                for key in keys:
                    self._planner.enqueue(key)
            case _:
                assert_never(message)

    def _observed(self, change: Change, delay: float = 0.0, *, is_known: bool = False) -> None:
        """`is_known`: the object is older than our watch, so that it is not known which client made it."""
        own = self._outbox.in_flight(change.ref)  # if set, the change is most likely the echo of this write
        triggered = triggers(change, self._registry, self._cache)
        if own is None:
            self._note_edit(change, triggered, is_known=is_known)
        else:
            self._echoed.add(change.ref)
        if triggered.status_of:  # nothing that a plan depends on has changed
            return
        self._end_backoffs(change, triggered.edited)
        self._events.note_change(change)
        if triggered.deleted_kind is not None:
            self._cache.answers.forget(CrdExists(triggered.deleted_kind))
        for key in triggered.keys:
            if isinstance(own, Delete) and change.new is None and key.source == change.ref:
                self._deletions.note_intended(key.source)  # the echo arrived before the answer
            if own is None or key.all_namespaces != own.key:  # the key of our own write waits for its result
                self._planner.enqueue(key, delay)

    def _note_edit(self, change: Change, triggered: Triggers, *, is_known: bool) -> None:
        """Records that another client changed an object: a copy, or the status that we write to a source."""
        if not is_known:
            self._deletions.note_foreign_change(change)
        if triggered.status_of:
            for key in triggered.status_of:
                self._status.note_foreign_write(key)
        else:
            self._drift.observe_edit(change, self._registry.keeper, self._cache)

    def _end_backoffs(self, change: Change, edited: Collection[Ref]) -> None:
        """Ends the backoffs of writes that may be accepted after this change, or that are no longer needed."""
        if change.ref.kind in (NAMESPACE, QUOTA):
            self._retry_namespace(change.ref.namespace_or_name)
        if change.new is None:
            self._retry.forget_object(change.ref)
        for source in edited:
            self._retry.end_for_source(source)

    def _retry_namespace(self, namespace: str) -> None:
        for key, delay in self._retry.end_in_namespace(namespace):
            self._planner.requeue(key, delay)

    def _fetched(self, change: Change, delay: float) -> None:
        self._observed(change, delay)
        if change.new is None:
            self._drift.reset(change.ref)  # most likely our own delete, of which the answer was lost

    def _write_done(self, done: WriteDone) -> None:
        write, result = done.write, done.result
        is_echoed = write.ref in self._echoed
        self._echoed.discard(write.ref)
        for change in result.changes:
            self._deletions.note_own_change(change)
            self._events.note_change(change)
            self._continue_chain(change)
        follow_up = self._results.handle(done)
        for key, delay in follow_up.requeue:
            self._planner.requeue(key, delay)
        if follow_up.refetch is not None:
            self._fetcher.fetch(*follow_up.refetch)
        if is_echoed and result.ending is Ending.DONE and self._version_at(write.ref) != result.version:
            self._planner.requeue(slice_of(write))  # the supposed echo was a change by another client
        if not isinstance(write, WriteStatus):
            self._status.mark_stale(write.key)

    def _version_at(self, ref: Ref) -> int | None:
        obj = self._cache.get(ref)
        return None if obj is None else obj.resource_version

    def _continue_chain(self, change: Change) -> None:
        """Queues the keys of which a write changed the source, without waiting for the watch to report the change."""
        for key in next_hops(change, self._registry, self._cache):
            if key.source == change.ref:
                self._retry.end_for_source(key.source)
                if change.new is None:
                    self._deletions.note_intended(key.source)
            self._planner.requeue(key)

    def _unlock(self, write: Write) -> None:
        """Unlocks the address of a write, and queues the keys that wanted to write there meanwhile."""
        self._unlocked.set()
        for key in self._outbox.done(write):
            self._planner.requeue(key.in_namespace(write.ref.namespace) if write.ref.namespace else key)

    # ------------------------------------------------------------------ state for health and metrics

    def oldest_pending(self) -> float:
        """Seconds for which the oldest key or write has waited."""
        return max(self._queue.oldest(), self._outbox.oldest())

    @property
    def in_flight(self) -> int:
        """How many writes were sent whose results have not been handled."""
        return self._outbox.in_flight_count

    @property
    def obstacle(self) -> str | None:
        """Why no write can succeed now; None if writes can."""
        return self._writer.obstacle

    def note_sync(self) -> None:
        """Sets `synced` once nothing is left to do."""
        if self.synced or not all(map(self._cache.is_settled, self._registry.kinds)):
            return
        if not (self._planner.is_idle and self._outbox.is_idle) or self._retry.is_retrying:
            return
        self.synced = True
        self._writer.stop_verifying()
        self._guard.settle({*self._all_counts, *self._planner.keys()}, self._is_planned)
        log.info("synced", sources=len(self._all_counts))

    def _is_planned(self, vocabulary: str) -> bool:
        """True if all sources of a vocabulary are planned: it is served, and its kinds are listed."""
        source_types = [
            source_type for source_type in self._registry.source_types if source_type.vocabulary == vocabulary
        ]
        return all(
            source_type.enabled and all(map(self._cache.has_synced, source_type.kinds)) for source_type in source_types
        )
