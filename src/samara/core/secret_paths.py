"""The form of a path in a secret manager: plain text that every manager reads the same way."""

from __future__ import annotations

import unicodedata

MARK = "#"
"""Separates the path of a document from a field in it."""

_FORBIDDEN = "%?\\"
_CONTROL_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})


def path_fault(path: str) -> str | None:
    """Why a path is refused, as a phrase that follows the path in a message. None for a legal path.

    A path with `..` or with encoded characters could mean another path to the manager than to the rule that allowed it.
    A control character could break a line of a request or of a log.
    """
    return _characters(path) or _marks(path) or _segments(path)


def _characters(path: str) -> str | None:
    if any(unicodedata.category(char) in _CONTROL_CATEGORIES for char in path):
        return "has a control character"
    forbidden = next((char for char in path if char in _FORBIDDEN), None)
    return None if forbidden is None else f"has a {forbidden}, and paths are not encoded or escaped"


def _marks(path: str) -> str | None:
    if path.count(MARK) > 1:
        return f"has more than one {MARK}"
    return f"ends in {MARK}, which a field must follow" if path.endswith(MARK) else None


def _segments(path: str) -> str | None:
    document, _, field = path.partition(MARK)
    if document in ("", "/"):
        return "names nothing"
    segments = [*document.removeprefix("/").split("/"), *(field.split("/") if field else ())]
    if "" in segments:
        return "has an empty segment: no slash may follow another one or end the path"
    dots = next((segment for segment in segments if segment in (".", "..")), None)
    return None if dots is None else f"has the segment {dots}"
