"""The HTTP server of /healthz, /readyz, /syncz and /metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from samara import log
from samara.kube.errors import ConfigError
from samara.web.health import Health
from samara.web.metrics import MetricsPage

Answer = Callable[[], tuple[bool, dict[str, Any]]]


def split_address(address: str) -> tuple[str | None, int]:
    """Splits `:8080` or `127.0.0.1:8080`. Without a host the server listens on every interface."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"expected host:port or :port, found {address!r}")
    return host.strip("[]") or None, int(port)


@asynccontextmanager
async def serving(address: str, health: Health, metrics: MetricsPage) -> AsyncIterator[None]:
    """Answers requests inside the context. The operator enters it first and leaves it last."""
    app = web.Application()
    app.router.add_get("/healthz", _json(health.live))
    app.router.add_get("/readyz", _json(health.ready))
    app.router.add_get("/syncz", _json(health.synced))
    app.router.add_get("/metrics", _page(metrics))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await _listen(runner, address)
        yield
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, address: str) -> None:
    host, port = split_address(address)
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as fault:
        raise ConfigError(
            f"cannot listen on {address}: {fault.strerror or fault}; choose another --http-address"
        ) from fault
    chosen = runner.addresses[0][1]  # for port 0 the system chooses a free port
    log.info("http.listening", address=address if port else f"{host or ''}:{chosen}")


def _json(answer: Answer) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def respond(request: web.Request) -> web.StreamResponse:
        is_ok, report = answer()
        return web.json_response(report, status=200 if is_ok else 503)

    return respond


def _page(metrics: MetricsPage) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def respond(request: web.Request) -> web.StreamResponse:
        return web.Response(body=metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    return respond
