"""Suggests the words that a user probably meant to type."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import click

_MAX_SUGGESTIONS = 3


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """The end of a message about an unknown word, such as `; did you mean 'status'?`. Empty if none is similar."""
    by_lower_case = {candidate.lower(): candidate for candidate in candidates}
    count = 1 if word.lower() in by_lower_case else _MAX_SUGGESTIONS
    similar = [by_lower_case[match] for match in get_close_matches(word.lower(), by_lower_case, count)]
    return f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""


def unknown_namespace(name: str, namespaces: Iterable[str]) -> str:
    """The message about a namespace that does not exist."""
    return f"there is no namespace {name!r}{did_you_mean(name, namespaces)}"


def unknown_command(word: str, context: click.Context, group: click.Group) -> click.UsageError:
    """The error about a word that is no command of the group."""
    similar = did_you_mean(word, group.list_commands(context))
    return click.UsageError(f"expected a command, found {word!r}{similar}", context)


class SuggestingChoice(click.Choice[str]):
    """A choice whose error message names the values that are spelt nearly like the one that was given."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        try:
            return super().convert(value, parameter, context)
        except click.BadParameter as error:
            message = f"{error.message.rstrip('.')}{did_you_mean(str(value), self.choices)}"
            raise click.BadParameter(message, context, parameter) from None
