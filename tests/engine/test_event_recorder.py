"""One Event per source and reason, merged, and not repeated before its time."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.kube.scripted import Script, Store, access, cuts, refuses, serving
from tests.support import toys
from tests.support.caches import a_plain_cache
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
    delete,
    deletes,
    numbered,
)
from tests.support.toys import a_sync_to
from tests.support.world import at, secret

from samara.core.copy_counts import CopyCounts
from samara.core.desired import Copy, Desired, Fault, Template
from samara.core.mass_delete import MassDeleteLimit
from samara.core.metadata_keys import PAUSED
from samara.core.model import SECRET, Key, Object, namespace_ref
from samara.core.registry import Registry
from samara.core.source_type import SourceType, Status
from samara.core.writes import Blocked, Step, Update
from samara.engine.event_sink import KEY, NAMESPACE_COUNT, NAMESPACES, EventSink, Namespaces
from samara.engine.events import EventRecorder
from samara.engine.mass_delete import MassDeleteGuard
from samara.kube.client import OUR_WRITES, Client, unrestricted
from samara.vocabularies import secret_copy, sync_to
from samara.vocabularies.accurate.labels import CREATE, FROM, PARENT, PROPAGATE, UPDATE

AGAIN = 1800.0
OTHER = a_key(source_type="sync-to")

Scenario = Callable[["Stage"], Awaitable[None]]


class Stage:
    """A recorder with its sink, a cache with one source, and the Events that were sent."""

    def __init__(self, client: Client, store: Store, script: Script) -> None:
        self.clock = Clock()
        self.script, self.store = script, store
        self.cache = a_plain_cache(a_registry())
        self.cache.put(a_namespace("admin"))
        self.cache.put(a_source(uid="u1"))
        self.sink = EventSink(client, self.clock)
        self.recorder = EventRecorder(self.sink, self.cache, self.clock)

    async def flush(self) -> None:
        """What the recorder does once a second."""
        await self.recorder.flush()

    def events(self) -> list[dict[str, Any]]:
        return list(self.store.objects.values())

    def summaries(self) -> list[tuple[str, str, int]]:
        return [(event["reason"], event["message"], event["count"]) for event in self.events()]

    def requests(self) -> int:
        return len(self.script.seen)


def on_stage(scenario: Scenario) -> None:
    async def run() -> None:
        store = Store()
        async with serving(store) as script, Client(access(script), may_write=unrestricted) as client:
            await scenario(Stage(client, store, script))

    asyncio.run(run())


def blocked(namespaces: list[str], reason: Any = "conflict", message: str = "somebody's") -> CopyCounts:
    tally = CopyCounts()
    for name in namespaces:
        ref = at(name, "db")
        tally.count(Step(ref, Blocked(a_key(), ref, reason, message), "foreign"))
    return tally


def advising(source_type: SourceType, advice: str) -> SourceType:
    """A source type with advice about a conflict."""
    return replace(source_type, status=Status(lambda obj, view, tally: {}, advice={"conflict": advice}))


def test_many_copies_are_one_event_with_a_count_and_a_sample() -> None:
    async def scenario(stage: Stage) -> None:
        for name in numbered(0, 100):
            stage.recorder.report_write(create(name))
        await stage.flush()
        sample = "ns-00000, ns-00001, ns-00002 and 97 more"
        assert stage.summaries() == [("Copied", f"copied in 100 namespaces: {sample}", 100)]
        assert stage.requests() == 1

    on_stage(scenario)


def test_annotations_name_the_key_and_the_namespaces_for_programs() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.report_write(create("b"))
        stage.recorder.report_write(create("a"))
        await stage.flush()
        assert annotated(stage) == ('["a", "b"]', "2", "secret-copy/Secret/admin/db")
        stage.recorder.report_write(create("c"))
        await stage.flush()
        assert annotated(stage) == ('["c"]', "1", "secret-copy/Secret/admin/db")

    on_stage(scenario)


def test_annotations_name_a_hundred_namespaces_and_the_number_of_all() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.record_plan(a_key(), Desired(), blocked(numbered(0, 150)), None)
        await stage.flush()
        namespaces, count, _ = annotated(stage)
        assert (json.loads(namespaces), count) == (numbered(0, 100), "150")

    on_stage(scenario)


def test_annotations_name_every_key_that_an_event_is_about() -> None:
    async def scenario(stage: Stage) -> None:
        with_two_vocabularies(stage)
        stage.recorder.record_plan(a_key(), Desired(), blocked(["a"]), None)
        stage.recorder.record_plan(OTHER, Desired(), blocked(["b"]), None)
        await stage.flush()
        keys = "secret-copy/Secret/admin/db,sync-to/Secret/admin/db"
        assert annotated(stage) == ('["a", "b"]', "2", keys)

    on_stage(scenario)


def test_an_event_without_namespaces_says_so_in_its_annotations() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.record_plan(a_key(), Desired(faults=(Fault("Invalid", "no list"),)), CopyCounts(), None)
        await stage.flush()
        assert annotated(stage)[:2] == ("[]", "0")

    on_stage(scenario)


def annotated(stage: Stage) -> tuple[str, str, str]:
    """The annotations of the only Event."""
    (event,) = stage.events()
    annotations = event["metadata"]["annotations"]
    return annotations[NAMESPACES], annotations[NAMESPACE_COUNT], annotations[KEY]


def test_an_event_is_about_the_source_and_in_its_namespace() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.report_write(create("a"))
        await stage.flush()
        (event,) = stage.events()
        about = {"apiVersion": "v1", "kind": "Secret", "namespace": "admin", "name": "db", "uid": "u1"}
        assert event["involvedObject"] == about
        assert (event["type"], event["reportingComponent"], event["message"]) == (
            "Normal",
            "samara",
            "copied in 1 namespace: a",
        )
        (seen,) = stage.script.seen
        assert (seen.path, seen.query) == ("/api/v1/namespaces/admin/events", OUR_WRITES)

    on_stage(scenario)


def test_no_event_is_written_in_a_paused_namespace_and_lasting_problems_are_reported_after_the_pause() -> None:
    async def scenario(stage: Stage) -> None:
        stage.cache.put(a_namespace("admin", 2, annotations={PAUSED: "true"}))
        stage.recorder.report_write(create("a"))
        stage.recorder.record_plan(a_key(), Desired(), blocked(["b"]), None)
        await stage.flush()
        assert stage.requests() == 0
        stage.cache.put(a_namespace("admin", 3))
        stage.recorder.record_plan(a_key(), Desired(), blocked(["b"]), None)
        await stage.flush()
        assert stage.summaries() == [("Conflict", "somebody's in 1 namespace: b", 1)]

    on_stage(scenario)


def test_later_copies_join_the_same_event() -> None:
    async def scenario(stage: Stage) -> None:
        for name in ("a", "b"):
            stage.recorder.report_write(create(name))
            await stage.flush()
        assert stage.summaries() == [("Copied", "copied in 1 namespace: b", 2)]
        assert [request.method for request in stage.script.seen] == ["POST", "POST", "PATCH"]

    on_stage(scenario)


def test_each_reason_has_an_event_of_its_own() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.report_write(create("a"))
        stage.recorder.report_write(delete("b"))
        await stage.flush()
        assert sorted(reason for reason, _, _ in stage.summaries()) == ["Copied", "Removed"]

    on_stage(scenario)


def test_a_problem_is_reported_once_and_again_after_half_an_hour() -> None:
    async def scenario(stage: Stage) -> None:
        for _ in range(4):
            stage.recorder.record_plan(a_key(), Desired(), blocked(["a", "b"]), None)
            await stage.flush()
            stage.clock.now += AGAIN / 3 - 1
        assert stage.summaries() == [("Conflict", "somebody's in 2 namespaces: a, b", 1)]
        stage.clock.now += 10.0
        stage.recorder.record_plan(a_key(), Desired(), blocked(["a", "b"]), None)
        await stage.flush()
        assert stage.summaries() == [("Conflict", "somebody's in 2 namespaces: a, b", 2)]
        assert stage.events()[0]["type"] == "Warning"

    on_stage(scenario)


def test_a_lasting_problem_is_reported_every_half_hour_without_a_plan() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.record_plan(a_key(), Desired(), blocked(["a"]), None)
        counts = []
        for _ in range(7):
            await stage.flush()
            counts.append(stage.summaries()[0][2])
            stage.clock.now += AGAIN / 2
        assert counts == [1, 1, 2, 2, 3, 3, 4]

    on_stage(scenario)


def test_a_problem_that_ended_without_a_plan_is_not_reported_again() -> None:
    async def scenario(stage: Stage) -> None:
        tally = blocked(["a"], "refused")
        stage.recorder.recheck(a_key(), tally)
        await stage.flush()
        tally.mark_in_sync(at("a", "db"))
        stage.clock.now += AGAIN
        await stage.flush()
        assert stage.summaries() == [("Refused", "somebody's in 1 namespace: a", 1)]

    on_stage(scenario)


def test_a_problem_of_a_write_to_no_copy_is_not_repeated() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.report_blocked(create("a"), "Refused", "no")
        await stage.flush()
        stage.clock.now += AGAIN
        await stage.flush()
        assert stage.summaries() == [("Refused", "no in 1 namespace: a", 1)]

    on_stage(scenario)


def test_a_problem_that_returns_is_reported_again() -> None:
    async def scenario(stage: Stage) -> None:
        for tally in (blocked(["a"]), CopyCounts(), blocked(["a"])):
            stage.recorder.record_plan(a_key(), Desired(), tally, None)
            await stage.flush()
        assert stage.summaries() == [("Conflict", "somebody's in 1 namespace: a", 2)]

    on_stage(scenario)


def test_a_recreated_source_has_an_event_of_its_own() -> None:
    async def scenario(stage: Stage) -> None:
        for version, uid in ((1, "u1"), (2, "u2")):
            stage.cache.put(a_source(version=version, uid=uid))
            stage.recorder.record_plan(a_key(), Desired(), blocked(["a"]), None)
            await stage.flush()
        assert [(event["involvedObject"]["uid"], event["count"]) for event in stage.events()] == [("u1", 1), ("u2", 1)]

    on_stage(scenario)


def test_a_changed_problem_is_reported_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        for names in (["a"], ["a"], ["a", "b"]):
            stage.recorder.record_plan(a_key(), Desired(), blocked(names), None)
            await stage.flush()
        assert stage.summaries() == [("Conflict", "somebody's in 2 namespaces: a, b", 2)]

    on_stage(scenario)


@pytest.mark.parametrize(
    ("reason", "event_reason"),
    [("conflict", "Conflict"), ("refused", "Refused"), ("not-accepted", "NotAccepted"), ("fought", "Fought")],
)
def test_each_reason_has_its_event_name(reason: str, event_reason: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.record_plan(a_key(), Desired(), blocked(["a"], reason), None)
        await stage.flush()
        assert [event[0] for event in stage.summaries()] == [event_reason]

    on_stage(scenario)


def test_refused_removals_are_reported_with_refused_copies() -> None:
    async def scenario(stage: Stage) -> None:
        tally = blocked(["a"], "refused", "a webhook fails")
        tally.mark_not_removed(at("b", "db"), "refused", "a webhook fails")
        tally.mark_held({at("c", "db")})
        stage.recorder.recheck(a_key(), tally)
        await stage.flush()
        assert stage.summaries() == [("Refused", "a webhook fails in 2 namespaces: a, b", 1)]

    on_stage(scenario)


def test_an_event_ends_with_the_advice_of_the_vocabulary() -> None:
    async def scenario(stage: Stage) -> None:
        (source_type,) = stage.cache.registry.source_types
        stage.recorder = EventRecorder(
            stage.sink, a_plain_cache(Registry((advising(source_type, "rename it"),))), stage.clock
        )
        stage.recorder.recheck(a_key(), blocked(["a", "b"]))
        await stage.flush()
        assert stage.summaries() == [("Conflict", "somebody's in 2 namespaces: a, b; rename it", 1)]

    on_stage(scenario)


def test_a_namespace_that_does_not_exist_yet_is_not_reported() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.record_plan(a_key(), Desired(), blocked(["a"], "no-namespace"), None)
        await stage.flush()
        assert stage.requests() == 0

    on_stage(scenario)


def test_a_fault_of_the_source_is_reported_until_a_plan_of_the_source_lacks_it() -> None:
    async def scenario(stage: Stage) -> None:
        fault = Desired(faults=(Fault("Invalid", "names what cannot be a namespace"),))
        stage.recorder.record_plan(a_key(), fault, CopyCounts(), None)
        stage.recorder.record_plan(a_key().in_namespace("a"), Desired(), CopyCounts(), None)
        await stage.flush()
        assert stage.summaries() == [("Invalid", "names what cannot be a namespace", 1)]
        stage.clock.now += AGAIN + 1
        stage.recorder.record_plan(a_key(), Desired(), CopyCounts(), None)
        await stage.flush()
        assert stage.summaries() == [("Invalid", "names what cannot be a namespace", 1)]

    on_stage(scenario)


def test_a_hold_of_a_deleted_source_is_reported_on_its_namespace() -> None:
    async def scenario(stage: Stage) -> None:
        holds = MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, stage.clock)
        holds.check(a_key(), deletes(numbered(0, 8)), 10, 10)
        stage.cache.remove(a_key().source)
        stage.recorder.record_plan(a_key(), Desired(), CopyCounts(), holds.held[a_key()])
        await stage.flush()
        (event,) = stage.events()
        assert event["reason"] == "Held"
        assert event["message"].startswith(
            "8 removals are held by the brake; `samara release secret-copy/Secret/admin/db` lets them go on in 8"
        )
        assert event["involvedObject"]["name"] == "admin"
        assert event["metadata"]["namespace"] == "default"

    on_stage(scenario)


def test_a_hold_of_a_former_source_is_reported_on_that_object() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.report_write(create("a"))
        await stage.flush()
        stage.cache.put(an_object(a_key().source, 2, uid="u1"))  # without its annotation
        assert stage.cache.get(a_key().source) is None
        holds = MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, stage.clock)
        holds.check(a_key(), deletes(numbered(0, 8)), 10, 10)
        stage.recorder.record_plan(a_key(), Desired(), CopyCounts(), holds.held[a_key()])
        stage.recorder.report_write(delete("a"))
        await stage.flush()
        about = {"apiVersion": "v1", "kind": "Secret", "namespace": "admin", "name": "db", "uid": "u1"}
        objects = {event["reason"]: event["involvedObject"] for event in stage.events()}
        assert objects == {"Copied": about, "Held": about, "Removed": about}

    on_stage(scenario)


def test_another_problem_of_a_source_does_not_repeat_its_hold() -> None:
    async def scenario(stage: Stage) -> None:
        holds = MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, stage.clock)
        holds.check(a_key(), deletes(numbered(0, 8)), 10, 10)
        for _ in range(2):
            stage.recorder.record_plan(a_key(), Desired(), CopyCounts(), holds.held[a_key()])
            await stage.flush()
            stage.recorder.recheck(a_key(), blocked(["a"], "refused"))
            await stage.flush()
        assert [event[2] for event in stage.summaries() if event[0] == "Held"] == [1]

    on_stage(scenario)


def test_a_hold_does_not_hide_that_a_namespace_is_paused() -> None:
    async def scenario(stage: Stage) -> None:
        holds = MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, stage.clock)
        holds.check(a_key(), deletes(numbered(0, 8)), 10, 10)
        stage.recorder.record_plan(a_key(), Desired(), blocked(["a"], "held", "it is paused"), holds.held[a_key()])
        await stage.flush()
        ((_, message, _),) = stage.summaries()
        assert message.startswith("it is paused; 8 removals are held by the brake; ")
        assert "together in 9 namespaces: a, ns-00000, ns-00001 and 6 more" in message

    on_stage(scenario)


def test_a_reverted_edit_is_reported_on_the_copy() -> None:
    async def scenario(stage: Stage) -> None:
        stage.cache.put(a_copy("a"))
        stage.recorder.report_reverted(create("a"), "kubectl-edit")
        await stage.flush()
        (event,) = stage.events()
        assert event["message"] == "put back to what Secret admin/db says after kubectl-edit changed it"
        assert event["metadata"]["namespace"] == "a"

    on_stage(scenario)


def in_tree(namespace: str, mode: str = UPDATE, of: str = "") -> Object:
    """An object of a tree: the first source, or a copy that we made from the namespace above."""
    annotations = {PROPAGATE: mode, **({FROM: of} if of else {})}
    return an_object(at(namespace, "db"), annotations=annotations, known_copy=bool(of), content=secret("one"))


def a_tree(stage: Stage, *objects: Object, **parents: str) -> None:
    """Namespaces with their parents, and what is in them."""
    stage.cache = a_plain_cache(Registry((toys.propagation(SECRET),)))
    spaces = [a_namespace(name, labels={PARENT: parent} if parent else {}) for name, parent in parents.items()]
    for obj in (*spaces, *objects):
        stage.cache.put(obj)
    stage.recorder = EventRecorder(stage.sink, stage.cache, stage.clock)


def below(namespace: str) -> Key:
    return a_key(namespace=namespace, source_type="accurate")


@pytest.mark.parametrize("mode", [CREATE, UPDATE])
def test_a_chain_is_reported_on_its_first_source(mode: str) -> None:
    async def scenario(stage: Stage) -> None:
        chain = in_tree("top", mode), in_tree("web", mode, of="top"), in_tree("deep", mode, of="web")
        a_tree(stage, *chain, top="", web="top", deep="web", deeper="deep")
        stage.recorder.report_write(create("deeper", below("deep")))
        stage.recorder.report_write(create("deep", below("web")))
        await stage.flush()
        (event,) = stage.events()
        assert (event["involvedObject"]["namespace"], event["count"]) == ("top", 2)
        assert event["message"] == "copied in 2 namespaces: deep, deeper"

    on_stage(scenario)


@pytest.mark.parametrize(
    "parents",
    [{"web": "top", "deep": "web"}, {"web": "deep", "deep": "web"}],
    ids=["the first source is not there", "the chain goes round"],
)
def test_a_chain_without_a_first_source_is_not_reported(parents: dict[str, str]) -> None:
    async def scenario(stage: Stage) -> None:
        chain = in_tree("web", of=parents["web"]), in_tree("deep", of="web")
        a_tree(stage, *chain, top="", **parents)
        stage.recorder.report_write(create("deeper", below("deep")))
        await stage.flush()
        assert stage.events() == []

    on_stage(scenario)


def test_events_of_a_chain_are_on_a_create_copy_once_its_source_is_gone() -> None:
    async def scenario(stage: Stage) -> None:
        a_tree(stage, in_tree("web", CREATE, of="top"), top="", web="top", deep="web")
        stage.recorder.report_write(create("deep", below("web")))
        await stage.flush()
        (event,) = stage.events()
        assert event["involvedObject"]["namespace"] == "web"

    on_stage(scenario)


def test_a_reverted_edit_is_reported_even_if_the_copy_is_a_source() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.report_reverted(create(HOME), "kubectl-edit")
        stage.recorder.report_write(
            Update(a_key(), at("a", "db"), Copy(at("a", "db"), Template(secret("one"))), a_copy("a"), "differs")
        )
        await stage.flush()
        assert sorted(stage.summaries()) == [
            ("Updated", "put back to what Secret admin/db says after kubectl-edit changed it", 1),
            ("Updated", "put right in 1 namespace: a", 1),
        ]

    on_stage(scenario)


def test_an_event_that_cannot_be_sent_is_dropped() -> None:
    async def run() -> None:
        async with (
            serving(refuses(403, "Forbidden"), cuts) as script,
            Client(access(script), may_write=unrestricted) as client,
        ):
            stage = Stage(client, Store(), script)
            for name in ("a", "b"):
                stage.recorder.report_write(create(name))
                await stage.flush()
            assert len(script.seen) == 2

    asyncio.run(run())


def test_no_event_is_sent_while_observing() -> None:
    async def run() -> None:
        async with serving(Store()) as script, Client(access(script), may_write=unrestricted) as client:
            sink = EventSink(client, Clock(), silent=True)
            sink.add(namespace_ref("a"), "Copied", [a_key()], Namespaces({"a"}), "copied")
            await sink.flush()
            assert script.seen == []

    asyncio.run(run())


def test_a_very_long_message_is_cut_to_the_servers_limit() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.record_plan(a_key(), Desired(faults=(Fault("Invalid", "x" * 5000),)), CopyCounts(), None)
        await stage.flush()
        assert len(stage.events()[0]["message"]) <= 1024

    on_stage(scenario)


def test_an_old_event_is_forgotten_and_reported_as_new() -> None:
    async def scenario(stage: Stage) -> None:
        for tally in (blocked(["a"]), CopyCounts()):
            stage.recorder.record_plan(a_key(), Desired(), tally, None)
            await stage.flush()
        stage.clock.now += 2 * AGAIN + 1
        await stage.flush()
        stage.store.objects.clear()
        stage.recorder.record_plan(a_key(), Desired(), blocked(["a"]), None)
        await stage.flush()
        assert stage.summaries() == [("Conflict", "somebody's in 1 namespace: a", 1)]

    on_stage(scenario)


def test_a_copy_without_values_is_explained_by_the_fault_of_the_read() -> None:
    async def scenario(stage: Stage) -> None:
        tally = blocked(["a"], "invalid", "what should be here is not known")
        want = Desired(faults=(Fault("FetchError", "the store does not answer"),))
        stage.recorder.record_plan(a_key(), want, tally, None)
        await stage.flush()
        assert stage.summaries() == [("FetchError", "the store does not answer", 1)]

    on_stage(scenario)


def test_several_faults_of_one_reason_are_one_event_that_is_not_repeated_within_half_an_hour() -> None:
    async def scenario(stage: Stage) -> None:
        faults = (Fault("Invalid", "the name is illegal"), Fault("Invalid", "the selector does not parse"))
        for _ in range(3):
            stage.recorder.record_plan(a_key(), Desired(faults=faults), CopyCounts(), None)
            await stage.flush()
        assert stage.summaries() == [("Invalid", "the name is illegal; the selector does not parse", 1)]

    on_stage(scenario)


def mixed(*tallies: CopyCounts) -> CopyCounts:
    """Merges several counts of one source."""
    names = {name: entries for tally in tallies for name, entries in tally.names.items()}
    return CopyCounts(names, {name: entries for tally in tallies for name, entries in tally.not_in_sync.items()})


def test_different_messages_are_reported_in_a_stable_order() -> None:
    async def scenario(stage: Stage) -> None:
        one, other = blocked(["a", "c"], message="somebody's"), blocked(["b"], message="that of another")
        for both in (mixed(one, other), mixed(other, one)):
            stage.recorder.record_plan(a_key(), Desired(), both, None)
            await stage.flush()
        text = "somebody's; that of another; together in 3 namespaces: a, b, c"
        assert stage.summaries() == [("Conflict", text, 1)]

    on_stage(scenario)


def test_messages_that_differ_only_in_the_namespace_are_merged() -> None:
    async def scenario(stage: Stage) -> None:
        names = ("prot-1", "prot-2")
        tally = mixed(*(blocked([name], "refused", f"namespace {name} is protected") for name in names))
        stage.recorder.record_plan(a_key(), Desired(), tally, None)
        await stage.flush()
        text = "namespace prot-1 is protected in 2 namespaces: prot-1, prot-2"
        assert stage.summaries() == [("Refused", text, 1)]

    on_stage(scenario)


def test_an_event_shows_the_first_messages_and_that_there_are_others() -> None:
    async def scenario(stage: Stage) -> None:
        tally = mixed(*(blocked([f"n{number}"], "refused", f"no. {number}0") for number in range(1, 6)))
        stage.recorder.record_plan(a_key(), Desired(), tally, None)
        await stage.flush()
        text = "no. 10; no. 20; no. 30; and others; together in 5 namespaces: n1, n2, n3 and 2 more"
        assert stage.summaries() == [("Refused", text, 1)]

    on_stage(scenario)


# Under `tenancy: strict`

TENANTS = Key("sync-to", at("team", "db"))
CONSENT = "namespace {} does not accept team/db: samara.dev/accept-from must name team"


def with_a_tenant(stage: Stage, **requests: str) -> None:
    """A source of a tenant, to whom messages are discreet."""
    stage.cache = a_plain_cache(Registry((a_sync_to(consent=True, is_discreet=True),)))
    stage.cache.put(a_namespace("team"))
    stage.cache.put(an_object(TENANTS.source, annotations=requests))
    stage.recorder = EventRecorder(stage.sink, stage.cache, stage.clock)


def not_accepted(*names: str) -> CopyCounts:
    return mixed(*(blocked([name], "not-accepted", CONSENT.format(name)) for name in names))


def test_under_strict_tenancy_an_event_counts_the_namespaces_that_the_source_does_not_name() -> None:
    async def scenario(stage: Stage) -> None:
        with_a_tenant(stage, **{sync_to.SYNC_TO: "cluster"})
        for name in ("secret-a", "secret-b"):
            stage.recorder.report_write(create(name, TENANTS))
        stage.recorder.record_plan(TENANTS, Desired(), not_accepted("secret-c", "secret-d"), None)
        await stage.flush()
        copied, refused = sorted(stage.events(), key=lambda event: str(event["reason"]))
        assert (copied["message"], copied["count"]) == ("copied in 2 namespaces", 2)
        assert refused["message"] == CONSENT.format("(not named)") + " in 2 namespaces"
        assert [event["metadata"]["annotations"][NAMESPACES] for event in (copied, refused)] == ["[]", "[]"]
        assert [event["metadata"]["annotations"][NAMESPACE_COUNT] for event in (copied, refused)] == ["2", "2"]
        assert "secret" not in json.dumps([{**event, "involvedObject": None} for event in (copied, refused)])

    on_stage(scenario)


def test_under_strict_tenancy_an_event_names_the_namespaces_that_the_source_lists() -> None:
    async def scenario(stage: Stage) -> None:
        with_a_tenant(stage, **{sync_to.SYNC_TO: "namespaces", sync_to.SYNC_TO_NAMESPACES: "a,b"})
        stage.recorder.record_plan(TENANTS, Desired(), not_accepted("a", "b"), None)
        stage.recorder.report_write(delete("secret-c", TENANTS))
        await stage.flush()
        refused, removed = sorted(stage.events(), key=lambda event: str(event["reason"]))
        assert refused["message"] == f"{CONSENT.format('a')}; {CONSENT.format('b')}; together in 2 namespaces: a, b"
        assert (removed["message"], removed["metadata"]["annotations"][NAMESPACES]) == ("removed in 1 namespace", "[]")

    on_stage(scenario)


def test_under_strict_tenancy_a_source_that_is_gone_names_no_namespace() -> None:
    async def scenario(stage: Stage) -> None:
        with_a_tenant(stage, **{sync_to.SYNC_TO: "cluster"})
        stage.cache.remove(TENANTS.source)
        stage.recorder.report_write(delete("secret-a", TENANTS))
        await stage.flush()
        assert [event["message"] for event in stage.events()] == ["removed in 1 namespace"]

    on_stage(scenario)


def with_two_vocabularies(stage: Stage) -> None:
    stage.cache = a_plain_cache(Registry((secret_copy.source_type(HOME), a_sync_to())))
    stage.cache.put(a_namespace(HOME))
    stage.cache.put(a_source(uid="u1"))
    stage.recorder = EventRecorder(stage.sink, stage.cache, stage.clock)


def test_problems_of_one_source_in_two_vocabularies_are_one_event_that_is_not_repeated_within_half_an_hour() -> None:
    async def scenario(stage: Stage) -> None:
        with_two_vocabularies(stage)
        theirs = mixed(blocked(["f4"]), blocked(["f5"], message="secret-copy has it"))
        for _ in range(3):
            stage.recorder.record_plan(a_key(), Desired(), blocked(["f3"]), None)
            await stage.flush()
            stage.recorder.record_plan(OTHER, Desired(), theirs, None)
            await stage.flush()
            stage.clock.now += AGAIN / 3 - 1
        text = "somebody's; secret-copy has it; together in 3 namespaces: f3, f4, f5"
        assert stage.summaries() == [("Conflict", text, 2)], "once for the first alone, and once for both"

    on_stage(scenario)


def test_a_problem_ends_when_it_has_ended_in_every_vocabulary_of_its_source() -> None:
    async def scenario(stage: Stage) -> None:
        with_two_vocabularies(stage)
        for mine in (blocked(["a"]), CopyCounts(), CopyCounts()):
            stage.recorder.record_plan(a_key(), Desired(), mine, None)
            stage.recorder.record_plan(OTHER, Desired(), blocked(["a"]), None)
            await stage.flush()
        assert stage.summaries() == [("Conflict", "somebody's in 1 namespace: a", 1)], "the other has it still"
        stage.recorder.record_plan(OTHER, Desired(), CopyCounts(), None)
        await stage.flush()
        stage.recorder.record_plan(OTHER, Desired(), blocked(["a"]), None)
        await stage.flush()
        assert stage.summaries() == [("Conflict", "somebody's in 1 namespace: a", 2)]

    on_stage(scenario)


def test_the_advice_of_two_vocabularies_is_in_one_event() -> None:
    async def scenario(stage: Stage) -> None:
        one, other = secret_copy.source_type(HOME), a_sync_to()
        advised = (advising(one, "rename it"), advising(other, "ask them"))
        stage.recorder = EventRecorder(stage.sink, a_plain_cache(Registry(advised)), stage.clock)
        stage.recorder.recheck(OTHER, blocked(["b"]))
        stage.recorder.recheck(a_key(), blocked(["a"]))
        await stage.flush()
        assert stage.summaries() == [("Conflict", "somebody's in 2 namespaces: a, b; rename it; ask them", 1)]

    on_stage(scenario)


def test_the_holds_of_several_deleted_sources_are_one_event_on_their_namespace() -> None:
    async def scenario(stage: Stage) -> None:
        holds = MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, stage.clock)
        stage.cache.remove(a_key().source)
        keys = [a_key("one"), a_key("two")]
        for key, names in zip(keys, (numbered(0, 8), numbered(8, 16)), strict=True):
            holds.check(key, deletes(names, key), 10, 10)
        for key in keys * 2:
            stage.recorder.record_plan(key, Desired(), CopyCounts(), holds.held[key])
            await stage.flush()
        ((reason, message, count),) = stage.summaries()
        assert (reason, count) == ("Held", 2), "once for the first alone, and once for both"
        assert "secret-copy/Secret/admin/one`" in message
        assert "secret-copy/Secret/admin/two`" in message
        assert "together in 16 namespaces" in message

    on_stage(scenario)


def test_the_problems_of_a_source_end_when_it_is_deleted() -> None:
    async def scenario(stage: Stage) -> None:
        for tally in (blocked(["a"]), CopyCounts(), blocked(["a"])):
            if tally.names:
                stage.cache.put(a_source(uid="u1"))
            else:
                stage.cache.remove(a_key().source)
            stage.recorder.record_plan(a_key(), Desired(), tally, None)
            await stage.flush()
        assert stage.summaries() == [("Conflict", "somebody's in 1 namespace: a", 2)]

    on_stage(scenario)


def test_the_count_of_an_event_continues_after_a_restart() -> None:
    async def scenario(stage: Stage) -> None:
        for name in numbered(0, 3):
            stage.recorder.report_write(create(name))
        await stage.flush()
        stage.sink = EventSink(stage.sink._client, stage.clock)
        stage.recorder = EventRecorder(stage.sink, stage.cache, stage.clock)
        for name in ("a", "b"):
            stage.recorder.report_write(create(name))
            await stage.flush()
        assert stage.summaries() == [("Copied", "copied in 1 namespace: b", 5)]

    on_stage(scenario)


def test_the_event_of_an_object_with_a_very_long_name_has_a_legal_name() -> None:
    async def scenario(stage: Stage) -> None:
        stage.sink.add(at("admin", f"{'x' * 219}-{'y' * 33}"), "Copied", [a_key()], Namespaces({"a"}), "copied")
        await stage.sink.flush()
        (event,) = stage.events()
        label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
        assert re.fullmatch(rf"{label}(\.{label})*", event["metadata"]["name"])

    on_stage(scenario)
