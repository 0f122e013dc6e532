"""The generation in a status, and that our own status writes cause no plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.engine.test_controller import MANY
from tests.support.controller import ControllerHarness
from tests.support.samples import HOME, a_key, a_source, create, numbered
from tests.support.world import a_field, at, secret

from samara.core.copy_counts import CopyCounts
from samara.core.model import Object
from samara.core.registry import Registry
from samara.core.source_type import Status
from samara.engine.writer import Ending, Result
from samara.vocabularies import secret_copy


def reported(obj: Object, view: object, tally: CopyCounts) -> dict[str, object]:
    return {"observedGeneration": obj.generation, "wanted": tally.wanted}


REGISTRY = Registry((replace(secret_copy.source_type(HOME), status=Status(reported)),))


def a_status(harness: ControllerHarness) -> dict[str, object]:
    """What would be reported now."""
    report = harness.status(a_key())
    assert report is not None
    assert report.live is harness.cache.get(report.ref), "conditional on what is there"
    return dict(report.status)


def planned_harness(targets: str, *namespaces: str) -> ControllerHarness:
    """An engine that has planned the first generation."""
    source = a_source(targets=targets, generation=1)
    harness = ControllerHarness(source, namespaces=namespaces, registry=REGISTRY)
    harness.plan(a_key())
    harness.finish_chunked()
    return harness


# the generation


def test_a_status_has_the_generation_that_was_planned() -> None:
    assert a_status(planned_harness("a", "a", "b")) == {"observedGeneration": 1, "wanted": 1}


def test_before_a_new_generation_is_planned_the_status_has_the_old_one() -> None:
    harness = planned_harness("a", "a", "b")
    harness.cache.put(a_source(targets="a,b", version=2, generation=2))
    assert a_status(harness) == {"observedGeneration": 1, "wanted": 1}
    harness.plan(a_key())
    assert a_status(harness) == {"observedGeneration": 2, "wanted": 2}


def test_a_plan_of_a_slice_does_not_change_the_generation_of_the_status() -> None:
    harness = planned_harness("a", "a", "b")
    harness.cache.put(a_source(targets="a,b", version=2, generation=2))
    harness.plan(a_key().in_namespace("b"))
    assert a_status(harness)["observedGeneration"] == 1


def test_a_large_plan_changes_the_generation_of_the_status_at_its_end() -> None:
    names = numbered(0, MANY)
    harness = planned_harness("", *names)
    harness.cache.put(a_source(version=2, generation=2))
    harness.plan(a_key())
    harness.continue_chunked()
    assert a_status(harness)["observedGeneration"] == 1
    harness.finish_chunked()
    assert a_status(harness)["observedGeneration"] == 2


def test_until_a_first_large_plan_ends_the_status_has_no_generation() -> None:
    """Otherwise a client that waits for the status would take the first part for everything."""
    harness = ControllerHarness(a_source(generation=3), namespaces=numbered(0, MANY), registry=REGISTRY)
    harness.plan(a_key())
    harness.continue_chunked()
    assert a_status(harness)["observedGeneration"] == 0
    harness.finish_chunked()
    assert a_status(harness) == {"observedGeneration": 3, "wanted": MANY}


def test_the_status_of_a_recreated_source_has_no_generation_before_its_first_plan() -> None:
    harness = planned_harness("a", "a")
    harness.cache.put(a_source(targets="", version=2, generation=1, uid="another"))
    assert a_status(harness)["observedGeneration"] == 0


def test_a_small_plan_of_the_same_source_ends_the_large_one() -> None:
    harness = ControllerHarness(a_source(generation=1), namespaces=numbered(0, MANY), registry=REGISTRY)
    harness.plan(a_key())
    harness.continue_chunked()
    harness.cache.put(a_source(targets=numbered(0, 1)[0], version=2, generation=2))
    harness.plan(a_key())
    assert not harness.is_chunked(a_key())
    assert a_status(harness) == {"observedGeneration": 2, "wanted": 1}


# our own status writes


def with_status(harness: ControllerHarness, **more: Any) -> Object:
    """The source as it is after its status was written."""
    now = harness.cache.get(at(HOME, "db"))
    assert now is not None
    given = {
        "resource_version": now.resource_version + 1,
        "status": a_field("status", {"wanted": 7}),
        "last_manager": "samara",
        **more,
    }
    return replace(now, **given)


def test_the_answer_to_a_status_write_causes_no_plan() -> None:
    harness = planned_harness("a", "a")
    harness.answered(harness.cache.put(with_status(harness)))
    assert not harness.requeued()


def test_a_status_change_from_the_watch_is_checked_without_a_plan() -> None:
    """Another client may have written it."""
    harness = planned_harness("a", "a")
    harness.forget_statuses()
    harness.observe(with_status(harness))
    assert not harness.requeued()
    assert harness.stale_statuses() == {a_key()}


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
    harness = planned_harness("a", "a")
    change = harness.cache.put(with_status(harness, **more))
    assert change is not None
    if watched:
        harness.deliver(change)
    else:
        harness.answered(change)
    assert harness.requeued()


def test_a_new_status_of_the_source_ends_no_backoff() -> None:
    harness = planned_harness("a", "a")
    harness.retry.note(create("a"), Result(Ending.REFUSED, "quota"))
    harness.observe(with_status(harness))
    assert harness.retry.state_of(create("a")) is not None
