"""Polls the secret manager. It reads each document once per refresh, even if many sources use it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from samara import log
from samara.core.model import Key
from samara.core.queries import ReadError, SecretPath
from samara.secretstores.base import Location, Store, StoreError, Unauthenticated, Unavailable
from samara.secretstores.readings import MIN_REFRESH, Document, Readings, ReadResult, one_line
from samara.secretstores.schedule import FIRST_WAIT, PollSchedule, StoreBackoff, retry_delay

MAX_CONCURRENT_READS = 8
"""Half of them at most are for one namespace, so that no other waits for documents that answer slowly."""
READ_DEADLINE = 5.0
"""Seconds."""
_FIRST_RETRY = 10.0
"""Seconds until a document that was refused or not found is read again, unless its refresh is shorter."""
_SLICE = 500
"""How many documents or paths are handled before other tasks may run."""


@dataclass(frozen=True, slots=True)
class SecretValues:
    """The secret poller read new values for some sources, or read the same ones again."""

    changed: Collection[Key] = ()
    refreshed: Collection[Key] = ()


@dataclass(frozen=True, slots=True)
class PollTimings:
    """Clocks and times of the poller; tests set their own."""

    clock: Callable[[], float]
    now: Callable[[], str]
    """The time of day, in the form that conditions use."""
    jitter: Callable[[], float] = lambda: random.uniform(0.9, 1.0)  # noqa: S311 - not a secret
    deadline: float = READ_DEADLINE


class _Read(NamedTuple):
    """A read in flight, and the namespace whose turn it is."""

    task: asyncio.Task[None]
    namespace: str


class SecretPoller:
    """One per process, for the store that the configuration names at present. Only it changes `readings`.

    `post` is called when a reading that plans use has changed. `count_call` is called with the scheme of the store and
    the result of each read, for the metrics.
    """

    def __init__(
        self,
        readings: Readings,
        vocabularies: frozenset[str],
        timings: PollTimings,
        *,
        post: Callable[[SecretValues], None],
        count_call: Callable[[str, str], None],
    ) -> None:
        self.readings = readings
        self.vocabularies = vocabularies
        """The source types whose paths are read."""
        self.subscribed = asyncio.Event()
        """Set once a source has subscribed to anything."""
        self._post = post
        self._count_call = count_call
        self._timings = timings
        self._store: Store | None = None
        self._fault: ReadError | None = None
        """Why there is no store, if that is known."""
        self._locations: dict[str, Location] = {}
        self._documents: dict[str, Document] = {}
        self._schedule = PollSchedule()
        self._backoff = StoreBackoff(timings.clock, timings.jitter)
        self._outage: StoreError = Unavailable("")
        """The last error that says that no document can be read."""
        self._in_flight: dict[str, _Read] = {}
        self._wake = asyncio.Event()

    # subscriptions

    def subscribe(self, key: Key, reads: Iterable[SecretPath], edition: object = None) -> bool:
        """Replaces all paths that a source reads; a deleted source reads none. True if anything changed.

        If the edition of the source is another one than before, paths that could not be read are read again at once.
        """
        change = self.readings.subscribe(key, reads, edition)
        if change is None:
            return False
        for path in change.dropped:
            self._drop(path)
        for path in (*change.added, *change.refused):
            if self._place(path):
                self._post_changed(path, key)
        for path in change.adjusted:
            if path in self._locations:
                self._advance(self._documents[self._locations[path].document], path)
        self.subscribed.set()
        self._wake.set()
        return True

    def _place(self, path: str) -> bool:
        """Adds a path to its document, and records what the document's last reads mean for it. True if that changed the
        reading of the path."""
        if not self.readings.is_read(path):
            return self.readings.record_refused(path)
        if self._store is None:
            return self._fault is not None and self.readings.record_unreadable(path, self._fault)
        try:
            location = self._locations[path] = self._store.locate(path)
        except StoreError as fault:
            return self.readings.record_fault(path, fault, self._store.scheme)
        is_new = location.document not in self._documents
        document = self._documents.setdefault(location.document, Document(location.document))
        document.fields[path] = location.field
        if is_new:
            self._put(document, self._timings.clock())
        results = [result for result in (document.content, document.fault) if result is not None]
        changes = [self.readings.record_path(path, document, result, self._store.scheme) for result in results]
        self._advance(document, path)
        return any(changes)

    def _advance(self, document: Document, path: str) -> None:
        """Reads a document earlier if a new subscriber has a shorter refresh, or may have corrected a fault; and in the
        turn of its namespace."""
        every = self.readings.shortest_refresh(path) * self._timings.jitter()
        if self.readings.is_faulty(path):
            every, document.failures = MIN_REFRESH, 0
        due = self._schedule.due_at(document.name)
        if due is not None:
            self._put(document, min(due, document.requested_at + every) if document.tried else due)

    def _put(self, document: Document, due: float) -> None:
        self._schedule.put(document.name, due, document.tried, self.readings.namespaces(document))

    def _drop(self, path: str) -> None:
        """Forgets a path, and with its last path the document."""
        location = self._locations.pop(path, None)
        if location is None:
            return
        document = self._documents[location.document]
        document.fields.pop(path)
        document.not_found_since.pop(path, None)
        if document.fields:
            return
        del self._documents[document.name]
        self._schedule.drop(document.name)
        read = self._in_flight.pop(document.name, None)
        if read is not None:
            read.task.cancel()

    # the store

    async def close_store(self) -> None:
        """Cancels all reads and closes the store. The values stay."""
        store, self._store = self._store, None
        tasks, self._in_flight = [read.task for read in self._in_flight.values()], {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._timings.deadline)
        if store is not None:
            with contextlib.suppress(Exception):  # the store is not used again
                async with asyncio.timeout(self._timings.deadline):
                    await store.close()

    async def use_store(self, store: Store, keep: bool) -> None:
        """Reads everything from this store as soon as possible. Without `keep`, earlier values are dropped."""
        if not keep:
            self._documents.clear()
            self._locations.clear()
            self.readings.known.clear()
        self._store, self._fault = store, None
        self._backoff = StoreBackoff(self._timings.clock, self._timings.jitter)
        self._schedule.clear()
        for document in self._documents.values():
            document.failures = document.outages = 0
            document.not_found_since.clear()  # what another store answered does not count
            self._put(document, self._timings.clock())
        self._wake.set()
        async for path in _in_slices(self.readings.subscribers):
            if path in self.readings.subscribers and path not in self._locations and self._place(path):
                self._post_changed(path)

    async def fail(self, fault: ReadError) -> None:
        """There is no store. All values stay, and all sources learn the reason."""
        self._fault = fault
        self._schedule.clear()
        async for path in _in_slices(self.readings.subscribers):
            if path in self.readings.subscribers and self.readings.record_unreadable(path, fault):
                self._post_changed(path)

    def _post_changed(self, path: str, planned: Key | None = None) -> None:
        """Informs the subscribers of a path, except for one that is being planned."""
        changed = tuple(key for key in self.readings.subscribers[path] if key != planned)
        if changed:
            self._post(SecretValues(changed))

    # the loop

    async def run(self) -> None:
        """Reads documents that are due, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                self.start_due(group)
                await asyncio.sleep(0)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._idle_time()):
                        await self._wake.wait()

    async def read_all(self) -> None:
        """Reads until every path has a result."""
        async with asyncio.TaskGroup() as group:
            while self.readings.pending:
                self.start_due(group)
                if self._in_flight:
                    tasks = [read.task for read in self._in_flight.values()]
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    def _idle_time(self) -> float | None:
        """Seconds until a document is due. None if only the end of a read, or a new subscription, changes anything."""
        due = self._schedule.next_due()
        if self._store is None or due is None or len(self._in_flight) >= self._concurrency:
            return None
        return max(0.0, due - self._timings.clock())

    @property
    def _concurrency(self) -> int:
        return 1 if self._backoff.is_active else MAX_CONCURRENT_READS

    def start_due(self, group: asyncio.TaskGroup) -> None:
        """Starts as many due reads as the concurrency allows, as tasks of this group."""
        if self._store is None:
            return
        if self._backoff.remaining():
            self._postpone(self._store.scheme)
            return
        # The present round, because another read may have failed by the time the task starts.
        now, round_ = self._timings.clock(), self._backoff.round
        while len(self._in_flight) < self._concurrency:
            turn = self._schedule.take(now, self._has_room)
            if turn is None:
                return
            task = group.create_task(self._read(self._documents[turn.document], self._store, round_))
            self._in_flight[turn.document] = _Read(task, turn.namespace)

    def _has_room(self, namespace: str) -> bool:
        reads = sum(read.namespace == namespace for read in self._in_flight.values())
        return reads < max(1, self._concurrency // 2)

    def _postpone(self, scheme: str) -> None:
        """Treats documents that are due while the store does not answer as failed, without a request."""
        for _ in range(_SLICE):
            turn = self._schedule.take(self._timings.clock(), has_room=lambda namespace: True)  # no read begins
            if turn is None:
                return
            document = self._documents[turn.document]
            if document.content is None or self._backoff.is_confirmed:
                document.fault = self._outage
                self._record(document, self._outage, scheme)
            self._put(document, self._backoff.until)
        self._wake.set()

    # one read

    async def _read(self, document: Document, store: Store, round_: int) -> None:
        result = await self._request(document.name, store)
        if self._store is store and self._documents.get(document.name) is document:  # otherwise nothing uses the answer
            del self._in_flight[document.name]
            self._handle(document, result, round_, store.scheme)
            self._wake.set()

    async def _request(self, name: str, store: Store) -> ReadResult:
        result: ReadResult
        label = "ok"
        try:
            async with asyncio.timeout(self._timings.deadline):
                result = await store.read(name)
        except TimeoutError:
            result, label = Unavailable(f"it did not answer within {self._timings.deadline:g} s"), "timeout"
        except StoreError as fault:
            result, label = fault, fault.result
        except Exception as fault:  # noqa: BLE001 - an error of a library must not end the poller; its text may hold a value
            result = Unavailable(f"reading it failed with {type(fault).__name__}")
            label = result.result
        self._count_call(store.scheme, label)
        return result

    def _handle(self, document: Document, result: ReadResult, round_: int, scheme: str) -> None:
        document.tried, document.requested_at = True, self._timings.clock()
        before = document.fault
        document.fault = result if isinstance(result, StoreError) else None
        if isinstance(result, Unavailable | Unauthenticated):
            self._handle_outage(document, result, round_, scheme)
            return
        self._backoff.succeeded(round_)
        document.outages = 0
        had_content = document.content is not None
        if not isinstance(result, StoreError):
            document.content, document.read_at = result, self._timings.now()
        elif not document.failures and type(result) is not type(before):
            log.warning("store.refused", store=scheme, document=document.name, fault=one_line(result))
        self._record(document, result, scheme)
        served = self.readings.all_served(document)
        document.failures = 0 if served else document.failures + 1
        # Jitter spreads the first refresh only. Later ones keep their distance, so that no source waits longer than its
        # refresh. A subscriber without a value does not slow down the others.
        jitter = 1.0 if had_content and served else self._timings.jitter()
        delay = min(self.readings.next_refresh(document), self._retry_delay(document, _FIRST_RETRY, document.failures))
        self._put(document, document.requested_at + delay * jitter)

    def _handle_outage(self, document: Document, fault: StoreError, round_: int, scheme: str) -> None:
        self._outage = fault
        document.outages += 1
        self._record(document, fault, scheme)
        if self._backoff.failed(round_, getattr(fault, "retry_after", None), repeated=document.outages > 1):
            again_in = f"{self._backoff.remaining():.0f}s"
            log.warning("store.unreachable", store=scheme, fault=one_line(fault), again_in=again_in)
        if self._backoff.remaining():
            # Before this document gets its new time, so that the next probe reads another one. If only this document
            # fails, it must not stop all others.
            self._postpone(scheme)
        due = document.requested_at + self._retry_delay(document, FIRST_WAIT, document.outages) * self._timings.jitter()
        self._put(document, max(due, self._backoff.until))

    def _record(self, document: Document, result: ReadResult, scheme: str) -> None:
        updated = self.readings.record(document, result, scheme)
        if updated.changed or updated.refreshed:
            self._post(SecretValues(updated.changed, updated.refreshed))

    def _retry_delay(self, document: Document, first: float, failures: int) -> float:
        return retry_delay(first, failures, self.readings.refresh_of_unserved(document))


async def _in_slices(paths: Iterable[str]) -> AsyncIterator[str]:
    """A snapshot of the paths. Other tasks may run between slices."""
    for number, path in enumerate(list(paths), 1):
        yield path
        if number % _SLICE == 0:
            await asyncio.sleep(0)
