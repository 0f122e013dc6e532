"""Answers in the form that was asked for: JSON, YAML, or a table that fits a terminal and a pipe alike."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import click
import yaml

_SILENT: ContextVar[bool] = ContextVar("silent", default=False)
_ANEW = "\r\x1b[2K"
"""Begins a terminal's line anew."""
_GAP = "  "
_MIN_WIDTH = 20
"""Characters that a folded column needs at least."""
_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):  # type: ignore[misc]
    """For people: nothing stands for something else, and a text of several lines is one."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: Any, value: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def emit(shape: Callable[[], Mapping[str, Any]], form: str, table: Callable[[], None]) -> None:
    """Prints one answer; only the form that is asked for is made."""
    if form == "json":
        click.echo(_as_json(shape()))
    elif form == "yaml":
        click.echo(as_yaml([shape()]), nl=False)
    else:
        table()


def _as_json(shape: Mapping[str, Any]) -> str:
    return json.dumps(shape, indent=2, ensure_ascii=False)


def as_list(items: Iterable[Mapping[str, Any]]) -> str:
    """Several objects as JSON, as kubectl reads them."""
    return _as_json({"apiVersion": "v1", "kind": "List", "items": list(items)})


def as_yaml(documents: Iterable[Mapping[str, Any]]) -> str:
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their widest cell. On a terminal the last column is folded and the header is bold."""
    lines = [list(headers), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    is_terminal = sys.stdout.isatty()
    room = _room_for_last(widths) if is_terminal else None
    for number, line in enumerate(lines):
        bold = number == 0 and is_terminal and "NO_COLOR" not in os.environ
        for text in _folded(line, widths, room):
            click.echo(click.style(text, bold=True) if bold else text)


def _cell(value: object) -> str:
    """One line without control characters, which a terminal would obey."""
    return "".join(char if char.isprintable() else "·" for char in str(value))


def _room_for_last(widths: Sequence[int]) -> int | None:
    """Characters that a terminal has left for the last column. None if folding would make it unreadable."""
    room = shutil.get_terminal_size().columns - sum(width + len(_GAP) for width in widths[:-1])
    return room if room >= _MIN_WIDTH else None


def _folded(line: Sequence[str], widths: Sequence[int], room: int | None) -> Iterator[str]:
    """The line of a row, and more lines if its last cell is wider than the room for it."""
    *cells, last = line
    prefix = "".join(cell.ljust(width) + _GAP for cell, width in zip(cells, widths, strict=False))
    first, *more = [last] if room is None else textwrap.wrap(last, room) or [""]
    yield (prefix + first).rstrip()
    yield from (" " * len(prefix) + text for text in more)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """One line on a terminal that says what is going on, and goes when it is over."""

    shown = sys.stderr.isatty() and not _SILENT.get()

    def told(text: str) -> None:
        if shown:
            click.echo(f"{_ANEW}{text} …", nl=False, err=True)

    try:
        yield told
    finally:
        if shown:
            click.echo(_ANEW, nl=False, err=True)


def without_progress() -> None:
    """From now on: whoever looks every two seconds has no need to be told so."""
    _SILENT.set(True)


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
