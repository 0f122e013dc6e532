"""The bare client: an aiohttp session with the connection settings of `samara.kube.client`, and nothing else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
from yarl import URL

from samara.kube.auth import load

T = TypeVar("T")
JSON = "application/json"
TIMEOUT = 60.0
"""Seconds."""
CONNECTIONS = 64

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class BareError(Exception):
    """The server gave an answer with which the benchmark cannot continue."""


class Bare:
    """One session with the server, for the benchmark's own requests and for the bare loop."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self._session = session
        self._base = URL(server)

    async def send(self, method: str, path: str, body: bytes | None = None, content_type: str = JSON) -> bytes:
        headers = {"Content-Type": content_type} if body else {}
        url = self._base.joinpath(path.lstrip("/"), encoded=True)
        async with self._session.request(method, url, data=body, headers=headers) as response:
            answer = await response.read()
            if response.status >= 300:
                raise BareError(f"{method} {path}: {response.status} {answer[:300].decode(errors='replace')}")
            return answer

    async def get(self, path: str, **params: str) -> Any:
        url = self._base.joinpath(path.lstrip("/"), encoded=True).with_query(params)
        async with self._session.get(url) as response:
            if response.status >= 300:
                raise BareError(f"GET {path}: {response.status}")
            return decode(await response.read())

    @asynccontextmanager
    async def watching(self, path: str) -> AsyncIterator[None]:
        """Keeps a watch open and reads its events."""
        url = self._base.joinpath(path.lstrip("/"), encoded=True)
        version = str((await self.get(path, limit="1"))["metadata"]["resourceVersion"])
        task = asyncio.create_task(self._read_watch(url.with_query(watch="1", resourceVersion=version)))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _read_watch(self, url: URL) -> None:
        no_timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        async with self._session.get(url, timeout=no_timeout) as response:
            while await response.content.readany():
                pass


@asynccontextmanager
async def open_client(kubeconfig: Path, agent: str) -> AsyncIterator[Bare]:
    access = load(str(kubeconfig), None, None, None, os.environ, Path.home())
    connector = aiohttp.TCPConnector(limit=CONNECTIONS, ssl=access.ssl or False, keepalive_timeout=60)
    headers = {"User-Agent": agent, "Accept": JSON, "Accept-Encoding": "identity"}
    timeout = aiohttp.ClientTimeout(total=TIMEOUT, sock_connect=10)
    async with aiohttp.ClientSession(
        connector=connector, headers=headers, timeout=timeout, auto_decompress=False
    ) as session:
        yield Bare(session, access.server)


async def spread(items: Iterable[T], workers: int, do: Callable[[T], Awaitable[object]]) -> None:
    """Calls `do` for every item, with this many calls at a time."""
    remaining = iter(items)

    async def work() -> None:
        for item in remaining:
            await do(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())
