"""Which namespaces of a large tree are shown: what is wrong first, and of the rest a few. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from samara.cli.accurate.flows import Flow, Landscape

_LAST = "\uffff"
"""Sorts behind every name."""


def is_wrong(flow: Flow) -> bool:
    """True where a person has to do something about an object, or about a copy of it."""
    return bool(flow.is_stale or flow.missing or flow.others or (flow.mode and not flow.is_passed_on))


class Fold:
    """Shows no more than so many children of each namespace."""

    def __init__(self, land: Landscape, most: int) -> None:
        self._land = land
        self._most = most
        self.rest: dict[str, str] = {}
        """By the name that stands for them: what is said of the children that are not shown."""

    def shown(self, above: str, names: Sequence[str]) -> Sequence[str]:
        if len(names) <= self._most:
            return names
        ordered = sorted(names, key=lambda name: (name not in self._wrong, name))
        left = ordered[self._most :]
        wrong = sum(name in self._wrong for name in left)
        told = f", {wrong:,} of them with something wrong" if wrong else ""
        mark = f"{_LAST}{above}"
        self.rest[mark] = f"… and {len(left):,} more{told}; --all shows them"
        return [*ordered[: self._most], mark]

    @cached_property
    def _wrong(self) -> set[str]:
        """The namespaces with a fault in them or below them."""
        above = {child: name for name, children in self._land.children.items() for child in children}
        found: set[str] = set()
        for name, node in self._land.nodes.items():
            at: str | None = name if node.faults or any(map(is_wrong, node.flows)) else None
            while at is not None and at not in found:
                found.add(at)
                at = above.get(at)
        return found
