"""The mass-delete limit: how many deletions at once wait until a person releases them."""

from __future__ import annotations

from dataclasses import dataclass

WINDOW = 600.0
"""Seconds over which the deletions of one source are counted."""
BURST = 60.0
"""Seconds over which the deletions of all sources in one namespace are counted together."""


@dataclass(frozen=True, slots=True)
class MassDeleteLimit:
    """Deletions are held if there are more than `most`, and more than `percent` % of the copies of their source."""

    most: int = 50
    percent: float = 30.0
    namespaces: int = 3
    """More deletions of Namespaces of one tree than this, within the window, wait until they are released."""


def exceeds_limit(limit: MassDeleteLimit, recent: int, planned: int, copies: int) -> bool:
    """True if the planned deletions, together with the recent ones, exceed both limits. `copies` are those that exist
    now, the planned deletions among them."""
    removed = recent + planned
    return removed > limit.most and removed * 100 > limit.percent * (recent + copies)


def exceeds_namespace_limit(limit: MassDeleteLimit, recent: int, planned: int) -> bool:
    """True if the planned deletions of Namespaces, together with the recent ones of their tree, are too many."""
    return recent + planned > limit.namespaces
