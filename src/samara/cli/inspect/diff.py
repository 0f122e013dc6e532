"""What a write changes in an object: which keys, and their sizes. Never a value."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from samara.core.compare import merged, overlaid, released
from samara.core.model import ANNOTATIONS, LABELS, SECRET, Content, Field, Object
from samara.core.table import Table
from samara.core.want import KEEP, Copy
from samara.core.write import Apply, Create, Delete, Guard, Recreate, Release, Report, Spare, Update, Write
from samara.kube.codec import decode

_MAPS = ("data", "binaryData")
_OPEN = frozenset({"type", "immutable"})
"""Fields whose values are no secret."""

Words = Mapping[str, str]


class Change(NamedTuple):
    """One line of a diff. Sizes are in bytes; `detail` is for fields whose value may be shown."""

    sign: str
    field: str
    key: str = ""
    before: int | None = None
    after: int | None = None
    detail: str = ""

    def __str__(self) -> str:
        name = f"{self.field} {self.key}" if self.key else self.field
        sizes = [f"{size:,} byte{'' if size == 1 else 's'}" for size in (self.before, self.after) if size is not None]
        told = self.detail or " → ".join(sizes)
        return f"{self.sign} {name}{f': {told}' if told else ''}"

    def shape(self) -> dict[str, Any]:
        named = {"+": "added", "-": "removed", "~": "changed"}
        found = {"change": named[self.sign], **self._asdict()}
        return {name: value for name, value in found.items() if name != "sign" and value not in ("", None)}


class _State(NamedTuple):
    content: Content
    labels: Words
    annotations: Words


_ABSENT = _State(Content(), {}, {})


def changes(write: Write, table: Table) -> tuple[Change, ...]:
    before, after = _states(write, table)
    return (
        *_contents(before.content, after.content, write.ref.kind == SECRET),
        *_words("label", before.labels, after.labels),
        *_words("annotation", before.annotations, after.annotations),
        *_others(write),
    )


def _others(write: Write) -> Iterator[Change]:
    if isinstance(write, Guard):
        yield Change("+" if write.add else "-", "finalizer", write.finalizer)
    elif isinstance(write, Report):
        yield Change("~", "status")


def _states(write: Write, table: Table) -> tuple[_State, _State]:
    match write:
        case Create(copy=copy):
            return _ABSENT, _new(copy)
        case Delete(have=have):
            return _now(have), _ABSENT
        case Update(copy=copy, have=have, key=key) | Recreate(copy=copy, have=have, key=key):
            words = (merged(where, copy, have, table[key.dialect]) for where in (LABELS, ANNOTATIONS))
            return _now(have), _State(_new(copy).content, *words)
        case Release(have=have, key=key):
            return _now(have), _State(have.content, *released(have, table[key.dialect]))
        case Apply(overlay=overlay, have=have):
            return _now(have), _State(have.content, *overlaid(overlay, have))
        case Spare(have=have) | Guard(have=have) | Report(have=have):
            return _now(have), _now(have)


def _now(have: Object) -> _State:
    return _State(have.content, have.labels, have.annotations)


def _new(copy: Copy) -> _State:
    content = Content() if copy.content is KEEP else copy.content
    return _State(content, copy.labels, copy.annotations)


def _contents(before: Content, after: Content, coded: bool) -> Iterator[Change]:
    for name in sorted({each.name for each in (*before.fields, *after.fields)}):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if name in _MAPS:
            yield from _entries(name, _map(old), _map(new), coded or name == "binaryData")
        else:
            yield Change(_sign(old, new), name, detail=_values(old, new) if name in _OPEN else "")


def _map(field: Field | None) -> dict[str, str]:
    return dict(decode(field.raw) or {}) if field is not None and field.raw is not None else {}


def _values(old: Field | None, new: Field | None) -> str:
    shown = [str(decode(each.raw)) for each in (old, new) if each is not None and each.raw is not None]
    return " → ".join(shown)


def _sign(old: object | None, new: object | None) -> str:
    return "~" if old is not None and new is not None else "-" if new is None else "+"


def _entries(name: str, old: Words, new: Words, coded: bool) -> Iterator[Change]:
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            before, after = (_size(words.get(key), coded) for words in (old, new))
            yield Change(_sign(old.get(key), new.get(key)), name, key, before, after)


def _size(value: str | None, coded: bool) -> int | None:
    if value is None:
        return None
    try:
        return len(base64.b64decode(value)) if coded else len(value.encode())
    except (binascii.Error, ValueError):
        return len(value)


def _words(name: str, old: Words, new: Words) -> Iterator[Change]:
    """Keys only: an annotation's value can be a secret too."""
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            yield Change(_sign(old.get(key), new.get(key)), name, key)
