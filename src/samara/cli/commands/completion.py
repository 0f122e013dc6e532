"""`samara completion`: the shell script that completes commands and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from samara.cli.options import Command

PROGRAMS = ("samara", "kubectl-samara")
VARIABLE = "_SAMARA_COMPLETE"
"""The same for both programs, because kubectl-samara runs under the name `samara` too."""


@click.command(
    "completion",
    cls=Command,
    examples={
        "bash, in ~/.bashrc": 'eval "$(samara completion bash)"',
        "zsh, in ~/.zshrc after compinit": 'eval "$(samara completion zsh)"',
        "fish, in ~/.config/fish/config.fish": "samara completion fish | source",
    },
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script with which a shell completes commands, flags, and names from the cluster.

    The shell must read it at its start.
    """
    for program in PROGRAMS:
        click.echo(completion_script(context, shell, program, VARIABLE))


def completion_script(context: click.Context, shell: str, program: str, variable: str) -> str:
    """The shell script that completes one program. It runs the program with `variable` set, so that click completes."""
    completion = get_completion_class(shell)
    assert completion is not None
    return completion(context.find_root().command, {}, program, variable).source()
