"""`samara release`: lets held deletions continue, or keeps the copies as orphans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from samara.cli import completion
from samara.cli.options import Cluster, Command, kubectl_flags, wait_for
from samara.cli.output import plural
from samara.cli.session import Session, open_session
from samara.cli.suggestions import did_you_mean
from samara.core.names import quoted
from samara.core.registry import Registry
from samara.engine.hold_records import HoldRecord, post_answer
from samara.kube.errors import ConfigError

KEY_FORM = "vocabulary/Kind/namespace/name, with - for no namespace, as `samara status` prints it"


@click.command(
    "release",
    cls=Command,
    namespace="The operator's namespace. Default: where its settings are.",
    examples={
        "Let the held deletions of a source go on": "samara release secret-copy/Secret/admin/db",
        "Delete nothing, and keep the copies as orphans": "samara release secret-copy/Secret/admin/db --discard",
        "Of two sources": "samara release secret-copy/Secret/admin/db secret-copy/Secret/admin/mail",
    },
)
@click.argument("keys", metavar="KEY...", nargs=-1, required=True, shell_complete=completion.held_keys)
@click.option(
    "--discard", is_flag=True, help="Delete nothing: copies become orphans, and a namespace stays in its tree."
)
@click.option(
    "--config",
    type=click.Path(),
    metavar="FILE",
    help="The file with the settings. Default: those of the operator in the cluster.",
)
@kubectl_flags
def command(cluster: Cluster, keys: tuple[str, ...], discard: bool, config: str | None) -> None:
    """Let deletions go on that the operator holds because they are many at a time.

    KEY is vocabulary/Kind/namespace/name as `samara status` prints it. The release is for the copies that are held now:
    later deletions of the source may be held again. If one of several keys is wrong, nothing is released.
    """
    for key in keys:
        _check_form(key)
    request = "keep the copies as orphans" if discard else "delete them"
    for record in wait_for(_release(cluster, config, tuple(dict.fromkeys(keys)), discard)):
        click.echo(f"{plural(record.count, 'held deletion')} of {record.key}: asked the operator to {request}.")


def _check_form(key: str) -> None:
    if len(key.split("/")) != 4 or not all(key.split("/")):
        raise click.UsageError(f"KEY: expected {KEY_FORM}, found {quoted(key)}")


async def _release(cluster: Cluster, config: str | None, keys: Sequence[str], discard: bool) -> list[HoldRecord]:
    async with open_session(cluster, config) as session:
        held = await session.held_deletions()
        for key in keys:
            if key not in held:
                check_names(key, session.registry)
                raise ConfigError(not_held(key, session.operator_namespace, held))
        return [await _release_one(session, key, discard) for key in keys]


async def _release_one(session: Session, key: str, discard: bool) -> HoldRecord:
    namespace = session.operator_namespace
    record = await post_answer(session.client, namespace, key, "discard" if discard else "release")
    if record is None:  # the hold has ended since it was read
        raise ConfigError(not_held(key, namespace, await session.held_deletions()))
    return record


def check_names(key: str, registry: Registry) -> None:
    """Raises a usage error if the key names a vocabulary or kind that does not exist."""
    vocabulary, kind, *_ = key.split("/")
    source_types = registry.source_types
    known = sorted({name for source_type in source_types for name in (source_type.name, source_type.vocabulary)})
    if vocabulary not in known:
        similar = did_you_mean(vocabulary, known)
        raise click.UsageError(f"KEY: expected a vocabulary ({', '.join(known)}), found {quoted(vocabulary)}{similar}")
    kinds = sorted({known_kind.name for known_kind in registry.kinds})
    if kind not in kinds:
        similar = did_you_mean(kind, kinds)
        raise click.UsageError(f"KEY: expected a kind ({', '.join(kinds)}), found {quoted(kind)}{similar}")


def not_held(key: str, namespace: str, held: Iterable[str]) -> str:
    """The message about a key for which the operator in this namespace holds no deletions."""
    keys = sorted(held)
    expected = f"expected the key of deletions that the operator in namespace {namespace} holds, found {key}"
    all_held = f"; held are: {', '.join(keys)}" if keys else "; nothing is held"
    return f"{expected}{did_you_mean(key, keys) or all_held}"
