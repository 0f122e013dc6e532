"""Decides which deletions of a plan may be sent now: after the grace period, and within the mass-delete limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from samara.core.context import PlanContext
from samara.core.desired import Desired
from samara.core.model import NAMESPACE, Key, Kind, Object, Ref
from samara.core.ownership import is_recorded
from samara.core.registry import Registry
from samara.core.rules import decide, decide_unwanted
from samara.core.source_type import CustomResource, is_explicit_deletion, tree_of
from samara.core.writes import Blocked, Delete, KeepAsOrphan, Release, Removal, SetFinalizer, Step
from samara.engine.limits import FlapDamper
from samara.engine.mass_delete import HeldSet, MassDeleteGuard
from samara.kube.cache import Cache, Change

KEPT = "the deletion of its namespace was discarded; the namespace stays"
_NO_REFS: frozenset[Ref] = frozenset()


class Verdict(NamedTuple):
    """The decision about the deletions of a plan."""

    allowed: list[Removal | SetFinalizer]
    """May be sent now."""
    requeue: list[tuple[Key, float]]
    """Keys to plan again, and after how many seconds."""
    held: HeldSet | None
    """The deletions of the source that the mass-delete limit holds, also those of other plans."""
    must_record: bool = False
    """True if deletions of Namespaces wait until the ConfigMap records them."""


class DeletionGate:
    """Judges the deletions of a plan together, for the planner. It sends nothing itself.

    It owns the times at which sources vanished.
    """

    def __init__(
        self,
        cache: Cache,
        registry: Registry,
        guard: MassDeleteGuard,
        flaps: FlapDamper,
        clock: Callable[[], float],
        gone_after: float,
    ) -> None:
        self._cache = cache
        self._registry = registry
        self._guard = guard
        self._flaps = flaps
        self._clock = clock
        self._gone_after = gone_after
        """The grace period in seconds, for source types that have none of their own."""
        self._gone_since: dict[Key, float] = {}
        self._leftover_since: dict[Key, float] = {}
        """When copies of an earlier source of the same name were first seen."""
        self._intended: set[Ref] = set()
        """Sources that we deleted ourselves, as copies of another one: their copies need no grace period."""
        self._appeared = AppearedCopies(cache)

    def judge(
        self,
        key: Key,
        source: Object | None,
        removals: Sequence[Removal],
        finalizer: str | None = None,
        paused: frozenset[Ref] = frozenset(),
    ) -> Verdict:
        """`paused`: copies whose deletion a pause holds back. The mass-delete limit counts them too.

        `finalizer`: the one of the source, released in place of a Namespace whose deletion was discarded.
        """
        is_gone = self._is_gone(key, source)
        has_grace = is_gone and bool(removals) and key.source not in self._intended
        self._note_source(key, is_gone, has_grace)
        if has_grace and (remaining := self._remaining_grace(key, self._gone_since)) > 0:
            return Verdict([], [(key.all_namespaces, remaining)], self._guard.held.get(key.all_namespaces))
        leftovers = [removal for removal in removals if _is_delayed(removal)]
        others = [removal for removal in removals if not _is_delayed(removal)]
        self._note_leftovers(key, leftovers)
        undamped, requeue = self._undamped(key, source, others)
        allowed: list[Removal] = []
        if leftovers and (remaining := self._remaining_grace(key, self._leftover_since)) > 0:
            requeue.append((key.all_namespaces, remaining))
        else:  # the garbage collector did not delete them; the mass-delete limit does not count them
            allowed += leftovers
        allowed += self._within_limit(key, source, undamped, paused)
        return Verdict(
            [_without_namespace(removal, source, finalizer) for removal in allowed],
            requeue,
            self._guard.held.get(key.all_namespaces),
            self._guard.must_record(key.all_namespaces),
        )

    def note_step(self, key: Key, step: Step) -> None:
        """Notes a step of a plan: a copy that its source wants is one of ours, whichever client made it."""
        self._appeared.note_step(key, step)

    def note_settled(self, ref: Ref) -> None:
        """A plan has nothing to write at this address: ends the wait for the deletion of a copy there."""
        self._flaps.reset(ref)

    def note_foreign_change(self, change: Change) -> None:
        """Another client made, changed or removed an object."""
        self._appeared.note_change(change)

    def note_own_change(self, change: Change) -> None:
        """We wrote or deleted an object."""
        self._appeared.note_write(change)

    def note_intended(self, source: Ref) -> None:
        """Records that we deleted this source ourselves."""
        self._intended.add(source)

    def restart_grace_periods(self, kind: Kind) -> None:
        """Restarts the grace periods of the sources of a kind that was listed again.

        If its CRD was missing meanwhile, its sources may be created again now.
        """
        for since in (self._gone_since, self._leftover_since):
            for key in [key for key in since if key.source.kind == kind]:
                del since[key]

    def forget(self, key: Key) -> None:
        """Drops the state of a key of which neither the source nor a copy is left."""
        self._gone_since.pop(key, None)
        self._leftover_since.pop(key, None)
        self._intended.discard(key.source)
        self._guard.forget(key)

    def _is_gone(self, key: Key, source: Object | None) -> bool:
        """True if the source vanished. An object that only stopped being a source has not."""
        return (source is None or source.deleting) and not self._cache.exists_unread(key.source)

    def _note_source(self, key: Key, is_gone: bool, has_grace: bool) -> None:
        """Starts or ends the grace period of a source: it may be recreated, as by `kubectl replace --force`."""
        if not is_gone:
            self._gone_since.pop(key.all_namespaces, None)
            self._intended.discard(key.source)
        elif has_grace:
            self._gone_since.setdefault(key.all_namespaces, self._clock())
        elif key.namespace is None:  # a slice without deletions shows nothing about other namespaces
            self._gone_since.pop(key, None)

    def _note_leftovers(self, key: Key, leftovers: Sequence[Removal]) -> None:
        """Starts or ends the wait for the garbage collector, which deletes copies of an earlier source."""
        if leftovers:
            self._leftover_since.setdefault(key.all_namespaces, self._clock())
        elif key.namespace is None:
            self._leftover_since.pop(key, None)

    def _remaining_grace(self, key: Key, since: Mapping[Key, float]) -> float:
        """Seconds until the grace period of a key is over. A custom resource may have a period of its own."""
        source = self._registry[key.source_type].source
        own_period = source.gone_after if isinstance(source, CustomResource) else None
        period = self._gone_after if own_period is None else own_period
        return since[key.all_namespaces] + period - self._clock()

    def _undamped(
        self, key: Key, source: Object | None, removals: Sequence[Removal]
    ) -> tuple[list[Removal], list[tuple[Key, float]]]:
        """The removals that need not wait, and the keys of the others with the seconds that these wait.

        A copy that comes and goes waits until it has been unwanted for half a minute.
        """
        undamped, requeue = [], []
        for removal in removals:
            is_damped = isinstance(removal, Delete) and not removal.revoked
            if is_damped:
                self._flaps.note_unwanted(removal.ref, source)
            remaining = self._flaps.remaining(removal.ref, source) if is_damped else 0.0
            if remaining:
                requeue.append((key.in_namespace(removal.ref.namespace), remaining))
            else:
                undamped.append(removal)
        return undamped, requeue

    def _within_limit(
        self, key: Key, source: Object | None, removals: Sequence[Removal], paused: frozenset[Ref]
    ) -> list[Removal]:
        source_type = self._registry[key.source_type]
        # The empty plan of a disabled type must not end a hold.
        if not source_type.enabled or is_explicit_deletion(source_type, source):
            return list(removals)
        appeared = self._appeared.of(key)
        deletes = [removal for removal in removals if isinstance(removal, Delete) and removal.ref not in appeared]
        others = [removal for removal in removals if not isinstance(removal, Delete) or removal.ref in appeared]
        copies, copies_of_all, namespace = 0, 0, key.source.namespace
        if deletes:
            copies = self._cache.count(key.all_namespaces) - len(appeared)
            copies_of_all = self._cache.count_in_namespace(namespace) - self._appeared.number_from(namespace)
        tree = tree_of(source_type, key.source, self._cache)
        allowed = self._guard.check(key, deletes, copies, copies_of_all, paused, tree=tree)
        return [*map(self._unless_discarded, allowed), *others]

    def _unless_discarded(self, delete: Delete) -> Removal:
        """Instead of a discarded deletion, the copy gets an annotation that marks it as an orphan."""
        if self._guard.is_discarded(delete.ref):
            return KeepAsOrphan(delete.key, delete.ref, delete.live)
        return delete


class AppearedCopies:
    """Owns the addresses of copies that we neither wrote nor wanted when we saw them first.

    Any client can name `samara` as its field manager in its own namespace. The mass-delete limit does not count such
    copies, so that they neither hold the deletions of another tenant's source nor let them pass. A Namespace is never
    one of them, because only administrators may write its marks.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._refs: dict[Key, set[Ref]] = {}
        self._from: Counter[str] = Counter()
        """How many there are of all sources of a namespace."""

    def note_change(self, change: Change) -> None:
        """Another client made, changed or removed an object."""
        if change.ref.kind == NAMESPACE:
            return
        before, after = (None if obj is None else self._source_of(obj) for obj in (change.old, change.new))
        if before == after:
            return
        if before is not None:
            self._discard(before, change.ref)
        if after is not None and change.ref not in self._refs.setdefault(after, set()):
            self._refs[after].add(change.ref)
            self._from[after.source.namespace] += 1

    def note_write(self, change: Change) -> None:
        """We wrote or deleted an object."""
        if self._refs:
            for obj in (change.old, change.new):
                key = None if obj is None else self._source_of(obj)
                if key is not None:
                    self._discard(key, change.ref)

    def note_step(self, key: Key, step: Step) -> None:
        """A copy that its source wants is one of ours, whichever client made it."""
        if self._refs and step.desired and not isinstance(step.outcome, Blocked | Delete):
            self._discard(key.all_namespaces, step.ref)

    def of(self, key: Key) -> AbstractSet[Ref]:
        return self._refs.get(key.all_namespaces, _NO_REFS)

    def number_from(self, namespace: str) -> int:
        """How many name a source in this namespace."""
        return self._from[namespace]

    def _source_of(self, obj: Object) -> Key | None:
        """The source of a copy, if the cache counts it."""
        registry = self._cache.registry
        key = registry.owner(obj, self._cache)
        return key if key is not None and is_recorded(obj, registry[key.source_type].ownership) else None

    def _discard(self, key: Key, ref: Ref) -> None:
        refs = self._refs.get(key)
        if refs is None or ref not in refs:
            return
        refs.discard(ref)
        self._from[key.source.namespace] -= 1
        if not refs:
            del self._refs[key]
        if not self._from[key.source.namespace]:
            del self._from[key.source.namespace]


def still_due(ctx: PlanContext, desired: Desired, removals: Sequence[Removal]) -> list[Removal]:
    """The removals of a chunked plan that are still right at its end. Namespaces changed while it was made."""
    copies = {copy.ref: copy for copy in desired.copies}

    def is_due(removal: Removal) -> bool:
        copy = copies.get(removal.ref)
        outcome, _ = decide_unwanted(ctx, removal.live, desired.prune) if copy is None else decide(ctx, copy)
        return isinstance(outcome, Delete | Release)

    return list(filter(is_due, removals))


def _is_delayed(removal: Removal) -> bool:
    return isinstance(removal, Delete) and removal.delayed


def _without_namespace(removal: Removal, source: Object | None, finalizer: str | None) -> Removal | SetFinalizer:
    """For a Namespace whose deletion was discarded, releases the finalizer of its source instead of annotating it.

    The source can then be deleted. The Namespace stays in its tree, and a new source of this name gets it back.
    """
    if (
        isinstance(removal, KeepAsOrphan)
        and removal.ref.kind == NAMESPACE
        and source is not None
        and finalizer is not None
    ):
        return SetFinalizer(removal.key, source.ref, source, finalizer, add=False, why=KEPT)
    return removal
