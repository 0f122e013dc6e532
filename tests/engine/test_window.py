"""How many writes are sent at once, and how fast."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.parts import Clock

from samara.engine.window import Window


def test_it_grows_by_one_per_round_trip_up_to_its_most() -> None:
    window = Window(16, 0.0, Clock())
    sizes = [window.size]
    for _ in range(20):
        for _ in range(window.size):
            window.good(0.01)
        sizes.append(window.size)

    assert sizes[0] == 8
    assert all(after - before <= 1 for before, after in pairwise(sizes))
    assert sizes[-1] == 16


def test_it_starts_no_larger_than_its_most() -> None:
    assert Window(3, 0.0, Clock()).size == 3


@pytest.mark.parametrize("retry_after", [None, 1.0])
def test_it_halves_when_the_server_refuses_for_load(retry_after: float | None) -> None:
    window = Window(16, 0.0, Clock())
    window.bad(retry_after)

    assert window.size == 4


def test_a_slow_answer_is_a_bad_one() -> None:
    window = Window(16, 0.0, Clock())
    window.good(2.5)

    assert window.size == 4
    assert window.wait() > 0


def test_it_never_closes_for_good() -> None:
    window = Window(16, 0.0, clock := Clock())
    for _ in range(50):
        window.bad(None)
        clock.now += 1.0

    assert window.size == 1
    clock.now += 5.0
    assert window.wait() == 0.0


def test_it_waits_as_long_as_the_server_says_and_no_shorter_for_a_later_word() -> None:
    window = Window(16, 0.0, clock := Clock())
    window.bad(7.0)
    window.bad(1.0)

    assert window.wait() == 7.0
    clock.now += 7.0
    assert window.wait() == 0.0


def test_answers_that_come_together_do_not_lengthen_the_pause_once_it_is_at_its_least() -> None:
    window = Window(1, 0.0, Clock())
    window.bad(None)
    pause = window.wait()
    for _ in range(10):
        window.bad(None)

    assert window.wait() == pause


def test_pauses_grow_while_the_server_stays_away_and_start_anew_after_a_good_answer() -> None:
    window = Window(16, 0.0, clock := Clock())
    pauses = []
    for _ in range(12):
        window.bad(None)
        pauses.append(window.wait())
        clock.now += window.wait() + 0.5
    window.good(0.01)
    window.bad(None)

    assert pauses == pytest.approx([min(0.05 * 2**number, 5.0) for number in range(1, 13)])
    assert window.wait() == pytest.approx(pauses[0])


def test_a_rate_is_kept_however_many_there_is_room_for() -> None:
    window = Window(16, 4.0, clock := Clock())
    sent = []
    while clock.now < 1010.0:
        clock.now += window.wait()
        window.sent()
        sent.append(clock.now)

    gaps = [after - before for before, after in pairwise(sent)]
    assert min(gaps) == pytest.approx(0.25)


def test_time_that_was_not_used_is_not_saved_up() -> None:
    window = Window(16, 4.0, clock := Clock())
    window.sent()
    clock.now += 60.0
    window.sent()

    assert window.wait() == pytest.approx(0.25)


@given(st.lists(st.one_of(st.floats(0, 4), st.none()), max_size=60), st.integers(1, 40))
def test_it_stays_between_one_and_its_most(answers: list[float | None], most: int) -> None:
    window = Window(most, 0.0, clock := Clock())
    for took in answers:
        if took is None:
            window.bad(None)
        else:
            window.good(took)
        clock.now += 0.1
        assert 1 <= window.size <= most
