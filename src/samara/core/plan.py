"""Compares the desired state of one source with the live state: `prepare`, then `steps`. No I/O, no clock, no await.

The planner (`engine/planner.py`) calls these two, and takes the steps of a large source in chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from samara.core.context import PlanContext
from samara.core.desired import Copy, Desired, Fault
from samara.core.model import NAMESPACE, Key, Kind, Object, Ref
from samara.core.policy import ClusterPolicy, pause_faults
from samara.core.queries import UNREAD, Query, deletion_queries
from samara.core.registry import Registry
from samara.core.rules import decide, decide_overlay, decide_unwanted
from samara.core.view import NamespaceView, View, has_copies
from samara.core.writes import Blocked, Plan, ReadFirst, SetFinalizer, Step

BLOCKED, FINALIZER, INPUT = "blocked", "finalizer", "input"
"""What steps show in place of a rule, if the source type blocks a target, if they add or remove a finalizer, or if an
object from which the desired state is made must be read first."""


def plan(key: Key, view: View, registry: Registry, cluster: ClusterPolicy) -> Plan:
    """All steps for a source, or for its part in one namespace, at once. Commands and tests call this; the operator
    calls `prepare` and `steps` instead, in `Planner.plan`."""
    prepared = prepare(key, view, registry, cluster)
    if isinstance(prepared, Plan):
        return prepared
    ctx, desired = prepared
    return Plan(tuple(steps(ctx, desired)), faults=desired.faults)


def prepare(key: Key, view: View, registry: Registry, cluster: ClusterPolicy) -> Plan | tuple[PlanContext, Desired]:
    """The context and the desired state, or a plan that is not ready and names the queries to answer first."""
    source_type = registry[key.source_type]
    key = key if source_type.per_namespace else key.all_namespaces
    if not all(view.has_synced(kind) for kind in _kinds_read(key, registry, view)):
        return Plan(ready=False)
    visible = view if key.namespace is None else NamespaceView(view, key.namespace)
    source = view.get(key.source)
    if unread := _unread_inputs(key, source, registry, view):
        return Plan(tuple(Step(ref, ReadFirst(ref), INPUT, desired=False) for ref in unread), ready=False)
    ctx = PlanContext(key.all_namespaces, source_type, source, visible, view, registry, cluster)
    desired = source_type.desired(key.source, visible)
    if source is not None and source.ref.kind != NAMESPACE and (faults := pause_faults(source)):
        desired = replace(desired, faults=(*desired.faults, *faults))  # that of a Namespace is a near miss
    if not _are_answered(desired.reads, view):
        return Plan(ready=False, reads=desired.reads)
    if source is not None and source_type.is_source(source, view):
        if ctx.key not in registry.sources(source, view):
            return ctx, Desired(prune=False)  # a copy of another vocabulary is not a source
        faults = tuple(map(_false_claim, registry.false_claims(source, view)))
        desired = replace(desired, faults=(*desired.faults, *faults)) if faults else desired
    return _confirm_deletion(ctx, desired)


def _false_claim(owner: Key) -> Fault:
    wrong = f"its marks name {owner.source}, but {owner.source} wants no copy here"
    message = f"{wrong}: it stays a source; remove the marks"
    return Fault("Invalid", message)


def _unread_inputs(key: Key, source: Object | None, registry: Registry, view: View) -> list[Ref]:
    if source is None or not registry[key.source_type].is_source(source, view):
        return []
    return [ref for ref in registry.inputs(key, source) if view.exists_unread(ref)]


def _kinds_read(key: Key, registry: Registry, view: View) -> tuple[Kind, ...]:
    """The kinds that must be synced. A kind that cannot be listed stops only the sources that use it."""
    source = view.get(key.source)
    inputs = () if source is None else (ref.kind for ref in registry.inputs(key, source))
    addresses = registry[key.source_type].addresses(key.source, view)
    if addresses is None:
        return (NAMESPACE, *registry[key.source_type].kinds)
    return NAMESPACE, key.source.kind, addresses.kind, *inputs


def _are_answered(reads: Iterable[Query], view: View) -> bool:
    return all(view.answer(query) is not UNREAD for query in reads)


def _confirm_deletion(ctx: PlanContext, desired: Desired) -> Plan | tuple[PlanContext, Desired]:
    """Before anything is deleted because a custom resource is gone, ask whether it was deleted on purpose.

    If its CRD is being deleted too, or a list only missed the object, no copy is deleted, and only the
    finalizer is removed.
    """
    ref = ctx.key.source
    if ref.kind != ctx.source_type.resource or not _deletion_matters(ctx, desired):
        return ctx, desired
    queries = deletion_queries(ref, ctx.source)
    if not _are_answered(queries, ctx.view):
        return Plan(ready=False, reads=(*desired.reads, *queries))
    if all(map(ctx.view.answer, queries)):
        return ctx, desired
    return ctx, replace(desired, copies=(), overlays=(), blocked=(), prune=False)


def _deletion_matters(ctx: PlanContext, desired: Desired) -> bool:
    """True if the source is gone or terminating, and this deletes copies or removes our finalizer."""
    source = ctx.source
    if source is not None and (not source.deleting or desired.finalizer not in (None, *source.finalizers)):
        return False
    return (source is not None and desired.finalizer is not None) or (desired.prune and has_copies(ctx.view, ctx.key))


def steps(ctx: PlanContext, desired: Desired, copies: Iterable[Copy] | None = None) -> Iterator[Step]:
    """One step for each address, as an iterator, so that a source with 10,000 targets can be planned in chunks.

    `copies`: those of `desired`, if the caller passes them separately to free them one by one.
    """
    guarded = ctx.source if desired.finalizer is not None and not ctx.paused else None
    if guarded is not None and desired.finalizer not in guarded.finalizers:
        if not guarded.deleting:
            yield _set_finalizer(ctx, desired, guarded, "the finalizer comes before anything is written")
        return  # a source that is deleted without our finalizer deletes nothing
    changing = False
    for step in _steps(ctx, desired, desired.copies if copies is None else copies):
        changing = changing or step.outcome is not None
        yield step
    if guarded is not None and guarded.deleting and not changing and not _copies_left(ctx, desired):
        yield _set_finalizer(ctx, desired, guarded, "nothing is left of this source")


def _steps(ctx: PlanContext, desired: Desired, copies: Iterable[Copy]) -> Iterator[Step]:
    addresses: set[Ref] = set()
    changing = False
    for copy in copies:
        outcome, rule = decide(ctx, copy)
        changing = changing or outcome is not None
        addresses.add(copy.ref)
        yield Step(copy.ref, outcome, rule, rule != "excluded")
    for ref, reason, message in desired.blocked:
        yield Step(ref, Blocked(ctx.key, ref, reason, message), BLOCKED)
    for overlay in desired.overlays:
        yield Step(overlay.ref, *decide_overlay(ctx, overlay), desired=False)
    prune = desired.prune and not (desired.prune_last and changing)
    if prune or _consent_matters(ctx):
        for live in tuple(ctx.view.copies_of(ctx.key)):
            if live.ref not in addresses:
                yield Step(live.ref, *decide_unwanted(ctx, live, prune), desired=False)


def _consent_matters(ctx: PlanContext) -> bool:
    """True if a namespace can withdraw its consent, which deletes a copy even while its source does not prune."""
    active = ctx.source is not None and not ctx.source.deleting
    return active and ctx.source_type.policy.needs_consent and ctx.source_type.enabled


def _copies_left(ctx: PlanContext, desired: Desired) -> bool:
    """True if a copy in any namespace must still be deleted. A plan of one namespace must not remove the finalizer."""
    return desired.prune and any(decide_unwanted(ctx, live)[0] is not None for live in ctx.full_view.copies_of(ctx.key))


def _set_finalizer(ctx: PlanContext, desired: Desired, source: Object, why: str) -> Step:
    assert desired.finalizer is not None
    write = SetFinalizer(ctx.key, source.ref, source, desired.finalizer, not source.deleting, why)
    return Step(source.ref, write, FINALIZER, desired=False)
