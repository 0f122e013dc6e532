"""Decides whether a planned write may be sent now: not before the end of its backoff, and within the drift limit."""

from __future__ import annotations

from collections.abc import Callable

from samara.core.copy_counts import CopyCounts
from samara.core.model import Key, Ref
from samara.core.writes import Apply, SetFinalizer, Write
from samara.engine.events import EventRecorder
from samara.engine.limits import DriftLimiter
from samara.engine.outbox import Outbox
from samara.engine.results import note_refused
from samara.engine.retry import RetryBackoff


class WriteGate:
    """Puts the writes of the planner that need not wait into the outbox. It sends nothing itself."""

    def __init__(
        self,
        outbox: Outbox,
        retry: RetryBackoff,
        drift: DriftLimiter,
        events: EventRecorder,
        clock: Callable[[], float],
        *,
        observe: bool = False,
    ) -> None:
        """`observe`: plan and count, but write nothing."""
        self._outbox = outbox
        self._retry = retry
        self._drift = drift
        self._events = events
        self._clock = clock
        self._observe = observe

    def offer(self, write: Write, counts: CopyCounts, *, urgent: bool) -> float | None:
        """Puts a write into the outbox. If it has to wait, returns the seconds after which to plan it again."""
        if self._observe or self._must_keep_finalizer(write):
            return None
        state = self._retry.state_of(write)
        if state is not None and state.is_reported:
            note_refused(write, counts, state.message)  # until it succeeds, also while it is retried
        if state is not None and state.until > self._clock():
            return state.until - self._clock()
        throttled = self._drift.throttle(write)
        if throttled is not None:
            if isinstance(write, Apply):
                self._events.report_blocked(write, "Fought", throttled.message)
            counts.mark_blocked(write.ref, "fought", throttled.message)
            return throttled.retry_in
        self._outbox.put(write, urgent)
        return None

    def note_settled(self, key: Key, ref: Ref) -> None:
        """A plan has nothing to write at this address: ends its backoff, and no later write is a repair of an edit."""
        self._retry.forget(key, ref)
        self._drift.reset(ref)

    def forget_source(self, source: Ref) -> None:
        """Drops the backoffs of a source of which nothing is left."""
        self._retry.end_for_source(source)

    def _must_keep_finalizer(self, write: Write) -> bool:
        """A finalizer stays while a write of its source is in flight, because that may create a copy."""
        return isinstance(write, SetFinalizer) and not write.add and self._outbox.has_in_flight(write.key)
