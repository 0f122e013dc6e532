"""An original controller that an administrator installed in a namespace, as far as others can see it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.support.granting import granted
from tests.cluster.support.stage import Stage

NAME = "an-original"


@contextmanager
def installed(stage: Stage, namespace: str, group: str, plural: str) -> Iterator[None]:
    """Its account, which may write its custom resources in every namespace."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    rule: dict[str, Any] = {
        "apiGroups": [group],
        "resources": [plural],
        "verbs": ["get", "list", "watch", "update", "patch"],
    }
    with granted(stage.cluster, NAME, [rule], f"system:serviceaccount:{namespace}:{NAME}"):
        stage.api.create(accounts, {"metadata": {"name": NAME}})
        try:
            yield
        finally:
            stage.api.gone(f"{accounts}/{NAME}")
