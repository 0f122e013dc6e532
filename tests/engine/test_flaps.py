"""Copies that are wanted and unwanted in turns."""

from tests.engine.parts import Clock
from tests.world import at

from samara.engine.flaps import PATIENCE, WINDOW, Flaps

PLACE = at("a", "db")


def test_the_first_removal_goes_at_once() -> None:
    assert Flaps(Clock()).wait(PLACE) == 0.0


def test_fault_42_the_next_removal_waits_until_it_has_lasted() -> None:
    clock = Clock()
    flaps = Flaps(clock)
    flaps.removed(PLACE)
    clock.now += 5.0
    assert flaps.wait(PLACE) == PATIENCE
    clock.now += 10.0
    assert flaps.wait(PLACE) == PATIENCE - 10.0
    clock.now += 20.0
    assert flaps.wait(PLACE) == 0.0


def test_fault_42_a_copy_that_is_wanted_again_begins_to_wait_anew() -> None:
    clock = Clock()
    flaps = Flaps(clock)
    flaps.removed(PLACE)
    flaps.wait(PLACE)
    clock.now += PATIENCE - 1.0
    flaps.calm(PLACE)
    assert flaps.wait(PLACE) == PATIENCE


def test_after_ten_quiet_minutes_a_removal_goes_at_once() -> None:
    clock = Clock()
    flaps = Flaps(clock)
    flaps.removed(PLACE)
    clock.now += WINDOW
    assert flaps.wait(PLACE) == 0.0


def test_another_address_does_not_wait() -> None:
    flaps = Flaps(Clock())
    flaps.removed(PLACE)
    assert flaps.wait(at("b", "db")) == 0.0
