"""Requests to the API server. Each has a timeout, and every error is one of `errors.py`."""

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

import aiohttp
from yarl import URL

from samara import __version__
from samara.core.model import FIELD_MANAGER, Kind, Ref
from samara.core.names import is_path_segment
from samara.kube.auth import Access
from samara.kube.auth.credentials import Headers
from samara.kube.errors import ApiError, InvalidName, Unauthorized, Unreachable, from_status
from samara.kube.transport import CONNECT_TIMEOUT, MAX_IDLE, Transport

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
METADATA = f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_MAX_ERROR_BODY = 65_536
_MAX_SHOWN = 100
AGENT = f"samara/{__version__}"
_HEADERS = {
    "Accept": JSON,
    "Accept-Encoding": "identity",  # decompressing costs more CPU than decoding the JSON
}
_NO_ANSWER = (aiohttp.ClientError, OSError, TimeoutError)
T = TypeVar("T")
Params = dict[str, str]
OUR_WRITES: Params = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Ignore"}
"""The parameters of our writes. Field validation would make the API server decode the body twice, which is 7 % of its
CPU for a write as measured. It would add only warnings, which the operator does not read."""
PRESERVED_WRITES: Params = {**OUR_WRITES, "fieldManager": f"{FIELD_MANAGER}-for-others"}
"""For fields that Samara sets but must not remove again. In managedFields they have this other field manager."""

_NEEDS_NO_QUOTING = re.compile(r"[A-Za-z0-9._:-]+").fullmatch
# Matches segments as `segment` writes them, without %2E, %2F, %25 and encoded control characters: the API server
# decodes a path before it splits it, so `victim%2Fsecrets%2Fdb` would be three segments.
_IS_PATH = re.compile(
    r"(?:/(?!\.\.?(?:/|\Z))(?:[A-Za-z0-9._:~!$&'()*+,;=@-]|%(?!2[5EFef]|[01]|7[Ff])[0-9A-Fa-f]{2})+)+"
).fullmatch


def segment(name: str) -> str:
    """A name as one segment of a path. Raises for a name that no object can have: users write names into references,
    and a name with a slash would address another object."""
    if _NEEDS_NO_QUOTING(name) and name not in (".", ".."):
        return name
    if not is_path_segment(name):
        raise InvalidName(f"expected the name of an object, found {name[:_MAX_SHOWN]!r}")
    return quote(name, safe="")


def collection(kind: Kind, namespace: str = "") -> str:
    """The path of a kind's objects, in one namespace or in all."""
    version, plural = segment(kind.version), segment(kind.plural)
    root = f"/apis/{segment(kind.group)}/{version}" if kind.group else f"/api/{version}"
    return f"{root}/namespaces/{segment(namespace)}/{plural}" if namespace else f"{root}/{plural}"


def address(ref: Ref, subresource: str = "") -> str:
    """The path of one object, or of its subresource."""
    path = f"{collection(ref.kind, ref.namespace)}/{segment(ref.name)}"
    return f"{path}/{segment(subresource)}" if subresource else path


def unrestricted() -> bool:
    """Always true: the `may_write` of commands, and of clients that every replica writes with, such as the Lease's."""
    return True


class Client:
    """A session with one API server. Reads and watches go through aiohttp, writes through `Transport` unless there is a
    proxy."""

    def __init__(
        self,
        access: Access,
        timeout: float = 30.0,
        connections: int = 64,
        agent: str = AGENT,
        *,
        may_write: Callable[[], bool],
    ) -> None:
        """`may_write` is called directly before a write is sent, so that a leader whose lease has expired sends none.
        Pass `unrestricted` if the client needs no lease."""
        self.access = access
        self._server = access.server
        self._timeout = timeout
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._headers = {"User-Agent": agent, **_HEADERS}
        self._transport = Transport(access, self._headers.items()) if access.proxy is None else None
        self._may_write = may_write

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            limit=self._connections, ssl=self.access.ssl or False, keepalive_timeout=MAX_IDLE
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),  # the API server sets none, and the lookup costs time in every request
        )
        # By default aiohttp repeats a PUT or DELETE by itself if a reused connection is cut.
        self._session._retry_connection = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()
        if self._transport is not None:
            self._transport.close()

    async def get(self, path: str, params: Mapping[str, str] | None = None, accept: str = "") -> bytes:
        """Reads an object or a list. `accept` asks for another form, such as `METADATA`."""
        return await self.request("GET", path, params=params, accept=accept)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
        accept: str = "",
    ) -> bytes:
        """Sends a request and returns the body of the answer. Sends nothing twice, except once more after a 401."""
        headers = [("Content-Type", content_type)] if body is not None else []
        if accept:
            headers.append(("Accept", accept))
        target = _target(path, params)
        check = _do_not_check if method == "GET" or "dryRun" in (params or ()) else self._check_may_write
        try:
            if method != "GET" and self._transport is not None:
                write = partial(self._write, self._transport, method, target, headers, body, check)
                return await self._authorised(write)
            async with await self._open(method, target, headers, body, self._timeout, check) as response:
                return await response.read()
        except aiohttp.ClientResponseError as fault:
            raise _from_proxy(fault) from None
        except _NO_ANSWER as fault:
            raise await self._unreachable(fault) from fault

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str]) -> AsyncIterator[aiohttp.StreamReader]:
        """Opens a watch and yields its body. The caller must set time limits while it reads."""
        target = _target(path, params)
        try:
            async with await self._open("GET", target, [], None, None, _do_not_check) as response:
                yield response.content
        except aiohttp.ClientResponseError as fault:
            raise _from_proxy(fault) from None
        except _NO_ANSWER as fault:
            raise await self._unreachable(fault) from fault

    async def _authorised(self, send: Callable[[Headers], Awaitable[T]]) -> T:
        """Sends a request with credentials. After a 401 it renews them and sends once more."""
        try:
            return await send(await self.access.credentials.headers())
        except Unauthorized:
            self.access.credentials.forget()
            if self._transport is not None:
                self._transport.close()  # only new connections present a new client certificate
            return await send(await self.access.credentials.headers())

    def _check_may_write(self) -> None:
        if not self._may_write():
            raise Unreachable("this process may not write now: it does not lead, or only observes")

    async def _write(  # noqa: PLR0913 - the parts of a request
        self,
        transport: Transport,
        method: str,
        target: str,
        headers: Headers,
        body: bytes | None,
        check: Callable[[], None],
        credentials: Headers,
    ) -> bytes:
        answer = await transport.exchange(method, target, [*credentials, *headers], body or b"", self._timeout, check)
        if answer.status < 300:
            return answer.body
        retry_after = answer.headers.get(b"retry-after", b"").decode("latin-1")
        raise from_status(answer.status, answer.body[:_MAX_ERROR_BODY], _seconds(retry_after))

    async def _open(
        self,
        method: str,
        target: str,
        headers: Headers,
        body: bytes | None,
        seconds: float | None,
        check: Callable[[], None],
    ) -> aiohttp.ClientResponse:
        """The response, with its body still to read. Raises for an error status. `seconds` is the time limit for all of
        it; None limits only the time to connect."""
        # `target` is quoted already, and quoting it again would cost more than sending the body.
        url = URL(f"{self._server}{target}", encoded=True)
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_TIMEOUT)

        async def send(credentials: Headers) -> aiohttp.ClientResponse:
            assert self._session is not None, "the client is used as a context manager"
            check()
            response = await self._session.request(
                method,
                url,
                data=body,
                headers=[*credentials, *headers],
                timeout=timeout,
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
        return Unreachable(f"no answer from {self._server}: {_describe(fault)}")


def _from_proxy(fault: aiohttp.ClientResponseError) -> Unreachable:
    """The error without the address of the proxy, which may hold a password."""
    return Unreachable(f"the proxy answered {fault.status} {fault.message}".rstrip())


def _do_not_check() -> None:
    """The check of reads and dry runs: they change nothing, so a standby and an observer may send them too."""


def _target(path: str, params: Mapping[str, str] | None) -> str:
    """The path and the query of a request. It checks the path, because not only `collection` builds paths."""
    if not _IS_PATH(path):
        raise InvalidName(f"expected a path of the API server, found {path[:_MAX_SHOWN]!r}")
    return f"{path}?{_encoded(tuple(params.items()))}" if params else path


@lru_cache(maxsize=64)
def _encoded(params: tuple[tuple[str, str], ...]) -> str:
    return urlencode(params)


async def _error(response: aiohttp.ClientResponse) -> ApiError:
    try:
        async with asyncio.timeout(10):
            body = await _read_beginning(response.content)
    except (aiohttp.ClientError, TimeoutError):
        body = b""
    return from_status(response.status, body, _seconds(response.headers.get("Retry-After", "")))


def _seconds(text: str) -> float | None:
    return float(text) if text.isdecimal() else None


async def _read_beginning(content: aiohttp.StreamReader) -> bytes:
    """Reads at most `_MAX_ERROR_BODY` bytes of a body, which may arrive in several pieces."""
    read = b""
    while len(read) < _MAX_ERROR_BODY and (chunk := await content.readany()):
        read += chunk
    return read[:_MAX_ERROR_BODY]


def _describe(fault: BaseException) -> str:
    if isinstance(fault, TimeoutError):
        return "timed out"
    return str(fault).splitlines()[0][:200] if str(fault) else type(fault).__name__
