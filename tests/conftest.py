"""Profiles of Hypothesis, Ctrl-C in background runs, the order of files for parallel workers, a temporary folder."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=80, suppress_health_check=_SLOW)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=20, suppress_health_check=_SLOW)
settings.register_profile("deep", deadline=None, derandomize=True, max_examples=500, suppress_health_check=_SLOW)
settings.register_profile("random", deadline=None, max_examples=500, suppress_health_check=_SLOW, print_blob=True)
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

# A shell script starts its background jobs with SIGINT ignored, and so would be all programs that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of this test and of the programs that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks properties, before `-m` chooses among the tests."""
    test = getattr(item, "obj", None)
    if getattr(test, "is_hypothesis_test", False):
        item.add_marker(pytest.mark.property)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the slowest files first, so that no worker begins one when the others are done."""
    seconds: dict[Path, float] = {}
    for item in items:
        # A file with only a few cluster tests usually has slow ones, or starts a control plane of its own.
        base = 20.0 if item.get_closest_marker("cluster") else 0.0
        seconds[item.path] = seconds.get(item.path, base) + _seconds(item)
    items.sort(key=lambda item: -seconds[item.path])


def _seconds(item: pytest.Item) -> float:
    """A rough guess. Only the order of the slowest files matters."""
    guesses = {"cluster": 1.5, "heavy": 0.5, "property": 0.5}
    return next((guess for marker, guess in guesses.items() if item.get_closest_marker(marker)), 0.02)
