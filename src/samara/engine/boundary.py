"""The worker's boundary: a fault of ours about one object ends nothing, and nobody else waits for it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from samara import log

LATE = 60.0
"""After so many seconds it is tried again: perhaps something else has changed."""


@contextmanager
def contained(about: object, again: Callable[[], None] | None = None) -> Iterator[None]:
    """`again` has it tried once more after `LATE`; without it nothing is."""
    try:
        yield
    except Exception as fault:  # noqa: BLE001 - whatever it is; its text may hold a value, so only its place is told
        place = traceback.extract_tb(fault.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        later = {} if again is None else {"again_in": f"{LATE:g}s"}
        log.warning("plan.failed", about=about, fault=type(fault).__name__, at=where, **later)
        if again is not None:
            again()
