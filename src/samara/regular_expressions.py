"""Users write regular expressions in the configuration; RE2 matches each in time linear in the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, cast


class RegexpError(ValueError):
    """The text is not a regular expression. The message says why."""


class Match(Protocol):
    """The part of RE2's match object that Samara uses. RE2 has no type hints."""

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


MAX_MEMORY = 1024 * 1024


def compile_regexp(text: str, max_memory: int = MAX_MEMORY) -> Regexp:
    """Raises `RegexpError`, also for an expression whose program takes a large part of `max_memory`, in bytes.

    The time of one match is in proportion to the size of the program and to the length of the text.
    """
    # Imported here: without regular expressions the program does not need the 1.5 MiB of RE2.
    import re2

    options = re2.Options()
    options.log_errors = False  # otherwise RE2 writes each error to stderr
    options.max_mem = max_memory
    compiled = cast("Callable[[str, object], Regexp]", re2.compile)
    try:
        return compiled(text, options)
    except UnicodeEncodeError:
        raise RegexpError("error parsing regexp: invalid UTF-8") from None
    except re2.error as fault:
        raise RegexpError(f"error parsing regexp: {_message_of(fault)}") from None


def _message_of(fault: Exception) -> str:
    message = fault.args[0] if fault.args else ""
    return message.decode(errors="replace") if isinstance(message, bytes) else str(message)
