"""Prints the lines of the demo, coloured on a terminal and as plain text elsewhere."""

from __future__ import annotations

import os

import click

_COLUMN = 72


def duration_text(seconds: float) -> str:
    """A duration with the unit that suits it."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


class Screen:
    """Prints one line after the other, and numbers the steps."""

    def __init__(self) -> None:
        self._steps = 0
        self._color = False if "NO_COLOR" in os.environ else None
        """None lets click decide: colours on a terminal only."""

    def title(self, text: str) -> None:
        self._line(click.style(f"\n{text}", bold=True))

    def step(self, text: str) -> None:
        self._steps += 1
        self.title(f"{self._steps}. {text}")

    def say(self, text: str) -> None:
        self._line(f"  {text}")

    def command(self, *arguments: str) -> None:
        self._line(click.style("  $ ", dim=True) + click.style(" ".join(map(_quoted, arguments)), fg="cyan"))

    def output(self, text: str) -> None:
        for line in text.rstrip().splitlines():
            self._line(click.style(f"    {line}", dim=True))

    def took(self, result: str, seconds: float) -> None:
        check, duration = click.style("  ✓ ", fg="green"), click.style(duration_text(seconds), fg="green", bold=True)
        self._line(f"{check}{result:<{_COLUMN}} {duration}")

    def _line(self, text: str) -> None:
        click.echo(text, color=self._color)


def _quoted(argument: str) -> str:
    return f"'{argument}'" if set(argument) & set(' "{}$,;|&*') else argument
