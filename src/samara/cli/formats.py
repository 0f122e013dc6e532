"""The output formats: `-o` with its templates, and `--no-headers`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from samara.cli.suggestions import did_you_mean

if TYPE_CHECKING:  # imported when -o has a template
    from samara.cli.jsonpath import Template

F = TypeVar("F", bound=Callable[..., object])

TABLE, WIDE, JSON, YAML, NAME, JSONPATH = "table", "wide", "json", "yaml", "name", "jsonpath"
ANSWERED = (TABLE, JSON, YAML, JSONPATH)
LISTED = (TABLE, WIDE, JSON, YAML, NAME, JSONPATH)
"""The output formats of commands that answer a question, and of those that list objects."""


class Form(NamedTuple):
    """The output format that `-o` names."""

    name: str
    template: Template | None = None
    """The template of `jsonpath`."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How much of a table is shown."""

    has_every_row: bool = False
    """One row per object, even if there are many."""
    is_wide: bool = False
    """With more details, and nothing is cut."""
    has_headers: bool = True
    """False for scripts: only rows, without headers, counts and advice."""


DEFAULT_LAYOUT = Layout()


def layout_of(form: Form, *, show_all: bool, no_headers: bool) -> Layout:
    """Without headers every object has its row, because a script cannot read a row of several objects."""
    return Layout(show_all or no_headers, form.name == WIDE, not no_headers)


def output_flag(*names: str) -> Callable[[F], F]:
    """Adds -o, with the formats of an answer if none are named. The first is the default."""
    accepted = names or ANSWERED
    spelled = [f"{JSONPATH}=" if name == JSONPATH else name for name in accepted]

    def form(value: str) -> Form:
        return _parse_form(value, spelled)

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        return [name for name in spelled if name.startswith(incomplete)]

    return click.option(
        "-o",
        "--output",
        type=form,
        default=accepted[0],
        show_default=True,
        metavar=f"[{'|'.join(accepted)}]".replace(JSONPATH, f"{JSONPATH}=TEMPLATE"),
        shell_complete=complete,
        help="The output format." + (" In wide tables nothing is cut." if WIDE in accepted else ""),
    )


def _parse_form(value: str, spelled: Sequence[str]) -> Form:
    name, equals, text = value.partition("=")
    if name + equals not in spelled:
        raise click.BadParameter(f"expected one of {', '.join(spelled)}, found {value!r}{did_you_mean(value, spelled)}")
    return Form(name, _parse_template(text) if equals else None)


def _parse_template(text: str) -> Template:
    from samara.cli.jsonpath import TemplateError, parse_template  # late, because it is seldom needed

    try:
        return parse_template(text)
    except TemplateError as error:
        raise click.BadParameter(f"{JSONPATH}: {error}") from None


def headers_flag(command: F) -> F:
    help_text = "Only rows, one per object, without headers, counts and advice."
    return click.option("--no-headers", is_flag=True, help=help_text)(command)
