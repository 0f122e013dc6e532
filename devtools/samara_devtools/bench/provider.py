"""A secret manager on loopback that counts its reads. It serves the part of Vault's KV version 2 that Samara uses."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

MOUNT = "kv"
DELAY = 0.02
"""Seconds until an answer. Without a delay, no two reads would overlap."""


@dataclass(slots=True)
class Provider:
    editions: dict[str, int] = field(default_factory=dict)
    """By document. A missing document is in its first edition."""
    calls: list[tuple[float, str]] = field(default_factory=list)
    most_at_once: int = 0
    """The most reads that waited for their answers at the same time."""
    url: str = ""
    _in_flight: int = 0

    def reads(self, mark: int = 0) -> Counter[str]:
        """How often each document was read since the mark, an earlier length of `calls`."""
        return Counter(document for _, document in self.calls[mark:])

    def within(self, seconds: float, mark: int = 0) -> int:
        """How many reads there were since the mark, in this time from the first of them."""
        times = [at for at, _ in self.calls[mark:]]
        return sum(1 for at in times if at - times[0] <= seconds)

    def rotate(self, document: str) -> None:
        """Changes the value of a document."""
        self.editions[document] = self.editions.get(document, 0) + 1

    async def answer(self, request: web.Request) -> web.Response:
        document = request.match_info["document"]
        self.calls.append((time.time(), document))
        self._in_flight += 1
        self.most_at_once = max(self.most_at_once, self._in_flight)
        try:
            await asyncio.sleep(DELAY)
        finally:
            self._in_flight -= 1
        content = {"value": f"{document} {self.editions.get(document, 0)}"}
        return web.json_response({"data": {"data": content, "metadata": {"version": 1}}})


async def _token(request: web.Request) -> web.Response:
    return web.json_response({"data": {"ttl": 0, "renewable": False}})


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    manager = Provider()
    app = web.Application()
    app.router.add_get(f"/v1/{MOUNT}/data/{{document:.+}}", manager.answer)
    app.router.add_route("*", "/v1/auth/token/{what}", _token)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        manager.url = f"vault+http://127.0.0.1:{runner.addresses[0][1]}/{MOUNT}"
        yield manager
    finally:
        await runner.cleanup()
