"""From events to plans to writes: large plans that grow while the world changes, and what is forgotten in the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.engine.parts import (
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
from tests.kube.scripted import access, refuses, serving
from tests.support import toys
from tests.support.engine import EngineHarness
from tests.support.world import at, secret
from tests.vocabularies.accurate.forest import a_registry as trees

from samara.core.desired import Copy, Template
from samara.core.mass_delete import MassDeleteLimit
from samara.core.metadata_keys import ACCEPT, PAUSED, RELEASED
from samara.core.model import FIELD_MANAGER, QUOTA, SECRET, Key, Kind, ManagedKey, Object, Ref, namespace_ref
from samara.core.registry import Registry
from samara.core.writes import Create, Delete, SetFinalizer, Update, Write
from samara.engine.chunks import CHUNK
from samara.engine.limits import PATIENCE
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.outcome import Outcome, Result
from samara.kube.cache import Change
from samara.kube.client import Client, unrestricted
from samara.vocabularies import fishysecret, secret_copy, sync_to
from samara.vocabularies.accurate.labels import CREATED_BY, FROM, PARENT, PROPAGATE, ROOT, TYPE, UPDATE

MANY = 2 * CHUNK + 100
_COPIED = secret_copy.source_type(HOME, "delete")
CONSENT = Registry((replace(_COPIED, policy=_COPIED.policy._replace(needs_consent=True)),))


def deleted(engine: EngineHarness) -> list[str]:
    return [write.ref.namespace for write in engine.sent() if isinstance(write, Delete)]


def grown(engine: EngineHarness, meanwhile: Callable[[], object], after: int = 1, key: Key | None = None) -> None:
    """Plans a large source; something happens after so many chunks of it."""
    key = key or a_key()
    engine.plan(key)
    assert engine.is_chunked(key)
    for _ in range(after):
        engine.continue_chunked()
    assert engine.is_chunked(key)
    meanwhile()
    engine.finish_chunked()


# large plans


def test_a_copy_that_is_born_while_a_large_plan_grows_is_not_deleted() -> None:
    engine = EngineHarness(a_source(), namespaces=numbered(0, MANY))

    def born() -> None:
        engine.cache.put(a_namespace("newborn"))
        engine.plan(a_key().in_namespace("newborn"))
        engine.cache.put(a_copy("newborn"))

    grown(engine, born)

    writes = engine.sent()
    assert {write.ref.namespace for write in writes} == {*numbered(0, MANY), "newborn"}
    assert all(isinstance(write, Create) for write in writes)
    assert engine.tallies[a_key()].wanted == MANY + 1


def test_a_copy_where_none_is_wanted_goes_at_the_end_of_a_large_plan() -> None:
    listed = numbered(0, MANY)
    engine = EngineHarness(a_source(targets=",".join(listed)), a_copy("other"), namespaces=[*listed, "other"])
    grown(engine, lambda: None)

    assert deleted(engine) == ["other"]


def test_what_a_namespace_does_not_accept_any_more_goes_at_the_end_of_a_large_plan() -> None:
    accepting = [a_namespace(name, annotations={ACCEPT: HOME}) for name in numbered(0, MANY)]
    engine = EngineHarness(a_source(), *accepting, a_copy("other"), namespaces=["other"], registry=CONSENT)
    grown(engine, lambda: None)

    assert deleted(engine) == ["other"]


def test_what_is_accepted_again_while_the_large_plan_of_a_mistyped_source_grows_stays() -> None:
    listed = numbered(0, 2 * CHUNK - 1)  # with the copy that is to go two whole pieces, and the end comes after them
    accepting = [a_namespace(name, annotations={ACCEPT: "team"}) for name in listed]
    asks = {sync_to.SYNC_TO: "namespaces", sync_to.SYNC_TO_NAMESPACES: ";".join([*listed, "Bad_Name"])}
    source = an_object(at("team", "db"), annotations=asks, content=secret("one"))
    ours = frozenset({ManagedKey(FIELD_MANAGER, "annotations", sync_to.FROM)})
    left = an_object(at("other", "db"), annotations={sync_to.FROM: "team/db"}, managed_keys=ours, known_copy=True)
    registry = Registry((sync_to.source_type((SECRET,), lambda where, words: dict(words), consent=True),))
    key = Key("sync-to", source.ref)

    engine = EngineHarness(source, left, *accepting, namespaces=["team", "other"], registry=registry)
    again = a_namespace("other", 2, annotations={ACCEPT: "team"})
    grown(engine, lambda: engine.cache.put(again), 2, key)
    assert deleted(engine) == []
    engine = EngineHarness(source, left, *accepting, namespaces=["team", "other"], registry=registry)
    grown(engine, lambda: None, 2, key)
    assert deleted(engine) == ["other"]


@pytest.mark.parametrize("withdrawn", [False, True])
def test_a_source_that_changes_faster_than_it_is_copied_reaches_every_namespace(withdrawn: bool) -> None:
    accepting = [a_namespace(name, annotations={ACCEPT: HOME}) for name in numbered(0, MANY)]
    refusing = (a_namespace("a"), a_copy("a")) if withdrawn else ()  # a removal that waits for the end of the plan
    engine = EngineHarness(a_source(), *refusing, *accepting, registry=CONSENT)
    written: set[str] = set()
    for version in range(2, 6):
        engine.cache.put(a_source(version=version))
        engine.enqueue(a_key())
        engine.plan(a_key())
        engine.finish_chunked()
        for _ in range(MANY // 3):
            write = engine.outbox.take()
            assert write is not None
            engine.outbox.done(write)
            engine.finish(write)
            written.add(write.ref.namespace)
        engine.outbox.clear(a_key())
    assert written >= set(numbered(0, MANY))


def test_what_a_namespace_accepts_again_while_a_large_plan_grows_stays() -> None:
    accepting = [a_namespace(name, annotations={ACCEPT: HOME}) for name in numbered(0, MANY)]
    copy = a_copy("other")
    engine = EngineHarness(a_source(), copy, *accepting, namespaces=["other"], registry=CONSENT)
    grown(engine, lambda: engine.cache.put(a_namespace("other", 2, annotations={ACCEPT: HOME})))

    assert deleted(engine) == []


def test_what_is_paused_between_the_steps_and_the_end_of_a_large_plan_is_not_removed() -> None:
    listed, others = numbered(0, 2 * CHUNK), numbered(2 * CHUNK, 3 * CHUNK + 10)
    source = a_source(targets=",".join(listed))
    engine = EngineHarness(source, *map(a_copy, others), namespaces=[*listed, *others])
    paused = a_namespace(others[0], 2, annotations={PAUSED: "true"})
    grown(engine, lambda: engine.cache.put(paused), after=3)

    assert sorted(deleted(engine)) == others[1:]


def test_namespaces_that_went_while_a_large_plan_grew_leave_the_tally() -> None:
    engine = EngineHarness(a_source(), namespaces=numbered(0, MANY))

    def go() -> None:
        for name in (numbered(0, MANY)[0], numbered(0, MANY)[-1]):
            engine.cache.remove(namespace_ref(name))

    grown(engine, go)

    tally = engine.tallies[a_key()]
    assert (tally.wanted, tally.pending, tally.blocked) == (MANY - 2, MANY - 2, 0)


def test_the_figures_of_a_large_source_do_not_dip_while_it_is_planned_again() -> None:
    engine = EngineHarness(a_source(), namespaces=numbered(0, MANY))
    grown(engine, lambda: None)
    for name in numbered(0, MANY):
        engine.tallies[a_key()].mark_in_sync(at(name, "db"))
    engine.plan(a_key())
    engine.continue_chunked()

    assert engine.tallies[a_key()].wanted == MANY
    assert engine.tallies[a_key()].in_sync == MANY - CHUNK


TREES = Registry((toys.propagation(SECRET),))
IN_TREE = a_key(namespace="top", source_type="accurate")


def child(name: str, version: int = 1, of: str = "top") -> Object:
    return a_namespace(name, version, labels={PARENT: of})


def a_large_tree() -> EngineHarness:
    source = an_object(at("top", "db"), annotations={PROPAGATE: UPDATE}, content=secret("one"))
    spaces = [a_namespace("top"), a_namespace("elsewhere"), *map(child, numbered(0, MANY))]
    return EngineHarness(*spaces, source, registry=TREES)


def test_a_slice_decides_for_its_namespace_from_then_on_also_where_a_large_plan_grows() -> None:
    engine, (first, *_, last) = a_large_tree(), numbered(0, MANY)

    def move() -> None:
        for name in (first, last):
            engine.cache.put(child(name, 2, of="elsewhere"))
            engine.plan(IN_TREE.in_namespace(name))

    grown(engine, move, key=IN_TREE)

    assert {write.ref.namespace for write in engine.sent()} == {*numbered(1, MANY - 1)}
    assert engine.tallies[IN_TREE].wanted == MANY - 2


def test_a_removal_that_a_slice_has_planned_still_counts_among_those_of_a_large_plan() -> None:
    names, others = numbered(0, MANY), numbered(MANY, MANY + 3)
    source = a_source(targets=",".join(names))
    engine = EngineHarness(
        source,
        *map(a_copy, others),
        namespaces=[*names, *others],
        holds=MassDeleteGuard(MassDeleteLimit(2, 0.1), 600.0, Clock()),
    )
    grown(engine, lambda: engine.plan(a_key().in_namespace(others[0])))

    assert engine.holds.held[a_key()].count == 3


def test_places_that_are_not_wanted_any_more_at_the_end_of_a_large_plan_are_looked_at_again() -> None:
    engine, (first, *_, last) = a_large_tree(), numbered(0, MANY)

    def move() -> None:
        for name in (first, last):
            engine.cache.put(child(name, 2, of="elsewhere"))

    grown(engine, move, key=IN_TREE)

    assert set(engine.requeued()) == {IN_TREE.in_namespace(first), IN_TREE.in_namespace(last)}


def test_a_namespace_that_leaves_while_its_copy_is_on_the_way_is_looked_at_again() -> None:
    source = an_object(at("top", "db"), annotations={PROPAGATE: UPDATE}, content=secret("one"))
    engine = EngineHarness(a_namespace("top"), a_namespace("elsewhere"), child("a"), source, registry=TREES)
    engine.plan(IN_TREE)
    write = engine.outbox.take()
    assert isinstance(write, Create)
    engine.observe(child("a", 2, of="elsewhere"))
    engine.work()
    engine.finish(write)

    assert engine.requeued() == [IN_TREE.in_namespace("a")]


# what comes in


@pytest.mark.parametrize("came", [True, False])
def test_a_quota_that_comes_changes_or_goes_frees_what_waits_in_its_namespace(came: bool) -> None:
    engine = EngineHarness(a_source(), namespaces=["a", "b"])
    for namespace in ("a", "b"):
        engine.retry.note(create(namespace), Result(Outcome.REFUSED, "quota"))
    quota = Ref(QUOTA, "a", "compute")
    if came:
        engine.quota_changed(quota)
    else:
        engine.deliver(Change(quota, None, None))

    assert engine.requeued() == [a_key().in_namespace("a")]
    freed, waiting = (engine.retry.of(create(each)) for each in ("a", "b"))
    assert freed is not None
    assert waiting is not None
    assert freed.until <= engine.clock() < waiting.until


def test_many_ticks_of_a_quota_are_one_more_try_per_second() -> None:
    engine = EngineHarness(a_source(), namespaces=["a"])
    engine.retry.note(create("a"), Result(Outcome.REFUSED, "quota"))
    engine.quota_changed(Ref(QUOTA, "a", "compute"))
    assert engine.requeued() == [a_key().in_namespace("a")]
    for _ in range(50):
        engine.quota_changed(Ref(QUOTA, "a", "compute"))

    assert engine.requeued() == []
    assert engine.queue.next_due() == 1.0


def test_who_only_observes_counts_and_writes_nothing() -> None:
    engine = EngineHarness(a_source(), namespaces=["a", "b"], observing=True)
    engine.resync()
    engine.work()

    assert len(engine.outbox) == 0
    assert (engine.tallies[a_key()].wanted, engine.tallies[a_key()].pending) == (2, 2)
    assert engine.synced


def test_what_is_paused_while_the_brake_holds_it_is_held_when_the_pause_ends() -> None:
    places = numbered(0, 8)
    holds = MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, Clock())
    engine = EngineHarness(a_source(targets="x"), *map(a_copy, places), namespaces=places, holds=holds)
    engine.plan(a_key())
    assert holds.held[a_key()].count == 8
    for version, word in ((2, "true"), (3, "false")):
        for name in places:
            engine.cache.put(a_namespace(name, version, annotations={PAUSED: word}))
            engine.plan(a_key().in_namespace(name))
        engine.plan(a_key())
        assert holds.held[a_key()].count == 8
    assert deleted(engine) == []


def test_what_was_held_before_a_restart_and_could_not_be_planned_yet_is_not_forgotten() -> None:
    """Something had to be read for its plan, and the server could not tell."""
    holds = MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, Clock())
    holds.remembered = {str(a_key()), str(a_key("gone"))}
    engine = EngineHarness(a_source(), namespaces=["a"], holds=holds)

    assert engine.synced
    assert holds.remembered == {str(a_key())}


def test_while_a_write_is_to_be_tried_again_not_everything_is_written() -> None:
    engine = EngineHarness(a_source(), a_copy("a", content=secret("one")), namespaces=["a"])
    engine.retry.note(create("a"), Result(Outcome.FAILED, "out of reach"))
    assert not engine.synced
    engine.retry.forget(a_key(), at("a", "db"))
    assert engine.synced


def test_a_copy_whose_namespace_is_gone_is_made_again_without_a_fight() -> None:
    """The copy goes first, while its Namespace still looks alive; then the Namespace goes, and comes again."""
    engine = EngineHarness(a_source(targets="a"), namespaces=["a"])
    drift, copy = engine.drift, a_copy("a")
    for _ in range(10):
        drift.observe_edit(Change(copy.ref, copy, None), engine.registry.owner, engine.cache)
        engine.cache.remove(namespace_ref("a"))
        engine.plan(a_key())
        assert engine.tallies[a_key()].blocked == 1
        engine.cache.put(a_namespace("a"))
        engine.plan(a_key())
        (write,) = engine.sent()
        assert drift.record_repair(write) is None


# what is forgotten


def held() -> EngineHarness:
    """Ten copies of a source that is gone: the brake holds their removal."""
    names = numbered(0, 10)
    engine = EngineHarness(
        *map(a_copy, names),
        namespaces=names,
        holds=MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, Clock()),
        gone_after=0.0,
    )
    engine.plan(a_key())
    assert engine.holds.held[a_key()].count == 10
    return engine


@pytest.mark.parametrize("forged", [False, True])
def test_a_copy_that_somebody_removes_or_disguises_does_not_end_the_hold_of_the_others(forged: bool) -> None:
    engine = held()
    name = numbered(0, 1)[0]
    if forged:
        engine.cache.put(replace(a_copy(name, version=2), managed_keys=frozenset()))
    else:
        engine.cache.remove(at(name, "db"))
    engine.plan(a_key().in_namespace(name))

    assert engine.holds.held[a_key()].refs == {at(each, "db") for each in numbered(1, 10)}
    assert engine.sent() == []


def test_nothing_is_left_of_a_source_whose_last_copy_is_removed() -> None:
    names = numbered(0, 3)
    engine = EngineHarness(
        *map(a_copy, names),
        namespaces=names,
        holds=MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, Clock()),
        gone_after=0,
    )
    engine.plan(a_key())
    queued = []
    for write in engine.sent():
        assert isinstance(write, Delete)
        engine.cache.remove_deleted(write.live)
        engine.finish(write)
        queued.append(engine.requeued())

    assert queued == [[], [], [a_key()]]
    assert engine.tallies
    assert engine.grace_periods
    assert engine.holds._by_source
    engine.plan(a_key())
    assert (engine.tallies, engine.grace_periods, engine.holds._by_source) == ({}, set(), {})


REFUSED = Result(Outcome.REFUSED, "quota")


def waiting(engine: EngineHarness) -> set[str]:
    """The namespaces in which something waits to be tried again."""
    return set(engine.retry._by_namespace)


def test_nothing_waits_in_a_namespace_that_is_gone_and_whoever_waited_is_planned_again() -> None:
    engine = EngineHarness(a_source(targets="b"), namespaces=["a", "b"])
    for namespace in ("a", "b"):
        engine.retry.note(create(namespace), REFUSED)
    engine.deliver(engine.cache.remove(namespace_ref("a")))

    assert waiting(engine) == {"b"}
    assert engine.requeued() == [a_key().in_namespace("a")]


def test_a_namespace_that_only_changes_keeps_the_count_of_what_was_refused_there() -> None:
    engine = EngineHarness(a_source(), namespaces=["a"])
    engine.retry.note(create("a"), REFUSED)
    engine.observe(a_namespace("a", 2, labels={"team": "red"}))

    assert waiting(engine) == {"a"}


def test_a_plan_that_finds_no_namespace_forgets_what_waited_there() -> None:
    """An answer may come after the end of its namespace was told."""
    engine = EngineHarness(a_source(targets="a"))
    engine.retry.note(create("a"), REFUSED)
    for _ in range(2):
        engine.flaps.record_removal(at("a", "db"), a_source(targets="a"))
    engine.flaps.remaining(at("a", "db"), a_source(targets="a"))
    engine.plan(a_key())

    assert (waiting(engine), engine.flaps._due) == (set(), {})


def test_what_is_refused_in_a_namespace_that_is_gone_already_is_not_kept() -> None:
    engine = EngineHarness(a_source(targets="b"), namespaces=["b"])
    for namespace in ("a", "b"):
        engine.finish(create(namespace), REFUSED)

    assert waiting(engine) == {"b"}


def test_what_is_refused_on_an_object_without_a_namespace_waits() -> None:
    engine = EngineHarness(a_source())
    kind = Kind("example.com", "v1", "Wide", "wides", namespaced=False)
    wide = an_object(Ref(kind, "", "all"))
    engine.finish(SetFinalizer(a_key(), wide.ref, wide, "finalizer", add=True, why=""), REFUSED)

    assert waiting(engine) == {"all"}


def test_nothing_waits_for_a_source_of_which_nothing_is_left() -> None:
    engine = EngineHarness(namespaces=["a"])
    engine.retry.note(create("a"), REFUSED)
    engine.retry.note(create("a", a_key("other")), REFUSED)
    engine.plan(a_key())

    assert engine.retry._by_source.keys() == {a_key("other").source}


def test_a_copy_that_is_there_again_does_not_go_by_an_old_time() -> None:
    source = a_source(targets="a")
    engine = EngineHarness(source, namespaces=["a"])
    flaps, write = engine.flaps, create("a")
    for _ in range(2):
        flaps.record_removal(write.ref, source)
    flaps.remaining(write.ref, source)
    engine.finish(write)

    assert flaps.remaining(write.ref, source) == PATIENCE
    engine.clock.now += PATIENCE + 1
    engine.finish(write)
    assert flaps.remaining(write.ref, source) == PATIENCE


def writes_counted(engine: EngineHarness) -> dict[tuple[str, str, str], float]:
    samples = (sample for family in engine.metrics.registry.collect() for sample in family.samples)
    return {
        (sample.labels["vocabulary"], sample.labels["verb"], sample.labels["result"]): sample.value
        for sample in samples
        if sample.name == "samara_writes_total"
    }


def test_what_a_dry_run_has_spared_is_right_and_is_told_and_counted_nowhere() -> None:
    engine = EngineHarness(a_source(targets="a"), a_copy("a", content=secret("old")), namespaces=["a"])
    engine.plan(a_key())
    (write,) = engine.sent()
    engine.finish(write, Result(Outcome.DONE, version=1, spared=True))
    tally = engine.tallies[a_key()]
    assert (tally.in_sync, tally.last_written) == (1, "")
    assert writes_counted(engine) == {}

    engine.finish(write, Result(Outcome.DONE, version=2))
    assert tally.last_written
    assert writes_counted(engine) == {("secret-copy", "update", "done"): 1}


def test_what_was_spared_lets_go_what_waited_for_it() -> None:
    ask = an_object(Ref(fishysecret.FISHY_SECRET, "team", "db"), finalizers=(fishysecret.FINALIZER,))
    marks = {fishysecret.OWNER_NAME: "db", fishysecret.OWNER_NAMESPACE: "team"}
    ours = frozenset(ManagedKey(FIELD_MANAGER, "labels", mark) for mark in marks)
    made = [an_object(at(name, "db"), labels=marks, managed_keys=ours, known_copy=True) for name in ("old", "new")]
    registry = Registry((fishysecret.source_type(toys.options()),))
    engine = EngineHarness(ask, *made, namespaces=["team", "old", "new"], registry=registry)
    key = Key(fishysecret.NAME, ask.ref)
    assert engine.cache.count(key) == 2
    write = Update(key, made[1].ref, Copy(made[1].ref, Template(secret("one"))), made[1], "")
    engine.finish(write, Result(Outcome.DONE, version=1, spared=True))
    assert engine.requeued() == [key]


def test_a_source_that_is_there_is_not_planned_again_for_a_removal() -> None:
    engine = EngineHarness(a_source(targets="b"), a_copy("a"), namespaces=["a"])
    engine.plan(a_key())
    (write,) = engine.sent()
    assert isinstance(write, Delete)
    engine.cache.remove_deleted(write.live)
    engine.finish(write)

    assert engine.requeued() == []


# with a server


class Real(Clock):
    def __call__(self) -> float:
        return time.monotonic()


def test_a_namespace_that_fails_for_ever_does_not_keep_the_rest_from_being_in_sync() -> None:
    async def run() -> None:
        async with (
            serving(refuses(500), refuses(404, "NotFound")) as script,
            Client(access(script), may_write=unrestricted) as client,
        ):
            script.answers = [
                refuses(500),
                refuses(404, "NotFound"),
            ] * 50  # every write fails, every look finds nothing
            engine = EngineHarness(a_source(targets="a"), namespaces=["a"], clock=Real(), client=client)
            running = asyncio.create_task(engine.run())
            await script.until(lambda: engine.synced or running.done())
            assert engine.synced
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def test_the_registry_of_these_tests_has_right_copies() -> None:
    """A copy that were never right would hide that it is wrongly deleted."""
    content = secret("one").pick("type", "data")
    copy = replace(a_copy("a", content=content), labels={secret_copy.FROM: "admin-db"})
    engine = EngineHarness(a_source(), copy, namespaces=["a"], registry=a_registry())
    engine.plan(a_key())

    assert engine.sent() == []
    assert engine.tallies[a_key()].in_sync == 1


# chains


def a_chain() -> tuple[list[Object], Object, Object]:
    """Three namespaces, and the copies in the lower two; the source above is gone, or asks no more."""
    ours = frozenset({ManagedKey(FIELD_MANAGER, "annotations", FROM)})
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


def test_the_end_of_a_copy_that_we_deleted_goes_on_at_once_also_where_its_echo_is_faster_than_the_answer() -> None:
    spaces, first, second = a_chain()
    engine = EngineHarness(*spaces, first, second, registry=TREES, clock=(clock := Clock()))
    engine.plan(IN_TREE)
    clock.now += 3.0
    engine.plan(IN_TREE)
    assert isinstance(engine.outbox.take(), Delete)
    engine.deliver(engine.cache.remove(first.ref))
    engine.work()
    assert deleted(engine) == ["leaf"]


def test_what_hung_on_a_copy_that_we_have_given_back_goes_when_the_answer_comes() -> None:
    """Its echo is no news any more, and what it is now is nobody's source."""
    spaces, first, second = a_chain()
    engine = EngineHarness(*spaces, first, second, registry=TREES)
    engine.answered(engine.cache.put(replace(first, resource_version=2, annotations={RELEASED: "true"})))
    engine.work()
    assert deleted(engine) == ["leaf"]


# namespace trees


def in_a_tree(namespace: str, version: int, value: str, above: str = "") -> Object:
    """A Secret that is handed down, or a copy of it."""
    words = {PROPAGATE: UPDATE, **({FROM: above} if above else {})}
    ours = frozenset({ManagedKey(FIELD_MANAGER, "annotations", FROM)} if above else ())
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


def planned(engine: EngineHarness) -> list[Write]:
    """All that is queued now is planned; what is to be sent for it."""
    engine.work()
    return engine.sent()


def refused_for_long(engine: EngineHarness, key: Key) -> None:
    """The server has refused what a key writes so often that it is not tried again for minutes."""
    for _ in range(8):
        engine.clock.now += 1000.0
        engine.plan(key)
        (write,) = engine.sent()
        engine.retry.note(write, Result(Outcome.REFUSED, "denied"))


def a_tree(*more: Object, team: str = "one") -> EngineHarness:
    """r ─ n ─ c"""
    spaces = (
        a_namespace("r", labels={TYPE: ROOT, "team": team}),
        a_namespace("n", labels={PARENT: "r"}),
        a_namespace("c", labels={PARENT: "n"}),
    )
    return EngineHarness(*spaces, *more, registry=trees())


def test_what_was_refused_deep_in_a_tree_is_tried_at_once_when_its_source_is_mended_above() -> None:
    engine = a_tree(in_a_tree("r", 1, "bad"), in_a_tree("n", 2, "bad", "r"))
    refused_for_long(engine, Key("accurate", at("n", "s")))
    engine.observe(in_a_tree("r", 10, "good"))
    (hop,) = planned(engine)
    assert hop.ref == at("n", "s")

    engine.answered(engine.cache.put(in_a_tree("n", 11, "good", "r")))
    assert [write.ref for write in planned(engine)] == [at("c", "s")]


def test_what_a_namespace_was_refused_to_inherit_is_tried_at_once_when_the_one_above_changes() -> None:
    engine = a_tree(team="bad")
    refused_for_long(engine, Key("accurate:tree", namespace_ref("n")))
    engine.observe(a_namespace("r", 9, labels={TYPE: ROOT, "team": "good"}))
    assert namespace_ref("n") in [write.ref for write in planned(engine)]


def test_a_look_that_is_ahead_of_the_watch_queues_all_whom_the_change_concerns() -> None:
    """The namespace was moved while our own write to it was on its way; the watch has no news of it after that."""
    engine = a_tree(in_a_tree("r", 1, "one"), in_a_tree("n", 2, "one", "r"))
    engine.cache.put(a_namespace("q", labels={TYPE: ROOT}))
    engine.fetched(engine.cache.put(a_namespace("n", 9, labels={PARENT: "q"})), 0.1)
    assert engine.requeued() == []
    engine.clock.now += 0.2
    queued = set(engine.requeued())
    assert Key("accurate", at("r", "s"), "n") in queued
    assert Key("accurate:tree", namespace_ref("n")) in queued


def test_our_own_delete_of_which_no_answer_came_is_nobodys_interference() -> None:
    engine = EngineHarness(a_source(targets="b"), a_copy("a"), namespaces=["a", "b"])
    engine.fetched(engine.cache.remove_deleted(a_copy("a")), 0.0)
    assert engine.drift.record_repair(create("a")) is None
