"""Advice to users for each reason that blocks a copy, and for each fault of a source."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

from samara.core.metadata_keys import ACCEPT, PAUSED
from samara.core.vocabulary import declared_reasons
from samara.vocabularies import VOCABULARIES


def fault_reason(reason: str) -> str:
    """The reason of a fault in the form of other reasons: `FetchError` is `fetch-error`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", reason).lower()


ADVICE = {
    "conflict": "remove or rename the object that is there, or remove this target from the source",
    "no-namespace": "create the namespace, or take its name off the source; Samara then creates the copy",
    "refused": "correct the source, or ask an administrator: the settings, the API server or the secret manager refuse"
    " it; Samara tries again from time to time",
    "not-accepted": f"an editor of that namespace can add the source's namespace to its annotation {ACCEPT}",
    "invalid": "correct the name or the value on the source; `samara lint FILE` shows the line",
    "held": f"remove {PAUSED} where something is paused; to let held deletions continue: `samara release KEY`",
    "fought": "find out which other client changes the object, and stop one of the two",
    **{fault_reason(reason): info.advice for reason, info in declared_reasons(VOCABULARIES).items() if info.advice},
}
"""By reason, as plans and `samara status` show it."""


def advise(reasons: Iterable[str]) -> None:
    """Prints the advice for each of these reasons that has one."""
    advised = [reason for reason in dict.fromkeys(reasons) if reason in ADVICE]
    if advised:
        click.echo("What to do:")
    for reason in advised:
        click.echo(f"  {reason}: {ADVICE[reason]}.")
