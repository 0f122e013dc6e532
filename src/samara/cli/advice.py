"""What to do about each reason for which something is not written."""

from __future__ import annotations

from collections.abc import Iterable

import click

from samara.core.metadata_keys import ACCEPT, PAUSED

ADVICE = {
    "conflict": "remove or rename the object that is there, or take the place off the source",
    "no-namespace": "create the namespace, or take its name off the source; the copy follows by itself",
    "refused": "correct the source, or ask an administrator: the settings, the API server or the secret manager say no;"
    " it is tried again now and then",
    "not-accepted": f"who may edit that namespace adds the source's namespace to its annotation {ACCEPT}",
    "invalid": "correct the name or the value on the source; `samara lint FILE` shows the line",
    "held": f"remove {PAUSED} where something is paused; what the brake holds goes on by `samara release KEY`",
    "fought": "find out who else changes the object, and stop one of the two",
    "path-not-allowed": "an administrator can allow the path in the settings (vocabularies.fishysecret.paths)",
    "token-error": "complete the Secret that configures the secret manager",
    "connection-error": "correct the url in the Secret that configures the secret manager",
    "fetch-error": "correct the path, or put the value into the secret manager; the Secret stays as it is",
}
"""By the reasons of plans and of `samara status`."""


def advise(reasons: Iterable[str]) -> None:
    """Prints one line for each of these reasons."""
    known = [reason for reason in dict.fromkeys(reasons) if reason in ADVICE]
    if known:
        click.echo("What to do:")
    for reason in known:
        click.echo(f"  {reason}: {ADVICE[reason]}.")
