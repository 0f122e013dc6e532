"""`namespace describe` and `namespace set-type`."""

from __future__ import annotations

import click

from samara.cli.accurate.base import Command, columns
from samara.cli.accurate.desk import Desk, opened, reached
from samara.cli.accurate.space import Space, not_found, space, spaces, things
from samara.cli.accurate.watched import of_original, of_samara, resolved
from samara.cli.base import config_flag, note, wait_for
from samara.cli.kubectl_flags import Cluster, kubectl_flags
from samara.core.model import Kind
from samara.dialects.accurate.words import FROM, IS_TEMPLATE, PARENT, PROPAGATE, ROOT, TEMPLATE, TYPE
from samara.kube.client import Client
from samara.kube.errors import NotFound, SamaraError

TYPES = (ROOT, IS_TEMPLATE, "none")
_HEADER = ("Kind", "Name", "From", "Mode")


@click.command("set-type", cls=Command)
@click.argument("ns")
@click.argument("type_", metavar="TYPE")
@kubectl_flags
def set_type(cluster: Cluster, ns: str, type_: str) -> None:
    """Make the namespace NS a root or a template, or, with TYPE none, neither."""
    if type_ not in TYPES:
        raise SamaraError(f"invalid type: {type_}; expected {', '.join(TYPES[:-1])} or {TYPES[-1]}")
    click.echo("success" if wait_for(_set_type(cluster, ns, type_)) else "nothing to do")


async def _set_type(cluster: Cluster, ns: str, type_: str) -> bool:
    async with opened(cluster) as desk:
        return await typed(desk, ns, None if type_ == "none" else type_)


async def typed(desk: Desk, ns: str, wanted: str | None) -> bool:
    """True where there was something to do."""
    found = await desk.space(ns)
    if found.labels.get(TYPE) == wanted:
        return False
    await desk.relabel(found, {TYPE: wanted})
    return True


@click.command("describe", cls=Command)
@click.argument("ns")
@click.option(
    "--accurate-namespace",
    default="accurate",
    show_default=True,
    metavar="NAME",
    help="Where the original's Deployment is, if there is one.",
)
@config_flag
@kubectl_flags
def describe(cluster: Cluster, ns: str, accurate_namespace: str, config: str | None) -> None:
    """Show the namespace NS, and the objects in it that are copies or are passed on."""
    for line in wait_for(_describe(cluster, ns, accurate_namespace, config)):
        click.echo(line)


async def _describe(cluster: Cluster, ns: str, accurate_namespace: str, config: str | None) -> list[str]:
    async with reached(cluster) as client:
        try:
            found = await space(client, ns)
        except NotFound:
            raise not_found(ns) from None
        lines = await _head(client, found)
        names = await of_original(client, accurate_namespace) if config is None else None
        if names is None:
            names = await of_samara(cluster, config)
        if names:
            kinds = await resolved(client, names)
            lines += ["", "Resources:", *await _resources(client, ns, kinds)]
        return lines


async def _head(client: Client, found: Space) -> list[str]:
    labels = found.labels
    lines = [f"Name: {found.name}"]
    if labels.get(TYPE) == ROOT:
        lines += [f"Type: {ROOT}", f"# of children: {len(await spaces(client, f'{PARENT}={found.name}'))}"]
    elif labels.get(TYPE) == IS_TEMPLATE:
        lines += [f"Type: {IS_TEMPLATE}", f"# of instances: {len(await spaces(client, f'{TEMPLATE}={found.name}'))}"]
    else:
        lines.append("Type: none")
    told = (("Parent", PARENT), ("Template", TEMPLATE))
    return lines + [f"{title}: {labels[key]}" for title, key in told if key in labels]


async def _resources(client: Client, ns: str, kinds: list[Kind]) -> list[str]:
    rows = [_HEADER, ("--------",) * len(_HEADER)]
    for kind in kinds:
        try:
            found = await things(client, kind, ns)
        except SamaraError as fault:
            note(f"failed to list {kind}: {fault}")
            continue
        marks = [(each.name, each.annotations.get(FROM, ""), each.annotations.get(PROPAGATE, "")) for each in found]
        rows += [(kind.name, *mark) for mark in sorted(marks) if any(mark[1:])]
    return columns(rows)
