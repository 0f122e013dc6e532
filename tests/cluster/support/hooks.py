"""A foreign mutating webhook that changes our writes, refuses them, or fails."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.cluster.support.api import ApiFault
from tests.cluster.support.stage import Stage
from tests.cluster.support.waiting import eventually
from tests.kube import pki
from tests.support.ports import free_port

Json = dict[str, Any]
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
PROBES = "/api/v1/namespaces/a/configmaps"
CANARY = "canary-of-a-webhook-7f3a9"
"""Part of the reply of a broken webhook, which may quote its request."""
SAYS = {
    "down": "failed calling webhook",
    "slow": "failed calling webhook",
    "rejects": "not on a Sunday",
    "breaks": "failed calling webhook",
}
"""The message that users see, by behaviour of the webhook."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args: object) -> None:
        """Ignores clients that disconnect before a slow response."""


class Webhook:
    """A mutating webhook on loopback, for ConfigMaps and Secrets in namespace `a`."""

    def __init__(self, stage: Stage, folder: Path, what: str) -> None:
        self.stage = stage
        self.what = what
        self.calls = 0
        self.over = threading.Event()
        authority = pki.authority()
        serving = pki.server(authority, "127.0.0.1")
        (folder / "webhook.pem").write_bytes(serving.certificate + serving.key)
        self._bundle = base64.b64encode(authority.certificate).decode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "webhook.pem")
        self._server = Server(("127.0.0.1", 0), self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._port = free_port() if what == "down" else self._server.server_address[1]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                response = webhook.answer(review["request"])
                body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
                if webhook.what == "breaks":
                    body = f"cannot understand {CANARY}"
                self.send_response(500 if webhook.what == "breaks" else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *args: object) -> None: ...

        return Handler

    def answer(self, request: Json) -> Json:
        self.calls += 1
        if self.what == "slow":
            self.over.wait(30.0)
        if self.what == "rejects":
            return {"uid": request["uid"], "allowed": False, "status": {"code": 403, "message": "not on a Sunday"}}
        if self.what == "slow":
            return {"uid": request["uid"], "allowed": True}
        patch = [{"op": "add", "path": "/data/injected", "value": "by admission"}]
        raw = base64.b64encode(json.dumps(patch).encode()).decode()
        return {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": raw}

    def __enter__(self) -> Webhook:
        threading.Thread(target=self._server.serve_forever, name="webhook", daemon=True).start()
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps", "secrets"],
        }
        hook = {
            "name": "meddles.faults.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{self._port}/", "caBundle": self._bundle},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "a"}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 1 if self.what == "slow" else 10,
        }
        self.stage.also_remove(f"{HOOKS}/meddles")
        self.stage.api.create(HOOKS, {"metadata": {"name": "meddles"}, "webhooks": [hook]})
        eventually(self._is_called)
        return self

    def _is_called(self) -> bool:
        """True once the server calls the webhook, shortly after the configuration was created."""
        probe = {"metadata": {"name": "probe"}, "data": {}}
        try:
            made = self.stage.api.create(PROBES, probe, dryRun="All")
        except ApiFault:  # refused or no response: the server calls it
            return True
        return "injected" in (made.get("data") or {})

    def remove(self) -> None:
        self.over.set()
        self.stage.api.delete(f"{HOOKS}/meddles")

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
