"""Backoff of failed writes, for each source and address on its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, inf

from samara.core.model import NAMESPACE, Key, Ref
from samara.core.writes import Write
from samara.engine.writer import Ending, Result
from samara.kube.errors import MAX_WAIT

_FIRST_DELAY = {Ending.STALE: 0.05, Ending.FAILED: 0.2, Ending.REFUSED: 2.0}
"""Seconds before the second attempt; the delay doubles with each further one."""
_MAX_DELAY_FAILED = 30.0
"""The longest delay in seconds of a write that was not refused."""
_END_GAP = 1.0
"""Shortest time between two retries of a namespace's refused writes, in seconds. Its objects, such as a quota, may
change all the time."""
_REFUSED_GAP = 0.2
"""Seconds between two retries of refused writes, over all addresses: five per second."""
REPORT_AFTER = 3
"""Server faults in a row after which a write is reported. Most faults end before that."""


@dataclass(frozen=True, slots=True)
class RetryState:
    """The failed attempts of one source at one address, and when the next one may be made."""

    attempts: int
    until: float
    is_reported: bool
    """True if users see this: the API server refused the write, or failed at it `REPORT_AFTER` times in a row."""
    message: str
    faults: int = 0
    """Server faults in a row."""


Attempt = tuple[Key, Ref]
"""A refusal concerns one source at one address: another source may write something else there."""


class RetryBackoff:
    """Owns the retry state of every failed write. The planner asks it before each write; it sends nothing itself.

    States are indexed by namespace and by source, so that a change of either finds its states without a search. The
    index by namespace uses `Ref.namespace_or_name`: a change of a Namespace may let a write to the Namespace succeed.
    """

    def __init__(self, max_delay: float, clock: Callable[[], float]) -> None:
        self._max_delay = max_delay
        self._clock = clock
        self._by_namespace: dict[str, dict[Attempt, RetryState]] = {}
        self._by_source: dict[Ref, set[Attempt]] = {}
        self._slots: dict[int, int] = {}
        """Taken retry slots, each with a later slot at which to continue the search for a free one.

        A long delay takes a slot far ahead, so it does not delay a short one.
        """
        self._slots_kept = 0
        self._ended: dict[str, float] = {}
        """By namespace: when a change in it last ended its backoffs, or will end them next."""

    def note(self, write: Write, result: Result) -> float:
        """Records a failure. Returns the seconds after which to try again."""
        attempt = write.key, write.ref
        before = self.state_of(write)
        attempts = before.attempts + 1 if before is not None else 1
        delay = self._delay(result.ending, attempts)
        if result.ending is Ending.REFUSED:
            delay = min(delay, self._until_end(write.ref.namespace_or_name))
        delay = max(delay, min(result.retry_after or 0.0, MAX_WAIT))
        faults = _faults(before, result)
        is_reported = result.ending is Ending.REFUSED or faults >= REPORT_AFTER
        state = RetryState(attempts, self._clock() + delay, is_reported, _message(before, result), faults)
        self._by_namespace.setdefault(write.ref.namespace_or_name, {})[attempt] = state
        self._by_source.setdefault(write.key.source, set()).add(attempt)
        return delay

    def _delay(self, ending: Ending, attempts: int) -> float:
        if ending is Ending.STALE and attempts == 1:
            return 0.0
        longest = self._max_delay if ending is Ending.REFUSED else min(self._max_delay, _MAX_DELAY_FAILED)
        jitter = random.uniform(0.8, 1.2)  # noqa: S311 - not a secret
        delay: float = min(_FIRST_DELAY[ending] * 2.0 ** min(attempts - 1, 30) * jitter, longest)
        if ending is not Ending.REFUSED:
            return delay
        now = self._clock()
        return self._take_slot(now + delay) - now

    def _take_slot(self, when: float) -> float:
        """Takes the first free slot at or after this time, and returns its time."""
        slot, passed = ceil(when / _REFUSED_GAP), []
        while slot in self._slots:
            passed.append(slot)
            slot = self._slots[slot]
        self._slots.update(dict.fromkeys((*passed, slot), slot + 1))
        if len(self._slots) > 2 * self._slots_kept + 1000:
            now = self._clock() / _REFUSED_GAP
            self._slots = {taken: later for taken, later in self._slots.items() if taken >= now}
            self._slots_kept = len(self._slots)
        return slot * _REFUSED_GAP

    def _until_end(self, namespace: str) -> float:
        """Seconds until the backoffs in a namespace end, if it changed while the failed attempt was under way."""
        end_at, now = self._ended.get(namespace, 0.0), self._clock()
        return end_at - now if end_at > now else inf

    def state_of(self, write: Write) -> RetryState | None:
        """The state of a write; None if its last attempt succeeded, or if it was never sent."""
        return self._by_namespace.get(write.ref.namespace_or_name, {}).get((write.key, write.ref))

    @property
    def is_retrying(self) -> bool:
        """True while a write waits for a retry and has not been reported: it may well succeed."""
        now = self._clock()
        return any(
            not state.is_reported and state.until > now
            for states in self._by_namespace.values()
            for state in states.values()
        )

    def forget(self, key: Key, ref: Ref) -> None:
        """Ends the backoff of one source at one address."""
        states = self._by_namespace.get(ref.namespace_or_name)
        if states is None or states.pop((key, ref), None) is None:
            return
        if not states:
            del self._by_namespace[ref.namespace_or_name]
        attempts = self._by_source[key.source]
        attempts.discard((key, ref))
        if not attempts:
            del self._by_source[key.source]

    def end_in_namespace(self, namespace: str) -> list[tuple[Key, float]]:
        """Something changed in a namespace: its refused writes are retried now, but at most once per second.

        A quota changes with every pod. Returns the keys to plan, and after how many seconds.
        """
        states = self._by_namespace.get(namespace)
        if not states:
            return []
        now = self._clock()
        last = self._ended.get(namespace, now - _END_GAP)
        when = last if last > now else max(now, last + _END_GAP)  # many changes share the next end
        self._ended = {name: at for name, at in self._ended.items() if at > now - _END_GAP}
        # A write that is due may be in flight, and its answer may be older than this change: end them once more.
        is_due = any(state.until < now for state in states.values())
        self._ended[namespace] = max(when, now + _END_GAP) if is_due else when
        for attempt, state in states.items():  # the number of attempts stays: if refused again, it waits longer
            states[attempt] = replace(state, until=min(state.until, when))
        return [(key.in_namespace(namespace) if ref.namespace else key, when - now) for key, ref in states]

    def forget_object(self, ref: Ref) -> None:
        """An object was deleted: forgets the writes to it and, for a Namespace, all writes in it."""
        for key, address in tuple(self._by_namespace.get(ref.namespace_or_name, ())):
            if ref.kind == NAMESPACE or address == ref:
                self.forget(key, address)

    def end_for_source(self, source: Ref) -> None:
        """A source changed: the API server may accept its writes now."""
        for attempt in tuple(self._by_source.get(source, ())):
            self.forget(*attempt)


def _faults(before: RetryState | None, result: Result) -> int:
    """Server faults in a row. An overloaded or unreachable server shows nothing about the write: the count stays."""
    faults = before.faults if before is not None and result.ending is Ending.FAILED else 0
    return faults + result.server_fault


def _message(before: RetryState | None, result: Result) -> str:
    """The API server's last message about this write. A later "unreachable" does not replace it."""
    is_uninformative = result.ending is Ending.FAILED and not result.server_fault
    return before.message if before is not None and before.faults and is_uninformative else result.message
