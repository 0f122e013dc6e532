"""Conversion of SubNamespaces between versions: only the status word of v1 is lost."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samara.admission.conversion import convert_review
from samara.core.admission import ConversionError
from samara.kube.codec import encode
from samara.vocabularies.accurate.convert import convert

V1, ALPHA, V2 = "accurate.cybozu.com/v1", "accurate.cybozu.com/v2alpha1", "accurate.cybozu.com/v2"
OBSERVED = "internal.accurate.cybozu.com/observed-generation"
CONDITIONS = "internal.accurate.cybozu.com/conditions"
Json = dict[str, Any]
STALLED: Json = {
    "type": "Stalled",
    "status": "True",
    "reason": "Conflict",
    "message": "ünique",
    "observedGeneration": 3,
}


def a_sub(version: str = V2, status: object = None, annotations: Json | None = None, **more: Any) -> Json:
    extra = {} if annotations is None else {"annotations": annotations}
    meta = {"name": "sub", "namespace": "root", "uid": "u", "generation": 3, **extra, **more}
    made = {"apiVersion": version, "kind": "SubNamespace", "metadata": meta, "spec": {"labels": {"team": "a"}}}
    return made if status is None else {**made, "status": status}


# v2alpha1 and v2


@pytest.mark.parametrize(("have", "wanted"), [(ALPHA, V2), (V2, ALPHA)])
def test_v2alpha1_and_v2_have_the_same_fields(have: str, wanted: str) -> None:
    status = {"observedGeneration": 3, "conditions": [STALLED], "other": 1}
    assert convert(a_sub(have, status, {"a": "b"}), wanted) == a_sub(wanted, status, {"a": "b"})


# To v1


WORDS: list[tuple[object, str | None]] = [
    ({"observedGeneration": 3, "conditions": [STALLED]}, "conflict"),
    ({"conditions": [STALLED]}, "conflict"),
    ({"observedGeneration": 3, "conditions": [{**STALLED, "status": "False"}]}, None),
    ({"observedGeneration": 3, "conditions": [{**STALLED, "type": "Other"}]}, None),
    ({"observedGeneration": 3}, "ok"),
    ({"observedGeneration": 3, "conditions": []}, "ok"),
    ({"observedGeneration": 2}, None),
    ({"observedGeneration": 0}, None),
    ({}, None),
    (None, None),
]


@pytest.mark.parametrize(("status", "word"), WORDS)
@pytest.mark.parametrize("have", [V2, ALPHA])
def test_v1_has_a_status_of_one_word_or_none(have: str, status: object, word: str | None) -> None:
    assert convert(a_sub(have, status), V1).get("status") == word


def test_a_generation_of_zero_is_never_ok() -> None:
    assert "status" not in convert(a_sub(status={"observedGeneration": 0}, generation=0), V1)


def test_v1_carries_the_status_of_v2_in_two_annotations() -> None:
    made = convert(a_sub(status={"observedGeneration": 3, "conditions": [STALLED]}, annotations={"a": "b"}), V1)

    annotations = made["metadata"]["annotations"]
    assert set(annotations) == {"a", OBSERVED, CONDITIONS}
    assert (annotations["a"], annotations[OBSERVED]) == ("b", "3")
    assert json.loads(annotations[CONDITIONS]) == [STALLED]
    assert made["spec"] == {"labels": {"team": "a"}}


def test_without_annotations_a_converted_object_has_no_annotations_map() -> None:
    assert "annotations" not in convert(a_sub(), V1)["metadata"]
    assert "annotations" not in convert(a_sub(annotations={}), V1)["metadata"]
    assert "annotations" not in convert(a_sub(V1, "ok", {OBSERVED: "3"}), V2)["metadata"]


def test_internal_annotations_on_a_newer_version_are_ignored() -> None:
    made = convert(a_sub(annotations={OBSERVED: "junk", CONDITIONS: "junk"}), V1)

    assert "annotations" not in made["metadata"]
    assert convert(made, V2) == a_sub()


# From v1


@pytest.mark.parametrize("wanted", [V2, ALPHA])
def test_the_status_of_v1_is_dropped_and_its_annotations_become_the_status(wanted: str) -> None:
    annotations = {"a": "b", OBSERVED: "3", CONDITIONS: json.dumps([STALLED])}

    made = convert(a_sub(V1, "ok", annotations), wanted)

    assert made == a_sub(wanted, {"observedGeneration": 3, "conditions": [STALLED]}, {"a": "b"})


def test_v1_without_annotations_becomes_v2_without_status() -> None:
    assert convert(a_sub(V1, "conflict"), V2) == a_sub(V2)


EMPTY = [{OBSERVED: "0"}, {OBSERVED: "+0"}, {CONDITIONS: "[]"}, {CONDITIONS: "null"}]


@pytest.mark.parametrize("annotations", EMPTY)
def test_empty_annotations_make_no_status(annotations: Json) -> None:
    assert convert(a_sub(V1, annotations=annotations), V2) == a_sub(V2)


@pytest.mark.parametrize(("text", "number"), [("-1", -1), ("+7", 7), ("9223372036854775807", 2**63 - 1)])
def test_a_generation_is_a_decimal_of_64_bits(text: str, number: int) -> None:
    assert convert(a_sub(V1, annotations={OBSERVED: text}), V2)["status"] == {"observedGeneration": number}


ODD = [
    *((OBSERVED, text) for text in ("", "x", "1.0", "0x1", " 1", "1_0", "٣", "9223372036854775808", "9" * 5000)),
    *((CONDITIONS, text) for text in ("", "hunter2", "{}", "7", '"a"', "[1]", "[null]", "[" * 100_000)),
    *((CONDITIONS, text) for text in ('[{"type": 1}]', '[{"observedGeneration": "1"}]', '[{"message": null}]')),
]


@pytest.mark.parametrize(("key", "text"), ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("wanted", [V2, ALPHA])
def test_an_unreadable_annotation_is_an_error_that_names_its_key_and_not_its_value(
    key: str, text: str, wanted: str
) -> None:
    review = {"uid": "u", "desiredAPIVersion": wanted, "objects": [a_sub(V1, annotations={key: text})]}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": review}

    answer = convert_review(json.dumps(body).encode(), {"accurate.cybozu.com/SubNamespace": convert})
    response = json.loads(encode(asyncio.run(answer)))["response"]

    assert response["result"]["status"] == "Failed"
    assert key in response["result"]["message"]
    assert "hunter2" not in response["result"]["message"]


@pytest.mark.parametrize(("have", "wanted"), [(V2, "accurate.cybozu.com/v3"), ("accurate.cybozu.com/v0", V2)])
def test_an_unknown_version_is_an_error_that_names_the_known_ones(have: str, wanted: str) -> None:
    with pytest.raises(ConversionError, match=r"v1, accurate.cybozu.com/v2alpha1 or accurate.cybozu.com/v2"):
        convert(a_sub(have), wanted)


# Round trips

TEXT = st.text(max_size=8)
INT64 = st.integers(-(2**63), 2**63 - 1)
CONDITION = st.fixed_dictionaries(
    {"type": st.sampled_from(["Stalled", "Other"]), "status": st.sampled_from(["True", "False", "Unknown"])},
    optional={"message": st.text(max_size=20), "observedGeneration": INT64},
)
STATUS = st.fixed_dictionaries(
    {},
    optional={"observedGeneration": INT64.filter(bool), "conditions": st.lists(CONDITION, min_size=1, max_size=3)},
)
SUBS = st.builds(
    lambda status, annotations, spec, generation: {
        **a_sub(status=status or None, annotations=annotations or None, generation=generation),
        "spec": spec,
    },
    STATUS,
    st.dictionaries(TEXT, TEXT, max_size=2),
    st.dictionaries(st.sampled_from(["labels", "annotations"]), st.dictionaries(TEXT, TEXT, max_size=2)),
    st.integers(0, 4),
)


@given(SUBS, st.lists(st.sampled_from([V1, ALPHA, V2]), min_size=1, max_size=6))
def test_a_round_trip_through_any_versions_changes_nothing(sub: Json, way: list[str]) -> None:
    made = json.loads(json.dumps(sub))
    for version in way:
        made = json.loads(json.dumps(convert(made, version)))
        assert made["apiVersion"] == version
    assert convert(made, V2) == sub


@given(SUBS, st.sampled_from([V1, ALPHA]))
def test_conversion_changes_only_annotations_and_status_and_not_the_given_object(sub: Json, wanted: str) -> None:
    before = json.dumps(sub)

    made = convert(sub, wanted)

    assert json.dumps(sub) == before
    assert made["spec"] == sub["spec"]
    for obj in (made, sub):
        obj["metadata"] = {key: value for key, value in obj["metadata"].items() if key != "annotations"}
    assert made["metadata"] == sub["metadata"]
