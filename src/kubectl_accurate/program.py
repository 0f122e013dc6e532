"""The program `kubectl-accurate`: its table of commands, and how they take kubectl's flags.

A module with commands is imported when one of them is needed, so that `--help` and shell completion stay quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from samara import __version__
from samara.cli.options import KubectlStyleCommand, debug_flag, kubectl_options
from samara.cli.suggestions import unknown_command
from samara.kube.aiohttp_import import small_aiohttp

PROGRAM = "kubectl-accurate"
COMPLETION_VARIABLE = "_KUBECTL_ACCURATE_COMPLETE"
"""Click derives this name from the program's."""


class Entry(NamedTuple):
    """One line of a table of commands: where the command is, and its line in the help."""

    module: str
    attribute: str
    help: str
    alias: str = ""


class Command(KubectlStyleCommand):
    """A command of the plugin. Like kubectl's, its flags have no environment variables."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params.append(debug_flag())

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """The values of a repeatable flag are added to those in front of the command."""
        rest = super().parse_args(context, args)
        repeatable = {
            option.name or "" for option in self.params if isinstance(option, click.Option) and option.multiple
        }
        for name in repeatable.intersection(context.default_map or ()):
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                context.params[name] = (*(context.default_map or {})[name], *context.params[name])
        if not context.resilient_parsing:
            self._refuse_empty_arguments(context)
        return rest

    def _refuse_empty_arguments(self, context: click.Context) -> None:
        """An empty name usually comes from an unset shell variable. No namespace has an empty name."""
        for parameter in self.params:
            if isinstance(parameter, click.Argument) and context.params.get(parameter.name or "") == "":
                raise click.UsageError(f"{parameter.human_readable_name}: expected a name, found ''", context)


class Group(KubectlStyleCommand, click.Group):
    """A group that imports its commands on demand. Flags in front of a command count as if given to it."""

    def __init__(self, entries: Mapping[str, Entry], *, all_shown: bool = False, **more: Any) -> None:
        super().__init__(invoke_without_command=True, callback=_show_help_without_command, **more)
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
        with small_aiohttp():
            module = import_module(f"kubectl_accurate.{entry.module}")
        command: click.Command = getattr(module, entry.attribute)
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuses an unknown command, and names those that are spelt nearly like it."""
        word = args[0]
        if not context.resilient_parsing and not word.startswith("-") and self.get_command(context, word) is None:
            raise unknown_command(word, context, self)
        return super().resolve_command(context, args)

    def invoke(self, context: click.Context) -> Any:
        flags_in_front = {
            name: value
            for name, value in context.params.items()
            if context.get_parameter_source(name) is not ParameterSource.DEFAULT
        }
        aliases = (entry.alias for entry in self.entries.values())
        context.default_map = dict.fromkeys((*self.entries, *aliases), flags_in_front)
        return super().invoke(context)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Written from the table, so that `--help` imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl([(_with_alias(name, entry), entry.help) for name, entry in self.entries.items()])


def _with_alias(name: str, entry: Entry) -> str:
    return f"{name}, {entry.alias}" if entry.alias else name


@click.pass_context
def _show_help_without_command(context: click.Context, /, **flags: object) -> None:
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes the shell complete, for its start-up file: eval "$(kubectl-accurate completion bash)"."""
    from samara.cli.commands.completion import completion_script

    click.echo(completion_script(context, shell, PROGRAM, COMPLETION_VARIABLE))


@click.command("help", cls=Command)
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(context: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of a command."""
    parent = context.find_root()
    command: click.Command = parent.command
    for name in names:
        if not isinstance(command, click.Group):
            raise click.UsageError(f"expected a command, found {' '.join(names)!r}")
        child = command.get_command(parent, name)
        if child is None:
            raise unknown_command(name, parent, command)
        parent = click.Context(child, info_name=child.name, parent=parent)
        command = child
    click.echo(command.get_help(parent))


namespace = Group(
    {
        "describe": Entry("commands", "describe", "Show a namespace, what it inherits and what it propagates."),
        "set-type": Entry("commands", "set_type", "Make a namespace a root, a template, or neither."),
    },
    name="namespace",
    help="Show a namespace, or set its type.",
)
template = Group(
    {
        "list": Entry("lists", "list_templates", "List templates and their instances.", alias="ls"),
        "set": Entry("commands", "set_template", "Make a namespace an instance of a template."),
        "unset": Entry("commands", "unset_template", "Make a namespace an instance of none."),
    },
    name="template",
    help="List templates, and set or unset that of a namespace.",
)
sub = Group(
    {
        "create": Entry("sub", "create", "Create a sub-namespace."),
        "delete": Entry("sub", "delete", "Delete a sub-namespace."),
        "move": Entry("sub", "move", "Give a sub-namespace another parent."),
        "graft": Entry("sub", "graft", "Make a namespace a sub-namespace."),
        "cut": Entry("sub", "cut", "Make a sub-namespace a root."),
        "list": Entry("lists", "list_trees", "List namespace trees.", alias="ls"),
    },
    name="sub",
    help="Create, delete, move, graft, cut and list sub-namespaces.",
)


def _print_version(context: click.Context, parameter: click.Parameter, is_given: bool) -> None:
    if is_given and not context.resilient_parsing:
        click.echo(f"{PROGRAM} version {__version__}")
        context.exit()


class Program(Group):
    """Reports wrong usage in one line with exit code 1, like the original plugin, since scripts may rely on it."""

    def main(self, *args: Any, **more: Any) -> Any:
        try:
            return super().main(*args, **more)
        except click.UsageError as error:
            from samara.kube.errors import SamaraError

            path = error.ctx.command_path if error.ctx is not None else PROGRAM
            message = " ".join(error.format_message().split()).rstrip(".")
            raise SamaraError(f"{message}; `{path} --help` shows how it is used") from error


kubectl_accurate = Program(
    {
        "list": Entry("lists", "list_trees", "List namespace trees.", alias="ls"),
        "namespace": Entry("program", "namespace", "Show a namespace, or set its type.", alias="ns"),
        "template": Entry("program", "template", "List templates, and set or unset that of a namespace."),
        "sub": Entry("program", "sub", "Create, delete, move, graft, cut and list sub-namespaces."),
        "completion": Entry("program", "completion", "Print what makes a shell complete."),
        "help": Entry("program", "help_", "Show the help of a command."),
    },
    all_shown=True,
    name=PROGRAM,
    help="Manage trees and templates of namespaces.\n\nEvery command takes every flag below, at any place.",
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_print_version,
            help="Show the version.",
        )
    ],
)


def main() -> None:
    from samara.cli.main import run

    run(kubectl_accurate, PROGRAM)
