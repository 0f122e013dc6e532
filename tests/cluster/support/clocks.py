"""Runs the program with a wrong wall clock: `python -m tests.cluster.support.clocks FILE run …`.

FILE contains the offset in seconds and the rate of the clock. Every call for the time reads it, so the clock can jump
while the process runs. Monotonic clocks are unchanged.
"""

from __future__ import annotations

import datetime as dates
import importlib
import os
import pkgutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

RIGHT = dates.datetime
PACKAGES = ("samara.engine", "samara.kube", "samara.admission")


class Clock:
    """The clock of an operator, set through its file."""

    def __init__(self, file: Path, offset: float = 0.0, rate: float = 1.0) -> None:
        self.file = file
        self.set(offset, rate)

    def set(self, offset: float, rate: float = 1.0) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(f"{offset} {rate}")
        os.replace(new, self.file)  # atomic, so that a concurrent reader never sees a partial file

    @property
    def program(self) -> tuple[str, ...]:
        return "-m", "tests.cluster.support.clocks", str(self.file)


def clock_of(file: Path) -> Callable[[], float]:
    right, began = time.time, time.time()

    def now() -> float:
        offset, rate = map(float, file.read_text().split())
        return right() + offset + (rate - 1.0) * (right() - began)

    return now


def make_wrong(now: Callable[[], float]) -> None:
    """Replaces the clock in every module of the program that reads one."""

    class Wrong(RIGHT):
        @classmethod
        def now(cls, tz: dates.tzinfo | None = None) -> Wrong:
            return cls.fromtimestamp(now(), tz)

    time.time = now
    for name in ("samara.app", *PACKAGES):
        module = importlib.import_module(name)
        for submodule in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
            importlib.import_module(submodule.name)
    for name, module in list(sys.modules.items()):
        if name.startswith("samara.") and getattr(module, "datetime", None) is RIGHT:
            module.datetime = Wrong  # type: ignore[attr-defined]


def main() -> None:
    from samara.cli.main import main as program

    make_wrong(clock_of(Path(sys.argv[1])))
    sys.argv = ["samara", *sys.argv[2:]]
    program()


if __name__ == "__main__":
    main()
