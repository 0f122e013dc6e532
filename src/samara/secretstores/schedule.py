"""Schedules the reads of documents: new documents first, and no reads while the store does not answer."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from math import inf

FIRST_WAIT, MAX_WAIT = 1.0, 300.0
"""Seconds without requests after the first failure of a store, and after many.

`MAX_WAIT` also limits the time between retries of one document, unless its refresh interval is longer.
"""
MAX_RETRY_AFTER = 3600.0
"""Seconds. A store that asks for a longer wait gets this one."""


def retry_delay(first: float, failures: int, every: float) -> float:
    """Seconds until a document that failed this often in a row is read again. `every` is its refresh interval.

    The delay grows beyond `every`: a source with a refresh of one second must not send a request every second.
    """
    return min(min(first, every) * 2.0 ** min(failures - 1, 30), max(every, MAX_WAIT)) if failures else inf


class PollSchedule:
    """The times at which documents are due. Documents that were never tried come before all others."""

    def __init__(self) -> None:
        self._due: dict[str, tuple[bool, float]] = {}
        self._heaps: dict[bool, list[tuple[float, int, str]]] = {False: [], True: []}
        self._order = count()

    def put(self, name: str, when: float, tried: bool) -> None:
        """Replaces the time at which a document is due."""
        self._due[name] = tried, when
        heapq.heappush(self._heaps[tried], (when, next(self._order), name))

    def drop(self, name: str) -> None:
        self._due.pop(name, None)

    def clear(self) -> None:
        self._due.clear()  # entries on the heaps are skipped, since `_due` no longer has them

    def due_at(self, name: str) -> float | None:
        entry = self._due.get(name)
        return None if entry is None else entry[1]

    def take(self, now: float) -> str | None:
        """Removes and returns the next document that is due, if there is one."""
        for tried in (False, True):
            when = self._first(tried)
            if when is not None and when <= now:
                name = heapq.heappop(self._heaps[tried])[2]
                del self._due[name]
                return name
        return None

    def next_due(self) -> float | None:
        """When the next document is due."""
        return min((when for tried in (False, True) if (when := self._first(tried)) is not None), default=None)

    def _first(self, tried: bool) -> float | None:
        heap = self._heaps[tried]
        while heap and self._due.get(heap[0][2]) != (tried, heap[0][0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None


class StoreBackoff:
    """Stops all reads of a store that does not answer. Later one read probes it; if it succeeds, the others follow."""

    def __init__(self, clock: Callable[[], float], jitter: Callable[[], float]) -> None:
        self._clock = clock
        self._jitter = jitter
        self._failures = 0
        self.until = 0.0
        self.round = 0
        """Reads that started in the same round and fail count as one failure."""

    @property
    def is_active(self) -> bool:
        return self._failures > 0

    @property
    def is_confirmed(self) -> bool:
        """True if several documents have failed, so that the store and not one document is at fault."""
        return self._failures > 1

    def remaining(self) -> float:
        """Seconds until the next read."""
        return max(0.0, self.until - self._clock())

    def failed(self, round: int, retry_after: float | None, repeated: bool) -> bool:
        """Counts a failure. False if another read of the same round has failed before.

        The wait grows if one document after the other fails, not if the same one fails again (`repeated`).
        """
        now, is_first = self._clock(), round == self.round
        if is_first:
            self._failures = self._failures if repeated and self._failures else self._failures + 1
            self.until = now + min(FIRST_WAIT * 2.0 ** min(self._failures - 1, 30), MAX_WAIT) * self._jitter()
            self.round += 1
        self.until = max(self.until, now + min(retry_after or 0.0, MAX_RETRY_AFTER))
        return is_first

    def succeeded(self, round: int) -> None:
        """Ends the backoff. A read that started before the last failure proves nothing."""
        if round == self.round:
            self._failures, self.until = 0, 0.0
