"""Queries that the cache cannot answer, to the API server or to a secret manager. A plan waits for the answers."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, NamedTuple

from samara.core.model import Kind, Object, OwnerReference, Ref


class Unread(Enum):
    UNREAD = "unread"


UNREAD: Final = Unread.UNREAD
"""The answer of `View.answer` for a query that has not been answered yet."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class DryRunCreate:
    """What would the API server store for this object? Asked by a dry run, once per object.

    The answer is a `Content` or `Rejected`.
    """

    kind: Kind
    body: bytes = field(repr=False)
    """The object as compact JSON with sorted keys, without name and namespace."""


class Rejected(NamedTuple):
    """The answer to a dry run if the API server refuses the object."""

    message: str
    is_about_object: bool = True
    """False if the message may quote a quota or a policy of the namespace in which the dry run took place."""


class CrdExists(NamedTuple):
    """Does the CRD of this kind exist, and is it not being deleted? The answer is true or false.

    When a CRD is deleted, the API server deletes all its objects. That is not a request to delete their copies.
    """

    kind: Kind


class IsGone(NamedTuple):
    """Is there no object at this address? The answer is true or false. A list can come back empty by mistake."""

    ref: Ref


class NamespaceIsActive(NamedTuple):
    """Does this Namespace exist, and is it not being deleted? The answer is true or false.

    Asked because one watch may be far behind another.
    """

    name: str


class OwnerAnnotation(NamedTuple):
    """What is the value of an annotation on an object's owner? The answer is a text, empty if there is none."""

    owner: OwnerReference | Ref
    """The owner; or the object itself, if the cache does not hold it. Then its controller is looked up first."""
    namespace: str
    annotation: str


FIELD_SEPARATOR = "#"
"""In a path of a secret manager: separates the path of a document from a field in it."""
_FORBIDDEN = "%?\\"
_CONTROL_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_MIN_ABSENCE = 0.8
"""In refresh intervals: a secret counts as absent if all reads over this time found nothing."""


class SecretPath(NamedTuple):
    """What is at this path of the secret manager? The answer is a `SecretReading`, renewed at an interval."""

    path: str
    every: float
    """Seconds between two reads. If several sources ask for one path, the shortest interval counts."""
    optional: bool = False
    """True if an absent secret is not a failure."""


class ReadError(NamedTuple):
    """Why the last read of a path failed, in the words of a condition. It never holds a value."""

    reason: Literal["TokenError", "ConnectionError", "FetchError", "LimitExceeded"]
    message: str


@dataclass(frozen=True, slots=True)
class SecretReading:
    """The state of a path: its last good value, and the failure of the last read, if it failed."""

    value: bytes | None = field(default=None, repr=False)
    read_at: str = ""
    """When the value was last read, in UTC, in the format of conditions."""
    fault: ReadError | None = None
    not_found: bool = False
    """True if the last read found nothing at this path."""
    absent_for: float = 0.0
    """For how many seconds every read has found nothing. Kept until there is a value, also when a later read fails."""

    def is_absent(self, every: float) -> bool:
        """True if two reads, about one refresh interval apart, found nothing. Each source has its own interval."""
        return self.absent_for > 0.0 and self.absent_for >= _MIN_ABSENCE * every


Query = SecretPath | DryRunCreate | CrdExists | IsGone | NamespaceIsActive | OwnerAnnotation
"""What a plan can ask besides the cache."""


def deletion_queries(ref: Ref, resource: Object | None) -> tuple[Query, ...]:
    """What must be true before the deletion of a custom resource may have an effect on copies.

    Its CRD exists, and a resource that is missing in the cache is really gone. Nothing is asked about a
    resource that is there and not being deleted.
    """
    if resource is None:
        return CrdExists(ref.kind), IsGone(ref)
    return (CrdExists(ref.kind),) if resource.deleting else ()


def path_fault(path: str) -> str | None:
    """Why a path of a secret manager is refused, as a phrase that follows the path in a message. None for a legal path.

    A path with `..` or with encoded characters could mean another path to the manager than to the rule that allowed it.
    A control character could break a line of a request or of a log.
    """
    return _characters(path) or _separators(path) or _segments(path)


def _characters(path: str) -> str | None:
    if any(unicodedata.category(char) in _CONTROL_CATEGORIES for char in path):
        return "has a control character"
    forbidden = next((char for char in path if char in _FORBIDDEN), None)
    return None if forbidden is None else f"has a {forbidden}, and paths are not encoded or escaped"


def _separators(path: str) -> str | None:
    if path.count(FIELD_SEPARATOR) > 1:
        return f"has more than one {FIELD_SEPARATOR}"
    return f"ends in {FIELD_SEPARATOR}, which a field must follow" if path.endswith(FIELD_SEPARATOR) else None


def _segments(path: str) -> str | None:
    document, _, field = path.partition(FIELD_SEPARATOR)
    if document in ("", "/"):
        return "names nothing"
    segments = [*document.removeprefix("/").split("/"), *(field.split("/") if field else ())]
    if "" in segments:
        return "has an empty segment: no slash may follow another one or end the path"
    dots = next((segment for segment in segments if segment in (".", "..")), None)
    return None if dots is None else f"has the segment {dots}"
