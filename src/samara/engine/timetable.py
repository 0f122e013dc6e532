"""When documents of a store are read: each at its time, new ones first, and nobody while the store is out of reach."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from math import inf

FIRST, MOST = 1.0, 300.0
"""Seconds for which a store that does not answer is left alone: after the first failure, and at most.

The most holds also for a document that is refused, unless it is to be read less often than that anyway.
"""
LONGEST = 3600.0
"""What a store itself may ask for at most."""


def pause(first: float, failures: int, every: float) -> float:
    """How long something is left alone that has failed so often in a row; `every` is how often it should be read.

    It grows, also beyond `every`: whoever wants to be up to date within a second may not knock every second.
    """
    return min(min(first, every) * 2.0 ** min(failures - 1, 30), max(every, MOST)) if failures else inf


class Timetable:
    """Names by when they are due; those that nobody has tried to read yet come before all others."""

    def __init__(self) -> None:
        self._when: dict[str, tuple[bool, float]] = {}
        self._heaps: dict[bool, list[tuple[float, int, str]]] = {False: [], True: []}
        self._order = count()

    def put(self, name: str, when: float, tried: bool) -> None:
        """Sets the time of a name, whatever it was before."""
        self._when[name] = tried, when
        heapq.heappush(self._heaps[tried], (when, next(self._order), name))

    def drop(self, name: str) -> None:
        self._when.pop(name, None)

    def clear(self) -> None:
        self._when.clear()  # what is left on the heaps is passed over

    def when(self, name: str) -> float | None:
        found = self._when.get(name)
        return None if found is None else found[1]

    def take(self, now: float) -> str | None:
        """The next that is due now, if there is one."""
        for tried in (False, True):
            when = self._first(tried)
            if when is not None and when <= now:
                name = heapq.heappop(self._heaps[tried])[2]
                del self._when[name]
                return name
        return None

    def next(self) -> float | None:
        """When the next one is due."""
        return min((when for tried in (False, True) if (when := self._first(tried)) is not None), default=None)

    def _first(self, tried: bool) -> float | None:
        heap = self._heaps[tried]
        while heap and self._when.get(heap[0][2]) != (tried, heap[0][0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None


class Backoff:
    """A store that does not answer is left alone; then one reads, and the others when that has gone well."""

    def __init__(self, clock: Callable[[], float], jitter: Callable[[], float]) -> None:
        self._clock = clock
        self._jitter = jitter
        self._failures = 0
        self.until = 0.0
        self.round = 0
        """What begins in one round and fails counts once."""

    @property
    def is_on(self) -> bool:
        return self._failures > 0

    @property
    def is_lasting(self) -> bool:
        """True where another document has failed as well: then it is not one document's fault."""
        return self._failures > 1

    def wait(self) -> float:
        return max(0.0, self.until - self._clock())

    def bad(self, round: int, retry_after: float | None, again: bool) -> bool:
        """True where it counts: not where another one of the same round has failed before.

        The wait grows when one document after the other fails, not when one does so again (`again`) and again.
        """
        now, counts = self._clock(), round == self.round
        if counts:
            self._failures = self._failures if again and self._failures else self._failures + 1
            self.until = now + min(FIRST * 2.0 ** min(self._failures - 1, 30), MOST) * self._jitter()
            self.round += 1
        self.until = max(self.until, now + min(retry_after or 0.0, LONGEST))
        return counts

    def good(self, round: int) -> None:
        """What began before the last failure proves nothing."""
        if round == self.round:
            self._failures, self.until = 0, 0.0
