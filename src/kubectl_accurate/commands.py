"""`namespace describe`, `namespace set-type`, `template set` and `template unset`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kubectl_accurate.client import ApiClient, api_client, connect
from kubectl_accurate.program import Command
from samara.cli.inspect.namespaces import Namespace, list_namespaces, list_objects, not_found, read_namespace
from samara.cli.inspect.tree_kinds import kinds_in_settings, kinds_of_original, resolve_kinds
from samara.cli.options import Cluster, config_flag, kubectl_flags, wait_for
from samara.cli.output import note
from samara.core.model import Kind
from samara.kube.client import Client
from samara.kube.errors import NotFound, SamaraError
from samara.vocabularies.accurate import ORIGINAL_CONFIG, VOCABULARY
from samara.vocabularies.accurate.labels import FROM, IS_TEMPLATE, PARENT, PROPAGATE, ROOT, TEMPLATE, TYPE

_TYPES = (ROOT, IS_TEMPLATE, "none")
_HEADER = ("Kind", "Name", "From", "Mode")


@click.command("set-type", cls=Command)
@click.argument("ns")
@click.argument("type_", metavar="TYPE")
@kubectl_flags
def set_type(cluster: Cluster, ns: str, type_: str) -> None:
    """Make the namespace NS a root or a template, or, with TYPE none, neither."""
    if type_ not in _TYPES:
        raise SamaraError(f"invalid type: {type_}; expected {', '.join(_TYPES[:-1])} or {_TYPES[-1]}")
    click.echo("success" if wait_for(_set_type(cluster, ns, type_)) else "nothing to do")


async def _set_type(cluster: Cluster, ns: str, type_: str) -> bool:
    async with api_client(cluster) as api:
        return await relabel_type(api, ns, None if type_ == "none" else type_)


async def relabel_type(api: ApiClient, ns: str, type_: str | None) -> bool:
    """Sets or removes the type of a namespace. Returns False if it has this type already."""
    namespace = await api.get_namespace(ns)
    if namespace.labels.get(TYPE) == type_:
        return False
    await api.relabel(namespace, {TYPE: type_})
    return True


@click.command("set", cls=Command)
@click.argument("ns")
@click.argument("template")
@kubectl_flags
def set_template(cluster: Cluster, ns: str, template: str) -> None:
    """Make the namespace NS an instance of TEMPLATE."""
    wait_for(_set_template(cluster, ns, template))
    click.echo(f"set {template} as a template of {ns}")


async def _set_template(cluster: Cluster, ns: str, template: str) -> None:
    async with api_client(cluster) as api:
        await api.relabel(await api.get_namespace(ns), {TEMPLATE: template})


@click.command("unset", cls=Command)
@click.argument("ns")
@kubectl_flags
def unset_template(cluster: Cluster, ns: str) -> None:
    """Make the namespace NS an instance of no template. Inherited labels and annotations stay."""
    if wait_for(_unset_template(cluster, ns)):
        click.echo(f"unset template for {ns}")


async def _unset_template(cluster: Cluster, ns: str) -> bool:
    async with api_client(cluster) as api:
        namespace = await api.get_namespace(ns)
        if TEMPLATE not in namespace.labels:
            return False
        await api.relabel(namespace, {TEMPLATE: None})
        return True


@click.command("describe", cls=Command)
@click.argument("ns")
@click.option(
    "--accurate-namespace",
    default=ORIGINAL_CONFIG.deployment.namespace,
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
    async with connect(cluster) as client:
        try:
            namespace = await read_namespace(client, ns)
        except NotFound:
            raise not_found(ns) from None
        lines = await _summary(client, namespace)
        names = await kinds_of_original(client, VOCABULARY, accurate_namespace) if config is None else None
        if names is None:
            names = await kinds_in_settings(cluster, config)
        if names:
            kinds = await resolve_kinds(client, names)
            lines += ["", "Resources:", *await _resources(client, ns, kinds)]
        return lines


async def _summary(client: Client, namespace: Namespace) -> list[str]:
    name, labels = namespace.name, namespace.labels
    lines = [f"Name: {name}"]
    if labels.get(TYPE) == ROOT:
        lines += [f"Type: {ROOT}", f"# of children: {len(await list_namespaces(client, f'{PARENT}={name}'))}"]
    elif labels.get(TYPE) == IS_TEMPLATE:
        instances = await list_namespaces(client, f"{TEMPLATE}={name}")
        lines += [f"Type: {IS_TEMPLATE}", f"# of instances: {len(instances)}"]
    else:
        lines.append("Type: none")
    upstream = (("Parent", PARENT), ("Template", TEMPLATE))
    return lines + [f"{title}: {labels[key]}" for title, key in upstream if key in labels]


async def _resources(client: Client, ns: str, kinds: list[Kind]) -> list[str]:
    rows = [_HEADER, ("--------",) * len(_HEADER)]
    for kind in kinds:
        try:
            objects = await list_objects(client, kind, ns)
        except SamaraError as error:
            note(f"failed to list {kind}: {error}")
            continue
        for obj in sorted(objects, key=lambda obj: obj.name):
            origin, mode = obj.annotations.get(FROM, ""), obj.annotations.get(PROPAGATE, "")
            if origin or mode:
                rows.append((kind.name, obj.name, origin, mode))
    return columns(rows)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with aligned cells, one space between the columns. The last cell is not padded."""
    widths = [max(map(len, column)) + 1 for column in zip(*rows, strict=True)]
    return ["".join(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)) + row[-1] for row in rows]
