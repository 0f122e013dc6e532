"""What was learnt besides the objects themselves: values read, contents built, and what admission makes of a write."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from samara.core.kinds import row
from samara.core.model import Content, Kind
from samara.core.want import UNREAD, Read

Build = Callable[[Mapping[str, object]], Content]
"""Makes content of fields, as `Codec.content` does."""
_REMEMBERED = 1000


class Answers:
    """A part of the cache; each memory is bounded, and what was forgotten is asked for again."""

    def __init__(self, built: Build | None) -> None:
        self._built = built
        self._values: dict[Read, object] = {}
        self._stored: dict[tuple[Kind, Content], set[Content]] = {}

    def value(self, read: Read) -> object:
        return self._values.get(read, UNREAD)

    def keep(self, read: Read, answer: object) -> None:
        self._values[read] = answer
        _limit(self._values)

    def forget(self, read: Read) -> None:
        self._values.pop(read, None)

    def content(self, kind: Kind, fields: Mapping[str, object]) -> Content | None:
        normal = row(kind).normal
        found = normal(fields) if normal is not None else None
        return None if found is None or self._built is None else self._built(found)

    def stands_for(self, kind: Kind, sent: Content, stored: Content) -> bool:
        return stored in self._stored.get((kind, sent), ())

    def stored(self, kind: Kind, sent: Content, found: Content) -> None:
        """Remembers what the server made of something that we sent."""
        if sent != found:
            self._stored.setdefault((kind, sent.sealed()), set()).add(found.sealed())
            _limit(self._stored)


def _limit(memory: dict[Read, object] | dict[tuple[Kind, Content], set[Content]]) -> None:
    """The oldest goes first."""
    while len(memory) > _REMEMBERED:
        del memory[next(iter(memory))]  # type: ignore[arg-type]
