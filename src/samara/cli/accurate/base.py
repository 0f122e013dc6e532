"""What the plugin's commands have in common: kubectl's flags at every place, aliases, and modules imported late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from samara.cli.base import Switching, debug_flag
from samara.cli.kubectl_flags import kubectl_options

PROGRAM = "kubectl-accurate"


class Entry(NamedTuple):
    """One line of a table of commands: where the command is, and what help says about it."""

    module: str
    about: str
    attribute: str = "command"
    alias: str = ""


class Command(Switching):
    """A command of the plugin. Its flags have no variables: kubectl's have none either."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params.append(debug_flag())

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """A flag that may be given more than once adds to what stood in front of the command."""
        rest = super().parse_args(context, args)
        several = {each.name or "" for each in self.params if isinstance(each, click.Option) and each.multiple}
        for name in several.intersection(context.default_map or ()):
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                context.params[name] = (*(context.default_map or {})[name], *context.params[name])
        if not context.resilient_parsing:
            self._refuse_empty(context)
        return rest

    def _refuse_empty(self, context: click.Context) -> None:
        """As from a variable of the shell that is not set: no namespace is called so, and no label may say so."""
        for each in self.params:
            if isinstance(each, click.Argument) and context.params.get(each.name or "") == "":
                raise click.UsageError(f"{each.human_readable_name}: expected a name, found ''", context)


class Group(Switching, click.Group):
    """Commands that are imported when they are asked for. kubectl's flags in front of one count as if given to it."""

    def __init__(self, entries: Mapping[str, Entry], *, all_shown: bool = False, **more: Any) -> None:
        super().__init__(invoke_without_command=True, callback=_help_alone, **more)
        self.entries = entries
        for option in kubectl_options(all_shown=all_shown):
            option(self)
        self.params.append(debug_flag())

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        aliases = {entry.alias: full for full, entry in self.entries.items() if entry.alias}
        entry = self.entries.get(aliases.get(name, name))
        if entry is None:
            return None
        found: click.Command = getattr(import_module(f"samara.cli.accurate.{entry.module}"), entry.attribute)
        return found

    def invoke(self, context: click.Context) -> Any:
        given = {
            name: value
            for name, value in context.params.items()
            if context.get_parameter_source(name) is not ParameterSource.DEFAULT
        }
        aliases = (entry.alias for entry in self.entries.values())
        context.default_map = dict.fromkeys((*self.entries, *aliases), given)
        return super().invoke(context)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(_titled(name, entry), entry.about) for name, entry in self.entries.items()])


def _titled(name: str, entry: Entry) -> str:
    return f"{name}, {entry.alias}" if entry.alias else name


@click.pass_context
def _help_alone(context: click.Context, /, **flags: object) -> None:
    """A group does nothing itself: without a command it shows its help."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows whose cells begin at the same place; the last cell of each ends its line."""
    widths = [max(map(len, column)) + 1 for column in zip(*rows, strict=True)]
    return ["".join(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)) + row[-1] for row in rows]
