"""ConversionReview v1: converts custom resources from one version to another.

The objects of a review are decoded, converted and encoded one at a time. So a large review takes little more memory
than its bytes, and other tasks run in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Any

import msgspec

from samara.admission.review import MAX_OBJECT_BYTES, MAX_VALUES, MalformedError, is_too_large
from samara.core.admission import ConversionError
from samara.core.vocabulary import Converter
from samara.kube.codec import MALFORMED, decode, encode

API_VERSION, KIND = "apiextensions.k8s.io/v1", "ConversionReview"
MAX_CONVERSION_BYTES = 16 * 2**20
"""Of the request, and of the converted objects together: a converter may write a value with more characters."""
MAX_OBJECTS = 10_000
MAX_COMMAS = 1_000_000
"""Upper bound of the objects in a review, counted as commas. Counting bytes is quick, and splitting a list of a million
`{}` is not."""
_SLICE = 0.01
"""Seconds after which other tasks run."""
Json = dict[str, Any]
Converters = Mapping[str, Converter]
"""By `group/Kind`."""


class _Request(msgspec.Struct):
    uid: str
    desiredAPIVersion: str
    objects: list[msgspec.Raw]


class _Review(msgspec.Struct):
    apiVersion: str
    kind: str
    request: _Request


class _Object(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""


class _CannotConvertError(Exception):
    """The message quotes no value of the object."""


class Conversions:
    """Answers ConversionReviews one after the other.

    So only one at a time takes memory for its objects, and other tasks run in between however many arrive together.
    """

    def __init__(self, converters: Converters) -> None:
        self._converters = converters
        self._turn = asyncio.Lock()

    async def answer(self, body: bytes) -> bytes:
        async with self._turn:
            await asyncio.sleep(0)
            return encode(await convert_review(body, self._converters))


_review = msgspec.json.Decoder(_Review).decode
_object = msgspec.json.Decoder(_Object).decode


async def convert_review(body: bytes, converters: Converters) -> Json:
    """The answer: all objects in the wanted version and in their order, or none and the reason."""
    if body.count(b",") > MAX_COMMAS:
        raise MalformedError(f"expected a {KIND} of at most {MAX_COMMAS} values")
    try:
        review = _review(body)
    except MALFORMED:  # the messages may quote values
        expected = f"a {KIND} of {API_VERSION}"
        raise MalformedError(f"expected {expected}, found something that cannot be read") from None
    if (review.apiVersion, review.kind) != (API_VERSION, KIND):
        raise MalformedError(f"expected a {KIND} of {API_VERSION}")
    response: Json = {"uid": review.request.uid}
    try:
        response["convertedObjects"] = await _converted(review.request, converters)
        response["result"] = {"status": "Success"}
    except _CannotConvertError as fault:
        response |= {"convertedObjects": [], "result": {"status": "Failed", "message": str(fault)}}
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


async def _converted(request: _Request, converters: Converters) -> list[msgspec.Raw]:
    """The converted objects, encoded."""
    if len(request.objects) > MAX_OBJECTS:
        raise _CannotConvertError(f"at most {MAX_OBJECTS} objects can be converted at once")
    converted: list[msgspec.Raw] = []
    size, resumed = 0, monotonic()
    for raw in request.objects:
        converted.append(_convert(raw, request.desiredAPIVersion, converters))
        size += len(bytes(converted[-1]))
        if size > MAX_CONVERSION_BYTES:
            raise _CannotConvertError(f"the converted objects have more than {MAX_CONVERSION_BYTES} bytes")
        if monotonic() - resumed > _SLICE:
            await asyncio.sleep(0)
            resumed = monotonic()
    return converted


def _convert(raw: msgspec.Raw, wanted: str, converters: Converters) -> msgspec.Raw:
    if is_too_large(raw):
        expected = f"an object of at most {MAX_OBJECT_BYTES} bytes and {MAX_VALUES} values"
        raise _CannotConvertError(f"{expected} was expected")
    try:
        head = _object(raw)
    except MALFORMED:
        raise MalformedError("expected a list of objects") from None
    version, kind = head.apiVersion, head.kind
    if version == wanted:
        return raw
    group = version.rpartition("/")[0]
    converter = converters.get(f"{group}/{kind}")
    if converter is None or group != wanted.rpartition("/")[0]:
        known = ", ".join(sorted(converters)) or "none"
        raise _CannotConvertError(
            f"{kind} of {version} cannot be converted to {wanted}; kinds that can be converted: {known}"
        )
    try:
        converted = converter(decode(raw), wanted)
    except ConversionError as fault:
        raise _CannotConvertError(f"{kind} cannot be converted from {version} to {wanted}: {fault}") from None
    except Exception as fault:  # noqa: BLE001 - any message may hold a value of the object
        name = type(fault).__name__
        raise _CannotConvertError(f"{kind} cannot be converted from {version} to {wanted} ({name})") from None
    return msgspec.Raw(encode({**converted, "apiVersion": wanted}))
