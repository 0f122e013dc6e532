"""What is right, pending and blocked for one source; status, Events and metrics read only this."""

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
"""Stands in a message for the namespace of its place."""


class NotInSync(NamedTuple):
    """A wanted place that is not right yet. One value serves all places of which the same is to be said."""

    reason: Reason | Literal["pending"]
    message: str = ""

    def shown(self, ref: Ref) -> str:
        """The message for one place."""
        return self.message.replace(_HERE, ref.namespace)


_PENDING = NotInSync(PENDING)
HELD = NotInSync("held", "more removals at once than massDelete lets pass")


def _is_paused(removal: NotInSync) -> bool:
    return removal.reason == "held" and removal != HELD


@lru_cache(maxsize=256)
def _missing(reason: Reason, message: str) -> NotInSync:
    return NotInSync(reason, message)


def _missing_at(ref: Ref, reason: Reason, message: str) -> NotInSync:
    """A list may name ten thousand namespaces that do not exist: they share what is said of them."""
    return _missing(reason, message.replace(ref.namespace, _HERE) if ref.namespace else message)


@dataclass(slots=True)
class CopyCounts:
    """The names wanted per namespace, and only the exceptions; the rest is right."""

    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By namespace. A slice may be counted while the whole is: what counts twice is counted once."""
    exceptions: dict[str, dict[Ref, NotInSync]] = field(default_factory=dict)
    """By namespace: ten thousand slices must not look through ten thousand exceptions each."""
    removals: dict[Ref, NotInSync] = field(default_factory=dict)
    """Copies that should go and do not: held by the brake or by a pause, or refused by the server."""

    counted: tuple[str, int] = ("", 0)
    """Uid and generation of the source whose every place was counted last."""
    last_written: str = ""
    """When a copy was last written for it, in UTC, as conditions have their times; empty where that was before us."""
    now: str = ""
    """When the status is made, likewise; empty elsewhere."""

    @classmethod
    def of(cls, plan: Plan) -> CopyCounts:
        """What a plan comes to when nothing has been written yet."""
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
        """The generation of a source that the figures are of; 0 where not all of them are known yet."""
        uid, generation = self.counted
        return generation if uid == source.uid else 0

    def longest_pending(self) -> Ref | None:
        """The place that has waited longest for its write: what is counted again keeps its turn."""
        return next((ref for ref, missing in self._all() if missing.reason == PENDING), None)

    def _missing(self) -> int:
        return sum(map(len, self.exceptions.values()))

    def _all(self) -> Iterator[tuple[Ref, NotInSync]]:
        return (item for found in self.exceptions.values() for item in found.items())

    def reset(self, namespace: str | None) -> None:
        """Forgets what was counted before, in one namespace or in all: a plan is about to count anew."""
        if namespace is None:
            self.names.clear()
            self.exceptions.clear()
            self.removals.clear()
            return
        self.names.pop(namespace, None)
        self.exceptions.pop(namespace, None)
        self._forget_removals(namespace)

    def start_chunked(self) -> None:
        """A large plan begins: which removals a pause holds back its steps say anew."""
        self.removals = {ref: each for ref, each in self.removals.items() if not _is_paused(each)}

    def retain(self, wanted: Collection[Ref]) -> None:
        """Forgets all other places: they went, or left the list, while a large plan was being made, or before it.

        And every removal, unless it is paused: the plan that ends now offers what is left of them anew.
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
        self.removals = {ref: each for ref, each in self.removals.items() if _is_paused(each)}

    def _forget_removals(self, namespace: str) -> None:
        """What is refused still is noted again when it is offered; somebody else may have removed the copy."""
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
        """A copy that should go does not."""
        self.removals[ref] = _missing_at(ref, reason, message)

    def mark_held(self, refs: Collection[Ref]) -> None:
        """The copies whose removal the brake holds, and no others."""
        left = {ref: each for ref, each in self.removals.items() if each != HELD}
        self.removals = left | dict.fromkeys(refs, HELD)

    def paused_removals(self, namespace: str | None) -> frozenset[Ref]:
        """The copies, in one namespace or in all, that would go but for a pause."""
        found = (ref for ref, each in self.removals.items() if _is_paused(each))
        return frozenset(ref for ref in found if namespace in (None, ref.namespace))

    def by_reason(self) -> dict[str, dict[Ref, NotInSync]]:
        """Per reason the places that are blocked for it."""
        found: dict[str, dict[Ref, NotInSync]] = {}
        for ref, each in self._all():
            if each.reason != PENDING:
                found.setdefault(each.reason, {})[ref] = each
        return found

    def problems(self) -> dict[str, dict[Ref, NotInSync]]:
        """The same with the copies that should go and do not; of those that the brake holds it tells itself."""
        found = self.by_reason()
        for ref, each in self.removals.items():
            if each != HELD:
                found.setdefault(each.reason, {})[ref] = each
        return found


@lru_cache(maxsize=4096)
def _shared(names: tuple[str, ...]) -> tuple[str, ...]:
    """Ten thousand namespaces that want the same name share one tuple."""
    return names


def total(tallies: Iterable[CopyCounts]) -> Counter[str]:
    """Sums for the metrics."""
    states: Counter[str] = Counter(right=0, pending=0, blocked=0)
    for tally in tallies:
        states.update(right=tally.in_sync, pending=tally.pending, blocked=tally.blocked)
    return states
