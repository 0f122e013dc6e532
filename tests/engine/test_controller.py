"""The controller: large plans while the cluster changes, incoming messages, and state that is dropped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.kube.scripted import access, refuses, serving
from tests.support import toys
from tests.support.controller import ControllerHarness
from tests.support.samples import (
    HOME,
    Clock,
    a_copy,
    a_key,
    a_namespace,
    a_registry,
    a_source,
    an_object,
    create,
    numbered,
)
from tests.support.toys import a_sync_to
from tests.support.world import at, secret
from tests.vocabularies.accurate.forest import a_registry as trees

from samara.core.desired import Copy, Template
from samara.core.mass_delete import MassDeleteLimit
from samara.core.metadata_keys import ACCEPT, IGNORE, PAUSED, RELEASED
from samara.core.model import FIELD_MANAGER, QUOTA, SECRET, Key, Kind, ManagedKey, Object, Ref, namespace_ref
from samara.core.registry import Registry
from samara.core.writes import Create, Delete, SetFinalizer, Update, Write
from samara.engine.limits import FLAP_DELAY
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.planner import CHUNK
from samara.engine.writer import Ending, Result
from samara.kube.cache import Change
from samara.kube.client import Client, unrestricted
from samara.kube.reflector import Observed
from samara.vocabularies import fishysecret, secret_copy, sync_to
from samara.vocabularies.accurate.labels import CREATED_BY, FROM, PARENT, PROPAGATE, ROOT, TYPE, UPDATE

MANY = 2 * CHUNK + 100
_COPIED = secret_copy.source_type(HOME, "delete")
CONSENT = Registry((replace(_COPIED, policy=_COPIED.policy._replace(needs_consent=True)),))


def deleted(harness: ControllerHarness) -> list[str]:
    return [write.ref.namespace for write in harness.sent() if isinstance(write, Delete)]


def plan_in_chunks(
    harness: ControllerHarness, meanwhile: Callable[[], object], after: int = 1, key: Key | None = None
) -> None:
    """Plans a large source, and calls `meanwhile` after this number of chunks."""
    key = key or a_key()
    harness.plan(key)
    assert harness.is_chunked(key)
    for _ in range(after):
        harness.continue_chunked()
    assert harness.is_chunked(key)
    meanwhile()
    harness.finish_chunked()


# large plans


def test_a_copy_created_during_a_large_plan_is_not_deleted() -> None:
    harness = ControllerHarness(a_source(), namespaces=numbered(0, MANY))

    def create_namespace() -> None:
        harness.cache.put(a_namespace("newborn"))
        harness.plan(a_key().in_namespace("newborn"))
        harness.cache.put(a_copy("newborn"))

    plan_in_chunks(harness, create_namespace)

    writes = harness.sent()
    assert {write.ref.namespace for write in writes} == {*numbered(0, MANY), "newborn"}
    assert all(isinstance(write, Create) for write in writes)
    assert harness.counts[a_key()].wanted == MANY + 1


def test_an_unwanted_copy_is_deleted_at_the_end_of_a_large_plan() -> None:
    listed = numbered(0, MANY)
    harness = ControllerHarness(a_source(targets=",".join(listed)), a_copy("other"), namespaces=[*listed, "other"])
    plan_in_chunks(harness, lambda: None)

    assert deleted(harness) == ["other"]


def test_a_copy_without_consent_is_deleted_at_the_end_of_a_large_plan() -> None:
    accepting = [a_namespace(name, annotations={ACCEPT: HOME}) for name in numbered(0, MANY)]
    harness = ControllerHarness(a_source(), *accepting, a_copy("other"), namespaces=["other"], registry=CONSENT)
    plan_in_chunks(harness, lambda: None)

    assert deleted(harness) == ["other"]


def test_a_copy_whose_consent_returns_during_a_large_plan_stays_although_its_source_is_invalid() -> None:
    listed = numbered(0, 2 * CHUNK - 1)  # with the unwanted copy two full chunks, so that the end follows them
    accepting = [a_namespace(name, annotations={ACCEPT: "team"}) for name in listed]
    asks = {sync_to.SYNC_TO: "namespaces", sync_to.SYNC_TO_NAMESPACES: ";".join([*listed, "Bad_Name"])}
    source = an_object(at("team", "db"), annotations=asks, content=secret("one"))
    ours = frozenset({ManagedKey(FIELD_MANAGER, "annotations", sync_to.FROM)})
    left = an_object(at("other", "db"), annotations={sync_to.FROM: "team/db"}, managed_keys=ours, known_copy=True)
    registry = Registry((a_sync_to(copyable=lambda where, words: dict(words), consent=True),))
    key = Key("sync-to", source.ref)

    harness = ControllerHarness(source, left, *accepting, namespaces=["team", "other"], registry=registry)
    again = a_namespace("other", 2, annotations={ACCEPT: "team"})
    plan_in_chunks(harness, lambda: harness.cache.put(again), 2, key)
    assert deleted(harness) == []
    harness = ControllerHarness(source, left, *accepting, namespaces=["team", "other"], registry=registry)
    plan_in_chunks(harness, lambda: None, 2, key)
    assert deleted(harness) == ["other"]


@pytest.mark.parametrize("withdrawn", [False, True])
def test_a_source_that_changes_faster_than_it_is_copied_reaches_every_namespace(withdrawn: bool) -> None:
    accepting = [a_namespace(name, annotations={ACCEPT: HOME}) for name in numbered(0, MANY)]
    refusing = (a_namespace("a"), a_copy("a")) if withdrawn else ()  # a removal that waits for the end of the plan
    harness = ControllerHarness(a_source(), *refusing, *accepting, registry=CONSENT)
    written: set[str] = set()
    for version in range(2, 6):
        harness.cache.put(a_source(version=version))
        harness.enqueue(a_key())
        harness.plan(a_key())
        harness.finish_chunked()
        for _ in range(MANY // 3):
            write = harness.outbox.take()
            assert write is not None
            harness.outbox.done(write)
            harness.finish(write)
            written.add(write.ref.namespace)
        harness.outbox.clear(a_key())
    assert written >= set(numbered(0, MANY))


def test_a_copy_whose_consent_returns_during_a_large_plan_stays() -> None:
    accepting = [a_namespace(name, annotations={ACCEPT: HOME}) for name in numbered(0, MANY)]
    copy = a_copy("other")
    harness = ControllerHarness(a_source(), copy, *accepting, namespaces=["other"], registry=CONSENT)
    plan_in_chunks(harness, lambda: harness.cache.put(a_namespace("other", 2, annotations={ACCEPT: HOME})))

    assert deleted(harness) == []


def test_a_copy_paused_during_a_large_plan_is_not_removed() -> None:
    listed, others = numbered(0, 2 * CHUNK), numbered(2 * CHUNK, 3 * CHUNK + 10)
    source = a_source(targets=",".join(listed))
    harness = ControllerHarness(source, *map(a_copy, others), namespaces=[*listed, *others])
    paused = a_namespace(others[0], 2, annotations={PAUSED: "true"})
    plan_in_chunks(harness, lambda: harness.cache.put(paused), after=3)

    assert sorted(deleted(harness)) == others[1:]


def test_namespaces_deleted_during_a_large_plan_are_not_counted() -> None:
    harness = ControllerHarness(a_source(), namespaces=numbered(0, MANY))

    def go() -> None:
        for name in (numbered(0, MANY)[0], numbered(0, MANY)[-1]):
            harness.cache.remove(namespace_ref(name))

    plan_in_chunks(harness, go)

    counts = harness.counts[a_key()]
    assert (counts.wanted, counts.pending, counts.blocked) == (MANY - 2, MANY - 2, 0)


def test_the_counts_of_a_large_source_do_not_drop_while_it_is_planned_again() -> None:
    harness = ControllerHarness(a_source(), namespaces=numbered(0, MANY))
    plan_in_chunks(harness, lambda: None)
    for name in numbered(0, MANY):
        harness.counts[a_key()].mark_in_sync(at(name, "db"))
    harness.plan(a_key())
    harness.continue_chunked()

    assert harness.counts[a_key()].wanted == MANY
    assert harness.counts[a_key()].in_sync == MANY - CHUNK


TREES = Registry((toys.propagation(SECRET),))
IN_TREE = a_key(namespace="top", source_type="accurate")


def child(name: str, version: int = 1, of: str = "top") -> Object:
    return a_namespace(name, version, labels={PARENT: of})


def a_large_tree() -> ControllerHarness:
    source = an_object(at("top", "db"), annotations={PROPAGATE: UPDATE}, content=secret("one"))
    spaces = [a_namespace("top"), a_namespace("elsewhere"), *map(child, numbered(0, MANY))]
    return ControllerHarness(*spaces, source, registry=TREES)


def test_a_slice_overrides_the_large_plan_for_its_namespace() -> None:
    harness, (first, *_, last) = a_large_tree(), numbered(0, MANY)

    def move() -> None:
        for name in (first, last):
            harness.cache.put(child(name, 2, of="elsewhere"))
            harness.plan(IN_TREE.in_namespace(name))

    plan_in_chunks(harness, move, key=IN_TREE)

    assert {write.ref.namespace for write in harness.sent()} == {*numbered(1, MANY - 1)}
    assert harness.counts[IN_TREE].wanted == MANY - 2


def test_a_removal_planned_by_a_slice_also_counts_for_the_large_plan() -> None:
    names, others = numbered(0, MANY), numbered(MANY, MANY + 3)
    source = a_source(targets=",".join(names))
    harness = ControllerHarness(
        source,
        *map(a_copy, others),
        namespaces=[*names, *others],
        holds=MassDeleteGuard(MassDeleteLimit(2, 0.1), 600.0, Clock()),
    )
    plan_in_chunks(harness, lambda: harness.plan(a_key().in_namespace(others[0])))

    assert harness.holds.held[a_key()].count == 3


def test_namespaces_dropped_during_a_large_plan_are_planned_again() -> None:
    harness, (first, *_, last) = a_large_tree(), numbered(0, MANY)

    def move() -> None:
        for name in (first, last):
            harness.cache.put(child(name, 2, of="elsewhere"))

    plan_in_chunks(harness, move, key=IN_TREE)

    assert set(harness.requeued()) == {IN_TREE.in_namespace(first), IN_TREE.in_namespace(last)}


def test_a_namespace_dropped_while_its_copy_is_in_flight_is_planned_again() -> None:
    source = an_object(at("top", "db"), annotations={PROPAGATE: UPDATE}, content=secret("one"))
    harness = ControllerHarness(a_namespace("top"), a_namespace("elsewhere"), child("a"), source, registry=TREES)
    harness.plan(IN_TREE)
    write = harness.outbox.take()
    assert isinstance(write, Create)
    harness.observe(child("a", 2, of="elsewhere"))
    harness.work()
    harness.finish(write)

    assert harness.requeued() == [IN_TREE.in_namespace("a")]


# messages


@pytest.mark.parametrize("came", [True, False])
def test_a_created_changed_or_deleted_quota_releases_its_namespace(came: bool) -> None:
    harness = ControllerHarness(a_source(), namespaces=["a", "b"])
    for namespace in ("a", "b"):
        harness.retry.note(create(namespace), Result(Ending.REFUSED, "quota"))
    quota = Ref(QUOTA, "a", "compute")
    if came:
        harness.quota_changed(quota)
    else:
        harness.deliver(Change(quota, None, None))

    assert harness.requeued() == [a_key().in_namespace("a")]
    freed, waiting = (harness.retry.state_of(create(name)) for name in ("a", "b"))
    assert freed is not None
    assert waiting is not None
    assert freed.until <= harness.clock() < waiting.until


def test_many_quota_changes_cause_one_retry_per_second() -> None:
    harness = ControllerHarness(a_source(), namespaces=["a"])
    harness.retry.note(create("a"), Result(Ending.REFUSED, "quota"))
    harness.quota_changed(Ref(QUOTA, "a", "compute"))
    assert harness.requeued() == [a_key().in_namespace("a")]
    for _ in range(50):
        harness.quota_changed(Ref(QUOTA, "a", "compute"))

    assert harness.requeued() == []
    assert harness.queue.next_due() == 1.0


def test_while_observing_copies_are_counted_and_not_written() -> None:
    harness = ControllerHarness(a_source(), namespaces=["a", "b"], observing=True)
    harness.resync()
    harness.work()

    assert len(harness.outbox) == 0
    assert (harness.counts[a_key()].wanted, harness.counts[a_key()].pending) == (2, 2)
    assert harness.synced


def test_a_pause_does_not_end_a_hold() -> None:
    places = numbered(0, 8)
    holds = MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, Clock())
    harness = ControllerHarness(a_source(targets="x"), *map(a_copy, places), namespaces=places, holds=holds)
    harness.plan(a_key())
    assert holds.held[a_key()].count == 8
    for version, word in ((2, "true"), (3, "false")):
        for name in places:
            harness.cache.put(a_namespace(name, version, annotations={PAUSED: word}))
            harness.plan(a_key().in_namespace(name))
        harness.plan(a_key())
        assert holds.held[a_key()].count == 8
    assert deleted(harness) == []


def a_braked_harness(*objects: Object, namespaces: list[str]) -> ControllerHarness:
    """An engine that holds more than five deletions, and that has planned its only source."""
    holds = MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, Clock())
    harness = ControllerHarness(*objects, namespaces=namespaces, holds=holds, gone_after=0.0)
    harness.plan(a_key())
    harness.sent()
    return harness


def test_copies_that_others_forge_neither_count_nor_are_held() -> None:
    """A tenant calls itself `samara` and forges copies of sources that never were, in a namespace of its own."""
    places = numbered(0, 8)
    harness = a_braked_harness(a_source(targets=",".join(places)), *map(a_copy, places), namespaces=[*places, "mine"])
    for number in range(20):
        harness.observe(a_copy("mine", f"forged-{number}"))
    harness.work()
    writes = harness.sent()

    assert [(type(write), write.ref.namespace) for write in writes] == [(Delete, "mine")] * 20
    assert not harness.holds.held
    for write in writes:
        gone = harness.cache.remove(write.ref)
        assert gone is not None
        harness.finish(write, Result(Ending.DONE, changes=(gone,)))
    assert harness.appeared_from(HOME) == 0
    harness.observe(a_source(targets=",".join(places[4:]), version=2))
    harness.work()

    assert deleted(harness) == places[:4]


def test_forged_copies_of_a_source_neither_hold_its_deletions_nor_let_them_pass() -> None:
    places, mine = numbered(0, 8), [f"mine-{number}" for number in range(30)]
    harness = a_braked_harness(a_source(targets=",".join(places)), *map(a_copy, places), namespaces=[*places, *mine])
    for name in mine:
        harness.observe(a_copy(name, finalizers=("mine/stay",)))
    harness.work()

    assert sorted(deleted(harness)) == sorted(mine)
    for name in mine:
        harness.observe(a_copy(name, version=2, finalizers=("mine/stay",), deleting=True))
    harness.observe(a_source(targets=",".join(places[6:]), version=2))
    harness.work()

    assert deleted(harness) == []
    assert harness.holds.held[a_key()].refs == {at(name, "db") for name in places[:6]}


def test_a_copy_that_appears_where_its_source_wants_it_counts() -> None:
    """The answer to our create was lost, or another operator made the copies."""
    places = numbered(0, 8)
    harness = a_braked_harness(a_source(targets=",".join(places)), namespaces=places)
    for name in places:
        harness.observe(a_copy(name, content=secret("one")))
    harness.work()
    harness.sent()
    harness.observe(a_source(targets=places[0], version=2))
    harness.work()

    assert deleted(harness) == []
    assert harness.holds.held[a_key()].count == 7


def test_copies_in_the_first_list_count() -> None:
    """Their source was deleted while no operator ran."""
    places = numbered(0, 8)
    harness = a_braked_harness(namespaces=places)
    harness.post(Observed([harness.put(a_copy(name)) for name in places], first_list=True))
    harness.work()

    assert len(deleted(harness)) == 5
    assert harness.holds.held[a_key()].count == 3


def test_a_hold_from_before_a_restart_lasts_until_its_key_can_be_planned() -> None:
    """Its plan needed a read, and the API server failed."""
    holds = MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, Clock())
    holds.restore({str(a_key()), str(a_key("gone"))}, {})
    harness = ControllerHarness(a_source(), namespaces=["a"], holds=holds)

    assert harness.synced
    assert holds.remembered == {str(a_key())}


def test_a_waiting_retry_delays_synced() -> None:
    harness = ControllerHarness(a_source(), a_copy("a", content=secret("one")), namespaces=["a"])
    harness.retry.note(create("a"), Result(Ending.FAILED, "out of reach"))
    assert not harness.synced
    harness.retry.forget(a_key(), at("a", "db"))
    assert harness.synced


def test_a_copy_is_created_with_its_new_namespace_without_a_throttle() -> None:
    """The copy is deleted while its Namespace still looks active. Then the Namespace is deleted and created again."""
    harness = ControllerHarness(a_source(targets="a"), namespaces=["a"])
    drift, copy = harness.drift, a_copy("a")
    for _ in range(10):
        drift.observe_edit(Change(copy.ref, copy, None), harness.registry.owner, harness.cache)
        harness.cache.remove(namespace_ref("a"))
        harness.plan(a_key())
        assert harness.counts[a_key()].blocked == 1
        harness.cache.put(a_namespace("a"))
        harness.plan(a_key())
        (write,) = harness.sent()
        assert drift.record_repair(write) is None


# state that is dropped


def harness_with_hold() -> ControllerHarness:
    """Ten copies of a source that is gone: the limit on mass deletion holds their deletion."""
    names = numbered(0, 10)
    harness = ControllerHarness(
        *map(a_copy, names),
        namespaces=names,
        holds=MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, Clock()),
        gone_after=0.0,
    )
    harness.plan(a_key())
    assert harness.holds.held[a_key()].count == 10
    return harness


@pytest.mark.parametrize("forged", [False, True])
def test_a_removed_or_disguised_copy_does_not_end_the_hold_of_the_others(forged: bool) -> None:
    harness = harness_with_hold()
    name = numbered(0, 1)[0]
    if forged:
        harness.cache.put(replace(a_copy(name, version=2), managed_keys=frozenset()))
    else:
        harness.cache.remove(at(name, "db"))
    harness.plan(a_key().in_namespace(name))

    assert harness.holds.held[a_key()].refs == {at(other, "db") for other in numbered(1, 10)}
    assert harness.sent() == []


def test_the_state_of_a_source_is_dropped_with_its_last_copy() -> None:
    names = numbered(0, 3)
    harness = ControllerHarness(
        *map(a_copy, names),
        namespaces=names,
        holds=MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, Clock()),
        gone_after=0,
    )
    harness.plan(a_key())
    queued = []
    for write in harness.sent():
        assert isinstance(write, Delete)
        harness.cache.remove_deleted(write.live)
        harness.finish(write)
        queued.append(harness.requeued())

    assert queued == [[], [], [a_key()]]
    assert harness.counts
    assert harness.grace_periods
    assert harness.holds._by_source
    harness.plan(a_key())
    assert (harness.counts, harness.grace_periods, harness.holds._by_source) == ({}, set(), {})


REFUSED = Result(Ending.REFUSED, "quota")


def waiting(harness: ControllerHarness) -> set[str]:
    """The namespaces in which something waits to be tried again."""
    return set(harness.retry._by_namespace)


def test_backoffs_end_with_their_namespace_and_their_keys_are_planned_again() -> None:
    harness = ControllerHarness(a_source(targets="b"), namespaces=["a", "b"])
    for namespace in ("a", "b"):
        harness.retry.note(create(namespace), REFUSED)
    harness.deliver(harness.cache.remove(namespace_ref("a")))

    assert waiting(harness) == {"b"}
    assert harness.requeued() == [a_key().in_namespace("a")]


def test_a_changed_namespace_keeps_its_backoffs() -> None:
    harness = ControllerHarness(a_source(), namespaces=["a"])
    harness.retry.note(create("a"), REFUSED)
    harness.observe(a_namespace("a", 2, labels={"team": "red"}))

    assert waiting(harness) == {"a"}


def test_a_plan_that_finds_no_namespace_drops_the_backoffs_and_waits_there() -> None:
    """An answer may arrive after the watch reported the deletion of its namespace."""
    harness = ControllerHarness(a_source(targets="a"))
    harness.retry.note(create("a"), REFUSED)
    for _ in range(2):
        harness.flaps.record_removal(at("a", "db"), a_source(targets="a"))
    harness.flaps.note_unwanted(at("a", "db"), a_source(targets="a"))
    harness.plan(a_key())

    assert (waiting(harness), harness.flaps._due) == (set(), {})


def test_a_refusal_in_a_deleted_namespace_leaves_no_backoff() -> None:
    harness = ControllerHarness(a_source(targets="b"), namespaces=["b"])
    for namespace in ("a", "b"):
        harness.finish(create(namespace), REFUSED)

    assert waiting(harness) == {"b"}


def test_a_refused_write_to_a_cluster_scoped_object_has_a_backoff() -> None:
    harness = ControllerHarness(a_source())
    kind = Kind("example.com", "v1", "Wide", "wides", namespaced=False)
    wide = an_object(Ref(kind, "", "all"))
    harness.finish(SetFinalizer(a_key(), wide.ref, wide, "finalizer", add=True, why=""), REFUSED)

    assert waiting(harness) == {"all"}


def test_the_backoffs_of_a_deleted_source_without_copies_are_dropped() -> None:
    harness = ControllerHarness(namespaces=["a"])
    harness.retry.note(create("a"), REFUSED)
    harness.retry.note(create("a", a_key("other")), REFUSED)
    harness.plan(a_key())

    assert harness.retry._by_source.keys() == {a_key("other").source}


def test_writing_a_copy_restarts_the_wait_before_its_deletion() -> None:
    source = a_source(targets="a")
    harness = ControllerHarness(source, namespaces=["a"])
    flaps, write = harness.flaps, create("a")
    for _ in range(2):
        flaps.record_removal(write.ref, source)
    flaps.note_unwanted(write.ref, source)
    harness.finish(write)

    flaps.note_unwanted(write.ref, source)
    assert flaps.remaining(write.ref, source) == FLAP_DELAY
    harness.clock.now += FLAP_DELAY + 1
    harness.finish(write)
    flaps.note_unwanted(write.ref, source)
    assert flaps.remaining(write.ref, source) == FLAP_DELAY


def writes_counted(harness: ControllerHarness) -> dict[tuple[str, str, str], float]:
    samples = (sample for family in harness.metrics.registry.collect() for sample in family.samples)
    return {
        (sample.labels["vocabulary"], sample.labels["verb"], sample.labels["result"]): sample.value
        for sample in samples
        if sample.name == "samara_writes_total"
    }


def test_a_copy_that_a_dry_run_confirms_does_not_count_as_a_write() -> None:
    harness = ControllerHarness(a_source(targets="a"), a_copy("a", content=secret("old")), namespaces=["a"])
    harness.plan(a_key())
    (write,) = harness.sent()
    harness.finish(write, Result(Ending.DONE, version=1, already_right=True))
    counts = harness.counts[a_key()]
    assert (counts.in_sync, counts.last_written) == (1, "")
    assert writes_counted(harness) == {}

    harness.finish(write, Result(Ending.DONE, version=2))
    assert counts.last_written
    assert writes_counted(harness) == {("secret-copy", "update", "done"): 1}


def test_a_copy_confirmed_at_its_new_address_plans_the_removal_of_the_old_one() -> None:
    ask = an_object(Ref(fishysecret.FISHY_SECRET, "team", "db"), finalizers=(fishysecret.FINALIZER,))
    marks = {fishysecret.OWNER_NAME: "db", fishysecret.OWNER_NAMESPACE: "team"}
    ours = frozenset(ManagedKey(FIELD_MANAGER, "labels", mark) for mark in marks)
    made = [an_object(at(name, "db"), labels=marks, managed_keys=ours, known_copy=True) for name in ("old", "new")]
    registry = Registry((fishysecret.source_type(toys.options()),))
    harness = ControllerHarness(ask, *made, namespaces=["team", "old", "new"], registry=registry)
    key = Key(fishysecret.NAME, ask.ref)
    assert harness.cache.count(key) == 2
    write = Update(key, made[1].ref, Copy(made[1].ref, Template(secret("one"))), made[1], "")
    harness.finish(write, Result(Ending.DONE, version=1, already_right=True))
    assert harness.requeued() == [key]


def test_an_existing_source_is_not_planned_again_after_a_removal() -> None:
    harness = ControllerHarness(a_source(targets="b"), a_copy("a"), namespaces=["a"])
    harness.plan(a_key())
    (write,) = harness.sent()
    assert isinstance(write, Delete)
    harness.cache.remove_deleted(write.live)
    harness.finish(write)

    assert harness.requeued() == []


# with a server


class Real(Clock):
    def __call__(self) -> float:
        return time.monotonic()


def test_a_namespace_that_always_fails_does_not_delay_synced() -> None:
    async def run() -> None:
        async with (
            serving(refuses(500), refuses(404, "NotFound")) as script,
            Client(access(script), may_write=unrestricted) as client,
        ):
            script.answers = [
                refuses(500),
                refuses(404, "NotFound"),
            ] * 50  # every write fails, and every read finds no object
            harness = ControllerHarness(a_source(targets="a"), namespaces=["a"], clock=Real(), client=client)
            running = asyncio.create_task(harness.run())
            await script.until(lambda: harness.synced or running.done())
            assert harness.synced
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def test_the_copies_of_these_tests_are_in_sync() -> None:
    """If the copies were never in sync, other tests could not notice a wrong deletion."""
    content = secret("one").pick("type", "data")
    copy = replace(a_copy("a", content=content), labels={secret_copy.FROM: "admin-db"})
    harness = ControllerHarness(a_source(), copy, namespaces=["a"], registry=a_registry())
    harness.plan(a_key())

    assert harness.sent() == []
    assert harness.counts[a_key()].in_sync == 1


# chains


def a_chain() -> tuple[list[Object], Object, Object]:
    """Three namespaces, and copies in the lower two without their source."""
    ours = frozenset(ManagedKey(FIELD_MANAGER, "annotations", key) for key in (FROM, PROPAGATE))
    first, second = (
        an_object(
            at(name, "db"),
            managed_keys=ours,
            known_copy=True,
            annotations={FROM: above, PROPAGATE: UPDATE},
            content=secret("one"),
        )
        for name, above in (("mid", "top"), ("leaf", "mid"))
    )
    return [a_namespace("top"), child("mid"), child("leaf", of="mid")], first, second


def test_copies_of_a_copy_that_we_deleted_are_deleted_even_if_the_echo_comes_first() -> None:
    spaces, first, second = a_chain()
    harness = ControllerHarness(*spaces, first, second, registry=TREES, clock=(clock := Clock()))
    harness.plan(IN_TREE)
    clock.now += 3.0
    harness.plan(IN_TREE)
    assert isinstance(harness.outbox.take(), Delete)
    harness.deliver(harness.cache.remove(first.ref))
    harness.work()
    assert deleted(harness) == ["leaf"]


def test_copies_of_a_released_copy_are_deleted_with_the_answer() -> None:
    """The echo changes nothing, and the released copy is not a source of any copy."""
    spaces, first, second = a_chain()
    harness = ControllerHarness(*spaces, first, second, registry=TREES)
    harness.answered(harness.cache.put(replace(first, resource_version=2, annotations={RELEASED: "true"})))
    harness.work()
    assert deleted(harness) == ["leaf"]


# namespace trees


def in_a_tree(namespace: str, version: int, value: str, above: str = "") -> Object:
    """A Secret that is propagated, or a copy of it."""
    words = {PROPAGATE: UPDATE, **({FROM: above} if above else {})}
    ours = frozenset(ManagedKey(FIELD_MANAGER, "annotations", key) for key in (FROM, PROPAGATE) if above)
    labels = {CREATED_BY: "accurate"} if above else {}
    return an_object(
        at(namespace, "s"),
        version,
        annotations=words,
        labels=labels,
        content=secret(value),
        managed_keys=ours,
        known_copy=bool(above),
    )


def planned(harness: ControllerHarness) -> list[Write]:
    """Plans everything in the queue, and returns the writes."""
    harness.work()
    return harness.sent()


def refuse_repeatedly(harness: ControllerHarness, key: Key) -> None:
    """Refuses the write of this key until its backoff is minutes long."""
    for _ in range(8):
        harness.clock.now += 1000.0
        harness.plan(key)
        (write,) = harness.sent()
        harness.retry.note(write, Result(Ending.REFUSED, "denied"))


def a_tree(*more: Object, team: str = "one") -> ControllerHarness:
    """r ─ n ─ c"""
    spaces = (
        a_namespace("r", labels={TYPE: ROOT, "team": team}),
        a_namespace("n", labels={PARENT: "r"}),
        a_namespace("c", labels={PARENT: "n"}),
    )
    return ControllerHarness(*spaces, *more, registry=trees())


def test_a_write_refused_deep_in_a_tree_is_retried_when_its_source_changes() -> None:
    harness = a_tree(in_a_tree("r", 1, "bad"), in_a_tree("n", 2, "bad", "r"))
    refuse_repeatedly(harness, Key("accurate", at("n", "s")))
    harness.observe(in_a_tree("r", 10, "good"))
    (hop,) = planned(harness)
    assert hop.ref == at("n", "s")

    harness.answered(harness.cache.put(in_a_tree("n", 11, "good", "r")))
    assert [write.ref for write in planned(harness)] == [at("c", "s")]


def test_a_refused_overlay_is_retried_when_the_parent_namespace_changes() -> None:
    harness = a_tree(team="bad")
    refuse_repeatedly(harness, Key("accurate:tree", namespace_ref("n")))
    harness.observe(a_namespace("r", 9, labels={TYPE: ROOT, "team": "good"}))
    assert namespace_ref("n") in [write.ref for write in planned(harness)]


def test_a_read_ahead_of_the_watch_queues_all_keys_of_its_change() -> None:
    """The namespace was moved while our own write to it was on its way; the watch has no news of it after that."""
    harness = a_tree(in_a_tree("r", 1, "one"), in_a_tree("n", 2, "one", "r"))
    harness.cache.put(a_namespace("q", labels={TYPE: ROOT}))
    harness.fetched(harness.cache.put(a_namespace("n", 9, labels={PARENT: "q"})), 0.1)
    assert harness.requeued() == []
    harness.clock.now += 0.2
    queued = set(harness.requeued())
    assert Key("accurate", at("r", "s"), "n") in queued
    assert Key("accurate:tree", namespace_ref("n")) in queued


def test_a_delete_of_ours_without_an_answer_does_not_count_as_an_edit() -> None:
    harness = ControllerHarness(a_source(targets="b"), a_copy("a"), namespaces=["a", "b"])
    harness.fetched(harness.cache.remove_deleted(a_copy("a")), 0.0)
    assert harness.drift.record_repair(create("a")) is None


@pytest.mark.parametrize("key", [PAUSED, IGNORE])
def test_an_unknown_value_of_a_control_key_on_a_namespace_is_reported(key: str) -> None:
    harness = ControllerHarness(namespaces=["a", "b"])
    harness.resync()
    harness.observe(a_namespace("b", 2, annotations={key: "true"}))
    assert harness.reported() == []
    harness.observe(a_namespace("a", 2, annotations={key: "yes"}))
    assert harness.reported() == [(namespace_ref("a"), "Invalid")]


def test_an_unknown_value_of_a_control_key_that_was_there_at_the_start_is_reported() -> None:
    harness = ControllerHarness(a_namespace("a", annotations={PAUSED: "yes"}))
    harness.resync()
    assert harness.reported() == [(namespace_ref("a"), "Invalid")]
