"""The labels and annotations that have a meaning for Samara, and those that are not copied from a source."""

from __future__ import annotations

ADOPTED = "samara.dev/adopted"
"""On a copy that existed before it became a copy. When it is no longer wanted, only our marks are removed."""
RELEASED = "samara.dev/released"
"""On an object that was a copy and must not become one again by itself."""
APP = "app.kubernetes.io/name"
"""On the operator's own objects, such as the ConfigMap of held deletions. They are never copies."""
CREATED_BY = "app.kubernetes.io/created-by"
"""Says who created an object. An adopted object that is given back loses it if Samara set it."""
IGNORE = "samara.dev/ignore"
PAUSED = "samara.dev/paused"
ACCEPT = "samara.dev/accept-from"
CONTROL_KEYS = frozenset({ADOPTED, RELEASED, IGNORE, PAUSED, ACCEPT})

NEVER_COPIED = ("kubectl.kubernetes.io/*", "samara.dev/*")
"""Never copied, whatever the settings say. The keys of every vocabulary are never copied either."""

GITOPS = (
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "argocd.argoproj.io/*",
    "*.fluxcd.io/*",
    "helm.sh/*",
    "meta.helm.sh/*",
    "kapp.k14s.io/*",
    "*.cattle.io/*",
)
"""An object with one of these belongs to a tool that would revert our changes. It is never adopted."""

NOT_COPIED_BY_DEFAULT = (
    *GITOPS,
    "cert-manager.io/*",
    "*.cert-manager.io/*",
    "*external-secrets.io/*",
    "sealedsecrets.bitnami.com/*",
    "reflector.v1.k8s.emberstack.com/*",
    "replicator.v1.mittwald.de/*",
    "hnc.x-k8s.io/*",
    "velero.io/*",
    "kubernetes.io/service-account*",
)
"""Keys that would make another controller take a copy for an object of its own."""


def is_unknown_control_key(key: str) -> bool:
    """True for a `samara.dev` key that this version does not know. Another version wrote it, so it stays."""
    return key.startswith("samara.dev/") and key not in CONTROL_KEYS
