"""What the fault proxy can do to a request or to one line of a watch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aiohttp import web
from tests.cluster.support.proxy import EventFault, Exchange, Fault, Seen, Stream, When, headers_of

Json = dict[str, Any]


def every_nth(number: int, when: When) -> When:
    """Selects every so many of the requests that `when` selects."""
    matched = 0

    def selects(seen: Seen) -> bool:
        nonlocal matched
        matches = when(seen)
        matched += matches
        return matches and matched % number == 0

    return selects


# faults of a request


def delayed(seconds: float) -> Fault:
    async def fault(exchange: Exchange) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await exchange.forward()

    return fault


async def dropped(exchange: Exchange) -> web.StreamResponse:
    """Resets the connection before the server receives the request."""
    return exchange.abort()


async def answer_lost(exchange: Exchange) -> web.StreamResponse:
    """Forwards the request and resets the connection before the response arrives."""
    await exchange.forward()
    return exchange.abort()


def held(gate: str, then: Fault | None = None) -> Fault:
    """Waits while `gate` is frozen, then forwards the request, or applies another fault: `proxy.freeze(gate)` first."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        await exchange.proxy.thawed(gate)
        return await (exchange.forward() if then is None else then(exchange))

    return fault


def asking(**query: str) -> Fault:
    """Forwards the request with other query parameters, such as a smaller page size."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        changed = replace(exchange.seen, query={**exchange.seen.query, **query})
        return await Exchange(exchange.proxy, exchange.request, changed).forward()

    return fault


async def recycled(exchange: Exchange) -> web.StreamResponse:
    """Closes the connection after the response: the HTTP/1.1 equivalent of GOAWAY."""
    response = await exchange.forward()
    response.force_close()
    return response


async def stalled(exchange: Exchange) -> web.StreamResponse:
    """Never responds. The connection stays open until the proxy ends or the operator gives up."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def stalled_after(exchange: Exchange) -> web.StreamResponse:
    """Forwards the request and never responds."""
    await exchange.forward()
    return await stalled(exchange)


def cut_short(size: int) -> Fault:
    """Sends the headers and the first bytes of the response, then resets the connection."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        async with exchange.proxy.send(exchange.request, exchange.seen) as upstream:
            content = await upstream.read()
            response = web.StreamResponse(status=upstream.status, headers=headers_of(upstream))
            response.content_length = len(content)
            await response.prepare(exchange.request)
            await response.write(content[:size])
            await asyncio.sleep(0.05)
            exchange.abort()
            return response

    return fault


def answered(code: int, reason: str, message: str = "by the fault proxy", retry_after: int | None = None) -> Fault:
    """Responds with a Status. The server does not receive the request."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        return web.json_response(status_body(code, reason, message), status=code, headers=headers)

    return fault


def answered_after(code: int, reason: str, message: str = "by the fault proxy") -> Fault:
    """Forwards the request and responds with an error."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        await exchange.forward()
        return web.json_response(status_body(code, reason, message), status=code)

    return fault


def edited(change: Callable[[bytes], bytes]) -> Fault:
    """Changes the response of the server, for example into an old or an empty list."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        return await exchange.forward(change)

    return fault


def body(content: bytes, code: int = 200, content_type: str = "application/json") -> Fault:
    """Responds with these bytes. The server does not receive the request."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        return web.Response(body=content, status=code, content_type=content_type)

    return fault


def status_body(code: int, reason: str, message: str = "by the fault proxy") -> Json:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


# faults of a line of a watch


async def swallowed(stream: Stream, line: bytes) -> list[bytes]:
    return []


async def doubled(stream: Stream, line: bytes) -> list[bytes]:
    return [line, line]


def late(seconds: float) -> EventFault:
    """Delays this line and all later ones of the same watch."""

    async def fault(stream: Stream, line: bytes) -> list[bytes]:
        await asyncio.sleep(seconds)
        return [line]

    return fault


def held_back(gate: str) -> EventFault:
    """Holds this line and all later ones of the same watch while `gate` is frozen."""

    async def fault(stream: Stream, line: bytes) -> list[bytes]:
        await stream.proxy.thawed(gate)
        return [line]

    return fault


def replaced(*lines: bytes | Json) -> EventFault:
    """Sends other lines instead."""
    out = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]

    async def fault(stream: Stream, line: bytes) -> list[bytes]:
        return out

    return fault


def preceded_by(*lines: bytes | Json) -> EventFault:
    out = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]

    async def fault(stream: Stream, line: bytes) -> list[bytes]:
        return [*out, line]

    return fault


def truncated(size: int = 60) -> EventFault:
    """Cuts the line after some bytes and resets the connection."""

    async def fault(stream: Stream, line: bytes) -> list[bytes]:
        await stream.cut_after(line[: min(size, len(line) - 2)])
        return []

    return fault


def error_event(code: int, reason: str) -> Json:
    return {"type": "ERROR", "object": status_body(code, reason)}
