"""What the demo shows: colours on a terminal, the same lines in plain text elsewhere."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

_COLUMN = 72


def spoken(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


class Screen:
    """Lines in the order of what happens. Everything is printed as text: no markup is read from it."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)

    def title(self, text: str) -> None:
        self._line(Text(f"\n{text}", "bold"))

    def say(self, text: str) -> None:
        self._line(Text(f"  {text}"))

    def command(self, *words: str) -> None:
        self._line(Text("  $ ", "dim") + Text(" ".join(map(_quoted, words)), "cyan"))

    def output(self, text: str) -> None:
        for line in text.rstrip().splitlines():
            self._line(Text(f"    {line}", "dim"))

    def took(self, what: str, seconds: float) -> None:
        self._line(Text("  ✓ ", "green") + Text(f"{what:<{_COLUMN}} ") + Text(spoken(seconds), "bold green"))

    def _line(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def _quoted(word: str) -> str:
    return f"'{word}'" if set(word) & set(' "{}$,;|&*') else word
