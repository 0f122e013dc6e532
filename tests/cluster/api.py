"""A small, fast client of the API server for what the tests do themselves: thousands of calls, no kubectl."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

AGENT = "cluster-tests/1"
MERGE = "application/merge-patch+json"
JSON = "application/json"
Json = dict[str, Any]
A = TypeVar("A")
B = TypeVar("B")


class ApiFault(Exception):
    """The server answered with an error."""

    def __init__(self, status: int, told: Json) -> None:
        super().__init__(f"{status}: {told.get('message', told)}")
        self.status = status
        self.told = told


class Api:
    """One connection per thread, kept open."""

    def __init__(self, url: str, context: ssl.SSLContext, agent: str = AGENT) -> None:
        self.url = url
        self._context = context
        self._agent = agent
        self._local = threading.local()

    def request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        query: dict[str, str] | None = None,
        content_type: str = JSON,
    ) -> Json:
        target = f"{path}?{urlencode(query)}" if query else path
        sent = None if body is None else json.dumps(body).encode()
        headers = {"User-Agent": self._agent, "Accept": JSON, "Content-Type": content_type}
        status, raw = self._exchange(method, target, sent, headers)
        told: Json = json.loads(raw) if raw[:1] == b"{" else {"message": raw.decode(errors="replace")}
        if status >= 300:
            raise ApiFault(status, told)
        return told

    def _exchange(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        for last in (False, True):
            connection = self._connection()
            try:
                connection.request(method, target, body, headers)
                response = connection.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                self._local.connection = None
                if last:
                    raise
        raise AssertionError("unreachable")

    def _connection(self) -> http.client.HTTPSConnection:
        found: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if found is None:
            host = urlsplit(self.url).netloc
            found = http.client.HTTPSConnection(host, timeout=30, context=self._context)
            self._local.connection = found
        return found

    # verbs

    def get(self, path: str) -> Json:
        return self.request("GET", path)

    def find(self, path: str) -> Json | None:
        """The object, or None where there is none."""
        try:
            return self.get(path)
        except ApiFault as fault:
            if fault.status == 404:
                return None
            raise

    def items(self, path: str, **query: str) -> list[Json]:
        return list(self.request("GET", path, query=query).get("items") or ())

    def create(self, path: str, body: Json, **query: str) -> Json:
        return self.request("POST", path, body, query=query)

    def replace(self, path: str, body: Json, **query: str) -> Json:
        return self.request("PUT", path, body, query=query)

    def patch(self, path: str, body: Json, **query: str) -> Json:
        return self.request("PATCH", path, body, query=query, content_type=MERGE)

    def delete(self, path: str, options: Json | None = None) -> Json:
        return self.request("DELETE", path, options)

    def gone(self, path: str) -> None:
        """Deletes what may not be there."""
        try:
            self.delete(path)
        except ApiFault as fault:
            if fault.status not in (404, 409):
                raise


def in_parallel(do: Callable[[A], B], over: Iterable[A], threads: int = 8) -> list[B]:
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(do, over))
