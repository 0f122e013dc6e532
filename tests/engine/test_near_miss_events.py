"""Events about near misses: one on each object, merged with its other problems, and few at a time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.test_event_recorder import AGAIN, Stage, blocked, on_stage
from tests.support.samples import a_key, a_namespace, a_source, an_object
from tests.support.world import at, secret

from samara.core.copy_counts import CopyCounts
from samara.core.desired import Desired, Fault
from samara.core.metadata_keys import PAUSED
from samara.core.model import Object
from samara.core.writes import Blocked, Step
from samara.engine import events
from samara.engine.events import ABSENT_AFTER
from samara.vocabularies.secret_copy import TARGETS

NO_NAMESPACE = "NoNamespace"
MISSED = at("shop", "own")
MESSAGE = f"{TARGETS}: in namespace shop; expected namespace admin, the home namespace: elsewhere this key does nothing"


def missed(version: int = 1, annotations: dict[str, str] | None = None, name: str = "own") -> Object:
    """A Secret that requests copies outside of the home namespace."""
    words = {TARGETS: "a"} if annotations is None else annotations
    return an_object(at("shop", name), version, annotations=words, content=secret("one"), uid=f"uid of {name}")


def observe(stage: Stage, *objects: Object) -> None:
    for obj in objects:
        stage.cache.put(obj)
    stage.recorder.note_observed(obj.ref for obj in objects)


def waiting(*namespaces: str) -> CopyCounts:
    """The counts of a source whose copies wait for namespaces."""
    counts = CopyCounts()
    for name in namespaces:
        message = f"namespace {name} does not exist yet"
        counts.count(Step(at(name, "db"), Blocked(a_key(), at(name, "db"), "no-namespace", message), "no-namespace"))
    return counts


def test_a_near_miss_is_one_warning_on_its_object_which_the_cache_does_not_keep() -> None:
    async def scenario(stage: Stage) -> None:
        observe(stage, missed())
        await stage.flush()
        (event,) = stage.events()
        assert (event["type"], event["reason"], event["message"]) == ("Warning", "Invalid", MESSAGE)
        about = event["involvedObject"]
        assert (about["namespace"], about["name"], about["uid"]) == ("shop", "own", "uid of own")
        assert stage.cache.get(MISSED) is None
        assert stage.cache.exists_unread(MISSED)

    on_stage(scenario)


def test_a_near_miss_at_rest_is_said_again_only_after_half_an_hour() -> None:
    async def scenario(stage: Stage) -> None:
        observe(stage, missed())
        await stage.flush()
        observe(stage, missed(2))
        stage.recorder.note_observed(stage.cache.with_near_misses())
        await stage.flush()
        assert stage.requests() == 1
        stage.clock.now += AGAIN
        await stage.flush()
        assert stage.summaries() == [("Invalid", MESSAGE, 2)]

    on_stage(scenario)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_near_miss_that_was_mended_is_not_said_again_and_a_new_one_is_said_at_once(is_deleted: bool) -> None:
    async def scenario(stage: Stage) -> None:
        observe(stage, missed())
        await stage.flush()
        if is_deleted:
            stage.cache.remove(MISSED)
            stage.recorder.note_observed((MISSED,))
        else:
            observe(stage, missed(2, {}))
        stage.clock.now += AGAIN
        await stage.flush()
        assert stage.requests() == 1
        observe(stage, missed(3))
        await stage.flush()
        assert stage.summaries() == [("Invalid", MESSAGE, 2)]

    on_stage(scenario)


def test_near_misses_and_faults_of_a_source_are_one_event() -> None:
    async def scenario(stage: Stage) -> None:
        annotations = {TARGETS: "Bad_Name", "secret-copy/namespace": "a"}
        observe(stage, an_object(a_key().source, 2, annotations=annotations, uid="u1"))
        stage.recorder.record_plan(a_key(), Desired(faults=(Fault("Invalid", "bad name"),)), CopyCounts(), None)
        await stage.flush()
        message = f"bad name; secret-copy/namespace: an unknown key; expected {TARGETS}"
        assert stage.summaries() == [("Invalid", message, 1)]

    on_stage(scenario)


def test_the_controls_and_the_misspelt_keys_of_a_namespace_are_one_event() -> None:
    async def scenario(stage: Stage) -> None:
        annotations = {"samara.dev/paused": "yes", "samara.dev/ignored": "true"}
        observe(stage, a_namespace("shop", annotations=annotations))
        await stage.flush()
        ((reason, message, _),) = stage.summaries()
        assert reason == "Invalid"
        assert "samara.dev/paused: 'yes'" in message
        assert "expected samara.dev/ignore" in message

    on_stage(scenario)


def test_a_near_miss_in_a_paused_namespace_is_reported_when_the_pause_ends() -> None:
    async def scenario(stage: Stage) -> None:
        paused, resumed = a_namespace("shop", annotations={PAUSED: "true"}), a_namespace("shop", 2)
        stage.cache.put(paused)
        observe(stage, missed())
        await stage.flush()
        assert stage.requests() == 0
        change = stage.cache.put(resumed)
        assert change is not None
        stage.recorder.note_change(change)
        await stage.flush()
        assert stage.summaries() == [("Invalid", MESSAGE, 1)]

    on_stage(scenario)


def test_near_misses_of_thousands_are_reported_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_NEAR_MISSES_AT_ONCE", 3)

    async def scenario(stage: Stage) -> None:
        observe(stage, *(missed(name=f"db-{number}") for number in range(7)))
        for expected in (3, 6, 7, 7):
            await stage.flush()
            assert stage.requests() == expected

    on_stage(scenario)


def test_only_so_many_objects_have_an_event_for_near_misses_until_one_is_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "_MOST_NEAR_MISSES", 2)

    async def scenario(stage: Stage) -> None:
        observe(stage, *(missed(name=name) for name in "abc"))
        await stage.flush()
        assert [event["involvedObject"]["name"] for event in stage.events()] == ["a", "b"]
        observe(stage, missed(2, {}, name="a"))
        stage.recorder.note_observed(stage.cache.with_near_misses())
        await stage.flush()
        await stage.flush()
        assert [event["involvedObject"]["name"] for event in stage.events()] == ["a", "b", "c"]

    on_stage(scenario)


def test_the_near_miss_of_a_source_with_another_problem_is_always_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_MOST_NEAR_MISSES", 0)

    async def scenario(stage: Stage) -> None:
        observe(stage, a_source(version=2, uid="u1"), missed())
        stage.cache.put(an_object(a_key().source, 3, annotations={TARGETS: "", f"{TARGETS}s": ""}, uid="u1"))
        stage.recorder.record_plan(a_key(), Desired(), blocked(["a"]), None)
        await stage.flush()
        assert sorted(reason for reason, _, _ in stage.summaries()) == ["Conflict", "Invalid"]

    on_stage(scenario)


# Namespaces that do not exist


def test_a_listed_namespace_that_does_not_exist_is_one_warning_after_a_minute() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.record_plan(a_key(), Desired(), waiting("shpo"), None)
        await stage.flush()
        stage.clock.now += ABSENT_AFTER - 1.0
        await stage.flush()
        assert stage.requests() == 0
        for _ in range(3):
            stage.clock.now += ABSENT_AFTER
            await stage.flush()
        text = "no copies in 1 namespace: shpo; no such namespace exists: create it, or take its name off the source"
        assert stage.summaries() == [("Invalid", text, 1)]
        stage.clock.now += AGAIN
        await stage.flush()
        assert stage.summaries() == [("Invalid", text, 2)]

    on_stage(scenario)


def test_the_warning_about_a_namespace_ends_when_it_exists() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.record_plan(a_key(), Desired(), waiting("a", "b"), None)
        await stage.flush()
        stage.clock.now += ABSENT_AFTER
        await stage.flush()
        stage.cache.put(a_namespace("a"))
        stage.recorder.record_plan(a_key(), Desired(), waiting("b"), None)
        await stage.flush()
        assert "1 namespace: b;" in stage.summaries()[0][1]
        stage.cache.put(a_namespace("b"))
        stage.recorder.record_plan(a_key(), Desired(), CopyCounts(), None)
        stage.clock.now += AGAIN
        await stage.flush()
        assert stage.summaries()[0][2] == 2

    on_stage(scenario)


def test_a_namespace_that_is_being_deleted_exists() -> None:
    async def scenario(stage: Stage) -> None:
        stage.cache.put(a_namespace("going", deleting=True))
        for _ in range(3):
            stage.recorder.record_plan(a_key(), Desired(), waiting("going"), None)
            await stage.flush()
            stage.clock.now += ABSENT_AFTER
        assert stage.requests() == 0

    on_stage(scenario)


@pytest.mark.parametrize(("reason", "expected"), [(NO_NAMESPACE, [NO_NAMESPACE]), ("Invalid", ["Invalid"])])
def test_a_source_type_that_reports_missing_namespaces_itself_has_no_second_event(
    reason: Any, expected: list[str]
) -> None:
    async def scenario(stage: Stage) -> None:
        for _ in range(2):
            stage.recorder.record_plan(a_key(), Desired(faults=(Fault(reason, "faulty"),)), waiting("shpo"), None)
            await stage.flush()
            stage.clock.now += ABSENT_AFTER
        assert [reason for reason, _, _ in stage.summaries()] == expected
        assert ("shpo" in stage.summaries()[0][1]) == (reason != NO_NAMESPACE)

    on_stage(scenario)
