"""What others change again and again is put back seldom, and reported, instead of fought over for ever."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from samara.core.model import NAMESPACE, Object, Ref, namespace_ref
from samara.core.view import OwnerOf, View
from samara.core.write import Apply, Create, Recreate, Update, Write
from samara.kube.cache import Change

REVERSALS = 5
WINDOW = 600.0
_ABSENT = 10.0
"""A copy that is gone comes back sooner than a wrong one is put right: who needs it has nothing meanwhile."""
_REMEMBERED = 10_000


_Wish = tuple[object, frozenset[tuple[str, str]], frozenset[tuple[str, str]]]


class Fought(NamedTuple):
    message: str
    again_in: float


class Disturbance(NamedTuple):
    """Somebody else changed a copy, or an object with an overlay: which field manager, when, and what it was before."""

    who: str
    when: float
    before: Object


class Fights:
    """Counts, per address, how often we put back what somebody else had changed.

    Where the source wants something new, that is written at once, and does not count: it is no repair.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._wishes: dict[Ref, _Wish] = {}
        """What was wanted when a copy was last put back."""
        self._disturbed: dict[Ref, Disturbance] = {}
        """Copies that somebody else has changed since they were last right."""
        self._repairs: dict[Ref, deque[float]] = {}
        self._fought: set[Ref] = set()
        self._most = _REMEMBERED

    def disturbed(self, change: Change, owner: OwnerOf, view: View) -> None:
        """Takes news from a watch; what we wrote ourselves never comes this way."""
        old = change.old
        if old is None or old.deleting or (owner(old, view) is None and not old.applied):
            return
        home = change.ref if change.ref.kind == NAMESPACE else namespace_ref(change.ref.namespace)
        namespace = view.get(home)
        if namespace is None or namespace.deleting:  # a copy that goes with its namespace is no fight
            return
        who = change.new.editor if change.new is not None else ""
        first = self._disturbed.get(change.ref)
        self._disturbed[change.ref] = Disturbance(who, self._clock(), old if first is None else first.before)
        if len(self._disturbed) > self._most:
            self._forget()

    def _forget(self) -> None:
        """Copies that went with their namespaces are not asked about again."""
        since = self._clock() - WINDOW
        self._disturbed = {ref: each for ref, each in self._disturbed.items() if each.when > since}
        self._repairs = {ref: times for ref, times in self._repairs.items() if times[-1] > since}
        self._wishes = {ref: each for ref, each in self._wishes.items() if ref in self._repairs}
        self._fought &= self._repairs.keys()
        self._most = max(_REMEMBERED, 2 * len(self._disturbed), 2 * len(self._repairs))

    def calm(self, ref: Ref) -> None:
        """A copy is right as it is: whatever somebody did to it was no fight."""
        self._disturbed.pop(ref, None)

    def judge(self, write: Write) -> Fought | None:
        """Why this repair has to wait, if it has: in a fight there is one in ten minutes, in ten seconds if gone."""
        disturbance = self._disturbed.get(write.ref)
        if disturbance is None or write.ref not in self._fought or not _reverses(write, disturbance):
            return None
        if self._wishes[write.ref] != _wish(write):
            return None
        last = self._repairs[write.ref][-1]
        if disturbance.when - last > WINDOW:  # ten quiet minutes end a fight
            self._fought.discard(write.ref)
        gone = isinstance(write, Create)
        left = last + (_ABSENT if gone else WINDOW) - self._clock()
        if left <= 0:
            return None
        if gone:
            return Fought("somebody deletes this copy again and again; it is made every ten seconds now", left)
        what = "what is inherited here" if isinstance(write, Apply) else "this copy"
        who = disturbance.who or "somebody"
        return Fought(f"{who} changes {what} again and again; it is repaired every ten minutes now", left)

    def repaired(self, write: Write) -> str | None:
        """Notes a write that went through; returns who had changed the copy, where somebody had."""
        disturbance = self._disturbed.pop(write.ref, None)
        if disturbance is None or not _reverses(write, disturbance):
            return None
        wish = _wish(write)
        if self._wishes.setdefault(write.ref, wish) != wish:
            self._wishes[write.ref] = wish
            return disturbance.who
        repairs = self._repairs.setdefault(write.ref, deque(maxlen=REVERSALS))
        repairs.append(self._clock())
        if len(self._repairs) > self._most:
            self._forget()
        if len(repairs) == REVERSALS and repairs[-1] - repairs[0] <= WINDOW:
            self._fought.add(write.ref)
        return disturbance.who


def _wish(write: Write) -> _Wish:
    """What a write is for; who only touches a source wants nothing new."""
    if isinstance(write, Apply):
        return None, frozenset(write.overlay.labels.items()), frozenset(write.overlay.annotations.items())
    assert isinstance(write, Create | Update | Recreate)
    return write.copy.content, frozenset(write.copy.labels.items()), frozenset(write.copy.annotations.items())


def _reverses(write: Write, disturbance: Disturbance) -> bool:
    """True where a write puts back what was there before.

    A Namespace that hangs elsewhere now gets another overlay, because somebody has changed it: that is no reversal.
    """
    if not isinstance(write, Apply):
        return isinstance(write, Update | Create | Recreate)
    have, before, wanted = write.have, disturbance.before, write.overlay
    words = ((wanted.labels, before.labels, have.labels), (wanted.annotations, before.annotations, have.annotations))
    return any(was.get(key) == value != now.get(key) for want, was, now in words for key, value in want.items())
