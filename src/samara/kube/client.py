"""Requests to the API server: one session, a timeout on everything, errors as one tree."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, urlencode

from yarl import URL

from samara import __version__
from samara.core.model import MANAGER, Kind, Ref
from samara.kube.auth import Access
from samara.kube.auth.credentials import Headers
from samara.kube.errors import ApiError, ConfigError, Unauthorized, Unreachable, from_status
from samara.kube.lean import aiohttp
from samara.kube.wire import Wires

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
METADATA = f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_MOST_ERROR_BODY = 65_536
AGENT = f"samara/{__version__}"
_HEADERS = {
    "Accept": JSON,
    "Accept-Encoding": "identity",  # inflating costs more than decoding the plain bytes
}
_NO_ANSWER = (aiohttp.ClientError, OSError, TimeoutError)
T = TypeVar("T")
Params = dict[str, str]
AS_US: Params = {"fieldManager": MANAGER, "fieldValidation": "Ignore"}
"""The parameters of our writes. Validation would only warn, us and nobody else, and costs the server a second decoding:
measured at 7 % of its CPU for a write."""
FOR_OTHERS: Params = {**AS_US, "fieldManager": f"{MANAGER}-for-others"}
"""For what is not ours to take away again."""


_PLAIN = re.compile(r"[A-Za-z0-9._:-]*").fullmatch


def segment(name: str) -> str:
    """One part of a path. Some kinds may be named almost anything, and anybody may write any name into a reference."""
    if name in ("", ".", ".."):
        raise ConfigError(f"expected the name of an object, found {name!r}")
    return name if _PLAIN(name) else quote(name, safe="")


def collection(kind: Kind, namespace: str = "") -> str:
    """The path of a kind's objects, in one namespace or in all."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/{segment(namespace)}/{kind.plural}" if namespace else f"{root}/{kind.plural}"


def address(ref: Ref, subresource: str = "") -> str:
    path = f"{collection(ref.kind, ref.namespace)}/{segment(ref.name)}"
    return f"{path}/{subresource}" if subresource else path


class Client:
    """A session with one API server."""

    def __init__(
        self,
        access: Access,
        timeout: float = 30.0,
        connections: int = 64,
        agent: str = AGENT,
        *,
        may_write: Callable[[], bool] | None = None,
    ) -> None:
        """`may_write` is asked directly before a write is sent: a leader whose lease has expired sends nothing more."""
        self.access = access
        self._server = access.server
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=10)
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._headers = {"User-Agent": agent, **_HEADERS}
        self._wires = Wires(access, self._headers.items()) if access.proxy is None else None
        self._may_write = may_write

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=self._connections, ssl=self.access.ssl or False, keepalive_timeout=60)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),  # the API server sets none, and looking for them costs every request
        )
        # Else aiohttp itself sends a PUT or DELETE again when a connection that was used before is cut.
        self._session._retry_connection = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()
        if self._wires is not None:
            self._wires.close()

    async def get(self, path: str, params: Mapping[str, str] | None = None, accept: str = "") -> bytes:
        """What is there; `accept` asks for another form of it, as its metadata alone."""
        return await self.request("GET", path, params=params, accept=accept)

    async def request(  # noqa: PLR0913 - the parts of a request
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
        timeout: float | None = None,
        accept: str = "",
    ) -> bytes:
        """The body of a good answer. Nothing is sent twice, except once more after new credentials."""
        limit = self._timeout if timeout is None else aiohttp.ClientTimeout(total=timeout)
        form = [("Content-Type", content_type)] if body is not None else []
        if accept:
            form.append(("Accept", accept))
        target = f"{path}?{_encoded(tuple(params.items()))}" if params else path
        if not target.isascii() or not target.isprintable() or " " in target:
            raise ConfigError("an address of the API server was expected, found characters that no address has")
        check = _allow if method == "GET" or "dryRun" in (params or ()) else self._check
        try:
            if method != "GET" and self._wires is not None:
                seconds = limit.total or 0.0
                return await self._authorised(
                    partial(self._write, self._wires, method, target, form, body, seconds, check)
                )
            async with await self._open(method, target, form, body, limit, check) as response:
                return await response.read()
        except aiohttp.ClientResponseError as fault:
            raise _from_proxy(fault) from None
        except _NO_ANSWER as fault:
            raise await self._unreachable(fault) from fault

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str]) -> AsyncIterator[aiohttp.StreamReader]:
        """The body of an answer that has no end; whoever reads it watches the clock."""
        limit = aiohttp.ClientTimeout(total=None, sock_connect=10)
        try:
            async with await self._open("GET", f"{path}?{urlencode(params)}", [], None, limit, _allow) as response:
                yield response.content
        except aiohttp.ClientResponseError as fault:
            raise _from_proxy(fault) from None
        except _NO_ANSWER as fault:
            raise await self._unreachable(fault) from fault

    async def _authorised(self, send: Callable[[Headers], Awaitable[T]]) -> T:
        """What a request brings; sent once more where the server does not know our credentials any more."""
        try:
            return await send(await self.access.credentials.headers())
        except Unauthorized:
            self.access.credentials.forget()
            if self._wires is not None:
                self._wires.close()  # a new client certificate counts for new connections only
            return await send(await self.access.credentials.headers())

    def _check(self) -> None:
        if self._may_write is not None and not self._may_write():
            raise Unreachable("this process may not write now: it does not lead, or only observes")

    async def _write(  # noqa: PLR0913 - the parts of a request
        self,
        wires: Wires,
        method: str,
        target: str,
        form: Headers,
        body: bytes | None,
        seconds: float,
        check: Callable[[], None],
        who: Headers,
    ) -> bytes:
        answer = await wires.exchange(method, target, [*who, *form], body or b"", seconds, check)
        if answer.status < 300:
            return answer.body
        wait = answer.headers.get(b"retry-after", b"").decode("latin-1")
        raise from_status(answer.status, answer.body[:_MOST_ERROR_BODY], _seconds(wait))

    async def _open(
        self,
        method: str,
        target: str,
        form: Headers,
        body: bytes | None,
        limit: aiohttp.ClientTimeout,
        check: Callable[[], None],
    ) -> aiohttp.ClientResponse:
        """A good answer, not yet read; an error answer is raised."""
        # Our paths and values are legal as they are: quoting them anew would cost more than the request's body.
        url = URL(f"{self._server}{target}", encoded=True)

        async def send(who: Headers) -> aiohttp.ClientResponse:
            assert self._session is not None, "the client is used as a context manager"
            check()
            response = await self._session.request(
                method,
                url,
                data=body,
                headers=[*who, *form],
                timeout=limit,
                server_hostname=self.access.server_hostname,
                proxy=self.access.proxy,
                allow_redirects=False,
            )
            if response.status < 300:
                return response
            async with response:
                raise await _error(response)

        return await self._authorised(send)

    async def _unreachable(self, fault: BaseException) -> Unreachable:
        if isinstance(fault, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
            await asyncio.to_thread(self.access.reload_ca)
        return Unreachable(f"no answer from {self._server}: {_described(fault)}")


def _from_proxy(fault: aiohttp.ClientResponseError) -> Unreachable:
    """What a proxy answered. The fault itself names the proxy's address, with the password that may be in it."""
    return Unreachable(f"the proxy answered {fault.status} {fault.message}".rstrip())


def _allow() -> None:
    """To read writes nothing, and neither does a dry run: whoever only observes may ask, too."""


@lru_cache(maxsize=64)
def _encoded(params: tuple[tuple[str, str], ...]) -> str:
    return urlencode(params)


async def _error(response: aiohttp.ClientResponse) -> ApiError:
    try:
        async with asyncio.timeout(10):
            body = await _beginning(response.content)
    except (aiohttp.ClientError, TimeoutError):
        body = b""
    return from_status(response.status, body, _seconds(response.headers.get("Retry-After", "")))


def _seconds(text: str) -> float | None:
    return float(text) if text.isdecimal() else None


async def _beginning(content: aiohttp.StreamReader) -> bytes:
    """A body that may come in several pieces, as far as it is worth reading."""
    read = b""
    while len(read) < _MOST_ERROR_BODY and (chunk := await content.readany()):
        read += chunk
    return read[:_MOST_ERROR_BODY]


def _described(fault: BaseException) -> str:
    if isinstance(fault, TimeoutError):
        return "timed out"
    return str(fault).splitlines()[0][:200] if str(fault) else type(fault).__name__
