"""Prints answers as JSON, YAML or a table, and notes and progress on stderr."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import click
import yaml

from samara.core.model import Ref

T = TypeVar("T")
Grouping = Callable[[T], Hashable]

_SILENT: ContextVar[bool] = ContextVar("silent", default=False)
_CLEAR_LINE = "\r\x1b[2K"
_GAP = "  "
_MIN_WIDTH = 20
"""The least width of a last column that is folded."""
_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):  # type: ignore[misc]
    """Writes YAML for people: no anchors and aliases, and texts of several lines as blocks."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: Any, value: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _represent_text)


def emit(answer: Callable[[], Mapping[str, Any]], form: str, table: Callable[[], None]) -> None:
    """Prints one answer in the form that `-o` asks for. Computes no other form."""
    if form == "json":
        click.echo(_as_json(answer()))
    elif form == "yaml":
        click.echo(as_yaml([answer()]), nl=False)
    else:
        table()


def _as_json(answer: Mapping[str, Any]) -> str:
    return json.dumps(answer, indent=2, ensure_ascii=False)


def as_list(items: Iterable[Mapping[str, Any]]) -> str:
    """Several objects as one JSON List, which `kubectl apply` accepts."""
    return _as_json({"apiVersion": "v1", "kind": "List", "items": list(items)})


def as_yaml(documents: Iterable[Mapping[str, Any]]) -> str:
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)


def note(text: str) -> None:
    """Prints a line on stderr that is not part of the answer, with the name of the running program in front."""
    context = click.get_current_context(silent=True)
    program = context.find_root().info_name if context is not None else None
    print_line(f"{program or 'samara'}: {text}", err=True)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their widest cell. On a terminal the last column is folded and the header is bold."""
    lines = [list(headers), *([printable(str(value)) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    is_terminal = sys.stdout.isatty()
    last_width = _width_of_last_column(widths) if is_terminal else None
    for number, line in enumerate(lines):
        is_bold = number == 0 and is_terminal and "NO_COLOR" not in os.environ
        for text in _wrapped(line, widths, last_width):
            click.echo(click.style(text, bold=True) if is_bold else text)


def print_line(text: str, *, err: bool = False) -> None:
    """Prints one line that may quote others: a manifest, a message of another program, the name of a file."""
    click.echo(printable(text), err=err)


def printable(text: str) -> str:
    """Replaces control characters, which a terminal would obey."""
    return "".join(char if char.isprintable() else "·" for char in text)


def _width_of_last_column(widths: Sequence[int]) -> int | None:
    """Characters that a terminal has left for the last column. None if folding would make it unreadable."""
    remaining = shutil.get_terminal_size().columns - sum(width + len(_GAP) for width in widths[:-1])
    return remaining if remaining >= _MIN_WIDTH else None


def _wrapped(line: Sequence[str], widths: Sequence[int], last_width: int | None) -> Iterator[str]:
    """The line of a row, and more lines if its last cell is wider than the last column may be."""
    *cells, last = line
    prefix = "".join(cell.ljust(width) + _GAP for cell, width in zip(cells, widths, strict=False))
    first, *more = [last] if last_width is None else textwrap.wrap(last, last_width) or [""]
    yield (prefix + first).rstrip()
    yield from (" " * len(prefix) + text for text in more)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """One line on a terminal that shows the current step, and is cleared at the end."""
    is_shown = sys.stderr.isatty() and not _SILENT.get()

    def show(text: str) -> None:
        if is_shown:
            click.echo(f"{_CLEAR_LINE}{text} …", nl=False, err=True)

    try:
        yield show
    finally:
        if is_shown:
            click.echo(_CLEAR_LINE, nl=False, err=True)


@contextmanager
def without_progress() -> Iterator[None]:
    """Within this block `progress` shows nothing."""
    previous = _SILENT.set(True)
    try:
        yield
    finally:
        _SILENT.reset(previous)


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


# tables of ten thousand rows

MAX_ROWS = 40
"""Rows that a table may have before it is grouped more coarsely."""
_ANY_NAMESPACE = "…"
"""In place of the namespace in a message."""


def folded(items: Iterable[T], *groupings: Grouping[T], most: int = MAX_ROWS) -> list[list[T]]:
    """Groups the items by the first grouping that gives at most `most` groups, else by the last one."""
    items = list(items)
    groups: dict[Hashable, list[T]] = {}
    for grouping in groupings:
        groups = {}
        for item in items:
            groups.setdefault(grouping(item), []).append(item)
        if len(groups) <= most:
            break
    return list(groups.values())


def note_folding(count: int, groups: int, items: str) -> None:
    """Notes on stderr that a table was folded, and how to see all of it."""
    if groups < count:
        note(f"{count:,} {items} are shown in {groups:,} rows; --all lists each")


def generalize(message: str, ref: Ref) -> str:
    """A message without the namespace of its object, so that messages about several namespaces are equal."""
    return message.replace(ref.namespace, _ANY_NAMESPACE) if ref.namespace else message


def merge_messages(messages: Sequence[str], generalized: Sequence[str]) -> str:
    """One text for a row of several messages: the only message, else the first of the generalized ones."""
    if len(set(messages)) == 1:
        return messages[0]
    others = len(set(generalized)) - 1
    return f"{generalized[0]} (and {others:,} other messages)" if others else generalized[0]
