"""Asks the dialects about a change, and before it refuses looks with its own eyes: a lagging cache refuses nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from samara import log
from samara.core.admit import Request
from samara.core.match import Names
from samara.core.model import NAMESPACE, Content, Key, Kind, Object, Ref
from samara.core.view import View
from samara.core.want import UNREAD, Dialect, Read, Trial
from samara.kube.client import Client, address
from samara.kube.codec import Codec
from samara.kube.errors import Forbidden, NotFound
from samara.kube.trial import tried

ROUNDS = 3
"""How often a dialect is asked again because it looked at something new."""


class Noting:
    """A view for one question: notes what is looked at, and answers with what was read since."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.refs: set[Ref] = set()
        self.trials: set[Trial] = set()
        self.read: set[Ref] = set()
        """What the server was asked for, with success or without the right to."""
        self.live: dict[Ref, Object | None] = {}
        self.values: dict[Trial, object] = {}

    def get(self, ref: Ref) -> Object | None:
        self.refs.add(ref)
        return self.live[ref] if ref in self.live else self._view.get(ref)

    def taken(self, ref: Ref) -> bool:
        self.refs.add(ref)
        return ref not in self.live and self._view.taken(ref)

    def all(self, kind: Kind) -> Iterable[Object]:
        read = [obj for ref, obj in self.live.items() if ref.kind == kind and obj is not None]
        return [*(obj for obj in self._view.all(kind) if obj.ref not in self.live), *read]

    def namespaces(self, listed: Names | None = None) -> Iterable[str]:
        if listed is not None:
            return self._view.namespaces(listed)
        return [obj.ref.name for obj in self.all(NAMESPACE)]

    def sources(self, dialect: str) -> Iterable[Ref]:
        return self._view.sources(dialect)

    def copies_of(self, key: Key) -> Iterable[Object]:
        return self._view.copies_of(key)

    def claims(self, kind: Kind, name: str) -> Iterable[Key]:
        return self._view.claims(kind, name)

    def known(self, kind: Kind) -> bool:
        return self._view.known(kind)

    def value(self, read: Read) -> object:
        if not isinstance(read, Trial):
            return self._view.value(read)
        self.trials.add(read)
        return self.values[read] if read in self.values else self._view.value(read)

    def stands_for(self, kind: Kind, sent: Content, stored: Content) -> bool:
        return self._view.stands_for(kind, sent, stored)

    def content(self, kind: Kind, fields: Mapping[str, object]) -> Content | None:
        return self._view.content(kind, fields)

    def untried(self) -> list[Trial]:
        """Trials whose answer nobody knows."""
        return [trial for trial in self.trials if self.value(trial) is UNREAD]


@dataclass(frozen=True, slots=True)
class Judge:
    """Asks; reads live what an answer rests on; asks again."""

    view: View
    client: Client
    codec: Codec
    home: str

    async def faults(self, request: Request, dialects: Iterable[Dialect]) -> tuple[str, ...]:
        """All faults of all dialects, each once. Raises where the server cannot be asked."""
        noting, asked = Noting(self.view), tuple(dialects)
        faults = await self._asked(request, asked, noting)
        for _ in range(ROUNDS):
            refs, trials = noting.refs - noting.read, noting.trials - noting.values.keys()
            if not faults or not (refs or trials):
                break
            await asyncio.gather(*(self._read(ref, noting) for ref in refs), *(self._try(t, noting) for t in trials))
            faults = await self._asked(request, asked, noting)
        return faults

    async def _asked(self, request: Request, dialects: tuple[Dialect, ...], noting: Noting) -> tuple[str, ...]:
        """One answer, with every trial performed that it asks for."""
        for _ in range(ROUNDS):
            found = [fault for each in dialects if each.admit is not None for fault in each.admit(request, noting)]
            untried = noting.untried()
            if not untried:
                break
            await asyncio.gather(*(self._try(trial, noting) for trial in untried))
        return tuple(dict.fromkeys(found))

    async def _read(self, ref: Ref, noting: Noting) -> None:
        noting.read.add(ref)
        try:
            noting.live[ref] = self.codec.object(ref.kind, await self.client.get(address(ref)))
        except NotFound:
            noting.live[ref] = None
        except Forbidden:  # we may watch this kind and not read it: what the watch told is all we have
            log.debug("admission.not-read", at=ref)

    async def _try(self, trial: Trial, noting: Noting) -> None:
        noting.values[trial] = await tried(self.client, self.codec, self.home, trial)
