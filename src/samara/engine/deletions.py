"""Which deletions of a plan may be sent now: not too soon after the source vanished, and not too many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from samara.core.brake import is_explicit
from samara.core.case import Case
from samara.core.model import NAMESPACE, Key, Kind, Object, Ref
from samara.core.place import drop, leave, place
from samara.core.table import Table
from samara.core.want import Want
from samara.core.write import Delete, Guard, Release, Removal, Spare
from samara.engine.limits import FlapDamper
from samara.engine.mass_delete import MassDeleteGuard
from samara.kube.cache import Cache

KEPT = "the deletion of its namespace was discarded; the namespace stays"


@dataclass(slots=True)
class Verdict:
    """What is to be done about the deletions of a plan."""

    allowed: list[Removal | Guard] = field(default_factory=list)
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
        table: Table,
        guard: MassDeleteGuard,
        flaps: FlapDamper,
        clock: Callable[[], float],
        gone_after: float,
    ) -> None:
        self._cache = cache
        self._table = table
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
        verdict.record = self._guard.must_record(key.whole)
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
        self._guard.gone(key)

    def _is_in_grace_period(
        self, key: Key, source: Object | None, removals: Sequence[Removal], verdict: Verdict
    ) -> bool:
        """A source that vanished keeps its copies for a while: it may be recreated, as by `kubectl replace --force`."""
        if (source is not None and not source.deleting) or self._cache.taken(key.source):
            self._gone_since.pop(key.whole, None)  # an object that stopped being a source has not vanished
            self._intended.discard(key.source)
            return False
        if not removals or key.source in self._intended:
            if key.slice is None:  # a slice says nothing about other namespaces
                self._gone_since.pop(key, None)
            return False
        return self._must_wait(key, self._gone_since, verdict)

    def _leftovers(self, key: Key, delayed: Sequence[Removal], verdict: Verdict) -> Sequence[Removal]:
        """Copies of an earlier source of this name are left to the garbage collector first. No limit counts them."""
        if not delayed:
            if key.slice is None:
                self._leftover_since.pop(key, None)
            return ()
        return () if self._must_wait(key, self._leftover_since, verdict) else delayed

    def _must_wait(self, key: Key, since: dict[Key, float], verdict: Verdict) -> bool:
        now, own = self._clock(), self._table[key.dialect].gone_after
        grace_period = self._gone_after if own is None else own
        remaining = since.setdefault(key.whole, now) + grace_period - now
        if remaining > 0:
            verdict.requeue.append((key.whole, remaining))
        return remaining > 0

    def _undamped(
        self, key: Key, source: Object | None, removals: Sequence[Removal], verdict: Verdict
    ) -> list[Removal]:
        """All but copies that come and go: these stay until they have been unwanted for half a minute."""
        undamped = []
        for removal in removals:
            is_damped = isinstance(removal, Delete) and not removal.withdrawn
            remaining = self._flaps.remaining(removal.ref, source) if is_damped else 0.0
            if remaining:
                verdict.requeue.append((key.part(removal.ref.namespace), remaining))
            else:
                undamped.append(removal)
        return undamped

    def _within_limit(
        self, key: Key, source: Object | None, removals: Sequence[Removal], paused: frozenset[Ref]
    ) -> list[Removal]:
        dialect, deletes = self._table[key.dialect], [removal for removal in removals if isinstance(removal, Delete)]
        if not dialect.served or is_explicit(dialect, source):  # the empty plan of a disabled type must not end a hold
            return list(removals)
        copies, copies_of_all = 0, 0
        if deletes:
            copies = self._cache.count(key.whole)
            copies_of_all = self._cache.count_in_namespace(key.source.namespace)
        allowed = self._guard.judge(key, deletes, copies, copies_of_all, paused)
        releases = [removal for removal in removals if isinstance(removal, Release)]
        return [*map(self._unless_discarded, allowed), *releases]

    def _unless_discarded(self, delete: Delete) -> Removal:
        """A discarded deletion becomes an annotation on the copy, which says that it stays."""
        if self._guard.is_discarded(delete.ref):
            return Spare(delete.key, delete.ref, delete.have)
        return delete


def still_due(case: Case, want: Want, removals: Sequence[Removal]) -> list[Removal]:
    """Those removals of a chunked plan that are right at its end: namespaces come, go and change while it is made."""
    wanted = {copy.ref: copy for copy in want.copies}
    unwanted = drop if want.prune else leave
    now = [
        place(case, wanted[removal.ref]) if removal.ref in wanted else unwanted(case, removal.have)
        for removal in removals
    ]
    return [removal for removal, outcome in zip(removals, now, strict=True) if isinstance(outcome, Delete | Release)]


def _is_delayed(removal: Removal) -> bool:
    return isinstance(removal, Delete) and removal.late


def _kept(removal: Removal, source: Object | None, finalizer: str | None) -> Removal | Guard:
    """A Namespace that stays gets no annotation. Only the finalizer of its source is released, so the source can go.

    The Namespace remains in its tree as before, and a new source of this name gets it back.
    """
    if isinstance(removal, Spare) and removal.ref.kind == NAMESPACE and source is not None and finalizer is not None:
        return Guard(removal.key, source.ref, source, finalizer, add=False, why=KEPT)
    return removal
