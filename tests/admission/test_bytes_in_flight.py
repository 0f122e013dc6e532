"""The limit on what requests and answers hold together, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from samara.admission.bytes_in_flight import UNCOUNTED_BYTES, BytesInFlight, NoRoomError

Start = Callable[[str, int], Coroutine[None, None, asyncio.Task[None]]]


def with_room_for(most: int, scenario: Callable[[BytesInFlight, Start], Coroutine[None, None, None]]) -> None:
    """`start` begins a request that holds so many counted bytes until the end."""

    async def run() -> None:
        in_flight, over = BytesInFlight(most), asyncio.Event()
        tasks: list[asyncio.Task[None]] = []

        async def request(client: str, size: int, holds: asyncio.Event) -> None:
            with in_flight.request(client) as held:
                try:
                    await in_flight.hold(held, UNCOUNTED_BYTES + size)
                finally:
                    holds.set()
                await over.wait()

        async def start(client: str, size: int) -> asyncio.Task[None]:
            holds = asyncio.Event()
            tasks.append(asyncio.create_task(request(client, size, holds)))
            await holds.wait()
            await asyncio.sleep(0)
            return tasks[-1]

        await scenario(in_flight, start)
        over.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert in_flight.left == most

    asyncio.run(run())


def test_the_client_that_holds_the_most_loses_its_oldest_request() -> None:
    async def scenario(in_flight: BytesInFlight, start: Start) -> None:
        first, second = await start("greedy", 40), await start("greedy", 40)
        other = await start("other", 20)
        new = await start("new", 30)
        assert [first.cancelled(), second.done(), other.done(), new.done()] == [True, False, False, False]
        assert in_flight.left == 10

    with_room_for(100, scenario)


def test_a_request_that_needs_the_room_of_several_displaces_them_all() -> None:
    async def scenario(in_flight: BytesInFlight, start: Start) -> None:
        greedy = [await start("greedy", 10) for _ in range(10)]
        new = await start("new", 45)
        assert [task.cancelled() for task in greedy] == [True] * 5 + [False] * 5
        assert not new.done()

    with_room_for(100, scenario)


def test_a_client_that_would_hold_the_most_itself_gets_no_room() -> None:
    async def scenario(in_flight: BytesInFlight, start: Start) -> None:
        other = await start("other", 40)
        first = await start("greedy", 40)
        refused = await start("greedy", 40)
        assert isinstance(refused.exception(), NoRoomError)
        assert [other.done(), first.done()] == [False, False]

    with_room_for(100, scenario)


@pytest.mark.parametrize("size", [0, -UNCOUNTED_BYTES])
def test_small_requests_never_wait_and_displace_nothing(size: int) -> None:
    async def scenario(in_flight: BytesInFlight, start: Start) -> None:
        greedy = await start("greedy", 100)
        small = await start("small", size)
        assert [greedy.done(), small.done()] == [False, False]

    with_room_for(100, scenario)
