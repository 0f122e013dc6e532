"""The brake: are these too many deletes at once? One pure function, asked before any delete is sent."""

from __future__ import annotations

from dataclasses import dataclass

WINDOW = 600.0
"""Deletes of one source are counted over this many seconds."""
BURST = 60.0
"""Deletes over all sources of one namespace are counted over this many seconds."""


@dataclass(frozen=True, slots=True)
class MassDeleteLimit:
    """When to hold: more than `most` copies and more than `percent` % of what the source has."""

    most: int = 50
    percent: float = 30.0
    namespaces: int = 3
    """More deletions of Namespaces than this within the window wait until somebody says so."""


def exceeds_limit(brake: MassDeleteLimit, gone: int, asked: int, has: int) -> bool:
    """True where `asked` more deletes after `gone` recent ones exceed both limits; `has` is what is still there."""
    removed = gone + asked
    return removed > brake.most and removed * 100 > brake.percent * (gone + has)


def too_many_namespaces(brake: MassDeleteLimit, gone: int, asked: int) -> bool:
    """True where `asked` more Namespaces after `gone` recent ones, cluster-wide, are too many."""
    return gone + asked > brake.namespaces
