"""What is right, pending and blocked for one source; status, Events and metrics read only this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from samara.core.allow import Reason
from samara.core.model import Ref
from samara.core.write import Blocked, Look, Step

PENDING: Literal["pending"] = "pending"


class Missing(NamedTuple):
    """A wanted place that is not right yet."""

    reason: Reason | Literal["pending"]
    message: str = ""


@dataclass(slots=True)
class Tally:
    """The number of copies wanted per namespace, and only the exceptions; the rest is right."""

    counts: dict[str, int] = field(default_factory=dict)
    exceptions: dict[Ref, Missing] = field(default_factory=dict)

    @property
    def wanted(self) -> int:
        return sum(self.counts.values())

    @property
    def blocked(self) -> int:
        return sum(each.reason != PENDING for each in self.exceptions.values())

    @property
    def pending(self) -> int:
        return len(self.exceptions) - self.blocked

    @property
    def right(self) -> int:
        return self.wanted - len(self.exceptions)

    def begin(self, namespace: str | None) -> None:
        """Forgets what was counted before, in one namespace or in all: a plan is about to count anew."""
        if namespace is None:
            self.counts.clear()
            self.exceptions.clear()
            return
        if self.counts.pop(namespace, None) is not None:
            for ref in [ref for ref in self.exceptions if ref.namespace == namespace]:
                del self.exceptions[ref]

    def count(self, step: Step) -> None:
        if not step.wanted:
            return
        self.counts[step.ref.namespace] = self.counts.get(step.ref.namespace, 0) + 1
        match step.outcome:
            case None:
                pass
            case Blocked(reason=reason, message=message):
                self.exceptions[step.ref] = Missing(reason, message)
            case Look() | _:
                self.exceptions[step.ref] = Missing(PENDING)

    def right_now(self, ref: Ref) -> None:
        self.exceptions.pop(ref, None)

    def blocked_now(self, ref: Ref, reason: Reason, message: str) -> None:
        if ref.namespace in self.counts:
            self.exceptions[ref] = Missing(reason, message)

    def by_reason(self) -> dict[str, dict[Ref, str]]:
        """Per reason the places that are blocked for it, each with its message."""
        found: dict[str, dict[Ref, str]] = {}
        for ref, each in self.exceptions.items():
            if each.reason != PENDING:
                found.setdefault(each.reason, {})[ref] = each.message
        return found


def total(tallies: Iterable[Tally]) -> Counter[str]:
    """Sums for the metrics."""
    states: Counter[str] = Counter(right=0, pending=0, blocked=0)
    for tally in tallies:
        states.update(right=tally.right, pending=tally.pending, blocked=tally.blocked)
    return states
