"""`samara uninstall`: removes what would block a cluster without an operator, and with --copies the copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click

from samara.cli.deploy.removal import Leftovers, Removal
from samara.cli.inspect.cluster_plans import ClusterPlans, take_full_snapshot
from samara.cli.inspect.orphan_scan import (
    Orphan,
    as_orphan,
    is_own_source,
    must_stay,
    refuse_if_restored,
    remove_copies,
)
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, wait_for
from samara.cli.output import note, plural
from samara.cli.session import Session, find_operator_namespace, open_session
from samara.core.metadata_keys import ADOPTED
from samara.core.model import NAMESPACE
from samara.kube.client import Client, unrestricted
from samara.kube.errors import ConfigError, ServerFault


@click.command(
    "uninstall",
    cls=Command,
    namespace="The operator's namespace. Default: where its settings are.",
    examples={
        "Show what there is to remove, ask, and remove it. Copies stay": "samara uninstall",
        "Also delete the copies": "samara uninstall --copies",
    },
)
@click.option("--copies", is_flag=True, help="Also delete the copies that Samara created.")
@click.option("--yes", is_flag=True, help="Do not ask before removing.")
@config_flag
@kubectl_flags
def command(cluster: Cluster, copies: bool, yes: bool, config: str | None) -> None:
    """Remove what would get in the way when no operator runs: webhooks, conversions of CRDs, and Samara's finalizers.

    With --copies it also deletes the copies. It stops the operator's Deployment first. Sources, custom resources and
    their definitions stay. It lists everything, and asks before it begins.
    """
    wait_for(_with_copies(cluster, config, yes) if copies else _without_copies(cluster, yes))


async def _without_copies(cluster: Cluster, yes: bool) -> None:
    access = cluster.access()
    async with Client(access, timeout=cluster.timeout, may_write=unrestricted) as client:
        namespace = cluster.namespace or await find_operator_namespace(client, access.namespace)
        removal = Removal(client, namespace)
        leftovers = await removal.find()
        _show([*_steps(leftovers), "Copies stay; --copies deletes them."])
        if not leftovers:
            click.echo("Nothing to remove.")
        elif yes or click.confirm("Remove all this?", abort=True, err=True):
            await removal.perform(leftovers)
            click.echo("Removed.")


async def _with_copies(cluster: Cluster, config: str | None, yes: bool) -> None:
    async with open_session(cluster, config) as session:
        session.require_proven_settings()
        namespace = cluster.namespace or session.operator_namespace
        removal = Removal(session.client, namespace)
        leftovers = await removal.find()
        listed = await _list_copies(session)
        copies = _copies_to_remove(listed)
        _show([*_steps(leftovers), *_copy_steps(copies)])
        if not leftovers and not copies:
            click.echo("Nothing to remove.")
        elif yes or click.confirm("Remove all this?", abort=True, err=True):
            await removal.stop_operator(leftovers)
            others = await refuse_if_restored(session, listed, copies)
            await removal.perform(leftovers)
            probed = len(copies) - len(others)
            await remove_copies(session, listed, others, "copy", "copies", removed_before=probed)
            click.echo("Removed.")


async def _list_copies(session: Session) -> ClusterPlans:
    """Finds all copies. Makes no plans, because copies that a source wants are removed too."""
    try:
        snapshot = await take_full_snapshot(session)
    except ServerFault as fault:
        raise ConfigError(
            f"expected to read all copies first, found: {fault}; run `samara uninstall` without --copies, then with it"
        ) from fault
    for kind in snapshot.cache.registry.resources:
        if (reason := snapshot.unlisted.get(kind)) is not None:  # copies of its sources could not be told from others
            raise ConfigError(f"expected to read all sources before their copies are removed, found: {reason}")
    return ClusterPlans(snapshot, snapshot.cache.registry, {})


def _copies_to_remove(cluster: ClusterPlans) -> list[Orphan]:
    """Every copy that we made. Namespaces are left out, because they hold objects of other people."""
    marked = [live for ref, live in sorted(cluster.snapshot.marked.items()) if ref.kind != NAMESPACE]
    candidates = [live for live in marked if not live.deleting and not is_own_source(cluster, live)]
    copies = [copy for live in candidates if (copy := as_orphan(cluster, live)) is not None]
    ours = [copy for copy in copies if copy.ours]
    removable = [copy for copy in ours if not must_stay(cluster, copy)]
    if len(removable) < len(ours):
        staying = plural(len(ours) - len(removable), "copy", "copies")
        note(f"{staying} stay, as they are paused or of a source that cannot be read")
    if len(ours) < len(copies):
        note(f"{plural(len(copies) - len(ours), 'marked object')} stay, as we did not mark them")
    return removable


def _show(lines: list[str]) -> None:
    for line in lines:
        click.echo(line)


def _steps(leftovers: Leftovers) -> Iterator[str]:
    for deployment in leftovers.deployments:
        yield f"Stops the Deployment {deployment.path}."
    for ref in leftovers.configurations:
        yield f"Deletes the {ref.kind.name} {ref.name}."
    for name in leftovers.conversions:
        yield f"Ends the conversion of {name} by webhook."
    for kind, count in leftovers.finalizers.items():
        yield f"Takes our finalizer off {plural(count, kind.name)}."
    for kind in leftovers.unreadable:
        yield f"Takes our finalizer off every {kind.name}; they can be counted only when their conversion is gone."


def _copy_steps(copies: list[Orphan]) -> Iterator[str]:
    deleted = [copy for copy in copies if ADOPTED not in copy.live.annotations]
    for vocabulary, count in sorted(Counter(copy.vocabulary for copy in deleted).items()):
        yield f"Deletes {plural(count, 'copy', 'copies')} of {vocabulary}."
    if len(deleted) < len(copies):
        yield f"Gives back {plural(len(copies) - len(deleted), 'adopted object')}, without our marks."
