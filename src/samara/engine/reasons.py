"""The reasons of Events: the type of each, and what it tells people."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Meaning(NamedTuple):
    type: Literal["Normal", "Warning"]
    words: str
    """As the manual says it."""


REASONS = {
    "Copied": Meaning("Normal", "copies were made"),
    "Updated": Meaning("Normal", "copies were put right, or made anew"),
    "Removed": Meaning("Normal", "copies were deleted, or given back without our marks"),
    "Conflict": Meaning("Warning", "the place belongs to somebody else, or to another source"),
    "Refused": Meaning(
        "Warning",
        "a kind, a Secret type or a namespace is denied; a SubNamespace cannot be served or deleted as things are; the "
        "server did not accept a write, or failed at it three times in a row",
    ),
    "NotAccepted": Meaning(
        "Warning",
        "the target namespace does not accept copies from the source's namespace; not with Secret copy",
    ),
    "Invalid": Meaning("Warning", "a name or a value on the source cannot be right"),
    "NoNamespace": Meaning("Warning", "the namespace of a FishySecret's target does not exist, or is being deleted"),
    "PathNotAllowed": Meaning(
        "Warning", "a FishySecret asks for a path that the settings do not let its namespace read"
    ),
    "TokenError": Meaning("Warning", "the configuration of the secret manager is missing or incomplete"),
    "ConnectionError": Meaning("Warning", "the configuration names a secret manager that cannot be used"),
    "FetchError": Meaning("Warning", "a path could not be read; the Secret stays as it is"),
    "Held": Meaning("Warning", "the brake holds removals, or the source or a namespace is paused"),
    "Fought": Meaning(
        "Warning",
        "somebody changes copies, or labels and annotations that a Namespace inherits, again and again; they are put "
        "back more seldom",
    ),
}
NORMAL = frozenset(reason for reason, meaning in REASONS.items() if meaning.type == "Normal")
"""What has happened, and needs nobody to do anything."""
