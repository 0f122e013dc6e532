"""Flags by which `status` and `orphans` leave out what a user does not ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from samara.vocabularies import VOCABULARIES

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Filter:
    """What to show. Without values, everything."""

    namespace: str | None = None
    vocabularies: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    def admits(self, vocabulary: str, namespace: str, reasons: Iterable[str]) -> bool:
        """True if the vocabulary and the namespace are asked for, and one of the reasons is."""
        return (
            self.namespace in (None, namespace)
            and (not self.vocabularies or vocabulary in self.vocabularies)
            and (not self.reasons or not set(self.reasons).isdisjoint(reasons))
        )


def filter_flags(reasons: Sequence[str]) -> Callable[[F], F]:
    """Adds --vocabulary and --reason, both repeatable."""
    names = [vocabulary.name for vocabulary in VOCABULARIES]

    def add(command: F) -> F:
        by_reason = click.option(
            "--reason", "reasons", multiple=True, type=click.Choice(reasons), help="Only with this reason; repeatable."
        )
        by_vocabulary = click.option(
            "--vocabulary",
            "vocabularies",
            multiple=True,
            type=click.Choice(names),
            help="Only of this vocabulary; repeatable.",
        )
        return by_vocabulary(by_reason(command))

    return add
