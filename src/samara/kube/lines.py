"""A stream without an end, read line by line, that is given up when it says nothing for too long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import StreamReader

from samara.core.model import Kind
from samara.kube.errors import Unreachable


class Silent(Unreachable):
    """A watch that was open and said nothing for too long."""


async def whole_lines(content: StreamReader, silence: float, kind: Kind) -> AsyncIterator[list[bytes]]:
    """Whole lines as they come; what is left of a line that was cut is dropped."""
    tail = b""
    while True:
        try:
            async with asyncio.timeout(silence):
                chunk = await content.readany()
        except TimeoutError:
            raise Silent(f"the watch of {kind} was silent for {silence:g} s") from None
        if not chunk:
            return
        *lines, tail = (tail + chunk).split(b"\n")
        if lines:
            yield lines


@asynccontextmanager
async def answered_in_time(limit: asyncio.Timeout, kind: Kind) -> AsyncIterator[None]:
    """Turns the end of a time limit into an error of ours."""
    try:
        async with limit:
            yield
    except TimeoutError:
        raise Unreachable(f"the watch of {kind} was not answered in time") from None
