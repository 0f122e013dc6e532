"""`host:port`, `fishykeys://` and `fishykeys+tls://`: FishyKeys by gRPC; a path is the path of a secret."""

from __future__ import annotations

import asyncio
import os
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Protocol, cast
from urllib.parse import SplitResult, parse_qsl

# gRPC would write lines of its own format to stderr; its errors say the same.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
# We fork only to run another program at once, which must not wait for gRPC's threads.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

import grpc
from cryptography import x509
from google.protobuf.message import DecodeError

from samara.core.names import quoted
from samara.secretstores.base import (
    MAX_VALUE,
    Forbidden,
    Location,
    NotFound,
    SingleValue,
    StoreConfigError,
    StoreError,
    Unauthenticated,
    Unavailable,
    Unusable,
    bad_ca,
    bad_url,
    check_path,
    config_text,
)
from samara.secretstores.proto.fishykeys_pb2 import (
    OperatorGetSecretValueRequest,
    OperatorGetSecretValueResponse,
)

METHOD = "/secrets.Secrets/OperatorGetSecretValue"
CA = "ca.crt"
TLS = "fishykeys+tls"

# The token is sent as metadata. gRPC quotes what it cannot send, so an invalid token is refused here.
_TOKEN = re.compile(r"(Bearer )?[A-Za-z0-9._~+/=-]+")
_OPTIONS = frozenset({"insecure"})
_CLOSED = "the connection to FishyKeys has been closed"
_TOO_LARGE = "larger than max"
"""Part of gRPC's own message for an answer beyond `grpc.max_receive_message_length`."""
_CHANNEL_OPTIONS = (
    ("grpc.primary_user_agent", "samara"),
    ("grpc.max_receive_message_length", MAX_VALUE + 64 * 1024),
    # The poller decides when to retry: no retries here, and no long wait before the next connection.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A connection that broke unnoticed is dropped before the next refresh.
    ("grpc.client_idle_timeout_ms", 30_000),
    # Neither a variable of the environment nor a DNS record may redirect the token.
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
)


class _Call(Protocol):
    async def __call__(self, request: bytes, *, metadata: tuple[tuple[str, str], ...]) -> bytes: ...


class FishyKeys:
    """One channel for all reads. The server has no batch request."""

    scheme = "fishykeys"

    def __init__(self, channel: grpc.aio.Channel, token: str) -> None:
        self._channel = channel
        self._metadata = (("authorization", token),)
        self._call = cast("_Call", channel.unary_unary(METHOD))  # as bytes: gRPC returns None for what it cannot parse

    def locate(self, path: str) -> Location:
        check_path(path)
        if not path.startswith("/"):
            raise Unusable(f"expected a path of FishyKeys, which begins with a slash, found {quoted(path)}")
        return Location(path)

    async def read(self, document: str) -> SingleValue:
        name = quoted(document)
        try:
            answer = OperatorGetSecretValueResponse.FromString(await self._request(document))
        except grpc.aio.AioRpcError as error:
            raise _error(error.code(), error.details() or "", name) from None
        except DecodeError:
            message = f"FishyKeys has answered for {name} with something that is not its message, or not text"
            raise Unusable(message) from None
        if not answer.HasField("value"):
            raise Unusable(f"FishyKeys has answered for {name} without a value")
        return SingleValue(answer.value.encode())

    async def _request(self, document: str) -> bytes:
        request = OperatorGetSecretValueRequest(path=b64encode(document.encode()).decode())
        try:
            return await self._call(request.SerializeToString(), metadata=self._metadata)
        except grpc.aio.UsageError:
            raise Unavailable(_CLOSED) from None
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            raise Unavailable(_CLOSED) from None  # gRPC cancels calls when their channel is closed

    async def close(self) -> None:
        await self._channel.close()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def open_fishykeys(url: SplitResult, config: Mapping[str, bytes]) -> FishyKeys:
    """Opens a channel without connecting. Must be called in the event loop that will read."""
    if not url.hostname or url.port is None or url.path.strip("/") or dict(parse_qsl(url.query)).keys() - _OPTIONS:
        raise bad_url(
            "expected host:port, as in fishykeys.fishykeys.svc:8090, and no more than ?insecure=true behind it"
        )
    token = config_text(config, "token")
    if not _TOKEN.fullmatch(token):
        raise StoreConfigError(
            "TokenError", "the configuration's key token: expected a token of FishyKeys, found other text"
        )
    return FishyKeys(_channel(url, config), token)


def _channel(url: SplitResult, config: Mapping[str, bytes]) -> grpc.aio.Channel:
    target = f"dns:///{url.netloc}"  # with a scheme, or gRPC could take the host for one
    if url.scheme != TLS:
        return grpc.aio.insecure_channel(target, options=_CHANNEL_OPTIONS)
    return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(_ca(config)), options=_CHANNEL_OPTIONS)


def _ca(config: Mapping[str, bytes]) -> bytes | None:
    """The authorities to trust, in PEM. None for the public ones."""
    pem = config.get(CA)
    if pem is None:
        return None
    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise bad_ca() from None
    return pem


def _error(code: grpc.StatusCode, details: str, name: str) -> StoreError:
    """The error for a status. Its details may quote anything and are never shown."""
    match code:
        case grpc.StatusCode.UNAUTHENTICATED:
            return Unauthenticated("FishyKeys does not accept the token: it is wrong or has expired; put in a new one")
        case grpc.StatusCode.PERMISSION_DENIED:
            return Forbidden(
                f"FishyKeys does not show {name}: it does not exist, or the token's user may not read it; "
                "FishyKeys does not tell which"
            )
        case grpc.StatusCode.NOT_FOUND:
            return NotFound(f"FishyKeys has no secret {name}")
        case grpc.StatusCode.INVALID_ARGUMENT:
            return Unusable(f"FishyKeys does not accept {name} as the path of a secret")
        case grpc.StatusCode.INTERNAL | grpc.StatusCode.UNKNOWN:
            # FishyKeys also answers this for one secret that it cannot decrypt, which must not stop all other reads.
            return Unusable(f"FishyKeys has failed to read {name} ({code.name}): look into its own log")
        case grpc.StatusCode.RESOURCE_EXHAUSTED if _TOO_LARGE in details:
            return Unusable(f"the answer for {name} is larger than the {MAX_VALUE} bytes a value may have")
    return _outage(code)


def _outage(code: grpc.StatusCode) -> Unavailable:
    match code:
        case grpc.StatusCode.FAILED_PRECONDITION:
            return Unavailable("FishyKeys is locked: unlock it with its key shares")
        case grpc.StatusCode.UNIMPLEMENTED:
            return Unavailable("what answers at the url is not FishyKeys' gRPC server: check host and port")
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return Unavailable("FishyKeys does not answer in time")
        case grpc.StatusCode.UNAVAILABLE:
            return Unavailable("FishyKeys cannot be reached: check host, port, TLS and network policies")
    return Unavailable(f"FishyKeys does not answer now ({code.name})")
