"""Trees as lines of text. Pure: names in, lines out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from samara.cli.accurate.space import Space
from samara.dialects.accurate.words import IS_TEMPLATE, PARENT, ROOT, TEMPLATE, TYPE

FORK, END, BAR, GAP = "├── ", "└── ", "│   ", "    "


class Line(NamedTuple):
    """One node: what stands before it, what stands before the lines that tell more about it, and its name."""

    before: str
    below: str
    name: str
    again: bool = False
    """True where the node stands above already: the tree is a loop, and is not followed further."""


def lines(tops: Iterable[str], children: Callable[[str], Sequence[str]]) -> Iterator[Line]:
    """Every node below the tops, depth first. Without recursion: a chain may be longer than the stack."""
    above: set[str] = set()
    waiting: list[tuple[str, str, bool] | None] = [*_siblings(sorted(tops), "")]
    path: list[str] = []
    while waiting:
        step = waiting.pop()
        if step is None:
            above.discard(path.pop())
            continue
        name, indent, last = step
        below = indent + (GAP if last else BAR)
        if name in above:
            yield Line(indent + (END if last else FORK), below, name, again=True)
            continue
        under = sorted(children(name))
        yield Line(indent + (END if last else FORK), below + (BAR if under else GAP), name)
        above.add(name)
        path.append(name)
        waiting += [None, *_siblings(under, below)]


def _siblings(names: Sequence[str], indent: str) -> Iterator[tuple[str, str, bool]]:
    """The next to be drawn comes last, as from a stack."""
    return ((name, indent, place == 0) for place, name in enumerate(reversed(names)))


class Forest(NamedTuple):
    """Which namespaces stand on top, and which below which."""

    tops: tuple[str, ...]
    children: dict[str, list[str]]

    def drawn(self, top: str | None = None) -> Iterator[str]:
        tops = self.tops if top is None else (top,)
        for line in lines(tops, lambda name: self.children.get(name, ())):
            yield f"{line.before}{line.name}{' (loop)' if line.again else ''}"


def trees(spaces: Iterable[Space]) -> Forest:
    """By parent labels, from every root down."""
    found = list(spaces)
    return Forest(tuple(each.name for each in found if each.labels.get(TYPE) == ROOT), _below(found, PARENT))


def templates(spaces: Iterable[Space]) -> Forest:
    """By template labels, from every template that is no instance itself."""
    found = list(spaces)
    tops = (each.name for each in found if each.labels.get(TYPE) == IS_TEMPLATE and TEMPLATE not in each.labels)
    return Forest(tuple(tops), _below(found, TEMPLATE))


def _below(spaces: Iterable[Space], label: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in spaces:
        if upstream := each.labels.get(label):
            found.setdefault(upstream, []).append(each.name)
    return found
