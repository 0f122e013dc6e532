"""Removals that the brake holds: counted before they are made, and kept where a restart does not forget them."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from samara.core.mass_delete import BURST, WINDOW, MassDeleteLimit, exceeds_limit, too_many_namespaces
from samara.core.model import NAMESPACE, Key, Ref, namespace_ref
from samara.core.writes import Delete


@dataclass(frozen=True)
class HeldSet:
    """One source's removals that wait; times are of the clock that the holds were given."""

    key: str
    refs: frozenset[Ref]
    count: int
    since: float
    until: float

    @cached_property
    def digest(self) -> str:
        return digest_of(self.refs)


def digest_of(refs: Iterable[Ref]) -> str:
    """Names a set of places, so that a release is for the set it was given for."""
    lines = "\n".join(sorted(f"{ref.kind} {ref.path}" for ref in refs))
    return hashlib.sha256(lines.encode()).hexdigest()[:24]


def _namespaces(refs: Iterable[Ref]) -> bool:
    """True where Namespaces are to go, with all that is in them: never by time alone."""
    return any(ref.kind == NAMESPACE for ref in refs)


class MassDeleteGuard:
    """Decides which deletes of a plan may go now. One per process; the leader keeps it in the cluster too."""

    def __init__(
        self, brake: MassDeleteLimit | None, hold: float, clock: Callable[[], float], *, awaits_record: bool = True
    ) -> None:
        """`awaits_record` is False for commands that only foretell: nothing is recorded for them."""
        self._awaits_record = awaits_record
        self._brake = brake
        self._for = hold
        self._clock = clock
        self.held: dict[Key, HeldSet] = {}
        self.remembered: set[str] = set()
        """Keys that were held before a restart: held again, whatever the counts say now."""
        self._free: dict[Key, dict[str, frozenset[Ref]]] = {}
        """What may go without being counted, by namespace: a slice must not look through all of them."""
        self._discarded: set[Ref] = set()
        self._by_source: dict[Key, OrderedDict[Ref, float]] = {}
        """When each copy was last let go, the oldest first: a delete that is planned anew counts once."""
        self._by_namespace: OrderedDict[str, OrderedDict[Ref, float]] = OrderedDict()
        """The same for all sources of a namespace; the one that has let something go last is the last."""
        self._namespaces: OrderedDict[Ref, float] = OrderedDict()
        """The Namespaces that were let go, whoever wanted them gone."""
        self._written: set[str] = set()
        self._unwritten: set[Key] = set()

    def check(
        self, key: Key, deletes: Sequence[Delete], has: int, all_has: int, paused: frozenset[Ref] = frozenset()
    ) -> Sequence[Delete]:
        """The deletes of a plan that may be sent; `has` counts the source's copies, `all_has` its namespace's.

        What is `paused` is no part of the plan, and still to go: a pause is no answer to the brake.
        """
        refs = frozenset(delete.ref for delete in deletes)
        self._let_stay(key, refs | paused)
        if not refs or self._brake is None:
            return deletes
        if self._are_free(key.all_namespaces, refs):
            return deletes
        if self._must_hold(key.all_namespaces, refs, has, all_has):
            return self._hold(key, refs)
        return self._passed(key.all_namespaces, deletes)

    def _let_stay(self, key: Key, refs: frozenset[Ref]) -> None:
        """What is not to be removed any more is not held any more; a slice speaks of its own namespace alone."""
        if key.namespace is None and not refs:
            self._forget(key)
        self._hold_again(key, refs)
        if key.namespace is None:
            return
        held = self.held.get(key.all_namespaces)
        stay = (
            [ref for ref in held.refs if ref.namespace == key.namespace and ref not in refs] if held is not None else ()
        )
        if held is not None and stay:
            left = held.refs.difference(stay)
            self.held[key.all_namespaces] = replace(held, refs=left, count=len(left))
            if not left:
                del self.held[key.all_namespaces]

    def _hold_again(self, key: Key, refs: frozenset[Ref]) -> None:
        """A release is for the set that was held then: what is gone, or wanted again, is out of it."""
        free = self._free.get(key.all_namespaces, {})
        for namespace in [key.namespace] if key.namespace is not None else list(free):
            here = free.get(namespace, frozenset())
            if not here <= refs:
                self._discarded -= here - refs
                free[namespace] = here & refs

    def _are_free(self, key: Key, refs: frozenset[Ref]) -> bool:
        free = self._free.get(key, {})
        return all(ref in free.get(ref.namespace, ()) for ref in refs)

    def _must_hold(self, key: Key, refs: frozenset[Ref], has: int, all_has: int) -> bool:
        assert self._brake is not None
        if key in self.held or str(key) in self.remembered:
            return True
        if _namespaces(refs):
            recent = self._others(self._namespaces, refs, WINDOW)
            return too_many_namespaces(self._brake, recent, len(refs))
        gone = self._others(self._by_source.get(key), refs, WINDOW)
        burst = self._others(self._by_namespace.get(key.source.namespace), refs, BURST)
        return exceeds_limit(self._brake, gone, len(refs), has) or exceeds_limit(self._brake, burst, len(refs), all_has)

    def _others(self, times: OrderedDict[Ref, float] | None, refs: frozenset[Ref], window: float) -> int:
        """How many copies besides these were let go lately."""
        if times is None:
            return 0
        while times and next(iter(times.values())) < self._clock() - window:
            times.popitem(last=False)
        return len(times) - sum(ref in times for ref in refs)

    def _hold(self, key: Key, refs: frozenset[Ref]) -> Sequence[Delete]:
        held = self.held.get(key.all_namespaces)
        if held is None:
            now = self._clock()
            held = HeldSet(str(key), frozenset(), 0, now, inf if _namespaces(refs) else now + self._for)
            self.remembered.discard(str(key))
        both = refs if key.namespace is None else held.refs | refs
        self.held[key.all_namespaces] = replace(held, refs=both, count=len(both))
        return ()

    def _passed(self, key: Key, deletes: Sequence[Delete]) -> Sequence[Delete]:
        now = self._clock()
        for times in (
            self._by_source.setdefault(key, OrderedDict()),
            self._by_namespace.setdefault(key.source.namespace, OrderedDict()),
            *((self._namespaces,) if _namespaces(delete.ref for delete in deletes) else ()),
        ):
            self._others(times, frozenset(), WINDOW)
            for delete in deletes:
                times[delete.ref] = now
                times.move_to_end(delete.ref)
        self._by_namespace.move_to_end(key.source.namespace)
        self._forget_quiet()
        return [delete for delete in deletes if self._is_written(key, delete.ref)]

    def _forget_quiet(self) -> None:
        """Namespaces come and go: of one that has let nothing go for as long as a burst counts nothing is kept."""
        while not self._others(next(iter(self._by_namespace.values())), frozenset(), BURST):
            self._by_namespace.popitem(last=False)

    def _is_written(self, key: Key, ref: Ref) -> bool:
        """False for a Namespace that has to wait: who ends right after its deletion must not forget it."""
        if ref.kind != NAMESPACE or not self._awaits_record or ref.name in self._written:
            return True
        self._unwritten.add(key)
        return False

    def must_record(self, key: Key) -> bool:
        """True if deletions of Namespaces of this key wait until the ConfigMap records them."""
        return key in self._unwritten

    def deleted_namespaces(self) -> dict[str, float]:
        """The Namespaces that were let go lately, and when."""
        self._others(self._namespaces, frozenset(), WINDOW)
        return {ref.name: when for ref, when in self._namespaces.items()}

    def restore(self, ages: Mapping[str, float]) -> None:
        """Takes what was written down before this process started: how long ago each Namespace was let go."""
        now = self._clock()
        for name, age in sorted(ages.items(), key=lambda each: -each[1]):
            self._namespaces[namespace_ref(name)] = now - max(0.0, age)

    def mark_recorded(self, names: Iterable[str]) -> list[Key]:
        """Says which Namespaces are written down now; returns the keys that waited for it."""
        self._written = set(names)
        waited, self._unwritten = list(self._unwritten), set()
        return waited

    def release(self, key: Key, discard: bool = False) -> None:
        """Lets a held set go: its time is over, or somebody has released it, or wants it kept as orphans."""
        held = self.held.pop(key, None)
        if held is None:
            return
        by_namespace: dict[str, set[Ref]] = {}
        for ref in held.refs:
            by_namespace.setdefault(ref.namespace, set()).add(ref)
        self._free[key] = {namespace: frozenset(refs) for namespace, refs in by_namespace.items()}
        if discard:
            self._discarded |= held.refs

    def is_discarded(self, ref: Ref) -> bool:
        return ref in self._discarded

    def _forget(self, key: Key) -> None:
        """Nothing is to be removed any more: the change was undone, or all is done."""
        self.held.pop(key, None)
        self._discarded.difference_update(*self._free.pop(key, {}).values())
        self.remembered.discard(str(key))

    def forget(self, key: Key) -> None:
        """Nothing is left of a key that could be held or counted."""
        self._forget(key)
        self._by_source.pop(key, None)

    def settle(self, planned: Iterable[Key], is_planned: Callable[[str], bool]) -> None:
        """All has been planned that can be: what was held before a restart and is no key any more is forgotten.

        Of a vocabulary that is off, or waits, nothing was planned: what it held is held when it is served again.
        """
        keys = {str(key) for key in planned}
        self.remembered = {key for key in self.remembered if key in keys or not is_planned(key.partition("/")[0])}

    def due(self) -> list[Key]:
        """The held sets whose time is over."""
        return [key for key, hold in self.held.items() if hold.until <= self._clock()]

    def next_due(self) -> float | None:
        """How long until a held set's time is over; None where nothing is held, or only for ever."""
        ends = [hold.until for hold in self.held.values() if hold.until != inf]
        return max(0.0, min(ends) - self._clock()) if ends else None

    def seconds_until(self, moment: float) -> float:
        """How far a moment of our clock lies ahead."""
        return moment - self._clock()
