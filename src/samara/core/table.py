"""All dialects side by side: who owns an object, and whose work an event is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from samara.core.compare import is_marked_by_us
from samara.core.match import without_globs
from samara.core.model import LABELS, MANAGER, NAMESPACE, Key, Kind, Object
from samara.core.travel import ADOPTED, NEVER_TRAVELS, NOT_BY_DEFAULT
from samara.core.view import View
from samara.core.want import Dialect


@dataclass(frozen=True)
class Table:
    """Every dialect, always: settings switch off wanting, never recognising."""

    dialects: tuple[Dialect, ...]
    never_labels: tuple[str, ...] = ()
    """Label keys that the settings add to those that never travel."""
    never_annotations: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, Dialect]:
        return {dialect.name: dialect for dialect in self.dialects}

    def __getitem__(self, name: str) -> Dialect:
        return self.by_name[name]

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Every kind that must be watched, Namespaces first: nothing can be decided without them."""
        return tuple(dict.fromkeys((NAMESPACE, *(kind for dialect in self.dialects for kind in dialect.kinds))))

    @cached_property
    def managers(self) -> frozenset[str]:
        return frozenset({MANAGER}).union(*(dialect.managers for dialect in self.dialects))

    @cached_property
    def words(self) -> frozenset[str]:
        """The keys that make an object worth parsing."""
        return frozenset().union(*(dialect.marks | dialect.asks for dialect in self.dialects))

    @cached_property
    def always_read(self) -> frozenset[Kind]:
        """The kinds whose every object matters, whatever it says."""
        return frozenset({NAMESPACE}).union(*(dialect.asking for dialect in self.dialects))

    def owner(self, obj: Object, view: View) -> Key | None:
        """The key whose copy this object says it is, and there is at most one: a mark that we set comes before others.

        Of several that prove as much or as little the first dialect by rank counts.
        """
        return self._owner(obj, view, self.dialects)

    @cached_property
    def _keeping(self) -> tuple[Dialect, ...]:
        return tuple(dialect for dialect in self.dialects if not dialect.hands_on)

    @staticmethod
    def _owner(obj: Object, view: View, dialects: tuple[Dialect, ...]) -> Key | None:
        marked = [(dialect, origin) for dialect in dialects if (origin := dialect.origin(obj, view)) is not None]
        if len(marked) > 1:  # anybody can add a mark to a copy, and must not free it so
            marked.sort(key=lambda claim: not is_marked_by_us(obj, claim[0]))
        return Key(marked[0][0].name, marked[0][1]) if marked else None

    def is_copy(self, obj: Object, view: View) -> bool:
        """True for a copy that we have made, or an original whose work is ours now. A mark alone proves nothing.

        What was adopted is its people's: they may take it back.
        """
        if ADOPTED in obj.annotations:
            return False
        owner = None if obj.made else self.owner(obj, view)
        dialect = self[owner.dialect] if owner is not None else None
        if dialect is None or dialect.by_owner or dialect.proven:
            return obj.made
        return is_marked_by_us(obj, dialect)

    def sources(self, obj: Object, view: View) -> Iterator[Key]:
        """The keys for which this object is a source.

        A copy is a source only of its own vocabulary: a chain. What a dialect has made that hands on counts as no copy.
        """
        owner: Key | None = None
        asked = [dialect for dialect in self.dialects if dialect.is_source(obj, view)]
        if asked:
            owner = self._owner(obj, view, self._keeping)
        for dialect in asked:
            if owner is None or self[owner.dialect].title == dialect.title:
                yield Key(dialect.name, obj.ref)

    def keys(self, obj: Object, view: View) -> Iterator[Key]:
        """Every key that may have to be planned because this object is, was, or will be so."""
        yield from self.sources(obj, view)
        owner = self.owner(obj, view)
        if owner is not None:
            yield self.cut(owner, obj.ref.namespace)
        for claim in view.claims(obj.ref):
            if claim.source != obj.ref:
                yield self.cut(claim, obj.ref.namespace)
        yield from self._others(obj, view)

    def onward(self, obj: Object, view: View) -> Iterator[Key]:
        """The keys to plan when a write of ours has made this object: the next hop of a chain."""
        yield from self.sources(obj, view)
        yield from self._others(obj, view)

    def _others(self, obj: Object, view: View) -> Iterator[Key]:
        for dialect in self.dialects:
            for source in dialect.also(obj, view):
                key = Key(dialect.name, source)
                yield self.cut(key, obj.ref.name) if self._reaches(key, obj, view) else key

    def _reaches(self, key: Key, obj: Object, view: View) -> bool:
        """True for a Namespace in which the key may write; what concerns it of another lies elsewhere."""
        if obj.ref.kind != NAMESPACE:
            return False
        place = self[key.dialect].places(key.source, view)
        return place is None or not place.below or place.below in self.upstream(obj)

    def cut(self, key: Key, namespace: str) -> Key:
        """The part of a key that lies in one namespace, where its dialect has parts."""
        return key if self[key.dialect].whole else key.part(namespace)

    def upstream(self, namespace: Object) -> tuple[str, ...]:
        """The namespaces on which this one hangs, as the dialects see it."""
        found = (dialect.upstream(namespace) for dialect in self.dialects if dialect.upstream is not None)
        return tuple(dict.fromkeys(name for name in found if name))

    def bare(
        self, where: str, words: Mapping[str, str], by_default: tuple[str, ...] = NOT_BY_DEFAULT
    ) -> dict[str, str]:
        """Labels or annotations of a source without all that must not travel."""
        left = {key: value for key, value in words.items() if key not in self.words}
        never = self.never_labels if where == LABELS else self.never_annotations
        return without_globs(left, NEVER_TRAVELS + by_default + never)
