"""What a store gets besides its configuration, for stores that read no Secret of the cluster."""

from __future__ import annotations

from samara.core.model import SECRET, Ref
from samara.secretstores.base import KubeSecret, StoreContext


async def nobody(namespace: str, name: str) -> KubeSecret:
    raise AssertionError("no Secret is read to open a store")


CONTEXT = StoreContext(nobody, Ref(SECRET, "team", "config"), "team")
