"""Writes the status of sources that have one: once a second while work is going on, and once when it is done."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from samara.core.allow import standstill
from samara.core.model import Key
from samara.core.status import status_due
from samara.core.tally import Tally
from samara.core.write import Report, Write
from samara.engine.desk import Desk
from samara.engine.fights import REVERSALS, WINDOW
from samara.engine.moment import utc_now

EVERY = 1.0
_SOON = 0.02
"""What lands together is told together."""
_TURN = 0.005
"""So long statuses are made before others have their turn, in seconds."""


class Reports:
    """Between the tallies and the outbox. What has not changed is not written."""

    def __init__(
        self,
        desk: Desk,
        tallies: Mapping[Key, Tally],
        growing: Collection[Key],
        offer: Callable[[Write, Tally, bool], None],
        now: Callable[[], str] = utc_now,
    ) -> None:
        self._desk = desk
        self._tallies = tallies
        self._growing = growing
        self._offer = offer
        self._now = now
        self._due: set[Key] = set()
        self._since: dict[Key, float] = {}
        """When the work that is going on began, or was last told of."""
        self._contests: dict[Key, deque[float]] = {}
        self._wake = asyncio.Event()

    @property
    def due(self) -> int:
        return len(self._due)

    def touched(self, key: Key) -> None:
        """Says that a source's tally may have changed."""
        if self._desk.table[key.dialect].report is None:
            return
        if key.whole not in self._due:
            self._due.add(key.whole)
            self._since.setdefault(key.whole, self._desk.clock())
        self._wake.set()

    def contested(self, key: Key) -> None:
        """Somebody else has written a status: it is put right a few times, and then when the source is planned again.

        Two versions of us at once may not agree on their words, and must not go on about it for ever.
        """
        now, times = self._desk.clock(), self._contests.setdefault(key.whole, deque(maxlen=REVERSALS))
        if len(times) < REVERSALS or now - times[0] > WINDOW:
            times.append(now)
            self.touched(key)

    async def run(self, wake: Callable[[], None]) -> None:
        """For ever; `wake` is called when something has been put into the outbox."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(_SOON)
            await self._write_all([key for key in self._due if self._is_time(key)], wake)
            if not self._due:
                self._wake.clear()

    async def _write_all(self, ready: list[Key], wake: Callable[[], None]) -> None:
        """A store is read anew, and thousands of sources say so: others have their turn in between."""
        end = self._desk.clock() + _TURN
        for key in ready:
            self._due.discard(key)  # first: it may be touched again while it waits for its turn
            self.write(key)
            if self._desk.clock() >= end:
                wake()
                await asyncio.sleep(0)
                end = self._desk.clock() + _TURN
        if ready:
            wake()

    def _is_time(self, key: Key) -> bool:
        """Now where nothing is going on any more, else once a second."""
        if key in self._growing or self._desk.outbox.waiting(key) or self._desk.outbox.is_flying(key):
            return self._desk.clock() - self._since.get(key, self._desk.clock()) >= EVERY
        self._since.pop(key, None)
        return True

    def write(self, key: Key) -> None:
        """Puts a status write into the outbox, if the status has changed."""
        source, tally, dialect = self._desk.cache.get(key.source), self._tallies.get(key), self._desk.table[key.dialect]
        if source is None or tally is None or standstill(source, dialect, self._desk.cache):
            self._since.pop(key, None)
            self._contests.pop(key, None)
            return
        if key in self._since:
            self._since[key] = self._desk.clock()
        # The source may be newer than the plan that was counted: what is told is told of the older one.
        counted = replace(source, generation=tally.generation(source))
        status = status_due(dialect, counted, self._desk.cache, tally, self._now())
        if status is not None:
            self._offer(Report(key, source.ref, source, status), tally, True)
