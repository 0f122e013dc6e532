"""What the operator's Events say of writes that do not go through, read back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.engine.parts import a_key, create
from tests.support.world import at

from samara.cli.inspect.reported import _is_fresh, _read, _stopped
from samara.core.write import Plan

QUOTA = "the API server answered 403 Forbidden: exceeded quota: few, used: count/secrets=0; limited to 0"


@pytest.mark.parametrize(
    ("message", "names"),
    [
        (f"{QUOTA} in 1 namespace: full", {"full"}),
        (f"{QUOTA} in 2 namespaces: a, full; ask for more room", {"a", "full"}),
        (f"{QUOTA} in 12 namespaces: a, b, c and 9 more; ask for more room", None),
        (QUOTA, None),
        (f"said in 1 namespace: other; {QUOTA} in 1 namespace: full", {"full"}),
    ],
)
def test_the_namespaces_of_an_event_are_known_where_all_are_named(message: str, names: set[str] | None) -> None:
    told = _read({"reason": "Refused", "message": message})
    assert told.namespaces == names
    assert (told.reason, told.message) == ("refused", message)


def test_only_the_writes_of_which_it_is_told_are_blocked() -> None:
    plan = Plan(writes=(create("a"), create("b")))
    found = _stopped(plan, [_read({"reason": "Fought", "message": "somebody changes it in 1 namespace: b"})])
    assert [write.ref for write in found.writes] == [at("a", "db")]
    assert [(each.key, each.ref, each.reason) for each in found.blocked] == [(a_key(), at("b", "db"), "fought")]


@pytest.mark.parametrize(("ago", "fresh"), [(0, True), (1800, True), (3600, False)])
def test_what_was_not_said_again_is_over(ago: int, fresh: bool) -> None:
    said = datetime.now(UTC) - timedelta(seconds=ago)
    assert _is_fresh({"lastTimestamp": said.strftime("%Y-%m-%dT%H:%M:%SZ")}) is fresh


def test_an_event_without_a_time_is_nothing() -> None:
    assert not _is_fresh({"lastTimestamp": None})
