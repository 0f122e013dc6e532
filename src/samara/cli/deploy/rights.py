"""The rights that taking an installation back needs: enough for everything that any vocabulary may have left."""

from __future__ import annotations

from samara import crds
from samara.admission.configuration import PATHS
from samara.cli.deploy.base import NAME
from samara.cli.deploy.removal import custom_resources
from samara.cli.rbac import Rule
from samara.core.model import DEPLOYMENT, Kind
from samara.engine.lease import LEASE
from samara.engine.lease import NAME as LEASE_NAME
from samara.kube.definition import CRD


def removal_rules() -> list[Rule]:
    configurations = [rule for kind in PATHS for rule in (_rule(kind, ("list",)), _rule(kind, ("delete",), (NAME,)))]
    resources = [_rule(kind, ("list", "patch")) for kind in custom_resources()]
    return [*configurations, _rule(CRD, ("get", "patch"), crds.shipped()), *resources]


def removal_rules_at_home() -> list[Rule]:
    return [_rule(DEPLOYMENT, ("get", "patch"), (NAME,)), _rule(LEASE, ("get",), (LEASE_NAME,))]


def _rule(kind: Kind, verbs: tuple[str, ...], names: tuple[str, ...] = ()) -> Rule:
    rule = {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": list(verbs)}
    return {**rule, "resourceNames": list(names)} if names else rule
