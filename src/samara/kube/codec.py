"""Bytes of the API server to values and back. Contents stay raw: what the server wrote is what is compared."""

from __future__ import annotations

import hashlib
import re
import secrets
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from samara.core.kinds import row
from samara.core.model import ANNOTATIONS, LABELS, MANAGER, NAMESPACE, Content, Field, Kind, Object, Owned, Owner, Ref

_ESCAPE = b"\\"
"""A string can be escaped in several ways, and the server's is not ours: such a field is compared decoded."""
_OUTSIDE_CONTENT = frozenset({"apiVersion", "kind", "metadata", "status"})
_DIGEST_SIZE = 16
ADMISSION = timedelta(seconds=30)
"""The longest that the server waits for an admission webhook."""
MALFORMED = (msgspec.DecodeError, ValueError, RecursionError)
"""Raised for bytes that are no JSON or no UTF-8, that are nested too deep, or that lack a field we need."""
MAX_DEPTH = 64
"""Levels that `truncate_deep_json` keeps. Metadata lies much higher."""
_CUT = b'"cut-%s"' % secrets.token_hex(16).encode()
"""Replaces what was cut out. Nothing outside this process can write it."""
_has_cut = re.compile(re.escape(_CUT)).search
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)
_OPENING, _CLOSING = frozenset(b"[{"), frozenset(b"]}")


class _Address(msgspec.Struct):
    """Bookmarks have no name, and errors in a stream not even a version."""

    name: str = ""
    resourceVersion: str = ""
    namespace: str = ""


class _Slim(msgspec.Struct):
    metadata: _Address


class RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _OwnerReference(msgspec.Struct):
    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None


class _OwnedMetadata(msgspec.Struct):
    labels: dict[str, msgspec.Raw] = msgspec.field(name="f:labels", default_factory=dict)
    annotations: dict[str, msgspec.Raw] = msgspec.field(name="f:annotations", default_factory=dict)


class _OwnedFields(msgspec.Struct):
    metadata: _OwnedMetadata | None = msgspec.field(name="f:metadata", default=None)


class _ManagedFields(msgspec.Struct):
    manager: str = ""
    operation: str = ""
    time: str = ""
    subresource: str = ""
    fieldsV1: _OwnedFields | None = None


class _Metadata(msgspec.Struct):
    name: str
    uid: str = ""
    resourceVersion: str = "0"
    namespace: str = ""
    creationTimestamp: str | None = None
    generation: int = 0
    deletionTimestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    ownerReferences: list[_OwnerReference] | None = None
    managedFields: list[_ManagedFields] | None = None


slim = msgspec.json.Decoder(_Slim).decode
raw_event = msgspec.json.Decoder(RawEvent).decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_metadata = msgspec.json.Decoder(_Metadata).decode
encode = msgspec.json.Encoder(enc_hook=dict).encode  # a copy's labels may be any mapping
decode = msgspec.json.Decoder().decode


def version_of(raw: bytes) -> int:
    """The version of an object, without decoding the rest of it."""
    return int(slim(raw).metadata.resourceVersion)


class Words(dict[str, str]):
    """Labels or annotations that all objects with the same ones share."""

    __slots__ = ("__weakref__",)


_NONE: frozenset[Owned] = frozenset()


class Codec:
    """Decodes objects and interns what they have in common. The digest's key lives as long as the process."""

    def __init__(self, managers: frozenset[str]) -> None:
        self._managers = managers
        self._key = secrets.token_bytes(32)
        self._contents: WeakValueDictionary[tuple[Field, ...], Content] = WeakValueDictionary()
        self._known: WeakValueDictionary[tuple[str, bytes], Field] = WeakValueDictionary()
        self._words: WeakValueDictionary[frozenset[tuple[str, str]], Words] = WeakValueDictionary()
        self._keys: WeakValueDictionary[tuple[Owned, ...], frozenset[Owned]] = WeakValueDictionary()

    def object(self, kind: Kind, raw: bytes | msgspec.Raw) -> Object:
        """One object as the server wrote it."""
        fields = _fields(raw)
        meta = _metadata(fields["metadata"])
        status = fields.get("status")
        ours, applied, made = self._record(meta)
        return Object(
            ref=Ref(kind, sys.intern(meta.namespace), sys.intern(meta.name)),
            uid=meta.uid,
            version=int(meta.resourceVersion),
            content=self._content(_without_own(kind, fields)),
            labels=self._shared(meta.labels),
            annotations=self._shared(meta.annotations),
            created=sys.intern(meta.creationTimestamp or ""),
            generation=meta.generation,
            owners=tuple(_owner(each) for each in meta.ownerReferences or ()),
            finalizers=tuple(meta.finalizers or ()),
            deleting=meta.deletionTimestamp is not None,
            ours=ours,
            applied=applied,
            made=made,
            editor=self._editor(meta),
            status=None if status is None or kind == NAMESPACE else self._field("status", status),
        )

    def content(self, fields: Mapping[str, Any]) -> Content:
        """Content that we build ourselves, with its keys in the server's order."""
        return self._content({name: msgspec.Raw(msgspec.json.encode(fields[name], order="sorted")) for name in fields})

    def _content(self, fields: Mapping[str, msgspec.Raw]) -> Content:
        picked = tuple(self._field(name, fields[name]) for name in sorted(fields) if name not in _OUTSIDE_CONTENT)
        return self._contents.setdefault(picked, Content(picked))

    def _field(self, name: str, raw: msgspec.Raw) -> Field:
        same = encode(decode(raw)) if _ESCAPE in bytes(raw) else raw
        digest = hashlib.blake2b(same, digest_size=_DIGEST_SIZE, key=self._key).digest()
        known = self._known.get((name, digest))
        if known is None:
            known = self._known[name, digest] = Field(sys.intern(name), digest, bytes(raw))
        return known

    def _shared(self, words: dict[str, str] | None) -> Words:
        same = frozenset(words.items()) if words else frozenset()
        return self._words.setdefault(same, Words(words or {}))

    def _record(self, meta: _Metadata) -> tuple[frozenset[Owned], frozenset[Owned], bool]:
        """What the server's managedFields attribute to us or to an original's manager."""
        created = meta.creationTimestamp or ""
        entries = [
            each
            for each in meta.managedFields or ()
            if each.manager in self._managers and not each.subresource and not _is_older(each.time, created)
        ]
        applied = [each for each in entries if each.operation == "Apply"]
        return self._owned(entries), self._owned(applied), any(each.manager == MANAGER for each in entries)

    def _editor(self, meta: _Metadata) -> str:
        """Who else wrote last. The server notes whole seconds: all who wrote in the last one are named."""
        entries = meta.managedFields or ()
        last = max((each.time for each in entries), default="")
        others = {each.manager for each in entries if each.time == last} - self._managers
        return sys.intern(" or ".join(sorted(others)))

    def _owned(self, entries: list[_ManagedFields]) -> frozenset[Owned]:
        if not entries:
            return _NONE
        if len(entries) == 1:
            return _keys(entries[0])
        keys = _NONE.union(*map(_keys, entries))
        return self._keys.setdefault(tuple(sorted(keys)), keys)


def _keys(entry: _ManagedFields) -> frozenset[Owned]:
    """The labels and annotations that one entry of the record attributes to its manager."""
    meta = entry.fieldsV1.metadata if entry.fieldsV1 is not None else None
    return _NONE if meta is None else _of_manager(entry.manager, tuple(meta.labels), tuple(meta.annotations))


@lru_cache(maxsize=1024)
def _of_manager(manager: str, labels: tuple[str, ...], annotations: tuple[str, ...]) -> frozenset[Owned]:
    """Nearly all of our copies have the same keys."""
    found = ((LABELS, labels), (ANNOTATIONS, annotations))
    return frozenset(Owned(manager, where, key[2:]) for where, keys in found for key in keys if key != ".")


def _without_own(kind: Kind, fields: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """Leaves out what the server gave to this one object, as a Service's address."""
    for name, take_out in row(kind).own.items():
        left = take_out(decode(fields.pop(name))) if name in fields else None
        if left is not None:
            fields[name] = msgspec.Raw(encode(left))
    return fields


def _is_older(time: str, created: str) -> bool:
    """True where a record is older than its object, as in a restored one.

    The server notes who wrote before it asks admission, and the creation after: our own record can be a little older.
    """
    if time >= created:
        return False
    try:
        return datetime.fromisoformat(created) - datetime.fromisoformat(time) > ADMISSION
    except (ValueError, TypeError):  # an entry that somebody wrote without a time, or with an odd one, proves nothing
        return True


def _owner(each: _OwnerReference) -> Owner:
    return Owner(each.apiVersion, each.kind, each.name, each.uid, each.controller, each.blockOwnerDeletion)


def body(ref: Ref, content: Content, metadata: Mapping[str, Any], **more: object) -> bytes:
    """One object to send; the raw fields of the content go out as they came in."""
    head: dict[str, Any] = {
        "apiVersion": ref.kind.api_version,
        "kind": ref.kind.name,
        "metadata": {"name": ref.name, **({"namespace": ref.namespace} if ref.namespace else {}), **metadata},
    }
    for each in content.fields:
        assert each.raw is not None, "sealed content is for comparison only"
        head[each.name] = msgspec.Raw(each.raw)
    return encode(head | more)


def with_kept(kind: Kind, sent: bytes, there: bytes) -> bytes:
    """What is sent in place of an object, with what the server gave to that one."""
    fields, old = _fields(sent), _fields(there)
    for name, keep in row(kind).kept.items():
        value = keep(*(decode(each.pop(name)) if name in each else None for each in (fields, old)))
        if value is not None:
            fields[name] = msgspec.Raw(encode(value))
    return encode(fields)


def owner_references(owners: Iterable[Owner]) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": each.api_version,
            "kind": each.kind,
            "name": each.name,
            "uid": each.uid,
            **({} if each.controller is None else {"controller": each.controller}),
            **({} if each.block_owner_deletion is None else {"blockOwnerDeletion": each.block_owner_deletion}),
        }
        for each in owners
    ]


def truncate_deep_json(raw: bytes) -> bytes:
    """The same JSON without anything nested deeper than `MAX_DEPTH`.

    How deep a decoder goes depends on the interpreter. Without this, one such object would end the watch of its kind.
    """
    kept, depth, start = list[bytes](), 0, 0
    for token in _TOKEN.finditer(raw):
        char = raw[token.start()]
        if char in _OPENING:
            depth += 1
            if depth == MAX_DEPTH + 1:
                kept += (raw[start : token.start()], _CUT)
        elif char in _CLOSING:
            if depth == MAX_DEPTH + 1:
                start = token.end()
            depth -= 1
    return b"".join((*kept, raw[start:])) if depth <= MAX_DEPTH else b""


def is_truncated(raw: bytes | msgspec.Raw) -> bool:
    """True if `truncate_deep_json` cut something out of these bytes."""
    return _has_cut(raw) is not None
