"""Copies that are wanted and unwanted in turns, as when a label flaps: soon they are taken away only after a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from samara.core.model import Object, Ref

WINDOW = 600.0
PATIENCE = 30.0
AT_ONCE = 2
_REMEMBERED = 10_000
Wish = tuple[str, int, frozenset[tuple[str, str]]] | None


def wish(source: Object | None) -> Wish:
    """What a person has last said: where it is another wish, nothing flaps. A status of ours is no wish."""
    if source is None:
        return None
    said = frozenset(source.labels.items()) | frozenset(source.annotations.items())  # which no generation counts
    return source.uid, source.generation or source.version, said


class Flaps:
    """The first two removals of a copy go at once; a third one within ten minutes waits until it has lasted.

    Unless its source was changed meanwhile, or is gone: then somebody means it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._removed: OrderedDict[Ref, tuple[float, Wish, int]] = OrderedDict()
        """When we last removed a copy from an address, for which wish, and how often; the oldest first."""
        self._due: dict[Ref, float] = {}
        """Until when a removal waits; only where one was made before."""

    def removed(self, ref: Ref, source: Object | None) -> None:
        self._due.pop(ref, None)
        self._removed[ref] = self._clock(), wish(source), self._times(ref, source) + 1
        self._removed.move_to_end(ref)
        if len(self._removed) > _REMEMBERED:
            oldest, _ = self._removed.popitem(last=False)
            self._due.pop(oldest, None)

    def calm(self, ref: Ref) -> None:
        """The copy is wanted, and there."""
        self._due.pop(ref, None)

    def wait(self, ref: Ref, source: Object | None) -> float:
        """How long a removal has still to wait."""
        if self._times(ref, source) < AT_ONCE:
            return 0.0
        now = self._clock()
        return max(0.0, self._due.setdefault(ref, now + PATIENCE) - now)

    def _times(self, ref: Ref, source: Object | None) -> int:
        """How often a copy was removed lately for the wish that its source has now."""
        when, meant, times = self._removed.get(ref, (-WINDOW, None, 0))
        is_over = self._clock() - when >= WINDOW or meant is None or meant != wish(source)
        return 0 if is_over else times
