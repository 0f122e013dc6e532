"""The cluster at one moment: every kind listed once into a cache, as the watch fills it, and planned from there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from samara.core.allow import Rules
from samara.core.compare import is_marked_by_us
from samara.core.model import NAMESPACE, Key, Kind, Object, Ref
from samara.core.plan import plan
from samara.core.reads import Absence, Definition, Read, Reading, SecretPath, Standing, Trial, Unreadable, Word
from samara.core.table import Table
from samara.core.write import Plan
from samara.kube.cache import Cache, KindStore, address_hash
from samara.kube.client import METADATA_LIST, Client, address
from samara.kube.codec import Codec
from samara.kube.errors import Forbidden, Gone, NotFound, SamaraError, Unreachable
from samara.kube.ingest import Changed, Ingest, pages
from samara.kube.queries import confirm_gone, crd_established, dry_run_create, namespace_alive, owner_annotation

_LISTS = 5
"""A list whose pages have expired is begun again, at most this often."""
_ROUNDS = 10
"""A look settles its place; a plan that still has one after this many rounds is not worth waiting for."""
_AT_ONCE = 8

ReadPaths = Callable[[Collection[SecretPath]], Awaitable[Mapping[str, Reading]]]
"""Asks the secret manager once for these paths; one that cannot be read is a reading that says why."""


async def unread(paths: Collection[SecretPath]) -> dict[str, Reading]:
    """Where nobody asks the secret manager."""
    fault = Unreadable("TokenError", "the secret manager has not been asked")
    return {each.path: Reading(fault=fault) for each in paths}


@dataclass(slots=True)
class Snapshot:
    """What was listed. `cache` answers as the operator's own would."""

    client: Client
    codec: Codec
    cache: Cache
    home: str
    """The operator's own namespace, where the server is asked what it would make of an object."""
    read_paths: ReadPaths = unread
    marked: dict[Ref, Object] = field(default_factory=dict)
    """Every object that carries a mark of any dialect, whether the dialect recognises it or not."""
    unknown: dict[Kind, str] = field(default_factory=dict)
    """The kinds that could not be listed, and what the server said; not those of custom resources it does not serve."""

    async def plans(self, rules: Rules, keys: Iterable[Key] | None = None) -> dict[Key, Plan]:
        """What these keys need, or all; the places that a plan must see first are read, and it is made again."""
        made: dict[Key, Plan] = {}
        todo = set(self.keys() if keys is None else keys)
        for _ in range(_ROUNDS):
            made |= {key: plan(key, self.cache, self.cache.table, rules) for key in todo}
            todo = {key for key in todo if made[key].looks or made[key].reads}
            if not todo:
                return {key: made[key] for key in sorted(made, key=str)}
            await self.look(look.ref for key in todo for look in made[key].looks)
            await self._try(read for key in todo for read in made[key].reads)
        raise Unreachable("the cluster changes faster than it can be read; try again")

    def keys(self) -> Iterable[Key]:
        """Every source but the ends of chains, and every source that a copy names."""
        for dialect in self.cache.table.dialects:
            keys = (Key(dialect.name, source) for source in self.cache.sources(dialect.name))
            yield from (key for key in keys if not self.cache.is_idle(key))
        yield from self.cache.marked_sources()

    async def look_for_marks(self, kinds: Collection[Kind]) -> None:
        """Notes what carries a mark of ours among kinds that nobody serves; of their objects only metadata is read.

        Marks alone say nothing there: controllers give what they make the labels of what they make it from.
        """
        for kind in kinds:
            self.cache.stores[kind] = KindStore()
            try:
                await _Lister(self, kind, METADATA_LIST).run()
            except SamaraError as fault:
                self.unknown[kind] = str(fault)
        dialects = self.cache.table.dialects
        others = [ref for ref in self.marked if ref.kind in set(kinds)]
        for ref in others:
            if not any(is_marked_by_us(self.marked[ref], each) for each in dialects):
                del self.marked[ref]

    async def look(self, refs: Iterable[Ref]) -> None:
        room = asyncio.Semaphore(_AT_ONCE)

        async def one(ref: Ref) -> None:
            async with room:
                found = await self.read(ref)
            if found is None:
                self.cache.note_absent(ref)
            else:
                self.cache.put(found)

        await asyncio.gather(*(one(ref) for ref in dict.fromkeys(refs)))

    async def _try(self, reads: Iterable[Read]) -> None:
        asked = dict.fromkeys(reads)
        paths = [read for read in asked if isinstance(read, SecretPath)]
        if paths:
            answers = self.cache.answers
            answers.readings = {**answers.readings, **await self.read_paths(paths)}
        for read in asked:
            if isinstance(read, Trial):
                self.cache.answers.keep(read, await dry_run_create(self.client, self.codec, self.home, read))
            elif isinstance(read, Absence):
                self.cache.answers.keep(read, await confirm_gone(self.client, self.codec, self.cache, read))
            elif isinstance(read, Definition):
                self.cache.answers.keep(read, await self._stands(read))
            elif isinstance(read, Standing):
                self.cache.answers.keep(read, await namespace_alive(self.client, read))
            elif isinstance(read, Word):
                self.cache.answers.keep(read, await owner_annotation(self.client, read))

    async def _stands(self, asked: Definition) -> bool:
        """Whoever may list the objects and not read their definition is told what follows where it stands."""
        try:
            return await crd_established(self.client, asked)
        except Forbidden:
            return True

    async def read(self, ref: Ref) -> Object | None:
        """One object as it is at this moment."""
        try:
            return self.codec.object(ref.kind, await self.client.get(address(ref)))
        except NotFound:
            return None


async def take(
    client: Client,
    table: Table,
    home: str,
    read_paths: ReadPaths = unread,
    begun: Callable[[Kind], None] = lambda kind: None,
) -> Snapshot:
    """Lists every kind of the table once, consistently; a kind that the server does not know is noted."""
    codec = Codec(table.managers)
    shot = Snapshot(client, codec, Cache(table, built=codec.content, keep_bytes=True), home, read_paths)
    for kind in table.kinds:
        begun(kind)
        try:
            await _Lister(shot, kind).run()
        except (NotFound, Forbidden) as fault:
            if kind == NAMESPACE:
                raise
            if isinstance(fault, Forbidden) or kind not in table.always_read:  # nobody need install what nobody uses
                shot.unknown[kind] = str(fault)
    return shot


class _Lister:
    """Reads one kind in pages, and notes what carries a mark."""

    def __init__(self, shot: Snapshot, kind: Kind, accept: str = "") -> None:
        self._shot = shot
        self._kind = kind
        self._accept = accept
        self._ingest = Ingest(kind, shot.cache, shot.codec)
        self._marks = frozenset().union(*(dialect.marks for dialect in shot.cache.table.dialects))

    async def run(self) -> None:
        for _ in range(_LISTS):
            try:
                self._shot.cache.finish_list(self._kind, await self._pages())
                return
            except Gone:
                continue  # the pages took too long: the list begins again
        raise Unreachable(f"the list of {self._kind} expired {_LISTS} times before its last page")

    async def _pages(self) -> set[int]:
        read = pages(self._shot.client, self._kind, self._accept)
        found = [self._take(raw) async for page in read for raw in page.items or ()]
        return set(map(address_hash, found))

    def _take(self, raw: msgspec.Raw) -> Ref:
        envelope = self._ingest.envelope(raw)
        result = self._ingest.take(raw, envelope)
        if isinstance(result, Changed) and not self._marks.isdisjoint((*result.obj.labels, *result.obj.annotations)):
            self._shot.marked[envelope.ref] = result.obj
        return envelope.ref
