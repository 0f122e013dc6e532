"""A fault proxy between an operator and the API server: it terminates TLS on both sides and injects faults.

There are two kinds of rules. `on_request` applies a fault to a matching request: it is delayed, dropped, answered by
the proxy, or forwarded with its response lost, cut or edited. `on_event` applies a fault to a line of a watch: it is
dropped, doubled, delayed, replaced or cut. `cut`, `freeze` and `thaw` act on open watches. `faults.py` has the faults.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web
from tests.support.transports import until_closed
from yarl import URL

from samara_devtools.devcluster.certs import Authority, write_private

Json = dict[str, Any]
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host", "upgrade"})
_OWN = _HOP_BY_HOP | {"authorization"}
"""Headers that are not forwarded: the proxy has its own identity."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as a rule sees it."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    at: float
    token: str = ""

    @property
    def watch(self) -> bool:
        return self.query.get("watch") in ("1", "true")

    @property
    def parts(self) -> list[str]:
        """`/api/v1/namespaces/a/secrets/db` as [namespaces, a, secrets, db]."""
        parts = self.path.strip("/").split("/")
        return parts[2:] if parts[0] == "api" else parts[3:]

    @property
    def namespace(self) -> str:
        parts = self.parts
        return parts[1] if len(parts) > 2 and parts[0] == "namespaces" else ""

    @property
    def plural(self) -> str:
        parts = self.parts
        return parts[2] if self.namespace else (parts[0] if parts else "")

    @property
    def name(self) -> str:
        rest = self.parts[3:] if self.namespace else self.parts[1:]
        return rest[0] if rest else ""

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def lists(self) -> bool:
        """True for a list, including one that is streamed at the start of a watch."""
        initial = self.query.get("sendInitialEvents") == "true"
        return self.method == "GET" and not self.name and (initial or not self.watch)


When = Callable[[Seen], bool]
Fault = Callable[["Exchange"], Awaitable[web.StreamResponse]]
WhenEvent = Callable[[Seen, Json], bool]
EventFault = Callable[["Stream", bytes], Awaitable[list[bytes]]]


@dataclass(slots=True)
class Rule:
    """Skips the first `skip` matches and applies to the next `times` ones. `hits` counts the applications."""

    when: When
    fault: Fault
    times: int | None = None
    skip: int = 0
    hits: int = 0

    def takes(self, seen: Seen) -> bool:
        return _takes(self, self.when(seen))


@dataclass(slots=True)
class EventRule:
    when: WhenEvent
    fault: EventFault
    times: int | None = None
    skip: int = 0
    hits: int = 0

    def takes(self, seen: Seen, event: Json) -> bool:
        return _takes(self, self.when(seen, event))


def _takes(rule: Rule | EventRule, matches: bool) -> bool:
    if not matches or (rule.times is not None and rule.hits >= rule.times):
        return False
    if rule.skip > 0:
        rule.skip -= 1
        return False
    rule.hits += 1
    return True


@dataclass(slots=True)
class Exchange:
    """One request that passes through the proxy."""

    proxy: Proxy
    request: web.BaseRequest
    seen: Seen

    async def forward(self, edit: Callable[[bytes], bytes] | None = None) -> web.StreamResponse:
        async with self.proxy.send(self.request, self.seen) as upstream:
            if self.seen.watch and upstream.status == 200:
                return await self._stream(upstream)
            body = await upstream.read()
            return web.Response(body=edit(body) if edit else body, status=upstream.status, headers=headers_of(upstream))

    async def _stream(self, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=200, headers=headers_of(upstream))
        response.enable_chunked_encoding()
        await response.prepare(self.request)
        stream = Stream(self, response)
        self.proxy.streams.append(stream)
        try:
            await stream.pass_on(upstream.content)
        finally:
            self.proxy.streams.remove(stream)
        return response

    def abort(self) -> web.StreamResponse:
        """Resets the operator's connection."""
        if self.request.transport is not None:
            self.request.transport.abort()
        return web.Response(status=500)


class Stream:
    """One open watch."""

    def __init__(self, exchange: Exchange, response: web.StreamResponse) -> None:
        self.seen = exchange.seen
        self.proxy = exchange.proxy
        self.exchange = exchange
        self.response = response
        self.over = False

    async def pass_on(self, content: aiohttp.StreamReader) -> None:
        while not self.over:
            line = await _line(content)
            if not line:
                return
            for out in await self.proxy.edited(self, line):
                await self.proxy.thawed(self.seen.plural)
                await self.response.write(out)

    async def cut_after(self, part: bytes) -> None:
        """Sends a part of a line and then resets the connection."""
        await self.response.write(part)
        await asyncio.sleep(0.05)  # otherwise the reset overtakes the bytes
        self.end()

    def end(self) -> None:
        self.over = True
        self.exchange.abort()


async def _line(content: aiohttp.StreamReader) -> bytes:
    """A line of any length: `readline` gives up at 128 KiB."""
    parts = []
    while True:
        try:
            part = await content.readuntil(b"\n")
        except ValueError:
            part = await content.readany()
        parts.append(part)
        if not part or part.endswith(b"\n"):
            return b"".join(parts)


class Proxy:
    """Runs in its own thread. `upstream` may change at any time to another server of the same cluster."""

    def __init__(self, upstream: str, kubeconfig: Path, folder: Path) -> None:
        self.upstream = upstream
        self.url = ""
        self.seen: list[Seen] = []
        """Every request, in order."""
        self.streams: list[Stream] = []
        self.rules: list[Rule] = []
        self.event_rules: list[EventRule] = []
        self._frozen: dict[str, asyncio.Event] = {}
        self._folder = folder
        self._client = client_context(kubeconfig, folder)
        self._authority = Authority()
        self._server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._present_certificate()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        self._session: aiohttp.ClientSession | None = None
        self._started = threading.Event()
        self._stop = asyncio.Event()

    # for tests

    def on_request(self, when: When, fault: Fault, times: int | None = None, skip: int = 0) -> Rule:
        rule = Rule(when, fault, times, skip)
        self.rules = [*self.rules, rule]
        return rule

    def on_event(self, when: WhenEvent, fault: EventFault, times: int | None = None, skip: int = 0) -> EventRule:
        rule = EventRule(when, fault, times, skip)
        self.event_rules = [*self.event_rules, rule]
        return rule

    def clear(self) -> None:
        """Removes all rules and thaws all watches."""
        self.rules, self.event_rules = [], []
        for plural in list(self._frozen):
            self.thaw(plural)

    def cut(self, plural: str) -> int:
        """Resets the open watches of a kind and returns their number."""
        streams = [stream for stream in self.streams if stream.seen.plural == plural]
        for stream in streams:
            self._loop.call_soon_threadsafe(stream.end)
        return len(streams)

    def freeze(self, plural: str) -> None:
        """Delivers no more bytes of the watches of this kind. Their connections stay open."""
        self._frozen.setdefault(plural, asyncio.Event())

    def thaw(self, plural: str) -> None:
        event = self._frozen.pop(plural, None)
        if event is not None:
            self._loop.call_soon_threadsafe(event.set)

    def rotate(self) -> None:
        """Presents a certificate of another authority to new connections and resets the open ones."""
        self._authority = Authority()
        self._present_certificate()
        self._loop.call_soon_threadsafe(self._reset_all)

    @property
    def authority(self) -> bytes:
        """The certificate that clients of the proxy must trust."""
        return self._authority.certificate

    def requests(self, when: When = lambda seen: True) -> list[Seen]:
        return [seen for seen in list(self.seen) if when(seen)]

    def kubeconfig(self) -> Path:
        """A kubeconfig with the address and the certificate of the proxy."""
        ca = base64.b64encode(self._authority.certificate).decode()
        cluster = {"server": self.url, "certificate-authority-data": ca}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxied", "cluster": cluster}],
            "users": [{"name": "proxied", "user": {}}],
            "contexts": [{"name": "proxied", "context": {"cluster": "proxied", "user": "proxied"}}],
            "current-context": "proxied",
        }
        return write_private(self._folder / f"proxy-{id(self)}.kubeconfig", yaml.safe_dump(document).encode())

    # the thread

    def start(self) -> Proxy:
        self._thread.start()
        assert self._started.wait(10), "the fault proxy did not start"
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive(), "the fault proxy did not end"

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._client)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as self._session:
            self._web = web.Server(self._handle, handler_cancellation=True)
            runner = web.ServerRunner(self._web, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._server)
            await site.start()
            address: tuple[str, int] = runner.addresses[0]
            self.url = f"https://127.0.0.1:{address[1]}"
            self._started.set()
            await self._stop.wait()
            await runner.cleanup()
        await until_closed()  # aborted connections are closed in later iterations of the event loop

    def _reset_all(self) -> None:
        for connection in self._web.connections:
            if connection.transport is not None:
                connection.transport.abort()

    def _present_certificate(self) -> None:
        pair = self._authority.server("10.96.0.1")
        certificate = write_private(self._folder / f"proxy-{id(self)}.crt", pair.certificate)
        key = write_private(self._folder / f"proxy-{id(self)}.key", pair.key)
        self._server.load_cert_chain(certificate, key)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        content = await request.read()
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        seen = Seen(request.method, request.path, dict(request.query), content, time.monotonic(), token)
        self.seen.append(seen)
        exchange = Exchange(self, request, seen)
        rule = next((rule for rule in self.rules if rule.takes(seen)), None)
        try:
            return await (rule.fault(exchange) if rule is not None else exchange.forward())
        except (aiohttp.ClientError, OSError):
            return exchange.abort()  # the server or the operator is away: break the connection

    def send(self, request: web.BaseRequest, seen: Seen) -> aiohttp.client._RequestContextManager:
        assert self._session is not None
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _OWN}
        url = URL(f"{self.upstream}{request.raw_path}", encoded=True)
        if seen.query != dict(request.query):  # a rule has changed the query
            url = url.with_query(seen.query)
        return self._session.request(seen.method, url, data=seen.body or None, headers=headers, allow_redirects=False)

    async def edited(self, stream: Stream, line: bytes) -> list[bytes]:
        rules = self.event_rules
        if not rules:
            return [line]
        event: Json = json.loads(line)
        rule = next((rule for rule in rules if rule.takes(stream.seen, event)), None)
        return [line] if rule is None else await rule.fault(stream, line)

    async def thawed(self, plural: str) -> None:
        while (event := self._frozen.get(plural)) is not None:
            await event.wait()


def headers_of(upstream: aiohttp.ClientResponse) -> dict[str, str]:
    return {key: value for key, value in upstream.headers.items() if key.lower() not in _HOP_BY_HOP}


def client_context(kubeconfig: Path, folder: Path) -> ssl.SSLContext:
    """A TLS context with the identity in this kubeconfig."""
    config = yaml.safe_load(kubeconfig.read_text())
    user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
    number = next(_numbers)
    files = [
        write_private(folder / f"proxy-identity-{number}-{part}", base64.b64decode(user[part]))
        for part in ("client-certificate-data", "client-key-data")
    ]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    context.load_cert_chain(files[0], files[1])
    return context


_numbers = itertools.count(1)
