"""Schedules the reads of documents: namespaces take turns, and nothing is read while the store does not answer."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import count
from math import inf
from typing import NamedTuple

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


class Turn(NamedTuple):
    """A document that is due, and the namespace whose turn it is."""

    document: str
    namespace: str


class _Entry(NamedTuple):
    due: float
    tried: bool
    namespaces: frozenset[str]


class PollSchedule:
    """The times at which documents are due. Namespaces take turns, so that none waits for all documents of another.

    A document is in the line of each namespace whose sources read it. In a line, documents that were never tried come
    before all others.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        # The heaps may hold entries that have been replaced or taken. These are skipped.
        self._times: list[tuple[float, int, str]] = []
        """A heap of the documents that are not due yet."""
        self._lines: dict[str, dict[bool, list[tuple[float, int, str]]]] = {}
        """By namespace: a heap of the documents that are due, for tried ones and for others."""
        self._order = count()

    def put(self, document: str, due: float, tried: bool, namespaces: Iterable[str]) -> None:
        """Replaces the time at which a document is due, and the namespaces whose sources read it."""
        entry = _Entry(due, tried, frozenset(namespaces))
        if self._entries.get(document) != entry:
            self._entries[document] = entry
            heapq.heappush(self._times, (due, next(self._order), document))

    def drop(self, document: str) -> None:
        self._entries.pop(document, None)

    def clear(self) -> None:
        self._entries.clear()
        self._times.clear()
        self._lines.clear()

    def due_at(self, document: str) -> float | None:
        entry = self._entries.get(document)
        return None if entry is None else entry.due

    def take(self, now: float, has_room: Callable[[str], bool]) -> Turn | None:
        """Takes the next document that is due, of the namespace whose last turn is longest ago and that has room."""
        self._line_up(now)
        for namespace in tuple(self._lines):
            if not has_room(namespace):
                continue
            line = self._lines.pop(namespace)
            document = self._first(line, namespace)
            if document is not None:
                self._lines[namespace] = line  # behind all others
                del self._entries[document]
                return Turn(document, namespace)
        return None

    def next_due(self) -> float | None:
        """When the next document is due after those that `take` has left to wait for room."""
        while self._times and not self._is_current(self._times[0][2], self._times[0][0]):
            heapq.heappop(self._times)
        return self._times[0][0] if self._times else None

    def _line_up(self, now: float) -> None:
        """Puts the documents that are due now into the lines of their namespaces."""
        while self._times and self._times[0][0] <= now:
            due, order, document = heapq.heappop(self._times)
            if self._is_current(document, due):
                entry = self._entries[document]
                for namespace in sorted(entry.namespaces):
                    line = self._lines.setdefault(namespace, {False: [], True: []})
                    heapq.heappush(line[entry.tried], (due, order, document))

    def _first(self, line: dict[bool, list[tuple[float, int, str]]], namespace: str) -> str | None:
        for tried in (False, True):
            while line[tried]:
                due, _, document = heapq.heappop(line[tried])
                if self._is_current(document, due) and namespace in self._entries[document].namespaces:
                    return document
        return None

    def _is_current(self, document: str, due: float) -> bool:
        entry = self._entries.get(document)
        return entry is not None and entry.due == due


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
