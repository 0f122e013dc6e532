"""A request to the admission webhook, and the answers to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from samara.core.model import Object

Operation = Literal["CREATE", "UPDATE", "DELETE"]


@dataclass(frozen=True, slots=True)
class Request:
    """The object before and after a change, with content, labels and annotations as the client sent them."""

    operation: Operation
    new: Object | None
    """None for a deletion."""
    old: Object | None
    """None for a creation."""


class Refused(str):
    """A refusal because of the change, answered as Forbidden. A plain `str` refuses the object and is answered as
    Invalid."""

    __slots__ = ()


class Undecidable(str):
    """A refusal because something that the decision needs could not be read. Answered as an internal error."""

    __slots__ = ()


class PatchOperation(NamedTuple):
    """One operation of a JSON patch. `add` replaces an existing value."""

    op: Literal["add", "remove"]
    path: str
    value: object = None


class ConversionError(ValueError):
    """An object that cannot be converted to another version. The message holds no value of the object."""
