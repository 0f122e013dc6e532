"""Which deletions are allowed, delayed or held, and what ends a hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import toys
from tests.support.samples import (
    HOME,
    Clock,
    a_cache,
    a_copy,
    a_key,
    a_namespace,
    a_source,
    an_object,
    delete,
    deletes,
    numbered,
    release,
)
from tests.support.world import at

from samara.core.mass_delete import MassDeleteLimit
from samara.core.model import FIELD_MANAGER, Key, ManagedKey, Object, OwnerReference, Ref, namespace_ref
from samara.core.registry import Registry
from samara.core.writes import Delete, KeepAsOrphan, Removal, SetFinalizer
from samara.engine.deletions import DeletionGate
from samara.engine.limits import FlapDamper
from samara.engine.mass_delete import MassDeleteGuard, digest_of
from samara.vocabularies.fishysecret import FISHY_SECRET
from samara.vocabularies.resource_distribution import RESOURCE_DISTRIBUTION

BRAKE = MassDeleteLimit(most=5, percent=30.0)


def a_guard(clock: Clock, brake: MassDeleteLimit | None = BRAKE, hold: float = 600.0) -> MassDeleteGuard:
    return MassDeleteGuard(brake, hold, clock)


def check_deletes(holds: MassDeleteGuard, first: int, last: int, has: int = 10, key: Key | None = None) -> int:
    """How many of these deletes are allowed if the source, and all sources of its namespace, have `has` copies."""
    key = key or a_key()
    return len(holds.check(key, deletes(numbered(first, last), key.all_namespaces), has, has))


@pytest.mark.parametrize(
    ("planned", "has", "go"),
    [
        (5, 5, 5),  # not more than `most`, although it is all there is
        (6, 6, 0),
        (6, 20, 6),  # 30 %: not more than `percent`
        (6, 19, 0),
        (1, 1, 1),
    ],
)
def test_more_than_both_limits_is_held(planned: int, has: int, go: int) -> None:
    holds = a_guard(Clock())

    assert check_deletes(holds, 0, planned, has) == go
    assert (a_key() in holds.held) == (go == 0)


def test_without_a_limit_every_deletion_is_allowed() -> None:
    holds = a_guard(Clock(), brake=None)

    assert check_deletes(holds, 0, 1000, 1000) == 1000
    assert not holds.held


def test_slices_add_up_over_ten_minutes() -> None:
    holds = a_guard(clock := Clock())
    gone: list[int] = []
    for number in range(8):
        gone.append(
            check_deletes(
                holds, number, number + 1, 10 - sum(gone), a_key().in_namespace(numbered(number, number + 1)[0])
            )
        )
        clock.now += 70.0  # further apart than the burst of a namespace

    assert gone == [1, 1, 1, 1, 1, 0, 0, 0]
    assert holds.held[a_key()].count == 3


def test_deletions_more_than_ten_minutes_ago_do_not_count() -> None:
    holds = a_guard(clock := Clock())
    assert check_deletes(holds, 0, 5) == 5
    clock.now += 601.0

    assert check_deletes(holds, 5, 10, 5) == 5


def test_sources_of_one_namespace_add_up_over_a_minute() -> None:
    holds = a_guard(clock := Clock())
    gone = [len(holds.check(key, [delete("a", key)], 1, 10)) for key in map(a_key, "abcdefg")]
    clock.now += 61.0
    later = len(holds.check(a_key("h"), [delete("a", a_key("h"))], 1, 5))

    assert gone == [1, 1, 1, 1, 1, 0, 0]
    assert later == 1


def test_sources_of_different_namespaces_do_not_add_up() -> None:
    holds = a_guard(Clock())
    keys = [a_key("db", f"home-{number}") for number in range(8)]

    assert all(holds.check(key, [delete("a", key)], 1, 1) for key in keys)


def test_a_delete_that_is_planned_again_counts_once() -> None:
    """A failed delete is retried, and a changed source is planned again. Neither is another removal."""
    holds = a_guard(Clock())

    assert [check_deletes(holds, 0, 4) for _ in range(5)] == [4] * 5
    assert not holds.held


def test_a_release_allows_exactly_the_held_set() -> None:
    holds = a_guard(Clock())
    check_deletes(holds, 0, 8)
    holds.release(a_key())

    assert check_deletes(holds, 0, 9) == 0
    holds.release(a_key())
    assert check_deletes(holds, 0, 9) == 9


def test_deletions_of_a_released_set_are_allowed_slice_by_slice() -> None:
    holds = a_guard(Clock())
    check_deletes(holds, 0, 8)
    holds.release(a_key())

    slices = [a_key().in_namespace(name) for name in numbered(0, 8)]
    assert [check_deletes(holds, number, number + 1, 8, key) for number, key in enumerate(slices)] == [1] * 8


def test_undoing_the_change_ends_the_hold_and_the_release() -> None:
    holds = a_guard(Clock())
    check_deletes(holds, 0, 8)
    check_deletes(holds, 0, 0)
    assert not holds.held

    check_deletes(holds, 0, 8)
    holds.release(a_key())
    check_deletes(holds, 0, 0)
    assert check_deletes(holds, 0, 8) == 0


def test_an_empty_slice_ends_the_hold_of_its_own_namespace_and_no_other() -> None:
    holds = a_guard(Clock())
    check_deletes(holds, 0, 8)
    before = holds.held[a_key()]
    holds.restore({str(a_key("x"))}, {})
    check_deletes(holds, 0, 0, key=a_key().in_namespace("ns-00000"))
    check_deletes(holds, 0, 0, key=a_key().in_namespace("elsewhere"))
    check_deletes(holds, 0, 0, key=a_key("x").in_namespace("ns-00000"))

    now = holds.held[a_key()]
    assert before.refs - now.refs == {at("ns-00000", "db")}
    assert (now.count, now.since, now.until) == (7, before.since, before.until)
    assert holds.remembered == {str(a_key("x"))}


def test_a_change_that_is_undone_namespace_by_namespace_ends_the_hold() -> None:
    holds = a_guard(Clock())
    check_deletes(holds, 0, 8)
    for name in numbered(0, 8):
        assert holds.held
        check_deletes(holds, 0, 0, key=a_key().in_namespace(name))

    assert not holds.held
    assert check_deletes(holds, 0, 1) == 1


def test_a_slice_holds_only_the_deletions_that_it_still_plans() -> None:
    holds = a_guard(Clock())
    check_deletes(holds, 0, 8)
    both = [*deletes(["ns-00000"]), Delete(a_key(), at("ns-00000", "other"), a_copy("ns-00000"))]
    holds.check(a_key().in_namespace("ns-00000"), both, 10, 10)
    assert holds.held[a_key()].count == 9
    holds.check(a_key().in_namespace("ns-00000"), both[1:], 10, 10)

    assert at("ns-00000", "db") not in holds.held[a_key()].refs
    assert at("ns-00000", "other") in holds.held[a_key()].refs


def test_a_plan_of_the_source_replaces_the_held_set() -> None:
    holds = a_guard(clock := Clock())
    check_deletes(holds, 0, 8)
    before = holds.held[a_key()]
    clock.now += 5.0
    check_deletes(holds, 2, 8)

    after = holds.held[a_key()]
    assert (after.count, after.since, after.until) == (6, before.since, before.until)
    assert after.digest != before.digest


def test_a_hold_is_over_after_its_time() -> None:
    holds = a_guard(clock := Clock(), hold=600.0)
    check_deletes(holds, 0, 8)
    assert (holds.due(), holds.next_due()) == ([], 600.0)
    clock.now += 600.0

    assert (holds.due(), holds.next_due()) == ([a_key()], 0.0)


def test_a_hold_without_an_end_waits_for_a_release() -> None:
    holds = a_guard(clock := Clock(), hold=inf)
    check_deletes(holds, 0, 8)
    clock.now += 1e9

    assert (holds.due(), holds.next_due()) == ([], None)
    assert holds.held[a_key()].until == inf
    holds.release(a_key())
    assert check_deletes(holds, 0, 8) == 8


def test_after_a_restart_a_hold_lasts_for_its_full_time_again() -> None:
    holds = a_guard(clock := Clock(), hold=600.0)
    holds.restore({str(a_key())}, {})

    assert check_deletes(holds, 0, 1, 100) == 0
    assert holds.held[a_key()].until == clock.now + 600.0
    assert holds.remembered == set()


def test_a_remembered_key_that_no_longer_exists_is_forgotten_once_everything_is_planned() -> None:
    holds = a_guard(Clock())
    holds.restore({str(a_key("x")), str(a_key("y"))}, {})
    holds.settle([a_key("x")], lambda vocabulary: True)

    assert holds.remembered == {str(a_key("x"))}


def test_a_remembered_key_without_deletions_is_forgotten() -> None:
    holds = a_guard(Clock())
    holds.restore({str(a_key())}, {})
    check_deletes(holds, 0, 0)

    assert holds.remembered == set()
    assert check_deletes(holds, 0, 1) == 1


def test_releasing_a_key_that_is_not_held_releases_nothing() -> None:
    holds = a_guard(Clock())
    holds.release(a_key(), discard=True)

    assert not any(holds.is_discarded(removal.ref) for removal in deletes(numbered(0, 9)))
    assert check_deletes(holds, 0, 8) == 0


def test_the_digest_of_a_set_depends_only_on_its_addresses() -> None:
    refs = [removal.ref for removal in deletes(numbered(0, 9))]

    assert digest_of(refs) == digest_of(reversed(refs))
    assert digest_of(refs) != digest_of(refs[1:])


def test_the_digest_of_a_held_set_is_computed_once() -> None:
    """It is read every second, and a set may have thousands of addresses."""
    holds = a_guard(Clock())
    check_deletes(holds, 0, 8)
    hold = holds.held[a_key()]

    assert hold.digest is hold.digest
    assert hold.digest == digest_of(hold.refs)


def test_the_state_of_a_key_that_no_longer_exists_is_forgotten() -> None:
    holds = a_guard(clock := Clock())
    check_deletes(holds, 0, 3)
    clock.now += 61.0
    check_deletes(holds, 3, 9)
    holds.release(a_key(), discard=True)
    holds.restore({str(a_key()), str(a_key("x"))}, {})
    holds.forget(a_key())

    assert not any(holds.is_discarded(removal.ref) for removal in deletes(numbered(3, 9)))
    assert (holds.held, holds._released, holds._by_source) == ({}, {}, {})
    assert holds.remembered == {str(a_key("x"))}
    clock.now += 1.0
    assert check_deletes(holds, 3, 8) == 5


def test_a_namespace_without_deletions_for_a_minute_is_forgotten() -> None:
    holds = a_guard(clock := Clock())
    for number in range(200):
        clock.now += 1.0
        for key in (a_key("db", "busy"), a_key("db", f"home-{number}")):
            holds.check(key, [delete("a", key)], 1, 1)

    assert holds._by_namespace.keys() == {"busy", *(f"home-{number}" for number in range(139, 200))}


def test_a_namespace_deleted_more_than_ten_minutes_ago_is_forgotten() -> None:
    holds = a_guard(clock := Clock())
    for name in ("a", "b"):
        clock.now += 601.0
        have = a_namespace(name)
        holds.mark_recorded([name])
        assert holds.check(a_key(), [Delete(a_key(), have.ref, have)], 1, 1)

    for times in (holds._by_source[a_key()], holds._by_namespace[HOME], holds._namespaces):
        assert list(times) == [namespace_ref("b")]


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(1, 6), st.sampled_from([0.0, 30.0, 120.0])), max_size=25))
def test_for_any_slices_no_more_is_deleted_in_ten_minutes_than_the_brake_allows(
    plans: list[tuple[int, int, float]],
) -> None:
    holds, there = a_guard(clock := Clock()), set(numbered(0, 20))
    went: list[tuple[float, str]] = []
    for first, many, pause in plans:
        names = [name for name in numbered(first, first + many) if name in there]
        go = [removal.ref.namespace for removal in holds.check(a_key(), deletes(names), len(there), 1000)]
        went += [(clock.now, name) for name in go]
        there -= set(go)
        lately = [name for when, name in went if when >= clock.now - 600.0]
        assert len(lately) <= BRAKE.most or len(lately) * 100 <= BRAKE.percent * (len(lately) + len(there))
        clock.now += pause


# between a plan and the outbox


class Gate:
    """A deletion gate over a cache and a clock."""

    def __init__(
        self,
        clock: Clock | None = None,
        holds: MassDeleteGuard | None = None,
        gone_after: float = 3.0,
        registry: Registry | None = None,
        copies: Iterable[Object] = (),
    ) -> None:
        self.cache, self.clock = a_cache(registry), clock or Clock()
        self.holds = holds or MassDeleteGuard(MassDeleteLimit(), 600.0, self.clock)
        self.flaps = FlapDamper(self.clock)
        self.deletions = DeletionGate(self.cache, self.cache.registry, self.holds, self.flaps, self.clock, gone_after)
        self.requeued: list[tuple[Key, float]] = []
        for copy in copies:
            self.cache.put(copy)

    def allowed(
        self, key: Key, source: Object | None, removals: Sequence[Removal], finalizer: str | None = None
    ) -> list[Removal | SetFinalizer]:
        verdict = self.deletions.judge(key, source, removals, finalizer)
        self.requeued += verdict.requeue
        return verdict.allowed


def a_gate(clock: Clock, holds: MassDeleteGuard | None = None, gone_after: float = 3.0) -> Gate:
    """Ten copies of one source."""
    names = numbered(0, 10)
    return Gate(clock, holds, gone_after, copies=[*map(a_namespace, names), *map(a_copy, names)])


def test_a_vanished_source_keeps_its_copies_for_the_grace_period() -> None:
    gate = a_gate(clock := Clock())
    all_of_them = deletes(numbered(0, 3))

    assert gate.allowed(a_key(), None, all_of_them) == []
    clock.now += 1.0
    assert gate.allowed(a_key().in_namespace("ns-00000"), None, all_of_them[:1]) == []
    assert gate.requeued == [(a_key(), 3.0), (a_key(), 2.0)]
    clock.now += 2.0
    assert gate.allowed(a_key(), None, all_of_them) == all_of_them


def test_a_source_that_returns_restarts_the_grace_period() -> None:
    gate = a_gate(clock := Clock())
    gate.allowed(a_key(), None, deletes(["ns-00000"]))
    clock.now += 10.0
    gate.allowed(a_key(), a_source(), [])

    assert gate.allowed(a_key(), None, deletes(["ns-00000"])) == []


def test_a_slice_without_removals_does_not_restart_the_grace_period() -> None:
    """Otherwise a client that touches a Secret with a forged mark would keep all copies forever."""
    gate = a_gate(clock := Clock())
    gate.allowed(a_key(), None, deletes(["ns-00000"]))
    clock.now += 2.0
    gate.allowed(a_key().in_namespace("ns-00001"), None, [])
    clock.now += 1.0

    assert len(gate.allowed(a_key(), None, deletes(["ns-00000"]))) == 1


@pytest.mark.parametrize(
    "end", [lambda gate: gate.allowed(a_key(), None, []), lambda gate: gate.deletions.forget(a_key())]
)
def test_the_grace_period_of_a_source_is_forgotten_with_its_last_copy(end: Callable[[Gate], object]) -> None:
    gate = a_gate(clock := Clock())
    gate.allowed(a_key(), None, deletes(["ns-00000"]))
    end(gate)
    clock.now += 10.0

    assert gate.deletions._gone_since == {}
    assert gate.allowed(a_key(), None, deletes(["ns-00000"])) == []


def test_forged_marks_do_not_weaken_the_brake() -> None:
    gate = a_gate(clock := Clock(), a_guard(clock), gone_after=0.0)
    for name in numbered(10, 1000):
        gate.cache.put(replace(a_copy(name), managed_keys=frozenset()))

    assert gate.allowed(a_key(), None, deletes(numbered(0, 6))) == []


def test_forged_owner_references_do_not_weaken_the_brake() -> None:
    """Any user can write one. Copies that managedFields do not attribute to us are not counted."""
    registry = toys.full_registry()
    cache = a_cache(registry)
    source = Ref(RESOURCE_DISTRIBUTION, "", "d")
    owner = OwnerReference(source.kind.api_version, source.kind.name, "d", "u", controller=True)
    ours = frozenset(
        {ManagedKey(FIELD_MANAGER, "annotations", mark) for mark in registry["resource-distribution"].ownership.marks}
    )
    for name in numbered(0, 10):
        cache.put(an_object(at(name, "db"), owner_references=(owner,), managed_keys=ours, known_copy=True))
    for name in numbered(10, 1000):
        cache.put(an_object(at(name, "db"), owner_references=(owner,)))

    assert cache.count(Key("resource-distribution", source)) == 10


def test_a_terminating_source_counts_as_vanished() -> None:
    gate = a_gate(Clock())

    assert gate.allowed(a_key(), a_source(deleting=True, finalizers=("x",)), deletes(["ns-00000"])) == []
    assert gate.requeued == [(a_key(), 3.0)]


def test_deletions_of_an_existing_source_need_no_grace_period() -> None:
    gate = a_gate(Clock())

    assert len(gate.allowed(a_key(), a_source(), deletes(["ns-00000"]))) == 1
    assert not gate.requeued


def test_the_brake_counts_the_copies_in_the_cache() -> None:
    gate = a_gate(clock := Clock(), a_guard(clock), gone_after=0.0)

    assert gate.allowed(a_key(), None, deletes(numbered(0, 6))) == []
    assert len(gate.allowed(a_key("other"), None, deletes(numbered(0, 1), a_key("other")))) == 1


def test_adopted_copies_are_released_whatever_the_limit() -> None:
    gate = a_gate(clock := Clock(), a_guard(clock), gone_after=0.0)
    back = release("adopted")

    assert gate.allowed(a_key(), None, [*deletes(numbered(0, 8)), back]) == [back]


def test_a_discarded_deletion_leaves_an_annotated_orphan() -> None:
    holds = a_guard(clock := Clock())
    gate = a_gate(clock, holds, gone_after=0.0)
    planned = deletes(numbered(0, 8))
    gate.allowed(a_key(), None, planned)
    holds.release(a_key(), discard=True)

    assert gate.allowed(a_key(), None, planned) == [
        KeepAsOrphan(removal.key, removal.ref, removal.live) for removal in planned
    ]
    assert gate.allowed(a_key(), None, []) == []
    assert not any(holds.is_discarded(removal.ref) for removal in planned)


def test_a_discard_does_not_apply_to_a_larger_set() -> None:
    holds = a_guard(clock := Clock())
    gate = a_gate(clock, holds, gone_after=0.0)
    gate.allowed(a_key(), None, deletes(numbered(0, 8)))
    holds.release(a_key(), discard=True)

    allowed = gate.allowed(a_key(), None, deletes(numbered(0, 9)))
    assert not any(isinstance(removal, Delete) for removal in allowed)


def test_a_source_that_lost_its_request_needs_no_grace_period() -> None:
    gate = Gate(copies=[a_copy("a")])
    assert gate.allowed(a_key(), None, deletes(["a"])) == []
    gate.cache.note_ignored(a_key().source)
    assert len(gate.allowed(a_key(), None, deletes(["a"]))) == 1


def test_deleting_a_source_does_not_wait_for_flapping_copies() -> None:
    key = Key("fishysecret", Ref(FISHY_SECRET, "team", "db"))
    gate = Gate(clock := Clock(), registry=toys.full_registry())
    (gone,) = removals = deletes(["a"], key)
    for _ in range(2):
        gate.flaps.record_removal(gone.ref, an_object(key.source, generation=1))
    clock.now += 10.0
    assert gate.allowed(key, an_object(key.source, generation=1), removals) == []
    assert gate.allowed(key, an_object(key.source, generation=2, deleting=True), removals) == removals


# leftovers of an earlier source of the same name


def leftovers(names: list[str], key: Key) -> list[Delete]:
    return [replace(removal, delayed=True) for removal in deletes(names, key)]


def a_gate_with_grace_period(clock: Clock, most: int = 5) -> tuple[Gate, Key]:
    """The gate of a vocabulary that leaves the garbage collector half a minute."""
    gate = Gate(clock, MassDeleteGuard(MassDeleteLimit(most), 600.0, clock), registry=toys.full_registry())
    return gate, a_key(source_type="resource-distribution")


def test_leftovers_of_an_earlier_source_are_deleted_after_the_grace_period_without_a_limit() -> None:
    gate, key = a_gate_with_grace_period(clock := Clock())
    left = leftovers(numbered(0, 10), key)

    assert gate.allowed(key, a_source(), left) == []
    assert gate.requeued == [(key, 30.0)]
    clock.now += 29.0
    assert gate.allowed(key.in_namespace("ns-00000"), a_source(), left[:1]) == []
    clock.now += 1.0
    assert gate.allowed(key, a_source(), left) == left


def test_other_removals_of_the_new_source_do_not_wait_for_leftovers() -> None:
    gate, key = a_gate_with_grace_period(Clock())
    now = deletes(["other"], key)

    assert gate.allowed(key, a_source(), [*leftovers(["left"], key), *now]) == now


def test_the_grace_period_for_leftovers_is_forgotten_when_none_is_left() -> None:
    gate, key = a_gate_with_grace_period(clock := Clock())
    gate.allowed(key, a_source(), leftovers(["left"], key))
    gate.allowed(key.in_namespace("b"), a_source(), [])
    assert key in gate.deletions._leftover_since
    gate.allowed(key, a_source(), [])
    clock.now += 60.0

    assert gate.allowed(key, a_source(), leftovers(["left"], key)) == []


def test_a_new_list_of_the_kind_restarts_the_grace_period_for_leftovers() -> None:
    gate, key = a_gate_with_grace_period(clock := Clock())
    gate.allowed(key, a_source(), leftovers(["left"], key))
    gate.deletions.restart_grace_periods(key.source.kind)
    clock.now += 60.0

    assert gate.allowed(key, a_source(), leftovers(["left"], key)) == []


def test_a_flapping_copy_without_consent_is_deleted_at_once() -> None:
    gate = Gate()
    unwanted = delete("a")
    for _ in range(2):
        gate.flaps.record_removal(unwanted.ref, a_source())

    assert gate.allowed(a_key(), a_source(), [unwanted]) == []
    withdrawn = replace(unwanted, revoked=True)
    assert gate.allowed(a_key(), a_source(), [withdrawn]) == [withdrawn]


@pytest.mark.parametrize("discard", [False, True])
def test_a_release_does_not_apply_to_the_same_set_held_later(discard: bool) -> None:
    holds = a_guard(Clock())
    check_deletes(holds, 0, 8)
    holds.release(a_key(), discard)
    assert check_deletes(holds, 0, 8) == 8
    for name in numbered(0, 8):
        holds.check(a_key().in_namespace(name), [], 10, 10)  # the copies were deleted, and are created again one by one

    assert check_deletes(holds, 0, 8) == 0
    assert not any(holds.is_discarded(removal.ref) for removal in deletes(numbered(0, 8)))


@pytest.mark.parametrize("discard", [False, True])
def test_a_complete_plan_ends_the_release_for_addresses_that_were_deleted_before(discard: bool) -> None:
    """A copy whose delete is always refused must not keep the others released. They were deleted and created again."""
    holds = a_guard(Clock())
    check_deletes(holds, 0, 8)
    holds.release(a_key(), discard)
    assert check_deletes(holds, 0, 8) == 8
    assert check_deletes(holds, 7, 8) == 1

    assert check_deletes(holds, 0, 8) == 0
    assert [holds.is_discarded(removal.ref) for removal in deletes(numbered(0, 8))] == [False] * 7 + [discard]


def paused_refs(first: int, last: int) -> frozenset[Ref]:
    return frozenset(removal.ref for removal in deletes(numbered(first, last)))


def test_a_paused_namespace_keeps_its_held_deletions() -> None:
    holds = a_guard(Clock())
    check_deletes(holds, 0, 8)
    assert holds.check(a_key(), [], 10, 10, paused_refs(0, 8)) == []
    assert holds.held[a_key()].count == 8
    for number, name in enumerate(numbered(0, 8)):
        assert holds.check(a_key().in_namespace(name), [], 10, 10, paused_refs(number, number + 1)) == []
    assert holds.held[a_key()].count == 8

    assert check_deletes(holds, 0, 8) == 0


def test_a_pause_does_not_end_a_release() -> None:
    holds = a_guard(Clock())
    check_deletes(holds, 0, 8)
    holds.release(a_key())
    holds.check(a_key(), [], 10, 10, paused_refs(0, 8))

    assert check_deletes(holds, 0, 8) == 8


def test_holds_of_an_unserved_vocabulary_are_remembered() -> None:
    holds = a_guard(Clock())
    trees = Key("accurate:sub", at("r", "x"))
    holds.restore({str(a_key()), str(trees)}, {})
    holds.settle([], lambda vocabulary: vocabulary != "accurate")

    assert holds.remembered == {str(trees)}


def test_a_disabled_vocabulary_does_not_end_its_hold() -> None:
    registry = toys.registry("delete")
    off = Registry(
        tuple(
            replace(source_type, enabled=False) if source_type.name == "secret-copy" else source_type
            for source_type in registry.source_types
        )
    )
    gate = Gate(registry=off)
    gate.holds.restore({str(a_key())}, {})
    assert gate.allowed(a_key(), a_source(), []) == []
    assert gate.holds.remembered == {str(a_key())}
