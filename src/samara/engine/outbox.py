"""Writes that wait to be sent: one per address, one in flight per address, fair between sources."""

from __future__ import annotations

from collections import OrderedDict

from samara.core.model import Key, Ref
from samara.core.write import Write

Lane = OrderedDict[str, dict[Ref, Write]]
"""The waiting writes of one source by the namespace they go to."""


def _lot(ref: Ref) -> str:
    return ref.namespace or ref.name


class Outbox:
    """A newer plan replaces what an older one still had waiting: that is all coalescing is."""

    def __init__(self) -> None:
        self._bulk: dict[Key, Lane] = {}
        self._soon: dict[Key, Lane] = {}
        self._ring: OrderedDict[Key, None] = OrderedDict()
        self._flying: dict[Ref, Write] = {}
        self._again: dict[Ref, set[Key]] = {}
        self._echoes: set[Ref] = set()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def flying(self) -> int:
        return len(self._flying)

    def echo(self, ref: Ref) -> Write | None:
        """The write in flight to an address of which the watch has just told: most likely its echo."""
        write = self._flying.get(ref)
        if write is not None:
            self._echoes.add(ref)
        return write

    def was_echoed(self, ref: Ref) -> bool:
        """True where the watch told of an address before the answer to our write came."""
        echoed = ref in self._echoes
        self._echoes.discard(ref)
        return echoed

    def waiting(self, key: Key) -> int:
        """How many namespaces of a source wait for a write."""
        return len(self._bulk.get(key, ())) + len(self._soon.get(key, ()))

    def clear(self, key: Key) -> None:
        """Forgets what this key, or this slice of it, had waiting."""
        for lanes in (self._bulk, self._soon):
            lane = lanes.get(key.whole)
            if lane is None:
                continue
            lots = list(lane) if key.slice is None else [key.slice]
            self._size -= sum(len(lane.pop(lot, ())) for lot in lots)

    def put(self, write: Write, soon: bool) -> None:
        """Takes a write; `soon` ones, of slices, overtake a fan-out of the same source."""
        if write.ref in self._flying:
            self._again.setdefault(write.ref, set()).add(write.key)
            return
        lanes = self._soon if soon else self._bulk
        lot = lanes.setdefault(write.key, OrderedDict()).setdefault(_lot(write.ref), {})
        self._size += write.ref not in lot
        lot[write.ref] = write
        self._ring.setdefault(write.key)

    def take(self) -> Write | None:
        """The next write, in turn between the sources; it is in flight until `done`."""
        while self._ring:
            key = next(iter(self._ring))
            write = self._first(self._soon.get(key)) or self._first(self._bulk.get(key))
            if write is None:
                self._soon.pop(key, None)
                self._bulk.pop(key, None)
                del self._ring[key]
                continue
            self._ring.move_to_end(key)
            if write.ref in self._flying:  # another source's write to the same address
                self._again.setdefault(write.ref, set()).add(key)
                continue
            self._flying[write.ref] = write
            return write
        return None

    def _first(self, lane: Lane | None) -> Write | None:
        if not lane:
            return None
        name = next(iter(lane))
        writes = lane[name]
        write = writes.pop(next(iter(writes)))
        if not writes:
            del lane[name]
        self._size -= 1
        return write

    def done(self, write: Write) -> set[Key]:
        """Ends a flight; returns the keys that wanted the address meanwhile and must be planned again."""
        del self._flying[write.ref]
        return self._again.pop(write.ref, set())
