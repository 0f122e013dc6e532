"""Whose turn it is: sources in a row, those before a full namespace apart, so that nobody looks through all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count

from samara.core.model import Key

_READY = ""
"""The line of those who may find room; every other line is that of a namespace which was full."""


class Turns:
    """Who was served longest ago is next. Who finds no room waits in line for it and keeps its turn."""

    def __init__(self) -> None:
        self._numbers = count()
        self._turns: dict[Key, int] = {}
        self._lines: dict[str, list[tuple[int, Key]]] = {}
        """In each the least turn comes first; what a source has left in a line at an earlier turn counts no more."""
        self._stands: dict[Key, set[str]] = {}
        """The lines in which a source stands with its turn."""

    def join(self, key: Key) -> None:
        """A source has something new: it is asked when its turn comes, whatever it waited for."""
        if key not in self._turns:
            self.served(key)
        else:
            self._stand(key, _READY)

    def served(self, key: Key) -> None:
        """A source had its turn, and is the last one now."""
        self._turns[key] = next(self._numbers)
        self._stands[key] = set()
        self._stand(key, _READY)

    def wait(self, key: Key, namespaces: Iterable[str]) -> None:
        """A source waits until one of these has room."""
        for namespace in namespaces:
            self._stand(key, namespace)

    def leave(self, key: Key) -> None:
        del self._turns[key], self._stands[key]

    def next(self, has_room: Callable[[str], bool]) -> Key | None:
        """Calls the source whose turn it is out of its line, if any may find room."""
        while open_ := [name for name in self._lines if has_room(name)]:
            name = min(open_, key=lambda name: self._lines[name][0])
            turn, key = heappop(self._lines[name])
            if not self._lines[name]:
                del self._lines[name]
            if self._turns.get(key) == turn:
                self._stands[key].discard(name)
                return key
        return None

    def _stand(self, key: Key, name: str) -> None:
        if name not in self._stands[key]:
            self._stands[key].add(name)
            heappush(self._lines.setdefault(name, []), (self._turns[key], key))
