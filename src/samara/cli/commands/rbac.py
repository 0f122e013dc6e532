"""`samara rbac`: exactly the rights that the served vocabularies need."""

from __future__ import annotations

import click
from click.core import ParameterSource

from samara.cli.deploy.rights import Rule, cluster_rules, objects, own_rules
from samara.cli.formats import JSON, TABLE, YAML, Form, output_flag
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, wait_for
from samara.cli.output import as_list, as_yaml, emit
from samara.cli.session import operator_namespace_of, settings_or_defaults
from samara.settings import Settings


@click.command(
    "rbac",
    cls=Command,
    namespace="The operator's namespace. Default: where its settings are, else samara.",
    examples={
        "Apply them": "samara rbac | kubectl apply -f -",
        "Why is each right needed?": "samara rbac --explain",
        "With settings in a file, for namespace platform": "samara rbac --config settings.yaml -n platform",
    },
)
@click.option("--explain", is_flag=True, help="Print each right and its reason, instead of manifests.")
@config_flag
@output_flag(YAML, JSON)
@kubectl_flags
@click.pass_context
def command(context: click.Context, cluster: Cluster, explain: bool, config: str | None, output: Form) -> None:
    """Print the roles and bindings that give the operator exactly the rights that the settings need."""
    settings, installed = wait_for(settings_or_defaults(cluster, config))
    if explain:
        is_chosen = context.get_parameter_source("output") is not ParameterSource.DEFAULT
        _explain(settings, output if is_chosen else Form(TABLE))
        return
    printed = objects(settings, operator_namespace_of(cluster.namespace, installed))
    if output.name == JSON:
        click.echo(as_list(printed))
    else:
        click.echo(as_yaml(printed), nl=False)


def _explain(settings: Settings, form: Form) -> None:
    roles = {"ClusterRole": cluster_rules(settings), "Role": own_rules(settings)}
    emit(
        lambda: {
            "rules": [
                {"role": role, **rule.manifest(), "why": rule.reason} for role, rules in roles.items() for rule in rules
            ]
        },
        form,
        lambda: _show(roles),
    )


def _show(roles: dict[str, list[Rule]]) -> None:
    for role, title in (("ClusterRole", "In every namespace"), ("Role", "In its own namespace")):
        click.echo(f"{title}:\n")
        for rule in roles[role]:
            group = f" of {rule.kind.group}" if rule.kind.group else ""
            only = f", only {', '.join(rule.names)}" if rule.names else ""
            click.echo(f"  {', '.join(rule.verbs)}: {rule.resource}{group}{only}\n      {rule.reason}\n")
