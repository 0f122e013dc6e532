"""`samara lint`: finds mistakes in manifests, with line and correction."""

from __future__ import annotations

import click

from samara.cli.lint import Finding, lint_files
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, output_flag, wait_for
from samara.cli.output import emit, plural, print_line
from samara.cli.session import settings_or_defaults

EXIT_FINDINGS = 1


@click.command("lint", cls=Command)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@config_flag
@output_flag()
@kubectl_flags
@click.pass_context
def command(context: click.Context, cluster: Cluster, files: tuple[str, ...], config: str | None, output: str) -> None:
    """Find mistakes in files, folders (*.yaml, *.yml, *.json) or stdin (-). Exits with 1 if it finds one."""
    settings, _ = wait_for(settings_or_defaults(cluster, config))
    findings = lint_files(files, settings, cluster.namespace or "")
    emit(lambda: {"findings": [finding._asdict() for finding in findings]}, output, lambda: _show(findings))
    context.exit(EXIT_FINDINGS if findings else 0)


def _show(findings: list[Finding]) -> None:
    for finding in findings:
        key = f"{finding.key}: " if finding.key else ""
        print_line(f"{finding.file}:{finding.line}: {key}found {finding.found}; expected {finding.expected}")
    click.echo(plural(len(findings), "finding") if findings else "Nothing found.", err=True)
