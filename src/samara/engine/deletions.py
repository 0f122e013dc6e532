"""Which deletions of a plan may be sent now: not too soon after the source vanished, and not too many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from samara.core.context import PlanContext
from samara.core.desired import Desired
from samara.core.model import NAMESPACE, Key, Kind, Object, Ref
from samara.core.registry import Registry
from samara.core.rules import decide, decide_unwanted
from samara.core.source_type import CustomResource, is_explicit_deletion
from samara.core.writes import Delete, KeepAsOrphan, Release, Removal, SetFinalizer
from samara.engine.limits import FlapDamper
from samara.engine.mass_delete import MassDeleteGuard
from samara.kube.cache import Cache

KEPT = "the deletion of its namespace was discarded; the namespace stays"


@dataclass(slots=True)
class Verdict:
    """What is to be done about the deletions of a plan."""

    allowed: list[Removal | SetFinalizer] = field(default_factory=list)
    """May be sent now."""
    requeue: list[tuple[Key, float]] = field(default_factory=list)
    """Keys to plan again, and after how many seconds."""
    record: bool = False
    """True if deletions of Namespaces wait until the ConfigMap records them."""


class DeletionGate:
    """Judges the deletions of a plan together. It remembers since when each source has been gone."""

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
        verdict = Verdict()
        if self._is_in_grace_period(key, source, removals, verdict):
            return verdict
        delayed = [removal for removal in removals if _is_delayed(removal)]
        now = [removal for removal in removals if not _is_delayed(removal)]
        allowed = list(self._leftovers(key, delayed, verdict))
        allowed += self._within_limit(key, source, self._undamped(key, source, now, verdict), paused)
        verdict.allowed = [_kept(removal, source, finalizer) for removal in allowed]
        verdict.record = self._guard.must_record(key.all_namespaces)
        return verdict

    def intended(self, source: Ref) -> None:
        """We deleted this source ourselves."""
        self._intended.add(source)

    def distrust(self, kind: Kind) -> None:
        """A kind was listed again, perhaps after its CRD was gone: the absence seen before proves nothing."""
        for since in (self._gone_since, self._leftover_since):
            for key in [key for key in since if key.source.kind == kind]:
                del since[key]

    def forget(self, key: Key) -> None:
        """Neither the source nor a copy is left."""
        self._gone_since.pop(key, None)
        self._leftover_since.pop(key, None)
        self._intended.discard(key.source)
        self._guard.forget(key)

    def _is_in_grace_period(
        self, key: Key, source: Object | None, removals: Sequence[Removal], verdict: Verdict
    ) -> bool:
        """A source that vanished keeps its copies for a while: it may be recreated, as by `kubectl replace --force`."""
        if (source is not None and not source.deleting) or self._cache.exists_unread(key.source):
            self._gone_since.pop(key.all_namespaces, None)  # an object that stopped being a source has not vanished
            self._intended.discard(key.source)
            return False
        if not removals or key.source in self._intended:
            if key.namespace is None:  # a slice says nothing about other namespaces
                self._gone_since.pop(key, None)
            return False
        return self._must_wait(key, self._gone_since, verdict)

    def _leftovers(self, key: Key, delayed: Sequence[Removal], verdict: Verdict) -> Sequence[Removal]:
        """Copies of an earlier source of this name are left to the garbage collector first. No limit counts them."""
        if not delayed:
            if key.namespace is None:
                self._leftover_since.pop(key, None)
            return ()
        return () if self._must_wait(key, self._leftover_since, verdict) else delayed

    def _must_wait(self, key: Key, since: dict[Key, float], verdict: Verdict) -> bool:
        now, grace_period = self._clock(), self._grace_period(key)
        remaining = since.setdefault(key.all_namespaces, now) + grace_period - now
        if remaining > 0:
            verdict.requeue.append((key.all_namespaces, remaining))
        return remaining > 0

    def _grace_period(self, key: Key) -> float:
        """Seconds that the copies of a vanished source stay. A custom resource may have a period of its own."""
        source = self._registry[key.source_type].source
        own = source.gone_after if isinstance(source, CustomResource) else None
        return self._gone_after if own is None else own

    def _undamped(
        self, key: Key, source: Object | None, removals: Sequence[Removal], verdict: Verdict
    ) -> list[Removal]:
        """All but copies that come and go: these stay until they have been unwanted for half a minute."""
        undamped = []
        for removal in removals:
            is_damped = isinstance(removal, Delete) and not removal.revoked
            remaining = self._flaps.remaining(removal.ref, source) if is_damped else 0.0
            if remaining:
                verdict.requeue.append((key.in_namespace(removal.ref.namespace), remaining))
            else:
                undamped.append(removal)
        return undamped

    def _within_limit(
        self, key: Key, source: Object | None, removals: Sequence[Removal], paused: frozenset[Ref]
    ) -> list[Removal]:
        source_type = self._registry[key.source_type]
        # The empty plan of a disabled type must not end a hold.
        if not source_type.enabled or is_explicit_deletion(source_type, source):
            return list(removals)
        deletes = [removal for removal in removals if isinstance(removal, Delete)]
        copies, copies_of_all = 0, 0
        if deletes:
            copies = self._cache.count(key.all_namespaces)
            copies_of_all = self._cache.count_in_namespace(key.source.namespace)
        allowed = self._guard.check(key, deletes, copies, copies_of_all, paused)
        releases = [removal for removal in removals if isinstance(removal, Release)]
        return [*map(self._unless_discarded, allowed), *releases]

    def _unless_discarded(self, delete: Delete) -> Removal:
        """A discarded deletion becomes an annotation on the copy, which says that it stays."""
        if self._guard.is_discarded(delete.ref):
            return KeepAsOrphan(delete.key, delete.ref, delete.live)
        return delete


def still_due(ctx: PlanContext, desired: Desired, removals: Sequence[Removal]) -> list[Removal]:
    """Those removals of a chunked plan that are right at its end: namespaces come, go and change while it is made."""
    copies = {copy.ref: copy for copy in desired.copies}

    def is_due(removal: Removal) -> bool:
        copy = copies.get(removal.ref)
        outcome, _ = decide_unwanted(ctx, removal.live, desired.prune) if copy is None else decide(ctx, copy)
        return isinstance(outcome, Delete | Release)

    return list(filter(is_due, removals))


def _is_delayed(removal: Removal) -> bool:
    return isinstance(removal, Delete) and removal.delayed


def _kept(removal: Removal, source: Object | None, finalizer: str | None) -> Removal | SetFinalizer:
    """A Namespace that stays gets no annotation. Only the finalizer of its source is released, so the source can go.

    The Namespace remains in its tree as before, and a new source of this name gets it back.
    """
    if (
        isinstance(removal, KeepAsOrphan)
        and removal.ref.kind == NAMESPACE
        and source is not None
        and finalizer is not None
    ):
        return SetFinalizer(removal.key, source.ref, source, finalizer, add=False, why=KEPT)
    return removal
