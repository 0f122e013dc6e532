"""The rule: what must be written so that one source's copies are where they are wanted, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from samara.core.allow import Refusal, Rules
from samara.core.case import Case
from samara.core.model import NAMESPACE, Key, Kind, Object, Ref
from samara.core.place import drop, lay, leave, place
from samara.core.reads import UNREAD, Absence, Definition, Read
from samara.core.table import Table
from samara.core.view import Narrow, View, has_copies
from samara.core.want import Copy, Dialect, Want
from samara.core.write import Blocked, Guard, Look, Plan, Step, Write


def plan(key: Key, view: View, table: Table, rules: Rules) -> Plan:
    """The whole plan of a key, or of its slice."""
    prepared = prepare(key, view, table, rules)
    if isinstance(prepared, Plan):
        return prepared
    case, want = prepared
    return gathered(want, list(steps(case, want)))


def prepare(key: Key, view: View, table: Table, rules: Rules) -> Plan | tuple[Case, Want]:
    """What the dialect wants, or the plan that says why it cannot be asked yet."""
    dialect = table[key.dialect]
    key = key.whole if dialect.whole else key
    if not all(view.known(kind) for kind in _needed(key, dialect, view)):
        return Plan(ready=False)
    missing = tuple(path for path in dialect.reads(key.source, view) if view.value(path) is UNREAD)
    if missing:
        return Plan(ready=False, reads=missing)
    sight = view if key.slice is None else Narrow(view, key.slice)
    source = view.get(key.source)
    case = Case(key.whole, dialect, source, sight, view, table, rules)
    if source is not None and dialect.is_source(source, view) and case.key not in table.sources(source, view):
        return case, Want(prune=False)  # another dialect's copy is no source; a mark alone takes nothing away
    return _unless_withdrawn(case, dialect.want(key.source, sight))


def _unless_withdrawn(case: Case, want: Want) -> Plan | tuple[Case, Want]:
    """A definition that goes is no wish to delete what its objects made: the guard goes, and nothing else.

    Nor is a source gone that is only missing in a list.
    """
    source = case.key.source
    if source.kind not in case.dialect.asking or not _is_at_stake(case, want):
        return case, want
    asked: tuple[Read, ...] = (Definition(source.kind), *((Absence(source),) if case.source is None else ()))
    unread = tuple(each for each in asked if case.view.value(each) is UNREAD)
    if unread:
        return Plan(ready=False, reads=unread)
    meant = all(case.view.value(each) for each in asked)
    return case, want if meant else replace(want, copies=(), overlays=(), barred=(), prune=False)


def _is_at_stake(case: Case, want: Want) -> bool:
    """True where the end of a source takes something away, or lets its guard go."""
    source = case.source
    if source is not None and (not source.deleting or want.guard not in (None, *source.finalizers)):
        return False
    guarded = source is not None and want.guard is not None
    return guarded or (want.prune and has_copies(case.view, case.key))


def _needed(key: Key, dialect: Dialect, view: View) -> tuple[Kind, ...]:
    """The kinds that must have been listed; one that cannot be listed stops those who use it, and no other."""
    place = dialect.places(key.source, view)
    return (NAMESPACE, *dialect.kinds) if place is None else (NAMESPACE, key.source.kind, place.kind)


def gathered(want: Want, taken: list[Step]) -> Plan:
    return Plan(
        writes=tuple(step.outcome for step in taken if isinstance(step.outcome, Write)),
        looks=tuple(step.outcome for step in taken if isinstance(step.outcome, Look)),
        blocked=tuple(step.outcome for step in taken if isinstance(step.outcome, Blocked)),
        wanted=tuple(step.ref for step in taken if step.wanted),
        recheck=want.recheck,
        faults=want.faults,
    )


def steps(case: Case, want: Want, copies: Iterable[Copy] | None = None) -> Iterator[Step]:
    """One step per address, lazily: ten thousand of them need not be taken at once.

    `copies` are those of the want, where they are handed over apart to be forgotten one by one.
    """
    source = case.source if want.guard is not None and not case.standstill else None
    if source is not None and want.guard not in source.finalizers:
        if not source.deleting:
            yield _guard(case, want, source, "the finalizer comes before anything is written")
        return  # a source that is deleted without our finalizer deletes nothing
    busy = False
    for step in _all_steps(case, want, want.copies if copies is None else copies):
        busy = busy or step.outcome is not None
        yield step
    if source is not None and source.deleting and not busy and not _is_left(case, want):
        yield _guard(case, want, source, "nothing is left of this source")


def _is_left(case: Case, want: Want) -> bool:
    """True where a copy has still to go: a slice sees only its own, and must not let the guard go for all."""
    return want.prune and any(drop(case, have) is not None for have in case.whole.copies_of(case.key))


def _guard(case: Case, want: Want, source: Object, why: str) -> Step:
    assert want.guard is not None
    return Step(source.ref, Guard(case.key, source.ref, source, want.guard, not source.deleting, why), wanted=False)


def _all_steps(case: Case, want: Want, copies: Iterable[Copy]) -> Iterator[Step]:
    stays: set[Ref] = set()
    busy = False
    for copy in copies:
        outcome = place(case, copy)
        busy = busy or outcome is not None
        stays.add(copy.ref)
        if not isinstance(outcome, Refusal):
            yield Step(copy.ref, outcome)
    for ref, reason, message in want.barred:
        yield Step(ref, Blocked(case.key, ref, reason, message))
    for overlay in want.overlays:
        yield Step(overlay.ref, lay(case, overlay), wanted=False)
    waits = not want.prune or (want.in_turn and busy)
    # What is not to go, or not yet, may have lost its welcome: its source has no say in that.
    stands = case.source is not None and not case.source.deleting
    asked = stands and case.dialect.consent and case.dialect.served
    for have in tuple(case.view.copies_of(case.key)) if asked or not waits else ():
        if have.ref not in stays:
            yield Step(have.ref, leave(case, have) if waits else drop(case, have), wanted=False)
