"""How the API server and the operator reach each other, and how much of the server the operator may take."""

from __future__ import annotations

from samara.admission.configuration import PORT, SERVICE
from samara.cli.deploy.base import HTTP, NAME, POD, WEBHOOK, Installation, Json, cluster_wide
from samara.core.model import Kind
from samara.engine.lease import LEASE

FLOW = "flowcontrol.apiserver.k8s.io/v1"
METRICS = "samara-metrics"
OUT = (443, 6443, WEBHOOK)
"""Where API servers listen; and the operator calls its own webhook before it registers it."""


def webhook_service(of: Installation) -> Json:
    ports = [{"name": "webhook", "port": PORT, "protocol": "TCP", "targetPort": "webhook"}]
    return of.object("v1", "Service", SERVICE, spec={"selector": POD, "ports": ports})


def metrics_service(of: Installation) -> Json:
    ports = [{"name": "http", "port": HTTP, "protocol": "TCP", "targetPort": "http"}]
    made = of.object("v1", "Service", METRICS, spec={"clusterIP": "None", "selector": POD, "ports": ports})
    labels = {**made["metadata"]["labels"], "app.kubernetes.io/component": "metrics"}
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


def network_policy(of: Installation) -> Json:
    """An API server has no label, so it cannot be named: the ports are."""
    spec = {
        "podSelector": {"matchLabels": POD},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [_port(HTTP), _port(WEBHOOK)]}],
        "egress": [{"ports": [_port(53, "UDP"), _port(53)]}, {"ports": [_port(port) for port in OUT]}],
    }
    return of.object("networking.k8s.io/v1", "NetworkPolicy", spec=spec)


def _port(number: int, protocol: str = "TCP") -> Json:
    return {"port": number, "protocol": protocol}


def flow_control(of: Installation) -> list[Json]:
    """A level of its own, so that neither waits behind the other; the lease goes where all leases go."""
    queuing = {"queues": 16, "queueLengthLimit": 50, "handSize": 4}
    limited = {
        "nominalConcurrencyShares": 20,
        "lendablePercent": 50,
        "limitResponse": {"type": "Queue", "queuing": queuing},
    }
    level = cluster_wide(FLOW, "PriorityLevelConfiguration", spec={"type": "Limited", "limited": limited})
    every = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    other = {"verbs": ["*"], "nonResourceURLs": ["*"]}
    all_of_it = _flow(of, NAME, NAME, 1000, {"resourceRules": [every], "nonResourceRules": [other]})
    renewals = _flow(of, f"{NAME}-lease", "leader-election", 150, {"resourceRules": [_own(of, LEASE)]})
    return [level, all_of_it, renewals]


def _own(of: Installation, kind: Kind) -> Json:
    return {
        "verbs": ["get", "create", "update"],
        "apiGroups": [kind.group],
        "resources": [kind.plural],
        "namespaces": [of.namespace],
    }


def _flow(of: Installation, name: str, level: str, precedence: int, rule: Json) -> Json:
    account = {"kind": "ServiceAccount", "serviceAccount": {"name": NAME, "namespace": of.namespace}}
    spec = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [{"subjects": [account], **rule}],
    }
    return cluster_wide(FLOW, "FlowSchema", name, spec=spec)
