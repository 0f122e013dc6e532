"""Named points at which the process ends itself or stands still, for tests of what happens then."""

from __future__ import annotations

import os
import time

_BLOCKED = 120.0


class CrashPoints:
    """Set by the environment, and only there.

    `SAMARA_CRASH_AT=after-write:3` ends the process, without a word, when that point is passed for the third time;
    `SAMARA_BLOCK_AT=after-write:3` blocks its event loop there.
    """

    def __init__(self) -> None:
        self._left = {variable: _point(variable) for variable in ("SAMARA_CRASH_AT", "SAMARA_BLOCK_AT")}

    def passed(self, name: str) -> None:
        for variable, (point, left) in self._left.items():
            if name == point:
                self._left[variable] = (point, left - 1)
                if left == 1:
                    _act(variable)


def _point(variable: str) -> tuple[str, int]:
    name, _, number = os.environ.get(variable, "").partition(":")
    return name, int(number or "1")


def _act(variable: str) -> None:
    if variable == "SAMARA_CRASH_AT":
        os._exit(137)
    time.sleep(_BLOCKED)
