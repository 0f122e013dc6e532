"""`samara completion`: the lines that make a shell complete our commands and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from samara.cli.base import Command

PROGRAMS = ("samara", "kubectl-samara")
VARIABLE = "_SAMARA_COMPLETE"
"""One for both names: the program calls itself `samara` however it was started."""


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print what makes the shell complete, for its start-up file: eval "$(samara completion bash)"."""
    maker = get_completion_class(shell)
    assert maker is not None
    root = context.find_root().command
    for program in PROGRAMS:
        click.echo(maker(root, {}, program, VARIABLE).source())
