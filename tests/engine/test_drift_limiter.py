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


def edit(limiter: DriftLimiter, namespace: str = "a", editor: str = EDITOR, name: str = "db") -> None:
    old = a_copy(namespace, name)
    limiter.observe_edit(Change(old.ref, old, replace(old, resource_version=2, last_manager=editor)), owner, VIEW)


def edit_and_repair(limiter: DriftLimiter, clock: Clock, times: int, apart: float = 1.0) -> None:
    for _ in range(times):
        edit(limiter)
        assert limiter.throttle(repair()) is None
        limiter.record_repair(repair())
        clock.now += apart


def test_five_edits_are_reverted_and_the_sixth_waits() -> None:
    limiter = DriftLimiter(clock := Clock())
    edit_and_repair(limiter, clock, 5)
    edit(limiter)

    throttled = limiter.throttle(repair())
    assert throttled is not None
    assert throttled.message == f"{EDITOR} keeps changing this copy; Samara repairs that at most every ten minutes"
    assert throttled.retry_in == 599.0
    clock.now += throttled.retry_in
    assert limiter.throttle(repair()) is None


def test_a_repeatedly_deleted_copy_is_recreated_every_ten_seconds() -> None:
    limiter, gone = DriftLimiter(clock := Clock()), a_copy("a")
    for _ in range(5):
        limiter.observe_edit(Change(gone.ref, gone, None), owner, VIEW)
        assert limiter.throttle(create("a")) is None
        limiter.record_repair(create("a"))
        clock.now += 1.0
    limiter.observe_edit(Change(gone.ref, gone, None), owner, VIEW)

    throttled = limiter.throttle(create("a"))
    assert throttled is not None
    assert throttled.message == "another client keeps deleting this copy; it is recreated at most every ten seconds"
    assert throttled.retry_in == 9.0
    clock.now += throttled.retry_in
    assert limiter.throttle(create("a")) is None


def test_a_changed_source_is_written_at_once_and_the_copy_stays_contested() -> None:
    limiter = DriftLimiter(clock := Clock())
    edit_and_repair(limiter, clock, 5)
    edit(limiter)
    assert limiter.throttle(repair()) is not None

    assert limiter.throttle(repair(value="two")) is None
    assert limiter.record_repair(repair(value="two")) == EDITOR
    edit(limiter)
    assert limiter.throttle(repair(value="two")) is not None


def test_writing_a_changed_source_does_not_count_as_a_repair() -> None:
    limiter = DriftLimiter(Clock())
    for value in map(str, range(9)):
        edit(limiter)
        assert limiter.throttle(repair(value=value)) is None
        limiter.record_repair(repair(value=value))


def test_a_contested_copy_gets_one_repair_in_ten_minutes() -> None:
    limiter = DriftLimiter(clock := Clock())
    edit_and_repair(limiter, clock, 5)
    clock.now += 599.0
    edit(limiter)
    assert limiter.throttle(repair()) is None
    limiter.record_repair(repair())
    edit(limiter)

    throttled = limiter.throttle(repair())
    assert throttled is not None
    assert throttled.retry_in == 600.0


def test_a_copy_without_edits_for_ten_minutes_is_no_longer_contested() -> None:
    limiter = DriftLimiter(clock := Clock())
    edit_and_repair(limiter, clock, 5)
    clock.now += 600.0
    edit(limiter)
    assert limiter.throttle(repair()) is None
    limiter.record_repair(repair())
    edit(limiter)

    assert limiter.throttle(repair()) is None


def test_an_edit_that_needs_no_repair_does_not_count() -> None:
    limiter = DriftLimiter(Clock())
    edit(limiter)
    limiter.reset(repair().ref)

    assert limiter.record_repair(repair()) is None


def test_repairs_that_are_far_apart_are_not_throttled() -> None:
    limiter = DriftLimiter(clock := Clock())

    edit_and_repair(limiter, clock, 20, apart=151.0)


def test_each_copy_is_counted_separately() -> None:
    limiter = DriftLimiter(clock := Clock())
    edit_and_repair(limiter, clock, 5)
    edit(limiter, "b")

    assert limiter.throttle(repair("b")) is None


def test_a_source_that_changes_often_is_not_throttled() -> None:
    limiter = DriftLimiter(Clock())
    for _ in range(20):
        assert limiter.throttle(repair()) is None
        assert limiter.record_repair(repair()) is None


def test_the_name_of_the_editor_is_reported_once() -> None:
    limiter = DriftLimiter(Clock())
    edit(limiter)

    assert limiter.record_repair(repair()) == EDITOR
    assert limiter.record_repair(repair()) is None


def test_an_editor_without_a_name_is_called_another_client() -> None:
    limiter = DriftLimiter(clock := Clock())
    edit_and_repair(limiter, clock, 5)
    edit(limiter, editor="")

    throttled = limiter.throttle(repair())
    assert throttled is not None
    assert throttled.message.startswith("another client keeps changing")


def test_recreating_a_deleted_copy_counts_as_a_repair() -> None:
    limiter = DriftLimiter(Clock())
    old = a_copy("a")
    for _ in range(5):
        limiter.observe_edit(Change(old.ref, old, None), owner, VIEW)
        assert limiter.throttle(create("a")) is None
        limiter.record_repair(create("a"))
    limiter.observe_edit(Change(old.ref, old, None), owner, VIEW)

    assert limiter.throttle(create("a")) is not None


def test_removals_are_never_throttled() -> None:
    limiter = DriftLimiter(clock := Clock())
    edit_and_repair(limiter, clock, 5)
    edit(limiter)
    removal: Write = Delete(a_key(), at("a", "db"), a_copy("a"))

    assert limiter.throttle(removal) is None


@pytest.mark.parametrize("old", [None, a_copy("a", deleting=True), an_object(at("a", "db"))])
def test_an_edit_of_an_object_that_is_not_a_live_copy_does_not_count(old: Object | None) -> None:
    limiter = DriftLimiter(Clock())
    limiter.observe_edit(Change(at("a", "db"), old, a_copy("a", version=2, last_manager=EDITOR)), owner, VIEW)

    assert limiter.record_repair(repair()) is None


@pytest.mark.parametrize("view", [a_view(), a_view(a_namespace("a", deleting=True, finalizers=("kubernetes",)))])
def test_copies_deleted_with_their_namespace_do_not_count(view: Cache) -> None:
    """Namespaces of one name that come and go, as in CI, must get their copies at once, every time."""
    limiter, old = DriftLimiter(Clock()), a_copy("a")
    for _ in range(10):
        limiter.observe_edit(Change(old.ref, old, None), owner, view)
        assert limiter.throttle(create("a")) is None
        assert limiter.record_repair(create("a")) is None


# overlays

TEAM, OTHER = "team", "other"
TREE = Key("accurate:tree", namespace_ref("a"))
BY = frozenset({ManagedKey("accurate-controller", "labels", TEAM)})


def a_child(team: str | None = "red", version: int = 1, editor: str = "") -> Object:
    labels = {} if team is None else {TEAM: team}
    return a_namespace("a", version, labels=labels, applied_keys=BY, last_manager=editor)


def overlaid(have: Object, team: str = "red") -> Apply:
    return Apply(TREE, have.ref, Overlay(have.ref, {TEAM: team}, manager="accurate-controller"), have)


def relabel(limiter: DriftLimiter, team: str | None) -> Apply:
    """Another client changes a label that the overlay has set; returns the write that puts it back."""
    now = a_child(team, 2, EDITOR)
    limiter.observe_edit(Change(now.ref, a_child(), now), owner, VIEW)
    return overlaid(now)


@pytest.mark.parametrize("team", ["blue", None])
def test_an_overlay_that_another_client_keeps_changing_is_throttled_like_a_copy(team: str | None) -> None:
    limiter = DriftLimiter(clock := Clock())
    for _ in range(5):
        write = relabel(limiter, team)
        assert limiter.throttle(write) is None
        assert limiter.record_repair(write) == EDITOR
        clock.now += 1.0

    throttled = limiter.throttle(relabel(limiter, team))
    assert throttled is not None
    edited = f"{EDITOR} keeps changing the inherited labels and annotations"
    assert throttled.message == f"{edited}; Samara repairs that at most every ten minutes"
    assert throttled.retry_in == 599.0


def test_the_repair_after_two_edits_counts_as_one() -> None:
    limiter = DriftLimiter(Clock())
    relabel(limiter, "blue")
    now = a_child("green", 3, EDITOR)
    limiter.observe_edit(Change(now.ref, a_child("blue", 2), now), owner, VIEW)

    assert limiter.record_repair(overlaid(now)) == EDITOR


def test_an_overlay_that_changes_with_the_parent_of_its_namespace_does_not_count() -> None:
    limiter = DriftLimiter(Clock())
    for number in range(20):
        now = a_child(f"{number}", 2, EDITOR)
        limiter.observe_edit(Change(now.ref, a_child(f"{number}"), now), owner, VIEW)
        write = overlaid(now, f"{number + 1}")
        assert limiter.throttle(write) is None
        assert limiter.record_repair(write) is None


def test_the_deletion_of_a_namespace_does_not_count_as_an_edit() -> None:
    limiter, old = DriftLimiter(Clock()), a_child()
    limiter.observe_edit(Change(old.ref, old, None), owner, a_view())

    assert not limiter._edits


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
    limiter = Counted(Clock())
    for number in range(4500):
        edit(limiter, name=f"n{number}")

    assert limiter.forgot == 3
    assert len(limiter._edits) == 4500


@pytest.mark.usefixtures("a_thousand")
def test_edits_that_are_ten_minutes_old_are_forgotten() -> None:
    limiter = DriftLimiter(clock := Clock())
    for number in range(1000):
        edit(limiter, name=f"n{number}")
    clock.now += 601.0
    edit(limiter, name="new")

    assert list(limiter._edits) == [at("a", "new")]
