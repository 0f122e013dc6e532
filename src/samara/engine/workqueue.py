"""The keys that wait to be planned."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from itertools import count

from samara.core.model import Key


class WorkQueue:
    """Owns the keys to plan: each at most once, oldest first. The key of a source covers all its slices."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ready: OrderedDict[Key, float] = OrderedDict()
        """By key: when it was queued."""
        self._due: dict[Key, float] = {}
        """By delayed key: when it is queued."""
        self._heap: list[tuple[float, int, Key]] = []
        """The same times, earliest first. An entry that disagrees with `_due` is obsolete and is skipped."""
        self._order = count()

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: Key, delay: float = 0.0) -> None:
        now = self._clock()
        if delay > 0:
            self._add_later(key, now + delay)
        elif key not in self._ready and key.all_namespaces not in self._ready:
            self._due.pop(key, None)
            self._ready[key] = now

    def _add_later(self, key: Key, when: float) -> None:
        """If the key is delayed already, the earlier time counts."""
        if key not in self._ready and when < self._due.get(key, float("inf")):
            self._due[key] = when
            heapq.heappush(self._heap, (when, next(self._order), key))

    def take(self) -> Key | None:
        """The next key to plan now, if there is one."""
        self._queue_due()
        return self._ready.popitem(last=False)[0] if self._ready else None

    def _queue_due(self) -> None:
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            when, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == when:
                del self._due[key]
                self._ready.setdefault(key, when)

    def next_due(self) -> float | None:
        """Seconds until the next delayed key is queued; None if there is none."""
        return max(0.0, self._heap[0][0] - self._clock()) if self._heap else None

    def oldest(self) -> float:
        """How many seconds the oldest queued key has waited."""
        return self._clock() - next(iter(self._ready.values())) if self._ready else 0.0
