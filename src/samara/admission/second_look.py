"""Asks the dialects about a change, and before it refuses looks with its own eyes: a lagging cache refuses nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from samara import log
from samara.core.admit import Request
from samara.core.match import Names, is_label_value
from samara.core.model import NAMESPACE, Kind, Object, Ref
from samara.core.reads import UNREAD, Read, Trial
from samara.core.view import Through, View
from samara.core.want import Dialect
from samara.kube.client import Client, address, collection
from samara.kube.codec import Codec
from samara.kube.errors import Forbidden, NotFound
from samara.kube.trial import tried

ROUNDS = 8
"""How often a dialect is asked again because it looked at something new: so far up it follows what the cache lacks."""
FEW = 2
"""How many Namespaces with a label are read: one is enough to refuse, but for one that hangs on itself."""
Label = tuple[str, str]
"""A key and a value."""


class Noting(Through):
    """A view for one question: notes what is looked at, and answers with what was read since."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.refs: set[Ref] = set()
        self.trials: set[Trial] = set()
        self.read: set[Ref] = set()
        """What the server was asked for, with success or without the right to."""
        self.live: dict[Ref, Object | None] = {}
        self.labels: set[Label] = set()
        self.listed: dict[Label, bool] = {}
        """Labels about which the server was asked: true where some that have one are in `live`, if there are any."""
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

    def labelled(self, label: str, value: str) -> Iterable[Object]:
        self.labels.add((label, value))
        read = [obj for obj in self.live.values() if obj is not None and obj.ref.kind == NAMESPACE]
        found = [obj for obj in read if obj.labels.get(label) == value]
        if self.listed.get((label, value)):
            return found
        return [*(obj for obj in self._view.labelled(label, value) if obj.ref not in self.live), *found]

    def value(self, read: Read) -> object:
        if not isinstance(read, Trial):
            return self._view.value(read)
        self.trials.add(read)
        return self.values[read] if read in self.values else self._view.value(read)

    def untried(self) -> list[Trial]:
        """Trials whose answer nobody knows."""
        return [trial for trial in self.trials if self.value(trial) is UNREAD]


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None


_items = msgspec.json.Decoder(_List).decode


@dataclass(frozen=True, slots=True)
class Judge:
    """Asks; reads live what an answer rests on; asks again."""

    view: View
    client: Client
    codec: Codec
    home: str

    async def faults(self, request: Request, dialects: Iterable[Dialect]) -> tuple[str, ...]:
        """All faults of all dialects, each once. Raises where the server cannot be asked."""
        noting, asked = Noting(self.view), tuple(each for each in dialects if request.operation in each.judged)
        faults = await self._asked(request, asked, noting)
        for _ in range(ROUNDS):
            looks = list(self._looks(noting)) if faults else []
            if not looks:
                break
            await asyncio.gather(*looks)
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

    def _looks(self, noting: Noting) -> Iterator[Coroutine[None, None, None]]:
        """Everything that was looked at and not read yet, also where nothing was found."""
        yield from [self._read(ref, noting) for ref in noting.refs - noting.read]
        yield from [self._list(label, noting) for label in noting.labels - noting.listed.keys()]
        yield from [self._try(trial, noting) for trial in noting.trials - noting.values.keys()]

    async def _list(self, label: Label, noting: Noting) -> None:
        noting.listed[label] = not is_label_value(label[1])  # of what no label can hold there is none
        if noting.listed[label]:
            return
        try:
            asked = {"labelSelector": "=".join(label), "limit": str(FEW)}
            raw = await self.client.get(collection(NAMESPACE), asked)
        except Forbidden:
            log.debug("admission.not-listed", label=label[0])
            return
        found = (self.codec.object(NAMESPACE, each) for each in _items(raw).items or ())
        noting.live |= {obj.ref: obj for obj in found}
        noting.listed[label] = True

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
