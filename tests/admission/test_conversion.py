"""ConversionReviews, answered without a cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.admission.scene import a_conversion, a_converter, a_thing

from samara.admission.review import MalformedError
from samara.admission.webhooks import convert_review
from samara.core.admission import ConversionError

CONVERTERS = {"toys.dev/Thing": a_converter}


def converted(review: Any) -> Any:
    return convert_review(json.dumps(review).encode(), CONVERTERS)["response"]


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

    review = json.dumps(a_conversion("toys.dev/v2", a_thing(name="hunter2"))).encode()
    response = convert_review(review, {"toys.dev/Thing": breaks})["response"]["result"]

    assert response["status"] == "Failed"
    assert response["message"] == "Thing cannot be converted from toys.dev/v1 to toys.dev/v2 (ValueError)"


def test_the_reason_of_a_converter_is_quoted() -> None:
    def refuses(obj: Any, wanted: str) -> Any:
        raise ConversionError("the annotation toys.dev/note is odd")

    review = json.dumps(a_conversion("toys.dev/v2", a_thing(name="x"))).encode()
    response = convert_review(review, {"toys.dev/Thing": refuses})["response"]["result"]

    assert response["message"] == (
        "Thing cannot be converted from toys.dev/v1 to toys.dev/v2: the annotation toys.dev/note is odd"
    )


BAD = [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, json.dumps(a_conversion("v2") | {"kind": "Other"}).encode()]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_a_body_that_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedError):
        convert_review(body, CONVERTERS)
