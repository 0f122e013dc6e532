"""The time of day, in the form that conditions use."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache


def utc_now() -> str:
    return _formatted(int(time.time()))


@lru_cache(maxsize=1)
def _formatted(second: int) -> str:
    """Cached, because a thousand writes end within a second."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
