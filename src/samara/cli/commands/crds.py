"""`samara crds`: exactly the CRDs that the served vocabularies need."""

from __future__ import annotations

import click
import yaml

from samara.cli.deploy.manifests import definitions
from samara.cli.formats import JSON, YAML, Form, output_flag
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, wait_for
from samara.cli.output import as_list, note
from samara.cli.session import settings_or_defaults


@click.command(
    "crds",
    cls=Command,
    namespace="Where the operator's settings are, if there are several.",
    examples={
        "Apply them": "samara crds | kubectl apply --server-side -f -",
        "Print those that the settings in a file need": "samara crds --config settings.yaml",
    },
)
@config_flag
@output_flag(YAML, JSON)
@kubectl_flags
def command(cluster: Cluster, config: str | None, output: Form) -> None:
    """Print the custom resource definitions of the vocabularies that the settings name."""
    settings, _ = wait_for(settings_or_defaults(cluster, config))
    texts = definitions(settings)
    if not texts:
        note("the settings need no custom resource")
    if output.name == JSON:
        click.echo(as_list(map(yaml.safe_load, texts)))
    else:
        click.echo("---\n".join(texts), nl=False)
