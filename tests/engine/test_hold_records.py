"""The records of held sets: whatever the ConfigMap contains, those that can be read are."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.samples import a_key

from samara.engine.hold_records import HoldRecord, record_name, records

TIMES = "2026-11-15T10:00:00Z"


def test_written_records_can_be_read() -> None:
    written = [HoldRecord(str(a_key(name)), 7, TIMES, TIMES, "digest", "release digest") for name in ("x", "y")]
    data = {record_name(record.key): json.dumps(asdict(record)) for record in written}

    assert records({"data": data}) == {record.key: record for record in written}


@given(st.builds(HoldRecord, *[st.text(), st.integers(0, 2**53), *[st.text()] * 4]))
def test_any_record_survives_a_round_trip_through_json(entry: HoldRecord) -> None:
    assert records({"data": {"x": json.dumps(asdict(entry))}}) == {entry.key: entry}


GARBAGE = [
    "",
    "not json",
    "[]",
    "null",
    "7",
    "{}",
    '{"key": "only"}',
    json.dumps(asdict(HoldRecord("k", 1, TIMES, TIMES, "d")) | {"key": {}}),
    json.dumps(asdict(HoldRecord("k", 1, TIMES, TIMES, "d")) | {"answer": 7}),
    json.dumps(asdict(HoldRecord("k", 1, TIMES, TIMES, "d")) | {"count": "many"}),
    "[" * 5000,
]


@pytest.mark.parametrize("text", GARBAGE, ids=range(len(GARBAGE)))
def test_an_unreadable_record_is_ignored_and_the_others_are_read(text: str) -> None:
    good = HoldRecord(str(a_key()), 1, TIMES, TIMES, "d")

    assert records({"data": {"a": text, "b": json.dumps(asdict(good))}}) == {good.key: good}


@pytest.mark.parametrize("config_map", [{}, {"data": None}, {"data": {}}])
def test_an_empty_config_map_holds_nothing(config_map: dict[str, Any]) -> None:
    assert records(config_map) == {}


def test_the_name_of_a_record_is_a_legal_key_of_a_config_map() -> None:
    assert record_name("secret-copy/Secret/admin/db").isalnum()
    assert record_name("a") != record_name("b")
