"""ConversionReview v1: objects from one version of their kind to another. Pure: it needs no cache and no cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from samara.admission.review import MalformedError
from samara.core.admit import UnconvertibleError
from samara.kube.codec import MALFORMED

API_VERSION, KIND = "apiextensions.k8s.io/v1", "ConversionReview"
Json = dict[str, Any]
Converter = Callable[[Json, str], Json]
"""An object and the wanted apiVersion to the object in that version; raises where it cannot do that."""
Converters = Mapping[str, Converter]
"""By `group/Kind`."""


class _Request(msgspec.Struct):
    uid: str
    desiredAPIVersion: str
    objects: list[Json]


class _Review(msgspec.Struct):
    apiVersion: str
    kind: str
    request: _Request


class _CannotError(Exception):
    """An object that cannot be converted, in words without its values."""


_review = msgspec.json.Decoder(_Review).decode


def converted(body: bytes, converters: Converters) -> Json:
    """The answer: all objects in the wanted version, in their order, or none and why."""
    try:
        review = _review(body)
    except MALFORMED:  # their messages may quote what they found
        raise MalformedError(f"expected a {KIND} of {API_VERSION}, found something that cannot be read") from None
    if (review.apiVersion, review.kind) != (API_VERSION, KIND):
        raise MalformedError(f"expected a {KIND} of {API_VERSION}")
    asked = review.request
    response: Json = {"uid": asked.uid}
    try:
        response["convertedObjects"] = [_one(obj, asked.desiredAPIVersion, converters) for obj in asked.objects]
        response["result"] = {"status": "Success"}
    except _CannotError as fault:
        response |= {"convertedObjects": [], "result": {"status": "Failed", "message": str(fault)}}
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def _one(obj: Json, wanted: str, converters: Converters) -> Json:
    have, kind = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
    if have == wanted:
        return obj
    group, named = have.rpartition("/")[0], f"{have.rpartition('/')[0]}/{kind}"
    if group != wanted.rpartition("/")[0] or named not in converters:
        known = ", ".join(sorted(converters)) or "none"
        raise _CannotError(f"{kind} of {have} cannot be converted to {wanted}; kinds that can be converted: {known}")
    try:
        made = converters[named](obj, wanted)
    except UnconvertibleError as fault:
        raise _CannotError(f"{kind} cannot be converted from {have} to {wanted}: {fault}") from None
    except Exception as fault:  # noqa: BLE001 - whatever it is, its message may hold a value of the object
        raise _CannotError(f"{kind} cannot be converted from {have} to {wanted} ({type(fault).__name__})") from None
    return {**made, "apiVersion": wanted}
