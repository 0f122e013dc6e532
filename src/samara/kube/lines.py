"""A stream without an end, read line by line, that is given up when it says nothing for too long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import StreamReader

from samara.core.model import Kind
from samara.kube.errors import Unreachable

_PIECE = 2**16
"""Read at a time: a long list would else lie in memory several times over, in pieces of a third of a megabyte."""


class Silent(Unreachable):
    """A watch that was open and said nothing for too long."""


async def whole_lines(content: StreamReader, silence: float, kind: Kind) -> AsyncIterator[list[bytes]]:
    """Whole lines as they come, in lists that are emptied when the next is asked for. A line that is cut is dropped."""
    tail = b""
    while True:
        try:
            async with asyncio.timeout(silence):
                piece = await content.read(_PIECE)
        except TimeoutError:
            raise Silent(f"the watch of {kind} was silent for {silence:g} s") from None
        if not piece:
            return
        *lines, tail = (tail + piece).split(b"\n")
        del piece  # the next may come in an hour: nothing of this one shall be kept until then, here or where it goes
        if lines:
            yield lines
            lines.clear()


@asynccontextmanager
async def answered_in_time(limit: asyncio.Timeout, kind: Kind) -> AsyncIterator[None]:
    """Turns the end of a time limit into an error of ours."""
    try:
        async with limit:
            yield
    except TimeoutError:
        raise Unreachable(f"the watch of {kind} was not answered in time") from None
