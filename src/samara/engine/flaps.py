"""Copies that are wanted and unwanted in turns, as when a label flaps: soon they are taken away only after a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from samara.core.model import Ref

WINDOW = 600.0
PATIENCE = 30.0
_REMEMBERED = 10_000


class Flaps:
    """The first removal of a copy goes at once; a second one within ten minutes waits until it has lasted."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._removed: OrderedDict[Ref, float] = OrderedDict()
        """When we last removed a copy from an address, the oldest first."""
        self._due: dict[Ref, float] = {}

    def removed(self, ref: Ref) -> None:
        self._due.pop(ref, None)
        self._removed[ref] = self._clock()
        self._removed.move_to_end(ref)
        if len(self._removed) > _REMEMBERED:
            self._removed.popitem(last=False)

    def calm(self, ref: Ref) -> None:
        """The copy is wanted, and there."""
        self._due.pop(ref, None)

    def wait(self, ref: Ref) -> float:
        """How long a removal has still to wait."""
        now = self._clock()
        if now - self._removed.get(ref, -WINDOW) >= WINDOW:
            return 0.0
        return max(0.0, self._due.setdefault(ref, now + PATIENCE) - now)
