"""ConversionReviews, answered without a cluster."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.admission.scene import a_conversion, a_converter, a_thing

from samara.admission.conversion import MAX_COMMAS, MAX_OBJECTS, Converters, convert_review
from samara.admission.review import MAX_OBJECT_BYTES, MAX_VALUES, MalformedError
from samara.core.admission import ConversionError
from samara.kube.codec import encode

CONVERTERS = {"toys.dev/Thing": a_converter}


def answered(body: bytes, converters: Converters = CONVERTERS) -> Any:
    return json.loads(encode(asyncio.run(convert_review(body, converters))))["response"]


def converted(review: Any, converters: Converters = CONVERTERS) -> Any:
    return answered(json.dumps(review).encode(), converters)


def test_objects_are_converted_in_their_order() -> None:
    response = converted(a_conversion("toys.dev/v2", a_thing(name="x"), a_thing("v2", title="y"), a_thing(name="z")))

    assert response["uid"] == "the-uid"
    assert response["result"] == {"status": "Success"}
    assert response["convertedObjects"] == [a_thing("v2", title=title) for title in "xyz"]


def test_converting_there_and_back_restores_the_object() -> None:
    there = converted(a_conversion("toys.dev/v2", a_thing(name="x")))["convertedObjects"]

    assert converted(a_conversion("toys.dev/v1", *there))["convertedObjects"] == [a_thing(name="x")]


BEYOND = [
    a_conversion("toys.dev/v9", a_thing(name="x")),
    a_conversion("other.dev/v1", a_thing(name="x")),
    a_conversion("toys.dev/v2", {**a_thing(name="x"), "kind": "Other"}),
    a_conversion("toys.dev/v2", {"metadata": {}}),
    a_conversion("toys.dev/v2", a_thing(name="x"), a_thing(wrong="hunter2")),
]


@pytest.mark.parametrize("review", BEYOND, ids=range(len(BEYOND)))
def test_a_failed_conversion_gives_a_reason_without_values(review: Any) -> None:
    response = converted(review)

    assert response["result"]["status"] == "Failed"
    assert review["request"]["desiredAPIVersion"] in response["result"]["message"]
    assert response["convertedObjects"] == []
    assert "hunter2" not in json.dumps(response)


def test_the_message_names_the_kinds_that_can_be_converted() -> None:
    message = converted(a_conversion("toys.dev/v2", {**a_thing(), "kind": "Other"}))["result"]["message"]

    assert message == (
        "Other of toys.dev/v1 cannot be converted to toys.dev/v2; kinds that can be converted: toys.dev/Thing"
    )


def test_an_exception_in_a_converter_shows_no_value_of_the_object() -> None:
    def breaks(obj: Any, wanted: str) -> Any:
        raise ValueError(obj["spec"]["name"])

    review = a_conversion("toys.dev/v2", a_thing(name="hunter2"))
    response = converted(review, {"toys.dev/Thing": breaks})["result"]

    assert response["status"] == "Failed"
    assert response["message"] == "Thing cannot be converted from toys.dev/v1 to toys.dev/v2 (ValueError)"


def test_the_reason_of_a_converter_is_quoted() -> None:
    def refuses(obj: Any, wanted: str) -> Any:
        raise ConversionError("the annotation toys.dev/note is odd")

    response = converted(a_conversion("toys.dev/v2", a_thing(name="x")), {"toys.dev/Thing": refuses})["result"]

    assert response["message"] == (
        "Thing cannot be converted from toys.dev/v1 to toys.dev/v2: the annotation toys.dev/note is odd"
    )


BAD = [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, json.dumps(a_conversion("v2") | {"kind": "Other"}).encode()]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_a_body_that_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedError):
        answered(body)


def a_body(objects: bytes) -> bytes:
    """A review with these bytes as its objects."""
    return json.dumps(a_conversion("toys.dev/v2")).encode().replace(b"[]", objects)


@pytest.mark.parametrize("objects", [b"7", b"{}", b"[1]", b'["x"]', b"[null]", b'[{"apiVersion":"toys.dev/v2"}, []]'])
def test_objects_that_are_no_list_of_objects_are_malformed(objects: bytes) -> None:
    with pytest.raises(MalformedError):
        answered(a_body(objects))


def test_an_empty_list_is_converted() -> None:
    assert answered(a_body(b" [ ] "))["convertedObjects"] == []


def test_the_number_and_the_size_of_objects_are_limited() -> None:
    many = answered(a_body(b"[" + b",".join([b'{"apiVersion":"toys.dev/v2"}'] * (MAX_OBJECTS + 1)) + b"]"))
    large = answered(a_body(b'[{"apiVersion":"toys.dev/v2","spec":"' + b"x" * MAX_OBJECT_BYTES + b'"}]'))
    full = answered(a_body(b'[{"apiVersion":"toys.dev/v2","spec":[' + b"{}," * (MAX_VALUES // 2) + b"{}]}]"))

    assert many["result"] == {"status": "Failed", "message": f"at most {MAX_OBJECTS} objects can be converted at once"}
    expected = f"an object of at most {MAX_OBJECT_BYTES} bytes and {MAX_VALUES} values was expected"
    assert (large["result"]["message"], full["result"]["message"]) == (expected, expected)
    with pytest.raises(MalformedError, match=f"at most {MAX_COMMAS} values"):
        answered(a_body(b"[" + b"{}," * MAX_COMMAS + b"{}]"))
