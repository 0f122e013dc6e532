"""CopyCounts: how many copies of a source are in sync, pending and blocked. Status, Events and metrics read it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from samara.core.desired import Reason
from samara.core.model import Kind, Object, Ref
from samara.core.names import PackedNames
from samara.core.writes import Blocked, Delete, Plan, Step

PENDING: Literal["pending"] = "pending"

_NAMESPACE = "\0"
"""Placeholder in a message for the namespace of the copy."""
_UNNAMED = "(not named)"


class NotInSync(NamedTuple):
    """Why a desired copy is not in sync. Copies with the same reason and message share one value, to save memory."""

    reason: Reason | Literal["pending"]
    message: str = ""

    def shown(self, ref: Ref, is_named: bool = True) -> str:
        """The message for one copy, with or without the name of its namespace."""
        message = self.message.replace(_NAMESPACE, ref.namespace)
        if is_named or not ref.namespace:
            return message
        return re.sub(rf"(?<![-\w]){re.escape(ref.namespace)}(?![-\w])", _UNNAMED, message)


_PENDING = NotInSync(PENDING)
HELD = NotInSync("held", "more deletions at once than massDelete allows")


def _is_paused(removal: NotInSync) -> bool:
    return removal.reason == "held" and removal != HELD


def _state_of(step: Step) -> NotInSync | None:
    """Why a desired copy is not in sync; None if it is."""
    match step.outcome:
        case None:
            return None
        case Blocked(reason=reason, message=message):
            return _blocked(step.ref, reason, message)
        case Delete(delayed=True, why=why):
            return _blocked(step.ref, "conflict", why)
        case Delete(revoked=True, why=why):
            return _blocked(step.ref, "not-accepted", why)
        case _:
            return _PENDING


def _blocked(ref: Ref, reason: Reason, message: str) -> NotInSync:
    """A list may name ten thousand namespaces that do not exist. Their messages differ only in the name, so they share
    one value that holds a placeholder."""
    return _interned(reason, message.replace(ref.namespace, _NAMESPACE) if ref.namespace else message)


@lru_cache(maxsize=256)
def _interned(reason: Reason, message: str) -> NotInSync:
    return NotInSync(reason, message)


@dataclass(slots=True)
class CopyCounts:
    """The desired copies of one source, and those of them that are not in sync. All others are in sync."""

    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of the desired copies by namespace, so that a plan of one namespace replaces only its own entry."""
    not_in_sync: dict[str, dict[Ref, NotInSync]] = field(default_factory=dict)
    """By namespace, so that a plan of one namespace does not search through those of all others."""
    absent: dict[tuple[Kind, str, NotInSync], PackedNames] = field(default_factory=dict)
    """Copies whose namespace does not exist, which are in neither of the two above: their namespaces by kind, name and
    problem.

    A list may name ten thousand namespaces that do not exist, so none of them may cost an object. They are packed,
    except while a large plan counts."""
    _is_large: bool = False
    """True while a large plan counts."""
    removals: dict[Ref, NotInSync] = field(default_factory=dict)
    """Copies that should be deleted and are not: held, paused, or refused by the API server."""
    complete_for: tuple[str, int] = ("", 0)
    """Uid and generation of the source at the last plan that covered all of its copies."""
    last_written: str = ""
    """When a copy was last written, in UTC, in the format of conditions. Empty if this process wrote none."""
    now: str = ""
    """The time at which the status is computed, in the same format. Empty otherwise."""

    @classmethod
    def of(cls, plan: Plan) -> CopyCounts:
        """The counts of a plan of which nothing has been written yet."""
        counts = cls()
        counts.begin_chunked_plan()
        for step in plan.steps:
            counts.count(step)
        counts._pack()
        return counts

    @property
    def wanted(self) -> int:
        return sum(map(len, self.names.values())) + self._number_absent()

    @property
    def blocked(self) -> int:
        blocked = (state.reason != PENDING for states in self.not_in_sync.values() for state in states.values())
        return sum(blocked) + self._number_absent()

    @property
    def pending(self) -> int:
        return self._number_not_in_sync() - self.blocked

    @property
    def in_sync(self) -> int:
        return self.wanted - self._number_not_in_sync()

    def generation(self, source: Object) -> int:
        """The generation of the source to which the counts apply. 0 until all of its copies have been counted."""
        uid, generation = self.complete_for
        return generation if uid == source.uid else 0

    def longest_pending(self) -> Ref | None:
        """The copy that has waited longest for its write. A copy that is counted again keeps its place in the order."""
        return next((ref for ref, state in self._items() if state.reason == PENDING), None)

    def _number_not_in_sync(self) -> int:
        return sum(map(len, self.not_in_sync.values())) + self._number_absent()

    def _number_absent(self) -> int:
        return sum(map(len, self.absent.values()))

    def _items(self) -> Iterator[tuple[Ref, NotInSync]]:
        for states in self.not_in_sync.values():
            yield from states.items()
        for (kind, name, state), namespaces in self.absent.items():
            yield from ((Ref(kind, namespace, name), state) for namespace in namespaces)

    def reset(self, namespace: str | None) -> None:
        """Clears the counts, of one namespace or of all, before a plan counts again."""
        if namespace is None:
            self.names.clear()
            self.not_in_sync.clear()
            self.absent.clear()
            self.removals.clear()
            self._is_large = False
            return
        self.names.pop(namespace, None)
        self.not_in_sync.pop(namespace, None)
        self._forget_absent(namespace)
        # A refused removal is counted again when the plan offers it again. Another client may have deleted the copy.
        for ref in [ref for ref in self.removals if ref.namespace == namespace]:
            del self.removals[ref]

    def begin_chunked_plan(self) -> None:
        """Forgets the paused removals: the steps of the plan count them again. Prepares for many missing namespaces."""
        self.removals = {ref: state for ref, state in self.removals.items() if not _is_paused(state)}
        self._is_large = True
        for namespaces in self.absent.values():
            namespaces.unpack()

    def end_chunked_plan(self, wanted: Collection[Ref]) -> None:
        """Forgets the copies that are no longer desired, and all removals that are not paused.

        The plan offers the remaining removals again, so that they are counted again.
        """
        wanted_names: dict[str, set[str]] = {}
        for ref in wanted:
            wanted_names.setdefault(ref.namespace, set()).add(ref.name)
        for namespace, names in tuple(self.names.items()):
            still_wanted = tuple(name for name in names if name in wanted_names.get(namespace, ()))
            if still_wanted:
                self.names[namespace] = _shared(still_wanted)
            else:
                self.reset(namespace)
        for ref in [ref for ref, _ in self._items() if ref not in wanted]:
            self.mark_in_sync(ref)
            self._forget_absent(ref.namespace, ref.name)
        self.removals = {ref: state for ref, state in self.removals.items() if _is_paused(state)}
        self._pack()

    def _pack(self) -> None:
        self._is_large = False
        for namespaces in self.absent.values():
            namespaces.pack()

    def count(self, step: Step) -> None:
        """Counts one step of a plan: a desired copy, or a copy that should be deleted and is blocked."""
        if not step.desired:
            if isinstance(step.outcome, Blocked):
                self.mark_not_removed(step.ref, step.outcome.reason, step.outcome.message)
            return
        self.removals.pop(step.ref, None)
        state = _state_of(step)
        if state is not None and state.reason == "no-namespace":
            self._note_absent(step.ref, state)
            return
        self._forget_absent(step.ref.namespace, step.ref.name)
        names = self.names.get(step.ref.namespace, ())
        if step.ref.name not in names:
            self.names[step.ref.namespace] = _shared((*names, step.ref.name))
        if state is None:
            self.mark_in_sync(step.ref)
        else:
            self._note(step.ref, state)

    def _note_absent(self, ref: Ref, state: NotInSync) -> None:
        key = ref.kind, ref.name, state
        if key not in self.absent or ref.namespace not in self.absent[key]:
            self._forget(ref)
            self._forget_absent(ref.namespace, ref.name)
            namespaces = self.absent.setdefault(key, PackedNames())
            if self._is_large:
                namespaces.unpack()
            namespaces.add(ref.namespace)

    def _forget_absent(self, namespace: str, name: str | None = None) -> None:
        for key, namespaces in tuple(self.absent.items()):
            if name in (None, key[1]):
                namespaces.discard(namespace)
                if not namespaces:
                    del self.absent[key]

    def _forget(self, ref: Ref) -> None:
        """Forgets a copy whose namespace exists."""
        self.mark_in_sync(ref)
        names = tuple(name for name in self.names.get(ref.namespace, ()) if name != ref.name)
        if names:
            self.names[ref.namespace] = _shared(names)
        else:
            self.names.pop(ref.namespace, None)

    def _note(self, ref: Ref, state: NotInSync) -> None:
        self.not_in_sync.setdefault(ref.namespace, {})[ref] = state

    def mark_in_sync(self, ref: Ref) -> None:
        states = self.not_in_sync.get(ref.namespace)
        if states is not None and states.pop(ref, None) is not None and not states:
            del self.not_in_sync[ref.namespace]

    def mark_written(self, when: str) -> None:
        """Notes the time at which a copy was last written."""
        self.last_written = when

    def mark_complete(self, source: Object) -> None:
        """Notes that every address of this generation of the source was counted."""
        self.complete_for = source.uid, source.generation

    def mark_blocked(self, ref: Ref, reason: Reason, message: str) -> None:
        if ref.namespace in self.names:
            self._note(ref, _blocked(ref, reason, message))

    def mark_not_removed(self, ref: Ref, reason: Reason, message: str) -> None:
        """Counts a copy that should be deleted and is not."""
        self.removals[ref] = _blocked(ref, reason, message)

    def mark_held(self, refs: Collection[Ref]) -> None:
        """Sets the copies whose deletion the mass-delete limit holds."""
        others = {ref: state for ref, state in self.removals.items() if state != HELD}
        self.removals = others | dict.fromkeys(refs, HELD)

    def paused_removals(self, namespace: str | None) -> frozenset[Ref]:
        """The copies, in one namespace or in all, whose deletion waits for the end of a pause."""
        paused = (ref for ref, state in self.removals.items() if _is_paused(state))
        return frozenset(ref for ref in paused if namespace in (None, ref.namespace))

    def by_reason(self) -> dict[str, dict[Ref, NotInSync]]:
        """The blocked copies by reason."""
        blocked: dict[str, dict[Ref, NotInSync]] = {}
        for ref, state in self._items():
            if state.reason != PENDING:
                blocked.setdefault(state.reason, {})[ref] = state
        return blocked

    def problems(self) -> dict[str, dict[Ref, NotInSync]]:
        """The blocked copies and the deletions that fail, by reason. Held deletions have an Event of their own."""
        problems = self.by_reason()
        for ref, state in self.removals.items():
            if state != HELD:
                problems.setdefault(state.reason, {})[ref] = state
        return problems


@lru_cache(maxsize=4096)
def _shared(names: tuple[str, ...]) -> tuple[str, ...]:
    """The same tuple for equal names, so that ten thousand namespaces share one."""
    return names


def count_by_state(counts_of_sources: Iterable[CopyCounts]) -> Counter[str]:
    """The copies of all sources together, by the state that the metrics show."""
    states: Counter[str] = Counter(right=0, pending=0, blocked=0)
    for counts in counts_of_sources:
        states.update(right=counts.in_sync, pending=counts.pending, blocked=counts.blocked)
    return states
