"""A bug about one source stops nothing, delays no other source, and logs no value."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.controller import ControllerHarness
from tests.support.samples import HOME, a_key, a_source

from samara.core.desired import Desired
from samara.core.model import Ref
from samara.core.registry import Registry
from samara.core.view import View
from samara.engine.planner import CHUNK
from samara.engine.process import RETRY_AFTER_BUG
from samara.kube.cache import Change
from samara.vocabularies import secret_copy

CANARY = "canary-7f3a9"
SOUND = secret_copy.source_type(HOME)


def desired(source: Ref, view: View) -> Desired:
    if source.name == "odd":
        raise ValueError(CANARY)
    return SOUND.desired(source, view)


def test_a_plan_with_a_bug_is_contained_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry((replace(SOUND, desired=desired),))
    harness = ControllerHarness(a_source("odd", "a"), a_source("db", "a"), namespaces=["a"], registry=registry)
    harness.resync()
    harness.work()
    assert [write.ref.name for write in harness.sent()] == ["db"]
    assert harness.queue.next_due() == RETRY_AFTER_BUG
    (record,) = [record for record in caplog.records if record.getMessage() == "plan.failed"]
    assert (record.levelname, CANARY in str(record.__dict__)) == ("WARNING", False)
    assert getattr(record, "fields", {})["again_in"] == f"{RETRY_AFTER_BUG:g}s"


def test_a_large_plan_that_fails_half_way_is_begun_again_later() -> None:
    names = [f"n{number}" for number in range(2 * CHUNK)]
    harness = ControllerHarness(a_source("db", ",".join(names)), namespaces=names)
    harness.resync()
    harness.plan(a_key())
    harness.queue.take()
    harness.fail_next_chunk(a_key())
    harness.work()
    assert not harness.is_chunked(a_key())
    assert harness.queue.next_due() == RETRY_AFTER_BUG


def test_a_change_with_a_bug_does_not_block_other_changes(caplog: pytest.LogCaptureFixture) -> None:
    def affected_by(obj: object, view: View) -> tuple[Ref, ...]:
        raise ValueError(CANARY)

    harness = ControllerHarness(namespaces=["a"], registry=Registry((replace(SOUND, affected_by=affected_by),)))
    odd, sound = harness.cache.put(a_source("odd", "a")), harness.cache.put(a_source("db", "a"))
    assert odd is not None
    assert sound is not None
    harness.deliver(Change(odd.ref, None, odd.new), Change(sound.ref, None, None))
    assert a_key().source in {key.source for key in harness.requeued()}
    (record,) = [record for record in caplog.records if record.getMessage() == "plan.failed"]
    assert "again_in" not in getattr(record, "fields", {})
