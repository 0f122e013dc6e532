"""Where the copies of each source are, whether the source exists or not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from samara.core.model import Key, Ref
from samara.core.want import Places


@lru_cache(maxsize=4096)
def _shared(spots: tuple[Places, ...]) -> tuple[Places, ...]:
    return spots


class Copies:
    """By source and namespace: ten thousand namespaces with a copy of the same name share one tuple."""

    def __init__(self) -> None:
        self._spots: dict[Key, dict[str, tuple[Places, ...]]] = {}

    def __iter__(self) -> Iterator[Key]:
        return iter(self._spots)

    def __contains__(self, source: Key) -> bool:
        return source in self._spots

    def of(self, key: Key) -> Iterator[Ref]:
        """The addresses of a source's copies, or of those in one namespace."""
        spots = self._spots.get(key.whole, {})
        found = spots.items() if key.slice is None else ((key.slice, spots.get(key.slice, ())),)
        return (Ref(spot.kind, namespace, spot.name) for namespace, several in found for spot in several)

    def add(self, source: Key, ref: Ref) -> None:
        spots = self._spots.setdefault(source, {})
        spots[ref.namespace] = _shared((*spots.get(ref.namespace, ()), Places(ref.kind, ref.name)))

    def discard(self, source: Key, ref: Ref) -> None:
        spots = self._spots[source]
        left = tuple(each for each in spots.get(ref.namespace, ()) if each != Places(ref.kind, ref.name))
        if left:
            spots[ref.namespace] = _shared(left)
        else:
            spots.pop(ref.namespace, None)
        if not spots:
            del self._spots[source]
