"""How Hypothesis runs: the same examples every time, without a deadline; that Ctrl-C means what it says; and in which
order files are given to parallel workers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=80, suppress_health_check=_SLOW)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=20, suppress_health_check=_SLOW)
settings.register_profile("deep", deadline=None, derandomize=True, max_examples=500, suppress_health_check=_SLOW)
settings.register_profile(
    "seeded",
    deadline=None,
    derandomize=True,
    max_examples=150,
    suppress_health_check=_SLOW,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script, and so in all we start
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks properties, before `-m` chooses among the tests."""
    test = getattr(item, "obj", None)
    if getattr(test, "is_hypothesis_test", False):
        item.add_marker(pytest.mark.property)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest come first, so that no worker begins one when the others are done."""
    seconds: dict[Path, float] = {}
    for item in items:
        # A file of few cluster tests has long ones, or a control plane of its own.
        beginning = 20.0 if item.get_closest_marker("cluster") else 0.0
        seconds[item.path] = seconds.get(item.path, beginning) + _seconds(item)
    items.sort(key=lambda item: -seconds[item.path])


def _seconds(item: pytest.Item) -> float:
    """A rough guess, which needs to be right about the long files alone."""
    guesses = {"cluster": 1.5, "heavy": 0.5, "property": 0.5}
    return next((guess for marker, guess in guesses.items() if item.get_closest_marker(marker)), 0.02)
