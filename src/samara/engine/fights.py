"""Copies that others change again and again: repaired seldom, and reported, instead of fought over for ever."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from samara.core.model import Key, Object, Ref
from samara.core.view import View
from samara.core.write import Create, Recreate, Update, Write
from samara.kube.cache import Change

REVERSALS = 5
WINDOW = 600.0


class Fought(NamedTuple):
    message: str
    again_in: float


class Fights:
    """Counts, per address, how often we put back what somebody else had changed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._disturbed: dict[Ref, str] = {}
        """Copies that somebody else has changed since we last planned them, and by which field manager."""
        self._repairs: dict[Ref, deque[float]] = {}

    def disturbed(self, change: Change, owner: Callable[[Object, View], Key | None], view: View) -> None:
        """Takes news from a watch; what we wrote ourselves never comes this way."""
        if change.old is None or change.old.deleting or owner(change.old, view) is None:
            return
        self._disturbed[change.ref] = change.new.editor if change.new is not None else ""

    def judge(self, write: Write) -> Fought | None:
        """Why this repair has to wait, if it has."""
        if write.ref not in self._disturbed or not isinstance(write, Update | Create | Recreate):
            return None
        repairs = self._repairs.get(write.ref, deque())
        while repairs and repairs[0] < self._clock() - WINDOW:
            repairs.popleft()
        if len(repairs) < REVERSALS:
            return None
        who = self._disturbed[write.ref] or "somebody"
        left = max(1.0, repairs[-1] + WINDOW - self._clock())
        return Fought(
            f"{who} has changed this copy {len(repairs)} times in ten minutes; repaired more seldom now", left
        )

    def repaired(self, write: Write) -> str | None:
        """Notes a write that went through; returns who had changed the copy, where somebody had."""
        who = self._disturbed.pop(write.ref, None)
        if who is not None:
            self._repairs.setdefault(write.ref, deque(maxlen=REVERSALS)).append(self._clock())
        return who
