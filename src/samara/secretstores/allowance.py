"""Limits how many paths the sources of one namespace may read together."""

from __future__ import annotations

from collections import Counter

from samara.core.model import Key


class Allowance:
    """Which sources may read their paths: those of a namespace that asked first, while all their paths fit.

    The others wait in line until a source reads fewer paths or is gone. A path counts once for each source.
    """

    def __init__(self, most: int | None) -> None:
        self.most = most
        """Paths of all sources of one namespace. None: there is no limit."""
        self._allowed: dict[Key, int] = {}
        self._used: Counter[str] = Counter()
        self._waiting: dict[str, dict[Key, int]] = {}
        """By namespace: the sources in line, each with its number of paths."""

    def allows(self, key: Key) -> bool:
        return key in self._allowed

    def request(self, key: Key, paths: int) -> tuple[Key, ...]:
        """Replaces the number of paths that a source reads. Returns the other sources that may read theirs now."""
        namespace = key.source.namespace
        self._used[namespace] -= self._allowed.pop(key, 0)
        line = self._waiting.setdefault(namespace, {})
        if not paths:
            line.pop(key, None)
        elif self._fits(namespace, paths):
            line.pop(key, None)
            self._allow(key, paths)
        else:
            line[key] = paths  # a source that waits already keeps its position in the line
        served = self._serve(namespace, line)
        if not line:
            del self._waiting[namespace]
        if not self._used[namespace]:
            del self._used[namespace]
        return tuple(other for other in served if other != key)

    def _serve(self, namespace: str, line: dict[Key, int]) -> list[Key]:
        """Only the first in line is looked at, so that a long line costs nothing."""
        served = []
        while line and self._fits(namespace, line[first := next(iter(line))]):
            self._allow(first, line.pop(first))
            served.append(first)
        return served

    def _fits(self, namespace: str, paths: int) -> bool:
        return self.most is None or self._used[namespace] + paths <= self.most

    def _allow(self, key: Key, paths: int) -> None:
        self._allowed[key] = paths
        self._used[key.source.namespace] += paths
