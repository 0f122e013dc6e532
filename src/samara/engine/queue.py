"""Keys that may need attention: each at most once, the oldest first, some of them only later."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from itertools import count

from samara.core.model import Key


class Queue:
    """What to plan next. A whole source stands for all of its slices."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ready: OrderedDict[Key, float] = OrderedDict()
        self._due: dict[Key, float] = {}
        self._later: list[tuple[float, int, Key]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: Key, delay: float = 0.0) -> None:
        now = self._clock()
        if delay > 0:
            self._postpone(key, now + delay)
        elif key not in self._ready and key.whole not in self._ready:
            self._due.pop(key, None)
            self._ready[key] = now

    def _postpone(self, key: Key, when: float) -> None:
        """The earlier of two times counts."""
        if key not in self._ready and when < self._due.get(key, float("inf")):
            self._due[key] = when
            heapq.heappush(self._later, (when, next(self._order), key))

    def take(self) -> Key | None:
        """The next key to plan now, if there is one."""
        self._mature()
        return self._ready.popitem(last=False)[0] if self._ready else None

    def _mature(self) -> None:
        now = self._clock()
        while self._later and self._later[0][0] <= now:
            when, _, key = heapq.heappop(self._later)
            if self._due.get(key) == when:
                del self._due[key]
                self._ready.setdefault(key, when)

    def next_due(self) -> float | None:
        """How long until a postponed key is due; None where there is none."""
        return max(0.0, self._later[0][0] - self._clock()) if self._later else None

    def oldest(self) -> float:
        """How long the oldest ready key has been waiting."""
        return self._clock() - next(iter(self._ready.values())) if self._ready else 0.0
