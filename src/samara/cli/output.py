"""Answers in the form that was asked for: JSON, YAML, or a table that fits a terminal and a pipe alike."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import click
import yaml

_SILENT: ContextVar[bool] = ContextVar("silent", default=False)
_ANEW = "\r\x1b[2K"
"""Begins a terminal's line anew."""
_FOLDABLE = 1000
"""Rows that a library may measure and fold; ten thousand would take it seconds."""
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
    """Columns as wide as their widest cell; on a terminal the header stands out and long cells are folded."""
    cells = [[_cell(each) for each in row] for row in rows]
    if sys.stdout.isatty() and len(cells) <= _FOLDABLE:
        _rich(headers, cells)
    else:
        _plain([list(headers), *cells])


def _cell(value: object) -> str:
    """One line, and nothing in it that a terminal would obey."""
    return "".join(char if char.isprintable() else "·" for char in str(value))


def _plain(lines: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _rich(headers: Sequence[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    bold = "" if "NO_COLOR" in os.environ else "bold"  # the library takes only the colours away
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=bold)
    for header in headers:
        made.add_column(header, overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    Console(highlight=False).print(made)


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
