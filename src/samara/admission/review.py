"""AdmissionReview v1 to a `Request` that dialects understand, and their faults or edits back to one answer."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import msgspec

from samara.core.admit import Edit, Forbidden, Operation, Request, Undecided
from samara.core.model import Kind, Object
from samara.core.table import Table
from samara.core.want import Dialect
from samara.kube.codec import MALFORMED, Codec, encode

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
_OPERATIONS: dict[str, Operation] = {each: each for each in get_args(Operation)}
_ABSENT = (b"", b"null")
_STATUS = ((Undecided, 500, "InternalError"), (Forbidden, 403, "Forbidden"), (str, 422, "Invalid"))
"""Of several faults the gravest gives the answer its status."""


class MalformedError(ValueError):
    """The body is no review; says so without a word of the body."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A kind, and the dialects that judge its changes."""

    kind: Kind
    dialects: tuple[Dialect, ...]


Guards = Mapping[tuple[str, str, str], Guard]
"""By group, version and name of the kind."""


@dataclass(frozen=True, slots=True)
class Review:
    """One question of the API server."""

    uid: str
    request: Request | None
    """None where nobody judges this kind."""
    guard: Guard | None = None


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
_metadata = msgspec.json.Decoder(dict[str, Any]).decode


def guards_of(table: Table) -> Guards:
    """Every kind that is guarded, with all dialects that have something to say about it."""
    found: dict[Kind, list[Dialect]] = {}
    for dialect in table.dialects:
        for kind in dialect.guarded if dialect.admit is not None or dialect.mutate is not None else ():
            found.setdefault(kind, []).append(dialect)
    return {(kind.group, kind.version, kind.name): Guard(kind, tuple(judges)) for kind, judges in found.items()}


def read_review(body: bytes, guards: Guards, codec: Codec) -> Review:
    """The kind is that of the object as it was sent to us: the server converts it to a version that we guard."""
    try:
        review = _review(body)
        asked = review.request
        if (review.apiVersion, review.kind) != (API_VERSION, KIND) or not asked.uid:
            raise MalformedError(f"expected an {KIND} of {API_VERSION}")
        guard = guards.get((asked.kind.group, asked.kind.version, asked.kind.kind))
        operation = _OPERATIONS.get(asked.operation)
        if guard is None or operation is None:
            return Review(asked.uid, None)
        return Review(asked.uid, _request(asked, operation, guard.kind, codec), guard)
    except MalformedError:
        raise
    except (*MALFORMED, LookupError, TypeError):  # their messages may quote what they found
        raise MalformedError(f"expected an {KIND} of {API_VERSION}, found something that cannot be read") from None


def _request(asked: _Request, operation: Operation, kind: Kind, codec: Codec) -> Request:
    return Request(
        operation,
        new=_object(asked.object, asked, kind, codec),
        old=_object(asked.oldObject, asked, kind, codec),
    )


def _object(raw: msgspec.Raw, asked: _Request, kind: Kind, codec: Codec) -> Object | None:
    """The content stays as it came; only what a new object may lack is added to its metadata."""
    if bytes(raw) in _ABSENT:
        return None
    fields = _fields(raw)
    meta = _metadata(fields["metadata"])
    given = {key: value for key, value in meta.items() if value not in ("", None)}
    # A name that is still to be made will be like this one.
    name = asked.name or f"{meta.get('generateName') or ''}xxxxx"
    home = {"namespace": asked.namespace} if kind.namespaced else {}
    fields["metadata"] = msgspec.Raw(encode({"name": name, **home, **given}))
    return codec.object(kind, encode(fields))


def answer(uid: str, faults: Iterable[str]) -> dict[str, Any]:
    """Allowed, or refused with all faults in one message."""
    faults = tuple(faults)
    if not faults:
        return _response(uid)
    code, reason = next(
        (code, reason) for kind, code, reason in _STATUS if any(isinstance(each, kind) for each in faults)
    )
    status = {"status": "Failure", "code": code, "reason": reason, "message": _told(faults)}
    return _response(uid, allowed=False, status=status)


def _told(faults: tuple[str, ...]) -> str:
    """One fault as it is, since people and scripts know the text; of several each is a sentence."""
    if len(faults) == 1:
        return str(faults[0])  # no more of its class: it is about to be encoded
    return ". ".join(fault.strip().rstrip(".") for fault in faults) + "."


def patch(uid: str, edits: Iterable[Edit]) -> dict[str, Any]:
    """Allowed, with what is changed before it is stored."""
    steps = [
        {"op": each.op, "path": each.path, **({} if each.op == "remove" else {"value": each.value})} for each in edits
    ]
    if not steps:
        return _response(uid)
    return _response(uid, patchType="JSONPatch", patch=base64.b64encode(encode(steps)).decode())


def _response(uid: str, *, allowed: bool = True, **more: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": uid, "allowed": allowed, **more}}
