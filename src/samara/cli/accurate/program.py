"""The program itself: the table of its commands."""

from __future__ import annotations

from typing import Any

import click

from samara import __version__
from samara.cli.accurate.base import PROGRAM, Entry, Group

COMMANDS = {
    "list": Entry("lists", "List namespace trees.", alias="ls"),
    "namespace": Entry("groups", "Show a namespace, or set its type.", "namespace", alias="ns"),
    "template": Entry("groups", "List templates, and set or unset that of a namespace.", "template"),
    "sub": Entry("groups", "Create, delete, move, graft, cut and list sub-namespaces.", "sub"),
    "completion": Entry("about", "Print what makes a shell complete.", "completion"),
    "help": Entry("about", "Show the help of a command.", "help_"),
}


def _version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"{PROGRAM} version {__version__}")
        context.exit()


class Program(Group):
    """Wrong usage is a fault as any other, as scripts know it of the original: one line, and exit 1."""

    def main(self, *args: Any, **more: Any) -> Any:
        try:
            return super().main(*args, **more)
        except click.UsageError as fault:
            from samara.kube.errors import SamaraError

            path = fault.ctx.command_path if fault.ctx is not None else PROGRAM
            told = " ".join(fault.format_message().split()).rstrip(".")
            raise SamaraError(f"{told}; `{path} --help` shows how it is used") from fault


kubectl_accurate = Program(
    COMMANDS,
    all_shown=True,
    name=PROGRAM,
    help="Manage trees and templates of namespaces.\n\nEvery command takes every flag below, at any place.",
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[
        click.Option(
            ["--version"], is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version."
        )
    ],
)


def main() -> None:
    from samara.cli.main import run

    run(kubectl_accurate, PROGRAM)


if __name__ == "__main__":
    main()
