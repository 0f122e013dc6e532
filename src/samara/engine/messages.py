"""The messages that drive the controller, and the inbox that they wait in.

Everything that happens outside the controller (a watch event, the end of a write, an object that was read) reaches it
as one of these values. Nothing else changes its state. A message whose sender this module imports is defined there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from samara.core.model import Key
from samara.engine.hold_records import Answer
from samara.engine.writer import WriteDone, WriteDropped
from samara.kube.cache import Change
from samara.kube.reflector import Listed, Observed, QuotaChanged
from samara.secretstores.poller import SecretValues

CAPACITY = 32
"""Reflectors stop reading while this many messages wait. The API server then buffers, as for any slow client."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A read ended."""

    keys: Collection[Key]
    """The keys that waited for it."""
    delay: float = 0.0
    """Seconds after which to plan them, and what `change` triggers: the read failed, or is ahead of the watch."""
    change: Change | None = None
    """What it changed in the cache. The watch will not report this change, because the cache holds it already."""


@dataclass(frozen=True, slots=True)
class HoldAnswered:
    """A user released or discarded a held set of deletions."""

    key: Key
    answer: Answer


@dataclass(frozen=True, slots=True)
class HoldsStored:
    """The ConfigMap now records the deletions of Namespaces that these keys waited to send."""

    keys: Collection[Key]


Message = (
    Observed | Listed | QuotaChanged | WriteDone | WriteDropped | Fetched | SecretValues | HoldAnswered | HoldsStored
)


class Inbox:
    """Owns the messages that wait for the controller.

    It is closed on a standby and drops messages, because leading starts with a resync.
    """

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._arrived = asyncio.Event()
        self._has_room = asyncio.Event()
        self._opened = False

    def __len__(self) -> int:
        return len(self._messages)

    def open(self) -> None:
        self._opened = True

    def post(self, message: Message) -> None:
        if self._opened:
            self._messages.append(message)
            self._arrived.set()

    async def wait_for_room(self) -> None:
        """Waits while the inbox is full. Only reflectors need it: all others post a bounded number of messages."""
        while len(self._messages) >= CAPACITY:
            self._has_room.clear()
            await self._has_room.wait()

    def take(self) -> Message | None:
        if not self._messages:
            return None
        message = self._messages.popleft()
        if len(self._messages) < CAPACITY:
            self._has_room.set()
        return message

    def wake(self) -> None:
        """Ends `wait` without a message."""
        self._arrived.set()

    async def wait(self, timeout: float | None) -> None:
        """Returns when a message has arrived, and after `timeout` seconds at the latest."""
        if not self._messages:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):  # wait_for loses a cancellation on Python 3.11
                    await self._arrived.wait()
        self._arrived.clear()
