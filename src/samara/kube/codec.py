"""Converts between the API server's JSON and `Object`. Content stays raw, to compare exactly what was stored."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from samara.core.kinds import rules_for
from samara.core.model import (
    ANNOTATIONS,
    FIELD_MANAGER,
    LABELS,
    NAMESPACE,
    Content,
    Field,
    Kind,
    ManagedKey,
    Object,
    OwnerReference,
    Ref,
)

_ESCAPE = b"\\"
"""A string can be escaped in several ways, so a field with an escape is decoded and encoded again to be compared."""
_OUTSIDE_CONTENT = frozenset({"apiVersion", "kind", "metadata", "status"})
_DIGEST_SIZE = 16
_MAX_ADMISSION = timedelta(seconds=30)
"""The longest timeout of an admission webhook that the API server accepts."""
MOST_ABSENT_KEYS = 256
"""An entry of managedFields with more keys counts only for those that the object has. Clients can write any entry."""
_MOST_EDITORS = 5
_MOST_TEXTS = 2**14
MALFORMED = (msgspec.DecodeError, ValueError, RecursionError)
"""Raised for bytes that are no JSON or no UTF-8, that are nested too deep, or that lack a field we need."""
MAX_DEPTH = 64
"""Levels that `truncate_deep_json` keeps. Metadata is nested less deep."""
_CUT = b'"cut-%s"' % secrets.token_hex(16).encode()
"""Replaces a part that was cut out. It is random, so that no client can write it."""
_has_cut = re.compile(re.escape(_CUT)).search
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)
_OPENING, _CLOSING = frozenset(b"[{"), frozenset(b"]}")


_NO_METADATA = msgspec.Raw(b"{}")


class _Address(msgspec.Struct):
    """All fields have defaults: a bookmark has no name, and an error in a stream not even a version."""

    name: str = ""
    resourceVersion: str = ""
    namespace: str = ""
    labels: msgspec.Raw = _NO_METADATA
    annotations: msgspec.Raw = _NO_METADATA


class _Addressed(msgspec.Struct):
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


decode_address = msgspec.json.Decoder(_Addressed).decode
keys_of = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode
"""Decodes the keys of labels or annotations, and none of their values."""
raw_event = msgspec.json.Decoder(RawEvent).decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_metadata = msgspec.json.Decoder(_Metadata).decode
encode = msgspec.json.Encoder(enc_hook=dict).encode  # the labels of a copy may be any mapping
decode = msgspec.json.Decoder().decode


def version_of(raw: bytes) -> int:
    """The resource version of an object; nothing else is decoded."""
    return int(decode_address(raw).metadata.resourceVersion)


class _Texts(dict[str, str]):
    """Returns the same string for equal ones. It begins anew when it is full, because clients choose what is in it.

    `sys.intern` frees no string on Python 3.12, and `lru_cache` takes twice the memory.
    """

    def __missing__(self, text: str) -> str:
        if len(self) == _MOST_TEXTS:
            self.clear()
        self[text] = text
        return text


_shared_text = _Texts().__getitem__


class Metadata(dict[str, str]):
    """Labels or annotations. Objects with equal ones share one instance."""

    __slots__ = ("__weakref__",)


_NO_KEYS: frozenset[ManagedKey] = frozenset()


class Codec:
    """Decodes objects, and interns what they have in common to save memory.

    Digests of content are keyed. The key lives as long as the process, so that a digest that leaks cannot be
    used to guess a value.
    """

    def __init__(self, managers: frozenset[str]) -> None:
        self._managers = managers
        self._key = secrets.token_bytes(32)
        self._shared_contents: WeakValueDictionary[tuple[Field, ...], Content] = WeakValueDictionary()
        self._shared_fields: WeakValueDictionary[tuple[str, bytes], Field] = WeakValueDictionary()
        self._shared_metadata: WeakValueDictionary[tuple[str, ...], Metadata] = WeakValueDictionary()
        """By all keys, in the order of the API server, and then all values: smaller than a set of pairs."""
        # Weak, like the others: any client that can write an object decides what its managedFields list.
        self._shared_keys: WeakValueDictionary[tuple[ManagedKey, ...], frozenset[ManagedKey]] = WeakValueDictionary()

    def object(self, kind: Kind, raw: bytes | msgspec.Raw) -> Object:
        """Decodes one object of the API server."""
        fields = _fields(raw)
        meta = _metadata(fields["metadata"])
        status = fields.get("status")
        entries = self._our_entries(meta)
        applied = [entry for entry in entries if entry.operation == "Apply"]
        written = any(entry.manager == FIELD_MANAGER for entry in entries)
        return Object(
            ref=Ref(kind, _shared_text(meta.namespace), _shared_text(meta.name)),
            uid=meta.uid,
            resource_version=int(meta.resourceVersion),
            content=self._content(_strip_own_fields(kind, fields)),
            labels=self._share_labels(kind, meta.labels),
            annotations=self._share(meta.annotations),
            created=_shared_text(meta.creationTimestamp or ""),
            generation=meta.generation,
            owner_references=tuple(map(_owner, meta.ownerReferences or ())),
            finalizers=tuple(meta.finalizers or ()),
            deleting=meta.deletionTimestamp is not None,
            managed_keys=self._managed_keys(meta, entries),
            applied_keys=self._managed_keys(meta, applied),
            written=written,
            known_copy=written,
            last_manager=self._last_manager(meta),
            status=None if status is None or kind == NAMESPACE else self._field("status", status),
        )

    def content(self, fields: Mapping[str, Any]) -> Content:
        """Content that we build ourselves. Its keys are sorted, as the API server sorts them."""
        return self._content({name: msgspec.Raw(msgspec.json.encode(fields[name], order="sorted")) for name in fields})

    def _content(self, fields: Mapping[str, msgspec.Raw]) -> Content:
        picked = tuple(self._field(name, fields[name]) for name in sorted(fields) if name not in _OUTSIDE_CONTENT)
        return self._shared_contents.setdefault(picked, Content(picked))

    def _field(self, name: str, raw: msgspec.Raw) -> Field:
        normal = encode(decode(raw)) if _ESCAPE in bytes(raw) else raw
        digest = hashlib.blake2b(normal, digest_size=_DIGEST_SIZE, key=self._key).digest()
        field = self._shared_fields.get((name, digest))
        if field is None:
            field = self._shared_fields[name, digest] = Field(_shared_text(name), digest, bytes(raw))
        return field

    def _share_labels(self, kind: Kind, labels: dict[str, str] | None) -> Metadata:
        """A Namespace has a label with its own name, so no other object has equal ones."""
        return Metadata(labels or {}) if kind == NAMESPACE else self._share(labels)

    def _share(self, metadata: dict[str, str] | None) -> Metadata:
        metadata = metadata or {}
        return self._shared_metadata.setdefault((*metadata, *metadata.values()), Metadata(metadata))

    def _our_entries(self, meta: _Metadata) -> list[_ManagedFields]:
        """The entries of managedFields that say what our managers wrote into this object."""
        created = meta.creationTimestamp or ""
        return [
            entry
            for entry in meta.managedFields or ()
            if entry.manager in self._managers and not entry.subresource and not _is_older(entry.time, created)
        ]

    def _last_manager(self, meta: _Metadata) -> str:
        """The manager that wrote last, unless it is ours. managedFields have times in seconds, so it may be several."""
        entries = meta.managedFields or ()
        last = max((entry.time for entry in entries), default="")
        others = {entry.manager for entry in entries if entry.time == last} - self._managers
        return _shared_text(" or ".join(sorted(others)[:_MOST_EDITORS]))

    def _managed_keys(self, meta: _Metadata, entries: list[_ManagedFields]) -> frozenset[ManagedKey]:
        """The labels and annotations that entries of managedFields attribute to their managers. Nearly all copies have
        the same, so they share one set."""
        keys = [key for entry in entries for key in _keys_of_entry(meta, entry)]
        if not keys:
            return _NO_KEYS
        listed = tuple(keys)
        shared = self._shared_keys.get(listed)
        return self._shared_keys.setdefault(listed, frozenset(keys)) if shared is None else shared


def _keys_of_entry(meta: _Metadata, entry: _ManagedFields) -> Iterator[ManagedKey]:
    """The labels and annotations that one entry of managedFields attributes to its manager."""
    owned = entry.fieldsV1.metadata if entry.fieldsV1 is not None else None
    if owned is None:
        return
    is_bounded = len(owned.labels) + len(owned.annotations) <= MOST_ABSENT_KEYS
    fields = ((LABELS, owned.labels, meta.labels), (ANNOTATIONS, owned.annotations, meta.annotations))
    for where, names, present in fields:
        for name in names:
            key = name[2:]  # written as `f:key`; a dot stands for the map itself
            if name != "." and (is_bounded or key in (present or ())):
                yield ManagedKey(entry.manager, where, key)


def _strip_own_fields(kind: Kind, fields: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """Removes what the API server assigned to this one object, such as the IP address of a Service."""
    for name, strip in rules_for(kind).strip_own_fields.items():
        rest = strip(decode(fields.pop(name))) if name in fields else None
        if rest is not None:
            fields[name] = msgspec.Raw(encode(rest))
    return fields


def _is_older(time: str, created: str) -> bool:
    """True if an entry of managedFields is older than its object, as in an object restored from a backup.

    The API server sets the time of the entry before admission and creationTimestamp after it, so a genuine entry may be
    older by the time that admission takes.
    """
    if time >= created:
        return False
    try:
        return datetime.fromisoformat(created) - datetime.fromisoformat(time) > _MAX_ADMISSION
    except (ValueError, TypeError):  # an entry with a missing or malformed time proves nothing
        return True


def _owner(ref: _OwnerReference) -> OwnerReference:
    return OwnerReference(ref.apiVersion, ref.kind, ref.name, ref.uid, ref.controller, ref.blockOwnerDeletion)


def body(ref: Ref, content: Content, metadata: Mapping[str, Any], **more: object) -> bytes:
    """The JSON of an object to send. The fields of the content are sent as they were received."""
    head: dict[str, Any] = {
        "apiVersion": ref.kind.api_version,
        "kind": ref.kind.name,
        "metadata": {"name": ref.name, **({"namespace": ref.namespace} if ref.namespace else {}), **metadata},
    }
    for part in content.fields:
        assert part.raw is not None, "sealed content is for comparison only"
        head[part.name] = msgspec.Raw(part.raw)
    return encode(head | more)


def restore_own_fields(kind: Kind, sent: bytes, existing: bytes) -> bytes:
    """The object to send, with the fields that the API server assigned to the existing one."""
    fields, old = _fields(sent), _fields(existing)
    for name, restore in rules_for(kind).restore_own_fields.items():
        value = restore(*(decode(part.pop(name)) if name in part else None for part in (fields, old)))
        if value is not None:
            fields[name] = msgspec.Raw(encode(value))
    return encode(fields)


def owner_references(owners: Iterable[OwnerReference]) -> list[dict[str, Any]]:
    """The value of `metadata.ownerReferences`."""
    return [
        {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid,
            **({} if owner.controller is None else {"controller": owner.controller}),
            **({} if owner.block_owner_deletion is None else {"blockOwnerDeletion": owner.block_owner_deletion}),
        }
        for owner in owners
    ]


def truncate_deep_json(raw: bytes) -> bytes:
    """The same JSON without anything nested deeper than `MAX_DEPTH`.

    The depth at which the decoder fails depends on the interpreter. One object that is nested too deep would otherwise
    end the watch of its kind.
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
