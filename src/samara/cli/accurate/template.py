"""`template set` and `template unset`: which namespaces are instances of which template."""

from __future__ import annotations

import click

from samara.cli.accurate.base import Command
from samara.cli.accurate.desk import opened
from samara.cli.base import wait_for
from samara.cli.kubectl_flags import Cluster, kubectl_flags
from samara.dialects.accurate.words import TEMPLATE


@click.command("set", cls=Command)
@click.argument("ns")
@click.argument("template")
@kubectl_flags
def set_(cluster: Cluster, ns: str, template: str) -> None:
    """Make the namespace NS an instance of TEMPLATE."""
    wait_for(_set(cluster, ns, template))
    click.echo(f"set {template} as a template of {ns}")


@click.command("unset", cls=Command)
@click.argument("ns")
@kubectl_flags
def unset(cluster: Cluster, ns: str) -> None:
    """Make the namespace NS an instance of no template. Inherited labels and annotations stay."""
    if wait_for(_unset(cluster, ns)):
        click.echo(f"unset template for {ns}")


async def _set(cluster: Cluster, ns: str, template: str) -> None:
    async with opened(cluster) as desk:
        await desk.relabel(await desk.space(ns), {TEMPLATE: template})


async def _unset(cluster: Cluster, ns: str) -> bool:
    async with opened(cluster) as desk:
        found = await desk.space(ns)
        if TEMPLATE not in found.labels:
            return False
        await desk.relabel(found, {TEMPLATE: None})
        return True
