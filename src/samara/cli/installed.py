"""The operator's settings as the cluster holds them: which ConfigMap has them, and whether that proves anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from samara.cli.output import note
from samara.core.metadata_keys import APP
from samara.core.model import CONFIG_MAP, Kind
from samara.kube.client import Client, collection
from samara.kube.codec import decode
from samara.kube.errors import Forbidden

LABEL = f"{APP}=samara"
FILE = "config.yaml"
DEFAULT_NAMESPACE = "samara"
_BINDING = Kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)


@dataclass(frozen=True, slots=True)
class Installed:
    """The settings, and where they were found."""

    namespace: str
    name: str
    text: str
    proven: bool
    """True where whoever asks has named the namespace, or where a binding of ours gives it rights in the whole cluster.

    Anybody can put our label on a ConfigMap; such a binding only an administrator can make.
    """

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


async def find_installed(client: Client, asked: str | None, near: str) -> Installed | None:
    """The ConfigMap of the operator: in the namespace that was asked for, else a proven one, else `near`, else any."""
    found = await _labelled(client, asked or near)
    if not found:
        return None
    bound = await _bound(client)
    made = [
        Installed(namespace, name, text, proven=namespace == asked or namespace in bound)
        for namespace, name, text in found
    ]
    ordered = sorted(
        made, key=lambda each: (each.namespace != asked, not each.proven, each.namespace != near, str(each))
    )
    if len(ordered) > 1:
        names = ", ".join(sorted(map(str, ordered)))
        note(f"found more than one ConfigMap with settings ({names}); -n says which to take")
    return ordered[0]


async def found_in(client: Client, namespace: str) -> str:
    """The namespace of the operator's settings, this one where there are none that an administrator wrote."""
    return home_of(None, await find_installed(client, None, namespace), namespace)


def home_of(asked: str | None, installed: Installed | None, otherwise: str = DEFAULT_NAMESPACE) -> str:
    """The operator's namespace: the one that was asked for, else where its settings are proven to be."""
    return asked or (installed.namespace if installed is not None and installed.proven else otherwise)


async def _labelled(client: Client, near: str) -> list[tuple[str, str, str]]:
    """Namespace, name and text of each, in any namespace, or in this one where that is all we may read."""
    for where in ("", near):
        try:
            raw = await client.get(collection(CONFIG_MAP, where), {"labelSelector": LABEL})
        except Forbidden:
            continue
        items: list[dict[str, Any]] = decode(raw).get("items") or []
        with_text = (each for each in items if FILE in (each.get("data") or {}))
        return [(each["metadata"]["namespace"], each["metadata"]["name"], each["data"][FILE]) for each in with_text]
    note("the operator's settings may exist, but the ConfigMaps may not be listed")
    return []


async def _bound(client: Client) -> frozenset[str]:
    """The namespaces whose ServiceAccounts have rights by a binding of ours; none where we may not look."""
    try:
        raw = await client.get(collection(_BINDING), {"labelSelector": LABEL})
    except Forbidden:
        return frozenset()
    subjects = [subject for each in decode(raw).get("items") or () for subject in each.get("subjects") or ()]
    return frozenset(each.get("namespace", "") for each in subjects if each.get("kind") == "ServiceAccount")
