"""What a write changes in an object: which keys, and their sizes. Never a value."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from samara.core.desired import UNAVAILABLE, Template
from samara.core.metadata import merged, metadata_after_apply, released
from samara.core.model import ANNOTATIONS, LABELS, SECRET, Content, Field, Object
from samara.core.registry import Registry
from samara.core.writes import (
    Apply,
    Create,
    Delete,
    KeepAsOrphan,
    Recreate,
    Release,
    SetFinalizer,
    Update,
    Write,
    WriteStatus,
)
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


def changes(write: Write, registry: Registry) -> tuple[Change, ...]:
    before, after = _states(write, registry)
    return (
        *_contents(before.content, after.content, write.ref.kind == SECRET),
        *_words("label", before.labels, after.labels),
        *_words("annotation", before.annotations, after.annotations),
        *_others(write),
    )


def _others(write: Write) -> Iterator[Change]:
    if isinstance(write, SetFinalizer):
        yield Change("+" if write.add else "-", "finalizer", write.finalizer)
    elif isinstance(write, WriteStatus):
        yield Change("~", "status")


def _states(write: Write, registry: Registry) -> tuple[_State, _State]:
    match write:
        case Create(copy=copy):
            return _ABSENT, _new(copy.template)
        case Delete(live=live):
            return _now(live), _ABSENT
        case Update(copy=copy, live=live, key=key) | Recreate(copy=copy, live=live, key=key):
            ownership = registry[key.source_type].ownership
            words = (merged(where, copy.template, live, ownership) for where in (LABELS, ANNOTATIONS))
            return _now(live), _State(_new(copy.template).content, *words)
        case Release(live=live, key=key):
            source_type = registry[key.source_type]
            kept = released(live, source_type.ownership, source_type.source.metadata_keys)
            return _now(live), _State(live.content, *kept)
        case Apply(overlay=overlay, live=live):
            return _now(live), _State(live.content, *metadata_after_apply(overlay, live))
        case KeepAsOrphan(live=live) | SetFinalizer(live=live) | WriteStatus(live=live):
            return _now(live), _now(live)


def _now(live: Object) -> _State:
    return _State(live.content, live.labels, live.annotations)


def _new(template: Template) -> _State:
    content = Content() if template.content is UNAVAILABLE else template.content
    return _State(content, template.labels, template.annotations)


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
