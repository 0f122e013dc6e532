"""Tests a snapshot against an HTTP server whose pages can expire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from typing import Any

import pytest
from aiohttp import web
from tests.kube.scripted import Answer, access, refuses, says, serving
from tests.support.caches import a_plain_cache, unread, unseen

from samara.core.model import NAMESPACE, SECRET, Kind, Ref
from samara.core.queries import CrdExists, SecretPath, SecretReading
from samara.core.registry import Registry
from samara.kube.auth import Access
from samara.kube.auth.credentials import Fixed
from samara.kube.client import Client, unrestricted
from samara.kube.codec import Codec
from samara.kube.errors import Unreachable
from samara.kube.snapshot import OnRead, Snapshot, fetched_ahead, list_cluster
from samara.vocabularies import secret_copy

REGISTRY = Registry((secret_copy.source_type(),))


def thing(name: str, namespace: str = "", **annotations: str) -> dict[str, Any]:
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "5", "annotations": annotations}
    return {"metadata": {**meta, **({"namespace": namespace} if namespace else {})}}


class Server:
    """Two pages per list. The second page of a kind expires `expiries` times."""

    def __init__(self, expiries: int, unknown: str = "") -> None:
        self.queries: list[dict[str, str]] = []
        self._left = expiries
        self._unknown = unknown
        source = thing("db", "admin", **{"secret-copy/namespaces": "", "secret-copy/origin": "by hand"})
        self._pages = {
            "namespaces": [[thing("a")], [thing("admin")]],
            "secrets": [[thing("db", "a"), thing("other", "a")], [source]],
        }

    async def answer(self, request: web.Request) -> web.Response:
        self.queries.append(dict(request.query))
        kind = request.path.rpartition("/")[2]
        if kind == self._unknown:
            return web.json_response({"kind": "Status", "code": 404, "message": "no such kind"}, status=404)
        if kind not in self._pages:
            return web.json_response({"data": {}, "metadata": thing(kind, "a")["metadata"]})
        second = "continue" in request.query
        if second and self._left:
            self._left -= 1
            return web.json_response({"kind": "Status", "code": 410, "reason": "Expired"}, status=410)
        meta = {"resourceVersion": "9", **({} if second else {"continue": "more"})}
        return web.json_response({"metadata": meta, "items": self._pages[kind][second]}, dumps=json.dumps)


async def seen(server: Server, on_read: OnRead = unseen) -> Snapshot:
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        access = Access(f"http://127.0.0.1:{port}", "default", None, None, None, Fixed(), "test")
        async with Client(access, may_write=unrestricted) as client:
            return await list_cluster(client, REGISTRY, "operator", unread, on_read)
    finally:
        await runner.cleanup()


def test_every_page_is_read_and_lists_are_consistent() -> None:
    server = Server(expiries=0)
    shot = asyncio.run(seen(server))
    assert [obj.ref.name for obj in shot.cache.objects_of(NAMESPACE)] == ["a", "admin"]
    assert shot.cache.has_synced(SECRET)
    assert all(query["limit"] == "500" for query in server.queries)
    assert not any("resourceVersion" in query for query in server.queries)


def test_each_page_says_how_many_objects_were_read() -> None:
    read: list[tuple[Kind, int]] = []
    asyncio.run(seen(Server(expiries=0), lambda kind, count: read.append((kind, count))))
    assert read == [(NAMESPACE, 0), (NAMESPACE, 1), (NAMESPACE, 2), (SECRET, 0), (SECRET, 2), (SECRET, 3)]


def test_irrelevant_objects_keep_only_their_address() -> None:
    shot = asyncio.run(seen(Server(expiries=0)))
    assert [obj.ref.path for obj in shot.cache.objects_of(SECRET)] == ["admin/db"]
    assert shot.cache.exists_unread(Ref(SECRET, "a", "db"))
    assert list(shot.marked) == [Ref(SECRET, "admin", "db")]


def test_a_list_whose_pages_expired_starts_again() -> None:
    shot = asyncio.run(seen(Server(expiries=2)))
    assert [obj.ref.name for obj in shot.cache.objects_of(NAMESPACE)] == ["a", "admin"]
    assert [obj.ref.path for obj in shot.cache.objects_of(SECRET)] == ["admin/db"]


def test_a_kind_that_is_not_served_does_not_count_as_empty() -> None:
    shot = asyncio.run(seen(Server(expiries=0, unknown="secrets")))
    assert list(shot.unlisted) == [SECRET]
    assert not shot.cache.has_synced(SECRET)
    assert shot.cache.is_trust_known(), "no plan waits for what cannot be listed"


DEFINED = CrdExists(Kind("toys.dev", "v1", "Queue", "queues"))


@pytest.mark.parametrize(
    ("answer", "stands"),
    [
        (says({"metadata": {"name": "queues.toys.dev"}}), True),
        (says({"metadata": {"name": "queues.toys.dev", "deletionTimestamp": "2026-11-15T00:00:00Z"}}), False),
        (refuses(404, "NotFound"), False),
        (refuses(403, "Forbidden"), True),
    ],
    ids=["stands", "goes", "gone", "a user who may not read it"],
)
def test_whether_a_crd_is_established_is_read_from_the_server(answer: Answer, stands: bool) -> None:
    async def read_answer() -> object:
        async with serving(answer) as script, Client(access(script), may_write=unrestricted) as client:
            shot = Snapshot(client, Codec(REGISTRY.managers), a_plain_cache(REGISTRY), "operator", unread)
            await shot._answer_all((DEFINED,))
            return shot.cache.answer(DEFINED)

    assert asyncio.run(read_answer()) is stands


def test_each_path_of_the_secret_manager_is_read_once_and_earlier_readings_stay() -> None:
    batches: list[list[str]] = []

    async def read_paths(paths: Collection[SecretPath]) -> dict[str, SecretReading]:
        batches.append([path.path for path in paths])
        return {path.path: SecretReading(path.path.encode(), "now") for path in paths}

    async def answers() -> list[object]:
        async with serving(refuses(500)) as script, Client(access(script), may_write=unrestricted) as client:
            shot = Snapshot(client, Codec(REGISTRY.managers), a_plain_cache(REGISTRY), "operator", read_paths)
            one, two = SecretPath("one", 300.0), SecretPath("two", 300.0)
            await shot._answer_all((one, one))
            await shot._answer_all((two,))
            return [shot.cache.answer(path) for path in (one, two)]

    assert asyncio.run(answers()) == [SecretReading(b"one", "now"), SecretReading(b"two", "now")]
    assert batches == [["one"], ["two"]]


def test_without_a_secret_manager_the_reading_has_a_fault() -> None:
    async def reading() -> object:
        async with serving(refuses(500)) as script, Client(access(script), may_write=unrestricted) as client:
            shot = Snapshot(client, Codec(REGISTRY.managers), a_plain_cache(REGISTRY), "operator", unread)
            await shot._answer_all((SecretPath("one", 300.0),))
            return shot.cache.answer(SecretPath("one", 300.0))

    result = asyncio.run(reading())
    assert isinstance(result, SecretReading)
    assert result.value is None
    assert result.fault is not None


def test_the_next_page_is_asked_for_while_a_page_is_worked_on() -> None:
    asked: list[int] = []

    async def numbers() -> AsyncIterator[int]:
        for number in range(3):
            asked.append(number)
            await asyncio.sleep(0)
            yield number

    async def asked_at_each() -> list[list[int]]:
        return [list(asked) async for _ in fetched_ahead(numbers())]

    assert asyncio.run(asked_at_each()) == [[0, 1], [0, 1, 2], [0, 1, 2]]


def test_a_fault_of_a_page_that_was_asked_for_early_is_raised() -> None:
    async def numbers() -> AsyncIterator[int]:
        yield 1
        raise Unreachable("the server is gone")

    async def read() -> list[int]:
        return [number async for number in fetched_ahead(numbers())]

    with pytest.raises(Unreachable):
        asyncio.run(read())
