"""Sends planned writes, as many at a time as the concurrency limit allows, and posts their results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from samara import log
from samara.core.model import Ref
from samara.core.writes import Create, Delete, Write
from samara.engine.apply import Applier, Ending, Result
from samara.engine.limiter import ConcurrencyLimiter
from samara.engine.messages import WriteDone, WriteDropped
from samara.engine.outbox import Outbox
from samara.kube.cache import Cache

STORAGE_FULL = (
    "the API server's store is full (etcd: database space exceeded): nothing can be written until it is compacted and "
    "defragmented, or has a larger quota, and its alarm is disarmed"
)
FULL_FOR = 60.0
"""Seconds for which the storage counts as full after a failed write. No later write may show that it has room."""


class Writer:
    """Decides when a write is sent, but not whether. The controller calls `send_waiting` after each turn.

    An address stays locked until the result of its write has been handled.
    """

    def __init__(  # noqa: PLR0913 - the components that carry out a write
        self,
        outbox: Outbox,
        limiter: ConcurrencyLimiter,
        cache: Cache,
        applier: Applier,
        may_write: Callable[[], bool],
        post: Callable[[WriteDone | WriteDropped], None],
        clock: Callable[[], float],
    ) -> None:
        self.outbox = outbox
        self.limiter = limiter
        self.pause = 0.0
        """Seconds that the limiter made the last write wait.

        Cached: asking again could return 0, and the controller would sleep while the limiter is open.
        """
        self._cache = cache
        self._applier = applier
        self._may_write = may_write
        self._post = post
        self._clock = clock
        self._running = 0
        """Requests under way. Fewer than locked addresses, because results wait in the inbox."""
        self._verify = True
        self._stopped = False
        self._full_until = float("-inf")
        self._group: asyncio.TaskGroup | None = None

    def start(self, group: asyncio.TaskGroup) -> None:
        """Requests run as tasks of this group."""
        self._group = group

    def stop(self) -> None:
        """Sends nothing more; requests under way end by themselves."""
        self._stopped = True

    def stop_verifying(self) -> None:
        """From now on updates are sent without the dry run that a restart needs (see `Applier.perform`)."""
        self._verify = False
        self._applier.forget_verified()

    @property
    def obstacle(self) -> str | None:
        """Why no write can succeed now; None if writes can."""
        return STORAGE_FULL if self._clock() < self._full_until else None

    @property
    def is_idle(self) -> bool:
        return not len(self.outbox) and not self.outbox.in_flight_count

    def in_flight(self, ref: Ref) -> Write | None:
        """The write that locks an address."""
        return self.outbox.in_flight(ref)

    def send_waiting(self) -> None:
        """Starts as many requests as the limiter and the outbox allow."""
        assert self._group is not None
        while (write := self._take_sendable()) is not None:
            self._group.create_task(self._send_all(write))

    async def _send_all(self, write: Write | None) -> None:
        """Sends this write and then others, one after another: a task for each would cost more than its decoding."""
        while write is not None:
            await self._send(write)
            write = self._take_sendable()
            self.send_waiting()  # the limit may have grown

    async def _send(self, write: Write) -> None:
        started = self._clock()
        try:
            result = await self._applier.perform(write, verify=self._verify)
        finally:
            self._running -= 1
        seconds = self._clock() - started
        self.adapt(write, result, seconds)
        self._post(WriteDone(write, result, seconds))

    def adapt(self, write: Write, result: Result, seconds: float) -> None:
        """Adjusts the concurrency limit to a result, and notes whether the store is full."""
        if result.overloaded:
            self.limiter.note_overload(write.ref.namespace, result.retry_after)
        else:
            self.limiter.note_answer(seconds)
        was_full = self.obstacle is not None
        if result.storage_full:
            self._full_until = self._clock() + FULL_FOR
            if not was_full:
                log.warning("writes.paused", why=STORAGE_FULL)
        elif was_full and _took_space(write, result):
            self._full_until = float("-inf")
            log.info("writes.resumed")

    def _take_sendable(self) -> Write | None:
        """Takes the next write that may be sent, which then counts as under way; None if there is none."""
        self.pause = 0.0
        while self._running < self.limiter.limit and self._may_write() and not self._stopped:
            self.pause = self.limiter.wait()
            write = None if self.pause else self.outbox.take()
            if write is None:
                return None
            if self._is_current(write):
                self._running += 1
                self.limiter.note_sent(self._running)
                return write
            self._post(WriteDropped(write))
        return None

    def _is_current(self, write: Write) -> bool:
        """False if the object changed after the write was planned."""
        planned_for = None if isinstance(write, Create) else write.live
        return self._cache.get(write.ref) is planned_for


def _took_space(write: Write, result: Result) -> bool:
    """True if a result proves that the storage has room. A delete needs none, and a copy that was right stored none."""
    return result.ending is Ending.DONE and not result.already_right and not isinstance(write, Delete)
