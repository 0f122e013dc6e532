"""AdmissionReviews, read and answered."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.admission.scene import THING, WORD, a_registry, a_review, admitting, an_object, marking

from samara.admission.review import (
    MAX_OBJECT_BYTES,
    MAX_VALUES,
    MalformedError,
    Review,
    check_names,
    guarded_kinds,
    patch,
    read_review,
    verdict,
)
from samara.core.admission import PatchOperation, Refused, Request, Undecidable
from samara.core.model import CONFIG_MAP, SECRET, Kind, Ref
from samara.core.registry import Registry
from samara.kube.codec import Codec, encode

GUARDED = guarded_kinds(a_registry())


def read(review: Any, codec: Codec | None = None) -> Review:
    body = review if isinstance(review, bytes) else json.dumps(review).encode()
    return read_review(body, GUARDED, codec or Codec(frozenset({"samara"})))


def request(review: Any) -> Request:
    request = read(review).request
    assert request is not None
    return request


def test_a_creation_has_no_old_object_and_a_deletion_no_new_one() -> None:
    created, deleted = request(a_review(an_object())), request(a_review(None, an_object()))

    assert (created.operation, created.old) == ("CREATE", None)
    assert created.new is not None
    assert created.new.ref == Ref(SECRET, "a", "db")
    assert (deleted.operation, deleted.new) == ("DELETE", None)
    assert deleted.old is not None


def test_an_update_has_both_as_they_were_sent() -> None:
    changed = request(a_review(an_object(word="new"), an_object(word="old")))

    assert changed.new is not None
    assert changed.old is not None
    assert (changed.new.annotations[WORD], changed.old.annotations[WORD]) == ("new", "old")
    assert changed.new.content == changed.old.content


def test_the_content_equals_that_of_the_watch() -> None:
    codec, sent = Codec(frozenset({"samara"})), an_object()
    watched = codec.object(SECRET, json.dumps(sent).encode())
    result = read(a_review(sent), codec).request

    assert result is not None
    assert result.new is not None
    assert result.new.content == watched.content


def test_an_object_with_a_generated_name_gets_one_like_it() -> None:
    sent = an_object()
    sent["metadata"] = {"generateName": "db-", "creationTimestamp": None, "resourceVersion": ""}
    result = request(a_review(sent, name="")).new

    assert result is not None
    assert result.ref == Ref(SECRET, "a", "db-xxxxx")
    assert (result.uid, result.resource_version) == ("", 0)


def test_a_long_generated_name_is_cut_as_the_api_server_cuts_it() -> None:
    sent = an_object()
    sent["metadata"] = {"generateName": "d" * 80}
    result = request(a_review(sent, name="")).new

    assert result is not None
    assert result.ref.name == "d" * 58 + "xxxxx"


def test_an_object_that_the_api_server_would_never_store_is_not_decoded() -> None:
    """Decoding takes many times the memory of the bytes, and anybody who reaches the port can send a review."""
    too_much: list[Any] = [
        {**an_object(), **{f"field-{number}": 1 for number in range(101)}},
        an_object(note="x" * 2**21),
        {**an_object(), "data": {"large": "x" * MAX_OBJECT_BYTES}},
        {**an_object(), "data": {"many": [{}] * (MAX_VALUES // 2)}},
        {**an_object(), "data": {"many": [[[[[]]]]] * (MAX_VALUES // 5)}},
        {**an_object(), "data": {"text": '"' * 5, "more": [""] * (MAX_VALUES + 1)}},
    ]
    for sent in too_much:
        with pytest.raises(MalformedError, match="found a larger one"):
            read(a_review(sent))
    for large in ("x" * (MAX_OBJECT_BYTES - 1000), ',"[{\\' * (MAX_VALUES // 2), ["x"] * (MAX_VALUES - 50)):
        assert read(a_review({**an_object(), "data": {"large": large}})).request is not None


IMPOSSIBLE = ["victim/secrets/db", "victim%2Fsecrets%2Fdb", "..", "a\nb", "a?watch=1", "Victim"]


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_review_with_an_impossible_namespace_is_refused_before_anything_is_looked_up(name: str) -> None:
    sent = an_object()
    del sent["metadata"]["namespace"]
    elsewhere = an_object(namespace=name)
    for review in (a_review(elsewhere), a_review(sent, namespace=name), a_review(None, elsewhere)):
        with pytest.raises(MalformedError) as fault:
            check_names(request(review))
        assert name not in str(fault.value)


@pytest.mark.parametrize("name", IMPOSSIBLE[:4])
def test_a_review_with_an_impossible_name_is_refused(name: str) -> None:
    with pytest.raises(MalformedError):
        check_names(request(a_review(an_object(name=name))))


def test_a_review_with_possible_names_is_judged() -> None:
    check_names(request(a_review(an_object(name="system:db.v1"), an_object(name="system:db.v1"))))


def test_a_cluster_scoped_object_gets_no_namespace() -> None:
    kind = Kind("toys.dev", "v1", "Wide", "wides", namespaced=False)
    guards = {("toys.dev", "v1", "Wide"): next(iter(GUARDED.values()))}
    guards = {key: type(guard)(kind, guard.source_types) for key, guard in guards.items()}
    sent = {"metadata": {"name": "db"}}
    result = read_review(json.dumps(a_review(sent, kind=kind)).encode(), guards, Codec(frozenset())).request

    assert result is not None
    assert result.new is not None
    assert result.new.ref == Ref(kind, "", "db")


def test_the_kind_is_that_of_the_object_and_not_that_of_the_request() -> None:
    requested_kind = {"group": "toys.dev", "version": "v1alpha1", "kind": "Thing"}
    result = read(a_review(an_object(THING), kind=THING, requestKind=requested_kind))

    assert result.guarded is not None
    assert result.guarded.kind == THING


def test_all_source_types_that_guard_a_kind_judge_it() -> None:
    names = {kind: [source_type.name for source_type in guard.source_types] for (_, _, kind), guard in GUARDED.items()}

    assert names == {"Secret": ["spelled", "twinned", "tried"], "ConfigMap": ["spelled"], "Thing": ["things"]}


def test_a_source_type_that_only_sets_defaults_of_a_kind_guards_it_too() -> None:
    (guard,) = guarded_kinds(Registry((admitting(marking(), validate=lambda request, view: ()),))).values()

    assert (guard.kind, [source_type.name for source_type in guard.source_types]) == (THING, ["marking"])


@pytest.mark.parametrize("kind", [Kind("", "v1", "Pod", "pods"), Kind("toys.dev", "v9", "Thing", "things")])
def test_a_kind_that_is_not_guarded_is_not_even_decoded(kind: Kind) -> None:
    assert read(a_review({"no": "object"}, kind=kind)) == Review("the-uid", None)


def test_an_unknown_operation_is_not_judged() -> None:
    assert read(a_review(an_object(), operation="CONNECT")).request is None


def without(*path: str) -> Any:
    review = a_review(an_object())
    inner = review
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return review


BAD: list[Any] = [
    b"",
    b"not json",
    b"[]",
    b"\xff\xfe",
    b"[" * 100_000,
    {},
    {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": None},
    {**a_review(an_object()), "apiVersion": "admission.k8s.io/v1beta1"},
    {**a_review(an_object()), "kind": "ConversionReview"},
    without("request", "uid"),
    without("request", "kind"),
    without("request", "operation"),
    without("request", "object", "metadata"),
    a_review(an_object(), uid=""),
    a_review({"metadata": "hunter2"}),
    a_review({"metadata": {"name": "x", "labels": {"a": {"secret": "hunter2"}}}}),
    a_review({"metadata": {"name": "x", "resourceVersion": "hunter2"}}),
    a_review(an_object(), namespace=7),
]


@pytest.mark.parametrize("review", BAD, ids=range(len(BAD)))
def test_a_body_that_is_no_review_is_refused_without_quoting_it(review: Any) -> None:
    with pytest.raises(MalformedError) as fault:
        read(review)
    assert "hunter2" not in str(fault.value)
    assert fault.value.__cause__ is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(["object", "oldObject", "kind", "userInfo", "name", "operation"]), JSON)
def test_any_body_is_read_or_refused_as_malformed(where: str, value: Any) -> None:
    review = a_review(an_object())
    review["request"][where] = value
    try:
        read(review)
    except MalformedError:
        return


def test_a_verdict_without_faults_allows() -> None:
    assert verdict("u", ())["response"] == {"uid": "u", "allowed": True}


def test_a_verdict_has_one_sentence_for_each_fault() -> None:
    response = verdict("u", ("one is wrong", "two is wrong. "))["response"]

    assert not response["allowed"]
    assert response["status"] == {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": "one is wrong. two is wrong.",
    }


GRAVITY: list[tuple[tuple[str, ...], tuple[int, str]]] = [
    (("plain",), (422, "Invalid")),
    ((Refused("no"),), (403, "Forbidden")),
    ((Undecidable("who knows"),), (500, "InternalError")),
    (("plain", Refused("no")), (403, "Forbidden")),
    ((Refused("no"), Undecidable("who knows"), "plain"), (500, "InternalError")),
]


@pytest.mark.parametrize(("faults", "expected"), GRAVITY)
def test_the_gravest_fault_gives_the_answer_its_status(faults: tuple[str, ...], expected: tuple[int, str]) -> None:
    status = verdict("u", faults)["response"]["status"]

    assert (status["code"], status["reason"]) == expected


@pytest.mark.parametrize("text", ["child namespaces exist", "a sentence.", "namespace a b: c; d"])
def test_a_single_fault_keeps_its_text(text: str) -> None:
    """Scripts may compare the message, so no full stop is added."""
    sent = json.loads(encode(verdict("u", (Refused(text),))))
    assert sent["response"]["status"]["message"] == text


def test_several_faults_are_sentences() -> None:
    status = verdict("u", ("one is wrong", "two is wrong."))["response"]["status"]
    assert status["message"] == "one is wrong. two is wrong."


def test_edits_become_a_json_patch() -> None:
    response = patch("u", (PatchOperation("add", "/metadata/finalizers", ["a"]), PatchOperation("remove", "/spec")))[
        "response"
    ]

    assert (response["uid"], response["allowed"], response["patchType"]) == ("u", True, "JSONPatch")
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/metadata/finalizers", "value": ["a"]},
        {"op": "remove", "path": "/spec"},
    ]
    assert patch("u", ())["response"] == {"uid": "u", "allowed": True}


def test_every_guarded_kind_has_its_entry() -> None:
    assert {guard.kind for guard in GUARDED.values()} == {SECRET, CONFIG_MAP, THING}
