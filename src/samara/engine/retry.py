"""Writes that did not go through wait here, each alone, until it makes sense to try again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, inf

from samara.core.model import NAMESPACE, Key, Ref
from samara.core.writes import Write
from samara.engine.outcome import Outcome, Result
from samara.kube.errors import MOST_WAIT

_FIRST = {Outcome.STALE: 0.05, Outcome.FAILED: 0.2, Outcome.REFUSED: 2.0}
_FAILED_MOST = 30.0
_FREED_GAP = 1.0
_REFUSED_GAP = 0.2
"""All retries of refused writes together: five per second."""
REPORT_AFTER = 3
"""The first faults of the server are its own business; from this one on a person should know."""


@dataclass(frozen=True, slots=True)
class RetryState:
    """What one source writes at one address, and is not tried again before its time."""

    attempts: int
    until: float
    is_reported: bool
    """True where people are told of it: the server will not have it, or has failed at it again and again."""
    message: str
    faults: int = 0
    """How often in a row the server said that it could not."""


Attempt = tuple[Key, Ref]
"""What was refused to one source says nothing of another's write: a bad label, and a namespace that shall go."""


class RetryBackoff:
    """What waits: by namespace and by source, so that a change of either frees it without a look at all the rest."""

    def __init__(self, most: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._by_namespace: dict[str, dict[Attempt, RetryState]] = {}
        self._by_source: dict[Ref, set[Attempt]] = {}
        self._slots: dict[int, int] = {}
        """Moments that are given away, each with one where to look on: a long wait must not delay a short one."""
        self._pruned = 0
        self._freed: dict[str, float] = {}
        """When a namespace had its last turn after a change in it, or has its next."""

    def note(self, write: Write, result: Result) -> float:
        """Notes a failure and returns after how long to try again."""
        spot = write.key, write.ref
        before = self.of(write)
        attempts = before.attempts + 1 if before is not None else 1
        delay = self._delay(result.outcome, attempts)
        if result.outcome is Outcome.REFUSED:
            delay = min(delay, self._next_turn(_home(write.ref)))
        delay = max(delay, min(result.retry_after or 0.0, MOST_WAIT))
        faults = _faults(before, result)
        told = result.outcome is Outcome.REFUSED or faults >= REPORT_AFTER
        wait = RetryState(attempts, self._clock() + delay, told, _message(before, result), faults)
        self._by_namespace.setdefault(_home(write.ref), {})[spot] = wait
        self._by_source.setdefault(write.key.source, set()).add(spot)
        return delay

    def _delay(self, outcome: Outcome, attempts: int) -> float:
        if outcome is Outcome.STALE and attempts == 1:
            return 0.0
        most = self._most if outcome is Outcome.REFUSED else min(self._most, _FAILED_MOST)
        jitter = random.uniform(0.8, 1.2)  # noqa: S311 - not a secret
        delay: float = min(_FIRST[outcome] * 2.0 ** min(attempts - 1, 30) * jitter, most)
        if outcome is not Outcome.REFUSED:
            return delay
        now = self._clock()
        return self._free_slot(now + delay) - now

    def _free_slot(self, when: float) -> float:
        """The first moment from then on that no other refused write has."""
        slot, passed = ceil(when / _REFUSED_GAP), []
        while slot in self._slots:
            passed.append(slot)
            slot = self._slots[slot]
        self._slots.update(dict.fromkeys((*passed, slot), slot + 1))
        if len(self._slots) > 2 * self._pruned + 1000:
            now = self._clock() / _REFUSED_GAP
            self._slots = {each: after for each, after in self._slots.items() if each >= now}
            self._pruned = len(self._slots)
        return slot * _REFUSED_GAP

    def _next_turn(self, namespace: str) -> float:
        """After how long a namespace has its turn, if a change there came too late for the try that just ended."""
        turn, now = self._freed.get(namespace, 0.0), self._clock()
        return turn - now if turn > now else inf

    def of(self, write: Write) -> RetryState | None:
        """What is known of the last tries of a write; nothing once it has succeeded."""
        return self._by_namespace.get(_home(write.ref), {}).get((write.key, write.ref))

    @property
    def retrying(self) -> bool:
        """True while something is to be tried again that nobody is told of yet: it may well succeed."""
        now = self._clock()
        return any(
            not wait.is_reported and wait.until > now
            for waits in self._by_namespace.values()
            for wait in waits.values()
        )

    def forget(self, key: Key, ref: Ref) -> None:
        here = self._by_namespace.get(_home(ref), {})
        if here.pop((key, ref), None) is None:
            return
        if not here:
            del self._by_namespace[_home(ref)]
        of_source = self._by_source[key.source]
        of_source.discard((key, ref))
        if not of_source:
            del self._by_source[key.source]

    def release_namespace(self, namespace: str) -> list[tuple[Key, float]]:
        """Something changed in a namespace: what waits there is tried now, but not at every tick of a quota."""
        waits = self._by_namespace.get(namespace)
        if not waits:
            return []
        now = self._clock()
        last = self._freed.get(namespace, now - _FREED_GAP)
        when = last if last > now else max(now, last + _FREED_GAP)  # many ticks share the next turn
        self._freed = {each: at for each, at in self._freed.items() if at > now - _FREED_GAP}
        tried = any(wait.until < now for wait in waits.values())  # on its way: the answer may be older than the change
        self._freed[namespace] = max(when, now + _FREED_GAP) if tried else when
        for spot, wait in waits.items():  # the attempts stay: refused again, it waits longer
            waits[spot] = replace(wait, until=min(wait.until, when))
        return [(key.in_namespace(namespace) if ref.namespace else key, when - now) for key, ref in waits]

    def gone(self, ref: Ref) -> None:
        """An object is no more, and what waited to change it is over; of a Namespace, all that waited in it."""
        for key, place in tuple(self._by_namespace.get(_home(ref), ())):
            if ref.kind == NAMESPACE or place == ref:
                self.forget(key, place)

    def release_source(self, source: Ref) -> None:
        """A source changed: what was refused before may be taken now."""
        for spot in tuple(self._by_source.get(source, ())):
            self.forget(*spot)


def _home(ref: Ref) -> str:
    """The namespace whose change frees an address: of a Namespace it is the Namespace itself."""
    return ref.namespace or ref.name


def _faults(before: RetryState | None, result: Result) -> int:
    """A server that is overloaded or out of reach says nothing of the write: the row goes on."""
    row = before.faults if before is not None and result.outcome is Outcome.FAILED else 0
    return row + result.server_fault


def _message(before: RetryState | None, result: Result) -> str:
    """What people are told stays what the server said of this write."""
    says_nothing = result.outcome is Outcome.FAILED and not result.server_fault
    return before.message if before is not None and before.faults and says_nothing else result.message
