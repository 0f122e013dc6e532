"""Objects that carry marks: of which vocabulary they are, whose copies they say they are, and whether we made them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from samara.cli.inspect.namespace_only import marked_origin
from samara.cli.inspect.outcome import place
from samara.cli.session import Picture
from samara.core.compare import is_marked_by_us
from samara.core.model import Key, Object, Ref
from samara.core.want import Dialect


@dataclass(frozen=True, slots=True)
class Orphan:
    """A copy by its marks that nothing wants."""

    have: Object
    dialect: Dialect
    key: Key
    """Its source, or what its marks say of one that these settings do not know."""
    origin: str
    ours: bool

    def shape(self) -> dict[str, Any]:
        return {
            **place(self.have.ref),
            "vocabulary": self.dialect.title,
            "origin": self.origin,
            "ours": self.ours,
        }


def of_dialects(seen: Picture, have: Object) -> Iterator[Orphan]:
    """A marked object as the first dialect sees it whose mark it carries."""
    for dialect in seen.table.dialects:
        told = marked_origin(have, dialect)
        if told is not None and not dialect.given_away(have):
            origin = dialect.origin(have, seen.shot.cache)
            key = Key(dialect.name, origin or _told_source(have, dialect, told))
            yield Orphan(have, dialect, key, origin.path if origin else told, is_marked_by_us(have, dialect))
            return


def _told_source(have: Object, dialect: Dialect, told: str) -> Ref:
    """What a mark means: a path, or the namespace of a source of the same name."""
    namespace, _, name = told.rpartition("/")
    if dialect.asking:
        return Ref(dialect.asking[0], namespace, name)
    return Ref(have.ref.kind, namespace, name) if namespace else Ref(have.ref.kind, told, have.ref.name)


def is_own_source(seen: Picture, have: Object) -> bool:
    """True for what asks by itself; a link of a chain asks only because it is a copy.

    What was made to be handed on is a copy all the same, though people may ask by it.
    """
    cache, table = seen.shot.cache, seen.table
    if any(dialect.hands_on and is_marked_by_us(have, dialect) for dialect in table.dialects):
        return False
    asking = (table[key.dialect] for key in table.sources(have, cache))
    return any(dialect.upstream is None or dialect.origin(have, cache) is None for dialect in asking)
