"""The inbox of the controller: in order, with backpressure, and fair to planning."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.controller import ControllerHarness
from tests.support.samples import Clock, a_copy, a_key, a_namespace, a_source, create, numbered
from tests.support.world import at, secret

from samara.core.copy_counts import CopyCounts
from samara.core.model import SECRET, Key
from samara.core.writes import Create, Update
from samara.engine.controller import TIME_SLICE
from samara.engine.messages import CAPACITY, HoldsStored, Inbox
from samara.engine.writer import WriteDropped
from samara.kube.cache import Change
from samara.kube.reflector import Listed, Observed


def messages_of(count: int) -> list[HoldsStored]:
    return [HoldsStored([a_key(f"s{number}")]) for number in range(count)]


def an_open_inbox() -> Inbox:
    inbox = Inbox()
    inbox.open()
    return inbox


def test_messages_are_taken_in_the_order_in_which_they_were_posted() -> None:
    inbox, messages = an_open_inbox(), messages_of(5)
    for message in messages:
        inbox.post(message)

    assert [inbox.take() for _ in range(6)] == [*messages, None]


def test_a_closed_inbox_drops_messages_and_always_has_room() -> None:
    async def run() -> None:
        inbox = Inbox()
        for message in messages_of(2 * CAPACITY):
            inbox.post(message)
        async with asyncio.timeout(1):
            await inbox.wait_for_room()
        assert inbox.take() is None

    asyncio.run(run())


def test_a_reflector_waits_while_the_inbox_is_full_and_goes_on_when_one_message_is_taken() -> None:
    async def run() -> None:
        inbox = an_open_inbox()
        for message in messages_of(CAPACITY):
            inbox.post(message)
        waiting = asyncio.create_task(inbox.wait_for_room())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        inbox.take()
        async with asyncio.timeout(1):
            await waiting

    asyncio.run(run())


def test_a_message_ends_the_wait_of_the_controller() -> None:
    async def run() -> None:
        inbox = an_open_inbox()
        waiting = asyncio.create_task(inbox.wait(3600.0))
        await asyncio.sleep(0)
        inbox.post(Listed(SECRET))
        async with asyncio.timeout(1):
            await waiting
        assert inbox.take() == Listed(SECRET)

    asyncio.run(run())


def test_a_wait_ends_at_once_if_a_message_is_already_there() -> None:
    async def run() -> None:
        inbox = an_open_inbox()
        inbox.post(Listed(SECRET))
        async with asyncio.timeout(1):
            await inbox.wait(3600.0)

    asyncio.run(run())


class Ticking(Clock):
    """Every look at the clock costs a little time, as handling a message does."""

    def __call__(self) -> float:
        self.now += 0.0001
        return self.now


def test_twenty_thousand_events_do_not_keep_planning_waiting() -> None:
    harness = ControllerHarness(a_source(targets="a"), namespaces=["a"], clock=Ticking())
    harness.enqueue(a_key())
    stranger = a_namespace("elsewhere")
    for _ in range(20_000):
        harness.inbox.post(Observed([Change(stranger.ref, stranger, stranger)]))
    assert harness.controller.work()

    assert len(harness.inbox) > 19_000
    assert [type(write) for write in harness.sent()] == [Create]


def test_planning_does_not_keep_messages_waiting() -> None:
    names = numbered(0, 2000)
    harness = ControllerHarness(namespaces=names, clock=Ticking())
    for name in names:
        harness.cache.put(a_source(name, "a"))
    harness.resync()
    harness.inbox.post(HoldsStored([a_key()]))
    assert harness.controller.work()

    assert len(harness.inbox) == 0
    assert len(harness.queue) > 0


def test_one_turn_takes_no_longer_than_its_three_slices() -> None:
    harness = ControllerHarness(*(a_source(name, "a") for name in numbered(0, 1000)), namespaces=["a"], clock=Ticking())
    harness.resync()
    for _ in range(1000):
        harness.inbox.post(Observed([]))
    began = harness.clock.now
    harness.controller.work()

    assert harness.clock.now - began < 4 * TIME_SLICE


def test_an_address_stays_locked_until_the_result_of_its_write_has_been_handled() -> None:
    harness = ControllerHarness(a_source(targets="a"), namespaces=["a"])
    harness.plan(a_key())
    write = harness.outbox.take()
    assert isinstance(write, Create)
    harness.observe(replace(a_source(targets="a", version=2), content=secret("two")))
    harness.work()
    assert harness.sent() == []

    harness.put(a_copy("a", version=5, content=secret("one")))
    harness.finish(write)
    harness.work()
    assert [type(sent) for sent in harness.sent()] == [Update]


def test_a_write_that_was_not_sent_is_planned_again() -> None:
    harness = ControllerHarness(a_source(targets="a"), namespaces=["a"])
    harness.plan(a_key())
    write = harness.outbox.take()
    assert write is not None
    harness.post(WriteDropped(write))

    assert harness.requeued() == [a_key().in_namespace("a")]
    assert harness.outbox.in_flight(write.ref) is None


def test_a_result_that_cannot_be_handled_unlocks_its_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = ControllerHarness(a_source(targets="a"), namespaces=["a"])
    write = create("a", Key("unknown", at("admin", "db")))
    harness.counts[write.key] = CopyCounts()
    harness.finish(write)

    assert harness.outbox.in_flight(write.ref) is None
    assert "plan.failed" in [record.getMessage() for record in caplog.records]
    assert harness.queue.next_due() == 60.0
