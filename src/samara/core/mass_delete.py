"""The mass-delete limit: how many deletions at once need the consent of a person."""

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
    """More deletions of Namespaces than this, within the window, wait until they are released."""


def exceeds_limit(brake: MassDeleteLimit, gone: int, asked: int, has: int) -> bool:
    """True if `asked` deletions after `gone` recent ones exceed both limits. `has` counts the copies that are left."""
    removed = gone + asked
    return removed > brake.most and removed * 100 > brake.percent * (gone + has)


def too_many_namespaces(brake: MassDeleteLimit, gone: int, asked: int) -> bool:
    """True if `asked` deletions of Namespaces, after `gone` recent ones in the cluster, are too many."""
    return gone + asked > brake.namespaces
