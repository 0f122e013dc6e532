"""Plans with too many steps for one time slice: the planner takes them a chunk at a time, between other work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Self

from samara.core.context import PlanContext
from samara.core.copy_counts import CopyCounts
from samara.core.desired import Copy, Desired
from samara.core.model import Key, Ref
from samara.core.plan import steps
from samara.core.writes import Removal, Step

CHUNK = 250
"""Steps taken at a time."""
MAX_WAITING = 2000
"""A chunked plan pauses while this many of its namespaces wait for a write, so that the outbox stays small."""


@dataclass(slots=True)
class ChunkedPlan:
    """A plan under way. A small plan is one of a single chunk."""

    key: Key
    ctx: PlanContext
    desired: Desired
    steps: Iterator[Step]
    removals: list[Removal] = field(default_factory=list)
    """Judged when all steps have been taken, because the mass-delete limit counts the deletions of a plan together."""
    initial: frozenset[Ref] = frozenset()
    """The copies that were desired when the plan began."""
    replanned: set[str] = field(default_factory=set)
    """Namespaces planned as slices since the plan began. Those plans are newer, so this one skips them."""

    @classmethod
    def single(cls, key: Key, ctx: PlanContext, desired: Desired) -> Self:
        """A plan whose steps are all taken at once."""
        return cls(key, ctx, desired, steps(ctx, desired))

    @classmethod
    def start(cls, key: Key, ctx: PlanContext, desired: Desired) -> Self:
        """A plan whose copies are freed one by one, as their steps are taken: 100,000 copies take 11 MB."""
        without_copies = replace(desired, copies=())
        initial = frozenset(copy.ref for copy in desired.copies)
        copies = _freed_when_taken(desired.copies)
        return cls(key, ctx, without_copies, steps(ctx, without_copies, copies), initial=initial)

    def take(self) -> list[Step]:
        """The next chunk. If it has fewer than `CHUNK` steps, it is the last."""
        return list(islice(self.steps, CHUNK))

    def dropped_namespaces(self, desired: Desired) -> set[str]:
        """Namespaces of copies that were desired when the plan began and are not desired at its end."""
        return {ref.namespace for ref in self.initial.difference(copy.ref for copy in desired.copies)}


def rotate_to_pending(desired: Desired, counts: CopyCounts) -> Desired:
    """Starts with the copy that has been pending longest.

    Otherwise a source that changes faster than it is copied would never reach its last namespaces.
    """
    pending = counts.longest_pending()
    if pending is None:
        return desired
    first = next((index for index, copy in enumerate(desired.copies) if copy.ref == pending), 0)
    return replace(desired, copies=desired.copies[first:] + desired.copies[:first]) if first else desired


def _freed_when_taken(copies: tuple[Copy, ...]) -> Iterator[Copy]:
    remaining = list(reversed(copies))
    del copies  # the list holds the only reference to each copy now
    while remaining:
        yield remaining.pop()
