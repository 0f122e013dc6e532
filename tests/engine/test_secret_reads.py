"""Sources subscribe to paths of the secret manager. Its values are planned and reported."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.secretstores.test_poller import Manager
from tests.support import toys
from tests.support.controller import ControllerHarness
from tests.support.samples import Clock, an_object
from tests.support.world import at, secret

from samara.core.copy_counts import CopyCounts
from samara.core.desired import UNAVAILABLE, Copy, Desired, Template
from samara.core.model import Key, Object, Ref
from samara.core.queries import UNREAD, ReadError, SecretPath, SecretReading
from samara.core.registry import Registry
from samara.core.source_type import Annotated, Policy, Protected, SourceType, Status
from samara.core.view import View
from samara.core.writes import Create, SetFinalizer, Update, WriteStatus
from samara.secretstores.base import Forbidden

EVERY = 300.0


def a_source_type() -> SourceType:
    """A Fetch wants one Secret with the values at its paths."""

    def desired(source: Ref, view: View) -> Desired:
        live = view.get(source)
        paths = live.annotations[toys.PATH].split() if live is not None else []
        reads = tuple(SecretPath(path, EVERY) for path in paths)
        readings = [view.answer(read) for read in reads]
        values = [
            reading.value for reading in readings if isinstance(reading, SecretReading) and reading.value is not None
        ]
        content = secret(b" ".join(values).decode()) if len(values) == len(readings) else UNAVAILABLE
        template = Template(content, annotations={toys.FETCHED: source.namespace})
        return Desired((Copy(at("a", source.name), template),), reads=reads)

    return replace(
        toys.fetch(),
        source=Annotated(frozenset({toys.PATH, toys.INTO}), lambda obj, view: obj.ref.kind == toys.FETCH),
        desired=desired,
        policy=Policy(Protected.BY_NAME),
        per_namespace=False,
    )


def a_source(name: str, paths: str, version: int = 1) -> Object:
    ref = Ref(toys.FETCH, "home", name)
    return an_object(ref, version, generation=version, annotations={toys.PATH: paths})


def key(name: str) -> Key:
    return Key("fetch", Ref(toys.FETCH, "home", name))


class Stage:
    """An engine with a secret manager whose documents the test sets."""

    def __init__(self, *sources: Object) -> None:
        self.clock = Clock()
        self.harness = ControllerHarness(
            *sources,
            namespaces=["home", "a"],
            registry=Registry((a_source_type(),)),
            clock=self.clock,
            reads_secrets={"fetch"},
        )
        assert self.harness.secrets is not None
        self.stores = self.harness.secrets
        self.manager = Manager()

    def subscribers(self) -> dict[str, set[str]]:
        return {
            path: {subscriber.source.name for subscriber in keys}
            for path, keys in self.stores.readings.subscribers.items()
        }

    def plan(self, name: str) -> None:
        self.harness.plan(key(name))

    def queued(self) -> list[Key]:
        return self.harness.requeued()

    async def read(self) -> None:
        """Reads everything that is due."""
        async with asyncio.TaskGroup() as group:
            if self.stores._store is None:
                await self.stores.use_store(self.manager, keep=True)
            for _ in range(5):
                self.stores.start_due(group)
                await asyncio.sleep(0)


def test_a_plan_subscribes_to_the_paths_of_its_source_and_waits_for_them() -> None:
    stage = Stage(a_source("f", "one two"))
    stage.plan("f")

    assert stage.subscribers() == {"one": {"f"}, "two": {"f"}}
    assert key("f") not in stage.harness.counts
    assert not len(stage.harness.outbox)
    assert stage.harness.pending_reads == 2


def test_values_that_were_read_are_planned_and_written() -> None:
    stage = Stage(a_source("f", "one two"))
    stage.plan("f")
    asyncio.run(stage.read())

    assert stage.queued() == [key("f")]
    stage.plan("f")
    write = stage.harness.outbox.take()
    assert isinstance(write, Create)
    assert write.copy.template.content == secret("whole whole")


def test_a_source_is_planned_when_its_path_cannot_be_read() -> None:
    stage = Stage(a_source("f", "one"))
    stage.plan("f")
    asyncio.run(stage.stores.fail(ReadError("TokenError", "no")))

    assert stage.queued() == [key("f")]
    stage.plan("f")
    assert key("f") in stage.harness.counts
    assert stage.harness.pending_reads == 0


def test_a_source_without_missing_paths_is_subscribed_too() -> None:
    stage = Stage(a_source("f", "one"), a_source("g", "one"))
    stage.plan("f")
    asyncio.run(stage.read())
    stage.plan("g")

    assert stage.subscribers() == {"one": {"f", "g"}}
    assert key("g") in stage.harness.counts  # it had its answer in the same plan
    assert stage.manager.reads == ["one"]


def test_a_source_that_names_other_paths_unsubscribes_from_the_old_ones() -> None:
    stage = Stage(a_source("f", "one"))
    stage.plan("f")
    stage.harness.cache.put(a_source("f", "two", version=2))
    stage.plan("f")

    assert stage.subscribers() == {"two": {"f"}}


def test_an_edited_source_reads_failed_paths_again() -> None:
    stage = Stage(a_source("f", "one"))
    stage.manager.documents = {"one": Forbidden("not yours")}
    stage.plan("f")
    asyncio.run(stage.read())
    stage.clock.now += 2
    stage.plan("f")
    asyncio.run(stage.read())
    assert stage.manager.reads == ["one"]
    stage.harness.cache.put(a_source("f", "one", version=2))
    stage.plan("f")
    asyncio.run(stage.read())
    assert stage.manager.reads == ["one", "one"]


def test_a_deleted_source_is_unsubscribed() -> None:
    stage = Stage(a_source("f", "one"), a_source("g", "one"))
    for name in ("f", "g"):
        stage.plan(name)
    stage.harness.cache.remove(key("f").source)
    stage.plan("f")
    assert stage.subscribers() == {"one": {"g"}}
    stage.harness.cache.remove(key("g").source)
    stage.harness.plan(key("g").in_namespace("a"))  # a plan of a slice unsubscribes too
    assert stage.subscribers() == {}


def test_sources_of_other_source_types_are_not_subscribed() -> None:
    stage = Stage(a_source("f", "one"))
    stage.stores.vocabularies = frozenset()
    stage.plan("f")

    assert stage.subscribers() == {}


def test_a_plan_sees_a_path_whatever_its_interval() -> None:
    stage = Stage(a_source("f", "one"))
    assert stage.harness.cache.answer(SecretPath("one", 1.0)) is UNREAD
    stage.plan("f")
    asyncio.run(stage.read())

    assert stage.harness.cache.answer(SecretPath("one", 7.0)) == SecretReading(b"whole", "now")


def test_the_engine_is_synced_once_every_path_has_an_answer() -> None:
    stage = Stage(a_source("f", "one"))
    stage.plan("f")
    assert not stage.harness.synced
    asyncio.run(stage.stores.fail(ReadError("TokenError", "no")))
    stage.queued()
    assert stage.harness.synced


def test_an_unchanged_refresh_updates_statuses_and_plans_nothing() -> None:
    stage = Stage(a_source("f", "one"), a_source("g", "one"))
    for name in ("f", "g"):
        stage.plan(name)
    asyncio.run(stage.read())
    stage.queued()
    stage.harness.forget_statuses()
    stage.stores._timings = replace(stage.stores._timings, now=lambda: "later")
    stage.clock.now += EVERY
    asyncio.run(stage.read())

    assert stage.manager.reads == ["one", "one"]
    assert stage.queued() == []
    assert stage.harness.stale_statuses() == {key("f"), key("g")}


# many sources


def slow(count: int, seconds: float) -> ControllerHarness:
    """Sources whose status is due. Computing each one takes this many seconds."""
    clock = Clock()

    def report(obj: Object, view: View, counts: CopyCounts) -> dict[str, object]:
        clock.now += seconds
        return {"seen": clock.now}

    sources = [a_source(f"f{number}", "p") for number in range(count)]
    registry = Registry((replace(toys.fetch(), status=Status(report)),))
    harness = ControllerHarness(*sources, namespaces=["home"], registry=registry, clock=clock)
    for source in sources:
        harness.counts[key(source.ref.name)] = CopyCounts()
        harness.statuses.mark_stale(key(source.ref.name))
    clock.now += 1.0
    return harness


def test_thousands_of_due_statuses_are_written_in_many_turns() -> None:
    """The secret manager was read again, and thousands of statuses change."""
    harness, turns, written = slow(1000, 0.001), 0, 0
    while harness.controller.work():
        turns += 1
        written += len(harness.sent())
    written += len(harness.sent())

    assert turns >= 100
    assert (written, harness.stale_statuses()) == (1000, set())


def test_a_status_touched_during_the_writes_of_others_is_written_again() -> None:
    harness, written = slow(2, 1.0), list[Key]()
    assert harness.controller.work()
    written += [write.key for write in harness.sent()]
    harness.statuses.mark_stale(written[0])
    for _ in range(3):
        harness.controller.work()
        harness.clock.now += 1.0
        written += [write.key for write in harness.sent()]

    assert set(written[:2]) == {key("f0"), key("f1")}
    assert written[2:] == [written[0]]


# when a copy was written


def test_the_counts_hold_the_time_of_the_last_written_copy() -> None:
    stage = Stage(a_source("f", "one"))
    stage.plan("f")
    asyncio.run(stage.read())
    stage.plan("f")
    counts = stage.harness.counts[key("f")]
    have, copy = an_object(at("a", "f")), Copy(at("a", "f"), Template(secret("one")))
    source = a_source("f", "one")
    for other in (
        SetFinalizer(key("f"), source.ref, source, "g", True, ""),
        WriteStatus(key("f"), source.ref, source, {}),
    ):
        stage.harness.finish(other)
        assert counts.last_written == ""
    for write in (Create(key("f"), copy.ref, copy), Update(key("f"), copy.ref, copy, have, "it differs")):
        counts.last_written = ""
        stage.harness.finish(write)
        assert counts.last_written.endswith("Z")
        assert len(counts.last_written) == len("2026-11-16T00:00:00Z")
