"""Copies that are repeatedly deleted and created again."""

from dataclasses import replace

import pytest
from tests.support.samples import Clock, a_source, numbered
from tests.support.world import at

from samara.core.model import Object, Ref
from samara.engine.limits import FLAP_DELAY, WINDOW, FlapDamper

PLACE = at("a", "db")
SOURCE = a_source()


def wait(flaps: FlapDamper, ref: Ref, source: Object | None) -> float:
    """Seconds that a planned deletion waits."""
    flaps.note_unwanted(ref, source)
    return flaps.remaining(ref, source)


def remove_twice(flaps: FlapDamper, ref: Ref = PLACE, source: Object = SOURCE) -> None:
    for _ in range(2):
        flaps.record_removal(ref, source)


def test_the_first_two_removals_are_sent_at_once() -> None:
    """A user may change a value and revert it twice."""
    flaps = FlapDamper(Clock())
    assert wait(flaps, PLACE, SOURCE) == 0.0
    flaps.record_removal(PLACE, SOURCE)
    assert wait(flaps, PLACE, SOURCE) == 0.0
    flaps.record_removal(PLACE, SOURCE)
    assert wait(flaps, PLACE, SOURCE) == FLAP_DELAY


def test_fault_42_the_third_removal_waits_half_a_minute() -> None:
    clock = Clock()
    flaps = FlapDamper(clock)
    remove_twice(flaps)
    clock.now += 5.0
    assert wait(flaps, PLACE, SOURCE) == FLAP_DELAY
    clock.now += 10.0
    assert wait(flaps, PLACE, SOURCE) == FLAP_DELAY - 10.0
    clock.now += 20.0
    assert wait(flaps, PLACE, SOURCE) == 0.0


def test_fault_42_the_wait_starts_again_when_the_copy_is_wanted_again() -> None:
    clock = Clock()
    flaps = FlapDamper(clock)
    remove_twice(flaps)
    wait(flaps, PLACE, SOURCE)
    clock.now += FLAP_DELAY - 1.0
    flaps.reset(PLACE)
    assert wait(flaps, PLACE, SOURCE) == FLAP_DELAY


def test_after_ten_quiet_minutes_a_removal_is_sent_at_once() -> None:
    clock = Clock()
    flaps = FlapDamper(clock)
    remove_twice(flaps)
    clock.now += WINDOW
    assert wait(flaps, PLACE, SOURCE) == 0.0


def test_a_removal_at_another_address_does_not_wait() -> None:
    flaps = FlapDamper(Clock())
    remove_twice(flaps)
    assert wait(flaps, at("b", "db"), SOURCE) == 0.0


def test_waits_are_forgotten_with_the_removals_that_caused_them() -> None:
    """A copy deleted with its namespace was not removed by us, and is not created again."""
    flaps, places = FlapDamper(Clock()), [at(name, "db") for name in numbered(0, 10_100)]
    for place in places:
        remove_twice(flaps, place)
        wait(flaps, place, SOURCE)

    assert flaps._due.keys() == set(places[100:])


@pytest.mark.parametrize(
    "now", [replace(SOURCE, resource_version=SOURCE.resource_version + 1), replace(SOURCE, uid="another"), None]
)
def test_a_removal_after_an_edit_of_the_source_is_sent_at_once(now: Object | None) -> None:
    flaps = FlapDamper(Clock())
    remove_twice(flaps)
    assert wait(flaps, PLACE, now) == 0.0


def test_a_status_write_does_not_count_as_an_edit_of_the_source() -> None:
    flaps, asking = FlapDamper(Clock()), replace(SOURCE, generation=3)
    remove_twice(flaps, source=asking)
    assert wait(flaps, PLACE, replace(asking, resource_version=asking.resource_version + 1)) == FLAP_DELAY
