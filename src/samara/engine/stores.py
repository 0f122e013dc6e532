"""Reads the secret manager: documents, not objects, each once per window however many ask for it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

from samara import log
from samara.backends.base import Spot, Store, StoreError, Unauthenticated, Unavailable
from samara.core.model import Key
from samara.core.reads import SecretPath, Unreadable
from samara.engine.meter import Meter
from samara.engine.moment import utc_now
from samara.engine.readings import LEAST, Outcome, Readings, Record, bounded
from samara.engine.timetable import FIRST, Backoff, Timetable, pause

AT_ONCE = 8
DEADLINE = 5.0
_RETRY = 10.0
"""How soon a document is asked for again that was refused or not found, unless it is read more often than that."""
_CHUNK = 500
"""Documents and paths that are gone through before others have their turn."""


@dataclass(frozen=True, slots=True)
class Times:
    """What tests set otherwise."""

    clock: Callable[[], float]
    now: Callable[[], str] = utc_now
    jitter: Callable[[], float] = lambda: random.uniform(0.9, 1.0)  # noqa: S311 - not a secret
    deadline: float = DEADLINE


class Stores:
    """One per process, for whichever store the configuration names now."""

    def __init__(self, served: frozenset[str], meter: Meter, times: Times) -> None:
        self.served = served
        """The dialects whose paths are read."""
        self.book = Readings(times.clock)
        self.wanted = asyncio.Event()
        """Set once somebody asks for anything."""
        self._meter = meter
        self._times = times
        self._store: Store | None = None
        self._fault: Unreadable | None = None
        """Why there is no store, where that is known."""
        self._spots: dict[str, Spot] = {}
        self._records: dict[str, Record] = {}
        self._timetable = Timetable()
        self._backoff = Backoff(times.clock, times.jitter)
        self._outage: StoreError = Unavailable("")
        self._flying: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._wake = asyncio.Event()

    @property
    def unread(self) -> int:
        """How many paths nobody has an answer for, good or bad."""
        return len(self.book.asked) - len(self.book.known)

    # who asks

    def asks(self, key: Key, reads: Iterable[SecretPath], edition: object = None) -> None:
        """Takes all that a source asks for now; one that asks nothing, or is gone, drops out.

        With another edition of it, what was asked for in vain is asked for again at once.
        """
        moved = self.book.asks(key, reads, edition)
        if moved is None:
            return
        for path in moved.left:
            self._leave(path)
        for path in moved.new:
            self._place(path)
        for path in moved.paced:
            if path in self._spots:
                self._sooner(self._records[self._spots[path].document], path)
        self.wanted.set()
        self._wake.set()

    def _place(self, path: str) -> bool:
        """Finds the document of a path: what is known of it is known of the path. True where that is anything new."""
        if self._store is None:
            return self._fault is not None and self.book.unreadable(path, self._fault)
        try:
            spot = self._spots[path] = self._store.spot(path)
        except StoreError as fault:
            return self.book.fault(path, fault, self._store.scheme)
        record = self._records.get(spot.document)
        if record is None:
            record = self._records[spot.document] = Record(spot.document)
            self._timetable.put(record.name, self._times.clock(), tried=False)
        record.fields[path] = spot.field
        outcomes = [each for each in (record.content, record.fault) if each is not None]
        changes = [self.book.hear(path, record, each, self._store.scheme) for each in outcomes]
        self._sooner(record, path)
        return any(changes)

    def _sooner(self, record: Record, path: str) -> None:
        """A new asker may be more impatient than the others, and may have put right what was wrong."""
        every = min(ask.every for ask in self.book.asked[path].values()) * self._times.jitter()
        if self.book.is_faulty(path):
            every, record.failures = LEAST, 0
        due, wanted = self._timetable.when(record.name), record.asked_at + every
        if due is not None and record.tried and wanted < due:
            self._timetable.put(record.name, wanted, tried=True)

    def _leave(self, path: str) -> None:
        """A document that nobody asks for is forgotten."""
        spot = self._spots.pop(path, None)
        if spot is None:
            return
        record = self._records[spot.document]
        record.fields.pop(path)
        record.not_found.pop(path, None)
        if record.fields:
            return
        del self._records[record.name]
        self._timetable.drop(record.name)
        flight = self._flying.pop(record.name, None)
        if flight is not None:
            flight.cancel()

    # which store

    async def let_go(self) -> None:
        """Ends what is being read and closes the store; what was read stays known."""
        store, self._store = self._store, None
        flights, self._flying = list(self._flying.values()), {}
        for flight in flights:
            flight.cancel()
        if flights:
            await asyncio.wait(flights, timeout=self._times.deadline)
        if store is not None:
            with contextlib.suppress(Exception):  # what it says now concerns nobody
                async with asyncio.timeout(self._times.deadline):
                    await store.close()

    async def use(self, store: Store, keep: bool) -> None:
        """Reads everything from this store, as soon as that goes; without `keep` nothing from before counts."""
        if not keep:
            self._records.clear()
            self._spots.clear()
            self.book.known.clear()
        self._store, self._fault = store, None
        self._backoff = Backoff(self._times.clock, self._times.jitter)
        self._timetable.clear()
        for record in self._records.values():
            record.failures = record.outages = 0
            record.not_found.clear()  # another who says so counts anew
            self._timetable.put(record.name, self._times.clock(), record.tried)
        self._wake.set()
        async for path in _in_turns(self.book.asked):
            if path in self.book.asked and path not in self._spots and self._place(path):
                self.book.tell(path)

    async def fail(self, fault: Unreadable) -> None:
        """There is no store, and this is why: values stay, and everybody is told."""
        self._fault = fault
        self._timetable.clear()
        async for path in _in_turns(self.book.asked):
            if path in self.book.asked and self.book.unreadable(path, fault):
                self.book.tell(path)

    # when

    async def run(self) -> None:
        """Reads what is due, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self.begin(group)
            while True:
                self._wake.clear()
                self.pump()
                await asyncio.sleep(0)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause()):
                        await self._wake.wait()

    async def read_all(self) -> None:
        """Reads until something is known of every path that is asked for."""
        async with asyncio.TaskGroup() as group:
            self.begin(group)
            while self.unread:
                self.pump()
                if self._flying:
                    await asyncio.wait(self._flying.values(), return_when=asyncio.FIRST_COMPLETED)

    def begin(self, group: asyncio.TaskGroup) -> None:
        self._group = group

    def _pause(self) -> float | None:
        """How long nothing is due; None where only the end of a read, or somebody new, changes that."""
        due = self._timetable.next()
        if self._store is None or due is None or len(self._flying) >= self._most:
            return None
        return max(0.0, due - self._times.clock())

    @property
    def _most(self) -> int:
        return 1 if self._backoff.is_on else AT_ONCE

    def pump(self) -> None:
        """Starts as many reads as are due and have room."""
        assert self._group is not None
        if self._store is None:
            return
        if self._backoff.wait():
            self._put_off(self._store.scheme)
            return
        now, round_ = self._times.clock(), self._backoff.round  # of now: when a task begins, another may have failed
        while len(self._flying) < self._most and (name := self._timetable.take(now)) is not None:
            self._flying[name] = self._group.create_task(self._fly(self._records[name], self._store, round_))

    def _put_off(self, store: str) -> None:
        """What is due while the store is out of reach has failed without being asked for."""
        for _ in range(_CHUNK):
            name = self._timetable.take(self._times.clock())
            if name is None:
                return
            record = self._records[name]
            if record.content is None or self._backoff.is_lasting:
                record.fault = self._outage
                self.book.hear_all(record, self._outage, store)
            self._timetable.put(name, self._backoff.until, record.tried)
        self._wake.set()

    # one read

    async def _fly(self, record: Record, store: Store, round_: int) -> None:
        outcome = await self._read(record.name, store)
        if self._store is store and self._records.get(record.name) is record:  # else nobody asks any more, or not there
            del self._flying[record.name]
            self._landed(record, outcome, round_, store.scheme)
            self._wake.set()

    async def _read(self, document: str, store: Store) -> Outcome:
        outcome: Outcome
        result = "ok"
        try:
            async with asyncio.timeout(self._times.deadline):
                outcome = await store.read(document)
        except TimeoutError:
            outcome, result = Unavailable(f"it did not answer within {self._times.deadline:g} s"), "timeout"
        except StoreError as fault:
            outcome, result = fault, type(fault).__name__.lower()
        except Exception as fault:  # noqa: BLE001 - of whichever package: it must end nothing, and its text may say all
            outcome, result = Unavailable(f"reading it failed with {type(fault).__name__}"), "unavailable"
        self._meter.provider_calls[store.scheme, result] += 1
        return outcome

    def _landed(self, record: Record, outcome: Outcome, round_: int, store: str) -> None:
        record.tried, record.asked_at, before = True, self._times.clock(), record.fault
        record.fault = outcome if isinstance(outcome, StoreError) else None
        if isinstance(outcome, Unavailable | Unauthenticated):
            self._unreachable(record, outcome, round_, store)
            return
        self._backoff.good(round_)
        record.outages = 0
        again = record.content is not None
        if not isinstance(outcome, StoreError):
            record.content, record.read_at = outcome, self._times.now()
        elif not record.failures and type(outcome) is not type(before):
            log.warning("store.refused", store=store, document=record.name, fault=bounded(outcome))
        well = self.book.hear_all(record, outcome, store)
        record.failures = 0 if well else record.failures + 1
        # The first refresh is spread, and from then on each keeps its time: nobody waits longer than it has asked for.
        # Who asks in vain slows nobody down for whom the same document is well.
        spread = 1.0 if again and well else self._times.jitter()
        delay = min(self.book.due(record), self._pause_of(record, _RETRY, record.failures))
        self._timetable.put(record.name, record.asked_at + delay * spread, tried=True)

    def _unreachable(self, record: Record, fault: StoreError, round_: int, store: str) -> None:
        self._outage = fault
        record.outages += 1
        self.book.hear_all(record, fault, store)
        if self._backoff.bad(round_, getattr(fault, "retry_after", None), again=record.outages > 1):
            again_in = f"{self._backoff.wait():.0f}s"
            log.warning("store.unreachable", store=store, fault=bounded(fault), again_in=again_in)
        if self._backoff.wait():
            self._put_off(store)  # the others go first: this one may be alone in failing, and must not stop them
        own = record.asked_at + self._pause_of(record, FIRST, record.outages) * self._times.jitter()
        self._timetable.put(record.name, max(own, self._backoff.until), tried=True)

    def _pause_of(self, record: Record, first: float, failures: int) -> float:
        return pause(first, failures, self.book.every(record))


async def _in_turns(paths: Iterable[str]) -> AsyncIterator[str]:
    """All of them as they are now; others have their turn in between."""
    for number, path in enumerate(list(paths), 1):
        yield path
        if number % _CHUNK == 0:
            await asyncio.sleep(0)
