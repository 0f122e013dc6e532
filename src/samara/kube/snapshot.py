"""Lists the cluster once, for commands. It fills a cache as the reflectors do, and makes plans from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from samara.core.model import NAMESPACE, Key, Kind, Object, Ref
from samara.core.ownership import is_recorded
from samara.core.plan import plan
from samara.core.policy import ClusterPolicy
from samara.core.queries import (
    CrdExists,
    DryRunCreate,
    IsGone,
    NamespaceIsActive,
    OwnerAnnotation,
    Query,
    SecretPath,
    SecretReading,
)
from samara.core.registry import Registry
from samara.core.writes import Plan
from samara.kube.answers import NO_READINGS
from samara.kube.cache import Cache, address_hash
from samara.kube.client import METADATA_LIST, Client
from samara.kube.codec import Codec
from samara.kube.errors import Forbidden, Gone, NotFound, SamaraError, Unreachable
from samara.kube.queries import crd_established, dry_run_create, namespace_alive, owner_annotation, read_object
from samara.kube.reflector import Changed, Ingest, pages

_MAX_LISTS = 5
"""How often a list is begun again because its pages expired while they were read."""
_MAX_ROUNDS = 10
"""Each round answers all queries of the plans. Planning fails if there are new queries after this many rounds."""
_CONCURRENCY = 8
T = TypeVar("T")

ReadPaths = Callable[[Collection[SecretPath]], Awaitable[Mapping[str, SecretReading]]]
"""Reads these paths from the secret manager once. The reading of an unreadable path has a `fault`."""
OnRead = Callable[[Kind, int], None]
"""Called before each list and after each of its pages, with the number of objects so far, to show progress."""


@dataclass(slots=True)
class Snapshot:
    """The listed cluster. Its `cache` answers as the operator's own cache would."""

    client: Client
    codec: Codec
    cache: Cache
    operator_namespace: str
    """Dry runs create objects here."""
    read_paths: ReadPaths
    marked: dict[Ref, Object] = field(default_factory=dict)
    """Every object with a mark of any source type, even if that type does not count it as a copy."""
    unmarked: dict[Ref, Object] = field(default_factory=dict)
    """Every object without a mark that managedFields say Samara has written: another client removed its marks."""
    unlisted: dict[Kind, str] = field(default_factory=dict)
    """The kinds that could not be listed, and why. Custom resources that the API server does not serve are left out."""
    undefined: dict[Kind, str] = field(default_factory=dict)
    """The custom resources that the API server does not serve, and its answer. Nothing of them exists."""

    async def plans(
        self,
        policy: ClusterPolicy,
        keys: Iterable[Key] | None = None,
        on_plan: Callable[[int, int], None] | None = None,
    ) -> dict[Key, Plan]:
        """Plans these keys, or all. Reads what a plan needs first, and then plans its key again.

        `on_plan` is called before each plan with its number and the number of all.
        """
        plans: dict[Key, Plan] = {}
        pending = set(self.keys() if keys is None else keys)
        for _ in range(_MAX_ROUNDS):
            for number, key in enumerate(pending, 1):
                if on_plan is not None:
                    on_plan(number, len(pending))
                plans[key] = plan(key, self.cache, self.cache.registry, policy)
            pending = {key for key in pending if plans[key].read_first or plans[key].queries}
            if not pending:
                return {key: plans[key] for key in sorted(plans, key=str)}
            await self.read_all(step.ref for key in pending for step in plans[key].read_first)
            await self._answer_all(query for key in pending for query in plans[key].queries)
        raise Unreachable("the cluster changes faster than it can be read; try again")

    def keys(self) -> Iterable[Key]:
        """Every source except the ends of chains, and every source that a copy names."""
        for source_type in self.cache.registry.source_types:
            keys = (Key(source_type.name, source) for source in self.cache.sources(source_type.name))
            yield from (key for key in keys if not self.cache.is_idle(key))
        yield from self.cache.marked_sources()

    async def look_for_marks(self, kinds: Collection[Kind], on_read: OnRead | None = None) -> None:
        """Adds to `marked` objects of kinds that are not in the settings. Only metadata is read.

        A mark counts there only if managedFields say that Samara set it: controllers copy the labels of an object to
        objects that they create from it.
        """
        for kind in kinds:
            self.cache.add_kind(kind)
            try:
                await _Lister(self, kind, METADATA_LIST, on_read).run()
            except SamaraError as fault:
                self.unlisted[kind] = str(fault)
        source_types = self.cache.registry.source_types
        candidates = [ref for ref in self.marked if ref.kind in set(kinds)]
        for ref in candidates:
            if not any(is_recorded(self.marked[ref], source_type.ownership) for source_type in source_types):
                del self.marked[ref]

    async def read_all(self, refs: Iterable[Ref]) -> None:
        """Reads single objects into the cache."""
        limit = asyncio.Semaphore(_CONCURRENCY)

        async def read_one(ref: Ref) -> None:
            async with limit:
                obj = await self.read(ref)
            if obj is None:
                self.cache.note_absent(ref)
            else:
                self.cache.put(obj)

        await asyncio.gather(*(read_one(ref) for ref in dict.fromkeys(refs)))

    async def _answer_all(self, queries: Iterable[Query]) -> None:
        unique = dict.fromkeys(queries)
        paths = [query for query in unique if isinstance(query, SecretPath)]
        if paths:
            self.cache.answers.add_readings(await self.read_paths(paths))
        for query in unique:
            if not isinstance(query, SecretPath):
                self.cache.answers.keep(query, await self._answer(query))

    async def _answer(self, query: Query) -> object:
        match query:
            case CrdExists():
                return await self._crd_established(query)
            case IsGone():
                obj = await self.read(query.ref)
                if obj is not None:
                    self.cache.put_unlisted(obj)
                return obj is None
            case NamespaceIsActive():
                return await namespace_alive(self.client, query)
            case OwnerAnnotation():
                return await owner_annotation(self.client, query)
            case DryRunCreate():
                return await dry_run_create(self.client, self.codec, self.operator_namespace, query)
            case _:
                raise TypeError(f"expected a question to the API server, found {type(query).__name__}")

    async def _crd_established(self, query: CrdExists) -> bool:
        """True also if the user may not read the CRD, since its objects could be listed."""
        try:
            return await crd_established(self.client, query)
        except Forbidden:
            return True

    async def read(self, ref: Ref) -> Object | None:
        """The current object from the API server, or None."""
        return await read_object(self.client, self.codec, ref)


async def list_cluster(
    client: Client,
    registry: Registry,
    operator_namespace: str,
    read_paths: ReadPaths,
    on_read: OnRead,
) -> Snapshot:
    """Lists every kind of the registry once."""
    codec = Codec(registry.managers)
    cache = Cache(registry, build_content=codec.content, readings=NO_READINGS, keep_bytes=True)
    snapshot = Snapshot(client, codec, cache, operator_namespace, read_paths)
    for kind in registry.kinds:
        await list_kind(snapshot, kind, on_read)
    return snapshot


async def list_kind(snapshot: Snapshot, kind: Kind, on_read: OnRead | None = None) -> None:
    """Lists one kind into the snapshot, or notes why it cannot be listed."""
    try:
        await _Lister(snapshot, kind, on_read=on_read).run()
    except (NotFound, Forbidden) as fault:
        if kind == NAMESPACE:
            raise
        snapshot.cache.set_served(kind, False)
        is_missing_crd = isinstance(fault, NotFound) and kind in snapshot.cache.registry.always_cached
        (snapshot.undefined if is_missing_crd else snapshot.unlisted)[kind] = str(fault)


class _Lister:
    """Lists one kind into the cache, and notes objects with marks."""

    def __init__(self, snapshot: Snapshot, kind: Kind, accept: str = "", on_read: OnRead | None = None) -> None:
        self._snapshot = snapshot
        self._kind = kind
        self._accept = accept
        self._on_read = on_read
        self._ingest = Ingest(kind, snapshot.cache, snapshot.codec)
        self._marks = frozenset().union(
            *(source_type.ownership.marks for source_type in snapshot.cache.registry.source_types)
        )

    async def run(self) -> None:
        for _ in range(_MAX_LISTS):
            try:
                self._snapshot.cache.finish_list(self._kind, await self._pages())
                return
            except Gone:
                continue  # reading the pages took too long
        raise Unreachable(f"the list of {self._kind} expired {_MAX_LISTS} times before its last page")

    async def _pages(self) -> set[int]:
        read = pages(self._snapshot.client, self._kind, self._accept)
        present: set[int] = set()
        self._show_progress(0)
        async for page in fetched_ahead(read):
            present.update(address_hash(self._take(raw)) for raw in page.items or ())
            self._show_progress(len(present))
        return present

    def _show_progress(self, count: int) -> None:
        if self._on_read is not None:
            self._on_read(self._kind, count)

    def _take(self, raw: msgspec.Raw) -> Ref:
        envelope = self._ingest.envelope(raw)
        result = self._ingest.take(raw, envelope)
        if isinstance(result, Changed):
            self._note(result.obj)
        return envelope.ref

    def _note(self, obj: Object) -> None:
        """Keeps an object that is a copy, or was one."""
        if not self._marks.isdisjoint((*obj.labels, *obj.annotations)):
            self._snapshot.marked[obj.ref] = obj
        elif obj.known_copy and obj.ref.namespace and self._kind not in self._snapshot.cache.registry.always_cached:
            self._snapshot.unmarked[obj.ref] = obj


async def fetched_ahead(items: AsyncIterator[T]) -> AsyncIterator[T]:
    """The same items. While the caller works on one, the server already prepares the next."""
    following = asyncio.ensure_future(anext(items, None))
    try:
        while (item := await following) is not None:
            following = asyncio.ensure_future(anext(items, None))
            await asyncio.sleep(0)  # sends the request, as the caller does not await
            yield item
    finally:
        following.cancel()
