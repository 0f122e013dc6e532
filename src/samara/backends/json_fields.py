"""Documents of JSON: fields as the manager wrote them, and the value that each is in a Secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from samara.backends.base import Absent, Unfit, bounded
from samara.core.match import shown
from samara.core.paths import MARK

_FAULTS = (msgspec.MsgspecError, UnicodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class JsonFields:
    """One object's fields."""

    fields: Mapping[str, msgspec.Raw] = field(repr=False)

    def value(self, field: str) -> bytes:
        """A string is its text; anything else is JSON without spaces, figures as they were written."""
        if field not in self.fields:
            raise Absent(f"there is no field {shown(field)}")
        raw = bytes(self.fields[field]).strip()
        try:
            found = msgspec.json.decode(raw).encode() if raw[:1] == b'"' else _compact(raw)
        except _FAULTS:
            raise Unfit(f"the field {shown(field)} is not text") from None
        return bounded(found)


@dataclass(frozen=True, slots=True)
class Text:
    """A document that is one value, or an object with a value per field."""

    content: bytes = field(repr=False)

    def value(self, field: str) -> bytes:
        """A field is the key of exactly this name or, where there is none, the end of a path with dots."""
        if not field:
            return bounded(self.content)
        top = _entries(self.content)
        if top is None:
            raise Unfit(f"expected a JSON object with the field {shown(field)}, found other content; leave out {MARK}…")
        *outer, last = (field,) if field in top else field.split(".")
        for name in outer:
            top = (_entries(top[name]) if name in top else None) or {}
        if last not in top:
            raise Absent(f"there is no field {shown(field)}")
        return JsonFields(top).value(last)


def _entries(content: bytes | msgspec.Raw) -> dict[str, msgspec.Raw] | None:
    try:
        return msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except _FAULTS:
        return None


def _compact(raw: bytes) -> bytes:
    compact = msgspec.json.format(raw, indent=-1)
    compact.decode()  # JSON is UTF-8, which is not checked while it is only passed on
    return compact
