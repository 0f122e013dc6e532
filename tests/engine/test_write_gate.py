"""Which planned writes reach the outbox at once, and for how many seconds the others wait."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.samples import Clock, a_cache, a_copy, a_key, a_namespace, a_source, an_access, create
from tests.support.world import secret

from samara.core.copy_counts import CopyCounts
from samara.core.desired import Copy, Template
from samara.core.writes import SetFinalizer, Update, Write
from samara.engine.event_sink import EventSink
from samara.engine.events import EventRecorder
from samara.engine.limiter import ConcurrencyLimiter
from samara.engine.limits import MAX_REPAIRS, WINDOW, DriftLimiter
from samara.engine.outbox import Outbox
from samara.engine.retry import RetryBackoff
from samara.engine.write_gate import WriteGate
from samara.engine.writer import Ending, Result
from samara.kube.cache import Change
from samara.kube.client import Client, unrestricted


class Stage:
    """A gate, and what it reads and fills."""

    def __init__(self, *, observe: bool = False) -> None:
        self.clock = clock = Clock()
        self.cache = a_cache()
        self.cache.put(a_namespace("a"))
        self.outbox = Outbox(clock, ConcurrencyLimiter(16, 0.0, clock))
        self.retry, self.drift = RetryBackoff(900.0, clock), DriftLimiter(clock)
        client = Client(an_access(), may_write=unrestricted)
        events = EventRecorder(EventSink(client, clock), self.cache, clock)
        self.gate = WriteGate(self.outbox, self.retry, self.drift, events, clock, observe=observe)
        self.counts = CopyCounts(names={"a": ("db",)})

    def offer(self, write: Write) -> float | None:
        return self.gate.offer(write, self.counts, urgent=False)

    def edit_and_repair(self, write: Update) -> None:
        """Another client changes the copy, and we restore it."""
        self.edit(write)
        self.drift.record_repair(write)

    def edit(self, write: Update) -> None:
        change = Change(write.ref, write.live, replace(write.live, resource_version=2, last_manager="kubectl"))
        self.drift.observe_edit(change, self.cache.registry.owner, self.cache)


def repair() -> Update:
    have = a_copy("a")
    return Update(a_key(), have.ref, Copy(have.ref, Template(secret("one"))), have, "differs from its source")


def test_a_write_that_need_not_wait_is_put_into_the_outbox() -> None:
    stage = Stage()
    assert stage.offer(create("a")) is None
    assert stage.outbox.take() == create("a")


def test_while_observing_no_write_is_put_into_the_outbox() -> None:
    stage = Stage(observe=True)
    assert stage.offer(create("a")) is None
    assert len(stage.outbox) == 0


def test_a_refused_write_waits_for_its_backoff_and_is_reported_meanwhile() -> None:
    stage = Stage()
    delay = stage.retry.note(create("a"), Result(Ending.REFUSED, "exceeded quota"))
    assert stage.offer(create("a")) == pytest.approx(delay)
    assert len(stage.outbox) == 0
    assert list(stage.counts.by_reason()) == ["refused"]
    stage.clock.now += delay
    assert stage.offer(create("a")) is None
    assert len(stage.outbox) == 1
    assert list(stage.counts.by_reason()) == ["refused"]


def test_a_copy_that_another_client_keeps_changing_waits_and_is_reported() -> None:
    stage = Stage()
    for _ in range(MAX_REPAIRS):
        stage.edit_and_repair(repair())
    stage.edit(repair())
    assert stage.offer(repair()) == pytest.approx(WINDOW)
    assert len(stage.outbox) == 0
    assert list(stage.counts.by_reason()) == ["fought"]


def test_a_finalizer_stays_while_a_write_of_its_source_is_in_flight() -> None:
    stage = Stage()
    source = a_source()
    remove = SetFinalizer(a_key(), source.ref, source, "toys.dev/guard", add=False, why="it is being deleted")
    stage.outbox.lock(create("a"))
    assert stage.offer(remove) is None
    assert len(stage.outbox) == 0
    assert stage.offer(replace(remove, add=True)) is None
    assert len(stage.outbox) == 1


def test_after_a_plan_with_nothing_to_write_the_backoff_is_over() -> None:
    stage = Stage()
    stage.retry.note(create("a"), Result(Ending.REFUSED, "exceeded quota"))
    stage.gate.note_settled(a_key(), create("a").ref)
    assert stage.offer(create("a")) is None
    assert len(stage.outbox) == 1
