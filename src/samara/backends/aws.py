"""`aws-sm://<region>`: AWS Secrets Manager; a path is the name of a secret, or `name#field` where it holds JSON."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Protocol, cast
from urllib.parse import SplitResult, parse_qsl

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from samara.backends.aws_faults import fault_of_call
from samara.backends.base import (
    ConfigFault,
    Spot,
    Unauthenticated,
    Unavailable,
    Unfit,
    is_loopback,
    must_be_legal,
    text_of,
    wrong_url,
)
from samara.backends.json_fields import Text
from samara.core.match import shown
from samara.core.paths import MARK

_REGION = re.compile(r"[a-z]{2,8}(-[a-z]{2,20}){1,3}-[0-9]{1,2}")
_NAME = re.compile(r"[A-Za-z0-9/_+=.@-]{1,512}")
_ENDPOINT = re.compile(r"(?P<scheme>https?)://(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?/?")
_KEYS = ("access-key-id", "secret-access-key")
_SESSION = "session-token"

# Short, because whoever reads waits five seconds at most; and one attempt, because when to ask again is decided there.
_CONFIG = {"connect_timeout": 3, "read_timeout": 4, "retries": {"total_max_attempts": 1}}
# The last ones are how its parser trips over what is no answer of AWS.
_RAISED = (BotoCoreError, ClientError, ResponseParserError, ValueError, TypeError, AttributeError, RecursionError)
_LOUD = ("botocore", "aiobotocore")


@dataclass(frozen=True, slots=True)
class Keys:
    """Credentials of the configuration, where it has some."""

    id: str
    secret: str = field(repr=False)
    session: str | None = field(repr=False)


class _Client(Protocol):
    async def get_secret_value(self, *, SecretId: str) -> Mapping[str, object]: ...  # noqa: N803 - AWS's own word


class SecretsManager:
    """One client, made at the first read: finding credentials may mean asking somebody for them."""

    scheme = "aws-sm"

    def __init__(self, region: str, endpoint: str | None, keys: Keys | None) -> None:
        self._region, self._endpoint, self._keys = region, endpoint, keys
        self._lock = asyncio.Lock()
        self._client: _Client | None = None
        self._open = AsyncExitStack()
        self._models: object = None
        self._closed = False

    def spot(self, path: str) -> Spot:
        must_be_legal(path)
        name, _, field = path.partition(MARK)
        if name.startswith("arn:"):
            raise Unfit(f"expected the name of a secret in {self._region}, found an ARN: {shown(name)}")
        if not _NAME.fullmatch(name):
            raise Unfit(f"expected the name of a secret, letters, digits and /_+=.@- only, found {shown(name)}")
        return Spot(name, field)

    async def read(self, document: str) -> Text:
        client = await self._connected(document)
        try:
            return await self._ask(client, document)
        except (Unauthenticated, Unavailable) as error:
            if not await self._renewed(client, error):
                raise
        return await self._ask(await self._connected(document), document)

    async def close(self) -> None:
        async with self._lock:
            self._client, self._closed = None, True
            await self._open.aclose()

    async def _ask(self, client: _Client, document: str) -> Text:
        try:
            answer = await client.get_secret_value(SecretId=document)
        except _RAISED as error:
            raise fault_of_call(error, document, self._region) from None
        return Text(_content(answer, document))

    async def _renewed(self, client: _Client, error: Exception) -> bool:
        """Whether there is another client to ask: credentials of the environment may be others by now."""
        if self._keys is None and isinstance(error, Unauthenticated):
            async with self._lock:
                if self._client is client:
                    self._client = None
                    await self._open.aclose()
                return True
        return self._client is not client

    async def _connected(self, document: str) -> _Client:
        async with self._lock:
            if self._closed:
                raise Unavailable("the connection to AWS has been closed")
            if self._client is None:
                try:
                    self._client = await self._made()
                except _RAISED as error:
                    raise fault_of_call(error, document, self._region) from None
            return self._client

    async def _made(self) -> _Client:
        for name in _LOUD:  # at DEBUG they log the body of every answer
            logging.getLogger(name).setLevel(logging.WARNING)
        # A session keeps the credentials that it has found, so that a new client needs a new one. The models stay.
        session = AioSession()
        if self._models is not None:
            session.register_component("data_loader", self._models)
        self._models = session.get_component("data_loader")
        # For the requests that fetch credentials, too: no variable or file sends them to another address.
        session.set_config_variable("ignore_configured_endpoint_urls", True)
        keys = self._keys
        made = session.create_client(
            "secretsmanager",
            region_name=self._region,
            endpoint_url=self._endpoint,
            aws_access_key_id=keys and keys.id,
            aws_secret_access_key=keys and keys.secret,
            aws_session_token=keys and keys.session,
            config=AioConfig(
                # An endpoint of its own is near; what leads out of the cluster may need the proxy of the environment.
                proxies=None if self._endpoint is None else {},
                warm_up_loader_caches=True,
                **_CONFIG,
            ),
        )
        return cast("_Client", await self._open.enter_async_context(made))


def open_aws(url: SplitResult, config: Mapping[str, bytes]) -> SecretsManager:
    options = dict(parse_qsl(url.query, keep_blank_values=True))
    endpoint = options.pop("endpoint", None)
    if options or url.path.strip("/") or not _REGION.fullmatch(url.netloc):
        raise wrong_url("expected aws-sm://<region>, as in aws-sm://eu-west-1, and no more than ?endpoint= behind it")
    return SecretsManager(url.netloc, None if endpoint is None else _endpoint(endpoint), _keys(config))


def _endpoint(text: str) -> str:
    found = _ENDPOINT.fullmatch(text)
    if found is None:
        raise wrong_url("expected endpoint=http://127.0.0.1:5000 or endpoint=https://host, found something else")
    if found["scheme"] == "http" and not is_loopback(found["host"].strip("[]")):
        raise wrong_url("values would travel from the endpoint in plain text; use https")
    return text.rstrip("/")


def _keys(config: Mapping[str, bytes]) -> Keys | None:
    """All or nothing: half a credential must not turn into the whole of another one."""
    given = {key: found for key in (*_KEYS, _SESSION) if (found := text_of(config, key))}
    if not given:
        return None
    for key in _KEYS:
        if key not in given:
            raise ConfigFault("TokenError", f"the configuration has {next(iter(given))}, but no {key}; add it")
    id_, secret = (given[key] for key in _KEYS)
    return Keys(id_, secret, given.get(_SESSION))


def _content(answer: Mapping[str, object], document: str) -> bytes:
    string, binary = answer.get("SecretString"), answer.get("SecretBinary")
    if isinstance(string, str):
        return string.encode(errors="surrogatepass")
    if isinstance(binary, bytes):
        return binary
    raise Unfit(f"AWS has answered for {shown(document)} without a value: give the secret a string or binary value")
