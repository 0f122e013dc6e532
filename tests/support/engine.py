"""Drives the engine by hand: no task runs, no time passes and no server answers unless a test says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tests.engine.parts import HOME, Clock, a_desk, a_namespace

from samara.core.model import Key, Object, Ref
from samara.core.table import Table
from samara.core.tally import Tally
from samara.core.write import Report, Write
from samara.engine.holds import Holds
from samara.engine.loop import Engine
from samara.engine.outcome import Outcome, Result
from samara.kube.cache import Change
from samara.kube.client import Client
from samara.secretstores.poller import SecretPoller, SecretValues

DONE = Result(Outcome.DONE)


class EngineHarness:
    """An engine that leads over the objects of its cache. Nothing has been planned yet."""

    def __init__(
        self,
        *objects: Object,
        namespaces: Iterable[str] = (),
        table: Table | None = None,
        holds: Holds | None = None,
        observing: bool = False,
        clock: Clock | None = None,
        client: Client | None = None,
        gone_after: float = 3.0,
        stores: SecretPoller | None = None,
    ) -> None:
        self.clock = clock or Clock()
        desk = a_desk(self.clock, holds or Holds(None, 0.0, self.clock), client, gone_after, table)
        desk = replace(desk, stores=stores)
        self.cache, self.table, self.queue, self.outbox = desk.cache, desk.table, desk.queue, desk.outbox
        self.retry, self.holds, self.events, self.metrics = desk.waits, desk.holds, desk.news, desk.metrics
        self.limiter = desk.limiter
        for obj in (*map(a_namespace, [HOME, *namespaces]), *objects):
            self.cache.put(obj)
        self.engine = Engine(desk, lambda: True, observing)
        self.engine.leading = True
        self.tallies = self.engine.tallies
        self.drift, self.flaps = self.engine._sender.fights, self.engine._sender.flaps

    # what happens

    def put(self, obj: Object) -> Change:
        """The cache takes an object; the change is not delivered."""
        change = self.cache.put(obj)
        assert change is not None
        return change

    def deliver(self, *changes: Change | None) -> None:
        """A watch reports changes that the cache holds already."""
        self.engine.changed([change for change in changes if change is not None])

    def observe(self, obj: Object) -> None:
        """A watch reports an object."""
        self.deliver(self.put(obj))

    def quota_changed(self, quota: Ref) -> None:
        self.engine.passed(quota)

    def fetched(self, change: Change | None, delay: float) -> None:
        """A single read has changed the cache before the watch did."""
        assert change is not None
        self.engine._sender.looker.told(change, delay)

    def answered(self, change: Change | None) -> None:
        """The answer to a write of ours has changed the cache."""
        self.engine._answered(change)

    def secret_values(self, message: SecretValues) -> None:
        """The secret poller has read something."""
        self.engine.secret_values(message)

    def hold_answered(self, key: Key, answer: str) -> None:
        self.engine.answered(key, answer)

    # what the engine does about it

    async def run(self) -> None:
        """The real loop, until cancelled."""
        await self.engine.run()

    def enqueue(self, key: Key) -> None:
        self.engine.add(key)

    def resync(self) -> None:
        self.engine.resync()

    def work(self) -> None:
        """Handles and plans all that is queued."""
        while self.engine._turn():
            pass

    def plan(self, *keys: Key) -> None:
        """Plans these keys, queued or not."""
        for key in keys:
            self.engine._plan(key)

    def continue_chunked(self) -> bool:
        """Takes the next chunk of a large plan; False if there is none."""
        return self.engine._grow()

    def finish_chunked(self) -> None:
        while self.continue_chunked():
            pass

    def is_chunked(self, key: Key) -> bool:
        """True while a large plan of this key is under way."""
        return key in self.engine._growing

    def fail_next_chunk(self, key: Key) -> None:
        """The next step of a large plan raises an error that no code expects."""
        self.engine._growing[key].steps = (1 / 0 for _ in range(1))  # type: ignore[misc]

    # what comes of it

    def sent(self) -> list[Write]:
        """All writes that wait, taken out of the outbox. Their results have not arrived."""
        writes = []
        while (write := self.outbox.take()) is not None:
            self.outbox.done(write)
            writes.append(write)
        return writes

    def finish(self, write: Write, result: Result = DONE) -> None:
        """The result of a write arrives."""
        if self.outbox.is_flying(write.key):
            self.engine._sender._landed(write)
        self.engine._sender._judge(write, result, 0.1)

    def offer(self, write: Write, tally: Tally) -> None:
        """Sends a write that no plan contains, unless it has to wait for its backoff."""
        self.engine._sender.offer(write, tally, soon=False)

    def requeued(self) -> list[Key]:
        """The keys that are to be planned now, taken out of the queue."""
        return list(iter(self.queue.take, None))

    def status(self, key: Key) -> Report | None:
        """The status write of a source, unless its status is right."""
        self.engine._reports.write(key)
        reports = [write for write in self.sent() if isinstance(write, Report)]
        return reports[-1] if reports else None

    def stale_statuses(self) -> set[Key]:
        """The sources whose status is written next."""
        return set(self.engine._reports._due)

    def forget_statuses(self) -> None:
        self.engine._reports._due.clear()

    @property
    def pending_reads(self) -> int:
        return self.engine._reader.reading

    @property
    def synced(self) -> bool:
        """True if all that was listed has been planned and written."""
        self.engine._note_sync()
        return self.engine.synced

    @property
    def obstacle(self) -> str | None:
        return self.engine.obstacle

    @property
    def grace_periods(self) -> set[Key]:
        """Keys whose source vanished and whose copies wait for it to come back."""
        return set(self.engine._removals._gone_since)
