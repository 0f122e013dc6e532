"""Bytes of the server to values and back: nothing lost, nothing shown, nothing held twice."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.world import at

from samara.core.desired import Copy, Overlay, Template
from samara.core.model import (
    ANNOTATIONS,
    FIELD_MANAGER,
    LABELS,
    NAMESPACE,
    SECRET,
    Content,
    Kind,
    ManagedKey,
    Object,
    OwnerReference,
    Ref,
)
from samara.core.writes import Create, Update
from samara.engine.mass_delete import HeldSet
from samara.kube.codec import Codec, body, owner_references, version_of

CANARY = "canary-5d1c"
CREATED = "2026-11-15T10:00:00Z"
LATER = "2026-11-15T10:00:05Z"
THEIRS = "accurate-controller"


def codec() -> Codec:
    return Codec(frozenset({FIELD_MANAGER, THEIRS}))


def raw(
    namespace: str = "a", name: str = "db", version: int = 7, meta: dict[str, Any] | None = None, **more: Any
) -> bytes:
    head = {"name": name, "namespace": namespace, "uid": f"u-{namespace}", "resourceVersion": str(version)}
    metadata = {**head, "creationTimestamp": CREATED, **(meta or {})}
    fields = {"data": {"password": CANARY}, "type": "Opaque", **more}
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **fields}).encode()


def entry(manager: str = FIELD_MANAGER, time: str = LATER, operation: str = "Update", **more: Any) -> dict[str, Any]:
    fields = {
        "f:data": {".": {}, "f:password": {}},
        "f:metadata": {
            "f:annotations": {".": {}, "f:secret-copy/origin": {}},
            "f:labels": {".": {}, "f:secret-copy/from": {}},
        },
    }
    given = {"manager": manager, "operation": operation, "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1"}
    return {**given, "fieldsV1": fields, **more}


def recorded(*entries: dict[str, Any]) -> Object:
    return codec().object(SECRET, raw(meta={"managedFields": list(entries)}))


# what is read


def test_everything_that_matters_is_read() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u1", "controller": True}
    found = codec().object(
        SECRET,
        raw(
            meta={
                "labels": {"team": "red"},
                "annotations": {"note": "x"},
                "generation": 3,
                "finalizers": ["somebody/else"],
                "deletionTimestamp": LATER,
                "ownerReferences": [owner],
            }
        ),
    )

    assert found.ref == at("a", "db")
    assert (found.uid, found.resource_version, found.generation, found.created) == ("u-a", 7, 3, CREATED)
    assert (found.labels, found.annotations) == ({"team": "red"}, {"note": "x"})
    assert (found.finalizers, found.deleting) == (("somebody/else",), True)
    assert found.owner_references == (OwnerReference("apps/v1", "Deployment", "web", "u1", True, None),)
    assert owner_references(found.owner_references) == [owner]
    assert [field.name for field in found.content.fields] == ["data", "type"]


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"labels": None, "annotations": None, "finalizers": None, "ownerReferences": None, "managedFields": None},
        {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": [], "managedFields": []},
        {"creationTimestamp": None, "deletionTimestamp": None},
    ],
)
def test_what_is_missing_or_null_is_empty(meta: dict[str, Any]) -> None:
    found = codec().object(SECRET, raw(meta=meta))

    assert (found.labels, found.annotations, found.finalizers, found.owner_references) == ({}, {}, (), ())
    assert (found.deleting, found.known_copy, found.last_manager, found.managed_keys) == (False, False, "", frozenset())


def test_an_object_with_nothing_but_a_name_can_be_read() -> None:
    found = codec().object(NAMESPACE, b'{"metadata":{"name":"a"}}')

    assert (found.ref, found.uid, found.resource_version, found.content) == (Ref(NAMESPACE, "", "a"), "", 0, Content())


@pytest.mark.parametrize(
    "odd", [b"", b"[]", b'{"metadata":{}}', b'{"metadata":{"name":7}}', b'{"metadata":{"name":"\xff"}}']
)
def test_what_is_no_object_is_refused_as_such(odd: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        codec().object(SECRET, odd)


def test_the_version_is_read_without_the_rest() -> None:
    assert version_of(raw(version=2**53 + 1)) == 2**53 + 1


def test_the_status_is_no_content() -> None:
    kind = Kind("toys.dev", "v1", "Fetch", "fetches")
    with_status = codec().object(kind, raw(status={"ready": True}))

    assert with_status.content.get("status") is None
    assert with_status.status is not None
    assert with_status.status.raw == b'{"ready": true}'
    assert codec().object(NAMESPACE, raw(status={"phase": "Active"})).status is None


# who did what


def test_our_own_record_makes_a_copy_ours() -> None:
    found = recorded(entry())

    assert found.known_copy
    assert found.managed_keys == {
        ManagedKey(FIELD_MANAGER, ANNOTATIONS, "secret-copy/origin"),
        ManagedKey(FIELD_MANAGER, LABELS, "secret-copy/from"),
    }
    assert found.applied_keys == frozenset()


def test_the_record_of_an_original_names_its_keys_but_does_not_make_a_copy_ours() -> None:
    found = recorded(entry(THEIRS))

    assert not found.known_copy
    assert {owned.manager for owned in found.managed_keys} == {THEIRS}


def test_applied_keys_are_known_apart() -> None:
    found = recorded(entry(operation="Apply"), entry(THEIRS))

    assert {owned.manager for owned in found.applied_keys} == {FIELD_MANAGER}
    assert {owned.manager for owned in found.managed_keys} == {FIELD_MANAGER, THEIRS}


@pytest.mark.parametrize(
    "theirs",
    [
        entry("kubectl"),
        entry(time="2026-11-15T09:59:29Z"),  # older than the object: pasted or restored along with it
        entry(time="2025-11-15T10:00:00Z"),
        entry(time=""),  # anybody can write an entry without a time
        entry(time="10000-01-01T00:00:00Z"),
        entry(time="0000"),
        entry(subresource="status"),
        entry(fieldsV1=None, manager="kubectl"),
        entry("samara-2"),
    ],
)
def test_a_record_that_proves_nothing_is_ignored(theirs: dict[str, Any]) -> None:
    found = recorded(theirs)

    assert (found.managed_keys, found.applied_keys, found.known_copy) == (frozenset(), frozenset(), False)


@pytest.mark.parametrize("time", [CREATED, "2026-11-15T09:59:59Z", "2026-11-15T09:59:30Z"])
def test_an_entry_that_is_as_old_as_admission_may_take_counts(time: str) -> None:
    """The server notes who wrote before it asks admission, and when it was created after."""
    assert recorded(entry(time=time)).known_copy


@pytest.mark.parametrize(
    "fields", [None, {}, {"f:data": {}}, {"f:metadata": {}}, {"f:metadata": {"f:labels": {".": {}}}}]
)
def test_an_entry_without_keys_owns_none(fields: dict[str, Any] | None) -> None:
    found = recorded(entry(fieldsV1=fields))

    assert (found.managed_keys, found.known_copy) == (frozenset(), True)


def test_the_editor_is_who_changed_it_last_and_is_not_us() -> None:
    assert recorded(entry(time=CREATED), entry("kubectl-edit", time=LATER)).last_manager == "kubectl-edit"
    assert recorded(entry("kubectl-edit", time=CREATED), entry(time=LATER)).last_manager == ""
    assert recorded(entry("kubectl-edit", time=CREATED), entry(THEIRS, time=LATER)).last_manager == ""


def test_of_two_who_changed_it_in_the_same_second_the_editor_is_who_is_not_us() -> None:
    """The server puts those who applied first, and then goes by name: the order says nothing."""
    for pair in ((entry(), entry("zz-tool")), (entry("a-tool"), entry())):
        assert recorded(*pair).last_manager.endswith("-tool")


def test_nobody_is_blamed_alone_for_what_another_may_have_done_in_the_same_second() -> None:
    pair = (entry("maker", time=LATER), entry("breaker", time=LATER))
    assert recorded(entry(time=CREATED), *pair).last_manager == "breaker or maker"


# what is shared


def test_copies_share_content_words_and_records() -> None:
    one = codec()
    meta = {"labels": {"x": "y"}, "annotations": {"k": "v"}, "managedFields": [entry()]}
    a, b = (one.object(SECRET, raw(namespace, meta=meta)) for namespace in ("a", "b"))

    assert a.content is b.content
    assert a.labels is b.labels
    assert a.annotations is b.annotations
    assert a.managed_keys is b.managed_keys
    assert a.ref.name is b.ref.name
    assert a.created is b.created


def test_fields_are_shared_between_contents_that_differ() -> None:
    one = codec()
    a, b = one.object(SECRET, raw()), one.object(SECRET, raw(immutable=True))

    assert a.content != b.content
    assert a.content.get("data") is b.content.get("data")


def test_what_nobody_holds_any_more_is_forgotten() -> None:
    one = codec()
    held = one.object(SECRET, raw(meta={"labels": {"x": "y"}}))
    assert len(one._shared_contents) == len(one._shared_fields) - 1 == 1
    del held

    assert (len(one._shared_contents), len(one._shared_fields)) == (0, 0)


def test_a_digest_says_nothing_to_another_process() -> None:
    a, b = codec().object(SECRET, raw()), codec().object(SECRET, raw())

    assert a.content != b.content


def test_contents_that_differ_in_one_byte_differ() -> None:
    one = codec()

    assert one.object(SECRET, raw(data={"k": "YQ=="})).content != one.object(SECRET, raw(data={"k": "YR=="})).content


def test_what_we_build_equals_what_the_server_writes() -> None:
    one = codec()
    written = b'{"metadata":{"name":"x"},"data":{"a":"MQ==","b":"Mg=="},"type":"Opaque"}'

    assert one.content({"type": "Opaque", "data": {"b": "Mg==", "a": "MQ=="}}) == one.object(SECRET, written).content


# what is sent


def sent(obj: Object) -> bytes:
    return body(obj.ref, obj.content, {"labels": obj.labels})


@pytest.mark.parametrize(
    "data",
    [
        b'{"k":"YQ=="}',
        b"{}",
        b"null",
        b'{ "odd" : "spacing" ,"\\u00e9":"YQ=="}',
        b'{"big":"' + base64.b64encode(b"x" * 2**20) + b'"}',
        b'{"binary":"' + base64.b64encode(bytes(range(256))) + b'"}',
        b'{"n":12345678901234567890123,"f":1.10}',
    ],
    ids=["plain", "empty", "null", "odd", "1 MiB", "not UTF-8", "numbers"],
)
def test_a_body_carries_the_bytes_of_the_content_unchanged(data: bytes) -> None:
    found = codec().object(SECRET, b'{"metadata":{"name":"x","namespace":"a"},"data":' + data + b',"type":"Opaque"}')

    assert data in sent(found)
    assert json.loads(sent(found))["data"] == json.loads(data)


def test_a_body_has_its_own_head() -> None:
    found = json.loads(sent(codec().object(SECRET, raw(meta={"labels": {"a": "b"}}))))

    assert (found["apiVersion"], found["kind"]) == ("v1", "Secret")
    assert found["metadata"] == {"name": "db", "namespace": "a", "labels": {"a": "b"}}
    assert set(found) == {"apiVersion", "kind", "metadata", "data", "type"}


def test_the_body_of_a_namespace_is_in_no_namespace() -> None:
    assert json.loads(body(Ref(NAMESPACE, "", "a"), Content(), {}))["metadata"] == {"name": "a"}


def test_a_copy_without_labels_can_be_sent() -> None:
    copy = Copy(at("a", "db"), Template(Content()))

    assert json.loads(body(copy.ref, Content(), {"labels": copy.template.labels}))["metadata"]["labels"] == {}


def test_sealed_content_is_equal_and_never_sent() -> None:
    found = codec().object(SECRET, raw())
    sealed = found.content.digests_only()

    assert sealed == found.content
    assert all(field.raw is None for field in sealed.fields)
    with pytest.raises(AssertionError, match="sealed content is for comparison only"):
        body(found.ref, sealed, {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["data", "type", "immutable", "spec", "stringData", "é"]), JSON), st.booleans())
def test_whatever_comes_goes_out_again(fields: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps({"metadata": {"name": "x"}, **fields}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")

    found = json.loads(sent(codec().object(SECRET, text)))
    assert {name: found[name] for name in fields} == fields


# what is shown


def test_no_value_is_in_the_repr_of_anything() -> None:
    meta = {"annotations": {"note": CANARY}, "labels": {"x": CANARY}, "managedFields": [entry()]}
    found = codec().object(SECRET, raw(meta=meta, status={"x": CANARY}))
    key = codec().object(SECRET, raw()).ref
    copy = Copy(found.ref, Template(found.content, found.labels, found.annotations))
    things = [
        found,
        found.content,
        found.content.fields,
        found.status,
        copy,
        Overlay(found.ref, found.labels, found.annotations),
        Create(("d", key, None), found.ref, copy),  # type: ignore[arg-type]
        Update(("d", key, None), found.ref, copy, found, "why"),  # type: ignore[arg-type]
        HeldSet("k", frozenset({found.ref}), 1, 0.0, 1.0),
    ]

    for shown in (form(thing) for thing in things for form in (repr, str)):
        assert CANARY not in shown
        assert "password" not in shown
