"""Polls a condition until it is true, instead of sleeping for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], deadline: float = 20.0, every: float = 0.03) -> T:
    """Waits for a truthy answer and returns it. To wait for an empty list of faults, use `no_faults`."""
    end = time.monotonic() + deadline
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < end, f"not true within {deadline:g} s: {_named(condition)}"
        time.sleep(every)


def no_faults(faults: Callable[[], list[str]], deadline: float = 20.0, every: float = 0.05) -> None:
    """Waits until a list of faults is empty; fails with the last list."""
    end = time.monotonic() + deadline
    while remaining := faults():
        assert time.monotonic() < end, f"after {deadline:g} s still {len(remaining)} faults:\n" + "\n".join(
            remaining[:20]
        )
        time.sleep(every)


def never(condition: Callable[[], object], seconds: float, every: float = 0.05) -> None:
    """Fails if the condition becomes true within this time. Only this function waits for a fixed time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = condition()
        assert not answer, f"{_named(condition)} came true: {answer}"
        time.sleep(every)


def _named(condition: Callable[[], object]) -> str:
    code = getattr(condition, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(condition)
