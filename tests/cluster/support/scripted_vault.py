"""A Vault on loopback that answers as a test configures it and counts requests: KV version 2, one mount, one token."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MOUNT = "kv"
TOKEN = "token-c4a9e1"
"""Another canary: it must not appear anywhere."""
Json = dict[str, Any]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *args: object) -> None:
        """Ignores clients that disconnect before a slow response."""


@dataclass(slots=True)
class Vault:
    """Used as a context manager. Documents are mappings of fields; everything can be changed at any time."""

    documents: dict[str, dict[str, str]] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    """The error status by document; the empty name applies to all."""
    retry_after: str = ""
    token: str = TOKEN
    slow: float = 0.0
    """Seconds before every answer."""
    requests: list[tuple[float, str]] = field(default_factory=list)
    """The time and the document of every request."""
    most: int = 0
    """The maximum number of concurrent requests."""
    over: threading.Event = field(default_factory=threading.Event)
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: Server = field(init=False)

    @property
    def url(self) -> str:
        return f"vault+http://127.0.0.1:{self._server.server_address[1]}/{MOUNT}"

    def count(self, document: str = "", since: int = 0) -> int:
        return sum(1 for _, name in self.requests[since:] if document in ("", name))

    def answer(self, path: str, token: str) -> tuple[int, Json]:
        if path.startswith("auth/token/"):
            return 200, {"data": {"ttl": 0, "renewable": False}, "auth": None}
        document = path.removeprefix(f"{MOUNT}/data/")
        with self._lock:
            self.requests.append((time.monotonic(), document))
            self._now += 1
            self.most = max(self.most, self._now)
        self.over.wait(self.slow)
        with self._lock:
            self._now -= 1
        return self._answer(document, token)

    def _answer(self, document: str, token: str) -> tuple[int, Json]:
        code = self.codes.get("") or self.codes.get(document)
        if token != self.token:
            return 403, {"errors": ["permission denied", f"bad token {token}"]}
        if code is not None:
            return code, {"errors": [f"as told: {json.dumps(self.documents.get(document))}"]}
        if document not in self.documents:
            return 404, {"errors": []}
        metadata = {"version": 1, "created_time": "2026-01-01T00:00:00Z", "deletion_time": "", "destroyed": False}
        return 200, {"data": {"data": self.documents[document], "metadata": metadata}}

    def __enter__(self) -> Vault:
        vault = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path = self.path.partition("?")[0].removeprefix("/v1/")
                code, answer = vault.answer(path, self.headers.get("X-Vault-Token", ""))
                body = json.dumps(answer).encode()
                self.send_response(code)
                if vault.retry_after and code >= 400:
                    self.send_header("Retry-After", vault.retry_after)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = do_GET

            def log_message(self, *args: object) -> None: ...

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, name="vault", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
