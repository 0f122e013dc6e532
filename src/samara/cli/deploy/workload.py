"""The operator's pods: the Deployment, its settings, and what keeps one of the pods alive."""

from __future__ import annotations

from samara.cli.deploy.base import FILE, HTTP, NAME, POD, WEBHOOK, Installation, Json, cluster_wide

CHECKSUM = "checksum/settings"
"""On the pods: settings that change roll them."""
REPLICAS = 2
USER = 65532
PRIORITY = 1_000_000
FOLDER = "/etc/samara"
RESOURCES = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
CONFINED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
UNPRIVILEGED = {
    "runAsGroup": USER,
    "runAsNonRoot": True,
    "runAsUser": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def namespace(of: Installation) -> Json:
    """Nobody runs anything there that the operator itself could not be."""
    made = cluster_wide("v1", "Namespace", of.namespace)
    labels = {**made["metadata"]["labels"], "pod-security.kubernetes.io/enforce": "restricted"}
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


def config_map(of: Installation) -> Json:
    return of.object("v1", "ConfigMap", data={FILE: of.config})


def priority_class() -> Json:
    """Pods that answer admission come before those that wait for an answer."""
    about = "The operator samara: other people's writes may wait for its answers."
    return cluster_wide("scheduling.k8s.io/v1", "PriorityClass", description=about, value=PRIORITY)


def disruption_budget(of: Installation) -> Json:
    spec = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": POD},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return of.object("policy/v1", "PodDisruptionBudget", spec=spec)


def deployment(of: Installation) -> Json:
    spec = {
        "replicas": REPLICAS,
        "selector": {"matchLabels": POD},
        # The lease sees to it that one writes; the others are warm, and answer admission.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {"metadata": {"labels": POD, "annotations": {CHECKSUM: of.checksum}}, "spec": _pod(of)},
    }
    return of.object("apps/v1", "Deployment", spec=spec)


def _pod(of: Installation) -> Json:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": POD},
    }
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "priorityClassName": NAME,
        "securityContext": UNPRIVILEGED,
        "terminationGracePeriodSeconds": 30,
        "topologySpreadConstraints": [spread],
        "containers": [_container(of)],
        "volumes": [
            {"name": "settings", "configMap": {"name": NAME}},
            # Keys of certificates pass through files, in memory, for the moment in which they are loaded.
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        ],
    }


def _container(of: Installation) -> Json:
    return {
        "name": NAME,
        "image": of.image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments(of),
        "ports": [{"name": "http", "containerPort": HTTP}, {"name": "webhook", "containerPort": WEBHOOK}],
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5},
        "resources": RESOURCES,
        "securityContext": CONFINED,
        "volumeMounts": [
            {"name": "settings", "mountPath": FOLDER, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - in the pod, where nobody else is
        ],
    }


def arguments(of: Installation) -> list[str]:
    given = ["run", f"--config={FOLDER}/{FILE}", "--leader-elect", "--log-format=json", "--log-level=info"]
    observing = ["--observe"] if of.observe else []
    found_at = [f"--webhook-url={of.webhook_url}"] if of.webhook_url and not of.observe else []
    return [*given, *observing, *found_at]


def _probe(path: str) -> Json:
    return {"httpGet": {"path": path, "port": "http"}, "timeoutSeconds": 5}
