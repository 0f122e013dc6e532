"""A server on loopback with scripted answers, for faults that a real API server does not produce."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from samara.kube.auth import Access
from samara.kube.auth.credentials import Credentials, Fixed

PATIENCE = 30.0


@dataclass(frozen=True)
class Seen:
    """One received request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = field(repr=False)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Script:
    """Answers requests one after the other, and repeats the last answer."""

    answers: list[Answer]
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Gated answers wait for it, so that a test can check the state before the answer."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server stops. It ends answers that would never end."""

    async def respond(self, request: web.Request) -> web.StreamResponse:
        answer = self.answers[min(len(self.seen), len(self.answers) - 1)]
        body = await request.read()
        self.seen.append(Seen(request.method, request.path, dict(request.query), dict(request.headers), body))
        self.news.set()
        return await answer(request)

    async def until(self, true: Callable[[], bool]) -> None:
        """Waits for requests until a condition is true."""
        async with asyncio.timeout(PATIENCE):
            while not true():
                self.news.clear()
                await self.news.wait()


SCRIPT = web.AppKey("script", Script)


@asynccontextmanager
async def serving(*answers: Answer) -> AsyncIterator[Script]:
    script = Script(list(answers))
    app = web.Application(client_max_size=8 * 2**20)
    app[SCRIPT] = script
    app.router.add_route("*", "/{path:.*}", script.respond)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    script.url = f"http://{host}:{port}"
    try:
        yield script
    finally:
        script.over.set()
        await runner.cleanup()


def access(script: Script, credentials: Credentials | None = None) -> Access:
    return Access(script.url, "samara", None, None, None, credentials or Fixed(), "test")


def says(body: object, status: int = 200, **headers: str) -> Answer:
    """An answer with JSON, or with these bytes."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=sent, status=status, content_type="application/json", headers=named)

    return answer


def refuses(status: int, reason: str = "", message: str = "", **details: object) -> Answer:
    status_body: dict[str, object] = {"kind": "Status", "code": status, "reason": reason, "message": message}
    return says({**status_body, "details": details} if details else status_body, status)


def streams(*events: object, end: str = "stays") -> Answer:
    """A watch: each event is a dict or raw bytes. Then it `stays` open, `ends`, or is `cut`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for event in events:
            await response.write(event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n")
        if end == "stays":
            await request.app[SCRIPT].over.wait()
        if end == "cut":
            cut(request)
        return response

    return answer


def gated(answer: Answer) -> Answer:
    """An answer that waits until the test lets it continue."""

    async def later(request: web.Request) -> web.StreamResponse:
        await request.app[SCRIPT].gate.wait()
        return await answer(request)

    return later


def cut(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()


async def cuts(request: web.Request) -> web.StreamResponse:
    """Takes the request and closes the connection without an answer."""
    cut(request)
    return web.Response()


async def hangs(request: web.Request) -> web.StreamResponse:
    """Takes the request and never answers."""
    await request.app[SCRIPT].over.wait()
    return web.Response(status=500)


class Store:
    """A minimal API server: objects by path, with versions, conflicts and not-founds."""

    def __init__(self, objects: Iterable[tuple[str, dict[str, Any]]] = ()) -> None:
        self.objects = dict(objects)
        self.version = 100

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request.method, request.path, await request.read())(request)

    def _answer(self, method: str, path: str, body: bytes) -> Answer:
        if method == "POST":
            sent = json.loads(body)
            return self._create(f"{path}/{sent['metadata']['name']}", sent)
        stored = self.objects.get(path)
        if stored is None:
            return refuses(404, "NotFound", f"{path} not found")
        if method == "GET":
            return says(stored)
        sent = json.loads(body)
        expected = sent.get("metadata", {}).get("resourceVersion")
        if expected is not None and expected != stored["metadata"]["resourceVersion"]:
            return refuses(409, "Conflict", "the object has been modified")
        return self.write(path, merged(stored, sent) if method == "PATCH" else {**stored, **sent})

    def _create(self, path: str, sent: dict[str, Any]) -> Answer:
        if path in self.objects:
            return refuses(409, "AlreadyExists", f"{path} already exists")
        return self.write(path, sent)

    def write(self, path: str, sent: dict[str, Any]) -> Answer:
        self.version += 1
        meta = {**sent.get("metadata", {}), "resourceVersion": str(self.version)}
        self.objects[path] = {**sent, "metadata": meta}
        return says(self.objects[path])


def merged(stored: Any, patch: Any) -> Any:
    """Merges as the server does: null removes a key, and other keys stay."""
    if not isinstance(patch, dict):
        return patch
    before = stored if isinstance(stored, dict) else {}
    after = {**before, **{key: merged(before.get(key), value) for key, value in patch.items()}}
    return {key: value for key, value in after.items() if value is not None}
