"""Closes an event loop cleanly: TLS connections need further iterations to close."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any


async def until_closed(seconds: float = 5.0) -> None:
    """Waits until no transport of the loop is open: a dropped one causes a warning, which fails the test."""
    with suppress(TimeoutError):  # then the warning names the transport
        async with asyncio.timeout(seconds):
            while _open():  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.002)


def _open() -> list[Any]:
    transports = tuple(getattr(asyncio.get_running_loop(), "_transports", {}).values())
    return [transport for transport in transports if transport.get_extra_info("socket").fileno() != -1]
