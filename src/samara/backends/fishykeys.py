"""`host:port`, `fishykeys://` and `fishykeys+tls://`: FishyKeys by gRPC; a path is the path of a secret."""

from __future__ import annotations

import asyncio
import os
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Protocol, cast
from urllib.parse import SplitResult, parse_qsl

# Its own lines on stderr are not ours in form, and say nothing that its errors do not.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
# A fork of ours runs another program at once, and must not wait for grpc's threads.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

import grpc
from cryptography import x509
from google.protobuf.message import DecodeError

from samara.backends.base import (
    MOST,
    Absent,
    ConfigFault,
    Denied,
    Spot,
    StoreError,
    Unauthenticated,
    Unavailable,
    Unfit,
    Whole,
    must_be_legal,
    text_of,
    wrong_authorities,
    wrong_url,
)
from samara.backends.fishykeys_proto.fishykeys_pb2 import (
    OperatorGetSecretValueRequest,
    OperatorGetSecretValueResponse,
)
from samara.core.match import shown

METHOD = "/secrets.Secrets/OperatorGetSecretValue"
CA = "ca.crt"
TLS = "fishykeys+tls"

# A token is one entry of metadata, and grpc quotes what it cannot send.
_TOKEN = re.compile(r"(Bearer )?[A-Za-z0-9._~+/=-]+")
_ASKED = frozenset({"insecure"})
_CLOSED = "the connection to FishyKeys has been closed"
_TOO_LARGE = "larger than max"
_OPTIONS = (
    ("grpc.primary_user_agent", "samara"),
    ("grpc.max_receive_message_length", MOST + 64 * 1024),
    # When to ask again is decided by whoever reads: no retries here, and no long wait before the next connection.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A connection that died without a word must not live until the next refresh.
    ("grpc.client_idle_timeout_ms", 30_000),
    # Neither a variable of the environment nor a record in DNS says where the token goes.
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
)


class _Ask(Protocol):
    async def __call__(self, request: bytes, *, metadata: tuple[tuple[str, str], ...]) -> bytes: ...


class FishyKeys:
    """One channel for all reads; the server knows no batch."""

    scheme = "fishykeys"

    def __init__(self, channel: grpc.aio.Channel, token: str) -> None:
        self._channel = channel
        self._metadata = (("authorization", token),)
        self._ask = cast("_Ask", channel.unary_unary(METHOD))  # grpc itself would give None for what cannot be parsed

    def spot(self, path: str) -> Spot:
        must_be_legal(path)
        if not path.startswith("/"):
            raise Unfit(f"expected a path of FishyKeys, which begins with a slash, found {shown(path)}")
        return Spot(path)

    async def read(self, document: str) -> Whole:
        name = shown(document)
        try:
            answer = OperatorGetSecretValueResponse.FromString(await self._asked(document))
        except grpc.aio.AioRpcError as error:
            raise _fault(error.code(), error.details() or "", name) from None
        except DecodeError:
            raise Unfit(f"FishyKeys has answered for {name} with what is no message of it, or no text") from None
        if not answer.HasField("value"):
            raise Unfit(f"FishyKeys has answered for {name} without a value")
        return Whole(answer.value.encode())

    async def _asked(self, document: str) -> bytes:
        request = OperatorGetSecretValueRequest(path=b64encode(document.encode()).decode())
        try:
            return await self._ask(request.SerializeToString(), metadata=self._metadata)
        except grpc.aio.UsageError:
            raise Unavailable(_CLOSED) from None
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            raise Unavailable(_CLOSED) from None  # a channel that is closed under a call ends it like this

    async def close(self) -> None:
        await self._channel.close()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def open_fishykeys(url: SplitResult, config: Mapping[str, bytes]) -> FishyKeys:
    """Needs the loop that reads."""
    if not url.hostname or url.port is None or url.path.strip("/") or dict(parse_qsl(url.query)).keys() - _ASKED:
        raise wrong_url(
            "expected host:port, as in fishykeys.fishykeys.svc:8090, and no more than ?insecure=true behind it"
        )
    token = text_of(config, "token")
    if not _TOKEN.fullmatch(token):
        raise ConfigFault(
            "TokenError", "the configuration's key token: expected a token of FishyKeys, found other text"
        )
    return FishyKeys(_channel(url, config), token)


def _channel(url: SplitResult, config: Mapping[str, bytes]) -> grpc.aio.Channel:
    target = f"dns:///{url.netloc}"  # with its scheme, so that no host can be read as another one
    if url.scheme != TLS:
        return grpc.aio.insecure_channel(target, options=_OPTIONS)
    return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(_authorities(config)), options=_OPTIONS)


def _authorities(config: Mapping[str, bytes]) -> bytes | None:
    """None: the public ones."""
    found = config.get(CA)
    if found is None:
        return None
    try:
        x509.load_pem_x509_certificates(found)
    except ValueError:
        raise wrong_authorities() from None
    return found


def _fault(code: grpc.StatusCode, details: str, name: str) -> StoreError:
    """What a status means. Its details may quote anything and are never passed on."""
    match code:
        case grpc.StatusCode.UNAUTHENTICATED:
            return Unauthenticated("FishyKeys does not accept the token: it is wrong or has expired; put in a new one")
        case grpc.StatusCode.PERMISSION_DENIED:
            return Denied(
                f"FishyKeys does not show {name}: it does not exist, or the token's user may not read it; "
                "FishyKeys does not tell which"
            )
        case grpc.StatusCode.NOT_FOUND:
            return Absent(f"FishyKeys has no secret {name}")
        case grpc.StatusCode.INVALID_ARGUMENT:
            return Unfit(f"FishyKeys takes {name} for no path of a secret")
        case grpc.StatusCode.INTERNAL | grpc.StatusCode.UNKNOWN:
            # Its answer for one secret that it cannot decrypt, too: that must not hold up all others.
            return Unfit(f"FishyKeys has failed to read {name} ({code.name}): look into its own log")
        case grpc.StatusCode.RESOURCE_EXHAUSTED if _TOO_LARGE in details:
            return Unfit(f"the answer for {name} is larger than the {MOST} bytes a value may have")
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
