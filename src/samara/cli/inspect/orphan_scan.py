"""Objects that carry marks: of which vocabulary they are, whose copies they say they are, and whether we made them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from samara.cli.inspect.namespace_only import marked_origin
from samara.cli.inspect.outcome import place
from samara.cli.session import Picture
from samara.core.model import Key, Object, Ref
from samara.core.ownership import ByMark, is_recorded
from samara.core.source_type import SourceType


@dataclass(frozen=True, slots=True)
class Orphan:
    """A copy by its marks that nothing wants."""

    live: Object
    source_type: SourceType
    key: Key
    """Its source, or what its marks say of one that these settings do not know."""
    origin: str
    ours: bool

    def shape(self) -> dict[str, Any]:
        return {
            **place(self.live.ref),
            "vocabulary": self.source_type.vocabulary,
            "origin": self.origin,
            "ours": self.ours,
        }


def of_source_types(seen: Picture, live: Object) -> Iterator[Orphan]:
    """A marked object as the first vocabulary sees it whose mark it carries."""
    for source_type in seen.registry.source_types:
        told = marked_origin(live, source_type)
        if told is not None and not _is_disowned(live, source_type):
            origin = source_type.ownership.source_of(live, seen.shot.cache)
            key = Key(source_type.name, origin or _told_source(live, source_type, told))
            is_ours = is_recorded(live, source_type.ownership)
            yield Orphan(live, source_type, key, origin.path if origin else told, is_ours)
            return


def _is_disowned(live: Object, source_type: SourceType) -> bool:
    """True for an object that was only created and belongs to its namespace since then, whatever carries its mark."""
    return isinstance(source_type.ownership, ByMark) and source_type.ownership.disowned(live)


def _told_source(live: Object, source_type: SourceType, told: str) -> Ref:
    """What a mark means: a path, or the namespace of a source of the same name."""
    namespace, _, name = told.rpartition("/")
    if source_type.resource is not None:
        return Ref(source_type.resource, namespace, name)
    return Ref(live.ref.kind, namespace, name) if namespace else Ref(live.ref.kind, told, live.ref.name)


def is_own_source(seen: Picture, live: Object) -> bool:
    """True for what asks by itself; a link of a chain asks only because it is a copy.

    What was made to be handed on is a copy all the same, though people may ask by it.
    """
    cache, registry = seen.shot.cache, seen.registry
    ownerships = (source_type.ownership for source_type in registry.source_types)
    if any(ownership.copies_may_be_sources and is_recorded(live, ownership) for ownership in ownerships):
        return False
    asking = (registry[key.source_type] for key in registry.sources(live, cache))
    return any(not has_parents(each) or each.ownership.source_of(live, cache) is None for each in asking)


def has_parents(source_type: SourceType) -> bool:
    """True for a source type whose copies go down a tree of namespaces: a copy is the source of the next ones."""
    return source_type.hierarchy is not None and source_type.hierarchy.parent is not None
