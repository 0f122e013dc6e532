"""The roles that an installation brings for people: who edits or views a namespace does so with its SubNamespaces.

The tree itself is their limit. Other custom resources of ours reach further than the namespace that they are in, so who
may write those is for each cluster to say.
"""

from __future__ import annotations

from samara.cli.deploy.base import NAME, Json, cluster_wide
from samara.cli.rbac import ALL, GROUP, READ, Rule, chosen
from samara.dialects.accurate.words import SUB_NAMESPACE
from samara.settings import Settings


def roles(settings: Settings) -> list[Json]:
    if not any(SUB_NAMESPACE in dialect.asking for dialect in chosen(settings)):
        return []
    return [_role("editor", ALL, "admin", "edit"), _role("viewer", READ, "view")]


def _role(name: str, verbs: tuple[str, ...], *into: str) -> Json:
    """A role that the server adds to those of its own that are named."""
    made = cluster_wide(f"{GROUP}/v1", "ClusterRole", f"{NAME}-subnamespace-{name}-role", rules=_rules(verbs))
    aggregated = {f"{GROUP}/aggregate-to-{each}": "true" for each in into}
    return {**made, "metadata": {**made["metadata"], "labels": {**made["metadata"]["labels"], **aggregated}}}


def _rules(verbs: tuple[str, ...]) -> list[Rule]:
    group, plural = [SUB_NAMESPACE.group], SUB_NAMESPACE.plural
    return [
        {"apiGroups": group, "resources": [plural], "verbs": list(verbs)},
        {"apiGroups": group, "resources": [f"{plural}/status"], "verbs": ["get"]},
    ]
