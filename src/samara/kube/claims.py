"""Which sources may write which places, found by kind and name, and by the namespace that they are limited to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from samara.core.model import Key, Kind, Ref
from samara.core.want import Places
from samara.kube.counts import add as counted

Spot = tuple[Kind, str]
Index = dict[str, dict[Key, None]]


class _Group:
    """The sources of one kind and name: those in one namespace, those below one, and under no name all others."""

    __slots__ = ("below", "within")

    def __init__(self) -> None:
        self.below: Index = {}
        self.within: Index = {}

    def of(self, places: Places) -> tuple[Index, str]:
        return (self.within, places.within) if places.within else (self.below, places.below)

    def meeting(self, places: Places) -> Iterator[Key]:
        """Whether the one namespace hangs on the other is not asked here: they may meet."""
        if places.within:
            yield from self.within.get(places.within, ())
            yield from chain.from_iterable(self.below.values())
            return
        near = dict.fromkeys(("", places.below)) if places.below else self.below
        yield from (key for name in near for key in self.below.get(name, ()))
        yield from chain.from_iterable(self.within.values())


class Claims:
    """Sources that reach everywhere, those that reach only what is below their own namespace, and those that reach one.

    A chain has a source of the same name in every namespace, and so may have those that name one target each: they
    must not meet each other at every copy.
    """

    def __init__(self) -> None:
        self._by_spot: dict[Spot, _Group] = {}
        self._bound: dict[tuple[str, str], Counter[Ref]] = {}
        """By dialect and namespace: the sources that write into this one alone, or have their one object there."""

    def __contains__(self, spot: Spot) -> bool:
        return spot in self._by_spot

    def add(self, places: Places, key: Key) -> None:
        index, name = self._by_spot.setdefault(places.spot, _Group()).of(places)
        index.setdefault(name, {})[key] = None
        if places.within:
            self.bind(key, places.within)

    def discard(self, places: Places, key: Key) -> None:
        group = self._by_spot[places.spot]
        index, name = group.of(places)
        index[name].pop(key, None)
        if not index[name]:
            del index[name]
        if not group.below and not group.within:
            del self._by_spot[places.spot]
        if places.within:
            self.bind(key, places.within, -1)

    def bind(self, key: Key, namespace: str, by: int = 1) -> None:
        """A source that has its one object where it wants it counts twice."""
        spot = key.dialect, namespace
        found = self._bound.setdefault(spot, Counter())
        counted(found, key.source, by)
        if not found:
            del self._bound[spot]

    def bound(self, dialect: str, namespace: str) -> tuple[Ref, ...]:
        return tuple(self._bound.get((dialect, namespace), ()))

    def at(self, spot: Spot, namespace: str, above: Iterable[str]) -> tuple[Key, ...]:
        """Who claims a place in a namespace that hangs on these."""
        group = self._by_spot.get(spot)
        if group is None:
            return ()
        near = (key for name in ("", *above) for key in group.below.get(name, ()))
        return (*near, *group.within.get(namespace, ()))

    def meeting(self, places: Places) -> Iterable[Key]:
        """Who can meet a source with these places, itself among them."""
        group = self._by_spot.get(places.spot)
        return () if group is None else group.meeting(places)
