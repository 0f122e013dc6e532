"""Plans too large to be made at a time: they are made a piece at a time, while the world goes on changing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from samara.core.case import Case
from samara.core.model import Key
from samara.core.want import Want
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
    overtaken: set[str] = field(default_factory=set)
    """Namespaces that were planned as slices meanwhile: newer than what is wanted here."""

    def take(self) -> list[Step]:
        """The next steps; fewer than a chunk where these are the last."""
        return list(islice(self.steps, CHUNK))

    def given_up(self, now: Want) -> set[str]:
        """The namespaces with a place that was wanted when this plan began and is not at its end."""
        places = {copy.ref for copy in self.want.copies}.difference(copy.ref for copy in now.copies)
        return {ref.namespace for ref in places}
