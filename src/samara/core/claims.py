"""Who has a place that several sources want, and who gets it next."""

from __future__ import annotations

from samara.core import kinds
from samara.core.allow import Rules, allow, standstill, unwelcome
from samara.core.case import Case
from samara.core.compare import as_it_lies, is_marked_by_us
from samara.core.model import Key, Object, Ref
from samara.core.table import Table
from samara.core.view import Narrow, View
from samara.core.want import KEEP, Copy, Mode


def winner(case: Case, copy: Copy, have: Object | None) -> Key | None:
    """Another source that comes before this one and wants the same place, or keeps what it has there."""
    keeper = _keeper(case, have)
    if keeper is not None:
        return keeper
    rivals = _rivals(case, copy.ref)
    if not rivals:
        return None
    ordered = sorted((case.key, *rivals), key=lambda key: _standing(key, case.view, case.table))
    before = ordered[: ordered.index(case.key)]
    own = have is not None and case.dialect.origin(have, case.view) == case.key.source  # who only creates leaves it
    wanting = (key for key in before if any(not own or each.mode is Mode.SYNC for each in _wanted(case, key, copy.ref)))
    return next(wanting, None)


def _keeper(case: Case, have: Object | None) -> Key | None:
    """The source of what is there, where that comes before this one and lets its copies stay as they are.

    Somebody has mistyped what it asks for: that is no reason for another to take its copies. Where its namespace does
    not accept it any more it keeps nothing.
    """
    holder = case.table.owner(have, case.view) if have is not None else None
    if have is None or holder is None or holder == case.key or precedes(case, holder):
        return None
    source, dialect = case.view.get(holder.source), case.table[holder.dialect]
    if source is None or holder not in case.table.sources(source, case.view) or not is_marked_by_us(have, dialect):
        return None
    if unwelcome(have.ref, holder.source, case.home(have.ref), dialect, case.rules):
        return None
    return None if dialect.want(holder.source, Narrow(case.view, have.ref.namespace)).prune else holder


def precedes(case: Case, holder: Key) -> bool:
    """True where this key comes before another; one whose source is not there is judged by its rank alone."""
    if case.view.get(holder.source) is None:
        return case.dialect.rank < case.table[holder.dialect].rank
    return _standing(case.key, case.view, case.table) < _standing(holder, case.view, case.table)


def takes_over(case: Case, rival: Key) -> bool:
    """True where a copy can change hands by one write: an owner reference cannot."""
    return not case.dialect.by_owner and not case.table[rival.dialect].by_owner


def has_heir(case: Case, have: Object) -> bool:
    """True where the next source in order that wants the place of a copy takes that over."""
    for rival in sorted(_rivals(case, have.ref), key=lambda key: _standing(key, case.view, case.table)):
        if wanted := _wanted(case, rival, have.ref):
            source, dialect = case.view.get(rival.source), case.table[rival.dialect]
            able = source is not None and not standstill(source, dialect, case.whole)
            taken = all(_takes(as_it_lies(copy, have, dialect), have, case.rules) for copy in wanted)
            return able and taken and takes_over(case, rival)
    return False


def _takes(copy: Copy, have: Object, rules: Rules) -> bool:
    """False for who only creates, knows nothing to write or may not replace: it would be nobody's for good."""
    if copy.mode is not Mode.SYNC:
        return False
    if copy.content is KEEP:
        return bool(copy.awaits)
    return rules.recreate or not kinds.must_recreate(copy.ref.kind, have.content, copy.content)


def _rivals(case: Case, ref: Ref) -> list[Key]:
    return [key for key in case.view.claims(ref) if key != case.key]


def _standing(key: Key, view: View, table: Table) -> tuple[int, str, str, str, str]:
    source = view.get(key.source)
    created = source.created if source is not None else ""
    return table[key.dialect].rank, created, key.source.namespace, key.source.name, key.dialect


def _wanted(case: Case, rival: Key, ref: Ref) -> list[Copy]:
    """What another source wants at this place and may have there."""
    dialect, view = case.table[rival.dialect], Narrow(case.view, ref.namespace)
    namespace = case.home(ref)
    if ref.kind.namespaced and namespace is None:
        return []
    return [
        copy
        for copy in dialect.want(rival.source, view).copies
        if copy.ref == ref and allow(copy, rival.source, namespace, dialect, case.rules) is None
    ]
