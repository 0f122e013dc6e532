"""`samara manifests`: the whole installation that the settings need, ready for `kubectl apply`."""

from __future__ import annotations

from pathlib import Path

import click

from samara.cli.deploy.manifests import DEFAULT_SETTINGS, IMAGE, Installation, objects
from samara.cli.formats import JSON, YAML, Form, output_flag
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, wait_for
from samara.cli.output import as_list, as_yaml, note
from samara.cli.session import Installed, operator_namespace_of, settings_or_defaults
from samara.settings import Settings, parse


@click.command(
    "manifests",
    cls=Command,
    namespace="The operator's namespace. Default: where its settings are, else samara.",
    examples={
        "For an image of your own": "samara manifests --image images.example.com/samara:0.1.0 > samara.yaml",
        "An operator that only looks: it writes nothing but its Lease": "samara manifests --observe",
        "With settings in a file, for namespace platform": "samara manifests --config settings.yaml -n platform",
    },
)
@click.option("--image", default=IMAGE, show_default=True, metavar="IMAGE", help="The operator's image.")
@click.option("--observe", is_flag=True, help="The operator plans, logs and counts, and writes only its Lease.")
@click.option("--webhook-url", metavar="URL", help="Where the API server finds the webhook, instead of a Service.")
@click.option("--cert-manager", is_flag=True, help="Let cert-manager issue the webhook's certificate.")
@click.option(
    "--marks-policy/--no-marks-policy",
    default=True,
    show_default=True,
    help="The ValidatingAdmissionPolicy that guards our marks. It needs Kubernetes 1.30.",
)
@click.option("--monitoring", is_flag=True, help="Add a ServiceMonitor and a PrometheusRule.")
@config_flag
@output_flag(YAML, JSON)
@kubectl_flags
def command(
    cluster: Cluster,
    image: str,
    observe: bool,
    webhook_url: str | None,
    cert_manager: bool,
    monitoring: bool,
    marks_policy: bool,
    config: str | None,
    output: Form,
) -> None:
    """Print all objects of an installation: the operator with its settings, its rights, the CRDs and the webhooks.

    Without settings of your own, `tenancy` is `strict`, as in the chart.
    """
    settings, installed = wait_for(settings_or_defaults(cluster, config))
    settings, text = _settings_to_install(settings, installed, config)
    namespace = operator_namespace_of(cluster.namespace, installed)
    choices = Installation(
        settings, text, namespace, image, observe, webhook_url, cert_manager, monitoring, marks_policy
    )
    printed = objects(choices)
    if output.name == JSON:
        click.echo(as_list(printed))
    else:
        click.echo(as_yaml(printed), nl=False)


def _settings_to_install(settings: Settings, installed: Installed | None, config: str | None) -> tuple[Settings, str]:
    """The settings of the file, else the installed ones, else the default of the chart, with their text."""
    if config is not None:
        return settings, Path(config).read_text(encoding="utf-8-sig")
    if installed is not None:
        return settings, installed.text
    note(f"settings: an installation without any gets `{DEFAULT_SETTINGS.strip()}`")
    return parse(DEFAULT_SETTINGS, "settings"), DEFAULT_SETTINGS
