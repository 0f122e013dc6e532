"""`samara release`: lets a held removal go on, or keeps the copies as orphans."""

from __future__ import annotations

import click

from samara.cli.options import Cluster, Command, kubectl_flags, wait_for
from samara.cli.output import plural
from samara.cli.session import Session, session
from samara.core.names import quoted
from samara.core.registry import Registry
from samara.engine.hold_store import HoldRecord, post_answer
from samara.kube.errors import ConfigError

FORM = "vocabulary/Kind/namespace/name, with - for no namespace, as `samara status` prints it"


@click.command("release", cls=Command)
@click.argument("key", metavar="KEY")
@click.option("--discard", is_flag=True, help="Keep what is held: copies as orphans, a namespace in its tree.")
@click.option("--config", metavar="FILE", help="The settings; without it those of the operator in the cluster.")
@kubectl_flags
def command(cluster: Cluster, key: str, discard: bool, config: str | None) -> None:
    """Let a removal that the brake holds go on.

    KEY is vocabulary/Kind/namespace/name as `samara status` prints it. The release is for the set held now.
    """
    _check_form(key)
    entry = wait_for(_release(cluster, config, key, discard))
    what = "are discarded" if discard else "go on"
    click.echo(f"{plural(entry.count, 'held removal')} of {key}: told the operator that they {what}.")


def _check_form(key: str) -> None:
    if len(key.split("/")) != 4 or not all(key.split("/")):
        raise click.UsageError(f"KEY: expected {FORM}, found {quoted(key)}")


async def _release(cluster: Cluster, config: str | None, key: str, discard: bool) -> HoldRecord:
    async with session(cluster, config) as at:
        said = await post_answer(at.client, at.home, key, "discard" if discard else "release")
        if said is None:
            _check_words(key, at.registry)
            raise ConfigError(await _not_held(at, key))
        return said


def _check_words(key: str, registry: Registry) -> None:
    vocabulary, kind, *_ = key.split("/")
    known = sorted(
        {each for source_type in registry.source_types for each in (source_type.name, source_type.vocabulary)}
    )
    if vocabulary not in known:
        raise click.UsageError(f"KEY: expected a vocabulary ({', '.join(known)}), found {quoted(vocabulary)}")
    kinds = sorted({each.name for each in registry.kinds})
    if kind not in kinds:
        raise click.UsageError(f"KEY: expected a kind ({', '.join(kinds)}), found {quoted(kind)}")


async def _not_held(at: Session, key: str) -> str:
    held = sorted(await at.held())
    found = f"held are: {', '.join(held)}" if held else "nothing is held"
    return f"expected a key that the brake holds in namespace {at.home}, found {key}; {found}"
