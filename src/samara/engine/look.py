"""Reads single places that a plan must see first, or that were not as planned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from samara import log
from samara.core.model import Key, Ref
from samara.kube.cache import Cache, Change
from samara.kube.client import Client, address
from samara.kube.codec import MALFORMED, Codec
from samara.kube.errors import NotFound, SamaraError

_AT_ONCE = 8
_AFTER_FAILURE = 5.0
_AHEAD = 0.1
"""What is newer than the watch may be made of a newer source: the watch gets time to tell of that one first."""


class Desk(Protocol):
    @property
    def client(self) -> Client: ...
    @property
    def codec(self) -> Codec: ...
    @property
    def cache(self) -> Cache: ...


class Looker:
    """One read per place at a time, however many ask; then the slices that asked are planned again."""

    def __init__(self, desk: Desk, again: Callable[[Key, float], None]) -> None:
        self._desk = desk
        self._again = again
        self.told: Callable[[Change, float], None] = lambda change, delay: None
        """Takes what a look has changed in the cache: when the watch tells of it, that is no news any more."""
        self._asked: dict[Ref, set[Key]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    @property
    def looking(self) -> int:
        """How many reads are due; those that wait for their time are not."""
        return len(self._asked)

    def start(self, group: asyncio.TaskGroup, ref: Ref, key: Key, delay: float = 0.0) -> None:
        if delay:
            group.create_task(self._later(group, ref, key, delay))
            return
        if ref not in self._asked:
            group.create_task(self._look(ref))
        self._asked.setdefault(ref, set()).add(key.part(ref.namespace) if ref.namespace else key)

    async def _later(self, group: asyncio.TaskGroup, ref: Ref, key: Key, delay: float) -> None:
        """Each sleeps for itself: what one source has to wait for is nothing to another that asks for the place."""
        await asyncio.sleep(delay)
        self.start(group, ref, key)

    async def _look(self, ref: Ref) -> None:
        async with self._room:
            try:
                delay = await self._read(ref)
            except (SamaraError, *MALFORMED) as fault:
                log.debug("look.failed", at=ref, fault=type(fault).__name__)
                delay = _AFTER_FAILURE
        for key in self._asked.pop(ref):
            self._again(key, delay)

    async def _read(self, ref: Ref) -> float:
        """Reads a place into the cache; returns after how long to plan with it."""
        before = self._desk.cache.get(ref)
        try:
            raw = await self._desk.client.get(address(ref))
        except NotFound:
            self._desk.cache.note_absent(ref)
            if before is not None:  # this uid never comes back, whatever the watch has still to say of it
                self._tell(self._desk.cache.remove_deleted(before), 0.0)
            return 0.0
        cache, found = self._desk.cache, self._desk.codec.object(ref.kind, raw)
        ahead = not cache.watch_passed(ref.kind, found.version)
        delay = _AHEAD if ahead else 0.0
        if cache.get(ref) is not None or cache.taken(ref) or ahead:  # else the watch has meanwhile told that it is gone
            self._tell(cache.put(found), delay)
        return delay

    def _tell(self, change: Change | None, delay: float) -> None:
        if change is not None:
            self.told(change, delay)
