"""Speaks to the servers over loopback: free ports, readiness, and etcd's JSON gateway."""

import http.client
import json
import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 10.0
PROBE_SECONDS = 2.0  # short, because another program that took the port may never answer


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def answers(url: str, path: str, context: ssl.SSLContext | None = None) -> bool:
    """True if a GET of this path is answered with 200."""
    try:
        return _request(_connect(url, PROBE_SECONDS, context), "GET", path)[0] == http.client.OK
    except (OSError, http.client.HTTPException):
        return False


def post(url: str, path: str, body: dict[str, Any], timeout: float = TIMEOUT_SECONDS) -> dict[str, Any]:
    """Sends a JSON body and returns the JSON answer. Raises OSError for a status other than 200."""
    try:
        status, content = _request(_connect(url, timeout), "POST", path, json.dumps(body))
    except http.client.HTTPException as error:
        raise OSError(f"{path} was not answered in HTTP") from error
    if status != http.client.OK:
        raise OSError(f"{path} answered {status}: {content.decode(errors='replace')[:500]}")
    answer: dict[str, Any] = json.loads(content)
    return answer


def _connect(url: str, timeout: float, context: ssl.SSLContext | None = None) -> http.client.HTTPConnection:
    # http.client and not urllib.request: a proxy set in the environment must not see loopback traffic.
    host = urlsplit(url).netloc
    if context is None:
        return http.client.HTTPConnection(host, timeout=timeout)
    return http.client.HTTPSConnection(host, timeout=timeout, context=context)


def _request(
    connection: http.client.HTTPConnection, method: str, path: str, body: str | None = None
) -> tuple[int, bytes]:
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
