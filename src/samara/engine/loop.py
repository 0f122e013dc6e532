"""The shell around the plan: events become keys, keys become plans, plans become writes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

from samara import log
from samara.core.model import NAMESPACE, QUOTA, Key, Kind, Ref
from samara.core.plan import steps
from samara.core.tally import Tally
from samara.core.write import Blocked, Delete, Look, Release, Step, Write
from samara.engine.boundary import LATE, contained
from samara.engine.desk import Desk
from samara.engine.growth import AHEAD, CHUNK, Growth, grown, resumed
from samara.engine.moment import now_and_then
from samara.engine.read import Reader
from samara.engine.removals import Removals, still_due
from samara.engine.report import Reports
from samara.engine.route import concerned, onward, told_only
from samara.engine.sender import Sender
from samara.kube.cache import Change
from samara.secretstores.poller import SecretValues

TURN = 0.005
"""How long planning may keep the loop to itself, in seconds."""
STAYS = 10.0
"""So often a source is looked at that is to go and may not yet: nobody tells us when its definition begins to go."""


class Engine:
    """One per process. It plans only while it leads; its cache is kept by the watches all the time."""

    def __init__(self, desk: Desk, may_write: Callable[[], bool], observing: bool = False) -> None:
        self.desk = desk
        self.tallies: dict[Key, Tally] = {}
        self.synced = False
        """True once everything that was listed has been planned and written."""
        self.leading = False
        self._growing: dict[Key, Growth] = {}
        self._wake = asyncio.Event()
        self._stopping = False
        self._sender = Sender(
            desk, self.tallies, self._again, lambda: may_write() and not self._stopping, self._landed, observing
        )
        self._removals = Removals(desk, self._again, self._sender.flaps)
        self._reader = Reader(desk, self._again)
        self._reports = Reports(desk, self.tallies, self._growing, self._sender.offer)
        self._sender.touched = self._reports.touched
        self._sender.changed = self.changed
        if desk.stores is not None:
            desk.cache.answers.readings = desk.stores.readings.known
        desk.applier.answered = self._answered
        desk.applier.is_new = lambda: not self.synced

    @property
    def obstacle(self) -> str | None:
        """Why nothing at all can be written, where that is so."""
        return self._sender.obstacle

    # what comes in

    def changed(self, changes: list[Change], delay: float = 0.0) -> None:
        """Takes news from a watch, or from a look that was faster; that one may be planned with a little later."""
        if not self.leading:
            return
        for change in changes:
            with contained(change.ref):
                echo_of, told = self.desk.outbox.echo(change.ref), told_only(change, self.desk)
                if not told:
                    self._changed(change, echo_of, delay)
                for key in told if echo_of is None else ():
                    self._reports.contested(key)  # somebody else may have written it
        self._wake.set()

    def _changed(self, change: Change, echo_of: Write | None, delay: float) -> None:
        if echo_of is None:
            self._sender.fights.disturbed(change, self.desk.table.owner, self.desk.cache)
        if change.ref.kind in (NAMESPACE, QUOTA):
            self.freed(change.ref.namespace or change.ref.name)
        if change.new is None:
            self.desk.waits.gone(change.ref)
        for key in concerned(change, self.desk):
            if isinstance(echo_of, Delete) and change.new is None and key.source == change.ref:
                self._removals.meant(key.source)  # the echo was faster than the answer
            if echo_of is None or key.whole != echo_of.key:  # the writer itself looks at its answer when it lands
                self.add(key, delay)

    def passed(self, ref: Ref) -> None:
        """Takes the sight of an object that is nothing to us, unless it is a quota."""
        if ref.kind == QUOTA:
            self.freed(ref.namespace)

    def secret_values(self, message: SecretValues) -> None:
        """The poller has read values: new ones, or the same ones again."""
        for key in message.changed:
            self._again(key)
        for key in message.refreshed:
            self._reports.touched(key)

    def listed(self, kind: Kind) -> None:
        """A kind is known now: what could not be planned before can be planned."""
        self._removals.doubt(kind)
        if self.leading:
            self.resync()

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Something is to be planned, from its beginning."""
        if key.slice is None:
            self._growing.pop(key, None)
        self._again(key, delay)

    def _again(self, key: Key, delay: float = 0.0) -> None:
        if key.whole in self.tallies or not self.desk.cache.is_idle(key):
            self.desk.queue.add(key, delay)
            self._wake.set()

    def _landed(self) -> None:
        """A write has ended. The loop is woken only where that changes something: wakings cost, too."""
        room = any(self.desk.outbox.waiting(key) < AHEAD // 2 for key in self._growing)
        if room or self._stopping or self._sender.idle:
            self._wake.set()

    def freed(self, namespace: str) -> None:
        """A namespace or a quota in it changed: what was refused there is tried again at once."""
        for key, delay in self.desk.waits.free_namespace(namespace):
            self._again(key, delay)

    def _answered(self, change: Change | None) -> None:
        """Our own write came back: the next hop of a chain starts from it, without waiting for the echo."""
        for key in onward(change, self.desk) if change is not None else ():
            if change is not None and key.source == change.ref:
                self.desk.waits.free_source(key.source)  # what was refused of it before may be taken now
                if change.new is None:
                    self._removals.meant(key.source)
            self._again(key)

    def resync(self) -> None:
        """Everything is planned again, from the cache."""
        for key in tuple(self.desk.keys()):
            self.add(key)
        self._wake.set()

    def answered(self, key: Key, word: str) -> None:
        """Somebody has released or discarded what the brake holds."""
        log.info("brake.answered", key=key, word=word)
        self.desk.holds.free(key, discard=word == "discard")
        self.add(key)
        self._wake.set()

    # the loop

    async def run(self) -> None:
        """Plans and writes until cancelled; writes in flight end by themselves."""
        self.leading = True
        self.resync()
        async with asyncio.TaskGroup() as group:
            self._sender.begin(group)
            self._reader.begin(group)
            group.create_task(self._reports.run(self._wake.set))
            group.create_task(now_and_then(self.desk.resync, self.resync))
            while True:
                self._wake.clear()
                busy = self._turn()
                self._sender.pump()
                if busy:
                    await asyncio.sleep(0)
                else:
                    await self._rest()

    async def _rest(self) -> None:
        self._note_sync()
        waits = [wait for wait in (self.desk.queue.next_due(), self.desk.holds.next_due()) if wait is not None]
        if len(self.desk.outbox):
            waits.append(self._sender.pause or 1.0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(waits, default=None)):  # wait_for loses a cancellation on Python 3.11
                await self._wake.wait()

    def _note_sync(self) -> None:
        if self.synced or not all(map(self.desk.cache.is_settled, self.desk.table.kinds)):
            return
        outside = self._reader.reading or self._reports.due or self.desk.waits.retrying
        if self._growing or len(self.desk.queue) or not self._sender.idle or outside:
            return
        self.synced = True
        self.desk.holds.settle({*self.tallies, *self.desk.keys()}, self.desk.is_planned)
        log.info("synced", sources=len(self.tallies))

    def _turn(self) -> bool:
        """Plans for a little while; True where more is waiting."""
        end = self.desk.clock() + TURN
        for key in self.desk.holds.due():
            log.info("brake.over", key=key)
            self.desk.holds.free(key)
            self.add(key)
        while self.desk.clock() < end:
            next_ = self.desk.queue.take()
            if next_ is not None:
                with contained(next_, partial(self._again, next_, LATE)):
                    self._plan(next_)
            elif not self._grow():
                return False
        return True

    def _plan(self, key: Key) -> None:
        desk, began = self.desk, self.desk.clock()
        if (prepared := self._reader.prepared(key)) is None:
            return
        case, want = prepared
        desk.outbox.clear(key)
        tally = self.tallies.setdefault(key.whole, Tally())
        want = want if key.slice is not None else resumed(want, tally)
        if key.slice is None and len(want.copies) > CHUNK:
            self._growing[key] = grown(key, case, want)
            tally.grow()
            return
        growth = Growth(key, case, want, steps(case, want), [])
        if key.slice is None:
            self._growing.pop(key, None)
        elif key.whole in self._growing:
            self._growing[key.whole].overtaken.add(key.slice)
        tally.begin(key.slice)
        for step in growth.steps:
            self._step(growth, tally, step)
        self._finish(growth, tally)
        desk.metrics.planned(desk.clock() - began)

    async def drain(self, most: float) -> None:
        """Takes no more work and lets running writes end."""
        self.leading, self._stopping = False, True
        end = self.desk.clock() + most
        while self.desk.outbox.flying and self.desk.clock() < end:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self._wake.wait()

    def _grow(self) -> bool:
        """Takes some more steps of a large plan that has room; False where there is none."""
        key = next((key for key in self._growing if self.desk.outbox.waiting(key) < AHEAD), None)
        if key is None:
            return False
        growth = self._growing.pop(key)  # and back at the end, so that the next one has its turn
        with contained(key, partial(self._again, key, LATE)):
            tally, taken = self.tallies[key], growth.take()
            for step in taken:
                if step.ref.namespace not in growth.overtaken:
                    self._step(growth, tally, step)
                elif isinstance(step.outcome, Delete | Release):  # judged anew at the end, and braked as a whole
                    growth.removals.append(step.outcome)
            if len(taken) == CHUNK:
                self._growing[key] = growth
            else:
                self._ripe(growth, tally)
        return True

    def _ripe(self, growth: Growth, tally: Tally) -> None:
        """The end of a large plan. Namespaces came and went while it was made: what is wanted now stays."""
        if (prepared := self._reader.prepared(growth.key)) is None:
            return
        case, want = prepared
        for namespace in growth.given_up(want):
            self._again(growth.key.part(namespace))
        growth.removals = still_due(case, want, growth.removals)
        tally.keep({copy.ref for copy in want.copies} | {barred.ref for barred in want.barred})
        self._finish(growth, tally)

    def _step(self, growth: Growth, tally: Tally, step: Step) -> None:
        tally.count(step)
        match step.outcome:
            case None | Blocked(reason="no-namespace"):
                self.desk.waits.forget(growth.key.whole, step.ref)
                self._sender.calm(step.ref)
            case Look(ref=ref):
                self._sender.look(ref, growth.key)
            case Blocked():
                pass
            case Delete() | Release() as removal:
                growth.removals.append(removal)
            case write:
                self._sender.offer(write, tally, growth.key.slice is not None)

    # the end of a plan

    def _finish(self, growth: Growth, tally: Tally) -> None:
        key, case = growth.key, growth.case
        if key.slice is None and case.source is not None:
            tally.counted = case.source.uid, case.source.generation
        paused = tally.paused_removals(key.slice)
        for removal in self._removals.allowed(key, case.source, growth.removals, growth.want.guard, paused):
            self._sender.offer(removal, tally, key.slice is not None)
        hold = self.desk.holds.held.get(key.whole)
        tally.hold(hold.refs if hold is not None else frozenset())
        if growth.want.recheck is not None:
            self._again(key, growth.want.recheck)
        if case.source is not None and case.source.deleting and growth.want.guard in case.source.finalizers:
            self._again(key.whole, STAYS)
        self.desk.news.planned(key, growth.want, tally, hold)
        self._reports.touched(key)
        if not tally.names and not growth.removals and case.source is None:
            self.tallies.pop(key.whole, None)
            if key.slice is None or not self.desk.cache.count(key.whole):  # a slice says nothing of the others' hold
                self._removals.forget(key.whole)
