"""Tests decoding and encoding: values are kept, hidden from reprs, and interned."""

from __future__ import annotations

import base64
import gc
import json
import tracemalloc
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
from samara.kube.codec import MOST_ABSENT_KEYS, Codec, body, owner_references, version_of

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


def test_every_field_of_an_object_is_decoded() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u1", "controller": True}
    obj = codec().object(
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

    assert obj.ref == at("a", "db")
    assert (obj.uid, obj.resource_version, obj.generation, obj.created) == ("u-a", 7, 3, CREATED)
    assert (obj.labels, obj.annotations) == ({"team": "red"}, {"note": "x"})
    assert (obj.finalizers, obj.deleting) == (("somebody/else",), True)
    assert obj.owner_references == (OwnerReference("apps/v1", "Deployment", "web", "u1", True, None),)
    assert owner_references(obj.owner_references) == [owner]
    assert [field.name for field in obj.content.fields] == ["data", "type"]


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"labels": None, "annotations": None, "finalizers": None, "ownerReferences": None, "managedFields": None},
        {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": [], "managedFields": []},
        {"creationTimestamp": None, "deletionTimestamp": None},
    ],
)
def test_missing_and_null_fields_are_empty(meta: dict[str, Any]) -> None:
    obj = codec().object(SECRET, raw(meta=meta))

    assert (obj.labels, obj.annotations, obj.finalizers, obj.owner_references) == ({}, {}, (), ())
    assert (obj.deleting, obj.known_copy, obj.last_manager, obj.managed_keys) == (False, False, "", frozenset())


def test_an_object_with_only_a_name_is_decoded() -> None:
    obj = codec().object(NAMESPACE, b'{"metadata":{"name":"a"}}')

    assert (obj.ref, obj.uid, obj.resource_version, obj.content) == (Ref(NAMESPACE, "", "a"), "", 0, Content())


@pytest.mark.parametrize(
    "odd", [b"", b"[]", b'{"metadata":{}}', b'{"metadata":{"name":7}}', b'{"metadata":{"name":"\xff"}}']
)
def test_anything_but_an_object_is_malformed(odd: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        codec().object(SECRET, odd)


def test_the_version_is_read_without_the_rest() -> None:
    assert version_of(raw(version=2**53 + 1)) == 2**53 + 1


def test_the_status_is_not_part_of_the_content() -> None:
    kind = Kind("toys.dev", "v1", "Fetch", "fetches")
    with_status = codec().object(kind, raw(status={"ready": True}))

    assert with_status.content.get("status") is None
    assert with_status.status is not None
    assert with_status.status.raw == b'{"ready": true}'
    assert codec().object(NAMESPACE, raw(status={"phase": "Active"})).status is None


# who did what


def test_managed_fields_of_our_manager_make_a_copy_ours() -> None:
    obj = recorded(entry())

    assert obj.known_copy
    assert obj.written
    assert obj.managed_keys == {
        ManagedKey(FIELD_MANAGER, ANNOTATIONS, "secret-copy/origin"),
        ManagedKey(FIELD_MANAGER, LABELS, "secret-copy/from"),
    }
    assert obj.applied_keys == frozenset()


def test_managed_fields_of_an_original_name_its_keys_but_do_not_make_a_copy_ours() -> None:
    obj = recorded(entry(THEIRS))

    assert not obj.known_copy
    assert {owned.manager for owned in obj.managed_keys} == {THEIRS}


def test_applied_keys_are_listed_separately() -> None:
    obj = recorded(entry(operation="Apply"), entry(THEIRS))

    assert {owned.manager for owned in obj.applied_keys} == {FIELD_MANAGER}
    assert {owned.manager for owned in obj.managed_keys} == {FIELD_MANAGER, THEIRS}


@pytest.mark.parametrize(
    "theirs",
    [
        entry("kubectl"),
        entry(time="2026-11-15T09:59:29Z"),  # older than the object: pasted or restored along with it
        entry(time="2025-11-15T10:00:00Z"),
        entry(time=""),  # any client can write an entry without a time
        entry(time="10000-01-01T00:00:00Z"),
        entry(time="0000"),
        entry(subresource="status"),
        entry(fieldsV1=None, manager="kubectl"),
        entry("samara-2"),
    ],
)
def test_an_unreliable_entry_of_managed_fields_is_ignored(theirs: dict[str, Any]) -> None:
    obj = recorded(theirs)

    assert (obj.managed_keys, obj.applied_keys, obj.known_copy) == (frozenset(), frozenset(), False)


@pytest.mark.parametrize("time", [CREATED, "2026-11-15T09:59:59Z", "2026-11-15T09:59:30Z"])
def test_an_entry_older_than_the_object_by_less_than_admission_takes_counts(time: str) -> None:
    """The server sets the time of the entry before admission, and creationTimestamp after it."""
    assert recorded(entry(time=time)).known_copy


@pytest.mark.parametrize(
    "fields", [None, {}, {"f:data": {}}, {"f:metadata": {}}, {"f:metadata": {"f:labels": {".": {}}}}]
)
def test_an_entry_without_keys_owns_none(fields: dict[str, Any] | None) -> None:
    obj = recorded(entry(fieldsV1=fields))

    assert (obj.managed_keys, obj.known_copy) == (frozenset(), True)


def test_the_last_manager_is_the_newest_one_that_is_not_ours() -> None:
    assert recorded(entry(time=CREATED), entry("kubectl-edit", time=LATER)).last_manager == "kubectl-edit"
    assert recorded(entry("kubectl-edit", time=CREATED), entry(time=LATER)).last_manager == ""
    assert recorded(entry("kubectl-edit", time=CREATED), entry(THEIRS, time=LATER)).last_manager == ""


def test_of_two_managers_in_the_same_second_the_last_is_not_ours() -> None:
    """The server sorts entries by operation and name, so their order does not tell which was last."""
    for pair in ((entry(), entry("zz-tool")), (entry("a-tool"), entry())):
        assert recorded(*pair).last_manager.endswith("-tool")


def test_all_managers_of_the_same_last_second_are_named() -> None:
    pair = (entry("maker", time=LATER), entry("breaker", time=LATER))
    assert recorded(entry(time=CREATED), *pair).last_manager == "breaker or maker"


# shared values


def test_equal_copies_share_content_metadata_and_managed_keys() -> None:
    one = codec()
    meta = {"labels": {"x": "y"}, "annotations": {"k": "v"}, "managedFields": [entry()]}
    a, b = (one.object(SECRET, raw(namespace, meta=meta)) for namespace in ("a", "b"))

    assert a.content is b.content
    assert a.labels is b.labels
    assert a.annotations is b.annotations
    assert a.managed_keys is b.managed_keys
    assert a.ref.name is b.ref.name
    assert a.created is b.created


def forged(number: int, keys: int = 5_000) -> bytes:
    """An object whose managedFields attribute many keys to Samara, none of which it has. Anybody can apply such."""
    fields: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:x{number}-{key}": {} for key in range(keys)}}}
    return raw(meta={"managedFields": [entry(fieldsV1=fields, operation="Apply")]})


def test_managed_fields_of_objects_that_changed_or_are_gone_take_no_memory() -> None:
    one, texts = codec(), [forged(number) for number in range(20)]
    tracemalloc.start()
    try:
        for text in texts:
            assert one.object(SECRET, text).known_copy
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 500_000


def test_names_and_managers_of_objects_that_are_gone_take_little_memory() -> None:
    """Python 3.12 never frees a string that `sys.intern` took."""
    one, number = codec(), 50_000
    tracemalloc.start()
    try:
        for index in range(number):
            meta = {"managedFields": [entry(f"manager-{index}", fieldsV1={})], "labels": {}}
            one.object(SECRET, raw(name=f"name-of-a-secret-{index}", meta=meta))
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 6_000_000


def test_of_many_managed_keys_only_those_are_kept_that_the_object_has() -> None:
    listed: dict[str, Any] = {f"f:x-{key}": {} for key in range(MOST_ABSENT_KEYS + 1)}
    fields = {"f:metadata": {"f:labels": {".": {}, **listed}}}
    meta = {"labels": {"x-7": "", "y": ""}, "managedFields": [entry(fieldsV1=fields)]}
    obj = codec().object(SECRET, raw(meta=meta))

    assert obj.managed_keys == {ManagedKey(FIELD_MANAGER, LABELS, "x-7")}


def test_of_many_last_managers_a_few_are_named() -> None:
    last = recorded(*(entry(f"m{number:04}") for number in range(1000))).last_manager

    assert last == "m0000 or m0001 or m0002 or m0003 or m0004"


def test_fields_are_shared_between_contents_that_differ() -> None:
    one = codec()
    a, b = one.object(SECRET, raw()), one.object(SECRET, raw(immutable=True))

    assert a.content != b.content
    assert a.content.get("data") is b.content.get("data")


def test_unused_interned_values_are_freed() -> None:
    one = codec()
    held = one.object(SECRET, raw(meta={"labels": {"x": "y"}}))
    assert len(one._shared_contents) == len(one._shared_fields) - 1 == 1
    del held

    assert (len(one._shared_contents), len(one._shared_fields)) == (0, 0)


def test_two_processes_have_different_digests() -> None:
    a, b = codec().object(SECRET, raw()), codec().object(SECRET, raw())

    assert a.content != b.content


def test_contents_that_differ_in_one_byte_differ() -> None:
    one = codec()

    assert one.object(SECRET, raw(data={"k": "YQ=="})).content != one.object(SECRET, raw(data={"k": "YR=="})).content


def test_built_content_equals_that_of_the_server() -> None:
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
    obj = codec().object(SECRET, b'{"metadata":{"name":"x","namespace":"a"},"data":' + data + b',"type":"Opaque"}')

    assert data in sent(obj)
    assert json.loads(sent(obj))["data"] == json.loads(data)


def test_a_body_has_its_own_metadata() -> None:
    sent_body = json.loads(sent(codec().object(SECRET, raw(meta={"labels": {"a": "b"}}))))

    assert (sent_body["apiVersion"], sent_body["kind"]) == ("v1", "Secret")
    assert sent_body["metadata"] == {"name": "db", "namespace": "a", "labels": {"a": "b"}}
    assert set(sent_body) == {"apiVersion", "kind", "metadata", "data", "type"}


def test_the_body_of_a_namespace_is_in_no_namespace() -> None:
    assert json.loads(body(Ref(NAMESPACE, "", "a"), Content(), {}))["metadata"] == {"name": "a"}


def test_a_copy_without_labels_can_be_sent() -> None:
    copy = Copy(at("a", "db"), Template(Content()))

    assert json.loads(body(copy.ref, Content(), {"labels": copy.template.labels}))["metadata"]["labels"] == {}


def test_content_without_bytes_is_equal_and_never_sent() -> None:
    obj = codec().object(SECRET, raw())
    sealed = obj.content.digests_only()

    assert sealed == obj.content
    assert all(field.raw is None for field in sealed.fields)
    with pytest.raises(AssertionError, match="sealed content is for comparison only"):
        body(obj.ref, sealed, {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["data", "type", "immutable", "spec", "stringData", "é"]), JSON), st.booleans())
def test_any_object_is_encoded_as_it_was_decoded(fields: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps({"metadata": {"name": "x"}, **fields}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")

    sent_body = json.loads(sent(codec().object(SECRET, text)))
    assert {name: sent_body[name] for name in fields} == fields


# reprs


def test_no_repr_shows_a_value() -> None:
    meta = {"annotations": {"note": CANARY}, "labels": {"x": CANARY}, "managedFields": [entry()]}
    obj = codec().object(SECRET, raw(meta=meta, status={"x": CANARY}))
    key = codec().object(SECRET, raw()).ref
    copy = Copy(obj.ref, Template(obj.content, obj.labels, obj.annotations))
    items = [
        obj,
        obj.content,
        obj.content.fields,
        obj.status,
        copy,
        Overlay(obj.ref, obj.labels, obj.annotations),
        Create(("d", key, None), obj.ref, copy),  # type: ignore[arg-type]
        Update(("d", key, None), obj.ref, copy, obj, "why"),  # type: ignore[arg-type]
        HeldSet("k", frozenset({obj.ref}), 0.0, 1.0),
    ]

    for shown in (form(item) for item in items for form in (repr, str)):
        assert CANARY not in shown
        assert "password" not in shown
