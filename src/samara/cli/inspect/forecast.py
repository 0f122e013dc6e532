"""Computes what the operator would write, what is blocked, and which deletions would be held.

The first writes follow from the plans. A forecast also applies them to the snapshot and plans again, until nothing is
left to write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from samara.cli.inspect.cluster_plans import ClusterPlans, plan_keys
from samara.cli.inspect.reported import is_unread
from samara.cli.session import Session
from samara.core import rules
from samara.core.copy_counts import CopyCounts
from samara.core.desired import Reason
from samara.core.model import NAMESPACE, Key, Ref
from samara.core.plan import BLOCKED, FINALIZER, prepare
from samara.core.policy import ClusterPolicy, paused_by
from samara.core.simulate import simulate_write
from samara.core.source_type import is_explicit_deletion, tree_of
from samara.core.status import status_to_write
from samara.core.vocabulary import declared_reasons
from samara.core.writes import (
    Blocked,
    Create,
    Delete,
    Plan,
    ReadFirst,
    Recreate,
    SetFinalizer,
    Step,
    Write,
    WriteStatus,
    verb,
)
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.process import utc_timestamp
from samara.kube.cache import Cache, Change
from samara.vocabularies import VOCABULARIES

VERBS = ("create", "update", "recreate", "delete", "overlay", "guard", "report")
MAX_ROUNDS = 60
"""A finalizer, an object, its labels and a status take four rounds. A tree takes as many more as it is deep."""
FAULT, STATUS = "fault", "status"
"""What steps show in place of a rule, if they are about a mistake in the source or about its status."""
RULE_NAMES = (*rules.NAMES, BLOCKED, FINALIZER, FAULT, STATUS)
"""Everything that a step can show as its rule."""
_BLOCKING_FAULTS: dict[str, Reason] = {
    "Invalid": "invalid",
    "Refused": "refused",
    **{reason: "refused" for reason, info in declared_reasons(VOCABULARIES).items() if info.advice},
}
"""By reason of a fault. Those without advice, such as `NoNamespace`, are left out: their copies are blocked already."""


class Anyway(NamedTuple):
    """How many writes and blocked objects do not depend on the manifests of a plan."""

    writes: int = 0
    blocked: int = 0
    prevented: int = 0
    """Objects that would be written without the manifests, and are not with them."""


@dataclass(frozen=True)
class PlannedWrites:
    """Everything that is written or blocked, in the order of the sources. Each step names the rule that decided it."""

    steps: tuple[Step, ...] = ()
    anyway: Anyway | None = None
    """If manifests were laid over the cluster: what is left out of the steps."""

    @cached_property
    def writes(self) -> tuple[Write, ...]:
        return tuple(step.outcome for step in self.steps if isinstance(step.outcome, Write))

    @cached_property
    def blocked(self) -> tuple[Blocked, ...]:
        return tuple(step.outcome for step in self.steps if isinstance(step.outcome, Blocked))


def first_writes(cluster: ClusterPlans, guard: MassDeleteGuard) -> PlannedWrites:
    """The writes that the plans contain now, without those that follow from them."""
    planned = [writes_of_key(cluster, guard, key, plan) for key, plan in cluster.plans.items()]
    return PlannedWrites(tuple(step for writes in planned for step in writes.steps))


def writes_of_key(cluster: ClusterPlans, guard: MassDeleteGuard, key: Key, plan: Plan) -> PlannedWrites:
    """The writes of one source. Its status comes when nothing else is left to write for it."""
    held = _held(cluster, guard, key, plan)
    writes = [step for step in plan.steps if isinstance(step.outcome, Write) and step.ref not in held]
    held_steps = [step for step in plan.steps if isinstance(step.outcome, Delete) and step.ref in held]
    blocked = (
        *_fault_steps(key, plan),
        *(step for step in plan.steps if isinstance(step.outcome, Blocked)),
        *(_held_step(key, step, held) for step in sorted(held_steps, key=lambda step: step.ref)),
    )
    return PlannedWrites((*(writes or _status_steps(cluster, key, plan, held)), *blocked))


def _held_step(key: Key, step: Step, held: Collection[Ref]) -> Step:
    return step._replace(outcome=Blocked(key, step.ref, "held", _why_held(key, held)))


def _held(cluster: ClusterPlans, guard: MassDeleteGuard, key: Key, plan: Plan) -> frozenset[Ref]:
    """The deletions that the operator would hold if it made this plan now.

    Delayed deletions do not count, because the garbage collector makes them.
    """
    cache, source_type = cluster.snapshot.cache, cluster.registry[key.source_type]
    deletes = [write for write in plan.writes if isinstance(write, Delete) and not write.delayed]
    if not deletes or is_explicit_deletion(source_type, cache.get(key.source)):
        return frozenset()
    in_namespace = cache.count_in_namespace(key.source.namespace)
    tree = tree_of(source_type, key.source, cache)
    allowed = {delete.ref for delete in guard.check(key, deletes, cache.count(key), in_namespace, tree=tree)}
    return frozenset(delete.ref for delete in deletes if delete.ref not in allowed)


def _why_held(key: Key, held: Collection[Ref]) -> str:
    release = f"`samara release {key}` lets them continue once the operator holds them"
    if any(ref.kind == NAMESPACE for ref in held):
        return f"more namespaces would be deleted at once than the setting massDelete.namespaces allows; {release}"
    count = f"{len(held):,} deletions wait" if len(held) > 1 else "1 deletion waits"
    return f"{count}: more at once than the limit on mass deletion (setting massDelete) allows; {release}"


def _status_steps(cluster: ClusterPlans, key: Key, plan: Plan, held: frozenset[Ref]) -> list[Step]:
    """The write of a status that differs. If we cannot read the secret manager, the next status is not known."""
    cache, source_type = cluster.snapshot.cache, cluster.registry[key.source_type]
    source = cache.get(key.source)
    if source is None or source_type.status is None or not plan.ready or is_unread(key, cache, cluster.registry):
        return []
    if paused_by(source, source_type, cache):
        return []
    counts = CopyCounts.of(plan)
    counts.mark_held(held)
    status = status_to_write(source_type.status, source, cache, counts, utc_timestamp())
    if status is None:
        return []
    return [Step(source.ref, WriteStatus(key, source.ref, source, status), STATUS, desired=False)]


def _fault_steps(key: Key, plan: Plan) -> list[Step]:
    """Faults of a source block its own address, unless a copy is blocked with the same message."""
    messages = {blocked.message for blocked in plan.blocked}
    faults = [fault for fault in plan.faults if fault.reason in _BLOCKING_FAULTS and fault.message not in messages]
    blocked = [Blocked(key, key.source, _BLOCKING_FAULTS[fault.reason], fault.message) for fault in faults]
    return [Step(key.source, outcome, FAULT, desired=False) for outcome in blocked]


def count_copies(cluster: ClusterPlans, key: Key, plan: Plan, policy: ClusterPolicy) -> CopyCounts:
    """The copies of a source as they are now. All are pending while the source waits for its finalizer."""
    counts = CopyCounts.of(plan)
    for ref in waiting_for_finalizer(cluster, key, plan, policy):
        counts.count(Step(ref, ReadFirst(ref), FINALIZER))
    return counts


def waiting_for_finalizer(cluster: ClusterPlans, key: Key, plan: Plan, policy: ClusterPolicy) -> tuple[Ref, ...]:
    """The copies that are planned only after the source has its finalizer, which is written first and alone."""
    if not any(isinstance(write, SetFinalizer) and write.add for write in plan.writes):
        return ()
    prepared = prepare(key, cluster.snapshot.cache, cluster.registry, policy)
    return () if isinstance(prepared, Plan) else tuple(copy.ref for copy in prepared[1].copies)


# the writes that follow from the first ones


async def forecast(session: Session, cluster: ClusterPlans) -> PlannedWrites:
    """All writes from here on, and what is blocked at the end of them.

    Changes the snapshot's cache to what the cluster would become. Sends nothing.
    """
    guard = await session.mass_delete_guard()
    writes: dict[Key, list[Step]] = {}
    blocked: dict[Key, list[Step]] = {}
    plans = cluster.plans
    for _ in range(MAX_ROUNDS):
        planned = {key: writes_of_key(cluster, guard, key, plan) for key, plan in plans.items()}
        for key, next_writes in planned.items():
            blocked[key] = [step for step in next_writes.steps if isinstance(step.outcome, Blocked)]
            if next_writes.writes:
                writes.setdefault(key, []).extend(step for step in next_writes.steps if isinstance(step.outcome, Write))
        due = [write for next_writes in planned.values() for write in next_writes.writes]
        if not due:
            break
        plans = await plan_keys(session, cluster.snapshot, apply_all(cluster.snapshot.cache, due))
    else:
        session.note_once(f"the plan does not settle: writes remain after {MAX_ROUNDS} rounds; the rest is left out")
    written = tuple(step for steps in writes.values() for step in steps)
    return PlannedWrites((*written, *_still_blocked(blocked, written)))


def apply_all(cache: Cache, writes: list[Write]) -> set[Key]:
    """Applies the writes to the cache. Returns the keys to plan again."""
    now = utc_timestamp()
    keys = set[Key]()
    for write in writes:
        done = write.key if _completes(write, cache) else None
        keys.update(key for key in apply_to_cache(cache, write, now) if key != done)
    return {key for key in keys if not cache.is_idle(key)}


def _completes(write: Write, cache: Cache) -> bool:
    """True if nothing follows from a write for its own source: a new copy is as desired, and only a custom resource has
    a status, a finalizer or deletions that come last. Planning 30,000 new copies again would take a fifth of the time.
    """
    return isinstance(write, Create) and cache.registry[write.key.source_type].resource is None


def apply_to_cache(cache: Cache, write: Write, now: str) -> Iterator[Key]:
    """Puts the object after a write into the cache. Yields the keys to plan again."""
    after = simulate_write(write, cache.registry[write.key.source_type], now)
    if after is None or isinstance(write, Recreate):
        yield from _keys_to_plan(cache.remove(write.ref), cache)
    if after is not None:
        yield from _keys_to_plan(cache.put(after), cache)


def _keys_to_plan(change: Change | None, cache: Cache) -> Iterator[Key]:
    if change is None:
        return
    yield from (key.all_namespaces for key in change.rivals)
    for obj in (change.old, change.new):
        if obj is not None:
            yield from (key.all_namespaces for key in cache.registry.keys_to_reconcile(obj, cache))


def _still_blocked(blocked: dict[Key, list[Step]], written: tuple[Step, ...]) -> Iterator[Step]:
    """What is blocked at the end, except for copies whose namespace is missing because the plan itself deletes it."""
    deleted = {step.ref.name for step in written if isinstance(step.outcome, Delete) and step.ref.kind == NAMESPACE}
    for step in (step for key in sorted(blocked, key=str) for step in blocked[key]):
        is_missing = isinstance(step.outcome, Blocked) and step.outcome.reason == "no-namespace"
        if not (is_missing and step.ref.namespace in deleted):
            yield step


# JSON


def address_as_json(ref: Ref) -> dict[str, str]:
    return {"kind": str(ref.kind), "namespace": ref.namespace, "name": ref.name}


def as_json(cluster: ClusterPlans, planned: PlannedWrites) -> dict[str, Any]:
    """The answer of `samara plan -o json`. The reference documents its form."""
    steps = planned.steps
    return {
        "writes": [
            _write_as_json(cluster, step.outcome, step.rule) for step in steps if isinstance(step.outcome, Write)
        ],
        "blocked": [
            _blocked_as_json(cluster, step.outcome, step.rule) for step in steps if isinstance(step.outcome, Blocked)
        ],
        "summary": summary(planned.writes, planned.blocked),
        **({} if planned.anyway is None else {"anyway": planned.anyway._asdict()}),
    }


def _write_as_json(cluster: ClusterPlans, write: Write, rule: str) -> dict[str, str]:
    address, source = address_as_json(write.ref), _source_as_json(cluster, write.key)
    return {"verb": verb(write), **address, **source, "why": write.why, "rule": rule}


def _blocked_as_json(cluster: ClusterPlans, blocked: Blocked, rule: str) -> dict[str, str]:
    why = {"reason": blocked.reason, "message": blocked.message, "rule": rule}
    return {**address_as_json(blocked.ref), **_source_as_json(cluster, blocked.key), **why}


def _source_as_json(cluster: ClusterPlans, key: Key) -> dict[str, str]:
    return {"vocabulary": cluster.vocabulary(key), "source": key.source.path}


def summary(writes: Sequence[Write], blocked: Sequence[Blocked]) -> dict[str, int]:
    counts = Counter(verb(write) for write in writes)
    return {**{name: counts[name] for name in VERBS}, "blocked": len(blocked)}
