"""The generation in a status, and that our own status writes cause no plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.engine.test_controller import MANY
from tests.support.engine import EngineHarness
from tests.support.samples import HOME, a_key, a_source, create, numbered
from tests.support.world import a_field, at, secret

from samara.core.copy_counts import CopyCounts
from samara.core.model import Object
from samara.core.registry import Registry
from samara.core.source_type import Status
from samara.engine.apply import Ending, Result
from samara.vocabularies import secret_copy


def reported(obj: Object, view: object, tally: CopyCounts) -> dict[str, object]:
    return {"observedGeneration": obj.generation, "wanted": tally.wanted}


REGISTRY = Registry((replace(secret_copy.source_type(HOME), status=Status(reported)),))


def a_status(engine: EngineHarness) -> dict[str, object]:
    """What would be reported now."""
    report = engine.status(a_key())
    assert report is not None
    assert report.live is engine.cache.get(report.ref), "conditional on what is there"
    return dict(report.status)


def planned_engine(targets: str, *namespaces: str) -> EngineHarness:
    """An engine that has planned the first generation."""
    source = a_source(targets=targets, generation=1)
    engine = EngineHarness(source, namespaces=namespaces, registry=REGISTRY)
    engine.plan(a_key())
    engine.finish_chunked()
    return engine


# the generation


def test_a_status_has_the_generation_that_was_planned() -> None:
    assert a_status(planned_engine("a", "a", "b")) == {"observedGeneration": 1, "wanted": 1}


def test_before_a_new_generation_is_planned_the_status_has_the_old_one() -> None:
    engine = planned_engine("a", "a", "b")
    engine.cache.put(a_source(targets="a,b", version=2, generation=2))
    assert a_status(engine) == {"observedGeneration": 1, "wanted": 1}
    engine.plan(a_key())
    assert a_status(engine) == {"observedGeneration": 2, "wanted": 2}


def test_a_plan_of_a_slice_does_not_change_the_generation_of_the_status() -> None:
    engine = planned_engine("a", "a", "b")
    engine.cache.put(a_source(targets="a,b", version=2, generation=2))
    engine.plan(a_key().in_namespace("b"))
    assert a_status(engine)["observedGeneration"] == 1


def test_a_large_plan_changes_the_generation_of_the_status_at_its_end() -> None:
    names = numbered(0, MANY)
    engine = planned_engine("", *names)
    engine.cache.put(a_source(version=2, generation=2))
    engine.plan(a_key())
    engine.continue_chunked()
    assert a_status(engine)["observedGeneration"] == 1
    engine.finish_chunked()
    assert a_status(engine)["observedGeneration"] == 2


def test_until_a_first_large_plan_ends_the_status_has_no_generation() -> None:
    """Otherwise a client that waits for the status would take the first part for everything."""
    engine = EngineHarness(a_source(generation=3), namespaces=numbered(0, MANY), registry=REGISTRY)
    engine.plan(a_key())
    engine.continue_chunked()
    assert a_status(engine)["observedGeneration"] == 0
    engine.finish_chunked()
    assert a_status(engine) == {"observedGeneration": 3, "wanted": MANY}


def test_the_status_of_a_recreated_source_has_no_generation_before_its_first_plan() -> None:
    engine = planned_engine("a", "a")
    engine.cache.put(a_source(targets="", version=2, generation=1, uid="another"))
    assert a_status(engine)["observedGeneration"] == 0


def test_a_small_plan_of_the_same_source_ends_the_large_one() -> None:
    engine = EngineHarness(a_source(generation=1), namespaces=numbered(0, MANY), registry=REGISTRY)
    engine.plan(a_key())
    engine.continue_chunked()
    engine.cache.put(a_source(targets=numbered(0, 1)[0], version=2, generation=2))
    engine.plan(a_key())
    assert not engine.is_chunked(a_key())
    assert a_status(engine) == {"observedGeneration": 2, "wanted": 1}


# our own status writes


def with_status(engine: EngineHarness, **more: Any) -> Object:
    """The source as it is after its status was written."""
    now = engine.cache.get(at(HOME, "db"))
    assert now is not None
    given = {
        "resource_version": now.resource_version + 1,
        "status": a_field("status", {"wanted": 7}),
        "last_manager": "samara",
        **more,
    }
    return replace(now, **given)


def test_the_answer_to_a_status_write_causes_no_plan() -> None:
    engine = planned_engine("a", "a")
    engine.answered(engine.cache.put(with_status(engine)))
    assert not engine.requeued()


def test_a_status_change_from_the_watch_is_checked_without_a_plan() -> None:
    """Somebody else may have written it."""
    engine = planned_engine("a", "a")
    engine.forget_statuses()
    engine.observe(with_status(engine))
    assert not engine.requeued()
    assert engine.stale_statuses() == {a_key()}


@pytest.mark.parametrize(
    "more",
    [
        {"generation": 2},
        {"content": secret("two")},
        {"labels": {"l": "new"}},
        {"annotations": {secret_copy.TARGETS: "b"}},
        {"finalizers": ("g",)},
        {"deleting": True},
        {"uid": "another"},
    ],
)
@pytest.mark.parametrize("watched", [True, False])
def test_every_change_besides_the_status_is_planned(more: dict[str, Any], watched: bool) -> None:
    engine = planned_engine("a", "a")
    change = engine.cache.put(with_status(engine, **more))
    assert change is not None
    if watched:
        engine.deliver(change)
    else:
        engine.answered(change)
    assert engine.requeued()


def test_a_new_status_of_the_source_ends_no_backoff() -> None:
    engine = planned_engine("a", "a")
    engine.retry.note(create("a"), Result(Ending.REFUSED, "quota"))
    engine.observe(with_status(engine))
    assert engine.retry.state_of(create("a")) is not None
