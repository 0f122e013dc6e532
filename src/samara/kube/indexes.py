"""The indexes of the cache: by claimed target, by the source of a copy, and by labels that name namespaces."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from typing import TypeVar

from samara.core.model import NAMESPACE, Key, Kind, Object, Ref
from samara.core.registry import Registry
from samara.core.source_limits import SourceLimits, SourceSize, excess
from samara.core.source_type import Addresses, ListedNames

T = TypeVar("T")
KindAndName = tuple[Kind, str]
"""The kind and the name of a copy, in any namespace."""
_ByNamespace = dict[str, dict[Key, None]]


def _count(counter: Counter[T], item: T, by: int) -> None:
    """Adds to a counter that holds no zeros."""
    counter[item] += by
    if not counter[item]:
        del counter[item]


class _Claims:
    """The sources that claim one target: by `Addresses.within` if they write into one namespace only, otherwise by
    `Addresses.below`, which is empty for those that may write anywhere."""

    __slots__ = ("below", "within")

    def __init__(self) -> None:
        self.below: _ByNamespace = {}
        self.within: _ByNamespace = {}

    def place(self, addresses: Addresses) -> tuple[_ByNamespace, str]:
        """The dictionary that holds a source with these addresses, and its key there."""
        return (self.within, addresses.within) if addresses.within else (self.below, addresses.below)

    def overlapping(self, addresses: Addresses) -> Iterator[Key]:
        """The sources that may write to the same addresses. If one source writes into one namespace, and the other into
        the children of another, it is not checked whether the one namespace is a child of the other."""
        if addresses.within:
            yield from self.within.get(addresses.within, ())
            yield from chain.from_iterable(self.below.values())
            return
        parents = dict.fromkeys(("", addresses.below)) if addresses.below else self.below
        yield from (key for parent in parents for key in self.below.get(parent, ()))
        yield from chain.from_iterable(self.within.values())


class ClaimIndex:
    """Finds the sources that may write to an address, by kind and name and by the namespaces they are limited to.

    A chain has a source of the same name in every namespace. Without the limits, all of them would have to be compared
    at every copy.
    """

    def __init__(self) -> None:
        self._claims: dict[KindAndName, _Claims] = {}
        self._pinned: dict[tuple[str, str], Counter[Ref]] = {}
        """By source type and namespace: the sources that write into this namespace only, or have their copy there."""

    def __contains__(self, target: KindAndName) -> bool:
        return target in self._claims

    def add(self, addresses: Addresses, key: Key) -> None:
        index, name = self._claims.setdefault(addresses.target, _Claims()).place(addresses)
        index.setdefault(name, {})[key] = None
        if addresses.within:
            self.pin(key, addresses.within)

    def discard(self, addresses: Addresses, key: Key) -> None:
        claims = self._claims[addresses.target]
        index, name = claims.place(addresses)
        index[name].pop(key, None)
        if not index[name]:
            del index[name]
        if not claims.below and not claims.within:
            del self._claims[addresses.target]
        if addresses.within:
            self.pin(key, addresses.within, -1)

    def pin(self, key: Key, namespace: str, by: int = 1) -> None:
        """Counts how often a source is bound to a namespace: once by its target, and once by a copy that exists."""
        entry = key.source_type, namespace
        sources = self._pinned.setdefault(entry, Counter())
        _count(sources, key.source, by)
        if not sources:
            del self._pinned[entry]

    def pinned(self, source_type: str, namespace: str) -> tuple[Ref, ...]:
        return tuple(self._pinned.get((source_type, namespace), ()))

    def has_claims_below(self, target: KindAndName) -> bool:
        """True if a source claims this target only below its own namespace, so that parents matter."""
        claims = self._claims.get(target)
        return claims is not None and len(claims.below) > ("" in claims.below)

    def at(self, target: KindAndName, namespace: str, parents: Iterable[str]) -> tuple[Key, ...]:
        """The sources that claim this target in a namespace with these parents."""
        claims = self._claims.get(target)
        if claims is None:
            return ()
        keys = list(claims.below.get("", ()))
        for parent in parents:
            keys += claims.below.get(parent, ())
        return (*keys, *claims.within.get(namespace, ()))

    def overlapping(self, addresses: Addresses) -> Iterable[Key]:
        """The sources that may write to the same addresses as a source with these addresses; it is one of them."""
        claims = self._claims.get(addresses.target)
        return () if claims is None else claims.overlapping(addresses)


MOST_UNREMOVABLE = 16
"""Marked objects of one source in one namespace that a plan looks at, of those that no rule may remove."""
_MOST_SHARED = 16
"""A namespace with more copies of one source has a set of its own. Nearly all have one copy."""
_Targets = tuple[KindAndName, ...] | dict[KindAndName, None]


@lru_cache(maxsize=4096)
def _interned(targets: tuple[KindAndName, ...]) -> tuple[KindAndName, ...]:
    return targets


class _CopyTargets:
    """The targets of marked objects by source and namespace, as a tuple if they are few.

    Ten thousand namespaces with a copy of the same name share one tuple.
    """

    def __init__(self) -> None:
        self._targets: dict[Key, dict[str, _Targets]] = {}

    def __iter__(self) -> Iterator[Key]:
        return iter(self._targets)

    def __contains__(self, source: Key) -> bool:
        return source in self._targets

    def of(self, key: Key, most: int | None = None) -> Iterator[Ref]:
        """The addresses that name a source; at most so many in each namespace."""
        by_namespace = self._targets.get(key.all_namespaces, {})
        entries = (
            by_namespace.items() if key.namespace is None else ((key.namespace, by_namespace.get(key.namespace, ())),)
        )
        return (Ref(kind, namespace, name) for namespace, targets in entries for kind, name in islice(targets, most))

    def add(self, source: Key, ref: Ref) -> None:
        by_namespace, target = self._targets.setdefault(source, {}), (ref.kind, ref.name)
        targets = by_namespace.get(ref.namespace, ())
        if isinstance(targets, dict):
            targets[target] = None
        elif len(targets) < _MOST_SHARED:
            by_namespace[ref.namespace] = _interned((*targets, target))
        else:
            by_namespace[ref.namespace] = dict.fromkeys((*targets, target))

    def discard(self, source: Key, ref: Ref) -> None:
        by_namespace, target = self._targets.get(source, {}), (ref.kind, ref.name)
        targets = by_namespace.get(ref.namespace, ())
        if isinstance(targets, dict):
            targets.pop(target, None)
        else:
            targets = _interned(tuple(other for other in targets if other != target))
            if targets:
                by_namespace[ref.namespace] = targets
        if not targets:
            by_namespace.pop(ref.namespace, None)
        if not by_namespace:
            self._targets.pop(source, None)


class CopyIndex:
    """Finds the copies of a source, also of one that no longer exists, and counts them.

    Any client can name a source in the marks of an object. Objects that no rule may remove are kept apart, and only
    some of them are found, so that a thousand forged copies make no plan slower.
    """

    def __init__(self) -> None:
        self._removable = _CopyTargets()
        self._unremovable = _CopyTargets()
        self._counts: Counter[Key] = Counter()
        self._counts_in_namespace: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Key]:
        return iter(dict.fromkeys((*self._removable, *self._unremovable)))

    def __contains__(self, source: Key) -> bool:
        return source in self._removable or source in self._unremovable

    def of(self, key: Key) -> Iterator[Ref]:
        """The addresses of a source's copies; of those in one namespace if the key is for that one. Of those that are
        never removed, at most `MOST_UNREMOVABLE` in each namespace."""
        return chain(self._removable.of(key), self._unremovable.of(key, MOST_UNREMOVABLE))

    def add(self, source: Key, ref: Ref, *, is_removable: bool) -> None:
        (self._removable if is_removable else self._unremovable).add(source, ref)

    def discard(self, source: Key, ref: Ref, *, is_removable: bool) -> None:
        (self._removable if is_removable else self._unremovable).discard(source, ref)

    def count(self, source: Key, by: int) -> None:
        """Counts a copy that Samara made. A forged mark makes an object a copy, but does not count."""
        _count(self._counts, source, by)
        _count(self._counts_in_namespace, source.source.namespace, by)

    def number_of(self, source: Key) -> int:
        return self._counts[source]

    def number_of_sources_in(self, namespace: str) -> int:
        """The number of copies of all sources in one namespace."""
        return self._counts_in_namespace[namespace]


class InputIndex:
    """Finds the sources that read an object, by its address: their desired state is made from it."""

    def __init__(self) -> None:
        self._readers: dict[Ref, dict[Key, None]] = {}
        self._inputs: dict[Key, tuple[Ref, ...]] = {}
        self._sizes: dict[Ref, int] = {}
        """The bytes of these objects, also of those that are not held in full."""

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._readers

    def direct(self, ref: Ref) -> tuple[Key, ...]:
        """The sources that read this address."""
        return tuple(self._readers.get(ref, ()))

    def note_size(self, ref: Ref, size: int) -> bool:
        """True if the size has changed."""
        if ref not in self._readers or self._sizes.get(ref, 0) == size:
            return False
        self._sizes[ref] = size
        return True

    def size_of(self, key: Key) -> int:
        """The bytes of all objects that a source reads."""
        return sum(self._sizes.get(ref, 0) for ref in self._inputs.get(key, ()))

    def add(self, key: Key, inputs: Iterable[Ref]) -> None:
        refs = tuple(dict.fromkeys(inputs))
        if refs:
            self._inputs[key] = refs
        for ref in refs:
            self._readers.setdefault(ref, {})[key] = None

    def discard(self, key: Key) -> list[Ref]:
        """Returns the addresses that no source reads any more."""
        refs = self._inputs.pop(key, ())
        for ref in refs:
            self._readers[ref].pop(key)
            if not self._readers[ref]:
                del self._readers[ref]
                self._sizes.pop(ref, None)
        return [ref for ref in refs if ref not in self._readers]

    def readers(self, ref: Ref) -> Iterator[Key]:
        """The sources that read this address, and those that read one of these sources in turn."""
        seen, waiting = {ref}, [ref]
        while waiting:
            for key in self._readers.get(waiting.pop(), ()):
                yield key
                if key.source not in seen:
                    seen.add(key.source)
                    waiting.append(key.source)


_SHORT = 100
"""Names of a list that is found by each of them. An entry of a dictionary takes ten times the memory of a hash."""


class NameIndex:
    """Finds the objects that list the name of a namespace.

    A tenant may list ten thousand names of namespaces that do not exist. So a name of a long list costs the eight bytes
    of its hash, and long lists are searched one by one. The limits allow only some of them. A collision only makes an
    object be looked at once too often.
    """

    def __init__(self, short: int = _SHORT) -> None:
        self._short = short
        self._hashes: dict[Ref, array[int]] = {}
        """By object: the sorted hashes of the names."""
        self._long: dict[Ref, None] = {}
        self._by_hash: dict[int, Ref | dict[Ref, None]] = {}
        """The objects with short lists, by the hash of a name. Most names are in one list only."""

    def add(self, ref: Ref, names: Iterable[str]) -> None:
        hashes = self._hashes[ref] = _hashes_of(names)
        if len(hashes) > self._short:
            self._long[ref] = None
            return
        for one in hashes:
            refs = self._by_hash.setdefault(one, ref)
            if isinstance(refs, dict):
                refs[ref] = None
            elif refs != ref:
                self._by_hash[one] = {refs: None, ref: None}

    def discard(self, ref: Ref) -> None:
        hashes = self._hashes.pop(ref, ())
        if ref in self._long:
            del self._long[ref]
            return
        for one in hashes:
            refs = self._by_hash.get(one)
            if isinstance(refs, dict):
                refs.pop(ref, None)
            if not refs or refs == ref:
                self._by_hash.pop(one, None)

    def naming(self, name: str) -> tuple[Ref, ...]:
        wanted = hash(name)
        refs = self._by_hash.get(wanted, {})
        return (
            *(refs if isinstance(refs, dict) else (refs,)),
            *(ref for ref in self._long if _contains(self._hashes[ref], wanted)),
        )


class ListedNameIndex:
    """Finds the sources that list the name of a namespace, by source type."""

    def __init__(self) -> None:
        self._listed: dict[str, NameIndex] = {}
        self._anywhere: dict[str, dict[Ref, None]] = {}

    def add(self, key: Key, listed: ListedNames) -> None:
        if listed.elsewhere:
            self._anywhere.setdefault(key.source_type, {})[key.source] = None
        else:
            self._listed.setdefault(key.source_type, NameIndex()).add(key.source, listed.names)

    def discard(self, key: Key) -> None:
        if key.source_type in self._listed:
            self._listed[key.source_type].discard(key.source)
        self._anywhere.get(key.source_type, {}).pop(key.source, None)

    def naming(self, source_type: str, namespace: str) -> tuple[Ref, ...]:
        listed = self._listed.get(source_type)
        return (*self._anywhere.get(source_type, ()), *(listed.naming(namespace) if listed is not None else ()))


def _hashes_of(names: Iterable[str]) -> array[int]:
    return array("q", sorted(map(hash, names)))


def _contains(hashes: array[int], wanted: int) -> bool:
    position = bisect_left(hashes, wanted)
    return position < len(hashes) and hashes[position] == wanted


class SizeIndex:
    """Knows which sources exceed the limits of their namespace.

    Sums are kept for each namespace, so that a namespace within its limits costs nothing more. Which sources exceed the
    limits is computed when a plan asks, and after a change if it was known before.
    """

    def __init__(self) -> None:
        self._sizes: dict[str, dict[Key, SourceSize]] = {}
        """By namespace: the sources that tenants may write, and that are served on their own."""
        self._limits: dict[str, SourceLimits] = {}
        self._sums: dict[str, tuple[int, int]] = {}
        """By namespace: the names and the bytes of these sources, without those that list too many themselves."""
        self._too_long: Counter[str] = Counter()
        """By namespace: how many sources list too many names themselves."""
        self._excess: dict[str, dict[Key, str]] = {}
        """By namespace: what `excess` said since the last change."""

    def add(self, key: Key, size: SourceSize, limits: SourceLimits) -> None:
        namespace = key.source.namespace
        self._sizes.setdefault(namespace, {})[key] = size
        self._limits[namespace] = limits
        self._count(namespace, size, 1)

    def discard(self, key: Key) -> None:
        namespace = key.source.namespace
        size = self._sizes.get(namespace, {}).pop(key, None)
        if size is None:
            return
        self._count(namespace, size, -1)
        if not self._sizes[namespace]:
            del self._sizes[namespace], self._limits[namespace], self._sums[namespace]

    def refused(self, namespace: str) -> Mapping[Key, str]:
        """The sources of a namespace that exceeded the limits when it was last computed, each with a message."""
        return self._excess.get(namespace, {})

    def changed(self, namespace: str, refused: Mapping[Key, str]) -> tuple[Key, ...]:
        """Those of these refused sources of a namespace that the limits allow now, or refuse for another reason."""
        now = self._refused_now(namespace) if refused else {}
        return tuple(key for key, message in refused.items() if now.get(key) != message)

    def _count(self, namespace: str, size: SourceSize, by: int) -> None:
        names, total = self._sums.get(namespace, (0, 0))
        if self._limits[namespace].allow_source(size.names):
            names, total = names + by * size.names, total + by * size.size
        else:
            _count(self._too_long, namespace, by)
        self._sums[namespace] = names, total
        self._excess.pop(namespace, None)

    def excess(self, key: Key) -> str:
        """Why this source is more than the limits of its namespace allow, or an empty text."""
        return self._refused_now(key.source.namespace).get(key, "")

    def _refused_now(self, namespace: str) -> Mapping[Key, str]:
        limits = self._limits.get(namespace)
        if limits is None or (limits.allow(*self._sums[namespace]) and namespace not in self._too_long):
            return {}
        if namespace not in self._excess:
            self._excess[namespace] = excess(self._sizes[namespace], limits)
        return self._excess[namespace]


class RelationIndex:
    """Finds Namespaces by the labels that name other Namespaces, and sources by their own namespace.

    Only source types that follow such labels use it.
    """

    def __init__(self, registry: Registry) -> None:
        hierarchies = {
            source_type.name: source_type.hierarchy
            for source_type in registry.source_types
            if source_type.hierarchy is not None
        }
        self._labels = frozenset().union(*(hierarchy.labels for hierarchy in hierarchies.values()))
        self._source_types = frozenset(hierarchies)
        self._by_label: dict[tuple[str, str], dict[Ref, None]] = {}
        self._sources: dict[tuple[str, str], dict[Ref, None]] = {}

    def with_label(self, label: str, value: str) -> Iterable[Ref]:
        return tuple(self._by_label.get((label, value), ()))

    def is_named(self, namespace: str) -> bool:
        """True if a label of another Namespace names this one."""
        return any((label, namespace) in self._by_label for label in self._labels)

    def sources(self, source_type: str, namespace: str) -> Iterable[Ref]:
        return tuple(self._sources.get((source_type, namespace), ()))

    def add(self, obj: Object, source_types: Iterable[str]) -> None:
        for label in self._labels if obj.ref.kind == NAMESPACE else ():
            if label in obj.labels:
                self._by_label.setdefault((label, obj.labels[label]), {})[obj.ref] = None
        for source_type in self._source_types.intersection(source_types):
            self._sources.setdefault((source_type, obj.ref.namespace), {})[obj.ref] = None

    def discard(self, obj: Object, source_types: Iterable[str]) -> None:
        for label in self._labels if obj.ref.kind == NAMESPACE else ():
            if label in obj.labels:
                _discard(self._by_label, (label, obj.labels[label]), obj.ref)
        for source_type in self._source_types.intersection(source_types):
            _discard(self._sources, (source_type, obj.ref.namespace), obj.ref)


def _discard(index: dict[tuple[str, str], dict[Ref, None]], entry: tuple[str, str], ref: Ref) -> None:
    refs = index.get(entry, {})
    refs.pop(ref, None)
    if not refs:
        index.pop(entry, None)
