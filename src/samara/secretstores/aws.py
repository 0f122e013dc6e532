"""`aws-sm://<region>`: AWS Secrets Manager; a path is the name of a secret, or `name#field` where it holds JSON."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol, cast
from urllib.parse import SplitResult, parse_qsl

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ReadTimeoutError,
    SSLError,
)
from botocore.exceptions import ConnectionError as NotConnected
from botocore.parsers import ResponseParserError

from samara.core.names import quoted
from samara.core.queries import FIELD_SEPARATOR
from samara.secretstores.base import (
    Forbidden,
    Location,
    NotFound,
    StoreConfigError,
    StoreError,
    TextOrJson,
    Unauthenticated,
    Unavailable,
    Unusable,
    bad_url,
    check_path,
    config_text,
    is_loopback,
)

_REGION = re.compile(r"[a-z]{2,8}(-[a-z]{2,20}){1,3}-[0-9]{1,2}")
_NAME = re.compile(r"[A-Za-z0-9/_+=.@-]{1,512}")
_ENDPOINT = re.compile(r"(?P<scheme>https?)://(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?/?")
_KEYS = ("access-key-id", "secret-access-key")
_SESSION = "session-token"

# Short, because a read has five seconds in all. One attempt, because the poller decides when to retry.
_CONFIG = {"connect_timeout": 3, "read_timeout": 4, "retries": {"total_max_attempts": 1}}
# The parser raises the last five if the answer is not from AWS.
_RAISED = (BotoCoreError, ClientError, ResponseParserError, ValueError, TypeError, AttributeError, RecursionError)
_LOGGERS = ("botocore", "aiobotocore")

_READ = "GetSecretValue"
_BAD_CREDENTIALS = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "NotAuthorized",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_BUSY = frozenset(
    {
        "InternalFailure",
        "InternalServiceError",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
    }
)
_NO_CREDENTIALS = (
    "no credentials were found: put access-key-id and secret-access-key into the configuration, "
    "or give the pod a role (IRSA or EKS Pod Identity)"
)


@dataclass(frozen=True, slots=True)
class Keys:
    """Credentials from the configuration."""

    id: str
    secret: str = field(repr=False)
    session: str | None = field(repr=False)


class _Client(Protocol):
    async def get_secret_value(self, *, SecretId: str) -> Mapping[str, object]: ...  # noqa: N803 - AWS's own word


class SecretsManager:
    """The client is created at the first read, since finding credentials may need other requests."""

    scheme = "aws-sm"

    def __init__(self, region: str, endpoint: str | None, keys: Keys | None) -> None:
        self._region, self._endpoint, self._keys = region, endpoint, keys
        self._lock = asyncio.Lock()
        self._client: _Client | None = None
        self._exit_stack = AsyncExitStack()
        self._models: object = None
        """The API models that the first session loaded."""
        self._closed = False

    def locate(self, path: str) -> Location:
        check_path(path)
        name, _, field = path.partition(FIELD_SEPARATOR)
        if name.startswith("arn:"):
            raise Unusable(f"expected the name of a secret in {self._region}, found an ARN: {quoted(name)}")
        if not _NAME.fullmatch(name):
            raise Unusable(f"expected the name of a secret, letters, digits and /_+=.@- only, found {quoted(name)}")
        return Location(name, field)

    async def read(self, document: str) -> TextOrJson:
        client = await self._get_client(document)
        try:
            return await self._get_secret(client, document)
        except (Unauthenticated, Unavailable) as error:
            if not await self._has_new_client(client, error):
                raise
        return await self._get_secret(await self._get_client(document), document)

    async def close(self) -> None:
        async with self._lock:
            self._client, self._closed = None, True
            await self._exit_stack.aclose()

    async def _get_secret(self, client: _Client, document: str) -> TextOrJson:
        try:
            answer = await client.get_secret_value(SecretId=document)
        except _RAISED as error:
            raise _error(error, document, self._region) from None
        return TextOrJson(_content(answer, document))

    async def _has_new_client(self, client: _Client, error: Exception) -> bool:
        """True if a new client may succeed: the credentials of the environment may have changed."""
        if self._keys is None and isinstance(error, Unauthenticated):
            async with self._lock:
                if self._client is client:
                    self._client = None
                    await self._exit_stack.aclose()
                return True
        return self._client is not client

    async def _get_client(self, document: str) -> _Client:
        async with self._lock:
            if self._closed:
                raise Unavailable("the connection to AWS has been closed")
            if self._client is None:
                try:
                    self._client = await self._create_client()
                except _RAISED as error:
                    raise _error(error, document, self._region) from None
            return self._client

    async def _create_client(self) -> _Client:
        for name in _LOGGERS:  # at DEBUG they log the body of every answer
            logging.getLogger(name).setLevel(logging.WARNING)
        # A session caches the credentials that it has found, so a new client needs a new session. It gets the API
        # models that are loaded already.
        session = AioSession()
        if self._models is not None:
            session.register_component("data_loader", self._models)
        self._models = session.get_component("data_loader")
        # No variable or file may redirect requests, not even those that fetch credentials.
        session.set_config_variable("ignore_configured_endpoint_urls", True)
        keys = self._keys
        client = session.create_client(
            "secretsmanager",
            region_name=self._region,
            endpoint_url=self._endpoint,
            aws_access_key_id=keys and keys.id,
            aws_secret_access_key=keys and keys.secret,
            aws_session_token=keys and keys.session,
            config=AioConfig(
                # A custom endpoint is reached directly; AWS itself may need the proxy of the environment.
                proxies=None if self._endpoint is None else {},
                warm_up_loader_caches=True,
                **_CONFIG,
            ),
        )
        return cast("_Client", await self._exit_stack.enter_async_context(client))


def open_aws(url: SplitResult, config: Mapping[str, bytes]) -> SecretsManager:
    options = dict(parse_qsl(url.query, keep_blank_values=True))
    endpoint = options.pop("endpoint", None)
    if options or url.path.strip("/") or not _REGION.fullmatch(url.netloc):
        raise bad_url("expected aws-sm://<region>, as in aws-sm://eu-west-1, and no more than ?endpoint= behind it")
    return SecretsManager(url.netloc, None if endpoint is None else _endpoint(endpoint), _keys(config))


def _endpoint(text: str) -> str:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise bad_url("expected endpoint=http://127.0.0.1:5000 or endpoint=https://host, found something else")
    if match["scheme"] == "http" and not is_loopback(match["host"].strip("[]")):
        raise bad_url("values would be sent in plain text; use https")
    return text.rstrip("/")


def _keys(config: Mapping[str, bytes]) -> Keys | None:
    """All keys or none. For a missing one, the library would silently use that of the environment."""
    given = {key: text for key in (*_KEYS, _SESSION) if (text := config_text(config, key))}
    if not given:
        return None
    for key in _KEYS:
        if key not in given:
            raise StoreConfigError("TokenError", f"the configuration has {next(iter(given))}, but no {key}; add it")
    key_id, secret = (given[key] for key in _KEYS)
    return Keys(key_id, secret, given.get(_SESSION))


def _content(answer: Mapping[str, object], document: str) -> bytes:
    string, binary = answer.get("SecretString"), answer.get("SecretBinary")
    if isinstance(string, str):
        return string.encode(errors="surrogatepass")
    if isinstance(binary, bytes):
        return binary
    raise Unusable(f"AWS has answered for {quoted(document)} without a value: give the secret a string or binary value")


def _error(error: Exception, document: str, region: str) -> StoreError:
    """Our error for one of AWS or of its library. Their messages may quote anything and are never shown."""
    if isinstance(error, ClientError):
        return _client_error(error, document, region)
    if isinstance(error, NoCredentialsError):
        return Unauthenticated(_NO_CREDENTIALS)
    if isinstance(error, HTTPClientError | NotConnected):
        return Unavailable(f"AWS in {region} {_connection_error(error)}")
    if isinstance(error, BotoCoreError):
        # All other errors before a request come from the search for credentials.
        return Unauthenticated(
            f"the credentials for AWS could not be fetched ({type(error).__name__}): "
            "check the profile, role or token that the environment of the operator names"
        )
    return Unavailable(f"AWS in {region} has sent an answer that cannot be read: check what the url's endpoint is")


def _connection_error(error: Exception) -> str:
    if isinstance(error, SSLError):
        return "was reached, but its certificate is not trusted: check the endpoint and AWS_CA_BUNDLE"
    if isinstance(error, ConnectTimeoutError | ReadTimeoutError):
        return "does not answer in time"
    if isinstance(error, EndpointConnectionError):
        return "cannot be reached: check the region, the endpoint, DNS and the way out of the cluster"
    return "has broken off the connection"


def _client_error(error: ClientError, document: str, region: str) -> StoreError:
    answer: dict[str, Any] = error.response
    code = str(answer.get("Error", {}).get("Code", ""))
    status = _status(answer)
    if code in _BUSY or status >= 500 or status == 429:
        return Unavailable(f"AWS in {region} is too busy or failing (status {status})", _retry_after(answer))
    if code in _BAD_CREDENTIALS or status == 401 or error.operation_name != _READ:
        known = f" ({code})" if code in _BAD_CREDENTIALS else ""
        return Unauthenticated(
            f"AWS in {region} does not accept the credentials{known}: renew them, and check the clock and the role"
        )
    return _error_about(code, status, quoted(document), region)


def _error_about(code: str, status: int, name: str, region: str) -> StoreError:
    match code:
        case "ResourceNotFoundException":
            return NotFound(f"AWS has no secret {name} in {region}, or it has no current value")
        case "AccessDeniedException" | "AccessDenied":
            return Forbidden(
                f"AWS does not let these credentials read {name}: "
                "allow secretsmanager:GetSecretValue on it, and kms:Decrypt on its key"
            )
        case "DecryptionFailure":
            return Forbidden(f"AWS cannot decrypt {name}: check that its KMS key is enabled and may be used")
        case "InvalidRequestException":
            # Marked for deletion. It can be restored for weeks, so it does not count as missing.
            return Forbidden(
                f"AWS gives out no value of {name} now: is it marked for deletion? Restore it, or use another"
            )
        case "InvalidParameterException" | "ValidationException":
            return Unusable(f"AWS does not accept {name} as the name of a secret")
    return Forbidden(f"AWS has refused to show {name} (status {status})")


def _status(answer: dict[str, Any]) -> int:
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status if isinstance(status, int) else 0


def _retry_after(answer: dict[str, Any]) -> float | None:
    """Seconds. AWS never sends a date here."""
    text = str(answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("retry-after", ""))
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else None
