"""Tests writes on our own connections: reuse, faults, and requests that are never sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvloop
from tests.support.samples import an_access

from samara.kube import transport as module
from samara.kube.transport import Answer, CutError, Transport

GOOD = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers the n-th request with the n-th answer, and repeats the last one. A `|` splits an answer into pieces."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self.ended = asyncio.Event()
        self.tasks: set[asyncio.Task[Any] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.add(asyncio.current_task())
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
                for piece in answer.split(b"|"):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if answer.endswith(b"|"):
                    break
        except asyncio.IncompleteReadError:
            pass
        self.ended.set()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def serving(*answers: bytes, path: str = "") -> AsyncIterator[tuple[Server, Transport]]:
    made = Server(*answers)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = Transport(an_access(f"http://127.0.0.1:{port}{path}"), [("User-Agent", "samara/test")])
    try:
        yield made, transport
    finally:
        transport.close()
        server.close()
        await asyncio.gather(*filter(None, made.tasks))


def allow() -> None:
    """A check that allows every request."""


async def post(
    transport: Transport, body: bytes = b"{}", seconds: float = 5.0, check: Callable[[], None] = allow
) -> Answer:
    return await transport.exchange("POST", "/api/v1/x", [("Authorization", "Bearer t")], body, seconds, check)


def run(scenario: Callable[[Server, Transport], Awaitable[Any]], *answers: bytes, path: str = "") -> Any:
    async def connected() -> Any:
        async with asyncio.timeout(8), serving(*answers, path=path) as (server, transport):
            return await scenario(server, transport)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as the operator runs
        return runner.run(connected())


def test_a_request_is_sent_and_its_answer_read() -> None:
    async def scenario(server: Server, transport: Transport) -> None:
        answer = await post(transport, b'{"a": 1}')
        assert (answer.status, answer.body) == (201, b"{}")
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
        assert head.splitlines()[0] == b"POST /prefix/api/v1/x HTTP/1.1"
        assert set(head.splitlines()[2:]) == {
            b"User-Agent: samara/test",
            b"Authorization: Bearer t",
            b"Content-Length: 8",
        }
        assert body == b'{"a": 1}'

    run(scenario, GOOD, path="/prefix/")


def test_one_connection_serves_one_request_after_the_other() -> None:
    async def scenario(server: Server, transport: Transport) -> None:
        for _ in range(3):
            await post(transport)
        assert server.connections == 1
        await asyncio.gather(post(transport), post(transport))
        assert server.connections == 2

    run(scenario, GOOD)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n|3\r|\nab|c\r\n2\r\nde\r\n0\r\n|\r\n".rstrip(b"|"),
        b"HTTP/1.1 200 OK\r\ncontent-le|ngth: 5\r\n\r\nab|cde",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
    ],
    ids=["chunked", "chunked in pieces", "in pieces", "after a word on the way"],
)
def test_an_answer_is_read_in_pieces_of_any_size(answer: bytes) -> None:
    async def scenario(server: Server, transport: Transport) -> None:
        assert [(await post(transport)).body for _ in range(2)] == [b"abcde", b"abcde"]
        assert server.connections == 1

    run(scenario, answer)


def test_headers_are_found_by_their_names_in_lower_case() -> None:
    async def scenario(server: Server, transport: Transport) -> None:
        answer = await post(transport)
        assert (answer.status, answer.headers[b"retry-after"]) == (429, b"7")

    run(scenario, b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")


def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    async def scenario(server: Server, transport: Transport) -> None:
        await post(transport)
        await post(transport)
        assert server.connections == 2

    run(scenario, b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n|", GOOD)


@pytest.mark.parametrize("cut", [b"|", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc|", b"no HTTP at all|"])
def test_a_cut_connection_raises_and_nothing_is_sent_twice(cut: bytes) -> None:
    async def scenario(server: Server, transport: Transport) -> None:
        with pytest.raises(CutError):
            await post(transport)
        assert len(server.requests) == 1
        assert (await post(transport)).status == 201
        assert server.connections == 2

    run(scenario, cut, GOOD)


def test_a_connection_lost_right_after_opening_raises_at_once() -> None:
    async def scenario(server: Server, transport: Transport) -> None:
        opened = transport._connect

        async def lost() -> module.Connection:
            connection = await opened()
            assert connection._transport is not None
            connection._transport.abort()
            while connection.is_open:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
            return connection

        transport._connect = lost  # type: ignore[method-assign]
        with pytest.raises(CutError):
            await post(transport, seconds=60.0)
        assert server.requests == []

    run(scenario, GOOD)


def test_a_late_answer_closes_the_connection() -> None:
    async def scenario(server: Server, transport: Transport) -> None:
        with pytest.raises(TimeoutError):
            await post(transport, seconds=0.05)
        await server.ended.wait()
        await post(transport)
        assert server.connections == 2

    run(scenario, b"HTTP/1.1 200 OK\r\n", GOOD)


def test_a_cancelled_request_leaves_no_answer_for_the_next() -> None:
    async def scenario(server: Server, transport: Transport) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await post(transport)
        await server.ended.wait()
        assert (await post(transport)).status == 201
        assert server.connections == 2

    run(scenario, b"HTTP/1.1 200 OK\r\n", GOOD)


def test_an_unsolicited_answer_closes_the_connection() -> None:
    async def scenario(server: Server, transport: Transport) -> None:
        await post(transport)
        await server.ended.wait()
        assert (await post(transport)).body == b"{}"
        assert server.connections == 2

    run(scenario, GOOD + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged", GOOD)


def test_an_answer_that_is_too_long_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BODY", 3)

    async def scenario(server: Server, transport: Transport) -> None:
        with pytest.raises(CutError, match="at most 3 bytes"):
            await post(transport)

    run(scenario, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde")


def test_a_process_that_may_not_write_sends_nothing() -> None:
    def refuse() -> None:
        raise PermissionError

    async def scenario(server: Server, transport: Transport) -> None:
        with pytest.raises(PermissionError):
            await post(transport, check=refuse)
        assert server.requests == []

    run(scenario, GOOD)


def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_IDLE", -1.0)

    async def scenario(server: Server, transport: Transport) -> None:
        await post(transport)
        await post(transport)
        assert server.connections == 2

    run(scenario, GOOD)
