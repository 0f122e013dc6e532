"""What a plan may have to know from outside the cache: the questions, and what their answers look like."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, NamedTuple

from samara.core.model import Kind, OwnerReference, Ref


class Unread(Enum):
    UNREAD = "unread"


UNREAD: Final = Unread.UNREAD
"""The answer of `View.value` for a path that nobody has read yet."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class DryRunCreate:
    """A question to the server: what would it make of this object? Asked by a dry run, once per object."""

    kind: Kind
    body: bytes = field(repr=False)
    """The object as compact JSON with sorted keys, without name and namespace."""


class Rejected(NamedTuple):
    """The answer to a trial where the server would not take the object."""

    message: str


class CrdExists(NamedTuple):
    """A question to the server: does the definition of this kind stand? The answer is true or false.

    While a definition goes, the server deletes all its objects, and nobody has wished for what follows from that.
    """

    kind: Kind


class IsGone(NamedTuple):
    """A question to the server: is there nothing at this address? A list can come back empty by mistake."""

    ref: Ref


class NamespaceIsActive(NamedTuple):
    """A question to the server: is this Namespace there, and not being deleted? One watch may be far behind another."""

    name: str


class OwnerAnnotation(NamedTuple):
    """A question to the server: what does an annotation of an object's owner say? Nothing is the empty text."""

    owner: OwnerReference | Ref
    """The owner; or the object itself, where it is not held, and its controller has to be found first."""
    namespace: str
    annotation: str


_APART = 0.8
"""The part of a refresh that must lie between two answers that there is nothing, before that is believed."""


class SecretPath(NamedTuple):
    """A question to the secret manager: what is at this path? The answer is a `Reading`, made anew now and then."""

    path: str
    every: float
    """In seconds. Where several ask for one path, it is read as often as the most impatient of them says."""
    optional: bool = False
    """True where it is no failure that there is nothing."""


class ReadError(NamedTuple):
    """Why a path could not be read the last time, as a condition says it. It never holds a value."""

    reason: Literal["TokenError", "ConnectionError", "FetchError"]
    message: str


@dataclass(frozen=True, slots=True)
class SecretReading:
    """What is known of a path: its last good value, and what was wrong the last time, if anything was."""

    value: bytes | None = field(default=None, repr=False)
    read_at: str = ""
    """When the value was last seen to be so, in UTC, as conditions have their times."""
    fault: ReadError | None = None
    not_found: bool = False
    """True where the manager said the last time that there is nothing at this path."""
    missing: float = 0.0
    """For how many seconds it has said so and nothing else; kept until there is a value, whatever it says later."""

    def is_absent(self, every: float) -> bool:
        """True where it has said so twice, a refresh of this length apart: each who asks counts by its own."""
        return self.missing > 0.0 and self.missing >= _APART * every


Query = str | SecretPath | DryRunCreate | CrdExists | IsGone | NamespaceIsActive | OwnerAnnotation
"""What a plan needs from outside the cache: a path in a secret manager, or the server's answer to a question."""
