"""Writes that wait to be sent: one per address, one in flight per address, fair between sources."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Protocol

from samara.core.model import Key, Ref
from samara.core.write import Write
from samara.engine.turns import Turns

Lane = OrderedDict[str, dict[Ref, Write]]
"""The waiting writes of one source by the namespace they go to."""


class Limiter(Protocol):
    @property
    def limit(self) -> int:
        """How many writes may be in flight."""


def _lot(ref: Ref) -> str:
    return ref.namespace or ref.name


class Outbox:
    """A newer plan replaces what an older one still had waiting: that is all coalescing is."""

    def __init__(self, clock: Callable[[], float], limiter: Limiter) -> None:
        self._clock = clock
        self._limiter = limiter
        self._busy: Counter[str] = Counter()
        self._bulk: dict[Key, Lane] = {}
        self._soon: dict[Key, Lane] = {}
        self._since: dict[Key, float] = {}
        self._turns = Turns()
        self._flying: dict[Ref, Write] = {}
        self._again: dict[Ref, set[Key]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def oldest(self) -> float:
        """How long the source that has waited longest has had writes waiting."""
        return self._clock() - min(self._since.values()) if self._since else 0.0

    @property
    def flying(self) -> int:
        return len(self._flying)

    def in_flight(self, ref: Ref) -> Write | None:
        """The write that locks an address: it was taken, and its result has not been handled yet."""
        return self._flying.get(ref)

    def is_flying(self, key: Key) -> bool:
        """True where a write of this source is in flight."""
        return any(write.key == key for write in self._flying.values())

    def waiting(self, key: Key) -> int:
        """How many namespaces of a source wait for a write."""
        return len(self._bulk.get(key, ())) + len(self._soon.get(key, ()))

    def clear(self, key: Key) -> None:
        """Forgets what this key, or this slice of it, had waiting.

        What is in flight cannot be taken back: where it lands is looked at again, it may not be wanted any more.
        """
        for ref, write in self._flying.items():
            if write.key == key.whole and key.slice in (None, _lot(ref)):
                self._again.setdefault(ref, set()).add(write.key)
        for lanes in (self._bulk, self._soon):
            lane = lanes.get(key.whole)
            if lane is None:
                continue
            lots = list(lane) if key.slice is None else [key.slice]
            self._size -= sum(len(lane.pop(lot, ())) for lot in lots)
        if key.whole in self._since:
            self._turns.join(key.whole)  # else who has nothing left would be kept until there is room

    def put(self, write: Write, soon: bool) -> None:
        """Takes a write; `soon` ones, of slices, overtake a fan-out of the same source."""
        if write.ref in self._flying:
            self._again.setdefault(write.ref, set()).add(write.key)
            return
        lanes = self._soon if soon else self._bulk
        lot = lanes.setdefault(write.key, OrderedDict()).setdefault(_lot(write.ref), {})
        self._size += write.ref not in lot
        lot[write.ref] = write
        self._since.setdefault(write.key, self._clock())
        self._turns.join(write.key)

    def take(self) -> Write | None:
        """The next write, in turn between the sources; it is in flight until `done`."""
        while (key := self._turns.next(self._has_room)) is not None:
            write = self._first(key, self._soon) or self._first(key, self._bulk)
            if not self.waiting(key):
                self._soon.pop(key, None)
                self._bulk.pop(key, None)
                del self._since[key]
                self._turns.leave(key)
            elif write is None:
                self._turns.wait(key, (*self._soon.get(key, ()), *self._bulk.get(key, ())))
            else:
                self._turns.served(key)
            if write is not None:
                self.lock(write)
                return write
        return None

    def lock(self, write: Write) -> None:
        """Until `done`, no other write to this address is taken."""
        self._flying[write.ref] = write
        self._busy[_lot(write.ref)] += 1

    def _has_room(self, namespace: str) -> bool:
        """A namespace gets half of the limit at most: one with a slow webhook must not delay all others."""
        return self._busy[namespace] < max(1, self._limiter.limit // 2)

    def _first(self, key: Key, lanes: dict[Key, Lane]) -> Write | None:
        """A source's oldest write whose namespace and address have room."""
        lane: Lane = lanes.get(key, OrderedDict())
        while (name := next(filter(self._has_room, lane), None)) is not None:
            ref = next(iter(lane[name]))
            write = lane[name].pop(ref)
            if not lane[name]:
                del lane[name]
            self._size -= 1
            if ref not in self._flying:
                return write
            self._again.setdefault(ref, set()).add(key)  # another source's write to the same address
        return None

    def done(self, write: Write) -> set[Key]:
        """Ends a flight; returns the keys that wanted the address meanwhile and must be planned again."""
        del self._flying[write.ref]
        self._busy[_lot(write.ref)] -= 1
        if not self._busy[_lot(write.ref)]:
            del self._busy[_lot(write.ref)]
        return self._again.pop(write.ref, set())
