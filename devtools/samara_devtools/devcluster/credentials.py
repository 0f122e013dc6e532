"""Every key, certificate and kubeconfig of one control plane."""

import base64
import itertools
import ssl
from collections.abc import Sequence
from pathlib import Path

import yaml

from samara_devtools.devcluster.arguments import SERVICE_IP, Files
from samara_devtools.devcluster.certs import Authority, Pair, signing_key, write_private

NAME = "devcluster"
ALL_RIGHTS = "system:masters"


class Credentials:
    """Creates keys and certificates before the servers start, and kubeconfigs once the server's address is known."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._authority = Authority()
        self._admin = self._authority.client("devcluster-admin", [ALL_RIGHTS])
        self._numbers = itertools.count(1)
        server = self._authority.server(SERVICE_IP)
        token_key, token_public_key = signing_key()
        for path, content in (
            (files.ca, self._authority.certificate),
            (files.server_certificate, server.certificate),
            (files.server_key, server.key),
            (files.admin_certificate, self._admin.certificate),
            (files.admin_key, self._admin.key),
            (files.token_key, token_key),
            (files.token_public_key, token_public_key),
        ):
            write_private(path, content)

    def admin_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self._files.ca))
        context.load_cert_chain(self._files.admin_certificate, self._files.admin_key)
        return context

    def write_admin(self, url: str) -> None:
        self._write(self._files.admin_kubeconfig, url, _user(self._admin))

    def write_controllers(self, url: str) -> None:
        # All rights: one identity stands for many controllers, each of which would have a role of its own.
        client = self._authority.client("system:kube-controller-manager", [ALL_RIGHTS])
        self._write(self._files.controllers_kubeconfig, url, _user(client))

    def for_user(self, url: str, user: str, groups: Sequence[str]) -> Path:
        return self._write(self._new_path(), url, _user(self._authority.client(user, groups)))

    def for_token(self, url: str, token: str) -> Path:
        return self._write(self._new_path(), url, {"token": token})

    def _new_path(self) -> Path:
        return self._files.data / f"kubeconfig-{next(self._numbers)}"

    def _write(self, path: Path, url: str, user: dict[str, str]) -> Path:
        # Everything inline, so that one file is enough for any client.
        cluster = {"server": url, "certificate-authority-data": _base64(self._authority.certificate)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": NAME, "cluster": cluster}],
            "users": [{"name": NAME, "user": user}],
            "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
            "current-context": NAME,
        }
        return write_private(path, yaml.safe_dump(document, sort_keys=False).encode())


def _user(client: Pair) -> dict[str, str]:
    return {"client-certificate-data": _base64(client.certificate), "client-key-data": _base64(client.key)}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
