"""Ten thousand of something on one screen: grouped by the first way that gives few enough rows, with counts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from samara.cli.base import note
from samara.core.model import Ref

T = TypeVar("T")
Way = Callable[[T], Hashable]

MOST = 40
"""Rows that a table may have before it is folded further."""
_HERE = "…"


def folded(items: Iterable[T], *ways: Way[T], most: int = MOST) -> list[list[T]]:
    """The items in groups, by the first of the ways that gives no more than `most` of them, else by the last."""
    found = list(items)
    groups: dict[Hashable, list[T]] = {}
    for way in ways:
        groups = {}
        for item in found:
            groups.setdefault(way(item), []).append(item)
        if len(groups) <= most:
            break
    return list(groups.values())


def hint(count: int, groups: int, what: str) -> None:
    """Says that a table was folded, and how to see it whole."""
    if groups < count:
        note(f"{count:,} {what} are shown in {groups:,} rows; --all lists each")


def common(message: str, ref: Ref) -> str:
    """What is said of one place, as it is said of others, too."""
    return message.replace(ref.namespace, _HERE) if ref.namespace else message


def shared(messages: Sequence[str], commons: Sequence[str]) -> str:
    """What a row of several says: their one message, what they have in common, or the first of them."""
    if len(set(messages)) == 1:
        return messages[0]
    others = len(set(commons)) - 1
    return f"{commons[0]} (and {others:,} other messages)" if others else commons[0]
