"""A small, fast client of the API server for the tests: thousands of calls without kubectl."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

AGENT = "cluster-tests/1"
MERGE = "application/merge-patch+json"
JSON = "application/json"
Json = dict[str, Any]
_CLOSED = (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)
"""The errors on a connection that the server closed while it was idle. The server never receives such a request."""
A = TypeVar("A")
B = TypeVar("B")


class ApiFault(Exception):  # noqa: N818 - this project says fault for what a server answers
    """The server answered with an error."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(f"{status}: {body.get('message', body)}")
        self.status = status
        self.body = body


class Api:
    """Keeps connections open and shares them between threads. One thread uses a connection at a time."""

    def __init__(self, url: str, context: ssl.SSLContext, agent: str = AGENT) -> None:
        self.url = url
        self._context = context
        self._agent = agent
        self._idle: list[http.client.HTTPSConnection] = []

    def request(
        self,
        method: str,
        path: str,
        body: Json | list[Json] | None = None,
        *,
        query: dict[str, str] | None = None,
        content_type: str = JSON,
    ) -> Json:
        target = f"{path}?{urlencode(query)}" if query else path
        sent = None if body is None else json.dumps(body).encode()
        headers = {"User-Agent": self._agent, "Accept": JSON, "Content-Type": content_type}
        status, raw = self._exchange(method, target, sent, headers)
        answer: Json = json.loads(raw) if raw[:1] == b"{" else {"message": raw.decode(errors="replace")}
        if status >= 300:
            raise ApiFault(status, answer)
        return answer

    def _exchange(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        while True:
            connection, fresh = self._connection()
            try:
                connection.request(method, target, body, headers)
                response = connection.getresponse()
                answer = response.status, response.read()
            except (OSError, http.client.HTTPException) as fault:
                connection.close()
                # The server may have executed the request: a second POST would then find the object of the first.
                if fresh or not isinstance(fault, _CLOSED):
                    raise
            else:
                self._idle.append(connection)
                return answer

    def _connection(self) -> tuple[http.client.HTTPSConnection, bool]:
        """A connection, and whether it is new. The server may have closed an old one meanwhile."""
        try:
            return self._idle.pop(), False
        except IndexError:
            host = urlsplit(self.url).netloc
            return http.client.HTTPSConnection(host, timeout=30, context=self._context), True

    def as_agent(self, agent: str) -> Api:
        """The same rights under another user agent."""
        return Api(self.url, self._context, agent)

    def at(self, url: str) -> Api:
        """The same rights on another server of the cluster."""
        return Api(url, self._context, self._agent)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    # verbs

    def get(self, path: str) -> Json:
        return self.request("GET", path)

    def serves(self, path: str) -> bool:
        """True if the kind of this collection is served. That is a little later than its definition claims."""
        try:
            self.get(path)
        except ApiFault:
            return False
        return True

    def find(self, path: str) -> Json | None:
        """The object, or None if it does not exist."""
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
        """Deletes an object that may not exist."""
        try:
            self.delete(path)
        except ApiFault as fault:
            if fault.status not in (404, 409):
                raise


def in_parallel(do: Callable[[A], B], over: Iterable[A], threads: int = 8) -> list[B]:
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(do, over))
