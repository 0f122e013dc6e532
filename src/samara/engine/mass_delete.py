"""Counts deletions before they are sent, and holds those of a plan that exceed the mass-delete limit."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from samara.core.mass_delete import BURST, WINDOW, MassDeleteLimit, exceeds_limit, exceeds_namespace_limit
from samara.core.model import NAMESPACE, NO_METADATA, Key, Ref, namespace_ref
from samara.core.writes import Delete


@dataclass(frozen=True)
class HeldSet:
    """The deletions of one source that wait. Times are those of the guard's clock."""

    key: str
    refs: frozenset[Ref]
    since: float
    until: float

    @property
    def count(self) -> int:
        return len(self.refs)

    @cached_property
    def digest(self) -> str:
        return digest_of(self.refs)


def digest_of(refs: Iterable[Ref]) -> str:
    """Identifies a set of addresses, so that an answer applies only to the set that it was given for."""
    lines = "\n".join(sorted(f"{ref.kind} {ref.path}" for ref in refs))
    return hashlib.sha256(lines.encode()).hexdigest()[:24]


def _has_namespaces(refs: Iterable[Ref]) -> bool:
    """True if Namespaces are among them. Deleting these deletes their contents, so time alone never releases them."""
    return any(ref.kind == NAMESPACE for ref in refs)


class MassDeleteGuard:
    """Owns the counts of recent deletions and the held sets. One per process.

    The deletion gate asks it about the deletions of each plan; the hold store keeps its state in a ConfigMap. It sends
    nothing itself.
    """

    def __init__(
        self, limit: MassDeleteLimit | None, hold: float, clock: Callable[[], float], *, awaits_record: bool = True
    ) -> None:
        """`hold`: seconds after which a held set is released by itself.

        `awaits_record`: False for commands that only forecast. Nothing is recorded for them.
        """
        self._limit = limit
        self._hold_seconds = hold
        self._clock = clock
        self._awaits_record = awaits_record
        self.held: dict[Key, HeldSet] = {}
        self._remembered: set[str] = set()
        """See `remembered`."""
        self._released: dict[Key, dict[str, frozenset[Ref]]] = {}
        """Deletions that may be sent without being counted, because their hold ended.

        By key and then by namespace: a slice must not search those of all namespaces.
        """
        self._discarded: set[Ref] = set()
        """Copies whose held deletion was discarded: they become orphans instead."""
        self._by_source: dict[Key, OrderedDict[Ref, float]] = {}
        """When each copy was last deleted, oldest first. A delete that is planned again counts once."""
        self._by_namespace: OrderedDict[str, OrderedDict[Ref, float]] = OrderedDict()
        """The same for all sources of a namespace. The namespace with the latest deletion is last."""
        self._namespaces: OrderedDict[Ref, float] = OrderedDict()
        """When each Namespace was last deleted, over all sources."""
        self._trees: dict[Ref, str] = {}
        """The tree that each of these was in. Empty if that is not known: then it counts for every tree."""
        self._recorded: set[str] = set()
        """Namespaces whose deletion the ConfigMap records."""
        self._unrecorded: set[Key] = set()
        """Keys with deletions of Namespaces that wait for the record."""

    @property
    def remembered(self) -> frozenset[str]:
        """Keys that an earlier process held and this one has not planned yet. They are held whatever their counts."""
        return frozenset(self._remembered)

    def restore(
        self, held: Iterable[str], deleted: Mapping[str, float], trees: Mapping[str, str] = NO_METADATA
    ) -> None:
        """Takes the state of an earlier process: the held keys, how many seconds ago each Namespace was deleted, and
        which tree it was in."""
        self._remembered = set(held)
        now = self._clock()
        for name, age in sorted(deleted.items(), key=lambda item: -item[1]):
            self._namespaces[namespace_ref(name)] = now - max(0.0, age)
            self._trees[namespace_ref(name)] = trees.get(name, "")

    def check(
        self,
        key: Key,
        deletes: Sequence[Delete],
        copies: int,
        copies_of_all: int,
        paused: frozenset[Ref] = frozenset(),
        *,
        tree: str = "",
    ) -> Sequence[Delete]:
        """The deletes of a plan that may be sent now; the others are held.

        `copies` counts those of the source, `copies_of_all` those of all sources of its namespace.
        `paused` deletions are not sent but still counted, so that a pause does not end a hold.
        `tree`: that of the source, if its copies are Namespaces.
        """
        refs = frozenset(delete.ref for delete in deletes)
        self._drop_unplanned(key, refs | paused)
        if not refs or self._limit is None:
            return deletes
        if self._are_released(key.all_namespaces, refs):
            return deletes
        self._expire(key)
        if self._must_hold(key.all_namespaces, refs, copies, copies_of_all, tree):
            self._hold(key, refs)
            return ()
        return self._pass(key.all_namespaces, deletes, tree)

    def _drop_unplanned(self, key: Key, refs: frozenset[Ref]) -> None:
        """Ends the hold of deletions that are no longer planned. A slice decides about its own namespace only."""
        if key.namespace is None and not refs:
            self._end(key)
        self._drop_released(key, refs)
        if key.namespace is None:
            return
        held = self.held.get(key.all_namespaces)
        if held is None:
            return
        dropped = [ref for ref in held.refs if ref.namespace == key.namespace and ref not in refs]
        if dropped:
            remaining = held.refs.difference(dropped)
            self.held[key.all_namespaces] = replace(held, refs=remaining)
            if not remaining:
                del self.held[key.all_namespaces]

    def _drop_released(self, key: Key, refs: frozenset[Ref]) -> None:
        """A release applies to the set that was held. A copy that is deleted or wanted again leaves that set."""
        released = self._released.get(key.all_namespaces, {})
        for namespace in [key.namespace] if key.namespace is not None else list(released):
            in_namespace = released.get(namespace, frozenset())
            if not in_namespace <= refs:
                self._discarded -= in_namespace - refs
                released[namespace] = in_namespace & refs

    def _are_released(self, key: Key, refs: frozenset[Ref]) -> bool:
        released = self._released.get(key, {})
        return all(ref in released.get(ref.namespace, ()) for ref in refs)

    def _expire(self, key: Key) -> None:
        """Drops deletions that are too old to count."""
        now = self._clock()
        _drop_before(now - WINDOW, self._namespaces)
        self._trees = {ref: tree for ref, tree in self._trees.items() if ref in self._namespaces}
        _drop_before(now - WINDOW, self._by_source.get(key.all_namespaces))
        _drop_before(now - BURST, self._by_namespace.get(key.source.namespace))

    def _must_hold(self, key: Key, refs: frozenset[Ref], copies: int, copies_of_all: int, tree: str) -> bool:
        assert self._limit is not None
        if key in self.held or str(key) in self._remembered:
            return True
        if _has_namespaces(refs):
            return exceeds_namespace_limit(self._limit, self._deleted_in_tree(tree, refs), len(refs))
        recent = _count_others(self._by_source.get(key), refs)
        burst = _count_others(self._by_namespace.get(key.source.namespace), refs)
        return exceeds_limit(self._limit, recent, len(refs), copies) or exceeds_limit(
            self._limit, burst, len(refs), copies_of_all
        )

    def _deleted_in_tree(self, tree: str, refs: frozenset[Ref]) -> int:
        """How many other Namespaces of a tree were deleted lately."""
        others = (of for ref, of in self._trees.items() if ref not in refs)
        return sum(of == tree or not of or not tree for of in others)

    def _hold(self, key: Key, refs: frozenset[Ref]) -> None:
        held = self.held.get(key.all_namespaces)
        if held is None:
            now = self._clock()
            until = inf if _has_namespaces(refs) else now + self._hold_seconds
            held = HeldSet(str(key), frozenset(), now, until)
            self._remembered.discard(str(key))
        refs = refs if key.namespace is None else held.refs | refs
        self.held[key.all_namespaces] = replace(held, refs=refs)

    def _pass(self, key: Key, deletes: Sequence[Delete], tree: str) -> Sequence[Delete]:
        """Counts deletes that are within the limit. Those of Namespaces wait until they are recorded."""
        self._trees |= {delete.ref: tree for delete in deletes if delete.ref.kind == NAMESPACE}
        now = self._clock()
        for times in (
            self._by_source.setdefault(key, OrderedDict()),
            self._by_namespace.setdefault(key.source.namespace, OrderedDict()),
            *((self._namespaces,) if _has_namespaces(delete.ref for delete in deletes) else ()),
        ):
            for delete in deletes:
                times[delete.ref] = now
                times.move_to_end(delete.ref)
        self._by_namespace.move_to_end(key.source.namespace)
        self._forget_quiet_namespaces()
        recorded = [delete for delete in deletes if self._is_recorded(delete.ref)]
        if len(recorded) < len(deletes):
            self._unrecorded.add(key)
        return recorded

    def _forget_quiet_namespaces(self) -> None:
        """Drops namespaces without a recent deletion. Otherwise deleted namespaces would be kept forever."""
        since = self._clock() - BURST
        while next(reversed(next(iter(self._by_namespace.values())).values()), 0.0) < since:
            self._by_namespace.popitem(last=False)

    def _is_recorded(self, ref: Ref) -> bool:
        """False for a Namespace whose deletion must wait. Otherwise a restart right after it would forget it."""
        return ref.kind != NAMESPACE or not self._awaits_record or ref.name in self._recorded

    def must_record(self, key: Key) -> bool:
        """True if deletions of Namespaces of this key wait until the ConfigMap records them."""
        return key in self._unrecorded

    def mark_recorded(self, names: Iterable[str]) -> list[Key]:
        """The ConfigMap records the deletions of these Namespaces now. Returns the keys that waited for it."""
        self._recorded = set(names)
        waited, self._unrecorded = list(self._unrecorded), set()
        return waited

    def deleted_namespaces(self) -> dict[str, float]:
        """When each Namespace was deleted within the window."""
        since = self._clock() - WINDOW
        return {ref.name: when for ref, when in self._namespaces.items() if when >= since}

    def tree_of(self, name: str) -> str:
        """The tree that a deleted Namespace was in. Empty if that is not known."""
        return self._trees.get(namespace_ref(name), "")

    def release(self, key: Key, discard: bool = False) -> None:
        """Ends a hold because its time is over or a person released it. `discard`: its copies become orphans."""
        held = self.held.pop(key, None)
        if held is None:
            return
        by_namespace: dict[str, set[Ref]] = {}
        for ref in held.refs:
            by_namespace.setdefault(ref.namespace, set()).add(ref)
        self._released[key] = {namespace: frozenset(refs) for namespace, refs in by_namespace.items()}
        if discard:
            self._discarded |= held.refs

    def is_discarded(self, ref: Ref) -> bool:
        return ref in self._discarded

    def forget(self, key: Key) -> None:
        """Drops the state of a key. Neither its source nor a copy is left."""
        self._end(key)
        self._by_source.pop(key, None)

    def _end(self, key: Key) -> None:
        """Ends the hold of a key without planned deletions: its change was undone, or all of them were sent."""
        self.held.pop(key, None)
        self._discarded.difference_update(*self._released.pop(key, {}).values())
        self._remembered.discard(str(key))

    def settle(self, planned: Iterable[Key], is_planned: Callable[[str], bool]) -> None:
        """Forgets remembered keys that no longer exist, once everything has been planned.

        `is_planned` is False for a vocabulary that is disabled or waits for its kinds. Its keys stay remembered.
        """
        keys = {str(key) for key in planned}
        self._remembered = {key for key in self._remembered if key in keys or not is_planned(key.partition("/")[0])}

    def due(self) -> list[Key]:
        """The keys of held sets whose time is over."""
        return [key for key, held in self.held.items() if held.until <= self._clock()]

    def next_due(self) -> float | None:
        """Seconds until the time of a held set is over; None if time releases none."""
        ends = [held.until for held in self.held.values() if held.until != inf]
        return max(0.0, min(ends) - self._clock()) if ends else None

    def seconds_until(self, when: float) -> float:
        """Seconds until a time of the guard's clock; negative if it has passed."""
        return when - self._clock()


def _drop_before(since: float, times: OrderedDict[Ref, float] | None) -> None:
    while times and next(iter(times.values())) < since:
        times.popitem(last=False)


def _count_others(times: OrderedDict[Ref, float] | None, refs: frozenset[Ref]) -> int:
    """How many other copies were deleted lately."""
    return 0 if times is None else len(times) - sum(ref in times for ref in refs)
