"""Regular expressions that people write: RE2, which takes a time linear in the text, whoever wrote them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, cast


class RegexpError(ValueError):
    """The text is not a regular expression. The message says why."""


class Match(Protocol):
    """A match, as much of it as its readers need."""

    @property
    def re(self) -> Regexp: ...
    def __getitem__(self, group: int) -> str | None: ...
    def start(self) -> int: ...
    def end(self) -> int: ...


class Regexp(Protocol):
    @property
    def groupindex(self) -> Mapping[str, int]: ...
    @property
    def groups(self) -> int: ...
    def search(self, text: str, pos: int = 0) -> Match | None: ...
    def fullmatch(self, text: str, /) -> Match | None: ...


def compile_regexp(text: str) -> Regexp:
    """Raises `RegexpError`."""
    # Imported here: without regular expressions the program does not need the 1.5 MiB of RE2.
    import re2

    options = re2.Options()
    options.log_errors = False  # RE2 would write a line of its own to stderr
    compiled = cast("Callable[[str, object], Regexp]", re2.compile)
    try:
        return compiled(text, options)
    except UnicodeEncodeError:
        raise RegexpError("error parsing regexp: invalid UTF-8") from None
    except re2.error as fault:
        raise RegexpError(f"error parsing regexp: {_said(fault)}") from None


def _said(fault: Exception) -> str:
    said = fault.args[0] if fault.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
