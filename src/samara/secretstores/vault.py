"""`vault+https://host:port/<mount>`: HashiCorp Vault and OpenBao, KV versions 2 and 1; a path is `path#field`.

`Vault` reads entries, `Session` holds one token for all reads, and a `Login` obtains that token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Literal, Protocol, TypeVar
from urllib.parse import SplitResult, quote

import msgspec

from samara.core.names import quoted
from samara.core.queries import FIELD_SEPARATOR, path_fault
from samara.secretstores.base import (
    Content,
    Forbidden,
    JsonObject,
    Location,
    NotFound,
    StoreConfigError,
    StoreError,
    Unauthenticated,
    Unavailable,
    Unusable,
    bad_url,
    config_text,
    is_loopback,
    split_path,
)
from samara.secretstores.http import HttpClient, Response, tls_context

LOGIN_TOKEN = Path("/var/run/secrets/samara.dev/login/token")
"""A token of the pod for logins. It has an audience of its own, so the API server does not accept it."""
PORT = 8200

Version = Literal["1", "2"]
TOKEN_HEADER = "X-Vault-Token"  # noqa: S105 - the header's name
LOOKUP = "/v1/auth/token/lookup-self"
RENEWAL = "/v1/auth/token/renew-self"
MIN_TTL = 1.0
"""Seconds. A token with less time left is not renewed."""
RENEWAL_DEADLINE = 5.0
"""Seconds."""

_NOT_EXPECTED = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""Raised by msgspec for anything but JSON of the expected shape."""

_INVALID = b"invalid token"
_BUSY = frozenset({HTTPStatus.PRECONDITION_FAILED, HTTPStatus.TOO_MANY_REQUESTS, 472, 473})
_T = TypeVar("_T")

Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Vault:
    """The entries of one KV mount."""

    mount: str
    version: Version
    http: HttpClient
    session: Session
    scheme: str = "vault"

    def locate(self, path: str) -> Location:
        location = split_path(path)
        if not location.field:
            raise Unusable(f"expected path#field, found {quoted(path)}: name the field after a #")
        return location

    async def read(self, document: str) -> Content:
        infix = "/data" if self.version == "2" else ""
        answer = await self.session.get(f"/v1/{_quoted(self.mount)}{infix}/{_quoted(document)}")
        raise_if_unavailable(answer, self.http)
        if answer.status == HTTPStatus.OK:
            return self._content(answer, document)
        if answer.status == HTTPStatus.NOT_FOUND:
            raise self._missing(answer)
        raise self._refusal(answer.status)

    async def close(self) -> None:
        await self.session.close()

    def _content(self, answer: Response, document: str) -> Content:
        try:
            if self.version == "1":
                return JsonObject(msgspec.json.decode(answer.body, type=_Entry1).data)
            data = msgspec.json.decode(answer.body, type=_Entry2).data.data
        except _NOT_EXPECTED:
            fault = f"{quoted(document)} is no entry of KV version {self.version}; check the mount and ?kv= in the url"
            raise Unusable(fault) from None
        if data is None:
            raise NotFound("the newest version is deleted")
        return JsonObject(data)

    def _missing(self, answer: Response) -> NotFound | Unusable:
        """Vault also answers 404 for a wrong mount or KV version. Only a plain 404 means that there is no entry."""
        try:
            body = msgspec.json.decode(answer.body, type=_Missing) if answer.body else _Missing(errors=[])
        except _NOT_EXPECTED:
            body = _Missing()
        deleted = body.data is not None and not body.data.data and body.data.metadata is not None
        if deleted or (body.errors == [] and not body.warnings):
            return NotFound("there is no such entry, or its newest version is deleted")
        return Unusable(
            f"nothing answers at the mount {self.mount} as KV version {self.version} (404); "
            "check the mount in the url, and ?kv=1 for version 1"
        )

    def _refusal(self, status: int) -> Forbidden | Unauthenticated | Unusable:
        if status == HTTPStatus.FORBIDDEN:
            return Forbidden("the token's policies do not let it read this path; extend them, or correct the path")
        if status == HTTPStatus.UNAUTHORIZED:
            return Unauthenticated("the credentials were refused (401); a proxy in front of Vault may require others")
        return Unusable(f"Vault refuses to read this path ({status})")


class Session:
    """One token for all reads. It is renewed at two thirds of its life, and replaced if it cannot be renewed."""

    def __init__(self, http: HttpClient, login: Login, sleep: Sleep = asyncio.sleep) -> None:
        self._http = http
        self._login = login
        self._sleep = sleep
        self._logging_in = asyncio.Lock()
        self._token: Token | None = None
        self._renewal: asyncio.Task[None] | None = None

    async def get(self, path: str) -> Response:
        """Sends a request with a live token. A dead token is replaced once; then `Unauthenticated` is raised."""
        for _ in range(2 if self._login.reusable else 1):
            token = await self._get_token()
            answer = await self._http.request("GET", path, {TOKEN_HEADER: token.token})
            if answer.status == HTTPStatus.OK:
                # The token lives. A look-up that was refused before was therefore refused for lack of rights.
                token.may_lack_lookup = token.no_lookup
            if answer.status != HTTPStatus.FORBIDDEN or not await self._is_dead(token, answer):
                return answer
            self._forget(token)
        raise Unauthenticated(f"{self._http.base}: the token is no longer valid; put a new one into the configuration")

    async def close(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            with suppress(asyncio.CancelledError):
                await self._renewal
        await self._http.close()

    async def _get_token(self) -> Token:
        async with self._logging_in:
            if self._token is None:
                token = self._token = await self._login.log_in(self._http)
                if self._renewal is not None:
                    self._renewal.cancel()
                self._renewal = asyncio.create_task(self._renew_until_useless(token)) if token.ttl > 0 else None
            return self._token

    def _forget(self, token: Token) -> None:
        if self._token is token:
            self._token = None

    async def _is_dead(self, token: Token, refused: Response) -> bool:
        """Vault answers 403 for a dead token, and for a path that a live token may not read. If the answer does not say
        which, the token looks itself up."""
        if _INVALID in refused.body:
            return True
        answer = await self._http.request("GET", LOOKUP, {TOKEN_HEADER: token.token})
        raise_if_unavailable(answer, self._http)
        if answer.status != HTTPStatus.FORBIDDEN or _INVALID in answer.body:
            return answer.status == HTTPStatus.FORBIDDEN
        # For a new token this only proves that its policies refuse the look-up. Remember that.
        token.no_lookup = token.no_lookup or token.may_lack_lookup
        return not token.may_lack_lookup

    async def _renew_until_useless(self, token: Token) -> None:
        """Renews the token while that extends its life. Then it forgets the token before it expires, and the next read
        logs in."""
        ttl = token.ttl
        while ttl >= MIN_TTL:
            await self._sleep(ttl * 2 / 3)
            ttl = await self._renew(token, ttl / 3)
        self._forget(token)

    async def _renew(self, token: Token, left: float) -> float:
        """Seconds that the token has left: `left` if the server does not answer, 0 if it cannot be renewed."""
        if not token.renewable:
            return 0.0
        try:
            async with asyncio.timeout(RENEWAL_DEADLINE):
                answer = await self._http.request("POST", RENEWAL, {TOKEN_HEADER: token.token}, b"{}")
                raise_if_unavailable(answer, self._http)
                fresh = _decode(answer, _LoginAnswer, self._http).auth if answer.status == HTTPStatus.OK else None
        except (StoreError, TimeoutError):
            return left
        return fresh.lease_duration if fresh is not None and fresh.lease_duration > left + MIN_TTL else 0.0


@dataclass(slots=True)
class Token:
    """A token that the server has issued or accepted."""

    token: str = field(repr=False)
    ttl: float
    """Seconds from when it was obtained; 0 if it never expires."""
    renewable: bool
    no_lookup: bool = False
    """True if a look-up was refused, most likely by the token's policies."""
    may_lack_lookup: bool = False
    """True if a refused look-up does not prove that the token is dead."""


class Login(Protocol):
    @property
    def reusable(self) -> bool:
        """True if a dead token can be replaced by logging in again."""

    async def log_in(self, http: HttpClient) -> Token:
        """Raises `Unauthenticated` or `Unavailable`."""


@dataclass(frozen=True, slots=True)
class StaticToken:
    """A token from the configuration."""

    token: str = field(repr=False)
    reusable: bool = False

    async def log_in(self, http: HttpClient) -> Token:
        answer = await http.request("GET", LOOKUP, {TOKEN_HEADER: self.token})
        if answer.status == HTTPStatus.OK:
            facts = _decode(answer, _LookedUp, http).data
            return Token(self.token, facts.ttl, facts.renewable)
        raise_if_unavailable(answer, http)
        if _INVALID in answer.body or answer.status == HTTPStatus.UNAUTHORIZED:
            raise Unauthenticated(f"{http.base}: the token is not valid; put a new one into the configuration")
        # A token without the policy `default` may read entries but not look itself up.
        return Token(self.token, 0.0, False, no_lookup=True)


@dataclass(frozen=True, slots=True)
class AppRole:
    """Logs in with a role ID and a secret ID."""

    mount: str
    role_id: str
    secret_id: str = field(repr=False)
    reusable: bool = True

    async def log_in(self, http: HttpClient) -> Token:
        return await _log_in(http, self.mount, {"role_id": self.role_id, "secret_id": self.secret_id})


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """Logs in with a service account token of the pod. The kubelet rotates the file, so it is read each time."""

    mount: str
    role: str
    token_file: Path
    reusable: bool = True

    async def log_in(self, http: HttpClient) -> Token:
        try:
            jwt = (await asyncio.to_thread(self.token_file.read_text, "ascii")).strip()
        except (OSError, ValueError):
            raise Unauthenticated(
                f"the pod's token for logins cannot be read from {self.token_file}: is this a pod of the chart?"
            ) from None
        return await _log_in(http, self.mount, {"role": self.role, "jwt": jwt})


def open_vault(
    url: SplitResult, config: Mapping[str, bytes], login_token: Path = LOGIN_TOKEN, sleep: Sleep = asyncio.sleep
) -> Vault:
    """Does no I/O; the first read logs in."""
    mount = url.path.strip("/")
    if not url.hostname or path_fault(mount) or FIELD_SEPARATOR in mount:
        raise bad_url("expected vault+https://host:8200/<mount>, found no host or mount")
    login, version, namespace = _login(config, login_token), _version(url.query), config_text(config, "namespace")
    headers = {"X-Vault-Request": "true"} | ({"X-Vault-Namespace": namespace} if namespace else {})
    base, tls = _base(url), None if _is_plain(url) else tls_context(config.get("ca.crt", b""))
    http = HttpClient(base, tls, headers)
    return Vault(mount, version, http, Session(http, login, sleep))


def _is_plain(url: SplitResult) -> bool:
    return url.scheme == "vault+http"


def _base(url: SplitResult) -> str:
    host = url.hostname or ""
    if _is_plain(url) and not is_loopback(host):
        raise bad_url("vault+http is for this machine only, found another host; use vault+https")
    name = f"[{host}]" if ":" in host else host
    return f"{'http' if _is_plain(url) else 'https'}://{name}:{url.port or PORT}"


def _version(query: str) -> Version:
    match query:
        case "" | "kv=2":
            return "2"
        case "kv=1":
            return "1"
    raise bad_url("expected ?kv=1, ?kv=2 or nothing after the mount")


def _login(config: Mapping[str, bytes], login_token: Path) -> Login:
    """The keys of the configuration choose the login. Keys of two logins, or half of one, are an error."""
    token, role = config_text(config, "token"), config_text(config, "role")
    role_id, secret_id = config_text(config, "role-id"), config_text(config, "secret-id")
    mount = config_text(config, "auth-mount").strip("/")
    if mount and path_fault(mount):
        raise StoreConfigError("TokenError", "the configuration's key auth-mount: expected the path of an auth method")
    match bool(token), bool(role), bool(role_id), bool(secret_id):
        case True, False, False, False:
            return StaticToken(token)
        case False, True, False, False:
            return Kubernetes(_quoted(mount or "kubernetes"), role, login_token)
        case False, False, True, True:
            return AppRole(_quoted(mount or "approle"), role_id, secret_id)
    given = ", ".join(key for key in ("token", "role", "role-id", "secret-id") if config_text(config, key)) or "none"
    raise StoreConfigError(
        "TokenError", f"expected one of token, role, or role-id with secret-id; found {given} of them"
    )


def _quoted(path: str) -> str:
    return "/".join(quote(segment, safe="") for segment in path.split("/"))


def raise_if_unavailable(answer: Response, http: HttpClient) -> None:
    """Raises `Unavailable` for an answer that says nothing about the requested path."""
    if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
        raise Unavailable(f"{http.base}: it is sealed or under maintenance (503); unseal it", answer.retry_after)
    if answer.status in _BUSY or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Unavailable(f"{http.base}: it cannot answer now ({answer.status})", answer.retry_after)
    if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        raise Unavailable(
            f"{http.base}: it sends its callers elsewhere ({answer.status}), which is not followed; "
            "put the address of the active server into the url",
            answer.retry_after,
        )


def _decode(answer: Response, shape: type[_T], http: HttpClient) -> _T:
    try:
        return msgspec.json.decode(answer.body, type=shape)
    except _NOT_EXPECTED:
        raise Unavailable(f"{http.base}: the answer is not one of Vault's: is something in between?") from None


async def _log_in(http: HttpClient, mount: str, proof: dict[str, str]) -> Token:
    answer = await http.request("POST", f"/v1/auth/{mount}/login", {}, msgspec.json.encode(proof))
    raise_if_unavailable(answer, http)
    if answer.status != HTTPStatus.OK:
        raise Unauthenticated(
            f"{http.base}: the login at auth/{mount} was refused ({answer.status}); "
            "put the right role, or a new secret-id, into the configuration"
        )
    auth = _decode(answer, _LoginAnswer, http).auth
    return Token(auth.client_token, auth.lease_duration, auth.renewable, may_lack_lookup=True)


class _Entry1(msgspec.Struct):
    data: dict[str, msgspec.Raw]


class _Version2(msgspec.Struct):
    data: dict[str, msgspec.Raw] | None
    metadata: dict[str, object] | None = None


class _Entry2(msgspec.Struct):
    data: _Version2


class _Missing(msgspec.Struct):
    errors: list[object] | None = None
    warnings: list[object] | None = None
    data: _Version2 | None = None


class _Auth(msgspec.Struct):
    client_token: str
    lease_duration: float = 0.0
    renewable: bool = False


class _LoginAnswer(msgspec.Struct):
    auth: _Auth


class _Facts(msgspec.Struct):
    ttl: float = 0.0
    renewable: bool = False


class _LookedUp(msgspec.Struct):
    data: _Facts
