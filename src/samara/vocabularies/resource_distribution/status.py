"""The status of a distribution: how many namespaces are right, and for each kind of problem where it is."""

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
"""All of them are always told, in this order."""
MAX_LISTED = 50
"""Namespaces that one condition names: a status for ten thousand of them would not fit into its object."""
SUCCEEDED = "Succeeded"
_WORDS = {
    "conflict": "Conflict",
    "no-namespace": "NoNamespace",
    "refused": "Refused",
    "not-accepted": "NotAccepted",
    "invalid": "Invalid",
    "held": "Held",
    "fought": "Fought",
}


def status(
    generation: int, tally: CopyCounts, faults: Iterable[Fault], is_there: Callable[[Ref], bool]
) -> Mapping[str, object]:
    """With a fault nothing counts as succeeded: what lies in the namespaces is not what the spec says."""
    broken = {fault.reason for fault in faults}
    desired, succeeded = tally.wanted, 0 if broken else tally.in_sync
    problems = _problems(tally, is_there)
    if broken:
        report_faults(problems, broken, tally.names)
    return {
        "desired": desired,
        "succeeded": succeeded,
        "failed": desired - succeeded,
        "observedGeneration": generation,
        "conditions": [_condition(kind, problems[kind]) for kind in TYPES],
    }


class Problem:
    """Where one kind of problem is, and why."""

    __slots__ = ("namespaces", "reasons")

    def __init__(self) -> None:
        self.namespaces: set[str] = set()
        self.reasons: set[str] = set()

    def note(self, namespace: str, reason: str) -> None:
        self.namespaces.add(namespace)
        self.reasons.add(_WORDS.get(reason, reason))


def _problems(tally: CopyCounts, is_there: Callable[[Ref], bool]) -> dict[str, Problem]:
    found = {kind: Problem() for kind in TYPES}
    for reason, places in tally.by_reason().items():
        for ref in places:
            found[_type_of(reason, ref, is_there)].note(ref.namespace, reason)
    for ref, missing in tally.removals.items():
        found[DELETE].note(ref.namespace, missing.reason)
    return found


def _type_of(reason: str, ref: Ref, is_there: Callable[[Ref], bool]) -> str:
    match reason:
        case "conflict":
            return CONFLICT
        case "no-namespace":
            return NO_NAMESPACE
        case _:
            return UPDATE if is_there(ref) else CREATE


def report_faults(problems: dict[str, Problem], broken: Iterable[str], wanted: Iterable[str]) -> None:
    """Where the resource itself is at fault, that is what is wrong wherever nothing else is in its way."""
    for kind in (CREATE, UPDATE):
        problems[kind] = Problem()
    problems[GET].reasons.update(broken)
    others = problems[CONFLICT].namespaces | problems[NO_NAMESPACE].namespaces
    problems[GET].namespaces.update(each for each in wanted if each not in others)


def _condition(kind: str, problem: Problem) -> dict[str, object]:
    """Without its transition time, which `core.status.settled` adds; the reason is one word, or several with commas."""
    if not problem.reasons:
        return {"type": kind, "status": "False", "reason": SUCCEEDED}
    made: dict[str, object] = {"type": kind, "status": "True", "reason": ",".join(sorted(problem.reasons))}
    return {**made, "failedNamespaces": truncated(problem.namespaces)} if problem.namespaces else made


def truncated(namespaces: Collection[str]) -> list[str]:
    """The first names, and as the last entry how many more there are: no namespace can have such a name."""
    rest = len(namespaces) - MAX_LISTED
    return [*nsmallest(MAX_LISTED, namespaces), *([f"and {rest} more"] if rest > 0 else [])]
