"""B: what a bare client loop reaches on the same server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from bench.bare import spread
from bench.figures import Burst, Cpu, Who, median, trial
from bench.lab import BARE, Lab, say
from bench.secrets import content, folder, like_a_copy

CONCURRENCY = (8, 16, 32)


class _Meta(msgspec.Struct):
    resourceVersion: str


class _Answer(msgspec.Struct):
    metadata: _Meta


_answer = msgspec.json.Decoder(_Answer).decode


@dataclass(slots=True)
class Baseline:
    """All trials; creates and updates of the same Secrets come in pairs."""

    creates: int = 0
    """The best concurrency for creates."""
    updates: int = 0
    found: dict[int, tuple[Burst, Burst]] = field(default_factory=dict)
    """By concurrency: the trials that the choice was made by."""
    unwatched: tuple[Burst, Burst] | None = None
    """For the record: without a watch."""
    rounds: list[tuple[Burst, Burst]] = field(default_factory=list)
    number: int = 0

    async def choose(self, lab: Lab) -> None:
        """Finds the best concurrency for each kind of write."""
        await self._pair(lab, 16, 16)  # to warm the server up
        for each in CONCURRENCY:
            self.found[each] = await self._pair(lab, each, each)
            say(f"bare client, {each} at a time: {_shown(self.found[each])}")
        self.creates = max(self.found, key=lambda each: self.found[each][0].per_second)
        self.updates = max(self.found, key=lambda each: self.found[each][1].per_second)
        self.unwatched = await self._pair(lab, self.creates, self.updates, watched=False)
        say(f"bare client without a watch: {_shown(self.unwatched)}")

    async def again(self, lab: Lab) -> None:
        pair = await self._pair(lab, self.creates, self.updates)
        say(f"bare client: {_shown(pair)}")
        self.rounds.append(pair)

    def median(self, kind: int) -> float:
        return median(each[kind].per_second for each in self.rounds)

    def cpu_ms(self, kind: int) -> float:
        return median(each[kind].cpu_ms.serving for each in self.rounds)

    async def _pair(self, lab: Lab, creates: int, updates: int, *, watched: bool = True) -> tuple[Burst, Burst]:
        self.number += 1
        loop = _Loop(lab, f"bare-{self.number}")
        async with _watch(lab, watched):
            created = await loop.measured(creates, loop.create)
            updated = await loop.measured(updates, loop.update)
        await spread(loop.places, 16, loop.delete)
        return created, updated


@asynccontextmanager
async def _watch(lab: Lab, watched: bool) -> AsyncIterator[None]:
    if not watched:
        yield
        return
    async with lab.bare.watching("/api/v1/secrets"):
        yield


class _Loop:
    """One pair of trials over the first namespaces."""

    def __init__(self, lab: Lab, name: str) -> None:
        self._lab = lab
        self._name = name
        self._answers: dict[str, bytes] = {}
        self._data = content(name)
        self._versions: dict[str, str] = {}
        self.places = lab.namespaces[: lab.options.trial]

    async def measured(self, workers: int, do: Callable[[str], Awaitable[None]]) -> Burst:
        lab = self._lab
        mark, before = lab.log.catch_up(), lab.cpu(time.process_time())
        await spread(self.places, workers, do)
        used: Cpu = lab.cpu(time.process_time()).since(before)
        self._versions = {place: _answer(raw).metadata.resourceVersion for place, raw in self._answers.items()}
        self._data = content(f"{self._name} changed")
        return trial(lab.log.since(mark), Who(BARE, self._name), used)

    async def create(self, namespace: str) -> None:
        body = like_a_copy(namespace, self._name, self._data)
        self._answers[namespace] = await self._lab.bare.send("POST", folder(namespace), body)

    async def update(self, namespace: str) -> None:
        body = like_a_copy(namespace, self._name, self._data, self._versions[namespace])
        await self._lab.bare.send("PUT", f"{folder(namespace)}/{self._name}", body)

    async def delete(self, namespace: str) -> None:
        await self._lab.bare.send("DELETE", f"{folder(namespace)}/{self._name}")


def _shown(pair: tuple[Burst, Burst]) -> str:
    return ", ".join(
        f"{each.per_second:.0f} {what}/s ({each.cpu_ms.serving:.2f} ms of server CPU)"
        for each, what in zip(pair, ("creates", "updates"), strict=True)
    )
