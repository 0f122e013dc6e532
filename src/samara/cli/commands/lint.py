"""`samara lint`: manifests that cannot mean what they say, with the line and the correction."""

from __future__ import annotations

import click

from samara.cli.formats import Form, output_flag
from samara.cli.lint import Finding, lint_files
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, wait_for
from samara.cli.output import emit, note, plural, print_line
from samara.cli.session import settings_or_defaults

EXIT_FINDINGS = 1


@click.command(
    "lint",
    cls=Command,
    namespace="The namespace of manifests without one.",
    examples={
        "Check a file and a folder": "samara lint database.yaml manifests/",
        "Check what a chart renders": "helm template ./chart | samara lint -",
        "Check what people wrote in a cluster": "kubectl get secrets -A -o yaml --show-managed-fields | samara lint -",
    },
)
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@config_flag
@output_flag()
@kubectl_flags
@click.pass_context
def command(context: click.Context, cluster: Cluster, files: tuple[str, ...], config: str | None, output: Form) -> None:
    """Find mistakes in manifests, each with its line and the correction.

    FILE is a file, a folder with *.yaml, *.yml and *.json, or - for stdin. The exit code is 1 if there is a mistake. In
    objects that kubectl reads from a cluster, only what people wrote is checked.
    """
    settings, _ = wait_for(settings_or_defaults(cluster, config))
    findings, unproven = lint_files(files, settings, cluster.namespace or "")
    emit(lambda: {"findings": [finding._asdict() for finding in findings]}, output, lambda: _show(findings))
    if unproven:
        marks = (
            f"marks on {plural(unproven, 'object')} are not checked, because managedFields do not show who wrote them"
        )
        note(f"{marks}; `kubectl get -o yaml --show-managed-fields` does")
    context.exit(EXIT_FINDINGS if findings else 0)


def _show(findings: list[Finding]) -> None:
    for finding in findings:
        key = f"{finding.key}: " if finding.key else ""
        print_line(f"{finding.file}:{finding.line}: {key}found {finding.found}; expected {finding.expected}")
    click.echo(plural(len(findings), "finding") if findings else "Nothing found.", err=True)
