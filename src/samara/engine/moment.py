"""The time of day, as conditions have it, and what is done from time to time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache


def utc_now() -> str:
    return _told(int(time.time()))


@lru_cache(maxsize=1)
def _told(second: int) -> str:
    """A thousand copies land in a second, and each is to know which one it was."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def now_and_then(every: float, do: Callable[[], None]) -> None:
    """For ever, or never where that is said with a 0; many processes must not do it at the same moment."""
    while every:
        await asyncio.sleep(every * random.uniform(0.9, 1.1))  # noqa: S311
        do()
