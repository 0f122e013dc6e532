"""What is known of the cluster: what is ours in full, and of everything else only a trace of its address."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import inf
from operator import attrgetter
from typing import NamedTuple
from weakref import WeakValueDictionary

from samara.core.allow import is_paused
from samara.core.compare import is_marked_by_us
from samara.core.match import Names
from samara.core.model import NAMESPACE, Content, Field, Key, Kind, Object, Ref, namespace_ref
from samara.core.reads import Read
from samara.core.table import Table
from samara.core.want import Places
from samara.kube.answers import Answers, Build
from samara.kube.claims import Claims, Spot
from samara.kube.copies import Copies
from samara.kube.counts import Counts
from samara.kube.relations import Relations
from samara.kube.store import Store, trace

_STANDING = attrgetter("labels", "annotations", "owners", "ours")
"""What decides whose copy an object is, whether that counts as ours, and what else is found by it."""


class Change(NamedTuple):
    """What an event changed: the object before and after, None where there was or is none that is held."""

    ref: Ref
    old: Object | None
    new: Object | None
    rivals: tuple[Key, ...] = ()
    """Where a source came, changed or went: the others that claim the same places."""


class Cache:
    """The cluster as it is known. Implements `View`; nothing in it awaits, so a plan sees one state."""

    def __init__(
        self, table: Table, besides: tuple[Kind, ...] = (), *, built: Build | None = None, keep_bytes: bool = False
    ) -> None:
        self.table = table
        self._keep_bytes = keep_bytes
        """True where somebody will ask what differs; the operator itself never does."""
        self._contents: WeakValueDictionary[tuple[Field, ...], Content] = WeakValueDictionary()
        self.stores: dict[Kind, Store] = {kind: Store() for kind in (*table.kinds, *besides)}
        sources: dict[str, dict[Ref, Places | None]] = {dialect.name: {} for dialect in table.dialects}
        self._sources = sources
        self.answers = Answers(built, lambda: sum(map(len, sources.values())))  # not of self: it would be a cycle
        self._claims = Claims()
        self._relations = Relations(table)
        self._copies = Copies()
        self._sealed: dict[Spot, set[Ref]] = {}
        self._counts = Counts()

    # reads

    def get(self, ref: Ref) -> Object | None:
        store = self.stores.get(ref.kind)
        return None if store is None else store.objects.get(ref)

    def taken(self, ref: Ref) -> bool:
        store = self.stores.get(ref.kind)
        return store is not None and ref not in store.objects and trace(ref) in store.traces

    def all(self, kind: Kind) -> Iterable[Object]:
        return self.stores[kind].objects.values()

    def namespaces(self, listed: Names | None = None) -> Iterable[str]:
        return listed.legal if listed is not None else [ref.name for ref in self.stores[NAMESPACE].objects]

    def labelled(self, label: str, value: str) -> Iterable[Object]:
        return [self.stores[NAMESPACE].objects[ref] for ref in self._relations.labelled(label, value)]

    def sources(self, dialect: str, namespace: str | None = None) -> Iterable[Ref]:
        return self._sources[dialect] if namespace is None else self._relations.sources(dialect, namespace)

    def bound(self, dialect: str, namespace: str) -> Iterable[Ref]:
        return self._claims.bound(dialect, namespace)

    def copies_of(self, key: Key) -> Iterator[Object]:
        return (obj for ref in self._copies.of(key) if (obj := self.get(ref)) is not None)

    def claims(self, ref: Ref) -> Iterable[Key]:
        namespace = self.stores[NAMESPACE].objects.get(namespace_ref(ref.namespace))
        above = () if namespace is None else self.table.upstream(namespace)
        return self._claims.at((ref.kind, ref.name), ref.namespace, above)

    def known(self, kind: Kind) -> bool:
        """Not while the server does not know the kind any more: its definition may be gone, with all its objects."""
        return kind in self.stores and self.stores[kind].listed and not self.stores[kind].unservable

    def is_settled(self, kind: Kind) -> bool:
        """True where a kind has been listed, or cannot be."""
        return kind in self.stores and (self.stores[kind].listed or self.stores[kind].unservable)

    def value(self, read: Read) -> object:
        return self.answers.value(read)

    def stands_for(self, kind: Kind, sent: Content, stored: Content) -> bool:
        return self.answers.stands_for(kind, sent, stored)

    def content(self, kind: Kind, fields: Mapping[str, object]) -> Content | None:
        return self.answers.content(kind, fields)

    def marked(self) -> Iterable[Key]:
        """Every source that a held copy names, whether it exists or not."""
        return tuple(self._copies)

    def count(self, key: Key) -> int:
        """How many copies of this key's source there are; marks that are not ours never count."""
        return self._counts.of(key)

    def count_of_home(self, home: str) -> int:
        """The same for all sources of one namespace together, of whatever vocabulary."""
        return self._counts.of_home(home)

    def is_idle(self, key: Key) -> bool:
        """True for a source at the end of a chain: it reaches what hangs on its namespace, and nothing does."""
        places = self._sources[key.dialect].get(key.source)
        below = places.below if places is not None else ""
        return bool(below) and not self._relations.hangs_on(below) and key.whole not in self._copies

    def matters(self, ref: Ref) -> bool:
        """True where an object at this address must be parsed whatever it says."""
        return (
            ref.kind in self.table.always_read
            or ref in self.stores[ref.kind].objects
            or (ref.kind, ref.name) in self._claims
        )

    # changes

    def put(self, obj: Object) -> Change | None:
        """Takes an observation; None where it tells nothing new."""
        store = self.stores[obj.ref.kind]
        if store.tombs.get(obj.ref) == obj.uid:
            return None
        old = store.objects.get(obj.ref)
        if old is not None and old.version >= obj.version:
            return None
        if old is not None and old.uid == obj.uid and not obj.made and self.table.is_copy(old, self):
            obj = replace(obj, made=True)  # stripping our marks does not free a copy
        if old is not None and self._stands_as_before(old, obj):
            obj = store.objects[obj.ref] = self._without_bytes(obj)
            return Change(obj.ref, old, obj)
        rivals = self._rivals(obj.ref)
        given_up = self._unindex(old)
        store.traces.discard(trace(obj.ref))
        new = self._hold(store, obj)
        self._unseal(given_up)
        return Change(obj.ref, old, new, tuple({*rivals, *self._rivals(obj.ref)}))

    def _stands_as_before(self, old: Object, new: Object) -> bool:
        """True where every index stays as it is: a copy of ours that got other content, mostly."""
        return (
            _STANDING(old) == _STANDING(new)
            and not any(old.ref in sources for sources in self._sources.values())
            and next(self.table.sources(new, self), None) is None
        )

    def _hold(self, store: Store, obj: Object) -> Object | None:
        """Keeps an object in full, sealed, or as a trace, by what it is to us."""
        store.objects[obj.ref] = obj  # held while asked about: a source's places may read it
        keys = list(self.table.sources(obj, self))
        owner = self.table.owner(obj, self)
        if not keys:  # only a source's bytes are ever sent: whoever forges marks fills no memory
            obj = store.objects[obj.ref] = self._without_bytes(obj)
        if keys or owner is not None or obj.ref.kind == NAMESPACE or is_paused(obj):
            self._index(obj, keys, owner)
            return obj
        spot = obj.ref.kind, obj.ref.name
        if spot in self._claims:
            self._sealed.setdefault(spot, set()).add(obj.ref)
            return obj
        del store.objects[obj.ref]
        store.traces.add(trace(obj.ref))
        return None

    def _without_bytes(self, obj: Object) -> Object:
        if self._keep_bytes:
            return obj
        sealed = obj.content.sealed()
        return replace(obj, content=self._contents.setdefault(sealed.fields, sealed))

    def pass_by(self, ref: Ref) -> None:
        """Takes the sight of an object that is nothing to us: only its address is kept."""
        self.stores[ref.kind].traces.add(trace(ref))

    def drop(self, ref: Ref, version: int | None = None) -> Change | None:
        """Takes the news that an object is gone; news older than what is held is not believed."""
        store = self.stores[ref.kind]
        store.traces.discard(trace(ref))
        old = store.objects.get(ref)
        if old is not None and version is not None and old.version > version:
            return None
        rivals = self._rivals(ref)
        store.tombs.pop(ref, None)
        store.objects.pop(ref, None)
        self._unseal(self._unindex(old))
        return Change(ref, old, None, rivals)

    def bury(self, obj: Object) -> Change | None:
        """Takes our own delete: what the watch still says of this uid is old news."""
        store = self.stores[obj.ref.kind]
        held = store.objects.get(obj.ref)
        if held is None or held.uid != obj.uid:
            return None
        change = self.drop(obj.ref)
        store.tombs[obj.ref] = obj.uid
        return change

    def is_past(self, kind: Kind, version: int) -> bool:
        """True where the watch of a kind has told of this version already, or of a later one."""
        return self.stores[kind].version >= version

    def is_news(self, ref: Ref, version: int) -> bool:
        """False where what is held is at least as new: an echo of our own write, mostly."""
        held = self.stores[ref.kind].objects.get(ref)
        return held is None or held.version < version

    def absent(self, ref: Ref) -> None:
        """Takes the result of a look: nothing is there."""
        self.stores[ref.kind].traces.discard(trace(ref))

    def relisted(self, kind: Kind, present: set[int], version: float = inf) -> list[Change]:
        """Takes the end of a list: what it did not name has gone unobserved, unless it is newer than the list."""
        store = self.stores[kind]
        gone = [ref for ref, obj in store.objects.items() if trace(ref) not in present and obj.version <= version]
        store.tombs.clear()
        changes = [change for ref in gone if (change := self.drop(ref)) is not None]
        store.traces = present.difference(map(trace, store.objects))
        store.listed = True
        return changes

    # indexes

    def _index(self, obj: Object, keys: list[Key], owner: Key | None) -> None:
        for key in keys:
            spot = self.table[key.dialect].places(obj.ref, self)
            self._sources[key.dialect][obj.ref] = spot
            if spot is not None:
                self._claims.add(spot, key)
        self._relations.add(obj, (key.dialect for key in keys))
        if owner is not None:
            self._copies.add(owner, obj.ref)
            self._count(owner, obj, 1)

    def _rivals(self, ref: Ref) -> tuple[Key, ...]:
        spots = [sources[ref] for sources in self._sources.values() if ref in sources]
        met = (key for spot in spots if spot is not None for key in self._claims.meeting(spot))
        return tuple(key for key in met if key.source != ref)

    def _unindex(self, old: Object | None) -> list[Places]:
        """Takes an object out of all indexes; returns the places that it claimed."""
        if old is None:
            return []
        was = [dialect for dialect, sources in self._sources.items() if old.ref in sources]
        self._relations.discard(old, was)
        spots = [(Key(dialect, old.ref), self._sources[dialect].pop(old.ref)) for dialect in was]
        given_up = [spot for _, spot in spots if spot is not None]
        for key, spot in spots:
            if spot is not None:
                self._claims.discard(spot, key)
        owner = self.table.owner(old, self)
        if owner is not None and owner in self._copies:
            self._copies.discard(owner, old.ref)
            self._count(owner, old, -1)
        self._sealed.get((old.ref.kind, old.ref.name), set()).discard(old.ref)
        return given_up

    def _count(self, owner: Key, obj: Object, by: int) -> None:
        if self.table[owner.dialect].whole and obj.ref.namespace:
            self._claims.bind(owner, obj.ref.namespace, by)
        if is_marked_by_us(obj, self.table[owner.dialect]):
            self._counts.add(owner, by)

    def _unseal(self, given_up: Iterable[Places]) -> None:
        """Foreign objects that were kept for a claim become traces again where nobody claims their place any more."""
        for spot in (places.spot for places in given_up):
            for ref in self._sealed.pop(spot, set()) if spot not in self._claims else ():
                store = self.stores[ref.kind]
                if store.objects.pop(ref, None) is not None:
                    store.traces.add(trace(ref))
