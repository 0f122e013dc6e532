"""The labels and annotations that have a meaning for Samara, and those that are not copied from a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samara.core.model import LABELS
from samara.core.names import matches_any_glob, without_globs

ADOPTED = "samara.dev/adopted"
"""On a copy that existed before it became a copy. When it is no longer wanted, only our marks are removed."""
RELEASED = "samara.dev/released"
"""On an object that was a copy. Samara does not make it a copy again until a person removes this."""
NAMED = "samara.dev/named"
"""On a copy in a protected namespace that its source lists by name. Without it, Samara could not tell this copy from
one that is older than the protection, which stays."""
APP = "app.kubernetes.io/name"
"""On the operator's own objects, such as the ConfigMap of held deletions. They are never copies."""
CREATED_BY = "app.kubernetes.io/created-by"
"""Names the program that created an object. When Samara releases an adopted object, it removes this if it set it."""
IGNORE = "samara.dev/ignore"
PAUSED = "samara.dev/paused"
ACCEPT = "samara.dev/accept-from"
CONTROL_KEYS = frozenset({ADOPTED, RELEASED, NAMED, IGNORE, PAUSED, ACCEPT})

NEVER_COPIED = (
    "kubectl.kubernetes.io/*",
    "samara.dev/*",
    "kubed.appscode.com/*",
    "clustersecret.io",
    "clustersecret.io/*",
    "kopf.zalando.org/*",
)
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
"""Keys that would make another controller treat a copy as an object of its own."""


def is_unknown_control_key(key: str) -> bool:
    """True for a `samara.dev` key that this version does not know. Another version wrote it, so it stays."""
    return key.startswith("samara.dev/") and key not in CONTROL_KEYS


@dataclass(frozen=True, slots=True)
class CopyableMetadata:
    """Which labels and annotations of a source its copies get."""

    vocabulary_keys: frozenset[str]
    """The keys of all vocabularies, also of those that the settings do not name."""
    never_labels: tuple[str, ...] = ()
    never_annotations: tuple[str, ...] = ()
    tenants_labels: tuple[str, ...] = ("*",)
    """Those that sources of tenants may copy, because a label or an annotation can give an object power."""
    tenants_annotations: tuple[str, ...] = ("*",)

    def of_source(self, where: str, metadata: Mapping[str, str]) -> dict[str, str]:
        """The labels or annotations of an object without those that must not be copied."""
        return self._without(where, metadata, NOT_COPIED_BY_DEFAULT)

    def of_tenants_source(self, where: str, metadata: Mapping[str, str]) -> dict[str, str]:
        """The same for an object that people with rights in one namespace can write."""
        return {key: metadata[key] for key in self.of_source(where, metadata) if self._may_tenants_copy(where, key)}

    def withheld_from_tenants(self, where: str, metadata: Mapping[str, str]) -> dict[str, str]:
        """What would be copied if a tenant had not written it."""
        return {key: metadata[key] for key in self.of_source(where, metadata) if not self._may_tenants_copy(where, key)}

    def as_written(self, where: str, metadata: Mapping[str, str]) -> dict[str, str]:
        """The same for metadata that its author wrote for the copies. There, keys of other tools are intended."""
        return self._without(where, metadata, ())

    def _may_tenants_copy(self, where: str, key: str) -> bool:
        return matches_any_glob(self.tenants_labels if where == LABELS else self.tenants_annotations, key)

    def _without(self, where: str, metadata: Mapping[str, str], more: tuple[str, ...]) -> dict[str, str]:
        others = {key: value for key, value in metadata.items() if key not in self.vocabulary_keys}
        never = self.never_labels if where == LABELS else self.never_annotations
        return without_globs(others, NEVER_COPIED + more + never)
