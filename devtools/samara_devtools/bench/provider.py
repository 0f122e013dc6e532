"""A secret manager on loopback that counts its reads. It serves the part of Vault's KV version 2 that is read."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

MOUNT = "kv"
ANSWER = 0.02
"""Seconds that an answer takes. Without a delay, no two reads would overlap."""


@dataclass(slots=True)
class Provider:
    edition: dict[str, int] = field(default_factory=dict)
    """By document. A missing document is in its first edition."""
    calls: list[tuple[float, str]] = field(default_factory=list)
    most: int = 0
    """Reads that were waiting for their answers at once."""
    url: str = ""
    _now: int = 0

    def reads(self, mark: int = 0) -> Counter[str]:
        """How often each document was read since."""
        return Counter(document for _, document in self.calls[mark:])

    def within(self, seconds: float, mark: int = 0) -> int:
        """How many reads there were in this time from the first one on."""
        times = [at for at, _ in self.calls[mark:]]
        return sum(1 for at in times if at - times[0] <= seconds)

    def rotate(self, document: str) -> None:
        self.edition[document] = self.edition.get(document, 0) + 1

    async def answer(self, request: web.Request) -> web.Response:
        document = request.match_info["document"]
        self.calls.append((time.time(), document))
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await asyncio.sleep(ANSWER)
        finally:
            self._now -= 1
        held = {"value": f"{document} {self.edition.get(document, 0)}"}
        return web.json_response({"data": {"data": held, "metadata": {"version": 1}}})


async def _token(request: web.Request) -> web.Response:
    return web.json_response({"data": {"ttl": 0, "renewable": False}})


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    made = Provider()
    app = web.Application()
    app.router.add_get(f"/v1/{MOUNT}/data/{{document:.+}}", made.answer)
    app.router.add_route("*", "/v1/auth/token/{what}", _token)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        made.url = f"vault+http://127.0.0.1:{runner.addresses[0][1]}/{MOUNT}"
        yield made
    finally:
        await runner.cleanup()
