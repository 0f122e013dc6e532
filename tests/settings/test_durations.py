"""Durations are read as users write them, and shown in the same form."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samara.setting_types import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("500ms", 0.5),
        ("1h2m3s4ms", 3723.004),
        ("1m500ms", 60.5),
        ("0", 0.0),
        ("0s", 0.0),
        ("0h0m", 0.0),
    ],
)
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "s", "1d", "-5s", "+5s", "5 m", " 5m", "5m\n", "1.5h", "5s5m", "5m5m", "٥m", "1h30", "5M"]
)
def test_anything_else_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None


def test_a_number_that_is_too_long_is_no_duration() -> None:
    assert parse_duration("9" * 5000 + "s") is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0"), (0.5, "500ms"), (75.0, "1m15s"), (5400.0, "1h30m"), (600.0, "10m"), (math.inf, "forever")],
)
def test_a_duration_is_shown_in_its_largest_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(min_value=0, max_value=10**12).map(lambda milliseconds: milliseconds / 1000))
def test_a_duration_that_is_shown_reads_back_as_itself(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds
