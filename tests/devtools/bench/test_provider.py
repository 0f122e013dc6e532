"""The counting secret manager of the benchmark."""

import asyncio

import aiohttp

from samara_devtools.bench.provider import Provider, provider


async def ask(made: Provider, *documents: str) -> list[str]:
    async def one(session: aiohttp.ClientSession, document: str) -> str:
        url = f"{made.url.removeprefix('vault+').replace('/kv', '/v1/kv/data')}/{document}"
        async with session.get(url) as response:
            body = await response.json()
            return str(body["data"]["data"]["value"])

    async with aiohttp.ClientSession() as session:
        return list(await asyncio.gather(*(one(session, document) for document in documents)))


def test_the_provider_counts_reads_by_document_and_concurrent_reads() -> None:
    async def run() -> None:
        async with provider() as made:
            assert await ask(made, "a", "b", "a") == ["a 0", "b 0", "a 0"]
            assert (made.most_at_once, made.reads()) == (3, {"a": 2, "b": 1})
            made.rotate("a")
            assert await ask(made, "a") == ["a 1"]
            assert (made.most_at_once, made.reads(3), made.within(0.0)) == (3, {"a": 1}, 1)

    asyncio.run(run())
