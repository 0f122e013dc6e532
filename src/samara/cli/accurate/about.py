"""`help` and `completion`: what the program says about itself."""

from __future__ import annotations

import click

from samara.cli.accurate.base import PROGRAM, Command
from samara.cli.completion import completed

VARIABLE = "_KUBECTL_ACCURATE_COMPLETE"
"""The name under which click's own part of completion looks."""


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes the shell complete, for its start-up file: eval "$(kubectl-accurate completion bash)"."""
    click.echo(completed(context, shell, PROGRAM, VARIABLE))


@click.command("help", cls=Command)
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a command."""
    above = context.find_root()
    found: click.Command = above.command
    for word in words:
        inner = found.get_command(above, word) if isinstance(found, click.Group) else None
        if inner is None:
            raise click.UsageError(f"expected a command, found {' '.join(words)!r}")
        above = click.Context(inner, info_name=inner.name, parent=above)
        found = inner
    click.echo(found.get_help(above))
