"""Runs a pod's program outside a pod: with the rendered arguments and the token of the rendered ServiceAccount."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit

from tests.cluster.support.audit import lines_of
from tests.cluster.support.operators import Operator
from tests.cluster.support.stage import Stage
from tests.support.ports import free_port

from samara_devtools.devcluster import Devcluster
from samara_devtools.devcluster.process import killed_with_parent

Json = dict[str, Any]
NAMESPACE = "samara-system"
_PROGRAM = """
import sys
from pathlib import Path
from samara.kube import auth
auth.load.__kwdefaults__["service_account"] = Path(sys.argv.pop(1))
from samara.cli.main import main
main()
"""
"""The program with the path of the ServiceAccount's files replaced. Nothing else differs from a pod."""
_numbers = itertools.count(1)


def by_kind(objects: list[Json]) -> dict[str, Json]:
    return {obj["kind"]: obj for obj in objects}


class Account:
    """The files and the environment that a pod gets for its ServiceAccount."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.user = f"system:serviceaccount:{NAMESPACE}:{name}"
        self.folder = stage.folder / f"account-{next(_numbers)}"
        self.folder.mkdir()
        token = stage.cluster.service_account_token(NAMESPACE, name)
        (self.folder / "token").write_text(token)
        (self.folder / "namespace").write_text(NAMESPACE)
        (self.folder / "ca.crt").write_bytes(stage.cluster.ca_file.read_bytes())
        server = urlsplit(stage.cluster.url)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SAMARA_", "KUBE"))}
        where = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
        self.env = {**kept, **where, "HOME": "/nonexistent", "NO_COLOR": "1"}

    def command(self, *args: str) -> list[str]:
        return killed_with_parent(sys.executable, "-c", _PROGRAM, str(self.folder), *args)

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*args), env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


class Pod(Operator):
    """The container of the rendered Deployment, with the settings of the rendered ConfigMap."""

    def __init__(self, stage: Stage, objects: list[Json], webhook_port: int) -> None:
        by_name = by_kind(objects)
        spec = by_name["Deployment"]["spec"]["template"]["spec"]
        self.account = Account(stage, spec["serviceAccountName"])
        self.port = free_port()
        self.log_file = stage.folder / f"pod-{next(_numbers)}.log"
        settings = stage.folder / "config.yaml"
        settings.write_text(by_name["ConfigMap"]["data"]["config.yaml"])
        args = [arg.replace("/etc/samara/config.yaml", str(settings)) for arg in spec["containers"][0]["args"]]
        here = {
            "SAMARA_HTTP_ADDRESS": f"127.0.0.1:{self.port}",
            "SAMARA_WEBHOOK_ADDRESS": f"127.0.0.1:{webhook_port}",
        }
        self._command = self.account.command(*args)
        self._env = {**self.account.env, **here}
        self._process = None
        stage.operators.append(self)


def refused(cluster: Devcluster, user: str) -> list[str]:
    """The requests of this user that the API server refused because a right was missing."""
    events = [json.loads(line) for line in lines_of(cluster.audit_log)]
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in events
        if event["user"]["username"] == user and event.get("responseStatus", {}).get("code") == 403
    ]
