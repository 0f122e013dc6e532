"""Lists the keys that a write changes in an object, and their sizes. Never a value."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from samara.core.model import SECRET, Content, Field, Object
from samara.core.registry import Registry
from samara.core.simulate import NAME_LABEL, simulate_write
from samara.core.writes import Create, Delete, SetFinalizer, Write, WriteStatus
from samara.kube.codec import decode

_MAPS = ("data", "binaryData")
_PUBLIC = frozenset({"type", "immutable"})
"""Fields whose values are no secret."""
_CHANGES = {"+": "added", "-": "removed", "~": "changed"}


class Change(NamedTuple):
    """One line of a diff. Sizes are in bytes. `detail` has the values of a field whose values are no secret."""

    sign: str
    field: str
    key: str = ""
    before: int | None = None
    after: int | None = None
    detail: str = ""

    def __str__(self) -> str:
        name = f"{self.field} {self.key}" if self.key else self.field
        sizes = [f"{size:,} byte{'' if size == 1 else 's'}" for size in (self.before, self.after) if size is not None]
        detail = self.detail or " → ".join(sizes)
        return f"{self.sign} {name}{f': {detail}' if detail else ''}"

    def as_json(self) -> dict[str, Any]:
        values = {"change": _CHANGES[self.sign], **self._asdict()}
        return {name: value for name, value in values.items() if name != "sign" and value not in ("", None)}


def changes(write: Write, registry: Registry) -> tuple[Change, ...]:
    """Compares the object before a write with the object after it."""
    before = None if isinstance(write, Create) else write.live
    # A simulated deletion leaves an object with a finalizer. The diff shows the object as gone.
    after = None if isinstance(write, Delete) else simulate_write(write, registry[write.key.source_type], now="")
    return (
        *_content_changes(_content(before), _content(after), is_secret=write.ref.kind == SECRET),
        *_metadata_changes("label", _labels(before), _labels(after)),
        *_metadata_changes("annotation", _annotations(before), _annotations(after)),
        *_other_changes(write),
    )


def _content(obj: Object | None) -> Content:
    return Content() if obj is None else obj.content


def _labels(obj: Object | None) -> Mapping[str, str]:
    """The labels, without the one that the API server sets on every Namespace."""
    return {} if obj is None else {key: value for key, value in obj.labels.items() if key != NAME_LABEL}


def _annotations(obj: Object | None) -> Mapping[str, str]:
    return {} if obj is None else obj.annotations


def _other_changes(write: Write) -> Iterator[Change]:
    if isinstance(write, SetFinalizer):
        yield Change("+" if write.add else "-", "finalizer", write.finalizer)
    elif isinstance(write, WriteStatus):
        yield Change("~", "status")


def _content_changes(before: Content, after: Content, *, is_secret: bool) -> Iterator[Change]:
    for name in sorted({field.name for field in (*before.fields, *after.fields)}):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if name in _MAPS:
            yield from _entry_changes(name, _decoded(old), _decoded(new), is_base64=is_secret or name == "binaryData")
        else:
            yield Change(_sign(old, new), name, detail=_values(old, new) if name in _PUBLIC else "")


def _decoded(field: Field | None) -> dict[str, str]:
    return dict(decode(field.raw) or {}) if field is not None and field.raw is not None else {}


def _values(old: Field | None, new: Field | None) -> str:
    values = [str(decode(field.raw)) for field in (old, new) if field is not None and field.raw is not None]
    return " → ".join(values)


def _sign(old: object | None, new: object | None) -> str:
    return "~" if old is not None and new is not None else "-" if new is None else "+"


def _entry_changes(
    name: str, before: Mapping[str, str], after: Mapping[str, str], *, is_base64: bool
) -> Iterator[Change]:
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old != new:
            yield Change(_sign(old, new), name, key, _size(old, is_base64), _size(new, is_base64))


def _size(value: str | None, is_base64: bool) -> int | None:
    if value is None:
        return None
    try:
        return len(base64.b64decode(value)) if is_base64 else len(value.encode())
    except (binascii.Error, ValueError):
        return len(value)


def _metadata_changes(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    """Keys only: an annotation's value can be a secret too."""
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            yield Change(_sign(before.get(key), after.get(key)), name, key)
