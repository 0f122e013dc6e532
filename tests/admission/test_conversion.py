"""ConversionReviews, answered without a cluster."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from typing import Any

import pytest
from tests.admission.scene import a_conversion, a_converter, a_thing

from samara.admission.conversion import MAX_COMMAS, MAX_OBJECT_BYTES, MAX_OBJECTS, Converters, convert_review
from samara.admission.review import MalformedError
from samara.admission.server import MAX_CONVERSION_BYTES
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

    assert many["result"] == {"status": "Failed", "message": f"at most {MAX_OBJECTS} objects can be converted at once"}
    assert large["result"]["message"] == f"an object of at most {MAX_OBJECT_BYTES} bytes was expected"
    with pytest.raises(MalformedError, match=f"at most {MAX_COMMAS} values"):
        answered(a_body(b"[" + b"{}," * MAX_COMMAS + b"{}]"))


def filled(begin: bytes, item: bytes, end: bytes, most: int) -> bytes:
    """As many items as fit into the largest body, but at most so many."""
    number = min(most, (MAX_CONVERSION_BYTES - 1000) // len(item))
    return begin + (item * number).rstrip(b",") + end


LARGE_OBJECT = b'{"apiVersion":"toys.dev/v1","kind":"Thing","spec":{"name":"x","more":[%b{}]}},' % (b"{}," * 190_000)
HOSTILE: dict[str, tuple[bytes, bytes, bytes, int]] = {
    "empty objects": (b"[", b"{},", b"]", MAX_COMMAS - 10),
    "too many empty objects": (b"[", b"{},", b"]", MAX_CONVERSION_BYTES),
    "objects with many values": (b"[", LARGE_OBJECT, b"]", 5),
    "one object": (b'[{"apiVersion":"toys.dev/v1","spec":[', b"{},", b"]}]", MAX_COMMAS - 10),
    "numbers": (b"[", b"1,", b"]", MAX_COMMAS - 10),
    "brackets": (b"[", b"[", b"]", MAX_CONVERSION_BYTES),
    "spaces": (b"[", b" ", b"]", MAX_CONVERSION_BYTES),
    "things": (b"[", encode(a_thing(name="x" * 1400)) + b",", b"]", MAX_OBJECTS),
}


def measured(name: str) -> tuple[float, float]:
    """The longest time in seconds for which no other task ran, and by how many MiB the process grew."""
    body = a_body(filled(*HOSTILE[name]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async def stall() -> float:
        longest, last = 0.0, time.monotonic()
        converting = asyncio.create_task(convert_review(body, CONVERTERS))
        while not converting.done():
            await asyncio.sleep(0)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        if not isinstance(converting.exception(), MalformedError):
            encode(converting.result())
        return max(longest, time.monotonic() - last)

    return asyncio.run(stall()), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_review_takes_little_memory_and_leaves_the_loop_running(name: str) -> None:
    """In a process of its own, because a process never gives its peak back."""
    program = f"from tests.admission.test_conversion import measured; print(*measured({name!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    seconds, mebibytes = map(float, done.stdout.split())

    assert seconds < 1.0
    assert mebibytes < 150
