"""Plans too large to be made at a time: they are made a piece at a time, while the world goes on changing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from samara.core.case import Case
from samara.core.model import Key, Ref
from samara.core.plan import steps
from samara.core.tally import Tally
from samara.core.want import Copy, Want
from samara.core.write import Removal, Step

CHUNK = 250
"""Steps of a large plan that are taken at a time."""
AHEAD = 2000
"""A large plan goes on only while fewer of its namespaces than this wait for a write."""


@dataclass(slots=True)
class Growth:
    """A plan that is being made."""

    key: Key
    case: Case
    want: Want
    steps: Iterator[Step]
    removals: list[Removal]
    places: tuple[Ref, ...] = ()
    """All that were wanted when this plan began."""
    overtaken: set[str] = field(default_factory=set)
    """Namespaces that were planned as slices meanwhile: newer than what is wanted here."""

    def take(self) -> list[Step]:
        """The next steps; fewer than a chunk where these are the last."""
        return list(islice(self.steps, CHUNK))

    def given_up(self, now: Want) -> set[str]:
        """The namespaces with a place that was wanted when this plan began and is not at its end."""
        return {ref.namespace for ref in set(self.places).difference(copy.ref for copy in now.copies)}


def resumed(want: Want, tally: Tally) -> Want:
    """Goes on where the last plan was overtaken, and comes to the beginning in the end.

    A source that changes faster than it can be copied would else be written to the same namespaces again and again,
    and never to the others.
    """
    waits = tally.longest_pending()
    first = next((at for at, copy in enumerate(want.copies) if copy.ref == waits), 0) if waits is not None else 0
    return replace(want, copies=want.copies[first:] + want.copies[:first]) if first else want


def grown(key: Key, case: Case, want: Want) -> Growth:
    """The beginning of a large plan. Each copy is forgotten when its step is taken: a hundred thousand are 11 MB."""
    bare, places = replace(want, copies=()), tuple(copy.ref for copy in want.copies)
    return Growth(key, case, bare, steps(case, bare, _one_by_one(want.copies)), [], places)


def _one_by_one(copies: tuple[Copy, ...]) -> Iterator[Copy]:
    left = list(reversed(copies))
    del copies
    while left:
        yield left.pop()
