"""What sources put into one namespace, and what keeps them from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from samara.cli.inspect.cluster_plans import ClusterPlans
from samara.cli.inspect.forecast import waiting_for_finalizer
from samara.cli.session import Session
from samara.core.desired import Copy, Desired
from samara.core.model import Key, namespace_ref
from samara.core.plan import FINALIZER, prepare
from samara.core.policy import refusal
from samara.core.writes import (
    Apply,
    AskFirst,
    Blocked,
    Delete,
    KeepAsOrphan,
    Outcome,
    Plan,
    ReadFirst,
    Release,
    Step,
    verb,
)

STATES = ("blocked", "pending", "to-be-removed", "excluded", "kept", "right")
"""The states of what comes into a namespace: what may need a person first."""


class Incoming(NamedTuple):
    """One object that a source wants, has or would have in the namespace. The fields are those of the JSON."""

    vocabulary: str
    source: str
    kind: str
    name: str
    state: str
    message: str
    reason: str | None = None
    """Why it is blocked."""
    decision: str | None = None
    """The name of the rule that decided."""


def incoming(session: Session, cluster: ClusterPlans, namespace: str) -> list[Incoming]:
    """Everything that sources put into a namespace: problems first, then by vocabulary and source."""
    arriving = [
        entry for key, plan in cluster.plans.items() for entry in _from_source(session, cluster, key, plan, namespace)
    ]
    return sorted(arriving, key=lambda entry: (STATES.index(entry.state), entry))


def sources_in(cluster: ClusterPlans, namespace: str) -> list[dict[str, str]]:
    """The sources that are in a namespace."""
    keys = [key for key in cluster.plans if key.source.namespace == namespace]
    return [
        {"vocabulary": cluster.vocabulary(key), "source": str(key.source)}
        for key in keys
        if key.source in cluster.snapshot.cache.sources(key.source_type)
    ]


def desired_in_namespace(session: Session, cluster: ClusterPlans, key: Key, namespace: str) -> Desired:
    """What the source wants in one namespace."""
    part = cluster.registry.part(key, namespace)
    prepared = prepare(part, cluster.snapshot.cache, cluster.registry, session.policy)
    return Desired() if isinstance(prepared, Plan) else prepared[1]


def exclusion(session: Session, cluster: ClusterPlans, key: Key, copies: Iterable[Copy]) -> str:
    """Why a namespace is no target although the source selects all: it is protected, or ignores copies."""
    cache, policy = cluster.snapshot.cache, cluster.registry[key.source_type].policy
    for copy in copies:
        namespace = cache.get(namespace_ref(copy.ref.namespace))
        refused = None if namespace is None else refusal(copy, key.source, namespace, policy, session.policy, cache)
        if refused is not None and refused.excludes:
            return refused.message
    return ""


def _from_source(session: Session, cluster: ClusterPlans, key: Key, plan: Plan, namespace: str) -> Iterator[Incoming]:
    vocabulary, source = cluster.vocabulary(key), str(key.source)
    for step in plan.steps:
        if _is_in(step, namespace):
            state, message = _state(session, cluster, key, step)
            reason = step.outcome.reason if isinstance(step.outcome, Blocked) else None
            kind, _, name = step.ref
            yield Incoming(vocabulary, source, str(kind), name, state, message, reason, step.rule)
    for ref in waiting_for_finalizer(cluster, key, plan, session.policy):
        if ref.namespace == namespace:
            message = "to create once the source has its finalizer"
            yield Incoming(vocabulary, source, str(ref.kind), ref.name, "pending", message, None, FINALIZER)


def _is_in(step: Step, namespace: str) -> bool:
    """True for an object in the namespace, and for labels and annotations that the Namespace itself inherits."""
    if step.ref == namespace_ref(namespace):
        return isinstance(step.outcome, Apply)
    return step.ref.namespace == namespace and step.rule != FINALIZER


def _state(session: Session, cluster: ClusterPlans, key: Key, step: Step) -> tuple[str, str]:
    """The state of one object, and its message."""
    outcome: Outcome = step.outcome
    if step.rule == "excluded":
        copies = desired_in_namespace(session, cluster, key, step.ref.namespace).copies
        return "excluded", exclusion(session, cluster, key, copies)
    if outcome is None:
        return ("right", "in sync with its source") if step.desired else ("kept", "no longer wanted, but kept")
    if isinstance(outcome, Blocked):
        return "blocked", outcome.message
    if isinstance(outcome, Delete | Release | KeepAsOrphan):
        return "to-be-removed", outcome.why
    if isinstance(outcome, ReadFirst | AskFirst):
        return "pending", "to be read first"
    return "pending", f"to {verb(outcome)}: {outcome.why}"
