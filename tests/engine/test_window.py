"""How many writes are sent at once, and how fast."""

from __future__ import annotations

from itertools import cycle, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.parts import HOME, Clock, a_key, a_table, an_access, create

from samara.core.allow import Rules
from samara.engine.desk import desk_of
from samara.engine.window import Window
from samara.kube.client import Client
from samara.settings import Settings


def overloaded(window: Window, retry_after: float | None = None) -> None:
    """Two namespaces say so: that points at the server."""
    window.bad("a", retry_after)
    window.bad("b", retry_after)


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
    overloaded(window, retry_after)

    assert window.size == 4
    assert window.wait() > 0


def test_one_namespace_alone_delays_no_other_however_often_it_fails() -> None:
    window = Window(16, 0.0, clock := Clock())
    for _ in range(100):
        window.bad("a", 60.0)
        clock.now += 0.3

    assert (window.size, window.wait()) == (8, 0.0)


@pytest.mark.parametrize(("apart", "size"), [(9.9, 4), (10.1, 8)])
def test_two_namespaces_point_at_the_server_when_they_fail_within_ten_seconds(apart: float, size: int) -> None:
    window = Window(16, 0.0, clock := Clock())
    window.bad("a", None)
    clock.now += apart
    window.bad("b", None)

    assert window.size == size
    assert (window.wait() > 0) == (size < 8)


def test_a_slow_answer_stops_the_growth_and_nothing_else() -> None:
    window = Window(16, 0.0, Clock())
    for _ in range(100):
        window.good(2.5)

    assert (window.size, window.wait()) == (8, 0.0)
    for _ in range(100):
        window.good(1.9)
    assert window.size > 8


def test_it_never_closes_for_good() -> None:
    window = Window(16, 0.0, clock := Clock())
    for _ in range(50):
        overloaded(window)
        clock.now += 1.0

    assert window.size == 1
    clock.now += 5.0
    assert window.wait() == 0.0


def test_it_waits_as_long_as_the_server_says_and_no_shorter_for_a_later_word() -> None:
    window = Window(16, 0.0, clock := Clock())
    overloaded(window, 7.0)
    overloaded(window, 1.0)

    assert window.wait() == 7.0
    clock.now += 7.0
    assert window.wait() == 0.0


def test_it_waits_no_longer_than_a_minute_whatever_the_server_says() -> None:
    window = Window(16, 0.0, Clock())
    overloaded(window, 86_400.0)

    assert window.wait() == 60.0


def test_a_server_that_is_away_for_a_day_stops_nothing_for_good() -> None:
    window = Window(16, 0.0, clock := Clock())
    for namespace, _ in zip(cycle("ab"), range(20_000), strict=False):
        window.bad(namespace, None)
        clock.now += 5.0

    assert window.wait() == 0.0


def test_answers_that_come_together_do_not_lengthen_the_pause_once_it_is_at_its_least() -> None:
    window = Window(1, 0.0, Clock())
    overloaded(window)
    pause = window.wait()
    for _ in range(10):
        overloaded(window)

    assert window.wait() == pause


def test_pauses_grow_while_the_server_stays_away_and_start_anew_after_a_good_answer() -> None:
    window = Window(16, 0.0, clock := Clock())
    window.bad("z", None)
    pauses = []
    for namespace, _ in zip(cycle("ab"), range(12), strict=False):
        window.bad(namespace, None)
        pauses.append(window.wait())
        clock.now += window.wait() + 0.5
    window.good(0.01)
    overloaded(window)

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


@given(st.lists(st.one_of(st.floats(0, 4), st.sampled_from("ab")), max_size=60), st.integers(1, 40))
def test_it_stays_between_one_and_its_most(answers: list[float | str], most: int) -> None:
    window = Window(most, 0.0, clock := Clock())
    for answer in answers:
        if isinstance(answer, str):
            window.bad(answer, None)
        else:
            window.good(answer)
        clock.now += 0.1
        assert 1 <= window.size <= most


def test_however_small_the_window_no_namespace_has_more_than_half_of_it() -> None:
    """At the start, and after the server has said that it is overloaded: one with a slow webhook stops no other."""
    desk = desk_of(Settings(), Client(an_access()), a_table(), Rules(), HOME, silent=True)
    for number in range(9):
        desk.outbox.put(create("slow", a_key(f"s{number}")), soon=True)
    desk.outbox.put(create("other", a_key("s9")), soon=True)
    flying = [write.ref.namespace for _ in range(desk.window.size) if (write := desk.outbox.take()) is not None]
    assert flying.count("slow") == desk.window.size // 2
    assert "other" in flying
