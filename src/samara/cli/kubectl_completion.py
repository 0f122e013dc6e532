"""The program `kubectl_complete-samara`, which kubectl runs to complete `kubectl samara`."""

from __future__ import annotations

import sys
from contextlib import suppress

import click
from click.shell_completion import CompletionItem, ShellComplete

from samara.cli.main import samara

NO_FILES, FILES = ":4", ":0"
"""The last line: whether the shell offers names of files if there is no word before it."""


def main() -> None:
    """Prints the words that may follow. The arguments are the words after `kubectl samara`, the last one unfinished."""
    *words, incomplete = sys.argv[1:] or [""]
    items: list[CompletionItem] = []
    with suppress(Exception):  # a shell that completes shows no error, whatever it is
        items = ShellComplete(samara, {}, "samara", "").get_completions(words, incomplete)
    for item in items:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(FILES if any(item.type == "file" for item in items) else NO_FILES)
    sys.exit(0)
