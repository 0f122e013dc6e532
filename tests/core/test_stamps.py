"""Stamps: annotations that record a write, and that are never by themselves a reason for one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.world import World, at, secret

from samara.core.desired import Stamp, Template
from samara.core.metadata import is_in_sync, merged, split_foreign_metadata, stamped, with_stamps_of
from samara.core.model import ANNOTATIONS, FIELD_MANAGER, ManagedKey, Object
from samara.core.ownership import ByMark
from samara.core.registry import Registry

MARK, VERSION, AT, ORIGIN = "toy/from", "toy/version", "toy/at", "toy/origin"
OWNERSHIP = ByMark(frozenset({MARK, VERSION, AT, ORIGIN}), lambda obj, view: None)
NOW = "2026-05-01T10:00:00Z"


def origin(name: str, version: int) -> str:
    return json.dumps({"name": name, "version": version})


def named(value: str) -> object:
    try:
        return json.loads(value)["name"]
    except (ValueError, KeyError, TypeError):
        return None


TEMPLATE = Template(
    secret(),
    annotations={MARK: "home"},
    stamps={VERSION: Stamp("8"), AT: Stamp(lambda now: f"at {now}"), ORIGIN: Stamp(origin("db", 8), named)},
)
GOOD: Mapping[str, str] = {MARK: "home", VERSION: "7", AT: "at 2025", ORIGIN: origin("db", 7)}


def live(annotations: Mapping[str, str], **more: Any) -> Object:
    ours = frozenset(ManagedKey(FIELD_MANAGER, ANNOTATIONS, key) for key in annotations)
    given: dict[str, Any] = {"content": secret(), "managed_keys": ours, **more}
    return Object(at("a", "x"), "u", 1, annotations=annotations, **given)


def in_sync(annotations: Mapping[str, str]) -> bool:
    return is_in_sync(TEMPLATE, live(annotations), OWNERSHIP, World(Registry(())))


def without(*keys: str) -> dict[str, str]:
    return {key: value for key, value in GOOD.items() if key not in keys}


@pytest.mark.parametrize(
    "annotations",
    [GOOD, without(VERSION), without(AT), without(VERSION, AT), {**GOOD, VERSION: "", AT: "yesterday"}],
)
def test_a2_a_missing_or_old_stamp_is_no_reason_for_a_write(annotations: dict[str, str]) -> None:
    assert in_sync(annotations)


@pytest.mark.parametrize("found", [None, "", "no json", origin("other", 8)])
def test_a2_a_stamp_that_names_the_source_must_name_it(found: str | None) -> None:
    assert not in_sync(without(ORIGIN) if found is None else {**GOOD, ORIGIN: found})


def test_a2_a_write_with_another_reason_brings_every_stamp_up_to_date() -> None:
    current = {MARK: "home", VERSION: "8", AT: f"at {NOW}", ORIGIN: origin("db", 8)}
    written = stamped(TEMPLATE, NOW)
    assert merged(ANNOTATIONS, written, live({**GOOD, "note": "theirs"}, managed_keys=frozenset()), OWNERSHIP) == {
        **current,
        "note": "theirs",
    }
    assert split_foreign_metadata(written, live(GOOD), OWNERSHIP)[0].annotations == current


def test_a_trial_keeps_the_stamps_that_are_no_reason_for_a_write() -> None:
    stale = {**GOOD, ORIGIN: origin("other", 7)}
    trial = stamped(with_stamps_of(TEMPLATE, live(stale)), NOW)
    assert merged(ANNOTATIONS, trial, live(stale), OWNERSHIP) == {**GOOD, ORIGIN: origin("db", 8)}


def test_a_stamp_that_the_source_type_no_longer_writes_is_removed() -> None:
    fewer = TEMPLATE._replace(stamps={AT: TEMPLATE.stamps[AT]})
    assert not is_in_sync(fewer, live(GOOD), OWNERSHIP, World(Registry(())))
    assert merged(ANNOTATIONS, stamped(fewer, NOW), live(GOOD), OWNERSHIP) == {MARK: "home", AT: f"at {NOW}"}
