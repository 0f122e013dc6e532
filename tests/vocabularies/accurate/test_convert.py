"""SubNamespaces from version to version: nothing is lost on the way but the oldest version's own word."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samara.admission.webhooks import convert_review
from samara.core.admission import ConversionError
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
    words = {} if annotations is None else {"annotations": annotations}
    meta = {"name": "sub", "namespace": "root", "uid": "u", "generation": 3, **words, **more}
    made = {"apiVersion": version, "kind": "SubNamespace", "metadata": meta, "spec": {"labels": {"team": "a"}}}
    return made if status is None else {**made, "status": status}


# the newer two


@pytest.mark.parametrize(("have", "wanted"), [(ALPHA, V2), (V2, ALPHA)])
def test_the_newer_two_are_equal_field_for_field(have: str, wanted: str) -> None:
    status = {"observedGeneration": 3, "conditions": [STALLED], "other": 1}
    assert convert(a_sub(have, status, {"a": "b"}), wanted) == a_sub(wanted, status, {"a": "b"})


# to the oldest


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
def test_the_oldest_says_the_status_in_one_word_or_not_at_all(have: str, status: object, word: str | None) -> None:
    assert convert(a_sub(have, status), V1).get("status") == word


def test_a_generation_of_zero_is_never_ok() -> None:
    assert "status" not in convert(a_sub(status={"observedGeneration": 0}, generation=0), V1)


def test_the_status_travels_through_the_oldest_in_two_annotations() -> None:
    made = convert(a_sub(status={"observedGeneration": 3, "conditions": [STALLED]}, annotations={"a": "b"}), V1)

    annotations = made["metadata"]["annotations"]
    assert set(annotations) == {"a", OBSERVED, CONDITIONS}
    assert (annotations["a"], annotations[OBSERVED]) == ("b", "3")
    assert json.loads(annotations[CONDITIONS]) == [STALLED]
    assert made["spec"] == {"labels": {"team": "a"}}


def test_where_no_annotation_results_there_is_no_map() -> None:
    assert "annotations" not in convert(a_sub(), V1)["metadata"]
    assert "annotations" not in convert(a_sub(annotations={}), V1)["metadata"]
    assert "annotations" not in convert(a_sub(V1, "ok", {OBSERVED: "3"}), V2)["metadata"]


def test_internal_annotations_on_a_newer_version_mean_nothing() -> None:
    made = convert(a_sub(annotations={OBSERVED: "junk", CONDITIONS: "junk"}), V1)

    assert "annotations" not in made["metadata"]
    assert convert(made, V2) == a_sub()


# from the oldest


@pytest.mark.parametrize("wanted", [V2, ALPHA])
def test_from_the_oldest_the_word_is_dropped_and_the_annotations_become_the_status(wanted: str) -> None:
    words = {"a": "b", OBSERVED: "3", CONDITIONS: json.dumps([STALLED])}

    made = convert(a_sub(V1, "ok", words), wanted)

    assert made == a_sub(wanted, {"observedGeneration": 3, "conditions": [STALLED]}, {"a": "b"})


def test_from_the_oldest_without_annotations_there_is_no_status() -> None:
    assert convert(a_sub(V1, "conflict"), V2) == a_sub(V2)


EMPTY = [{OBSERVED: "0"}, {OBSERVED: "+0"}, {CONDITIONS: "[]"}, {CONDITIONS: "null"}]


@pytest.mark.parametrize("words", EMPTY)
def test_annotations_that_say_nothing_make_no_status(words: Json) -> None:
    assert convert(a_sub(V1, annotations=words), V2) == a_sub(V2)


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
def test_what_cannot_be_read_is_an_error_that_names_the_annotation_and_not_its_value(
    key: str, text: str, wanted: str
) -> None:
    review = {"uid": "u", "desiredAPIVersion": wanted, "objects": [a_sub(V1, annotations={key: text})]}
    asked = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": review}

    told = convert_review(json.dumps(asked).encode(), {"accurate.cybozu.com/SubNamespace": convert})["response"]

    assert told["result"]["status"] == "Failed"
    assert key in told["result"]["message"]
    assert "hunter2" not in told["result"]["message"]


@pytest.mark.parametrize(("have", "wanted"), [(V2, "accurate.cybozu.com/v3"), ("accurate.cybozu.com/v0", V2)])
def test_a_version_that_does_not_exist_is_an_error_that_names_those_that_do(have: str, wanted: str) -> None:
    with pytest.raises(ConversionError, match=r"v1, accurate.cybozu.com/v2alpha1 or accurate.cybozu.com/v2"):
        convert(a_sub(have), wanted)


# there and back

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
    lambda status, words, spec, generation: {
        **a_sub(status=status or None, annotations=words or None, generation=generation),
        "spec": spec,
    },
    STATUS,
    st.dictionaries(TEXT, TEXT, max_size=2),
    st.dictionaries(st.sampled_from(["labels", "annotations"]), st.dictionaries(TEXT, TEXT, max_size=2)),
    st.integers(0, 4),
)


@given(SUBS, st.lists(st.sampled_from([V1, ALPHA, V2]), min_size=1, max_size=6))
def test_over_whichever_versions_it_goes_it_comes_back_as_it_was(sub: Json, way: list[str]) -> None:
    made = json.loads(json.dumps(sub))
    for version in way:
        made = json.loads(json.dumps(convert(made, version)))
        assert made["apiVersion"] == version
    assert convert(made, V2) == sub


@given(SUBS, st.sampled_from([V1, ALPHA]))
def test_only_annotations_and_status_differ_and_the_given_object_stays_as_it_is(sub: Json, wanted: str) -> None:
    before = json.dumps(sub)

    made = convert(sub, wanted)

    assert json.dumps(sub) == before
    assert made["spec"] == sub["spec"]
    for obj in (made, sub):
        obj["metadata"] = {key: value for key, value in obj["metadata"].items() if key != "annotations"}
    assert made["metadata"] == sub["metadata"]
