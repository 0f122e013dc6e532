"""A change that somebody wants to make, as admission sees it before it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from samara.core.model import Object


@dataclass(frozen=True, slots=True)
class Request:
    """The object before and after; what it has of content, labels and annotations is what the writer sent."""

    operation: Literal["CREATE", "UPDATE", "DELETE"]
    new: Object | None
    """None for a deletion."""
    old: Object | None
    """None for a creation."""
    user: str = ""
    groups: tuple[str, ...] = ()
