"""`samara completion`: the lines that make a shell complete our commands and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from samara.cli.options import Command

PROGRAMS = ("samara", "kubectl-samara")
VARIABLE = "_SAMARA_COMPLETE"
"""One for both names: the program calls itself `samara` however it was started."""


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print what makes the shell complete, for its start-up file: eval "$(samara completion bash)"."""
    for program in PROGRAMS:
        click.echo(completed(context, shell, program, VARIABLE))


def completed(context: click.Context, shell: str, program: str, variable: str) -> str:
    """What a shell needs to complete one program; click's own part looks under the variable."""
    maker = get_completion_class(shell)
    assert maker is not None
    return maker(context.find_root().command, {}, program, variable).source()
