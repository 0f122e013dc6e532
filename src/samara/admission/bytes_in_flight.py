"""Bounds the bytes of all requests and answers that the webhook server holds at the same time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

UNCOUNTED_BYTES = 2**16
"""The first bytes of a request that do not count, so that large requests never displace ordinary ones, which are
smaller."""


class NoRoomError(Exception):
    """All requests together would hold too many bytes."""


@dataclass(eq=False, slots=True)
class RequestBytes:
    """What one request holds."""

    client: str
    """The client's address."""
    task: asyncio.Task[Any]
    counted: int = 0


class BytesInFlight:
    """Counts what requests hold, from their first byte until their answer is sent.

    If there is no room, the client address that holds the most loses its oldest request. So a client that sends large
    requests, or does not read the answers, keeps no other client out.
    """

    def __init__(self, most: int) -> None:
        self.left = most
        self._requests: list[RequestBytes] = []
        """The oldest first."""

    @contextmanager
    def request(self, client: str) -> Iterator[RequestBytes]:
        """Inside the context the bytes of one request count. The task that enters it may be cancelled."""
        task = asyncio.current_task()
        assert task is not None
        request = RequestBytes(client, task)
        self._requests.append(request)
        try:
            yield request
        finally:
            self._requests.remove(request)
            self.left += request.counted

    async def hold(self, request: RequestBytes, size: int) -> None:
        """Counts so many bytes for a request, in place of what it held before. Raises NoRoomError."""
        more = max(0, size - UNCOUNTED_BYTES) - request.counted
        while more > max(0, self.left):
            self._displace(request.client, more)
            await asyncio.sleep(0)  # the cancelled request gives its bytes back in its next turn
        self.left -= more
        request.counted += more

    def _displace(self, client: str, more: int) -> None:
        """Cancels the oldest request of the client that holds the most, if that is more than this client would hold."""
        held: Counter[str] = Counter()
        for request in self._requests:
            held[request.client] += request.counted
        largest, size = held.most_common(1)[0]
        if size <= held[client] + more:
            raise NoRoomError
        next(request.task for request in self._requests if request.client == largest and request.counted).cancel()
