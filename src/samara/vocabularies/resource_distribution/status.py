"""The status of a distribution: how many copies are in sync, and which problem each other copy has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import nsmallest

from samara.core.copy_counts import CopyCounts
from samara.core.desired import Fault
from samara.core.model import Ref

GET, CREATE, UPDATE, DELETE = (
    "GetResourceFailed",
    "CreateResourceFailed",
    "UpdateResourceFailed",
    "DeleteResourceFailed",
)
CONFLICT, NO_NAMESPACE = "ConflictOccurred", "NamespaceNotExists"
TYPES = (GET, CREATE, UPDATE, DELETE, CONFLICT, NO_NAMESPACE)
"""The condition types. All six are always reported, in this order."""
MAX_LISTED = 50
"""Namespaces in one condition. The names of ten thousand namespaces would not fit into one object."""
SUCCEEDED = "Succeeded"
_REASONS = {
    "conflict": "Conflict",
    "no-namespace": "NoNamespace",
    "refused": "Refused",
    "not-accepted": "NotAccepted",
    "invalid": "Invalid",
    "held": "Held",
    "fought": "Fought",
}


def status(
    generation: int, counts: CopyCounts, faults: Iterable[Fault], exists: Callable[[Ref], bool]
) -> Mapping[str, object]:
    """The status that a distribution should have.

    With a fault, no copy counts as succeeded, because the existing copies are of an earlier spec.
    """
    fault_reasons = {fault.reason for fault in faults}
    desired, succeeded = counts.wanted, 0 if fault_reasons else counts.in_sync
    problems = _problems(counts, exists)
    if fault_reasons:
        _report_faults(problems, fault_reasons, counts.names)
    return {
        "desired": desired,
        "succeeded": succeeded,
        "failed": desired - succeeded,
        "observedGeneration": generation,
        "conditions": [_condition(condition, problems[condition]) for condition in TYPES],
    }


class Problem:
    """The namespaces with one type of problem, and its reasons."""

    __slots__ = ("namespaces", "reasons")

    def __init__(self) -> None:
        self.namespaces: set[str] = set()
        self.reasons: set[str] = set()

    def note(self, namespace: str, reason: str) -> None:
        self.namespaces.add(namespace)
        self.reasons.add(_REASONS.get(reason, reason))


def _problems(counts: CopyCounts, exists: Callable[[Ref], bool]) -> dict[str, Problem]:
    problems = {condition: Problem() for condition in TYPES}
    for reason, copies in counts.by_reason().items():
        for ref in copies:
            problems[_type_of(reason, ref, exists)].note(ref.namespace, reason)
    for ref, removal in counts.removals.items():
        problems[DELETE].note(ref.namespace, removal.reason)
    return problems


def _type_of(reason: str, ref: Ref, exists: Callable[[Ref], bool]) -> str:
    match reason:
        case "conflict":
            return CONFLICT
        case "no-namespace":
            return NO_NAMESPACE
        case _:
            return UPDATE if exists(ref) else CREATE


def _report_faults(problems: dict[str, Problem], reasons: Iterable[str], targets: Iterable[str]) -> None:
    """Reports the reasons for every target that exists and has no conflict, in place of failed creates and updates."""
    for condition in (CREATE, UPDATE):
        problems[condition] = Problem()
    problems[GET].reasons.update(reasons)
    others = problems[CONFLICT].namespaces | problems[NO_NAMESPACE].namespaces
    problems[GET].namespaces.update(target for target in targets if target not in others)


def _condition(type_: str, problem: Problem) -> dict[str, object]:
    """The condition without its transition time, which `with_transition_times` adds. Commas join several reasons."""
    if not problem.reasons:
        return {"type": type_, "status": "False", "reason": SUCCEEDED}
    reported: dict[str, object] = {"type": type_, "status": "True", "reason": ",".join(sorted(problem.reasons))}
    return {**reported, "failedNamespaces": _truncated(problem.namespaces)} if problem.namespaces else reported


def _truncated(namespaces: Collection[str]) -> list[str]:
    """The first names, and a last entry with the number of the others. That entry is not a legal namespace name."""
    others = len(namespaces) - MAX_LISTED
    return [*nsmallest(MAX_LISTED, namespaces), *([f"and {others} more"] if others > 0 else [])]
