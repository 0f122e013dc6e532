"""A change that somebody wants to make, as admission sees it before it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from samara.core.model import Object

Operation = Literal["CREATE", "UPDATE", "DELETE"]


@dataclass(frozen=True, slots=True)
class Request:
    """The object before and after; what it has of content, labels and annotations is what the writer sent."""

    operation: Operation
    new: Object | None
    """None for a deletion."""
    old: Object | None
    """None for a creation."""


class Refused(str):
    """A fault of the change and not of the object. Told as Forbidden; a plain one is told as Invalid."""

    __slots__ = ()


class Undecidable(str):
    """What must be known to judge the change cannot be found out. Told as an internal error."""

    __slots__ = ()


class PatchOperation(NamedTuple):
    """One step of a JSON patch. `add` also replaces what is there."""

    op: Literal["add", "remove"]
    path: str
    value: object = None


class ConversionError(ValueError):
    """An object that cannot be brought into another version, in words that hold no value of it."""
