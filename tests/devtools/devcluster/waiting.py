"""Waits for a condition instead of for time."""

import time
from collections.abc import Callable

DEADLINE_SECONDS = 60


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true within a minute"
        time.sleep(0.02)
