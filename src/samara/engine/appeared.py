"""Finds copies that Samara did not create: they carry its marks, and any client can write marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet

from samara.core.model import NAMESPACE, Key, Object, Ref
from samara.core.ownership import is_recorded
from samara.core.writes import Blocked, Delete, Step
from samara.kube.cache import Cache, Change

_NONE: frozenset[Ref] = frozenset()


class AppearedCopies:
    """Owns the addresses of copies that we neither wrote nor wanted when we saw them first.

    Any client can name `samara` as its field manager in its own namespace. The mass-delete limit does not count such
    copies, so that they neither hold the deletions of another tenant's source nor let them pass. A Namespace is never
    one of them, because only administrators may write its marks.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._refs: dict[Key, set[Ref]] = {}
        self._from: Counter[str] = Counter()
        """How many there are of all sources of a namespace."""

    def note_change(self, change: Change) -> None:
        """Another client made, changed or removed an object."""
        if change.ref.kind == NAMESPACE:
            return
        before, after = (None if obj is None else self._source_of(obj) for obj in (change.old, change.new))
        if before == after:
            return
        if before is not None:
            self._discard(before, change.ref)
        if after is not None and change.ref not in self._refs.setdefault(after, set()):
            self._refs[after].add(change.ref)
            self._from[after.source.namespace] += 1

    def note_write(self, change: Change) -> None:
        """We wrote or deleted an object."""
        if self._refs:
            for obj in (change.old, change.new):
                key = None if obj is None else self._source_of(obj)
                if key is not None:
                    self._discard(key, change.ref)

    def note_step(self, key: Key, step: Step) -> None:
        """A copy that its source wants is one of ours, whichever client made it."""
        if self._refs and step.desired and not isinstance(step.outcome, Blocked | Delete):
            self._discard(key.all_namespaces, step.ref)

    def of(self, key: Key) -> AbstractSet[Ref]:
        return self._refs.get(key.all_namespaces, _NONE)

    def number_from(self, namespace: str) -> int:
        """How many name a source in this namespace."""
        return self._from[namespace]

    def _source_of(self, obj: Object) -> Key | None:
        """The source of a copy, if the cache counts it."""
        registry = self._cache.registry
        key = registry.owner(obj, self._cache)
        return key if key is not None and is_recorded(obj, registry[key.source_type].ownership) else None

    def _discard(self, key: Key, ref: Ref) -> None:
        refs = self._refs.get(key)
        if refs is None or ref not in refs:
            return
        refs.discard(ref)
        self._from[key.source.namespace] -= 1
        if not refs:
            del self._refs[key]
        if not self._from[key.source.namespace]:
            del self._from[key.source.namespace]
