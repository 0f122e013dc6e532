"""Reads only what decides about one address: the sources that may want it, the object there, and its namespace.

If the object is an annotated source itself, all namespaces and the objects of its kind and name are read too, because
its copies are among these.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property
from typing import Any, TypeVar

from samara.core.metadata_keys import PAUSED
from samara.core.model import NAMESPACE, Key, Kind, Object, Ref, namespace_ref
from samara.core.policy import ClusterPolicy, is_paused
from samara.core.registry import Registry
from samara.core.writes import Plan
from samara.kube.answers import NO_READINGS
from samara.kube.cache import Cache
from samara.kube.client import METADATA_LIST, Client
from samara.kube.codec import Codec
from samara.kube.errors import Gone, Unreachable
from samara.kube.reflector import Ingest, pages
from samara.kube.snapshot import ReadPaths, Snapshot, fetched_ahead, list_kind

_PAGE_SIZE = "5000"
"""Metadata is small, so fewer and larger pages are quicker."""
_MAX_LISTS = 5
"""How often a list is tried whose pages expire while they are read."""
T = TypeVar("T")


class PartialCache(Cache):
    """A cache that holds only some addresses. It notes the others that a plan asks for.

    Lists, such as all copies of a source, contain only what was read. So a plan over this cache is right only for the
    addresses that were read.
    """

    def __init__(self, registry: Registry, **more: Any) -> None:
        super().__init__(registry, **more)
        self._known: set[Ref] = set()
        self._known_names: set[tuple[Kind, str]] = set()
        self._known_kinds: set[Kind] = set()
        self.missed: dict[Ref, None] = {}
        """The addresses that were asked for and have not been read."""
        self.missed_claims = False
        """True if the sources of another address were asked for. Those have not been listed."""

    def get(self, ref: Ref) -> Object | None:
        obj = super().get(ref)
        if obj is None:
            self._note(ref)
        return obj

    def exists_unread(self, ref: Ref) -> bool:
        self._note(ref)
        return super().exists_unread(ref)

    def claimants(self, ref: Ref) -> Iterable[Key]:
        self.missed_claims |= (ref.kind, ref.name) not in self._known_names
        return super().claimants(ref)

    def has_synced(self, kind: Kind) -> bool:
        """True also if only some objects of a kind were read, because the others are read when they matter."""
        return super().has_synced(kind) if kind in self.registry.resources else kind in self.stores

    def note_read(self, refs: Iterable[Ref]) -> None:
        """These addresses have been read, whether an object is there or not."""
        for ref in refs:
            self._known.add(ref)
            self.missed.pop(ref, None)

    def note_names_listed(self, kind: Kind, name: str) -> None:
        """All objects of this name have been listed."""
        self._known_names.add((kind, name))

    def note_kind_listed(self, kind: Kind) -> None:
        self._known_kinds.add(kind)

    def _note(self, ref: Ref) -> None:
        is_known = ref in self._known or (ref.kind, ref.name) in self._known_names or ref.kind in self._known_kinds
        if not is_known and ref.kind in self.stores:
            self.missed[ref] = None


class OneAddress:
    """What decides about one address, and the plans of its sources for the namespace of the address."""

    def __init__(
        self, client: Client, registry: Registry, operator_namespace: str, read_paths: ReadPaths, ref: Ref
    ) -> None:
        codec = Codec(registry.managers)
        self._ref = ref
        self._is_source = False
        """True if the object is a source that makes copies."""
        self._cache = PartialCache(registry, build_content=codec.content, readings=NO_READINGS, keep_bytes=True)
        self.snapshot = Snapshot(client, codec, self._cache, operator_namespace, read_paths)

    async def read(self) -> None:
        """Reads the namespace, the object, and every source that may want the address. Of a source also its copies."""
        registry, kind = self._cache.registry, self._ref.kind
        await self._read((namespace_ref(self._ref.namespace), self._ref))
        for source_type in registry.source_types:
            resource = source_type.resource
            if resource is not None and kind in source_type.kinds and not self._cache.has_synced(resource):
                await self._list_kind(resource)
        self._is_source = await self._makes_copies()
        if self._is_source:
            await self._list_kind(NAMESPACE)
            await self._retried(self._list_objects)
        else:
            # Only metadata is listed, because nearly all of these objects are copies. They are not read.
            await self._read(await self._retried(self._list_sources))
        self._cache.note_names_listed(kind, self._ref.name)

    async def plan(self, rules: ClusterPolicy) -> dict[Key, Plan] | None:
        """The plan of every source that may want the address, or that the object there names, for this namespace. The
        plan of the object itself is for all namespaces.

        It is made again until it asks for no address that has not been read. None if it depends on more than this
        reads: the sources of another address, for example.
        """
        if self._is_source and not self._copies_have_its_name():
            return None
        while True:
            keys = [self._part(key) for key in self._keys()]
            self._cache.missed.clear()
            plans = await self.snapshot.plans(rules, keys)
            if self._cache.missed_claims or self.snapshot.unlisted:
                return None
            if not self._cache.missed:
                return {key.all_namespaces: plan for key, plan in plans.items()}
            await self._read(self._cache.missed)

    def _part(self, key: Key) -> Key:
        is_all_read = self._is_source and key.source == self._ref
        return key if is_all_read else self._cache.registry.part(key, self._ref.namespace)

    def _copies_have_its_name(self) -> bool:
        registry = self._cache.registry
        places = (registry[key.source_type].addresses(key.source, self._cache) for key in self._sources_here())
        return all(place is not None and place.target == (self._ref.kind, self._ref.name) for place in places)

    async def _makes_copies(self) -> bool:
        """True if the object is a source itself. The end of a chain, with no namespace below it, makes no copies."""
        for key in self._sources_here():
            places = self._cache.registry[key.source_type].addresses(key.source, self._cache)
            if places is None or not places.below or await self._is_parent(places.below):
                return True
        return False

    async def _is_parent(self, namespace: str) -> bool:
        """True if a label of another Namespace names this one as that from which it inherits."""
        source_types = self._cache.registry.source_types
        hierarchies = (source_type.hierarchy for source_type in source_types if source_type.hierarchy is not None)
        for label in {label for hierarchy in hierarchies for label in hierarchy.labels}:
            query = {"labelSelector": f"{label}={namespace}", "limit": "1"}
            async for page in pages(self.snapshot.client, NAMESPACE, METADATA_LIST, query):
                if page.items:
                    return True
        return False

    def _keys(self) -> Iterable[Key]:
        live = self._cache.get(self._ref)
        owner = None if live is None else self._cache.owner(live)
        own = self._sources_here() if self._is_source else ()
        return dict.fromkeys((*self._cache.claimants(self._ref), *own, *(() if owner is None else (owner,))))

    def _sources_here(self) -> tuple[Key, ...]:
        """The keys for which the object is a source."""
        live = self._cache.get(self._ref)
        return () if live is None else tuple(self._cache.registry.sources(live, self._cache))

    async def _read(self, refs: Iterable[Ref]) -> None:
        refs = tuple(refs)
        await self.snapshot.read_all(refs)
        self._cache.note_read(refs)

    async def _list_kind(self, kind: Kind) -> None:
        await list_kind(self.snapshot, kind)
        self._cache.note_kind_listed(kind)

    async def _retried(self, read_list: Callable[[], Awaitable[T]]) -> T:
        for _ in range(_MAX_LISTS):
            try:
                return await read_list()
            except Gone:
                continue  # reading the pages took too long
        raise Unreachable(f"the list of {self._ref.kind} expired {_MAX_LISTS} times before its last page")

    async def _list_sources(self) -> list[Ref]:
        """The objects with the kind and name of the address whose labels or annotations may request a copy of it."""
        kind, sources = self._ref.kind, list[Ref]()
        ingest = Ingest(kind, self._cache, self.snapshot.codec)
        query = {**self._of_this_name, "limit": _PAGE_SIZE}
        async for page in pages(self.snapshot.client, kind, METADATA_LIST, query):
            for raw in page.items or ():
                ref = ingest.envelope(raw).ref
                if self._requests.search(raw) and self._matters(self.snapshot.codec.object(kind, raw)):
                    sources.append(ref)
                elif ref != self._ref:
                    self._cache.note_ignored(ref)
        return sources

    async def _list_objects(self) -> None:
        """Reads the objects with the kind and name of the address: the copies of the source there, and its rivals."""
        ingest = Ingest(self._ref.kind, self._cache, self.snapshot.codec)
        async for page in fetched_ahead(pages(self.snapshot.client, self._ref.kind, query=self._of_this_name)):
            for raw in page.items or ():
                ingest.take(raw, ingest.envelope(raw))

    @property
    def _of_this_name(self) -> dict[str, str]:
        return {"fieldSelector": f"metadata.name={_escaped(self._ref.name)}"}

    @cached_property
    def _requests(self) -> re.Pattern[bytes]:
        """Matches the bytes of every object that may be a source, or that was one and is paused."""
        keys = {PAUSED}.union(*(source_type.source.metadata_keys for source_type in self._cache.registry.source_types))
        return re.compile(b"|".join(re.escape(key.encode()) for key in sorted(keys)))

    def _matters(self, obj: Object) -> bool:
        """True for a source, unless it copies only into namespaces below its own and this is not one of them."""
        cache, registry = self._cache, self._cache.registry
        namespace = cache.get(namespace_ref(self._ref.namespace))
        above = () if namespace is None else registry.parents(namespace)
        keys = registry.sources(obj, cache)
        addresses = (registry[key.source_type].addresses(key.source, cache) for key in keys)
        is_near = any(places is not None and (not places.below or places.below in above) for places in addresses)
        return is_near or is_paused(obj)


def _escaped(name: str) -> str:
    """A name as a field selector writes it."""
    return name.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
