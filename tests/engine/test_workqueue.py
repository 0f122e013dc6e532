"""The order and the times in which keys leave the work queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.samples import Clock, a_key

from samara.core.model import Key
from samara.engine.workqueue import WorkQueue


def drained(queue: WorkQueue) -> list[Key]:
    taken = []
    while (key := queue.take()) is not None:
        taken.append(key)
    return taken


def test_a_key_that_is_added_repeatedly_is_taken_once() -> None:
    queue = WorkQueue(Clock())
    for _ in range(3):
        queue.add(a_key("x"))

    assert (len(queue), drained(queue), len(queue)) == (1, [a_key("x")], 0)


def test_the_oldest_key_is_taken_first_even_if_it_is_added_again() -> None:
    queue = WorkQueue(Clock())
    for name in ("x", "y", "x", "z"):
        queue.add(a_key(name))

    assert drained(queue) == [a_key("x"), a_key("y"), a_key("z")]


def test_a_queued_source_covers_its_slices() -> None:
    queue = WorkQueue(Clock())
    queue.add(a_key())
    queue.add(a_key().in_namespace("a"))
    queue.add(a_key("other").in_namespace("a"))

    assert drained(queue) == [a_key(), a_key("other").in_namespace("a")]


def test_a_queued_slice_does_not_cover_its_source() -> None:
    queue = WorkQueue(Clock())
    queue.add(a_key().in_namespace("a"))
    queue.add(a_key())

    assert drained(queue) == [a_key().in_namespace("a"), a_key()]


def test_a_taken_key_can_be_added_again() -> None:
    queue = WorkQueue(Clock())
    queue.add(a_key())
    queue.take()
    queue.add(a_key())

    assert drained(queue) == [a_key()]


def test_a_postponed_key_is_taken_when_it_is_due() -> None:
    queue, clock = WorkQueue(clock := Clock()), clock
    queue.add(a_key(), 5.0)

    assert (queue.take(), queue.next_due(), len(queue)) == (None, 5.0, 0)
    clock.now += 5.0
    assert (queue.next_due(), drained(queue), queue.next_due()) == (0.0, [a_key()], None)


def test_a_key_postponed_twice_is_due_at_the_earlier_time() -> None:
    for first, second in ((5.0, 2.0), (2.0, 5.0)):
        clock = Clock()
        queue = WorkQueue(clock)
        queue.add(a_key(), first)
        queue.add(a_key(), second)
        clock.now += 2.0
        assert drained(queue) == [a_key()]
        clock.now += 10.0
        assert drained(queue) == []


def test_a_key_that_is_ready_cannot_be_postponed() -> None:
    clock = Clock()
    queue = WorkQueue(clock)
    queue.add(a_key())
    queue.add(a_key(), 1.0)
    queue.take()
    clock.now += 2.0

    assert queue.take() is None


def test_adding_a_postponed_key_cancels_its_later_turn() -> None:
    clock = Clock()
    queue = WorkQueue(clock)
    queue.add(a_key(), 1.0)
    queue.add(a_key())
    queue.take()
    clock.now += 2.0

    assert queue.take() is None


def test_the_queue_reports_the_age_of_its_oldest_key() -> None:
    clock = Clock()
    queue = WorkQueue(clock)
    assert queue.oldest() == 0.0
    queue.add(a_key("x"))
    clock.now += 4.0
    queue.add(a_key("y"))
    queue.add(a_key("x"))

    assert queue.oldest() == 4.0
    queue.take()
    assert queue.oldest() == 0.0


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from([0.0, 1.0, 3.0, None])), max_size=30))
def test_every_added_key_is_taken_once(steps: list[tuple[str, float | None]]) -> None:
    queue, owed = WorkQueue(clock := Clock()), set[Key]()
    for name, delay in steps:
        if delay is None:
            clock.now += 1.0
            owed.discard(queue.take() or a_key("nobody"))
        else:
            queue.add(a_key(name), delay)
            owed.add(a_key(name))
    clock.now += 10.0

    taken = drained(queue)
    assert set(taken) == owed
    assert len(taken) == len(owed)
