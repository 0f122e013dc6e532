"""Tests the limits of the ports with real sockets: half-open requests, slow clients, and too many connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from aiohttp import web

from samara.web.listener import Limits, Routes, listening, send_in_pieces

QUICK = Limits(connections=4, handshake=0.2, head=0.2, answer=0.4, idle=0.2, shutdown=0.2)
PATIENT = replace(QUICK, head=30.0, answer=30.0, idle=30.0)
GET = b"GET /ok HTTP/1.1\r\nHost: samara\r\n\r\n"
Scenario = Callable[[int], Awaitable[None]]


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="ok")


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text=str(len(await request.read())))


async def flood(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=b"x" * 2**25)


async def pieces(request: web.BaseRequest) -> web.StreamResponse:
    return await send_in_pieces(request, b"x" * 2**25, "text/plain", 0.4)


ROUTES = {("GET", "/ok"): answer, ("POST", "/echo"): echo, ("GET", "/flood"): flood, ("GET", "/pieces"): pieces}


def on_port(
    scenario: Scenario, limits: Limits = QUICK, context: ssl.SSLContext | None = None, routes: Routes = ROUTES
) -> None:
    async def run() -> None:
        async with listening("127.0.0.1:0", "--address", routes, limits, context) as port, asyncio.timeout(20):
            await scenario(port)

    asyncio.run(run())


async def sent(port: int, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    return reader, writer


async def until_cut(reader: asyncio.StreamReader) -> bytes:
    """Everything that arrives until the server closes the connection."""
    received = b""
    with suppress(ConnectionError):
        while chunk := await reader.read(2**16):
            received += chunk
    return received


@pytest.mark.parametrize(
    "data",
    [b"", b"GET /ok HTTP/1.1\r\nHost:", b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"],
    ids=["nothing", "half a head", "half a body"],
)
def test_a_half_open_request_is_cut(data: bytes) -> None:
    async def scenario(port: int) -> None:
        reader, writer = await sent(port, data)
        assert await until_cut(reader) == b""
        writer.close()

    on_port(scenario, replace(QUICK, idle=3600.0))


def test_a_second_request_that_stays_incomplete_is_cut_before_the_idle_limit() -> None:
    async def scenario(port: int) -> None:
        reader, writer = await sent(port, GET)
        await reader.readuntil(b"ok")
        writer.write(b"GET /ok")
        assert await until_cut(reader) == b""
        writer.close()

    on_port(scenario, replace(QUICK, idle=3600.0))


def test_a_client_that_trickles_a_head_gets_no_more_time() -> None:
    async def scenario(port: int) -> None:
        reader, writer = await sent(port, b"GET /ok HTTP/1.1\r\n")
        cut = asyncio.create_task(until_cut(reader))
        number = 0
        while not cut.done():
            writer.write(b"X-%d: a\r\n" % (number := number + 1))
            await asyncio.sleep(0.02)
        assert number < 100
        writer.close()

    on_port(scenario, replace(QUICK, idle=3600.0))


@pytest.mark.parametrize(("path", "limits"), [("/flood", QUICK), ("/pieces", PATIENT)])
def test_a_client_that_does_not_read_its_answer_is_cut(path: str, limits: Limits) -> None:
    async def scenario(port: int) -> None:
        reader, writer = await sent(port, f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        await asyncio.sleep(1.0)  # longer than the limit; nothing is read meanwhile
        assert len(await until_cut(reader)) < 2**25
        writer.close()

    on_port(scenario, limits)


@pytest.mark.parametrize("size", [0, 1, 2**16 - 1, 2**16, 2**16 + 1, 2**20])
def test_an_answer_in_pieces_arrives_whole(size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"y" * (size % 256)

    async def scenario(port: int) -> None:
        reader, writer = await sent(port, b"GET /ok HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        head, _, received = (await until_cut(reader)).partition(b"\r\n\r\n")
        assert received == body
        assert f"content-length: {size}".encode() in head.lower()
        writer.close()

    on_port(scenario, routes={("GET", "/ok"): lambda request: send_in_pieces(request, body, "text/plain", 5.0)})


def test_further_requests_wait_until_the_client_reads_the_answers_to_earlier_ones() -> None:
    number, answered = 2000, 0

    async def counted(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal answered
        response = await send_in_pieces(request, b"x" * 60_000, "text/plain", 30.0)
        answered += 1
        return response

    async def scenario(port: int) -> None:
        _, writer = await sent(port, GET * number)
        before = -1
        while answered > before:
            before = answered
            await asyncio.sleep(0.3)
        assert answered < number / 2
        writer.close()

    on_port(scenario, PATIENT, routes={("GET", "/ok"): counted})


def test_an_idle_connection_stays_until_the_idle_limit() -> None:
    async def scenario(port: int) -> None:
        reader, writer = await sent(port, GET)
        await reader.readuntil(b"ok")
        await asyncio.sleep(0.5)  # longer than a head may take
        writer.write(GET)
        await reader.readuntil(b"ok")
        await until_cut(reader)
        writer.close()

    on_port(scenario, replace(QUICK, idle=1.0))


def test_a_tls_handshake_that_does_not_end_is_cut() -> None:
    async def scenario(port: int) -> None:
        reader, writer = await sent(port, b"")
        assert await until_cut(reader) == b""
        writer.close()

    on_port(scenario, context=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


def test_one_connection_too_many_closes_the_oldest_of_the_same_client() -> None:
    async def scenario(port: int) -> None:
        clients = [await sent(port, b"GET") for _ in range(PATIENT.connections)]
        reader, writer = await sent(port, GET)
        await reader.readuntil(b"ok")
        assert await until_cut(clients[0][0]) == b""
        for other, _ in clients[1:]:
            assert not other.at_eof()
        for _, other_writer in (*clients, (reader, writer)):
            other_writer.close()

    on_port(scenario, PATIENT)


def test_a_client_with_many_connections_displaces_none_of_another_client() -> None:
    async def scenario(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        writer.write(GET)
        await reader.readuntil(b"ok")
        crowd = [await sent(port, b"GET") for _ in range(3 * PATIENT.connections)]
        writer.write(GET)
        await reader.readuntil(b"ok")
        for _, other in (*crowd, (reader, writer)):
            other.close()

    on_port(scenario, PATIENT)


def test_a_client_with_many_connections_displaces_no_request_that_another_client_is_still_sending() -> None:
    async def scenario(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        writer.write(GET[:4])
        crowd = [await sent(port, b"GET") for _ in range(3 * PATIENT.connections)]
        writer.write(GET[4:])
        await reader.readuntil(b"ok")
        for _, other in (*crowd, (reader, writer)):
            other.close()

    on_port(scenario, PATIENT)


@pytest.mark.parametrize("data", [b"", b"GET", GET.replace(b"ok", b"no")], ids=["nothing", "half a head", "not found"])
def test_clients_that_get_no_answer_displace_none_that_gets_answers_however_many_they_are(data: bytes) -> None:
    async def scenario(port: int) -> None:
        served = [await sent(port, GET) for _ in range(PATIENT.connections - 1)]
        for reader, _ in served:
            await reader.readuntil(b"ok")
        others = []
        for number in range(2, 9):
            address = f"127.0.0.{number}", 0
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=address)
            others.append((reader, writer))
            writer.write(data)
            if data.endswith(b"\r\n\r\n"):
                await reader.readuntil(b"404")
        await until_cut(others[0][0])
        for reader, writer in served:
            writer.write(GET)
            await reader.readuntil(b"ok")
        for _, writer in (*served, *others):
            writer.close()

    on_port(scenario, PATIENT)


def test_half_open_requests_never_take_more_files_than_the_limit() -> None:
    async def scenario(port: int) -> None:
        clients = [await sent(port, b"GET") for _ in range(200)]
        reader, writer = await sent(port, GET)
        await reader.readuntil(b"ok")
        cut = [asyncio.create_task(until_cut(reader)) for reader, _ in clients]
        await asyncio.wait(cut, timeout=0.5)
        still_open = [task for task in cut if not task.done()]
        assert len(still_open) <= PATIENT.connections
        for task in still_open:
            task.cancel()
        for _, other in (*clients, (reader, writer)):
            other.close()

    on_port(scenario, PATIENT)


@pytest.mark.parametrize("request_line", [b"HEAD /ok", b"GET /no", b"POST /ok"])
def test_requests_that_arrive_together_leave_other_tasks_a_turn_before_each_answer(request_line: bytes) -> None:
    """A handler that awaits nothing runs to its end at once. Without a turn in between, one connection could keep the
    event loop for as long as it sends requests, and no deadline would ever be checked."""
    number, turns = 500, 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def scenario(port: int) -> None:
        counting = asyncio.create_task(count_turns())
        last = request_line + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        reader, writer = await sent(port, last.replace(b"close", b"keep-alive") * (number - 1) + last)
        answers = await until_cut(reader)
        counting.cancel()
        writer.close()
        assert answers.count(b"HTTP/1.1 ") == number
        assert turns >= number

    on_port(scenario, PATIENT)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [(b"GET /ok", b"200"), (b"HEAD /ok", b"200"), (b"GET /no", b"404"), (b"POST /ok", b"405"), (b"GET", b"400")],
)
def test_only_the_routes_are_answered(request_line: bytes, status: bytes) -> None:
    async def scenario(port: int) -> None:
        reader, writer = await sent(port, request_line + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readline()).split()[1] == status
        writer.close()

    on_port(scenario)


def test_an_answer_under_way_is_finished_when_the_port_closes() -> None:
    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(0.1)
        return web.Response(text="done")

    async def run() -> bytes:
        async with listening("127.0.0.1:0", "--address", {("GET", "/ok"): slow}, PATIENT) as port:
            reader, writer = await sent(port, GET)
            await asyncio.sleep(0.02)
        received = await until_cut(reader)
        writer.close()
        return received

    assert asyncio.run(run()).endswith(b"done")
