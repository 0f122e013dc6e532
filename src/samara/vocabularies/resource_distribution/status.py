"""The status of a distribution: how many copies are in sync, and which problem each other copy has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import nsmallest

from samara.core.copy_counts import CopyCounts, NotInSync
from samara.core.desired import Fault, in_camel_case
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
MAX_MESSAGE = 1000
"""Characters of a message. That of the API server about a refused write can be long."""


def status(
    generation: int, counts: CopyCounts, faults: Iterable[Fault], exists: Callable[[Ref], bool]
) -> Mapping[str, object]:
    """The status that a distribution should have.

    With a fault, no copy counts as succeeded, because the existing copies are of an earlier spec.
    """
    faults = tuple(faults)
    fault_reasons = {fault.reason for fault in faults}
    desired, succeeded = counts.wanted, 0 if fault_reasons else counts.in_sync
    problems = _problems(counts, exists)
    if fault_reasons:
        _report_faults(problems, faults, counts.names)
    return {
        "desired": desired,
        "succeeded": succeeded,
        "failed": desired - succeeded,
        "observedGeneration": generation,
        "conditions": [_condition(condition, problems[condition]) for condition in TYPES],
    }


class Problem:
    """The namespaces with one type of problem, its reasons, and what is wrong in the first of the namespaces."""

    __slots__ = ("message", "namespaces", "reasons", "sample")

    def __init__(self) -> None:
        self.namespaces: set[str] = set()
        self.reasons: set[str] = set()
        self.sample = ""
        self.message = ""

    def note(self, ref: Ref, problem: NotInSync) -> None:
        namespace = ref.namespace
        self.namespaces.add(namespace)
        self.reasons.add(in_camel_case(problem.reason))
        if not self.sample or namespace < self.sample:
            self.sample, self.message = namespace, f"{ref}: {problem.shown(ref)}"


def _problems(counts: CopyCounts, exists: Callable[[Ref], bool]) -> dict[str, Problem]:
    problems = {condition: Problem() for condition in TYPES}
    for reason, copies in counts.by_reason().items():
        for ref, problem in copies.items():
            problems[_type_of(reason, ref, exists)].note(ref, problem)
    for ref, removal in counts.removals.items():
        problems[DELETE].note(ref, removal)
    return problems


def _type_of(reason: str, ref: Ref, exists: Callable[[Ref], bool]) -> str:
    match reason:
        case "conflict":
            return CONFLICT
        case "no-namespace":
            return NO_NAMESPACE
        case _:
            return UPDATE if exists(ref) else CREATE


def _report_faults(problems: dict[str, Problem], faults: Collection[Fault], targets: Iterable[str]) -> None:
    """Reports the faults for every target that exists and has no conflict, in place of failed creates and updates."""
    for condition in (CREATE, UPDATE):
        problems[condition] = Problem()
    problems[GET].reasons.update(fault.reason for fault in faults)
    problems[GET].message = "; ".join(dict.fromkeys(fault.message for fault in faults))
    others = problems[CONFLICT].namespaces | problems[NO_NAMESPACE].namespaces
    problems[GET].namespaces.update(target for target in targets if target not in others)


def _condition(type_: str, problem: Problem) -> dict[str, object]:
    """The condition without its transition time, which `with_transition_times` adds. Commas join several reasons."""
    if not problem.reasons:
        return {"type": type_, "status": "False", "reason": SUCCEEDED}
    reported: dict[str, object] = {
        "type": type_,
        "status": "True",
        "reason": ",".join(sorted(problem.reasons)),
        "message": _message(problem),
    }
    return {**reported, "failedNamespaces": _truncated(problem.namespaces)} if problem.namespaces else reported


def _message(problem: Problem) -> str:
    """What is wrong in the first namespace, and in how many others something is."""
    text, others = problem.message, len(problem.namespaces) - 1
    if len(text) > MAX_MESSAGE:
        text = f"{text[:MAX_MESSAGE]}…"
    return f"{text}; and {others} more" if problem.sample and others > 0 else text


def _truncated(namespaces: Collection[str]) -> list[str]:
    """The first names, and a last entry with the number of the others. That entry is not a legal namespace name."""
    others = len(namespaces) - MAX_LISTED
    return [*nsmallest(MAX_LISTED, namespaces), *([f"and {others} more"] if others > 0 else [])]
