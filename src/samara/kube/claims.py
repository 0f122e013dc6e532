"""Which sources may write which places, found by kind and name, and by the namespace that the place hangs on."""

from __future__ import annotations

from collections.abc import Iterable

from samara.core.model import Key, Kind
from samara.core.want import Places

Spot = tuple[Kind, str]


class Claims:
    """Sources that reach everywhere, and those that reach only what is below their own namespace.

    A chain has a source of the same name in every namespace: they must not meet each other at every copy.
    """

    def __init__(self) -> None:
        self._by_spot: dict[Spot, dict[str, dict[Key, None]]] = {}

    def __contains__(self, spot: Spot) -> bool:
        return spot in self._by_spot

    def add(self, places: Places, key: Key) -> None:
        self._by_spot.setdefault(places.spot, {}).setdefault(places.below, {})[key] = None

    def discard(self, places: Places, key: Key) -> None:
        by_namespace = self._by_spot[places.spot]
        keys = by_namespace[places.below]
        keys.pop(key, None)
        if not keys:
            del by_namespace[places.below]
        if not by_namespace:
            del self._by_spot[places.spot]

    def at(self, spot: Spot, above: Iterable[str]) -> tuple[Key, ...]:
        """Who claims a place in a namespace that hangs on these."""
        by_namespace = self._by_spot.get(spot)
        if not by_namespace:
            return ()
        return tuple(key for name in ("", *above) for key in by_namespace.get(name, ()))

    def meeting(self, places: Places) -> Iterable[Key]:
        """Who can meet a source with these places, itself among them."""
        by_namespace = self._by_spot.get(places.spot, {})
        near = by_namespace if not places.below else dict.fromkeys(("", places.below))
        return (key for name in near for key in by_namespace.get(name, ()))
