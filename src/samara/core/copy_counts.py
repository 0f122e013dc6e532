"""CopyCounts: how many copies of a source are in sync, pending and blocked. Status, Events and metrics read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from samara.core.desired import Reason
from samara.core.model import Object, Ref
from samara.core.writes import Blocked, Delete, Plan, Step

PENDING: Literal["pending"] = "pending"


_HERE = "\0"
"""Placeholder in a message for the namespace of the copy."""


class NotInSync(NamedTuple):
    """Why a desired copy is not in sync. Copies with the same reason and message share one value, to save memory."""

    reason: Reason | Literal["pending"]
    message: str = ""

    def shown(self, ref: Ref) -> str:
        """The message for one copy."""
        return self.message.replace(_HERE, ref.namespace)


_PENDING = NotInSync(PENDING)
HELD = NotInSync("held", "more removals at once than massDelete lets pass")


def _is_paused(removal: NotInSync) -> bool:
    return removal.reason == "held" and removal != HELD


@lru_cache(maxsize=256)
def _missing(reason: Reason, message: str) -> NotInSync:
    return NotInSync(reason, message)


def _missing_at(ref: Ref, reason: Reason, message: str) -> NotInSync:
    """A list may name ten thousand namespaces that do not exist: their messages differ only in the name."""
    return _missing(reason, message.replace(ref.namespace, _HERE) if ref.namespace else message)


@dataclass(slots=True)
class CopyCounts:
    """The names of the desired copies by namespace, and the copies that are not in sync. All others are in sync."""

    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By namespace, so that a plan of one namespace and a plan of all may count the same copy."""
    exceptions: dict[str, dict[Ref, NotInSync]] = field(default_factory=dict)
    """By namespace, so that a plan of one namespace does not search through all exceptions."""
    removals: dict[Ref, NotInSync] = field(default_factory=dict)
    """Copies that should be deleted and are not: held, paused, or refused by the API server."""

    counted: tuple[str, int] = ("", 0)
    """Uid and generation of the source at the last plan that covered all of its copies."""
    last_written: str = ""
    """When a copy was last written, in UTC, in the format of conditions. Empty if this process wrote none."""
    now: str = ""
    """The time at which the status is computed, in the same format. Empty otherwise."""

    @classmethod
    def of(cls, plan: Plan) -> CopyCounts:
        """The counts of a plan of which nothing has been written yet."""
        tally = cls()
        for step in plan.steps:
            tally.count(step)
        return tally

    @property
    def wanted(self) -> int:
        return sum(map(len, self.names.values()))

    @property
    def blocked(self) -> int:
        return sum(missing.reason != PENDING for _, missing in self._all())

    @property
    def pending(self) -> int:
        return self._missing() - self.blocked

    @property
    def in_sync(self) -> int:
        return self.wanted - self._missing()

    def generation(self, source: Object) -> int:
        """The generation of the source to which the counts apply. 0 until all of its copies have been counted."""
        uid, generation = self.counted
        return generation if uid == source.uid else 0

    def longest_pending(self) -> Ref | None:
        """The copy that has waited longest for its write. A copy that is counted again keeps its place in the order."""
        return next((ref for ref, missing in self._all() if missing.reason == PENDING), None)

    def _missing(self) -> int:
        return sum(map(len, self.exceptions.values()))

    def _all(self) -> Iterator[tuple[Ref, NotInSync]]:
        return (item for found in self.exceptions.values() for item in found.items())

    def reset(self, namespace: str | None) -> None:
        """Clears the counts, of one namespace or of all, before a plan counts again."""
        if namespace is None:
            self.names.clear()
            self.exceptions.clear()
            self.removals.clear()
            return
        self.names.pop(namespace, None)
        self.exceptions.pop(namespace, None)
        self._forget_removals(namespace)

    def start_chunked(self) -> None:
        """Prepares for a plan in chunks: its steps will count the paused removals again."""
        self.removals = {ref: missing for ref, missing in self.removals.items() if not _is_paused(missing)}

    def retain(self, wanted: Collection[Ref]) -> None:
        """Ends a plan in chunks: forgets copies that are no longer desired, and all removals that are not paused.

        The plan offers the remaining removals again, so that they are counted again.
        """
        stay: dict[str, set[str]] = {}
        for ref in wanted:
            stay.setdefault(ref.namespace, set()).add(ref.name)
        for namespace, names in tuple(self.names.items()):
            left = tuple(name for name in names if name in stay.get(namespace, ()))
            if left:
                self.names[namespace] = _shared(left)
            else:
                self.reset(namespace)
        for ref in [ref for ref, _ in self._all() if ref not in wanted]:
            self.mark_in_sync(ref)
        self.removals = {ref: missing for ref, missing in self.removals.items() if _is_paused(missing)}

    def _forget_removals(self, namespace: str) -> None:
        """A refused removal is counted again when it is offered. Another client may have deleted the copy."""
        for ref in [ref for ref in self.removals if ref.namespace == namespace]:
            del self.removals[ref]

    def count(self, step: Step) -> None:
        if not step.desired:
            self._count_removal(step)
            return
        self.removals.pop(step.ref, None)
        names = self.names.get(step.ref.namespace, ())
        if step.ref.name not in names:
            self.names[step.ref.namespace] = _shared((*names, step.ref.name))
        match step.outcome:
            case None:
                self.mark_in_sync(step.ref)
            case Blocked(reason=reason, message=message):
                self._note(step.ref, _missing_at(step.ref, reason, message))
            case Delete(delayed=True, why=why):
                self._note(step.ref, _missing_at(step.ref, "conflict", why))
            case Delete(revoked=True, why=why):
                self._note(step.ref, _missing_at(step.ref, "not-accepted", why))
            case _:
                self._note(step.ref, _PENDING)

    def _count_removal(self, step: Step) -> None:
        if isinstance(step.outcome, Blocked):
            self.mark_not_removed(step.ref, step.outcome.reason, step.outcome.message)

    def _note(self, ref: Ref, missing: NotInSync) -> None:
        self.exceptions.setdefault(ref.namespace, {})[ref] = missing

    def mark_in_sync(self, ref: Ref) -> None:
        found = self.exceptions.get(ref.namespace)
        if found is not None and found.pop(ref, None) is not None and not found:
            del self.exceptions[ref.namespace]

    def mark_written(self, when: str) -> None:
        """A copy was written, at this time of day."""
        self.last_written = when

    def mark_complete(self, source: Object) -> None:
        """Every address of this generation of the source was counted."""
        self.counted = source.uid, source.generation

    def mark_blocked(self, ref: Ref, reason: Reason, message: str) -> None:
        if ref.namespace in self.names:
            self._note(ref, _missing_at(ref, reason, message))

    def mark_not_removed(self, ref: Ref, reason: Reason, message: str) -> None:
        """Counts a copy that should be deleted and is not."""
        self.removals[ref] = _missing_at(ref, reason, message)

    def mark_held(self, refs: Collection[Ref]) -> None:
        """Sets the copies whose deletion the mass-delete limit holds."""
        left = {ref: missing for ref, missing in self.removals.items() if missing != HELD}
        self.removals = left | dict.fromkeys(refs, HELD)

    def paused_removals(self, namespace: str | None) -> frozenset[Ref]:
        """The copies, in one namespace or in all, whose deletion waits for the end of a pause."""
        found = (ref for ref, missing in self.removals.items() if _is_paused(missing))
        return frozenset(ref for ref in found if namespace in (None, ref.namespace))

    def by_reason(self) -> dict[str, dict[Ref, NotInSync]]:
        """The blocked copies by reason."""
        found: dict[str, dict[Ref, NotInSync]] = {}
        for ref, missing in self._all():
            if missing.reason != PENDING:
                found.setdefault(missing.reason, {})[ref] = missing
        return found

    def problems(self) -> dict[str, dict[Ref, NotInSync]]:
        """The blocked copies and the deletions that fail, by reason. Held deletions have an Event of their own."""
        found = self.by_reason()
        for ref, missing in self.removals.items():
            if missing != HELD:
                found.setdefault(missing.reason, {})[ref] = missing
        return found


@lru_cache(maxsize=4096)
def _shared(names: tuple[str, ...]) -> tuple[str, ...]:
    """Interned: ten thousand namespaces that want the same names share one tuple."""
    return names


def total(tallies: Iterable[CopyCounts]) -> Counter[str]:
    """Sums for the metrics."""
    states: Counter[str] = Counter(right=0, pending=0, blocked=0)
    for tally in tallies:
        states.update(right=tally.in_sync, pending=tally.pending, blocked=tally.blocked)
    return states
