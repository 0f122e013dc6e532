"""The status of a FishySecret: its condition and `lastSyncedTime`."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from tests.support.settle import plan_of, settle
from tests.support.toys import options
from tests.support.world import World, a_field, at, secret
from tests.vocabularies.test_fishysecret import (
    AT,
    DOWN,
    PASSWORD,
    SAMPLE,
    SOURCE,
    TARGET,
    USER,
    a_world,
    apply,
    holds,
    spec,
)

from samara.core.copy_counts import CopyCounts
from samara.core.desired import Reason
from samara.core.metadata_keys import PAUSED
from samara.core.model import Key, Object, namespace_ref
from samara.core.policy import ClusterPolicy
from samara.core.queries import ReadError
from samara.core.registry import Registry
from samara.core.restrictions import limited
from samara.core.source_limits import SourceLimits
from samara.core.status import status_to_write
from samara.vocabularies.fishysecret import FINALIZER, NAME, Options

Json = dict[str, Any]
RULES = ClusterPolicy(protected=("kube-*",))
KEY = Key(NAME, SOURCE)


def report(world: World, tally: CopyCounts | None = None) -> Json:
    """The status that would be reported now, without writing it."""
    counted = tally or CopyCounts.of(plan_of(KEY, world, RULES))
    status = world.registry[NAME].status
    assert status is not None
    return dict(status.report(world.objects[SOURCE], world, counted))


def ready(world: World) -> tuple[str, str]:
    (condition,) = report(world)["conditions"]
    assert condition["type"] == "Ready"
    assert condition["observedGeneration"] == world.objects[SOURCE].generation
    assert condition["message"]
    return condition["status"], condition["reason"]


def message(world: World) -> str:
    return str(report(world)["conditions"][0]["message"])


def stored(world: World, when: str, status: str = "True") -> Object:
    reported = {"conditions": [{"type": "Ready", "status": status}], "lastSyncedTime": when}
    return world.edit(SOURCE, status=a_field("status", reported))


def synced(world: World, landed: str = "", now: str = "") -> str | None:
    tally = CopyCounts.of(plan_of(KEY, world, RULES))
    tally.last_written, tally.now = landed, now
    return report(world, tally).get("lastSyncedTime")


def test_16_a_secret_in_sync_is_ready_and_synced() -> None:
    world = a_world()
    settle(world, RULES)
    assert ready(world) == ("True", "SecretSynced")
    assert message(world) == "Secret successfully synced"
    assert report(world)["lastSyncedTime"] == AT


@pytest.mark.parametrize("reason", ["TokenError", "ConnectionError", "FetchError", "LimitExceeded"])
def test_10_11_a_failing_store_is_reported_with_its_reason_and_message(reason: Any) -> None:
    world = a_world()
    holds(world, USER, None, fault=ReadError(reason, "what to do"))
    assert ready(world) == ("False", reason)
    assert message(world) == "what to do"


def test_an_outage_is_reported_although_the_secret_is_in_sync() -> None:
    world = a_world()
    settle(world, RULES)
    stored(world, AT)
    holds(world, USER, b"app_user", fault=DOWN, read_at="2026-11-15T11:00:00Z")
    assert ready(world) == ("False", "FetchError")
    assert report(world)["lastSyncedTime"] == AT


def test_several_failing_paths_are_reported_together_and_equal_messages_once() -> None:
    world = a_world()
    holds(world, USER, None, fault=ReadError("FetchError", "one"))
    holds(world, PASSWORD, None, fault=ReadError("FetchError", "two"))
    assert message(world) == "one; two"
    holds(world, PASSWORD, None, fault=ReadError("FetchError", "one"))
    assert message(world) == "one"


def test_a_message_lists_a_limited_number_of_faults() -> None:
    world = a_world(spec(data=[{"secretPath": f"/p{n}", "secretKeyName": f"k{n}"} for n in range(50)]))
    for number in range(50):
        holds(world, f"/p{number}", None, fault=ReadError("FetchError", f"bad {number}"))
    assert message(world).endswith("bad 4; and 45 more")


def not_ours(world: World) -> None:
    world.put(TARGET, secret())


def no_namespace(world: World) -> None:
    world.delete(namespace_ref("target-namespace"))


def broken(world: World) -> None:
    apply(world, {"data": []})


def protected(world: World) -> None:
    apply(world, spec(namespace="kube-system"))


def a_token(world: World) -> None:
    apply(world, spec(target={"type": "kubernetes.io/service-account-token"}))


def suspended(world: World) -> None:
    apply(world, spec(suspend=True))


def paused(world: World) -> None:
    world.edit(namespace_ref("target-namespace"), annotations={PAUSED: "true"})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (not_ours, "Conflict"),
        (no_namespace, "NoNamespace"),
        (broken, "Invalid"),
        (protected, "Refused"),
        (a_token, "Refused"),
        (suspended, "Suspended"),
        (paused, "Held"),
    ],
)
def test_every_failure_has_its_condition(change: Any, reason: str) -> None:
    world = a_world()
    change(world)
    assert ready(world) == ("False", reason)


@pytest.mark.parametrize(
    ("terms", "reason"),
    [(options(consent=True), "NotAccepted"), (options(readable=lambda namespace, view: ()), "PathNotAllowed")],
)
def test_a_refusal_by_the_settings_has_its_condition(terms: Options, reason: str) -> None:
    assert ready(a_world(terms=terms)) == ("False", reason)


def test_a_refusal_by_the_server_and_a_fought_secret_have_their_conditions() -> None:
    world = a_world()
    for reason, expected in (("refused", "Refused"), ("fought", "Fought")):
        tally = CopyCounts.of(plan_of(KEY, world, RULES))
        tally.mark_blocked(TARGET, reason, "as the server says")  # type: ignore[arg-type]
        condition = report(world, tally)["conditions"][0]
        assert (condition["status"], condition["reason"]) == ("False", expected)
        assert "as the server says" in condition["message"]


def test_every_reason_has_advice_and_the_message_ends_with_it() -> None:
    world = a_world()
    status = world.registry[NAME].status
    assert status is not None
    advice = status.advice
    assert advice.keys() == set(get_args(Reason))
    for reason in get_args(Reason):
        tally = CopyCounts.of(plan_of(KEY, world, RULES))
        tally.mark_blocked(TARGET, reason, "as it is")
        assert report(world, tally)["conditions"][0]["message"].endswith(f"as it is; {advice[reason]}")


def test_an_earlier_target_that_cannot_be_deleted_is_reported() -> None:
    world = a_world()
    settle(world, RULES)
    tally = CopyCounts.of(plan_of(KEY, world, RULES))
    tally.mark_not_removed(at("other", "old"), "refused", "no right to delete")
    condition = report(world, tally)["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", "Refused")
    assert "other/old" in condition["message"]


def test_9_a_secret_that_cannot_be_deleted_is_reported_while_its_fishysecret_terminates() -> None:
    world = a_world()
    settle(world, RULES)
    under_deletion(world)
    tally = CopyCounts.of(plan_of(KEY, world, RULES))
    tally.mark_not_removed(TARGET, "refused", "a policy forbids it")
    condition = report(world, tally)["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", "Refused")
    assert condition["message"].startswith(f"{TARGET} should be deleted, but is not: a policy forbids it")


def no_finalizer(world: World) -> None:
    world.edit(SOURCE, finalizers=())


def under_deletion(world: World) -> None:
    world.edit(SOURCE, finalizers=(FINALIZER,), deleting=True)


def uncounted(world: World) -> None:
    world.edit(SOURCE, generation=0)


def nothing_done(world: World) -> None:
    """The Secret is not written yet."""


@pytest.mark.parametrize("change", [no_finalizer, under_deletion, uncounted, nothing_done])
def test_nothing_is_reported_before_the_outcome_is_known(change: Any) -> None:
    world = a_world()
    change(world)
    assert report(world) == {}


def test_nothing_is_reported_before_all_paths_are_read() -> None:
    world = a_world()
    assert report(world, CopyCounts()) == {}


def test_8_an_unchanged_status_is_not_written_again() -> None:
    world = a_world()
    settle(world, RULES)
    tally = CopyCounts.of(plan_of(KEY, world, RULES))
    due = status_to_write(world.registry[NAME].status, world.objects[SOURCE], world, tally, "2027-01-01T00:00:00Z")
    assert due is not None
    world.edit(SOURCE, status=a_field("status", due))
    assert (
        status_to_write(world.registry[NAME].status, world.objects[SOURCE], world, tally, "2028-01-01T00:00:00Z")
        is None
    )


# lastSyncedTime


def in_sync(terms: Options | None = None, **more: Any) -> World:
    world = a_world({**SAMPLE, **more}, terms)
    settle(world, RULES)
    world.edit(SOURCE, status=None)
    return world


def read_at(world: World, user: str, password: str = "") -> None:
    holds(world, USER, b"app_user", read_at=user)
    holds(world, PASSWORD, b"click me!", read_at=password or user)


def test_the_first_sync_is_as_old_as_the_oldest_value() -> None:
    world = in_sync()
    read_at(world, "2026-11-15T10:00:07Z", "2026-11-15T10:00:03Z")
    assert synced(world) == "2026-11-15T10:00:03Z"


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-11-15T10:00:01Z", AT),
        ("2026-11-15T10:04:20Z", AT),
        ("2026-11-15T10:04:59Z", AT),
        ("2026-11-15T10:05:00Z", "2026-11-15T10:05:00Z"),
        ("2026-11-16T10:00:00Z", "2026-11-16T10:00:00Z"),
    ],
)
def test_a_refresh_moves_the_time_once_per_interval_and_a_restart_within_it_does_not(now: str, expected: str) -> None:
    world = in_sync()
    stored(world, AT)
    read_at(world, now)
    assert synced(world) == expected


def test_the_interval_is_that_of_the_fishysecret() -> None:
    world = in_sync(refreshInterval="90s")
    stored(world, AT)
    read_at(world, "2026-11-15T10:01:29Z")
    assert synced(world) == AT
    read_at(world, "2026-11-15T10:01:30Z")
    assert synced(world) == "2026-11-15T10:01:30Z"


def test_the_time_of_a_sync_is_written_every_five_seconds_at_most() -> None:
    world = in_sync(options(min_refresh_interval=1.0), refreshInterval="1s")
    stored(world, AT)
    read_at(world, "2026-11-15T10:00:04Z")
    assert synced(world) == AT
    read_at(world, "2026-11-15T10:00:05Z")
    assert synced(world) == "2026-11-15T10:00:05Z"


def test_the_time_of_a_sync_is_written_more_often_if_the_settings_read_more_often() -> None:
    world = in_sync(options(refresh_interval=2.0, min_refresh_interval=1.0), refreshInterval="1s")
    stored(world, AT)
    read_at(world, "2026-11-15T10:00:01Z")
    assert synced(world) == AT
    read_at(world, "2026-11-15T10:00:02Z")
    assert synced(world) == "2026-11-15T10:00:02Z"


NOW, FUTURE = "2026-11-15T10:00:40Z", "2030-01-01T00:00:00Z"


@pytest.mark.parametrize("on_change", [False, True])
def test_a_stored_time_in_the_future_is_replaced(on_change: bool) -> None:
    world = in_sync(options(on_change=on_change))
    stored(world, FUTURE)
    read_at(world, "2026-11-15T10:00:30Z")
    assert synced(world, now=NOW) == "2026-11-15T10:00:30Z"


@pytest.mark.parametrize("on_change", [False, True])
def test_a_write_with_a_time_in_the_future_does_not_count(on_change: bool) -> None:
    world = in_sync(options(on_change=on_change))
    stored(world, FUTURE)
    read_at(world, "2026-11-15T10:00:30Z")
    assert synced(world, landed=FUTURE, now=NOW) == "2026-11-15T10:00:30Z"


def test_a_clock_that_is_a_little_ahead_of_another_causes_no_write() -> None:
    world = in_sync()
    stored(world, "2026-11-15T10:00:45Z")
    read_at(world, "2026-11-15T10:00:30Z")
    assert synced(world, now=NOW) == "2026-11-15T10:00:45Z"


def test_the_time_comes_from_the_counts() -> None:
    world = in_sync()
    stored(world, FUTURE)
    tally = CopyCounts.of(plan_of(KEY, world, RULES))
    due = status_to_write(world.registry[NAME].status, world.objects[SOURCE], world, tally, NOW)
    assert due is not None
    assert due["lastSyncedTime"] == AT


def test_refreshing_one_of_two_values_does_not_move_the_time() -> None:
    world = in_sync()
    stored(world, AT)
    read_at(world, "2026-11-15T10:06:00Z", AT)
    assert synced(world) == AT


def test_with_change_a_refresh_moves_nothing() -> None:
    world = in_sync(options(on_change=True))
    stored(world, AT)
    read_at(world, "2026-11-16T10:00:00Z")
    assert synced(world) == AT


@pytest.mark.parametrize("on_change", [False, True])
def test_a_write_moves_the_time(on_change: bool) -> None:
    world = in_sync(options(on_change=on_change))
    stored(world, AT)
    read_at(world, AT)
    assert synced(world, landed="2026-11-15T10:00:09Z") == "2026-11-15T10:00:09Z"
    assert synced(world, landed="2026-11-15T09:00:00Z") == AT


@pytest.mark.parametrize("on_change", [False, True])
def test_becoming_ready_again_moves_the_time(on_change: bool) -> None:
    world = in_sync(options(on_change=on_change))
    stored(world, AT, "False")
    read_at(world, "2026-11-15T10:00:30Z")
    assert synced(world) == "2026-11-15T10:00:30Z"


def test_a_malformed_stored_time_is_replaced() -> None:
    world = in_sync()
    stored(world, "long ago")
    read_at(world, "2026-11-15T10:00:30Z")
    assert synced(world) == "2026-11-15T10:00:30Z"


def test_a_fishysecret_beyond_the_limits_of_its_namespace_keeps_its_secret_and_says_so() -> None:
    world = a_world()
    settle(world, RULES)
    limits = SourceLimits(source_bytes_per_namespace=1)
    world.registry = Registry(tuple(limited(source_type, limits) for source_type in world.registry.source_types))
    assert plan_of(KEY, world, RULES).writes == ()
    assert ready(world) == ("False", "LimitExceeded")
    assert "limits.sourceBytesPerNamespace" in message(world)
    world.delete(SOURCE)
    assert plan_of(KEY, world, RULES).writes != ()
