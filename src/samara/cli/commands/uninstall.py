"""`samara uninstall`: takes back what would block a cluster without an operator, and the copies where that is meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click

from samara.cli.deploy.removal import Leftovers, Removal
from samara.cli.inspect.orphan_removal import must_stay, perform
from samara.cli.inspect.orphan_scan import Orphan, is_own_source, of_source_types
from samara.cli.installed import found_in
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, wait_for
from samara.cli.output import note, plural
from samara.cli.session import Picture, Session, session, whole_snapshot
from samara.core.metadata_keys import ADOPTED
from samara.core.model import NAMESPACE
from samara.kube.client import Client, unrestricted
from samara.kube.errors import ConfigError, ServerFault


@click.command("uninstall", cls=Command)
@click.option("--copies", is_flag=True, help="Delete the marked copies that we made, too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@config_flag
@kubectl_flags
def command(cluster: Cluster, copies: bool, yes: bool, config: str | None) -> None:
    """Remove, in this order, webhook configurations, CRD conversions, our finalizers, and with --copies the copies.

    Before that the operator's Deployment is stopped, in the namespace -n (else where its settings are). Custom
    resources and their definitions stay. Shows it all first, and asks.
    """
    wait_for(_with_copies(cluster, config, yes) if copies else _without(cluster, yes))


async def _without(cluster: Cluster, yes: bool) -> None:
    access = cluster.access()
    async with Client(access, timeout=cluster.timeout, may_write=unrestricted) as client:
        home = cluster.namespace or await found_in(client, access.namespace)
        removal = Removal(client, home)
        found = await removal.find()
        _show([*_steps(found, home), "Copies stay; --copies deletes them."])
        if not found:
            click.echo("Nothing to remove.")
        elif yes or click.confirm("Remove all this?", abort=True, err=True):
            await removal.perform(found)
            click.echo("Removed.")


async def _with_copies(cluster: Cluster, config: str | None, yes: bool) -> None:
    async with session(cluster, config) as at:
        at.must_be_proven()
        home = cluster.namespace or at.home
        removal = Removal(at.client, home)
        found = await removal.find()
        seen = await _seen(at)
        going = _going(seen)
        _show([*_steps(found, home), *_about_copies(going)])
        if not found and not going:
            click.echo("Nothing to remove.")
        elif yes or click.confirm("Remove all this?", abort=True, err=True):
            await removal.perform(found)
            await perform(at, seen, going, "copy", "copies")
            click.echo("Removed.")


async def _seen(at: Session) -> Picture:
    try:
        shot = await whole_snapshot(at)
    except ServerFault as fault:
        raise ConfigError(
            f"expected to read all copies first, found: {fault}; run `samara uninstall` without --copies, then with it"
        ) from fault
    return Picture(shot, shot.cache.registry, {})


def _going(seen: Picture) -> list[Orphan]:
    """Every copy that we made. A namespace is never one of them: people live in it."""
    marked = [live for ref, live in sorted(seen.shot.marked.items()) if ref.kind != NAMESPACE and not live.deleting]
    copies = [each for live in marked if not is_own_source(seen, live) for each in of_source_types(seen, live)]
    ours = [each for each in copies if each.ours]
    going = [each for each in ours if not must_stay(seen, each)]
    if len(going) < len(ours):
        staying = plural(len(ours) - len(going), "copy", "copies")
        note(f"{staying} stay, as they are paused or of a source that cannot be read")
    if len(ours) < len(copies):
        note(f"{plural(len(copies) - len(ours), 'marked object')} stay, as we did not mark them")
    return going


def _show(lines: list[str]) -> None:
    for line in lines:
        click.echo(line)


def _steps(found: Leftovers, home: str) -> Iterator[str]:
    if found.deployment:
        yield f"Stops the Deployment {home}/samara."
    for ref in found.configurations:
        yield f"Deletes the {ref.kind.name} {ref.name}."
    for name in found.conversions:
        yield f"Has {name} converted by no webhook any more."
    for kind, count in found.finalizers.items():
        yield f"Takes our finalizer off {plural(count, kind.name)}."
    for kind in found.unreadable:
        yield f"Takes our finalizer off every {kind.name}; they can be counted only when their conversion has gone."


def _about_copies(going: list[Orphan]) -> Iterator[str]:
    deleted = [each for each in going if ADOPTED not in each.live.annotations]
    for title, count in sorted(Counter(each.source_type.vocabulary for each in deleted).items()):
        yield f"Deletes {plural(count, 'copy', 'copies')} of {title}."
    if len(deleted) < len(going):
        yield f"Gives back {plural(len(going) - len(deleted), 'adopted object')}, without our marks."
