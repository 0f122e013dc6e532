"""Limits on writes that would otherwise repeat forever: repairs of drift, and deletions of copies that come and go."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from samara.core.model import NAMESPACE, Key, Object, Ref, namespace_ref
from samara.core.view import View
from samara.core.writes import Apply, Create, Recreate, Update, Write
from samara.kube.cache import Change

OwnerOf = Callable[[Object, View], Key | None]
"""`Registry.owner`: the source of a copy, of any vocabulary."""
WINDOW = 600.0
"""Seconds for which repairs and deletions count."""
MAX_REPAIRS = 5
"""Repairs of an address within the window; then it is repaired once in each window."""
_RECREATE_EVERY = 10.0
"""Seconds between two creates of a contested copy. A missing copy is worse for its users than a wrong one."""
FREE_DELETIONS = 2
"""Deletions at an address within the window that do not wait."""
FLAP_DELAY = 30.0
"""Seconds for which a copy must have been unwanted before a further deletion of it is sent."""
_MAX_ADDRESSES = 10_000
"""About how many addresses are remembered."""

_RestoredState = tuple[object, frozenset[tuple[str, str]], frozenset[tuple[str, str]]]
"""The content, labels and annotations that a write restores."""
Intent = tuple[str, int, frozenset[tuple[str, str]]] | None
"""What a person wants of a source, as `intent_of` computes it."""


class Throttled(NamedTuple):
    """The reason why a repair has to wait, and for how many seconds."""

    message: str
    retry_in: float


class _Edit(NamedTuple):
    """A change by another client to a copy, or to an object with an overlay."""

    manager: str
    """The field manager; empty if unknown."""
    when: float
    before: Object


class DriftLimiter:
    """Counts, per address, how often we reverted a change by another client. The planner asks it before each write.

    A write that follows an edit of the source is not a repair: it is sent at once and does not count.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._restored: dict[Ref, _RestoredState] = {}
        """The state that the last repair restored."""
        self._edits: dict[Ref, _Edit] = {}
        """Edits by other clients since the copy was last in sync."""
        self._repairs: dict[Ref, deque[float]] = {}
        self._contested: set[Ref] = set()
        """Addresses with `MAX_REPAIRS` repairs within one window."""
        self._limit = _MAX_ADDRESSES

    def observe_edit(self, change: Change, owner: OwnerOf, view: View) -> None:
        """Records a change that we did not make. A quiet window ends a contest."""
        old = change.old
        if old is None or old.deleting or (owner(old, view) is None and not old.applied_keys):
            return
        ref = change.ref if change.ref.kind == NAMESPACE else namespace_ref(change.ref.namespace)
        namespace = view.get(ref)
        if namespace is None or namespace.deleting:  # the namespace is deleted with its copies
            return
        manager = change.new.last_manager if change.new is not None else ""
        if change.ref in self._contested and self._clock() - self._repairs[change.ref][-1] > WINDOW:
            self._contested.discard(change.ref)
        first = self._edits.get(change.ref)
        self._edits[change.ref] = _Edit(manager, self._clock(), old if first is None else first.before)
        if len(self._edits) > self._limit:
            self._forget()

    def _forget(self) -> None:
        """Drops addresses without an edit or repair within the window. Their namespaces may not exist any more."""
        since = self._clock() - WINDOW
        self._edits = {ref: edit for ref, edit in self._edits.items() if edit.when > since}
        self._repairs = {ref: times for ref, times in self._repairs.items() if times[-1] > since}
        self._restored = {ref: state for ref, state in self._restored.items() if ref in self._repairs}
        self._contested &= self._repairs.keys()
        self._limit = max(_MAX_ADDRESSES, 2 * len(self._edits), 2 * len(self._repairs))

    def reset(self, ref: Ref) -> None:
        """Forgets the edit of a copy that is in sync as it is, so that no later write counts as its repair."""
        self._edits.pop(ref, None)

    def throttle(self, write: Write) -> Throttled | None:
        """Why a write must wait; None if it may be sent. A contested address gets one repair per window."""
        edit = self._edits.get(write.ref)
        if edit is None or write.ref not in self._contested or not _reverts(write, edit):
            return None
        if self._restored[write.ref] != _restored_by(write):  # the source was edited
            return None
        last = self._repairs[write.ref][-1]
        is_missing = isinstance(write, Create)
        remaining = last + (_RECREATE_EVERY if is_missing else WINDOW) - self._clock()
        if remaining <= 0:
            return None
        if is_missing:
            return Throttled(
                "another client keeps deleting this copy; it is recreated at most every ten seconds", remaining
            )
        target = "the inherited labels and annotations" if isinstance(write, Apply) else "this copy"
        editor = edit.manager or "another client"
        return Throttled(f"{editor} keeps changing {target}; Samara repairs that at most every ten minutes", remaining)

    def record_repair(self, write: Write) -> str | None:
        """Notes a write that succeeded. Returns the field manager whose edit it reverted; None if it reverted none."""
        edit = self._edits.pop(write.ref, None)
        if edit is None or not _reverts(write, edit):
            return None
        state = _restored_by(write)
        if self._restored.setdefault(write.ref, state) != state:  # the source was edited
            self._restored[write.ref] = state
            return edit.manager
        repairs = self._repairs.setdefault(write.ref, deque(maxlen=MAX_REPAIRS))
        repairs.append(self._clock())
        if len(self._repairs) > self._limit:
            self._forget()
        if len(repairs) == MAX_REPAIRS and repairs[-1] - repairs[0] <= WINDOW:
            self._contested.add(write.ref)
        return edit.manager


class FlapDamper:
    """Delays the third deletion of a copy within ten minutes until the copy has been unwanted for half a minute.

    Labels of namespaces may flap, and with them the targets of a source. After an edit of the source nothing is
    delayed, because a person intended the deletion. The deletion gate asks it; it sends nothing itself.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._removed: OrderedDict[Ref, tuple[float, Intent, int]] = OrderedDict()
        """By address: when we last deleted a copy there, with which intent, and how often; the oldest first."""
        self._due: dict[Ref, float] = {}
        """When a delayed deletion may be sent."""

    def record_removal(self, ref: Ref, source: Object | None) -> None:
        """Counts the deletion of a copy of this source."""
        self._due.pop(ref, None)
        self._removed[ref] = self._clock(), intent_of(source), self._removals(ref, source) + 1
        self._removed.move_to_end(ref)
        if len(self._removed) > _MAX_ADDRESSES:
            oldest, _ = self._removed.popitem(last=False)
            self._due.pop(oldest, None)

    def reset(self, ref: Ref) -> None:
        """Ends the wait for the deletion of a copy that is wanted again."""
        self._due.pop(ref, None)

    def note_unwanted(self, ref: Ref, source: Object | None) -> None:
        """Notes that a plan deletes this copy. If that has to wait, the wait starts with the first such plan."""
        if self._removals(ref, source) >= FREE_DELETIONS:
            self._due.setdefault(ref, self._clock() + FLAP_DELAY)

    def remaining(self, ref: Ref, source: Object | None) -> float:
        """Seconds that a deletion noted by `note_unwanted` still has to wait."""
        if self._removals(ref, source) < FREE_DELETIONS:
            return 0.0
        return max(0.0, self._due[ref] - self._clock())

    def _removals(self, ref: Ref, source: Object | None) -> int:
        """How often a copy was deleted within the window since the last edit of its source."""
        when, intent, removals = self._removed.get(ref, (-WINDOW, None, 0))
        is_over = self._clock() - when >= WINDOW or intent is None or intent != intent_of(source)
        return 0 if is_over else removals


def intent_of(source: Object | None) -> Intent:
    """A value that changes when a person edits the source, but not with its status.

    It holds the metadata as well, because the generation does not change with it.
    """
    if source is None:
        return None
    metadata = frozenset(source.labels.items()) | frozenset(source.annotations.items())
    return source.uid, source.generation or source.resource_version, metadata


def _restored_by(write: Write) -> _RestoredState:
    """The state that a write restores."""
    if isinstance(write, Apply):
        return None, frozenset(write.overlay.labels.items()), frozenset(write.overlay.annotations.items())
    assert isinstance(write, Create | Update | Recreate)
    template = write.copy.template
    return template.content, frozenset(template.labels.items()), frozenset(template.annotations.items())


def _reverts(write: Write, edit: _Edit) -> bool:
    """True if a write restores what was there before the edit.

    A Namespace that was moved to another parent gets another overlay because of that edit, which is not a reversal.
    """
    if not isinstance(write, Apply):
        return isinstance(write, Update | Create | Recreate)
    wanted, before, now = write.overlay, edit.before, write.live
    pairs = ((wanted.labels, before.labels, now.labels), (wanted.annotations, before.annotations, now.annotations))
    return any(old.get(key) == value != new.get(key) for want, old, new in pairs for key, value in want.items())
