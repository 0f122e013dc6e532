"""Copies that another client keeps changing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.caches import a_plain_cache
from tests.support.samples import Clock, a_copy, a_key, a_namespace, a_registry, an_object, create
from tests.support.world import at, secret

from samara.core.desired import Copy, Overlay, Template
from samara.core.model import Key, ManagedKey, Object, namespace_ref
from samara.core.view import View
from samara.core.writes import Apply, Delete, Update, Write
from samara.engine import limits
from samara.engine.limits import DriftLimiter
from samara.kube.cache import Cache, Change

REGISTRY = a_registry()


def a_view(*namespaces: Object) -> Cache:
    cache = a_plain_cache(REGISTRY)
    for namespace in namespaces:
        cache.put(namespace)
    return cache


VIEW: View = a_view(a_namespace("a"), a_namespace("b"))
EDITOR = "kubectl-edit"


def owner(obj: Object, view: View) -> Key | None:
    return REGISTRY.owner(obj, view)


def repair(namespace: str = "a", value: str = "one") -> Update:
    have = a_copy(namespace)
    return Update(a_key(), have.ref, Copy(have.ref, Template(secret(value))), have, "differs from its source")


def disturb(fights: DriftLimiter, namespace: str = "a", editor: str = EDITOR, name: str = "db") -> None:
    old = a_copy(namespace, name)
    fights.observe_edit(Change(old.ref, old, replace(old, resource_version=2, last_manager=editor)), owner, VIEW)


def fought(fights: DriftLimiter, clock: Clock, times: int, apart: float = 1.0) -> None:
    for _ in range(times):
        disturb(fights)
        assert fights.throttle(repair()) is None
        fights.record_repair(repair())
        clock.now += apart


def test_five_edits_are_reverted_and_the_sixth_waits() -> None:
    fights = DriftLimiter(clock := Clock())
    fought(fights, clock, 5)
    disturb(fights)

    throttled = fights.throttle(repair())
    assert throttled is not None
    assert throttled.message == f"{EDITOR} changes this copy again and again; it is repaired every ten minutes now"
    assert throttled.retry_in == 599.0
    clock.now += throttled.retry_in
    assert fights.throttle(repair()) is None


def test_a_repeatedly_deleted_copy_is_recreated_every_ten_seconds() -> None:
    fights, gone = DriftLimiter(clock := Clock()), a_copy("a")
    for _ in range(5):
        fights.observe_edit(Change(gone.ref, gone, None), owner, VIEW)
        assert fights.throttle(create("a")) is None
        fights.record_repair(create("a"))
        clock.now += 1.0
    fights.observe_edit(Change(gone.ref, gone, None), owner, VIEW)

    throttled = fights.throttle(create("a"))
    assert throttled is not None
    assert throttled.message == "somebody deletes this copy again and again; it is made every ten seconds now"
    assert throttled.retry_in == 9.0
    clock.now += throttled.retry_in
    assert fights.throttle(create("a")) is None


def test_a_changed_source_is_written_at_once_and_the_copy_stays_contested() -> None:
    fights = DriftLimiter(clock := Clock())
    fought(fights, clock, 5)
    disturb(fights)
    assert fights.throttle(repair()) is not None

    assert fights.throttle(repair(value="two")) is None
    assert fights.record_repair(repair(value="two")) == EDITOR
    disturb(fights)
    assert fights.throttle(repair(value="two")) is not None


def test_writing_a_changed_source_does_not_count_as_a_repair() -> None:
    fights = DriftLimiter(Clock())
    for value in map(str, range(9)):
        disturb(fights)
        assert fights.throttle(repair(value=value)) is None
        fights.record_repair(repair(value=value))


def test_a_contested_copy_gets_one_repair_in_ten_minutes() -> None:
    fights = DriftLimiter(clock := Clock())
    fought(fights, clock, 5)
    clock.now += 599.0
    disturb(fights)
    assert fights.throttle(repair()) is None
    fights.record_repair(repair())
    disturb(fights)

    throttled = fights.throttle(repair())
    assert throttled is not None
    assert throttled.retry_in == 600.0


def test_a_copy_without_edits_for_ten_minutes_is_no_longer_contested() -> None:
    fights = DriftLimiter(clock := Clock())
    fought(fights, clock, 5)
    clock.now += 600.0
    disturb(fights)
    assert fights.throttle(repair()) is None
    fights.record_repair(repair())
    disturb(fights)

    assert fights.throttle(repair()) is None


def test_an_edit_that_needs_no_repair_does_not_count() -> None:
    fights = DriftLimiter(Clock())
    disturb(fights)
    fights.reset(repair().ref)

    assert fights.record_repair(repair()) is None


def test_repairs_that_are_far_apart_are_not_throttled() -> None:
    fights = DriftLimiter(clock := Clock())

    fought(fights, clock, 20, apart=151.0)


def test_each_copy_is_counted_separately() -> None:
    fights = DriftLimiter(clock := Clock())
    fought(fights, clock, 5)
    disturb(fights, "b")

    assert fights.throttle(repair("b")) is None


def test_a_source_that_changes_often_is_not_throttled() -> None:
    fights = DriftLimiter(Clock())
    for _ in range(20):
        assert fights.throttle(repair()) is None
        assert fights.record_repair(repair()) is None


def test_the_name_of_the_editor_is_reported_once() -> None:
    fights = DriftLimiter(Clock())
    disturb(fights)

    assert fights.record_repair(repair()) == EDITOR
    assert fights.record_repair(repair()) is None


def test_an_editor_without_a_name_is_called_somebody() -> None:
    fights = DriftLimiter(clock := Clock())
    fought(fights, clock, 5)
    disturb(fights, editor="")

    throttled = fights.throttle(repair())
    assert throttled is not None
    assert throttled.message.startswith("somebody changes")


def test_recreating_a_deleted_copy_counts_as_a_repair() -> None:
    fights = DriftLimiter(Clock())
    old = a_copy("a")
    for _ in range(5):
        fights.observe_edit(Change(old.ref, old, None), owner, VIEW)
        assert fights.throttle(create("a")) is None
        fights.record_repair(create("a"))
    fights.observe_edit(Change(old.ref, old, None), owner, VIEW)

    assert fights.throttle(create("a")) is not None


def test_removals_are_never_throttled() -> None:
    fights = DriftLimiter(clock := Clock())
    fought(fights, clock, 5)
    disturb(fights)
    removal: Write = Delete(a_key(), at("a", "db"), a_copy("a"))

    assert fights.throttle(removal) is None


@pytest.mark.parametrize("old", [None, a_copy("a", deleting=True), an_object(at("a", "db"))])
def test_an_edit_of_an_object_that_is_not_a_live_copy_does_not_count(old: Object | None) -> None:
    fights = DriftLimiter(Clock())
    fights.observe_edit(Change(at("a", "db"), old, a_copy("a", version=2, last_manager=EDITOR)), owner, VIEW)

    assert fights.record_repair(repair()) is None


@pytest.mark.parametrize("view", [a_view(), a_view(a_namespace("a", deleting=True, finalizers=("kubernetes",)))])
def test_copies_deleted_with_their_namespace_do_not_count(view: Cache) -> None:
    """Namespaces of one name that come and go, as in CI, must get their copies at once, every time."""
    fights, old = DriftLimiter(Clock()), a_copy("a")
    for _ in range(10):
        fights.observe_edit(Change(old.ref, old, None), owner, view)
        assert fights.throttle(create("a")) is None
        assert fights.record_repair(create("a")) is None


# overlays

TEAM, OTHER = "team", "other"
TREE = Key("accurate:tree", namespace_ref("a"))
BY = frozenset({ManagedKey("accurate-controller", "labels", TEAM)})


def a_child(team: str | None = "red", version: int = 1, editor: str = "") -> Object:
    labels = {} if team is None else {TEAM: team}
    return a_namespace("a", version, labels=labels, applied_keys=BY, last_manager=editor)


def overlaid(have: Object, team: str = "red") -> Apply:
    return Apply(TREE, have.ref, Overlay(have.ref, {TEAM: team}, manager="accurate-controller"), have)


def relabel(fights: DriftLimiter, team: str | None) -> Apply:
    """Somebody changes a label that the overlay has set; returns the write that puts it back."""
    now = a_child(team, 2, EDITOR)
    fights.observe_edit(Change(now.ref, a_child(), now), owner, VIEW)
    return overlaid(now)


@pytest.mark.parametrize("team", ["blue", None])
def test_an_overlay_that_another_client_keeps_changing_is_throttled_like_a_copy(team: str | None) -> None:
    fights = DriftLimiter(clock := Clock())
    for _ in range(5):
        write = relabel(fights, team)
        assert fights.throttle(write) is None
        assert fights.record_repair(write) == EDITOR
        clock.now += 1.0

    throttled = fights.throttle(relabel(fights, team))
    assert throttled is not None
    assert (
        throttled.message
        == f"{EDITOR} changes what is inherited here again and again; it is repaired every ten minutes now"
    )
    assert throttled.retry_in == 599.0


def test_the_repair_after_two_edits_counts_as_one() -> None:
    fights = DriftLimiter(Clock())
    relabel(fights, "blue")
    now = a_child("green", 3, EDITOR)
    fights.observe_edit(Change(now.ref, a_child("blue", 2), now), owner, VIEW)

    assert fights.record_repair(overlaid(now)) == EDITOR


def test_an_overlay_that_changes_with_the_parent_of_its_namespace_does_not_count() -> None:
    fights = DriftLimiter(Clock())
    for number in range(20):
        now = a_child(f"{number}", 2, EDITOR)
        fights.observe_edit(Change(now.ref, a_child(f"{number}"), now), owner, VIEW)
        write = overlaid(now, f"{number + 1}")
        assert fights.throttle(write) is None
        assert fights.record_repair(write) is None


def test_the_deletion_of_a_namespace_does_not_count_as_an_edit() -> None:
    fights, old = DriftLimiter(Clock()), a_child()
    fights.observe_edit(Change(old.ref, old, None), owner, a_view())

    assert not fights._edits


class Counted(DriftLimiter):
    forgot = 0

    def _forget(self) -> None:
        self.forgot += 1
        super()._forget()


@pytest.fixture
def a_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of edits that are kept before old ones are dropped."""
    monkeypatch.setattr(limits, "_MAX_ADDRESSES", 1000)


@pytest.mark.usefixtures("a_thousand")
def test_recorded_edits_are_searched_for_old_ones_only_as_their_number_doubles() -> None:
    fights = Counted(Clock())
    for number in range(4500):
        disturb(fights, name=f"n{number}")

    assert fights.forgot == 3
    assert len(fights._edits) == 4500


@pytest.mark.usefixtures("a_thousand")
def test_edits_that_are_ten_minutes_old_are_forgotten() -> None:
    fights = DriftLimiter(clock := Clock())
    for number in range(1000):
        disturb(fights, name=f"n{number}")
    clock.now += 601.0
    disturb(fights, name="new")

    assert list(fights._edits) == [at("a", "new")]
