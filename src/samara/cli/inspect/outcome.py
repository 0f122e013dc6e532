"""What plans come to for people: writes, what is blocked, and the removals that the brake would hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from samara.cli.inspect.secret_values import FAULTS as OF_STORE
from samara.cli.inspect.secret_values import is_unread
from samara.cli.session import Picture
from samara.core.copy_counts import CopyCounts
from samara.core.desired import Reason
from samara.core.model import NAMESPACE, Key, Ref
from samara.core.plan import prepare
from samara.core.policy import ClusterPolicy, paused_by
from samara.core.source_type import is_explicit_deletion
from samara.core.status import status_to_write
from samara.core.writes import Blocked, Delete, Plan, ReadFirst, SetFinalizer, Step, Write, WriteStatus
from samara.engine.apply import verb
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.process import utc_now

VERBS = ("create", "update", "recreate", "delete", "overlay", "guard", "report")
_FAULTS: dict[str, Reason] = {
    "Invalid": "invalid",
    "Refused": "refused",
    "PathNotAllowed": "refused",
    **dict.fromkeys(OF_STORE, "refused"),
}
"""Without `NoNamespace`: of that the place itself tells."""


FAULT, STATUS = "fault", "status"
"""In place of a rule: a mistake in the source itself, and the status of the source."""


@dataclass(frozen=True)
class Outcome:
    """Everything that is written or blocked, in the order of the sources. Each step names the rule that decided it."""

    steps: tuple[Step, ...] = ()

    @cached_property
    def writes(self) -> tuple[Write, ...]:
        return tuple(step.outcome for step in self.steps if isinstance(step.outcome, Write))

    @cached_property
    def blocked(self) -> tuple[Blocked, ...]:
        return tuple(step.outcome for step in self.steps if isinstance(step.outcome, Blocked))


def outcome(seen: Picture, holds: MassDeleteGuard) -> Outcome:
    """What would be written first and what not; `holds` is the brake as the operator has it."""
    found = [of_key(seen, holds, key, plan) for key, plan in seen.plans.items()]
    return Outcome(tuple(step for each in found for step in each.steps))


def of_key(seen: Picture, holds: MassDeleteGuard, key: Key, plan: Plan) -> Outcome:
    """The same for one source; its status is told when nothing else is left to write for it."""
    held = _held(seen, holds, key, plan)
    writes = [step for step in plan.steps if isinstance(step.outcome, Write) and step.ref not in held]
    waiting = [step for step in plan.steps if isinstance(step.outcome, Delete) and step.ref in held]
    blocked = (
        *_faults(key, plan),
        *(step for step in plan.steps if isinstance(step.outcome, Blocked)),
        *(_braked(key, step, held) for step in sorted(waiting, key=lambda step: step.ref)),
    )
    return Outcome((*(writes or _report(seen, key, plan, held)), *blocked))


def _braked(key: Key, step: Step, held: Collection[Ref]) -> Step:
    return step._replace(outcome=Blocked(key, step.ref, "held", _why_held(key, held)))


def _held(seen: Picture, holds: MassDeleteGuard, key: Key, plan: Plan) -> frozenset[Ref]:
    """The removals that the operator would hold, were it to come to this plan now.

    What an earlier source of the name has left is the garbage collector's first, and does not count.
    """
    cache, source_type = seen.shot.cache, seen.registry[key.source_type]
    deletes = [each for each in plan.writes if isinstance(each, Delete) and not each.delayed]
    source = cache.get(key.source)
    if not deletes or is_explicit_deletion(source_type, source):
        return frozenset()
    home = cache.count_in_namespace(key.source.namespace)
    passed = {each.ref for each in holds.check(key, deletes, cache.count(key), home)}
    return frozenset(each.ref for each in deletes if each.ref not in passed)


def _why_held(key: Key, held: Collection[Ref]) -> str:
    release = f"`samara release {key}` lets them go on once the operator holds them"
    if any(ref.kind == NAMESPACE for ref in held):
        return f"more namespaces go at once than the brake lets pass (setting massDelete.namespaces); {release}"
    count = f"{len(held):,} removals wait" if len(held) > 1 else "1 removal waits"
    return f"{count}: more than the brake lets pass at once (setting massDelete); {release}"


def _report(seen: Picture, key: Key, plan: Plan, held: frozenset[Ref]) -> list[Step]:
    """A status that is not right; what the operator reads in a manager that is closed to us is not ours to foretell."""
    cache, source_type = seen.shot.cache, seen.registry[key.source_type]
    source = cache.get(key.source)
    if source is None or source_type.status is None or not plan.ready or is_unread(key, cache, seen.registry):
        return []
    if paused_by(source, source_type, cache):
        return []
    tally = CopyCounts.of(plan)
    tally.mark_held(held)
    status = status_to_write(source_type.status, source, cache, tally, utc_now())
    if status is None:
        return []
    return [Step(source.ref, WriteStatus(key, source.ref, source, status), STATUS, desired=False)]


def _faults(key: Key, plan: Plan) -> list[Step]:
    """What is wrong with a source is told at the source's own address, unless a place tells the same."""
    told = {each.message for each in plan.blocked}
    found = [each for each in plan.faults if each.reason in _FAULTS and each.message not in told]
    blocked = [Blocked(key, key.source, _FAULTS[each.reason], each.message) for each in found]
    return [Step(key.source, each, FAULT, desired=False) for each in blocked]


def counted(seen: Picture, key: Key, plan: Plan, rules: ClusterPolicy) -> CopyCounts:
    """How the copies of a source are now; before its finalizer is there all that it wants is pending."""
    tally = CopyCounts.of(plan)
    for ref in awaiting(seen, key, plan, rules):
        tally.count(Step(ref, ReadFirst(ref), "finalizer"))
    return tally


def awaiting(seen: Picture, key: Key, plan: Plan, rules: ClusterPolicy) -> tuple[Ref, ...]:
    """The places that a source wants and that are not planned yet: its finalizer comes first, and alone."""
    if not any(isinstance(each, SetFinalizer) and each.add for each in plan.writes):
        return ()
    prepared = prepare(key, seen.shot.cache, seen.registry, rules)
    return () if isinstance(prepared, Plan) else tuple(copy.ref for copy in prepared[1].copies)


def place(ref: Ref) -> dict[str, str]:
    return {"kind": str(ref.kind), "namespace": ref.namespace, "name": ref.name}


def shape(seen: Picture, found: Outcome) -> dict[str, Any]:
    """The promised JSON."""
    return {
        "writes": [_write(seen, step.outcome, step.rule) for step in found.steps if isinstance(step.outcome, Write)],
        "blocked": [
            _blocked(seen, step.outcome, step.rule) for step in found.steps if isinstance(step.outcome, Blocked)
        ],
        "summary": summary(found.writes, found.blocked),
    }


def _write(seen: Picture, write: Write, rule: str) -> dict[str, str]:
    return {"verb": verb(write), **place(write.ref), **_whose(seen, write.key), "why": write.why, "rule": rule}


def _blocked(seen: Picture, blocked: Blocked, rule: str) -> dict[str, str]:
    why = {"reason": blocked.reason, "message": blocked.message, "rule": rule}
    return {**place(blocked.ref), **_whose(seen, blocked.key), **why}


def _whose(seen: Picture, key: Key) -> dict[str, str]:
    return {"vocabulary": seen.title(key), "source": key.source.path}


def summary(writes: Sequence[Write], blocked: Sequence[Blocked]) -> dict[str, int]:
    counts = Counter(verb(each) for each in writes)
    return {**{each: counts[each] for each in VERBS}, "blocked": len(blocked)}
