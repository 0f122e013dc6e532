"""The HTTP server of /healthz, /readyz, /syncz and /metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from samara import log
from samara.web.health import Health
from samara.web.listener import Handler, Limits, listening, split_address
from samara.web.metrics import MetricsPage

Answer = Callable[[], tuple[bool, dict[str, Any]]]


@asynccontextmanager
async def serving(address: str, health: Health, metrics: MetricsPage) -> AsyncIterator[None]:
    """Answers requests inside the context. The operator enters it first and leaves it last."""
    routes = {
        ("GET", "/healthz"): _json(health.live),
        ("GET", "/readyz"): _json(health.ready),
        ("GET", "/syncz"): _json(health.synced),
        ("GET", "/metrics"): _page(metrics),
    }
    async with listening(address, "--http-address", routes, Limits()) as chosen:
        host, port = split_address(address)  # for port 0 the system chooses a free port
        log.info("http.listening", address=address if port else f"{host or ''}:{chosen}")
        yield


def _json(answer: Answer) -> Handler:
    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        is_ok, report = answer()
        return web.json_response(report, status=200 if is_ok else 503)

    return respond


def _page(metrics: MetricsPage) -> Handler:
    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(
            body=metrics.recent_text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    return respond
