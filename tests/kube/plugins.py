"""Exec plugins as small scripts, and the kubeconfig that names them."""

from __future__ import annotations

import json
import os
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.kube import files
from tests.kube.files import CANARY, headers

from samara.kube.auth import Access, load
from samara.kube.auth.exec_plugin import Exec, Plugin, checked_plugin
from samara.kube.errors import SamaraError

V1 = "client.authentication.k8s.io/v1"
BETA = "client.authentication.k8s.io/v1beta1"
CONTEXT = ssl.create_default_context()
ENV = {"PATH": os.environ["PATH"]}


def script(path: Path, body: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def credential(version: str = V1, **status: Any) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


def prints(tmp_path: Path, answer: str) -> str:
    """A plugin that prints the answer and counts its runs."""
    (tmp_path / "answer").write_text(answer)
    return script(tmp_path / "plugin", f"echo x >> '{tmp_path}/runs'; cat '{tmp_path}/answer'")


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text().splitlines())


def spec(command: str, version: str = V1, **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "command": command, "interactiveMode": "Never", **more}


def access(tmp_path: Path, plugin: dict[str, Any], cluster: Any = None, user: Any = None) -> Access:
    file = files.write(tmp_path / "config", {"exec": plugin} | (user or {}), cluster)
    return load(str(file), None, None, None, ENV, tmp_path)


def fault(tmp_path: Path, plugin: dict[str, Any]) -> SamaraError:
    with pytest.raises(SamaraError) as caught:
        headers(access(tmp_path, plugin))
    assert CANARY not in f"{caught.value} {caught.value.__cause__}"
    return caught.value


def ready(command: str, **more: Any) -> Plugin:
    return checked_plugin(
        "user 'u'", Exec(V1, command, interactive_mode="Never", **more), None, ENV, has_terminal=False
    )
