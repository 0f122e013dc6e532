"""Deletes keys in etcd directly, to empty a cluster and to create states that no client can cause."""

from __future__ import annotations

import base64

from samara_devtools.devcluster import Devcluster


def forget(cluster: Devcluster, *keys: str, exact: bool = False) -> None:
    """Deletes keys below /registry/ from etcd, or everything that begins with them."""
    operations = []
    for key in keys:
        start = f"/registry/{key}".encode()
        below = {} if exact else {"range_end": _base64(start[:-1] + bytes([start[-1] + 1]))}
        operations.append({"requestDeleteRange": {"key": _base64(start), **below}})
    for first in range(0, len(operations), 100):
        cluster.etcd_call("/v3/kv/txn", {"success": operations[first : first + 100]})


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
