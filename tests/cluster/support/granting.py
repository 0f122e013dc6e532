"""Rights of a test module in addition to those of every operator of the tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.cluster.support.api import Api

from samara_devtools.devcluster import Devcluster

GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"


@contextmanager
def granted(cluster: Devcluster, name: str, rules: Sequence[dict[str, Any]], *users: str) -> Iterator[None]:
    """Grants these rights to these users with a ClusterRole of this name, and revokes them at the end."""
    api = Api(cluster.url, cluster._credentials.admin_context())
    role = {"kind": "ClusterRole", "name": name, "apiGroup": GROUP}
    subjects = [{"kind": "User", "name": user, "apiGroup": GROUP} for user in users]
    try:
        api.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": list(rules)})
        api.create(f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": subjects})
        yield
    finally:
        for plural in ("clusterrolebindings", "clusterroles"):
            api.gone(f"{RBAC}/{plural}/{name}")
        api.close()
