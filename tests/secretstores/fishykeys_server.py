"""A server that answers like FishyKeys' gRPC server, and that a test can make fail.

`python -m tests.secretstores.fishykeys_server /app/db/username=app_user …` serves these values until Ctrl-C.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn, Self

import grpc

from samara.secretstores.proto.fishykeys_pb2 import (
    OperatorGetSecretValueRequest,
    OperatorGetSecretValueResponse,
)

USER = "operator"
YEARS = 10 * 365 * 24 * 3600.0
LOCKED = "key manager is locked, please unlock it first"
_SERVICE, _METHOD = "secrets.Secrets", "OperatorGetSecretValue"


@dataclass(frozen=True)
class Stored:
    value: str | None
    """None: the answer has no such field."""
    readers: frozenset[str]


class FishyKeysServer:
    """A test changes its attributes. Changes apply from the next call on."""

    def __init__(self) -> None:
        self.stored: dict[str, Stored] = {}
        self.locked = False
        self.failing: dict[str, tuple[grpc.StatusCode, str]] = {}
        """Status and details for a path that is otherwise allowed."""
        self.garbled: dict[str, bytes] = {}
        """Raw bytes that are sent for a path instead of a message."""
        self.gate = threading.Event()
        """Calls wait while it is not set."""
        self.gate.set()
        self.requested: list[str] = []
        """The paths, decoded, of all calls with a good token."""
        self.reached = threading.Event()
        """Set by the first of them."""
        self.address = ""
        self._server: grpc.Server | None = None
        self._key = secrets.token_bytes(32)

    # actions of administrators

    def put(self, path: str, value: str | None, *readers: str) -> None:
        self.stored[path] = Stored(value, frozenset(readers or (USER,)))

    def token(self, user: str = USER, lives: float = YEARS) -> str:
        """An operator token and, with a negative life, one that has expired."""
        now = time.time()
        claims = {"iss": "FishyKeys", "sub": f"{user}-operator", "iat": int(now), "exp": int(now + lives)}
        head = _encoded(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
        body = _encoded(json.dumps({**claims, "username": user, "userid": 1}).encode())
        return f"{head}.{body}.{self._signature(head, body)}"

    def rotate_key(self) -> None:
        """Changes the signing key, so that all earlier tokens have a bad signature."""
        self._key = secrets.token_bytes(32)

    # the server

    def start(self, port: int = 0, credentials: grpc.ServerCredentials | None = None) -> str:
        """Listens on loopback; returns host:port."""
        self._server = server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0)])
        rpc = grpc.unary_unary_rpc_method_handler(
            self._answer,
            request_deserializer=OperatorGetSecretValueRequest.FromString,
            response_serializer=self._sent,
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: rpc}),))
        address = f"127.0.0.1:{port}"
        if credentials is None:
            bound = server.add_insecure_port(address)
        else:
            bound = server.add_secure_port(address, credentials)
        server.start()
        self.address = f"127.0.0.1:{bound}"
        return self.address

    def stop(self) -> None:
        """Stops the server and breaks off running calls."""
        self.gate.set()
        if self._server is not None:
            self._server.stop(grace=None).wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    # one call

    def _answer(
        self, request: OperatorGetSecretValueRequest, call: grpc.ServicerContext
    ) -> OperatorGetSecretValueResponse:
        user = self._caller(call)
        path = _path(request.path, call)
        self.requested.append(path)
        self.reached.set()
        self.gate.wait()
        secret = self.stored.get(path)
        # Access is checked first, so a missing secret is forbidden.
        if secret is None or user not in secret.readers:
            _refuse(call, grpc.StatusCode.PERMISSION_DENIED, "forbidden")
        if path in self.failing:
            _refuse(call, *self.failing[path])
        return OperatorGetSecretValueResponse(value=secret.value, path=path)

    def _sent(self, answer: OperatorGetSecretValueResponse) -> bytes:
        return self.garbled.get(answer.path) or answer.SerializeToString()

    def _caller(self, call: grpc.ServicerContext) -> str:
        given = [str(value) for key, value in call.invocation_metadata() if key == "authorization"]
        if not given:
            _refuse(call, grpc.StatusCode.UNAUTHENTICATED, "missing authorization metadata")
        if len(given) > 1:
            _refuse(call, grpc.StatusCode.INVALID_ARGUMENT, "more than one authorization value")
        if self.locked:
            _refuse(call, grpc.StatusCode.FAILED_PRECONDITION, LOCKED)
        user = self._user(given[0].removeprefix("Bearer "))
        if user is None:
            _refuse(call, grpc.StatusCode.UNAUTHENTICATED, f"bad token {given[0]}")
        return user

    def _user(self, token: str) -> str | None:
        head, _, rest = token.partition(".")
        body, _, signature = rest.partition(".")
        if not hmac.compare_digest(signature, self._signature(head, body)):
            return None
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return str(claims["username"]) if claims["exp"] > time.time() else None

    def _signature(self, head: str, body: str) -> str:
        return _encoded(hmac.digest(self._key, f"{head}.{body}".encode(), hashlib.sha256))


def _path(encoded: str, call: grpc.ServicerContext) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        _refuse(call, grpc.StatusCode.INVALID_ARGUMENT, "invalid_parameters")


def _refuse(call: grpc.ServicerContext, code: grpc.StatusCode, details: str) -> NoReturn:
    call.abort(code, details)
    raise AssertionError("abort raises")


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def main() -> None:
    server = FishyKeysServer()
    for argument in sys.argv[1:]:
        path, _, value = argument.partition("=")
        server.put(path, value)
    address = server.start(8090)
    sys.stdout.write(f"url: {address}\ntoken: {server.token()}\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
