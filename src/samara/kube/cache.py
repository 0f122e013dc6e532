"""The operator's view of the cluster: relevant objects, and a hash of the address of every other object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf
from typing import NamedTuple
from weakref import WeakValueDictionary

from samara.core.kinds import rules_for
from samara.core.metadata_keys import ACCEPT
from samara.core.model import NAMESPACE, Content, Field, Key, Kind, Object, Ref, namespace_ref
from samara.core.names import NamespaceNames
from samara.core.near_misses import NearMiss, NearMissRules
from samara.core.ownership import is_recorded, is_removable
from samara.core.policy import consented_names, is_paused
from samara.core.queries import Query, SecretReading
from samara.core.registry import Registry
from samara.core.source_limits import size_of
from samara.core.source_type import Addresses
from samara.core.trust import ChosenLabel, Trust
from samara.kube.answers import Answers
from samara.kube.indexes import (
    ClaimIndex,
    CopyIndex,
    InputIndex,
    KindAndName,
    ListedNameIndex,
    NameIndex,
    RelationIndex,
    SizeIndex,
)

MOST_NEAR_MISSED = 2000
"""Objects whose near misses are kept, twice as many as get an Event at the same time. Clients can create any number."""


@dataclass(slots=True)
class KindStore:
    """The objects of one kind, and how far its watch is."""

    objects: dict[Ref, Object] = field(default_factory=dict)
    address_hashes: set[int] = field(default_factory=set)
    """The hashes of the addresses of objects that exist but are not kept."""
    tombstones: dict[Ref, str] = field(default_factory=dict)
    """The uids of objects that we deleted, until the watch has reported the deletion too."""
    version: int = 0
    """The newest resource version that the watch has reported."""
    listed: bool = False
    not_served: bool = False
    """True while the API server does not know the kind, or does not let us list it."""
    needs_relist: bool = False
    """True if a read returned an object that the last list did not contain."""
    absence_unproven_until: float = 0.0
    """By the loop's clock. Until then a missing object proves nothing."""


def address_hash(ref: Ref) -> int:
    """The namespace and the name of an object as one number, which is smaller than a `Ref`."""
    return hash((ref.namespace, ref.name))


def _indexed_fields(copy: Object) -> tuple[object, ...]:
    """The fields of a copy that the indexes depend on. A tuple compares identical values without looking into them."""
    return copy.labels, copy.annotations, copy.owner_references, copy.managed_keys


class NearMissed(NamedTuple):
    """An object with near misses. Unless the cache holds the object for another reason, this is all that it keeps."""

    uid: str
    misses: tuple[NearMiss, ...]


@lru_cache(maxsize=1024)
def _shared(misses: tuple[NearMiss, ...]) -> tuple[NearMiss, ...]:
    """The same tuple for equal ones: one mistake may be on thousands of objects."""
    return misses


class Change(NamedTuple):
    """An object before and after an event. `old` or `new` is None if the cache did not or does not keep the object."""

    ref: Ref
    old: Object | None
    new: Object | None
    rivals: tuple[Key, ...] = ()
    """If a source was added, changed or removed: the other sources that claim the same addresses."""


class Cache:
    """Implements `View` over what the reflectors observed. Nothing in it awaits, so a plan sees one state.

    Reflectors and the applier update it. It never deletes by itself and knows nothing of plans.
    """

    def __init__(
        self,
        registry: Registry,
        extra_kinds: tuple[Kind, ...] = (),
        *,
        build_content: Callable[[Mapping[str, object]], Content],
        readings: Mapping[str, SecretReading],
        keep_bytes: bool = False,
    ) -> None:
        """`build_content` builds content from fields, as `Codec.content` does."""
        self.registry = registry
        self._build_content = build_content
        self._keep_bytes = keep_bytes
        """True if the content of copies is needed, for a diff. The operator itself needs digests only."""
        self._contents: WeakValueDictionary[tuple[Field, ...], Content] = WeakValueDictionary()
        self.stores: dict[Kind, KindStore] = {kind: KindStore() for kind in (*registry.kinds, *extra_kinds)}
        sources: dict[str, dict[Ref, Addresses | None]] = {
            source_type.name: {} for source_type in registry.source_types
        }
        self._sources = sources
        # The lambda refers to `sources`, not to `self`, which would be a reference cycle.
        self.answers = Answers(lambda: sum(map(len, sources.values())), readings)
        self._claims = ClaimIndex()
        self._copies = CopyIndex()
        self._inputs = InputIndex()
        self._relations = RelationIndex(registry)
        self._listed = ListedNameIndex()
        self._consents = NameIndex()
        """The Namespaces by the names in their consent."""
        self._sizes = SizeIndex()
        self.near_miss_rules = NearMissRules(registry)
        self._near_missed: dict[Ref, NearMissed] = {}
        self._foreign_at_target: dict[KindAndName, set[Ref]] = {}
        """Foreign objects that are kept because a source claims their address."""

    # the view

    only_namespace: None = None

    def get(self, ref: Ref) -> Object | None:
        store = self.stores.get(ref.kind)
        return None if store is None else store.objects.get(ref)

    def exists_unread(self, ref: Ref) -> bool:
        store = self.stores.get(ref.kind)
        held = None if store is None else store.objects.get(ref)
        if held is not None:
            return not held.content.has_bytes and self._is_read_in_full(ref)
        return store is not None and address_hash(ref) in store.address_hashes

    def objects_of(self, kind: Kind) -> Iterable[Object]:
        return self.stores[kind].objects.values()

    def namespaces(self, listed: NamespaceNames | None = None) -> Iterable[str]:
        return listed.legal if listed is not None else [ref.name for ref in self.stores[NAMESPACE].objects]

    def namespaces_with_label(self, label: str, value: str) -> Iterable[Object]:
        return [self.stores[NAMESPACE].objects[ref] for ref in self._relations.with_label(label, value)]

    def sources(self, source_type: str, namespace: str | None = None) -> Iterable[Ref]:
        return self._sources[source_type] if namespace is None else self._relations.sources(source_type, namespace)

    def sources_targeting(self, source_type: str, namespace: str) -> Iterable[Ref]:
        return self._claims.pinned(source_type, namespace)

    def sources_naming(self, source_type: str, namespace: str) -> Iterable[Ref]:
        sources = self._listed.naming(source_type, namespace)
        return [source for source in sources if not self._sizes.excess(Key(source_type, source))]

    def trees_of(self, namespace: str) -> Iterable[str]:
        return self.registry.trees_of(namespace, self)

    def chosen_labels(self, namespace: Object, keys: Iterable[str]) -> Mapping[str, ChosenLabel]:
        return self.registry.chosen_labels_on(namespace, keys, self)

    def trust_in(self, name: str) -> Iterable[Trust]:
        return self.registry.trust_in(name, self, self._consents.naming(name))

    def is_trust_known(self) -> bool:
        return all(map(self.is_settled, self.registry.kinds_that_name))

    def excess(self, key: Key) -> str:
        return self._sizes.excess(key)

    def copies_of(self, key: Key) -> Iterator[Object]:
        return (obj for ref in self._copies.of(key) if (obj := self.get(ref)) is not None)

    def claimants(self, ref: Ref) -> Iterable[Key]:
        target = ref.kind, ref.name
        parents = self._parents(ref.namespace) if self._claims.has_claims_below(target) else ()
        return self._claims.at(target, ref.namespace, parents)

    def _parents(self, namespace: str) -> Iterable[str]:
        obj = self.stores[NAMESPACE].objects.get(namespace_ref(namespace))
        return () if obj is None else self.registry.parents(obj)

    def readers(self, ref: Ref) -> Iterable[Key]:
        return self._inputs.readers(ref)

    def owner(self, obj: Object) -> Key | None:
        return self.registry.owner(obj, self)

    def has_synced(self, kind: Kind) -> bool:
        """True if a kind was listed and is still served. Otherwise its CRD may be gone, with all its objects."""
        return kind in self.stores and self.stores[kind].listed and not self.stores[kind].not_served

    def is_settled(self, kind: Kind) -> bool:
        """True if a kind was listed, or cannot be listed."""
        return kind in self.stores and (self.stores[kind].listed or self.stores[kind].not_served)

    def answer(self, read: Query) -> object:
        return self.answers.value(read)

    def is_stored_form_of(self, kind: Kind, sent: Content, stored: Content) -> bool:
        return self.answers.is_admitted_form(kind, sent, stored)

    def canonical(self, kind: Kind, fields: Mapping[str, object]) -> Content | None:
        canonical = rules_for(kind).canonical
        stored = canonical(fields) if canonical is not None else None
        return None if stored is None else self._build_content(stored)

    # more questions

    def marked_sources(self) -> Iterable[Key]:
        """Every source that a copy names, whether the source exists or not."""
        return tuple(self._copies)

    def count(self, key: Key) -> int:
        """How many copies of a key's source exist. Objects with a forged mark do not count."""
        return self._copies.number_of(key)

    def count_in_namespace(self, namespace: str) -> int:
        """How many copies exist of the sources in one namespace, whatever their vocabulary."""
        return self._copies.number_of_sources_in(namespace)

    def rivals(self, ref: Ref) -> tuple[Key, ...]:
        """The sources that claim addresses of the source at `ref`."""
        claimed = [sources[ref] for sources in self._sources.values() if ref in sources]
        if not claimed:  # the common case: a copy
            return ()
        rivals = (key for addresses in claimed if addresses is not None for key in self._claims.overlapping(addresses))
        return tuple(key for key in rivals if key.source != ref)

    def is_idle(self, key: Key) -> bool:
        """True for a source at the end of a chain: it writes below its namespace, and no namespace is below."""
        addresses = self._sources[key.source_type].get(key.source)
        below = addresses.below if addresses is not None else ""
        return bool(below) and not self._relations.is_named(below) and key.all_namespaces not in self._copies

    def must_parse(self, ref: Ref) -> bool:
        """True if an object at this address must be parsed even without metadata of ours."""
        return (
            ref.kind in self.registry.always_cached
            or ref in self.stores[ref.kind].objects
            or (ref.kind, ref.name) in self._claims
            or ref in self._inputs
            or ref in self._near_missed
        )

    def with_near_misses(self) -> Iterable[Ref]:
        """The objects that had near misses when they were observed."""
        return tuple(self._near_missed)

    def has_near_misses(self, ref: Ref) -> bool:
        """True if the object had near misses when it was observed."""
        return ref in self._near_missed

    def near_misses(self, ref: Ref) -> NearMissed | None:
        """The near misses of an object now. Those of a copy depend on its source, so they are computed again."""
        obj = self.get(ref)
        if obj is None:
            return self._near_missed.get(ref)
        misses = self.near_miss_rules.of_object(obj, self)
        return NearMissed(obj.uid, misses) if misses else None

    # changes

    def put(self, obj: Object) -> Change | None:
        """Takes an object from the API server. None if it was deleted by us, or is not newer than the kept one."""
        store = self.stores[obj.ref.kind]
        if store.tombstones.get(obj.ref) == obj.uid:
            return None
        old = store.objects.get(obj.ref)
        if old is not None and old.resource_version >= obj.resource_version and not self._completes(old, obj):
            return None
        if old is not None and old.uid == obj.uid and not obj.known_copy and self.registry.is_copy(old, self):
            obj = replace(obj, known_copy=True)  # removing our marks does not release a copy
        if old is not None and self._has_same_index_entries(old, obj):
            self._measure_input(obj)
            obj = store.objects[obj.ref] = obj if self._is_read_in_full(obj.ref) else self._without_bytes(obj)
            return Change(obj.ref, old, obj)
        rivals, refused = self.rivals(obj.ref), self._sizes.refused(obj.ref.namespace)
        released, unread = self._unindex(old)
        store.address_hashes.discard(address_hash(obj.ref))
        new = self._keep(store, obj)
        self._note_near_misses(obj)
        self._forget_unclaimed(released)
        self._forget_unread(unread)
        return Change(
            obj.ref, old, new, tuple({*rivals, *self._sizes.changed(obj.ref.namespace, refused), *self.rivals(obj.ref)})
        )

    def _is_read_in_full(self, ref: Ref) -> bool:
        """True if a source within the limits of its namespace reads this object."""
        return any(not self._sizes.excess(key) for key in self._inputs.direct(ref))

    def _measure_input(self, obj: Object) -> None:
        """Counts the bytes of an object against the limits of the sources that read it."""
        if not obj.content.has_bytes or not self._inputs.note_size(obj.ref, size_of(obj, 0).size):
            return
        for key in self._inputs.direct(obj.ref):
            reader = self.get(key.source)
            if reader is not None:
                self._sizes.discard(key)
                self._measure_size(key, reader)

    def _completes(self, old: Object, new: Object) -> bool:
        """True if a read returned in full what the cache holds without bytes, and a source reads it now."""
        same = (old.uid, old.resource_version) == (new.uid, new.resource_version)
        return same and self.exists_unread(old.ref) and new.content.has_bytes

    def _has_same_index_entries(self, old: Object, new: Object) -> bool:
        """True if the indexes need no change. The common case is our own update: only the content changed."""
        return (
            _indexed_fields(old) == _indexed_fields(new)
            and not any(old.ref in sources for sources in self._sources.values())
            and next(self.registry.possible_sources(new, self), None) is None
        )

    def _keep(self, store: KindStore, obj: Object) -> Object | None:
        """Keeps a source and what it reads with their content, other relevant objects with digests only, and of others
        the address."""
        store.objects[obj.ref] = obj  # before the calls below, which may look the object up
        keys = list(self.registry.possible_sources(obj, self))
        owner = self.registry.owner(obj, self)
        self._measure_input(obj)
        is_input = obj.ref in self._inputs
        # No other content is sent, and objects with forged marks must not fill the memory.
        if not keys and not self._is_read_in_full(obj.ref):
            obj = store.objects[obj.ref] = self._without_bytes(obj)
        if keys or owner is not None or obj.ref.kind == NAMESPACE or is_paused(obj):
            self._index(obj, keys, owner)
            return obj
        target = obj.ref.kind, obj.ref.name
        if target in self._claims:
            self._foreign_at_target.setdefault(target, set()).add(obj.ref)
            return obj
        if is_input:
            return obj
        del store.objects[obj.ref]
        store.address_hashes.add(address_hash(obj.ref))
        return None

    def _note_near_misses(self, obj: Object) -> None:
        misses = self.near_miss_rules.of_object(obj, self)
        if misses and (obj.ref in self._near_missed or len(self._near_missed) < MOST_NEAR_MISSED):
            self._near_missed[obj.ref] = NearMissed(obj.uid, _shared(misses))
        else:
            self._near_missed.pop(obj.ref, None)

    def _without_bytes(self, obj: Object) -> Object:
        if self._keep_bytes:
            return obj
        sealed = obj.content.digests_only()
        return replace(obj, content=self._contents.setdefault(sealed.fields, sealed))

    def note_ignored(self, ref: Ref) -> None:
        """Records that an irrelevant object exists at this address."""
        self.stores[ref.kind].address_hashes.add(address_hash(ref))

    def remove(self, ref: Ref, version: int | None = None) -> Change | None:
        """Takes the deletion of an object. None if the cache holds a newer version than the deleted one."""
        store = self.stores[ref.kind]
        store.address_hashes.discard(address_hash(ref))
        old = store.objects.get(ref)
        if old is not None and version is not None and old.resource_version > version:
            return None
        rivals, refused = self.rivals(ref), self._sizes.refused(ref.namespace)
        store.tombstones.pop(ref, None)
        store.objects.pop(ref, None)
        self._near_missed.pop(ref, None)
        released, unread = self._unindex(old)
        self._forget_unclaimed(released)
        self._forget_unread(unread)
        return Change(ref, old, None, (*rivals, *self._sizes.changed(ref.namespace, refused)))

    def remove_deleted(self, obj: Object) -> Change | None:
        """Takes our own deletion of an object. Events of its uid that still arrive from the watch are ignored."""
        store = self.stores[obj.ref.kind]
        cached = store.objects.get(obj.ref)
        if cached is None or cached.uid != obj.uid:
            return None
        change = self.remove(obj.ref)
        store.tombstones[obj.ref] = obj.uid
        return change

    def watch_passed(self, kind: Kind, version: int) -> bool:
        """True if the watch of a kind has reported this resource version or a later one."""
        return self.stores[kind].version >= version

    def is_newer(self, ref: Ref, version: int) -> bool:
        """False if the cache holds this version or a newer one. The common case is the echo of our own write."""
        cached = self.stores[ref.kind].objects.get(ref)
        return cached is None or cached.resource_version < version

    def note_absent(self, ref: Ref) -> None:
        """Records that a read of this address found nothing."""
        self.stores[ref.kind].address_hashes.discard(address_hash(ref))

    def finish_list(self, kind: Kind, present: set[int], version: float = inf) -> list[Change]:
        """Takes the address hashes of a complete list. Removes all objects that are not in it, except newer ones."""
        store = self.stores[kind]
        gone = [
            ref
            for ref, obj in store.objects.items()
            if address_hash(ref) not in present and obj.resource_version <= version
        ]
        gone += [
            ref
            for ref in self._near_missed
            if ref.kind == kind and ref not in store.objects and address_hash(ref) not in present
        ]
        store.tombstones.clear()
        changes = [change for ref in gone if (change := self.remove(ref)) is not None]
        store.address_hashes = present.difference(map(address_hash, store.objects))
        store.listed = True
        return changes

    # the state of a kind

    def add_kind(self, kind: Kind) -> None:
        """Adds a kind that is not in the settings."""
        self.stores[kind] = KindStore()

    def advance(self, kind: Kind, version: int) -> None:
        """Records that the watch has reported this resource version."""
        store = self.stores[kind]
        store.version = max(store.version, version)

    def set_served(self, kind: Kind, is_served: bool) -> None:
        """Records whether the API server knows the kind and lets us list it."""
        self.stores[kind].not_served = not is_served

    def distrust_absence(self, kind: Kind, until: float) -> None:
        """Records that a missing object proves nothing until then, by the loop's clock."""
        self.stores[kind].absence_unproven_until = until

    def put_unlisted(self, obj: Object) -> None:
        """Takes an object that a single read found although the last list did not contain it. Its kind is listed
        again, because other objects may be missing too."""
        self.put(obj)
        self.stores[obj.ref.kind].needs_relist = True

    def begin_relist(self, kind: Kind) -> None:
        """Records that the reflector is about to list the kind again."""
        self.stores[kind].needs_relist = False

    # indexes

    def _index(self, obj: Object, keys: list[Key], owner: Key | None) -> None:
        for key in keys:
            addresses = self.registry[key.source_type].addresses(obj.ref, self)
            self._sources[key.source_type][obj.ref] = addresses
            if addresses is not None:
                self._claims.add(addresses, key)
            self._inputs.add(key, self.registry.inputs(key, obj))
            self._measure(key, obj)
        self._relations.add(obj, (key.source_type for key in keys))
        if obj.ref.kind == NAMESPACE and (names := consented_names(obj.annotations.get(ACCEPT, ""))):
            self._consents.add(obj.ref, names)
        if owner is not None:
            self._copies.add(owner, obj.ref, is_removable=self._is_removable(obj, owner))
            self._count(owner, obj, 1)

    def _measure(self, key: Key, obj: Object) -> None:
        """Indexes the names that a source lists, and counts it against the limits of its namespace."""
        source_type = self.registry[key.source_type]
        limits, listed = source_type.policy.limits, source_type.names.listed_by(obj)
        if limits is None or limits.allow_source(listed.total):
            self._listed.add(key, listed)
        self._measure_size(key, obj)

    def _measure_size(self, key: Key, obj: Object) -> None:
        source_type = self.registry[key.source_type]
        limits = source_type.policy.limits
        if limits is not None and not obj.deleting:
            own = size_of(obj, source_type.names.listed_by(obj).total)
            self._sizes.add(key, own._replace(size=own.size + self._inputs.size_of(key)), limits)

    def _unindex(self, old: Object | None) -> tuple[list[Addresses], list[Ref]]:
        """Removes an object from all indexes. Returns the addresses that it claimed, and those that only it read."""
        if old is None:
            return [], []
        source_types = [name for name, sources in self._sources.items() if old.ref in sources]
        self._relations.discard(old, source_types)
        self._consents.discard(old.ref)
        claims = [(Key(name, old.ref), self._sources[name].pop(old.ref)) for name in source_types]
        unread: list[Ref] = []
        for key, _ in claims:
            unread += self._inputs.discard(key)
            self._listed.discard(key)
            self._sizes.discard(key)
        released = [(key, addresses) for key, addresses in claims if addresses is not None]
        for key, addresses in released:
            self._claims.discard(addresses, key)
        owner = self.registry.owner(old, self)
        if owner is not None and owner in self._copies:
            self._copies.discard(owner, old.ref, is_removable=self._is_removable(old, owner))
            self._count(owner, old, -1)
        self._foreign_at_target.get((old.ref.kind, old.ref.name), set()).discard(old.ref)
        return [addresses for _, addresses in released], unread

    def _is_removable(self, obj: Object, owner: Key) -> bool:
        return is_removable(obj, self.registry[owner.source_type].ownership)

    def _count(self, owner: Key, obj: Object, by: int) -> None:
        source_type = self.registry[owner.source_type]
        if not source_type.per_namespace and obj.ref.namespace:
            self._claims.pin(owner, obj.ref.namespace, by)
        if is_recorded(obj, source_type.ownership):
            self._copies.count(owner, by)

    def _forget_unclaimed(self, released: Iterable[Addresses]) -> None:
        """Keeps only the address of foreign objects that no source claims any more."""
        for addresses in released:
            if addresses.target in self._claims:
                continue
            for ref in self._foreign_at_target.pop(addresses.target, set()):
                store = self.stores[ref.kind]
                if ref in self._inputs:
                    continue
                if store.objects.pop(ref, None) is not None:
                    store.address_hashes.add(address_hash(ref))

    def _forget_unread(self, released: Iterable[Ref]) -> None:
        """Keeps no more of these objects than of any other one, if no source reads them now."""
        for ref in released:
            obj = self.get(ref)
            if obj is None or ref in self._inputs or next(self.registry.possible_sources(obj, self), None) is not None:
                continue
            store, foreign = self.stores[ref.kind], self._foreign_at_target.get((ref.kind, ref.name), ())
            if ref in foreign or self.registry.owner(obj, self) is not None or is_paused(obj):
                store.objects[ref] = self._without_bytes(obj)
            else:
                del store.objects[ref]
                store.address_hashes.add(address_hash(ref))
