"""Which removals of a plan may be sent now: not too soon after a source vanished, and not too many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from samara.core.brake import is_explicit
from samara.core.case import Case
from samara.core.model import NAMESPACE, Key, Kind, Object, Ref
from samara.core.place import drop, leave, place
from samara.core.want import Want
from samara.core.write import Delete, Guard, Release, Removal, Spare
from samara.engine.desk import Desk
from samara.engine.flaps import Flaps

KEPT = "the deletion of its namespace was discarded; the namespace stays"


def still_due(case: Case, want: Want, removals: Sequence[Removal]) -> list[Removal]:
    """The removals of a large plan that are right at its end, too: namespaces come, go and change while it is made."""
    wanted = {copy.ref: copy for copy in want.copies}
    unwanted = drop if want.prune else leave
    now = [place(case, wanted[each.ref]) if each.ref in wanted else unwanted(case, each.have) for each in removals]
    return [each for each, outcome in zip(removals, now, strict=True) if isinstance(outcome, Delete | Release)]


def _is_late(removal: Removal) -> bool:
    return isinstance(removal, Delete) and removal.late


def _kept(removal: Removal, source: Object | None, guard: str | None) -> Removal | Guard:
    """A Namespace that is kept needs no word that says so: only what would have taken it along ends, without it.

    So it is a part of its tree as before, and whoever makes a source for it again has it again.
    """
    if isinstance(removal, Spare) and removal.ref.kind == NAMESPACE and source is not None and guard is not None:
        return Guard(removal.key, source.ref, source, guard, add=False, why=KEPT)
    return removal


class Removals:
    """Between a plan's removals and the outbox."""

    def __init__(self, desk: Desk, again: Callable[[Key, float], None], flaps: Flaps) -> None:
        self._desk = desk
        self._again = again
        self._flaps = flaps
        self._gone_since: dict[Key, float] = {}
        self._left_since: dict[Key, float] = {}
        """When it was first seen that an earlier source of the same name has left copies."""
        self._meant: set[Ref] = set()
        """Copies that we deleted ourselves: where one was a source, too, it is not on its way back."""

    def allowed(
        self,
        key: Key,
        source: Object | None,
        removals: Sequence[Removal],
        guard: str | None = None,
        paused: frozenset[Ref] = frozenset(),
    ) -> list[Removal | Guard]:
        """The removals that may go; what is held back is queued again for its time. Those `paused` are due as well."""
        if self._is_too_soon(key, source, removals):
            return []
        late = self._left_over(key, [each for each in removals if _is_late(each)])
        removals = [each for each in removals if not _is_late(each) and not self._flaps_at(key, source, each)]
        return [_kept(each, source, guard) for each in (*late, *self._braked(key, source, removals, paused))]

    def _braked(
        self, key: Key, source: Object | None, removals: Sequence[Removal], paused: frozenset[Ref]
    ) -> list[Removal]:
        dialect, deletes = self._desk.table[key.dialect], [each for each in removals if isinstance(each, Delete)]
        if not dialect.served or is_explicit(dialect, source):  # who wants nothing has not said that a hold is over
            return list(removals)
        has, all_has = self._counts(key) if deletes else (0, 0)
        allowed = self._desk.holds.judge(key, deletes, has, all_has, paused)
        released = [each for each in removals if isinstance(each, Release)]
        return [*map(self._as_answered, allowed), *released]

    def _flaps_at(self, key: Key, source: Object | None, removal: Removal) -> bool:
        """True where a copy comes and goes by itself: it stays until it has been unwanted for a while."""
        damped = isinstance(removal, Delete) and not removal.withdrawn
        wait = self._flaps.wait(removal.ref, source) if damped else 0.0
        if wait:
            self._again(key.part(removal.ref.namespace), wait)
        return wait > 0.0

    def _as_answered(self, delete: Delete) -> Removal:
        """A delete that somebody has discarded becomes a word on the copy that it stays."""
        if self._desk.holds.is_discarded(delete.ref):
            return Spare(delete.key, delete.ref, delete.have)
        return delete

    def _is_too_soon(self, key: Key, source: Object | None, removals: Sequence[Removal]) -> bool:
        """A source that vanished keeps its copies for a moment: it may be on its way back."""
        if (source is not None and not source.deleting) or self._desk.cache.taken(key.source):
            self._gone_since.pop(key.whole, None)  # it is there; it may be no source any more, which is no accident
            self._meant.discard(key.source)
            return False
        if not removals or key.source in self._meant:
            if key.slice is None:  # a slice without one says nothing of the others
                self._gone_since.pop(key, None)
            return False
        return self._waits(key, self._gone_since)

    def _left_over(self, key: Key, late: Sequence[Removal]) -> Sequence[Removal]:
        """What an earlier source of this name has left: the garbage collector's for a while, then it goes unbraked."""
        if not late:
            if key.slice is None:
                self._left_since.pop(key, None)
            return ()
        return () if self._waits(key, self._left_since) else late

    def _waits(self, key: Key, since: dict[Key, float]) -> bool:
        now = self._desk.clock()
        patience = self._desk.table[key.dialect].gone_after
        patience = self._desk.gone_after if patience is None else patience
        left = since.setdefault(key.whole, now) + patience - now
        if left > 0:
            self._again(key.whole, left)
        return left > 0

    def meant(self, ref: Ref) -> None:
        """Says that we have deleted what was here."""
        self._meant.add(ref)

    def doubt(self, kind: Kind) -> None:
        """A kind was listed anew, perhaps after its definition was gone: absence before that proves nothing."""
        for each in (self._gone_since, self._left_since):
            for key in [key for key in each if key.source.kind == kind]:
                del each[key]

    def forget(self, key: Key) -> None:
        """Nothing is left of a key: neither its source nor a copy."""
        self._gone_since.pop(key, None)
        self._left_since.pop(key, None)
        self._meant.discard(key.source)
        self._desk.holds.gone(key)
        self._desk.waits.free_source(key.source)

    def _counts(self, key: Key) -> tuple[int, int]:
        """How many copies this source has, and all sources of its namespace together."""
        cache = self._desk.cache
        return cache.count(key.whole), cache.count_in_namespace(key.source.namespace)
