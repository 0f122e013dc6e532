"""`samara rbac`: exactly the rights that the enabled vocabularies need, and nothing else."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from samara import crds
from samara.admission.configuration import NAME as CONFIGURED
from samara.admission.configuration import needed
from samara.cli.base import Command, config_flag, output_flag, wait_for
from samara.cli.installed import home_of
from samara.cli.kubectl_flags import Cluster, kubectl_flags
from samara.cli.output import as_list, as_yaml
from samara.cli.rbac_reasons import explain as explain_rules
from samara.cli.session import settings_if_any
from samara.core.model import CONFIG_MAP, EVENT, NAMESPACE, QUOTA, SECRET, Kind
from samara.core.travel import APP
from samara.core.want import Dialect
from samara.engine.holdbook import NAME as HOLDS
from samara.engine.lease import LEASE
from samara.engine.lease import NAME as LEASE_NAME
from samara.kube.definition import CRD
from samara.kube.discovery import guess
from samara.settings import Settings
from samara.surroundings import leases_of_originals
from samara.vocabularies import CERTIFICATE, WELL_KNOWN, kinds_in, served

GROUP = "rbac.authorization.k8s.io"
NAME = "samara"
WATCH = ("list", "watch")
READ = ("get", *WATCH)
MAKE = ("create", "patch", "delete")
"""Of Namespaces, where a vocabulary makes them: labels and annotations are applied, and nothing is replaced."""
ALL = ("get", "list", "watch", "create", "update", "patch", "delete")

Rule = dict[str, list[str]]


@click.command("rbac", cls=Command)
@click.option("--explain", is_flag=True, help="Each rule with the reason why it is needed, instead of manifests.")
@config_flag
@output_flag("yaml", "json")
@kubectl_flags
@click.pass_context
def command(context: click.Context, cluster: Cluster, explain: bool, config: str | None, output: str) -> None:
    """Print the RBAC that the settings need, for the operator's namespace (-n, else where it is, else samara)."""
    settings, installed = wait_for(settings_if_any(cluster, config))
    made = objects(settings, home_of(cluster.namespace, installed))
    if explain:
        asked = context.get_parameter_source("output") is not ParameterSource.DEFAULT
        explain_rules(made, chosen(settings), output if asked else "table")
    elif output == "json":
        click.echo(as_list(made))
    else:
        click.echo(as_yaml(made), nl=False)


def objects(settings: Settings, namespace: str) -> list[dict[str, Any]]:
    own = {"name": NAME, "namespace": namespace}
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(own)},
        _role("ClusterRole", {"name": NAME}, cluster_rules(settings)),
        _binding("ClusterRoleBinding", {"name": NAME}, "ClusterRole", subject),
        _role("Role", own, own_rules(settings)),
        _binding("RoleBinding", own, "Role", subject),
    ]


def _meta(names: dict[str, str]) -> dict[str, Any]:
    return {**names, "labels": {APP: NAME}}


def _role(kind: str, names: dict[str, str], rules: list[Rule]) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": _meta(names), "rules": rules}


def _binding(kind: str, names: dict[str, str], role: str, subject: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": _meta(names),
        "roleRef": {"apiGroup": GROUP, "kind": role, "name": NAME},
        "subjects": [subject],
    }


def cluster_rules(settings: Settings) -> list[Rule]:
    """What is needed in every namespace. Copies go anywhere, and so do the Events about them."""
    enabled = chosen(settings)
    if not enabled:
        return []
    asking = {kind for dialect in enabled for kind in dialect.asking}
    made = dict.fromkeys(kind for dialect in enabled for kind in dialect.kinds if kind not in asking)
    watched = [_rule(kind, WATCH) for kind in (NAMESPACE, QUOTA)]
    written = [_rule(kind, MAKE if kind == NAMESPACE else ALL) for kind in made]
    asked = [rule for dialect in enabled for rule in _asked(dialect)]
    events = _rule(EVENT, ("create", "patch"))
    return [*watched, *written, *asked, *_originals(settings), *_definitions(enabled), *_webhooks(enabled), events]


def _definitions(enabled: tuple[Dialect, ...]) -> list[Rule]:
    """To see whether one is being deleted, before what its objects made is; and to say in it how to convert."""
    names = crds.needed(kind for dialect in enabled for kind in dialect.asking)
    converted = crds.needed(kind for dialect in enabled if dialect.admit for kind in dialect.asking)
    read = tuple(name for name in names if name not in converted)
    return [_rule(CRD, verbs, some) for verbs, some in ((("get", "patch"), converted), (("get",), read)) if some]


def _webhooks(enabled: tuple[Dialect, ...]) -> list[Rule]:
    """The configurations are the chart's, which all have one name; what is written in them is whom to trust."""
    if not any(dialect.admit for dialect in enabled):
        return []
    written = ((("list",), ()), (("update",), (CONFIGURED,)))
    rules = [_rule(kind, verbs, names) for kind in needed(enabled) for verbs, names in written]
    return [*rules, _rule(NAMESPACE, ("get",))]


def chosen(settings: Settings) -> tuple[Dialect, ...]:
    return served(settings, {name: WELL_KNOWN.get(name) or guess(name) for name in kinds_in(settings)})


def _asked(dialect: Dialect) -> list[Rule]:
    """Custom resources are read, and their status is written; a finalizer of ours is put on and taken off."""
    read = [_rule(kind, (*READ, "patch") if dialect.finalizer else READ) for kind in dialect.asking]
    told = [_rule(kind, ("patch",), subresource="/status") for kind in dialect.asking if dialect.report]
    # Some clusters let nobody name an owner whose finalizers they may not set.
    owning = [_rule(kind, ("update",), subresource="/finalizers") for kind in dialect.asking if dialect.by_owner]
    return [*read, *told, *owning]


def _originals(settings: Settings) -> list[Rule]:
    """To see whether an original is at work, unless a take-over is meant."""
    return [_rule(LEASE, ("list",))] if any(leases_of_originals(settings)) else []


def own_rules(settings: Settings) -> list[Rule]:
    """In the operator's namespace: its Lease, its holds and its certificate. A create cannot be limited to a name."""
    return [
        _rule(kind, verbs, names)
        for kind, name in ((LEASE, LEASE_NAME), (CONFIG_MAP, HOLDS))
        for verbs, names in ((("create",), ()), (("get", "update"), (name,)))
    ] + _certificate(settings)


def _certificate(settings: Settings) -> list[Rule]:
    if not any(dialect.admit for dialect in chosen(settings)):
        return []
    return [_rule(SECRET, ("create",)), _rule(SECRET, ("get", "watch", "update", "delete"), (CERTIFICATE,))]


def _rule(kind: Kind, verbs: tuple[str, ...], names: tuple[str, ...] = (), subresource: str = "") -> Rule:
    rule = {"apiGroups": [kind.group], "resources": [f"{kind.plural}{subresource}"], "verbs": list(verbs)}
    return {**rule, "resourceNames": list(names)} if names else rule
