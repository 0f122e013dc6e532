"""Which labels and annotations travel from a source to its copies, and which say that somebody else cares."""

from __future__ import annotations

ADOPTED = "samara.dev/adopted"
"""On a copy that was somebody's own object before: when no longer wanted, only our marks go."""
RELEASED = "samara.dev/released"
"""On an object that was a copy and is not to be one again by itself."""
APP = "app.kubernetes.io/name"
"""On our own objects, as the brake's memory: they are no copies, whoever asks for their place."""
CREATED_BY = "app.kubernetes.io/created-by"
"""Says who made an object: where it was us who said so, an object that is given back says it no more."""
IGNORE = "samara.dev/ignore"
PAUSED = "samara.dev/paused"
ACCEPT = "samara.dev/accept-from"
WORDS = frozenset({ADOPTED, RELEASED, IGNORE, PAUSED, ACCEPT})

NEVER_TRAVELS = ("kubectl.kubernetes.io/*", "samara.dev/*")
"""Never copied, whatever the settings say; the marks and asks of every vocabulary join them."""

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
"""An object that carries one of these belongs to a tool that would undo what we do: it is never adopted."""

NOT_BY_DEFAULT = (
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
"""Keys that would make another controller take a copy for its own object."""


def is_of_another_version(key: str) -> bool:
    """True for a word of ours that we do not know: a newer version or an older one has written it, and it stays."""
    return key.startswith("samara.dev/") and key not in WORDS
