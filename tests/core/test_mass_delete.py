"""When the mass-delete limit is exceeded."""

import pytest

from samara.core.mass_delete import MassDeleteLimit, exceeds_limit

LIMITS = [
    (0, 50, 100, False),  # not more than `most`
    (0, 51, 100, True),
    (0, 51, 1000, False),  # not more than `percent` of the total
    (0, 300, 1000, False),
    (0, 301, 1000, True),
    (40, 11, 60, True),  # recent deletes count, also towards the total
    (40, 10, 60, False),
    (250, 51, 750, True),
    (0, 0, 0, False),
    (0, 60, 60, True),
]


@pytest.mark.parametrize(("gone", "requested", "has", "held"), LIMITS)
def test_deletes_are_held_beyond_both_limits(gone: int, requested: int, has: int, held: bool) -> None:
    assert exceeds_limit(MassDeleteLimit(), gone, requested, has) is held


def test_deletes_of_single_slices_are_held_like_those_of_a_complete_plan() -> None:
    gone, has = 0, 100
    while not exceeds_limit(MassDeleteLimit(), gone, 1, has):
        gone, has = gone + 1, has - 1
    assert gone == 50


def test_a_limit_of_zero_holds_every_delete() -> None:
    assert exceeds_limit(MassDeleteLimit(most=0, percent=0), 0, 1, 1000)
