"""Prints answers as JSON, YAML or a table, and notes and progress on stderr."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import click
import yaml

from samara.cli.formats import DEFAULT_LAYOUT, JSON, NAME, YAML, Form, Layout
from samara.core.model import Ref

T = TypeVar("T")
Grouping = Callable[[T], Hashable]

_SILENT: ContextVar[bool] = ContextVar("silent", default=False)
_CLEAR_LINE = "\r\x1b[2K"
_GAP = "  "
_CUT = "…"
_MIN_WIDTH = 10
"""No column is cut to less than this. It is the width of the longest header."""
_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):  # type: ignore[misc]
    """Writes YAML for people: no anchors and aliases, and texts of several lines as blocks."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: Any, value: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _represent_text)


def emit(
    answer: Callable[[], Mapping[str, Any]],
    form: Form,
    table: Callable[[], None],
    objects: Callable[[], Iterable[Mapping[str, str]]] = tuple,
) -> None:
    """Prints one answer in the form that `-o` asks for. Computes no other form.

    `objects`: the kind, the namespace and the name of each object that the answer lists.
    """
    if form.template is not None:
        click.echo(form.template.render(answer()), nl=False)
    elif form.name == JSON:
        click.echo(_as_json(answer()))
    elif form.name == YAML:
        click.echo(as_yaml([answer()]), nl=False)
    elif form.name == NAME:
        _print_names(objects())
    else:
        table()


def _print_names(objects: Iterable[Mapping[str, str]]) -> None:
    """Each object once, as kubectl names it: `secret/db`, `subnamespace.accurate.cybozu.com/shop`."""
    for kind, _, name in dict.fromkeys((entry["kind"], entry["namespace"], entry["name"]) for entry in objects):
        api_version, _, kind_name = kind.rpartition("/")
        group = api_version.rpartition("/")[0]
        print_line(f"{kind_name.lower()}{'.' if group else ''}{group}/{name}")


def kind_text(kind: str, layout: Layout) -> str:
    """A kind in a table. Only a wide one has room for group and version."""
    return kind if layout.is_wide else kind.rpartition("/")[2]


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


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    layout: Layout = DEFAULT_LAYOUT,
    names: str = "",
) -> None:
    """Columns as wide as their widest cell, one line for each row. Nothing is wrapped.

    On a terminal columns are cut until a row fits, unless the layout is wide. `names` is the header of the column that
    a user copies into the next command, so that it is cut last.
    """
    lines = [*([headers] if layout.has_headers else []), *([printable(str(value)) for value in row] for row in rows)]
    if not lines:
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    is_terminal = sys.stdout.isatty()
    if is_terminal and not layout.is_wide:
        kept = list(headers).index(names) if names else 0
        _fit(widths, shutil.get_terminal_size().columns - len(_GAP) * (len(widths) - 1), kept)
    for number, line in enumerate(lines):
        cells = (_cut(cell, width).ljust(width) for cell, width in zip(line, widths, strict=True))
        text = _GAP.join(cells).rstrip()
        is_bold = layout.has_headers and number == 0 and is_terminal and "NO_COLOR" not in os.environ
        click.echo(click.style(text, bold=True) if is_bold else text)


def _fit(widths: list[int], room: int, kept: int) -> None:
    """Makes columns narrower until they fit: first the last one, which holds messages, and at the end the `kept` one.

    The others become narrower together, the widest first.
    """
    last = len(widths) - 1
    others = [column for column in range(last) if column != kept]
    for columns in ([last] if last != kept else [], others, [kept]):
        most = max((widths[column] for column in columns), default=0)
        while most > _MIN_WIDTH and sum(widths) > room:
            most -= 1
            for column in columns:
                widths[column] = min(widths[column], most)


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else cell[: width - len(_CUT)] + _CUT


def print_line(text: str, *, err: bool = False) -> None:
    """Prints one line that may quote others: a manifest, a message of another program, the name of a file."""
    click.echo(printable(text), err=err)


def printable(text: str) -> str:
    """Replaces control characters, which a terminal would obey."""
    return "".join(char if char.isprintable() else "·" for char in text)


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
