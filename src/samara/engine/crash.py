"""Named points at which the process ends itself, for tests that kill it between any two writes."""

from __future__ import annotations

import os

_VARIABLE = "SAMARA_CRASH_AT"


class CrashPoints:
    """`SAMARA_CRASH_AT=after-write:3` ends the process, without a word, when that point is passed a third time."""

    def __init__(self) -> None:
        name, _, number = os.environ.get(_VARIABLE, "").partition(":")
        self._name = name
        self._left = int(number or "1")

    def passed(self, name: str) -> None:
        if name != self._name:
            return
        self._left -= 1
        if self._left == 0:
            os._exit(137)
