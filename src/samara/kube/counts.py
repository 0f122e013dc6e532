"""How many copies we have made: for each source, and for all sources of a namespace together."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from samara.core.model import Key

T = TypeVar("T")


def add(counter: Counter[T], key: T, by: int) -> None:
    """A counter that holds no zeros."""
    counter[key] += by
    if not counter[key]:
        del counter[key]


class Counts:
    """Marks that are not ours never count."""

    def __init__(self) -> None:
        self._of: Counter[Key] = Counter()
        self._of_home: Counter[str] = Counter()

    def add(self, owner: Key, by: int) -> None:
        add(self._of, owner, by)
        add(self._of_home, owner.source.namespace, by)

    def of(self, key: Key) -> int:
        return self._of[key]

    def of_home(self, home: str) -> int:
        return self._of_home[home]
