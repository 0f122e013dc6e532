"""Sends what plans have put into the outbox, as many at a time as the server bears, and judges the results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from samara import log
from samara.core.model import NAMESPACE, Key, Object, Ref, namespace_ref
from samara.core.tally import Tally
from samara.core.write import Apply, Create, Delete, Guard, Recreate, Removal, Report, Update, Write
from samara.engine.apply import verb
from samara.engine.desk import Desk
from samara.engine.fights import Fights
from samara.engine.flaps import Flaps
from samara.engine.look import Looker
from samara.engine.moment import utc_now
from samara.engine.outcome import Outcome, Result
from samara.engine.retry import TOLD_FROM, Wait
from samara.kube.cache import Change

Again = Callable[[Key, float], None]
FULL = (
    "the API server's store is full (etcd: database space exceeded): nothing can be written until it is compacted and "
    "defragmented, or has a larger quota, and its alarm is disarmed"
)
TRIED_WITHIN = 60.0
"""What could not be written is tried again within this time, in seconds."""


class Sender:
    """Between the outbox and the API server. Every result concerns one address and touches no other."""

    def __init__(
        self,
        desk: Desk,
        tallies: Mapping[Key, Tally],
        again: Again,
        may_write: Callable[[], bool],
        landed: Callable[[], None],
        observing: bool,
    ) -> None:
        self.desk = desk
        self.fights = Fights(desk.clock)
        self.flaps = Flaps(desk.clock)
        self.looker = Looker(desk, again)
        self.looker.told = self._looked
        self.changed: Callable[[list[Change], float], None] = lambda changes, delay: None
        """Told what a look has found before the watch did."""
        self._tallies = tallies
        self._again = again
        self._may_write = may_write
        self._landed_one = landed
        self._observing = observing
        self.touched: Callable[[Key], None] = lambda key: None
        """Told of every source whose tally a result may have changed."""
        self._group: asyncio.TaskGroup | None = None
        self.pause = 0.0
        """How long the limiter made the last pump wait: asked again a moment later it may be open, and nobody pumps."""
        self._full_until = float("-inf")
        """How long it counts that there was no room: nobody may be left who would try."""

    def begin(self, group: asyncio.TaskGroup) -> None:
        self._group = group

    @property
    def obstacle(self) -> str | None:
        """Why nothing at all can be written, where that is so."""
        return FULL if self.desk.clock() < self._full_until else None

    @property
    def idle(self) -> bool:
        return not len(self.desk.outbox) and not self.desk.outbox.flying and not self.looker.looking

    def look(self, ref: Ref, key: Key, delay: float = 0.0) -> None:
        assert self._group is not None
        self.looker.start(self._group, ref, key, delay)

    def _looked(self, change: Change, delay: float) -> None:
        self.changed([change], delay)
        if change.new is None:
            self.fights.calm(change.ref)  # our own delete, most likely, of which no answer came

    def calm(self, ref: Ref) -> None:
        """A copy is right, or its namespace gone: nobody fights over it, and it does not flap now."""
        self.fights.calm(ref)
        self.flaps.calm(ref)

    def offer(self, write: Write, tally: Tally, soon: bool) -> None:
        """Puts a write into the outbox, unless it has to wait."""
        if self._observing or self._must_stay(write):
            return
        wait = self.desk.waits.of(write)
        if wait is not None and wait.told:
            _note_refused(write, tally, wait.message)  # until it succeeds, also while it is tried again
        if wait is not None and wait.until > self.desk.clock():
            self._again(_slice(write), wait.until - self.desk.clock())  # the queue came round for an older wait
            return
        fought = self.fights.judge(write)
        if fought is not None:
            if isinstance(write, Apply):
                self.desk.news.obstructed(write, "Fought", fought.message)
            tally.blocked_now(write.ref, "fought", fought.message)
            self._again(_slice(write), fought.again_in)
            return
        self.desk.outbox.put(write, soon)

    def _must_stay(self, write: Write) -> bool:
        """True for a finalizer while something is in flight: what lands may have to go; then it is planned again."""
        return isinstance(write, Guard) and not write.add and self.desk.outbox.is_flying(write.key)

    def pump(self) -> None:
        """Starts as many flights as there is room and work for."""
        assert self._group is not None
        while (write := self._next()) is not None:
            self._group.create_task(self._fly(write))

    def _next(self) -> Write | None:
        """A write that may be sent now, if there is one; it counts as in flight."""
        desk, self.pause = self.desk, 0.0
        while desk.outbox.flying < desk.limiter.limit and self._may_write():
            self.pause = desk.limiter.wait()
            write = None if self.pause else desk.outbox.take()
            if write is None:
                return None
            if self._is_current(write):
                desk.limiter.sent(desk.outbox.flying)
                return write
            self._landed(write)
            self._again(_slice(write), 0.0)
        return None

    def _is_current(self, write: Write) -> bool:
        """False where the place has changed since the write was planned."""
        have: Object | None = getattr(write, "have", None)
        return self.desk.cache.get(write.ref) is have

    async def _fly(self, write: Write | None) -> None:
        """One write after the other, as long as there are any: a task for each would cost more than its decoding."""
        while write is not None:
            await self._flight(write)
            write = self._next()
            self.pump()  # the limit may have grown
            self._landed_one()

    async def _flight(self, write: Write) -> None:
        started = self.desk.clock()
        result = await self.desk.applier.perform(write)
        took = self.desk.clock() - started
        echoed = self.desk.outbox.was_echoed(write.ref)
        self._landed(write)
        self._judge(write, result, took)
        if echoed and result.outcome is Outcome.DONE and not self._is_as_written(write, result):
            self._again(_slice(write), 0.0)  # what we took for an echo was somebody else's change

    def _is_as_written(self, write: Write, result: Result) -> bool:
        now = self.desk.cache.get(write.ref)
        return (None if now is None else now.version) == result.version

    def _landed(self, write: Write) -> None:
        for key in self.desk.outbox.done(write):
            self._again(key.part(write.ref.namespace) if write.ref.namespace else key, 0.0)

    def _judge(self, write: Write, result: Result, took: float) -> None:
        if not result.spared:
            vocabulary = self.desk.table[write.key.dialect].title
            self.desk.metrics.write_done(vocabulary, verb(write), result.outcome.value, took)
        if result.overloaded:
            self.desk.limiter.overloaded(write.ref.namespace, result.retry_after)
        else:
            self.desk.limiter.succeeded(took)
        self._note_room(write, result)
        if result.spared:
            self._spared(write)
        elif result.outcome is Outcome.DONE:
            self._done(write)
        else:
            self._not_done(write, result)
        if not isinstance(write, Report):
            self.touched(write.key)

    def _note_room(self, write: Write, result: Result) -> None:
        """Told once when there is no room and once when there is again, however many writes meet it."""
        was = self.obstacle
        if result.full:
            self._full_until = self.desk.clock() + TRIED_WITHIN
            if was is None:
                log.warning("writes.paused", why=FULL)
        elif was and result.outcome is Outcome.DONE and not (result.spared or isinstance(write, Delete)):
            # What was spared and what was deleted needed no room.
            self._full_until = float("-inf")
            log.info("writes.resumed")

    def _done(self, write: Write) -> None:
        tally = self._tallies.get(write.key)
        if isinstance(write, Removal):
            self._removed(write, tally)
        else:
            self.flaps.calm(write.ref)
            self._placed(write, tally)
        if isinstance(write, Guard) or self._lets_others_go(write):
            self._again(write.key, 0.0)  # what may follow waited for it
        self.desk.waits.forget(write.key, write.ref)
        who = self.fights.repaired(write)
        if who is not None:
            self.desk.news.put_back(write, who)
        tell = log.info if isinstance(write, Apply | Guard) else log.debug  # of copies the Events tell, merged
        what = {"finalizer": write.finalizer, "added": write.add} if isinstance(write, Guard) else {}
        tell("wrote", verb=verb(write), to=write.ref, key=write.key, **what)
        self.desk.news.wrote(write)

    def _spared(self, write: Write) -> None:
        """It is right as it is stored, and nothing was written: so nothing is told or counted."""
        self._placed(write, self._tallies.get(write.key), written=False)
        self.desk.waits.forget(write.key, write.ref)
        if self._lets_others_go(write):
            self._again(write.key, 0.0)

    def _placed(self, write: Write, tally: Tally | None, *, written: bool = True) -> None:
        if tally is None:
            return
        tally.right_now(write.ref)
        if written and isinstance(write, Create | Update | Recreate):
            tally.landed = utc_now()

    def _lets_others_go(self, write: Write) -> bool:
        """True where a source that wants one object has it now and still has another: that one waits for its turn."""
        placed = isinstance(write, Create | Update | Recreate)
        return placed and self.desk.table[write.key.dialect].whole and self.desk.cache.count(write.key) > 1

    def _removed(self, write: Removal, tally: Tally | None) -> None:
        self.flaps.removed(write.ref, self.desk.cache.get(write.key.source))
        if tally is not None:
            tally.removals.pop(write.ref, None)
            if write.ref in tally.exceptions.get(write.ref.namespace, ()):
                self._again(_slice(write), 0.0)  # wanted and withdrawn: what stands against it is still to be told
        if self._is_over(write.key):
            self._again(write.key, 0.0)  # nothing is left of it: one more plan forgets it, or lets its guard go

    def _is_over(self, key: Key) -> bool:
        """True where the last of a source's copies has gone; one that is on its way out is not waited for."""
        source = self.desk.cache.get(key.source)
        if source is None:
            return not self.desk.cache.count(key)
        return source.deleting and self.desk.table[key.dialect].whole

    def _not_done(self, write: Write, result: Result) -> None:
        delay = self.desk.waits.note(write, result)
        wait = self.desk.waits.of(write)
        if wait is not None and wait.told:
            self._refused(write, wait)
        if self._is_nowhere(write):
            self.desk.waits.forget(write.key, write.ref)  # perhaps nothing is planned there any more that would do it
        log.debug("write.again", verb=verb(write), to=write.ref, outcome=result.outcome.value, fault=result.message)
        if result.sure:
            self._again(_slice(write), delay)
        else:
            self.look(write.ref, write.key, delay)

    def _is_nowhere(self, write: Write) -> bool:
        """True where the namespace in which something is, or which it is, has gone."""
        ref = write.ref
        if ref.kind == NAMESPACE and isinstance(write, Create):  # it is to come, and may be refused again and again
            return False
        home = ref if ref.kind == NAMESPACE else namespace_ref(ref.namespace)
        return bool(home.name) and self.desk.cache.get(home) is None

    def _refused(self, write: Write, wait: Wait) -> None:
        tell = log.debug if wait.faults > TOLD_FROM else log.warning  # what is tried twice a minute is told of once
        tell("write.refused", verb=verb(write), to=write.ref, key=write.key, fault=wait.message)
        tally = self._tallies.get(write.key)
        if isinstance(write, Apply | Guard | Report):
            self.desk.news.obstructed(write, "Refused", wait.message)
        elif tally is not None:
            _note_refused(write, tally, wait.message)
            self.desk.news.due(write.key, tally)


def _note_refused(write: Write, tally: Tally, message: str) -> None:
    if isinstance(write, Removal):
        tally.stays(write.ref, "refused", message)
    elif not isinstance(write, Report):  # which is written on no copy
        tally.blocked_now(write.ref, "refused", message)


def _slice(write: Write) -> Key:
    """The part of a key that one write belongs to; what is written on the source itself concerns all of it."""
    own = write.ref == write.key.source
    return write.key.part(write.ref.namespace) if write.ref.namespace and not own else write.key
