"""`list`, `sub list` and `template list`: trees of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

from samara.cli.accurate.base import Command
from samara.cli.accurate.desk import reached
from samara.cli.accurate.drawing import Forest, templates, trees
from samara.cli.accurate.space import Space, not_found, spaces
from samara.cli.base import wait_for
from samara.cli.kubectl_flags import Cluster, kubectl_flags


@click.command("list", cls=Command)
@click.argument("root", required=False)
@kubectl_flags
def command(cluster: Cluster, root: str | None) -> None:
    """List the trees of namespaces, or the one below ROOT."""
    _show(cluster, root, trees)


@click.command("list", cls=Command)
@click.argument("template", required=False)
@kubectl_flags
def of_templates(cluster: Cluster, template: str | None) -> None:
    """List templates and their instances, or those below TEMPLATE."""
    _show(cluster, template, templates)


def _show(cluster: Cluster, top: str | None, grown: Callable[[Iterable[Space]], Forest]) -> None:
    found = wait_for(_spaces(cluster))
    if top is not None and all(each.name != top for each in found):
        raise not_found(top)
    click.echo("".join(f"{line}\n" for line in grown(found).drawn(top)), nl=False)


async def _spaces(cluster: Cluster) -> list[Space]:
    async with reached(cluster) as client:
        return await spaces(client)
