"""Copies that are wanted and unwanted in turns, as when a label flaps: soon they are taken away only after a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from samara.core.model import Object, Ref

WINDOW = 600.0
PATIENCE = 30.0
_REMEMBERED = 10_000
Wish = tuple[str, int, frozenset[tuple[str, str]]] | None


def wish(source: Object | None) -> Wish:
    """What a person has last said: where it is another wish, nothing flaps. A status of ours is no wish."""
    if source is None:
        return None
    said = frozenset(source.labels.items()) | frozenset(source.annotations.items())  # which no generation counts
    return source.uid, source.generation or source.version, said


class Flaps:
    """The first removal of a copy goes at once; a second one within ten minutes waits until it has lasted.

    Unless its source was changed meanwhile, or is gone: then somebody means it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._removed: OrderedDict[Ref, tuple[float, Wish]] = OrderedDict()
        """When we last removed a copy from an address, and for which wish, the oldest first."""
        self._due: dict[Ref, float] = {}
        """Until when a removal waits; only where one was made before."""

    def removed(self, ref: Ref, source: Object | None) -> None:
        self._due.pop(ref, None)
        self._removed[ref] = self._clock(), wish(source)
        self._removed.move_to_end(ref)
        if len(self._removed) > _REMEMBERED:
            oldest, _ = self._removed.popitem(last=False)
            self._due.pop(oldest, None)

    def calm(self, ref: Ref) -> None:
        """The copy is wanted, and there."""
        self._due.pop(ref, None)

    def wait(self, ref: Ref, source: Object | None) -> float:
        """How long a removal has still to wait."""
        now = self._clock()
        when, meant = self._removed.get(ref, (-WINDOW, None))
        if now - when >= WINDOW or meant is None or meant != wish(source):
            return 0.0
        return max(0.0, self._due.setdefault(ref, now + PATIENCE) - now)
