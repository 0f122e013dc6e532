"""Writes kubeconfigs and service accounts to files, and loads them."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kube import pki

from samara.kube.auth import Access, load
from samara.kube.errors import ConfigError

CANARY = "c4n4ry-s3cret"
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def write(path: Path, user: Any = None, cluster: Any = None, **context: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **context}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://server:6443"} | (cluster or {})}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


def access(tmp_path: Path, user: Any = None, cluster: Any = None, as_user: str | None = None) -> Access:
    file = write(tmp_path / "folder" / "config", user, cluster)
    return load(str(file), None, None, as_user, {}, tmp_path)


def refusal(tmp_path: Path, user: Any = None, cluster: Any = None) -> str:
    with pytest.raises(ConfigError) as caught:
        access(tmp_path, user, cluster)
    assert CANARY not in f"{caught.value} {caught.value.__cause__}"
    return str(caught.value)


def headers(loaded: Access) -> list[tuple[str, str]]:
    return asyncio.run(loaded.credentials.headers())


def pod(directory: Path, namespace: str | None = "team") -> Path:
    directory.mkdir()
    (directory / "token").write_text("first\n")
    (directory / "ca.crt").write_bytes(pki.authority().certificate)
    if namespace is not None:
        (directory / "namespace").write_text(namespace)
    return directory
