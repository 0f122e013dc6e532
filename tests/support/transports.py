"""Waits for the connections of a loop to close. TLS connections need some iterations of the loop for that."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any


async def until_closed(seconds: float = 5.0) -> None:
    """Waits until no transport of the loop is open. Garbage collection of an open one would cause a warning."""
    with suppress(TimeoutError):  # then the warning names the transport
        async with asyncio.timeout(seconds):
            while _open():  # noqa: ASYNC110 - the loop has no event for it
                await asyncio.sleep(0.002)


def _open() -> list[Any]:
    transports = tuple(getattr(asyncio.get_running_loop(), "_transports", {}).values())
    return [transport for transport in transports if transport.get_extra_info("socket").fileno() != -1]
