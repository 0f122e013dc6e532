"""AdmissionReview v1: decodes a review to a `Request`, and encodes the faults or edits of the vocabularies."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import msgspec

from samara.core.admission import Operation, PatchOperation, Refused, Request, Undecidable
from samara.core.model import NAMESPACE, Kind, Object, Ref
from samara.core.names import is_namespace_name, is_path_segment
from samara.core.registry import Registry
from samara.core.source_type import Admission, SourceType
from samara.kube.codec import MALFORMED, Codec, encode

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
_OPERATIONS: dict[str, Operation] = {operation: operation for operation in get_args(Operation)}
_ABSENT = (b"", b"null")
_EMPTY = (b'""', b"null")
MAX_FIELDS = 100
"""Most fields of an object besides those in them. The largest kinds have ten."""
MAX_METADATA_BYTES = 2 * 2**20
"""Any client that reaches the port can send a review. Decoding takes many times the memory of the bytes."""
MAX_OBJECT_BYTES = 3 * 2**20
"""The API server accepts no larger request."""
MAX_VALUES = 250_000
"""Most commas and opening brackets of an object outside its texts, so that it has at most this many values. The API
server's database has no room for a larger object with short keys and values."""
_text_in_json = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SIGNS = (b",", b"[", b"{")
_STATUSES = ((Undecidable, 500, "InternalError"), (Refused, 403, "Forbidden"), (str, 422, "Invalid"))
"""The status and reason for each class of fault, the gravest first. The gravest fault decides the answer."""
_LONGEST_PREFIX = 58
"""The API server cuts `generateName` to this length before it adds five characters."""
Json = dict[str, Any]


class MalformedError(ValueError):
    """The body is not the review that was expected. The message quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class GuardedKind:
    """A kind, and the source types that validate and default its objects."""

    kind: Kind
    source_types: tuple[SourceType, ...]

    @property
    def admissions(self) -> tuple[Admission, ...]:
        return tuple(source_type.admission for source_type in self.source_types if source_type.admission is not None)


GuardedKinds = Mapping[tuple[str, str, str], GuardedKind]
"""By group, version and name of the kind."""


@dataclass(frozen=True, slots=True)
class Review:
    """One admission request of the API server."""

    uid: str
    request: Request | None
    """None if no vocabulary guards this kind."""
    guarded: GuardedKind | None = None


def guarded_kinds(registry: Registry) -> GuardedKinds:
    """Every kind whose objects at least one source type validates or defaults."""
    guarding: dict[Kind, list[SourceType]] = {}
    for source_type in registry.source_types:
        for kind in source_type.admission.kinds if source_type.admission is not None else ():
            guarding.setdefault(kind, []).append(source_type)
    return {(kind.group, kind.version, kind.name): GuardedKind(kind, tuple(guarding[kind])) for kind in guarding}


# the request


class _Kind(msgspec.Struct):
    version: str
    kind: str
    group: str = ""


class _Request(msgspec.Struct):
    uid: str
    kind: _Kind
    operation: str
    name: str = ""
    namespace: str = ""
    object: msgspec.Raw = msgspec.Raw()
    oldObject: msgspec.Raw = msgspec.Raw()


class _Review(msgspec.Struct):
    apiVersion: str
    kind: str
    request: _Request


_review = msgspec.json.Decoder(_Review).decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode


def read_review(body: bytes, guarded: GuardedKinds, codec: Codec) -> Review:
    """Decodes a request body. The object in it has the version of the webhook's rules, to which the API server converts
    it."""
    try:
        review = _review(body)
        sent = review.request
        if (review.apiVersion, review.kind) != (API_VERSION, KIND) or not sent.uid:
            raise MalformedError(f"expected an {KIND} of {API_VERSION}")
        kind = guarded.get((sent.kind.group, sent.kind.version, sent.kind.kind))
        operation = _OPERATIONS.get(sent.operation)
        if kind is None or operation is None:
            return Review(sent.uid, None)
        return Review(sent.uid, _request(sent, operation, kind.kind, codec), kind)
    except MalformedError:
        raise
    except (*MALFORMED, LookupError, TypeError):  # their messages may quote values
        raise MalformedError(f"expected an {KIND} of {API_VERSION}, found something that cannot be read") from None


def _request(sent: _Request, operation: Operation, kind: Kind, codec: Codec) -> Request:
    new = _object(sent.object, sent, kind, codec)
    old = _object(sent.oldObject, sent, kind, codec)
    return Request(operation, new=new, old=old)


def is_too_large(raw: msgspec.Raw) -> bool:
    """True for an object that the API server would not store, and that would take much memory to decode. The bytes must
    be JSON."""
    if len(memoryview(raw)) > MAX_OBJECT_BYTES:
        return True
    text = bytes(raw)
    if _number_of_signs(text) <= MAX_VALUES:
        return False
    rest, texts = _text_in_json.subn(b"", text, count=2 * MAX_VALUES + 1)
    return texts > 2 * MAX_VALUES or _number_of_signs(rest) > MAX_VALUES  # a value comes with one key at most


def _number_of_signs(text: bytes) -> int:
    return sum(map(text.count, _SIGNS))


def _object(raw: msgspec.Raw, sent: _Request, kind: Kind, codec: Codec) -> Object | None:
    """The content stays as it was sent. Name and namespace come from the request if a new object lacks them."""
    if bytes(raw) in _ABSENT:
        return None
    larger = MalformedError("expected an object as the API server stores it, found a larger one")
    if is_too_large(raw):
        raise larger
    fields = _fields(raw)
    if len(fields) > MAX_FIELDS or len(memoryview(fields["metadata"])) > MAX_METADATA_BYTES:
        raise larger
    given = {key: value for key, value in _fields(fields["metadata"]).items() if bytes(value) not in _EMPTY}
    # The API server generates the name after admission: the prefix and five characters.
    prefix = _text(given["generateName"]) if "generateName" in given else ""
    name = sent.name or f"{prefix[:_LONGEST_PREFIX]}xxxxx"
    namespace = {"namespace": sent.namespace} if kind.namespaced else {}
    fields["metadata"] = msgspec.Raw(encode({"name": name, **namespace, **given}))
    return codec.object(kind, encode(fields))


def check_names(request: Request) -> None:
    """Raises for a name that no object can have. The API server validates names before it calls a validating webhook,
    so a review with such a name comes from another client."""
    refs = {obj.ref for obj in (request.new, request.old) if obj is not None}
    if not all(map(_is_possible, refs)):
        raise MalformedError(f"expected an {KIND} of an object with a valid name and namespace, found an invalid one")


def _is_possible(ref: Ref) -> bool:
    is_name = is_namespace_name if ref.kind == NAMESPACE else is_path_segment
    return is_name(ref.name) and (not ref.namespace or is_namespace_name(ref.namespace))


# the answer


def verdict(uid: str, faults: Iterable[str]) -> Json:
    """Allowed, or refused with all faults in one message."""
    faults = tuple(faults)
    if not faults:
        return _response(uid)
    code, reason = next(
        (code, reason) for kind, code, reason in _STATUSES if any(isinstance(fault, kind) for fault in faults)
    )
    status = {"status": "Failure", "code": code, "reason": reason, "message": _message(faults)}
    return _response(uid, allowed=False, status=status)


def _message(faults: tuple[str, ...]) -> str:
    """A single fault stays as it is, since people and scripts know its text. Several become one sentence each."""
    if len(faults) == 1:
        return str(faults[0])  # a plain str: msgspec encodes no subclass
    return ". ".join(fault.strip().rstrip(".") for fault in faults) + "."


def patch(uid: str, edits: Iterable[PatchOperation]) -> Json:
    """Allowed, with a JSON patch of the object before it is stored."""
    steps = [
        {"op": edit.op, "path": edit.path, **({} if edit.op == "remove" else {"value": edit.value})} for edit in edits
    ]
    if not steps:
        return _response(uid)
    return _response(uid, patchType="JSONPatch", patch=base64.b64encode(encode(steps)).decode())


def _response(uid: str, *, allowed: bool = True, **more: Any) -> Json:
    return {"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": uid, "allowed": allowed, **more}}
