"""Paths of secret managers: what may be asked for at all, whichever manager it is."""

from __future__ import annotations

import unicodedata

MARK = "#"
"""Parts a document from the field in it."""

_FORBIDDEN = "%?\\"
_UNSEEN = frozenset({"Cc", "Cs", "Zl", "Zp"})


def path_fault(path: str) -> str | None:
    """Why no manager is ever asked for this path, as words that follow the path; None for a legal one.

    Every part is plain text that means itself: nothing climbs, nothing is decoded, nothing ends a line.
    """
    return _characters(path) or _marks(path) or _segments(path)


def _characters(path: str) -> str | None:
    if any(unicodedata.category(char) in _UNSEEN for char in path):
        return "has a control character"
    found = next((char for char in path if char in _FORBIDDEN), None)
    return None if found is None else f"has a {found}, and paths are not encoded or escaped"


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
    climbing = next((each for each in segments if each in (".", "..")), None)
    return None if climbing is None else f"has the segment {climbing}"
