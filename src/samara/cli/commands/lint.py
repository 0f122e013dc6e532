"""`samara lint`: manifests that cannot mean what they say, with the line and the correction."""

from __future__ import annotations

from typing import Any

import click

from samara.cli.lint import Finding, findings
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, output_flag, wait_for
from samara.cli.output import emit, plural
from samara.cli.session import settings_if_any

FOUND = 1


@click.command("lint", cls=Command)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@config_flag
@output_flag()
@kubectl_flags
@click.pass_context
def command(context: click.Context, cluster: Cluster, files: tuple[str, ...], config: str | None, output: str) -> None:
    """Find mistakes in files, folders (*.yaml, *.yml, *.json) or stdin (-). Exits with 1 if it finds one."""
    settings, _ = wait_for(settings_if_any(cluster, config))
    found = findings(files, settings, cluster.namespace or "")
    emit(lambda: {"findings": [_shape(each) for each in found]}, output, lambda: _show(found))
    context.exit(FOUND if found else 0)


def _shape(each: Finding) -> dict[str, Any]:
    return each._asdict()


def _show(found: list[Finding]) -> None:
    for each in found:
        key = f"{each.key}: " if each.key else ""
        click.echo(f"{each.file}:{each.line}: {key}found {each.found}; expected {each.expected}")
    click.echo(plural(len(found), "finding") if found else "Nothing found.", err=True)
