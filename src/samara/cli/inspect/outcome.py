"""What plans come to for people: writes, what is blocked, and the removals that the brake would hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from samara.cli.inspect.secret_values import FAULTS as OF_STORE
from samara.cli.inspect.secret_values import is_unread
from samara.cli.session import Picture
from samara.core.allow import Reason, Rules, standstill
from samara.core.brake import is_explicit
from samara.core.model import NAMESPACE, Key, Ref
from samara.core.plan import prepare
from samara.core.status import status_due
from samara.core.tally import Tally
from samara.core.write import Blocked, Delete, Guard, Look, Plan, Report, Step, Write
from samara.engine.apply import verb
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.moment import utc_now

VERBS = ("create", "update", "recreate", "delete", "overlay", "guard", "report")
_FAULTS: dict[str, Reason] = {
    "Invalid": "invalid",
    "Refused": "refused",
    "PathNotAllowed": "refused",
    **dict.fromkeys(OF_STORE, "refused"),
}
"""Without `NoNamespace`: of that the place itself tells."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """All writes and all that is blocked, in the order of their sources."""

    writes: tuple[Write, ...] = ()
    blocked: tuple[Blocked, ...] = ()


def outcome(seen: Picture, holds: MassDeleteGuard) -> Outcome:
    """What would be written first and what not; `holds` is the brake as the operator has it."""
    found = [of_key(seen, holds, key, plan) for key, plan in seen.plans.items()]
    return Outcome(
        tuple(write for each in found for write in each.writes),
        tuple(blocked for each in found for blocked in each.blocked),
    )


def of_key(seen: Picture, holds: MassDeleteGuard, key: Key, plan: Plan) -> Outcome:
    """The same for one source; its status is told when nothing else is left to write for it."""
    held = _held(seen, holds, key, plan)
    writes = tuple(each for each in plan.writes if each.ref not in held)
    blocked = (
        *_faults(key, plan),
        *plan.blocked,
        *(Blocked(key, ref, "held", _why_held(key, held)) for ref in sorted(held)),
    )
    return Outcome(writes or _report(seen, key, plan, held), blocked)


def _held(seen: Picture, holds: MassDeleteGuard, key: Key, plan: Plan) -> frozenset[Ref]:
    """The removals that the operator would hold, were it to come to this plan now.

    What an earlier source of the name has left is the garbage collector's first, and does not count.
    """
    cache, dialect = seen.shot.cache, seen.table[key.dialect]
    deletes = [each for each in plan.writes if isinstance(each, Delete) and not each.late]
    source = cache.get(key.source)
    if not deletes or is_explicit(dialect, source):
        return frozenset()
    home = cache.count_in_namespace(key.source.namespace)
    passed = {each.ref for each in holds.judge(key, deletes, cache.count(key), home)}
    return frozenset(each.ref for each in deletes if each.ref not in passed)


def _why_held(key: Key, held: Collection[Ref]) -> str:
    release = f"`samara release {key}` lets them go on once the operator holds them"
    if any(ref.kind == NAMESPACE for ref in held):
        return f"more namespaces go at once than the brake lets pass (setting massDelete.namespaces); {release}"
    count = f"{len(held):,} removals wait" if len(held) > 1 else "1 removal waits"
    return f"{count}: more than the brake lets pass at once (setting massDelete); {release}"


def _report(seen: Picture, key: Key, plan: Plan, held: frozenset[Ref]) -> tuple[Write, ...]:
    """A status that is not right; what the operator reads in a manager that is closed to us is not ours to foretell."""
    source = seen.shot.cache.get(key.source)
    if source is None or not plan.ready or is_unread(key, seen.shot.cache, seen.table):
        return ()
    if standstill(source, seen.table[key.dialect], seen.shot.cache):
        return ()
    tally = Tally.of(plan)
    tally.hold(held)
    status = status_due(seen.table[key.dialect], source, seen.shot.cache, tally, utc_now())
    return () if status is None else (Report(key, source.ref, source, status),)


def _faults(key: Key, plan: Plan) -> list[Blocked]:
    """What is wrong with a source is told at the source's own address, unless a place tells the same."""
    told = {each.message for each in plan.blocked}
    found = [each for each in plan.faults if each.reason in _FAULTS and each.message not in told]
    return [Blocked(key, key.source, _FAULTS[each.reason], each.message) for each in found]


def counted(seen: Picture, key: Key, plan: Plan, rules: Rules) -> Tally:
    """How the copies of a source are now; before its finalizer is there all that it wants is pending."""
    tally = Tally.of(plan)
    for ref in awaiting(seen, key, plan, rules):
        tally.count(Step(ref, Look(ref)))
    return tally


def awaiting(seen: Picture, key: Key, plan: Plan, rules: Rules) -> tuple[Ref, ...]:
    """The places that a source wants and that are not planned yet: its finalizer comes first, and alone."""
    if not any(isinstance(each, Guard) and each.add for each in plan.writes):
        return ()
    prepared = prepare(key, seen.shot.cache, seen.table, rules)
    return () if isinstance(prepared, Plan) else tuple(copy.ref for copy in prepared[1].copies)


def place(ref: Ref) -> dict[str, str]:
    return {"kind": str(ref.kind), "namespace": ref.namespace, "name": ref.name}


def shape(seen: Picture, found: Outcome) -> dict[str, Any]:
    """The promised JSON."""
    return {
        "writes": [_write(seen, each) for each in found.writes],
        "blocked": [
            {**place(each.ref), **_whose(seen, each.key), "reason": each.reason, "message": each.message}
            for each in found.blocked
        ],
        "summary": summary(found.writes, found.blocked),
    }


def _write(seen: Picture, write: Write) -> dict[str, str]:
    return {"verb": verb(write), **place(write.ref), **_whose(seen, write.key), "why": write.why}


def _whose(seen: Picture, key: Key) -> dict[str, str]:
    return {"vocabulary": seen.title(key), "source": key.source.path}


def summary(writes: Sequence[Write], blocked: Sequence[Blocked]) -> dict[str, int]:
    counts = Counter(verb(each) for each in writes)
    return {**{each: counts[each] for each in VERBS}, "blocked": len(blocked)}
