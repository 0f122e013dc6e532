"""The program itself: the table of its commands."""

from __future__ import annotations

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


kubectl_accurate = Group(
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
