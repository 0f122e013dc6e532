"""The operator's Events about writes that fail are read back, and block those writes in a plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.samples import a_key, create
from tests.support.world import at

from samara.cli.inspect.reported import _block_reported, _is_fresh, _parse_event
from samara.core.writes import Plan, Step

QUOTA = "the API server answered 403 Forbidden: exceeded quota: few, used: count/secrets=0; limited to 0"


def event(reason: str = "Refused", message: str = QUOTA, **annotations: str) -> dict[str, Any]:
    """An Event with the annotations `samara.dev/…`; `_` stands for `-`."""
    named = {f"samara.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {"reason": reason, "message": message, "metadata": {"annotations": named}}


@pytest.mark.parametrize(
    ("namespaces", "count", "names"),
    [
        ('["full"]', "1", {"full"}),
        ('["a","full"]', "2", {"a", "full"}),
        ('["a","b"]', "150", None),
        ("[]", "0", None),
        ("no JSON", "1", None),
        ("[" * 100_000, "1", None),
        ("[1]", "1", None),
    ],
)
def test_event_concerns_the_namespaces_that_its_annotations_name(
    namespaces: str, count: str, names: set[str] | None
) -> None:
    reported = _parse_event(event(namespaces=namespaces, namespace_count=count))
    assert reported.namespaces == names
    assert (reported.reason, reported.message) == ("refused", QUOTA)


def test_event_without_annotations_concerns_every_namespace() -> None:
    """An older operator wrote it. Programs do not parse its message."""
    reported = _parse_event({"reason": "Refused", "message": f"{QUOTA} in 1 namespace: full", "metadata": {}})
    assert reported.concerns(a_key(), at("elsewhere", "db"))


@pytest.mark.parametrize(
    ("keys", "concerned"),
    [
        ("secret-copy/Secret/admin/db", True),
        ("secret-copy/Secret/admin/db,sync-to/Secret/admin/db", True),
        ("sync-to/Secret/admin/db", False),
    ],
)
def test_event_concerns_the_keys_that_its_annotation_names(keys: str, concerned: bool) -> None:
    reported = _parse_event(event(key=keys, namespaces='["a"]', namespace_count="1"))
    assert reported.concerns(a_key(), at("a", "db")) is concerned


def test_only_the_writes_that_an_event_concerns_are_blocked() -> None:
    plan = Plan(tuple(Step(write.ref, write, "missing") for write in (create("a"), create("b"))))
    merged = _block_reported(
        plan, [_parse_event(event("Fought", "another client changes it", namespaces='["b"]', namespace_count="1"))]
    )
    assert [write.ref for write in merged.writes] == [at("a", "db")]
    assert [(blocked.key, blocked.ref, blocked.reason) for blocked in merged.blocked] == [
        (a_key(), at("b", "db"), "fought")
    ]
    assert [step.rule for step in merged.steps] == ["missing", "missing"]


@pytest.mark.parametrize(("ago", "fresh"), [(0, True), (1800, True), (3600, False)])
def test_event_that_was_not_repeated_is_over(ago: int, fresh: bool) -> None:
    last = datetime.now(UTC) - timedelta(seconds=ago)
    assert _is_fresh({"lastTimestamp": last.strftime("%Y-%m-%dT%H:%M:%SZ")}) is fresh


def test_event_without_a_time_is_ignored() -> None:
    assert not _is_fresh({"lastTimestamp": None})
