"""Parsing the spec of a FishySecret: legal values, and all faults at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samara.core.kinds import NEVER_COPIED_TYPES
from samara.core.model import SECRET, Ref
from samara.core.source_limits import LIMIT_EXCEEDED
from samara.vocabularies.fishysecret.spec import MAX_ITEMS, MAX_PATH_LENGTH, MAX_PATHS, Item, Spec, read

Json = dict[str, Any]
ITEM: Json = {"secretPath": "/app/db", "secretKeyName": "KEY"}
TARGET: Json = {"name": "db", "namespace": "team"}


def spec(**changes: Any) -> Json:
    return {"target": TARGET, "data": [ITEM], **changes}


def parsed(spec_json: object) -> Spec:
    return read(json.dumps(spec_json).encode())


def messages(spec_json: object) -> list[str]:
    return [fault.message for fault in parsed(spec_json).faults]


def test_a_spec_is_read_into_values() -> None:
    complete = spec(
        target={**TARGET, "type": "kubernetes.io/tls"},
        data=[ITEM, {"secretPath": "a#b", "secretKeyName": "tls.crt", "optional": True}],
        refreshInterval="1h30m",
        suspend=True,
        server="as in an old sample",
    )
    assert parsed(complete) == Spec(
        Ref(SECRET, "team", "db"),
        "kubernetes.io/tls",
        (Item("/app/db", "KEY"), Item("a#b", "tls.crt", True)),
        5400.0,
        True,
    )


def test_optional_fields_have_defaults() -> None:
    assert parsed(spec()) == Spec(Ref(SECRET, "team", "db"), "Opaque", (Item("/app/db", "KEY"),), None, False)


@pytest.mark.parametrize("raw", [None, b"", b"null", b"[]", b"no JSON", b"[" * 100_000])
def test_a_missing_or_malformed_spec_has_one_fault(raw: bytes | None) -> None:
    assert [fault.message.partition(":")[0] for fault in read(raw).faults] == ["spec"]


@pytest.mark.parametrize("text", ["1s", "90s", "5m", "1h", "1h30m", "1h0m5s"])
def test_durations_are_accepted(text: str) -> None:
    assert messages(spec(refreshInterval=text)) == []


@pytest.mark.parametrize("key", ["a", "DB_PASS", "tls.crt", ".hidden", "-", "x" * 253])
def test_keys_are_accepted(key: str) -> None:
    assert messages(spec(data=[{**ITEM, "secretKeyName": key}])) == []


FAULTS: list[tuple[str, Json]] = [
    ("spec.target", {"data": [ITEM]}),
    ("spec.target", spec(target="db")),
    ("spec.target.name", spec(target={"namespace": "team"})),
    ("spec.target.name", spec(target={**TARGET, "name": "Not_A_Name"})),
    ("spec.target.name", spec(target={**TARGET, "name": "x" * 254})),
    ("spec.target.name", spec(target={**TARGET, "name": 7})),
    ("spec.target.namespace", spec(target={"name": "db"})),
    ("spec.target.namespace", spec(target={**TARGET, "namespace": "a.b"})),
    ("spec.target.namespace", spec(target={**TARGET, "namespace": "x" * 64})),
    ("spec.target.type", spec(target={**TARGET, "type": 7})),
    ("spec.target.type", spec(target={**TARGET, "type": "no such type"})),
    ("spec.data", {"target": TARGET}),
    ("spec.data", spec(data=[])),
    ("spec.data", spec(data={})),
    ("spec.data", spec(data=[{**ITEM, "secretKeyName": f"k{n}"} for n in range(MAX_ITEMS + 1)])),
    ("spec.data[0]", spec(data=["x"])),
    ("spec.data[0].secretPath", spec(data=[{"secretKeyName": "KEY"}])),
    ("spec.data[0].secretPath", spec(data=[{**ITEM, "secretPath": ""}])),
    ("spec.data[0].secretPath", spec(data=[{**ITEM, "secretPath": "/app/../root"}])),
    ("spec.data[0].secretPath", spec(data=[{**ITEM, "secretPath": "x" * (MAX_PATH_LENGTH + 1)}])),
    ("spec.data[0].secretKeyName", spec(data=[{"secretPath": "/app/db"}])),
    ("spec.data[0].secretKeyName", spec(data=[{**ITEM, "secretKeyName": "no spaces"}])),
    ("spec.data[0].secretKeyName", spec(data=[{**ITEM, "secretKeyName": "x" * 254}])),
    ("spec.data[0].secretKeyName", spec(data=[{**ITEM, "secretKeyName": "."}])),
    ("spec.data[0].secretKeyName", spec(data=[{**ITEM, "secretKeyName": "..data"}])),
    ("spec.data[0].optional", spec(data=[{**ITEM, "optional": "yes"}])),
    ("spec.data", spec(data=[ITEM, {**ITEM, "secretPath": "/other"}])),
    ("spec.refreshInterval", spec(refreshInterval="")),
    ("spec.refreshInterval", spec(refreshInterval="0s")),
    ("spec.refreshInterval", spec(refreshInterval="-5m")),
    ("spec.refreshInterval", spec(refreshInterval="500ms")),
    ("spec.refreshInterval", spec(refreshInterval=300)),
    ("spec.refreshInterval", spec(refreshInterval="1234567h")),
    ("spec.suspend", spec(suspend="true")),
]


@pytest.mark.parametrize(("where", "spec_json"), FAULTS, ids=lambda value: value if isinstance(value, str) else "")
def test_defect_13_a_fault_is_invalid_and_names_its_field_and_the_expected_value(where: str, spec_json: Json) -> None:
    (fault,) = parsed(spec_json).faults
    assert fault.reason == "Invalid"
    assert fault.message.startswith(f"{where}: ")
    assert len(fault.message) < 300


def test_more_paths_than_one_fishysecret_may_read_exceed_the_limit_and_many_keys_of_a_few_paths_do_not() -> None:
    def keys(paths: int, keys: int) -> Json:
        return spec(data=[{"secretPath": f"/p{n % paths}", "secretKeyName": f"k{n}"} for n in range(keys)])

    assert messages(keys(MAX_PATHS, MAX_ITEMS)) == []
    (fault,) = parsed(keys(MAX_PATHS + 1, MAX_PATHS + 1)).faults
    assert (fault.reason, fault.field) == (LIMIT_EXCEEDED, "spec.data")
    assert fault.message == "spec.data: a list with at most 100 different paths was expected, found 101"
    assert [mistake.field for mistake in fault.mistakes] == ["spec.data"]


def test_all_faults_are_reported_at_once() -> None:
    wrong = {"target": {"name": "A", "namespace": "B"}, "data": [{"secretPath": "..", "secretKeyName": "!"}]}
    assert [message.partition(":")[0] for message in messages(wrong)] == [
        "spec.target.name",
        "spec.target.namespace",
        "spec.data[0].secretKeyName",
        "spec.data[0].secretPath",
    ]


@pytest.mark.parametrize("name", sorted(NEVER_COPIED_TYPES))
def test_types_that_grant_access_are_refused(name: str) -> None:
    (fault,) = parsed(spec(target={**TARGET, "type": name})).faults
    assert fault.reason == "Refused"
    assert name in fault.message
