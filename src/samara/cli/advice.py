"""Advice to users for each reason that blocks a copy, and for each fault of a source."""

from __future__ import annotations

from collections.abc import Iterable

import click

from samara.core.desired import REASONS, in_lower_case
from samara.core.vocabulary import declared_reasons
from samara.vocabularies import VOCABULARIES

ADVICE: dict[str, str] = {
    **{reason: text.advice for reason, text in REASONS.items()},
    **{in_lower_case(reason): info.advice for reason, info in declared_reasons(VOCABULARIES).items() if info.advice},
}
"""By reason, as plans and `samara status` show it."""


def advise(reasons: Iterable[str]) -> None:
    """Prints the advice for each of these reasons that has one."""
    advised = [reason for reason in dict.fromkeys(reasons) if reason in ADVICE]
    if advised:
        click.echo("What to do:")
    for reason in advised:
        click.echo(f"  {reason}: {ADVICE[reason]}.")
