"""Writes that wait to be sent: one for each address, one in flight for each address, fair between sources."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from samara.core.model import Key, Ref
from samara.core.writes import Write

NamespaceLanes = OrderedDict[str, dict[Ref, Write]]
"""The waiting writes of one source, by the namespace that they go to (`Ref.namespace_or_name`)."""
_READY = ""
"""The line of sources that are not parked. No namespace has this name."""


class Limiter(Protocol):
    @property
    def limit(self) -> int:
        """How many writes may be in flight."""


class Outbox:
    """Owns the writes that wait and those in flight. The planner fills it, the writer takes from it.

    A write replaces an older one for the same address, so that only the newest plan is carried out. It sends nothing.
    """

    def __init__(self, clock: Callable[[], float], limiter: Limiter) -> None:
        self._clock = clock
        self._limiter = limiter
        self._in_flight_by_namespace: Counter[str] = Counter()
        self._bulk: dict[Key, NamespaceLanes] = {}
        self._urgent: dict[Key, NamespaceLanes] = {}
        """Writes of slices. They overtake a fan-out of the same source."""
        self._since: dict[Key, float] = {}
        """By source: since when it has had writes waiting."""
        self._queue = FairQueue()
        self._in_flight: dict[Ref, Write] = {}
        self._replan: dict[Ref, set[Key]] = {}
        """By locked address: the keys to plan again when it is unlocked."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def oldest(self) -> float:
        """Seconds for which the source that has waited longest has had writes waiting."""
        return self._clock() - min(self._since.values()) if self._since else 0.0

    @property
    def is_idle(self) -> bool:
        """True if no write waits or is in flight."""
        return not self._size and not self._in_flight

    @property
    def in_flight_count(self) -> int:
        """How many addresses are locked."""
        return len(self._in_flight)

    def in_flight(self, ref: Ref) -> Write | None:
        """The write that locks an address: it was taken, and its result has not been handled yet."""
        return self._in_flight.get(ref)

    def has_in_flight(self, key: Key) -> bool:
        """True if a write of this source is in flight."""
        return any(write.key == key for write in self._in_flight.values())

    def waiting(self, key: Key) -> int:
        """How many namespaces have waiting writes of a source."""
        return len(self._bulk.get(key, ())) + len(self._urgent.get(key, ()))

    def clear(self, key: Key) -> None:
        """Drops the waiting writes of a key.

        Those in flight cannot be cancelled. When each of them ends, the key is planned again.
        """
        for ref, write in self._in_flight.items():
            if write.key == key.all_namespaces and key.namespace in (None, ref.namespace_or_name):
                self._replan.setdefault(ref, set()).add(write.key)
        for all_lanes in (self._bulk, self._urgent):
            lanes = all_lanes.get(key.all_namespaces)
            if lanes is None:
                continue
            namespaces = list(lanes) if key.namespace is None else [key.namespace]
            self._size -= sum(len(lanes.pop(namespace, ())) for namespace in namespaces)
        if key.all_namespaces in self._since:
            self._queue.add(key.all_namespaces)  # even if nothing is left of it, so that `take` removes it

    def put(self, write: Write, urgent: bool) -> None:
        """Queues a write. If its address is locked, its key is planned again when the address is unlocked."""
        if write.ref in self._in_flight:
            self._replan.setdefault(write.ref, set()).add(write.key)
            return
        all_lanes = self._urgent if urgent else self._bulk
        lane = all_lanes.setdefault(write.key, OrderedDict()).setdefault(write.ref.namespace_or_name, {})
        self._size += write.ref not in lane
        lane[write.ref] = write
        self._since.setdefault(write.key, self._clock())
        self._queue.add(write.key)

    def take(self) -> Write | None:
        """Takes the next write that may be sent, and locks its address; None if there is none."""
        while (key := self._queue.next(self._has_room)) is not None:
            write = self._first(key, self._urgent) or self._first(key, self._bulk)
            if not self.waiting(key):
                self._urgent.pop(key, None)
                self._bulk.pop(key, None)
                del self._since[key]
                self._queue.remove(key)
            elif write is None:
                self._queue.park(key, (*self._urgent.get(key, ()), *self._bulk.get(key, ())))
            else:
                self._queue.move_to_end(key)
            if write is not None:
                self.lock(write)
                return write
        return None

    def lock(self, write: Write) -> None:
        """Until `done`, no other write to this address is taken."""
        self._in_flight[write.ref] = write
        self._in_flight_by_namespace[write.ref.namespace_or_name] += 1

    def done(self, write: Write) -> set[Key]:
        """Unlocks an address. Returns the keys that wanted to write there meanwhile, and must be planned again."""
        del self._in_flight[write.ref]
        namespace = write.ref.namespace_or_name
        self._in_flight_by_namespace[namespace] -= 1
        if not self._in_flight_by_namespace[namespace]:
            del self._in_flight_by_namespace[namespace]
        return self._replan.pop(write.ref, set())

    def _has_room(self, namespace: str) -> bool:
        """A namespace gets half of the limit at most: one with a slow webhook must not delay all others."""
        return self._in_flight_by_namespace[namespace] < max(1, self._limiter.limit // 2)

    def _first(self, key: Key, all_lanes: dict[Key, NamespaceLanes]) -> Write | None:
        """Takes the oldest write of a source whose namespace has room and whose address is not locked."""
        lanes: NamespaceLanes = all_lanes.get(key, OrderedDict())
        while (namespace := next(filter(self._has_room, lanes), None)) is not None:
            ref = next(iter(lanes[namespace]))
            write = lanes[namespace].pop(ref)
            if not lanes[namespace]:
                del lanes[namespace]
            self._size -= 1
            if ref not in self._in_flight:
                return write
            self._replan.setdefault(ref, set()).add(key)  # another source is writing there
        return None


class FairQueue:
    """Decides which source is next: the one that had its turn longest ago. Used by the outbox only.

    A source that waits for a busy namespace is parked with its turn in the line of that namespace. Otherwise each write
    that ends would search through all sources that wait for one slow namespace.
    """

    def __init__(self) -> None:
        self._numbers = count()
        self._turns: dict[Key, int] = {}
        self._lines: dict[str, list[tuple[int, Key]]] = {}
        """Heaps of turns, by namespace. An entry with an earlier turn of its source is obsolete and is skipped."""
        self._parked: dict[Key, set[str]] = {}
        """By source: the lines that it is in with its present turn."""

    def add(self, key: Key) -> None:
        """Makes a source ready because it has a new write, even if it was parked."""
        if key not in self._turns:
            self.move_to_end(key)
        else:
            self._enter(key, _READY)

    def move_to_end(self, key: Key) -> None:
        """Gives a source a new turn after all others, because it has just had one."""
        self._turns[key] = next(self._numbers)
        self._parked[key] = set()
        self._enter(key, _READY)

    def park(self, key: Key, namespaces: Iterable[str]) -> None:
        """Puts a source into the lines of these namespaces: it waits until one of them has room."""
        for namespace in namespaces:
            self._enter(key, namespace)

    def remove(self, key: Key) -> None:
        del self._turns[key], self._parked[key]

    def next(self, has_room: Callable[[str], bool]) -> Key | None:
        """Takes the source with the earliest turn out of its line; None if every line waits for a busy namespace."""
        while open_lines := [name for name in self._lines if has_room(name)]:
            name = min(open_lines, key=lambda name: self._lines[name][0])
            turn, key = heappop(self._lines[name])
            if not self._lines[name]:
                del self._lines[name]
            if self._turns.get(key) == turn:
                self._parked[key].discard(name)
                return key
        return None

    def _enter(self, key: Key, name: str) -> None:
        if name not in self._parked[key]:
            self._parked[key].add(name)
            heappush(self._lines.setdefault(name, []), (self._turns[key], key))
