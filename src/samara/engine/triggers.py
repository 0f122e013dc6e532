"""Finds the keys that must be planned after a change of an object. Nothing here changes any state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from samara.core.metadata_keys import ACCEPT
from samara.core.model import NAMESPACE, Key, Kind, Object, Ref
from samara.core.policy import is_ignored, is_paused
from samara.core.registry import Registry
from samara.core.view import has_copies
from samara.kube.cache import Cache, Change


class Triggers(NamedTuple):
    """The consequences of one change."""

    keys: tuple[Key, ...] = ()
    """To be planned."""
    status_of: tuple[Key, ...] = ()
    """Sources of which nothing but the status changed. If there are any, all other fields are empty."""
    edited: frozenset[Ref] = frozenset()
    """Sources that were edited, so that their refused writes may be accepted now: their backoffs end."""
    deleted_kind: Kind | None = None
    """The kind, if an object of it was deleted. Its CRD may be deleted too, so a cached answer about it is obsolete."""


def triggers(change: Change, registry: Registry, cache: Cache) -> Triggers:
    """What to plan after a change that a watch or a read reported."""
    if status_of := _status_of(change, registry, cache):
        return Triggers(status_of=tuple(status_of))
    concerned = list(_concerned(change, registry, cache))
    keys = tuple(dict.fromkeys(key for key, _ in concerned))
    edited = frozenset(key.source for key, is_edited in concerned if is_edited)
    is_deleted = change.new is None or change.new.deleting
    return Triggers(keys, (), edited, change.ref.kind if is_deleted else None)


def next_hops(change: Change, registry: Registry, cache: Cache) -> Iterable[Key]:
    """The keys of which our own write changed the source: a chain continues from the answer, not from its echo."""
    if _status_of(change, registry, cache):
        return ()
    old, new = change.old, change.new
    states = [obj for obj in (old, new) if obj is not None]
    if old is not None and new is not None and _same_metadata(old, new):
        states = [new]  # the old state would add no key
    return dict.fromkeys(key for obj in states for key in registry.next_hop(obj, cache))


def _status_of(change: Change, registry: Registry, cache: Cache) -> list[Key]:
    """The sources of which nothing but the status changed: usually by our own status write."""
    old, new = change.old, change.new
    if old is None or new is None or new.status is None or _planned_fields(old) != _planned_fields(new):
        return []
    return [key for key in registry.sources(new, cache) if registry[key.source_type].status is not None]


def _planned_fields(obj: Object) -> tuple[object, ...]:
    """Every field that a plan can depend on. Comparing tuples is fast where both hold the identical value."""
    return (
        obj.uid,
        obj.generation,
        obj.content,
        obj.labels,
        obj.annotations,
        obj.finalizers,
        obj.owner_references,
        obj.deleting,
        obj.managed_keys,
        obj.applied_keys,
        obj.known_copy,
    )


def _concerned(change: Change, registry: Registry, cache: Cache) -> Iterator[tuple[Key, bool]]:
    """The keys to plan, each with True if the change edits its source, or a custom resource or Namespace it reads."""
    for rival in change.rivals:
        yield rival, False
    states = [obj for obj in (change.old, change.new) if obj is not None]
    is_namespace = change.ref.kind == NAMESPACE
    is_custom = not is_namespace and change.ref.kind in registry.always_cached
    is_relabelled = is_namespace and len(states) == 2 and not _same_metadata(*states)
    for obj in states:
        for key in registry.keys_to_reconcile(obj, cache):
            is_edited = is_custom or key.source == change.ref or (is_relabelled and key.source.kind == NAMESPACE)
            yield key, is_edited
    if not states:
        yield from ((key, False) for key in _keys_of_uncached(change.ref, registry, cache))
    if _ends_pause(change):  # the object may have stopped being a source while it was paused
        yield from ((key, False) for key in _keys_with_copies(change.ref, registry, cache))
    if is_namespace and _above(change.old, registry) != _above(change.new, registry):
        yield from ((key, False) for key in _keys_below(change.ref.name, registry, cache))
    if is_namespace and len(set(map(_controls, states))) == 2:
        yield from ((key, False) for key in _keys_in_namespace(change.ref.name, registry, cache))


def _keys_of_uncached(ref: Ref, registry: Registry, cache: Cache) -> Iterator[Key]:
    """The keys that an object without content in the cache concerns: a former source, or one at a target address."""
    yield from _keys_with_copies(ref, registry, cache)
    for claim in cache.claimants(ref):
        yield registry.part(claim, ref.namespace)
    yield from cache.readers(ref)


def _keys_with_copies(ref: Ref, registry: Registry, cache: Cache) -> Iterator[Key]:
    """The keys of an object that have copies, whether or not the object is a source now."""
    keys = (Key(source_type.name, ref) for source_type in registry.source_types)
    yield from (key for key in keys if has_copies(cache, key))


def _ends_pause(change: Change) -> bool:
    """True if the object was paused and is not any more, or is gone."""
    old, new = change.old, change.new
    return old is not None and is_paused(old) and (new is None or not is_paused(new))


def _keys_in_namespace(namespace: str, registry: Registry, cache: Cache) -> Iterator[Key]:
    """The keys of the copies in a Namespace, also if their sources no longer name it, and of its custom resources."""
    slices = (key.in_namespace(namespace) for key in cache.marked_sources())
    yield from (key for key in slices if has_copies(cache, key))
    for source_type in registry.source_types:
        resources = cache.sources(source_type.name) if source_type.resource is not None else ()
        for source in resources:
            if source.namespace == namespace:
                yield Key(source_type.name, source)
                yield from cache.rivals(source)  # a paused source claims no address that it does not have


def _above(namespace: Object | None, registry: Registry) -> str:
    return "" if namespace is None else registry.above(namespace)


def _keys_below(namespace: str, registry: Registry, cache: Cache) -> Iterator[Key]:
    """The sources in a Namespace that has moved and in all below it, if consents or settings can name their tree."""
    is_below: dict[str, bool] = {}
    for source_type in registry.source_types:
        for source in cache.sources(source_type.name) if source_type.policy.follows_trees else ():
            if source.namespace not in is_below:
                is_below[source.namespace] = namespace in cache.trees_of(source.namespace)
            if is_below[source.namespace]:
                yield Key(source_type.name, source)


def _controls(namespace: Object) -> tuple[bool, bool, str]:
    """What people let Samara do in a namespace."""
    return is_paused(namespace), is_ignored(namespace), namespace.annotations.get(ACCEPT, "")


def _same_metadata(old: Object, new: Object) -> bool:
    return old.labels == new.labels and old.annotations == new.annotations
