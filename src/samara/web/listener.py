"""Serves HTTP on one port with limits on connections and on time. Any pod may connect, and may send half a request.

Each connection has a deadline at every moment: for the TLS handshake, for the head of a request, for the rest of it and
its answer, and for being idle. aiohttp has only the last one.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

from aiohttp import web

from samara.kube.errors import ConfigError

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Routes = Mapping[tuple[str, str], Handler]
"""By method and path. A GET route answers HEAD as well."""
_MAX_HEADERS = 40
_BUFFERED = 2**16
"""Bytes of a request's body that a connection buffers."""
_LINGERING = 1.0
"""Seconds for which the rest of a refused body is read, so that the client reads the answer before a reset."""
_PIECE = 2**16
"""Bytes of an answer that are sent at a time. As many may wait in the transport for a client that does not read."""
_BACKLOG = 128
_ACCEPT_AGAIN = 0.5
"""Seconds until the next attempt if no connection could be accepted, for example because no file can be opened."""
_GRACE = 5.0
"""Seconds for which an idle connection may take to close."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one port. Times are in seconds."""

    connections: int = 64
    """Most open connections. One more closes one that has not got an answer yet, if there are any: the oldest one of
    the client address that has the most of them."""
    handshake: float = 5.0
    head: float = 5.0
    """From the connection, or from the first byte on an idle one, until the head of a request is complete."""
    answer: float = 10.0
    """From there until the answer is sent. This includes the body of the request."""
    idle: float = 60.0
    """Between two requests."""
    shutdown: float = 2.0
    """For the answers under way when the port closes."""


def split_address(address: str) -> tuple[str | None, int]:
    """Splits `:8080` or `127.0.0.1:8080`. Without a host the server listens on every interface."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"expected host:port or :port, found {address!r}")
    return host.strip("[]") or None, int(port)


async def send_in_pieces(
    request: web.BaseRequest, answer: bytes, content_type: str, seconds: float
) -> web.StreamResponse:
    """Sends an answer as fast as the client reads it, in so many seconds at most. On return the transport has at most
    `_PIECE` bytes of it."""
    assert isinstance(request.protocol, _Connection)
    request.protocol.expect_within(seconds)
    response = web.StreamResponse(headers={"Content-Type": content_type, "Content-Length": str(len(answer))})
    last = max(0, len(answer) - 1) // _PIECE * _PIECE
    with suppress(ConnectionError):  # the client has gone, or has not read in time
        await response.prepare(request)
        for start in range(0, last, _PIECE):
            await response.write(answer[start : start + _PIECE])
        await response.write_eof(answer[last:])  # unlike `write`, this always waits for room in the transport
    return response


@asynccontextmanager
async def listening(
    address: str, flag: str, routes: Routes, limits: Limits, context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Answers requests inside the context, and yields the port. `flag` is the option that sets the address."""
    host, port = split_address(address)
    try:
        sockets = await _bound(host, port)
    except OSError as fault:
        reason = fault.strerror or fault
        raise ConfigError(f"cannot listen on {address}: {reason}; choose another {flag}") from fault
    gate = _Gate(_Server(_routed(routes), limits), limits, context)
    accepting = [asyncio.create_task(gate.accept(listener)) for listener in sockets]
    try:
        yield sockets[0].getsockname()[1]
    finally:
        for task in accepting:
            task.cancel()
        await asyncio.gather(*accepting, return_exceptions=True)
        for listener in sockets:
            listener.close()
        await gate.close()


async def _bound(host: str | None, port: int) -> list[socket.socket]:
    """Listening sockets for every address of the host."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, target in dict.fromkeys(found):
            try:
                listener = socket.socket(family, kind, protocol)
            except OSError:  # this machine has no IPv6
                continue
            sockets.append(listener)
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(target)
            listener.listen(_BACKLOG)
        if not sockets:
            raise OSError(f"no address of {host or 'this machine'} can be used")
    except BaseException:
        for listener in sockets:
            listener.close()
        raise
    return sockets


class _Gate:
    """Accepts connections. One task serves each of them, from the handshake until it is closed."""

    def __init__(self, server: _Server, limits: Limits, context: ssl.SSLContext | None) -> None:
        self._server = server
        self._limits = limits
        self._context = context
        self._open: dict[asyncio.Task[None], _Connection] = {}
        """By task, the oldest first."""

    async def accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(_ACCEPT_AGAIN)
                continue
            self._make_room()
            connection = self._server.connection(str(peer[0]))
            task = asyncio.create_task(self._serve(accepted, connection))
            self._open[task] = connection
            task.add_done_callback(self._open.pop)

    def _make_room(self) -> None:
        """Closes one connection if there are too many. A client that opens many displaces only its own. Many clients
        that open one each displace none that has got an answer: the API server may be the client with the most."""
        if len(self._open) >= self._limits.connections:
            unserved = {task: connection for task, connection in self._open.items() if not connection.has_served}
            candidates = unserved or self._open
            crowded = Counter(connection.peer for connection in candidates.values()).most_common(1)[0][0]
            oldest = next(task for task, connection in candidates.items() if connection.peer == crowded)
            oldest.cancel()
            del self._open[oldest]
            oldest.remove_done_callback(self._open.pop)

    async def _serve(self, accepted: socket.socket, connection: _Connection) -> None:
        seconds = self._limits.handshake if self._context is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=self._context, ssl_handshake_timeout=seconds
            )
            await connection.closed
        except OSError:  # the handshake failed or took too long
            pass
        finally:
            connection.abort()

    async def close(self) -> None:
        """Lets the answers under way finish, and closes all connections."""
        self._server.pre_shutdown()
        await self._server.shutdown(self._limits.shutdown)
        tasks = tuple(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Server(web.Server):
    def __init__(self, handler: Handler, limits: Limits) -> None:
        async def answered(request: web.BaseRequest) -> web.StreamResponse:
            assert isinstance(request.protocol, _Connection)
            request.protocol.expect_within(limits.answer)
            # aiohttp starts a handler at once. One that awaits nothing would keep the event loop, also from the
            # deadlines, for as long as a client has sent the next request before the answer to the last one.
            await asyncio.sleep(0)
            try:
                return await handler(request)
            except asyncio.CancelledError:  # a normal close would first send what the client has not read
                request.protocol.abort()
                raise

        super().__init__(answered)
        self._limits = limits

    def connection(self, peer: str) -> _Connection:
        return _Connection(
            self,
            peer,
            self._limits,
            loop=asyncio.get_running_loop(),
            access_log=None,
            keepalive_timeout=self._limits.idle,
            max_headers=_MAX_HEADERS,
            lingering_time=_LINGERING,
            read_bufsize=_BUFFERED,
            auto_decompress=False,
        )


class _Connection(web.RequestHandler):
    """A connection that is cut when its deadline passes."""

    def __init__(
        self, server: _Server, peer: str, limits: Limits, *, loop: asyncio.AbstractEventLoop, **options: Any
    ) -> None:
        super().__init__(server, loop=loop, **options)
        self.peer = peer
        """The client's address."""
        self.has_served = False
        """True once a request was answered without an error."""
        self._limits = limits
        self._open_transport: asyncio.Transport | None = None
        """The base class forgets its transport when it begins to close it, which a client can delay."""
        self._deadline: asyncio.TimerHandle | None = None
        self._is_idle = False
        self.closed: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._open_transport = cast(asyncio.Transport, transport)  # uvloop's class does not inherit from it
        self._open_transport.set_write_buffer_limits(_PIECE)  # with TLS the default is half a megabyte
        self.expect_within(self._limits.head)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._is_idle:
            self._is_idle = False
            self.expect_within(self._limits.head)
        super().data_received(data)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Sends the answer. After it the connection is idle."""
        sent = await super().finish_response(request, resp, start_time)
        self._is_idle = True
        self.has_served = self.has_served or sent[0].status < 400
        self.expect_within(self._limits.idle + _GRACE)
        return sent

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._open_transport = None
        super().connection_lost(exc)
        if not self.closed.done():
            self.closed.set_result(None)

    def expect_within(self, seconds: float) -> None:
        """Sets the deadline: the connection is cut unless this is called again, or the connection closes, in time."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.call_later(seconds, self.abort) if self._open_transport is not None else None

    def abort(self) -> None:
        """Closes the connection without waiting for the client."""
        if self._open_transport is not None:
            self._open_transport.abort()


def _routed(routes: Routes) -> Handler:
    paths = {path for _, path in routes}

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        handler = routes.get(("GET" if request.method == "HEAD" else request.method, request.path))
        if handler is not None:
            return await handler(request)
        if request.path not in paths:
            raise web.HTTPNotFound
        raise web.HTTPMethodNotAllowed(request.method, [method for method, path in routes if path == request.path])

    return respond
