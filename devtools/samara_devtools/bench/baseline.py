"""B: the rate of a bare client loop on the same API server."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field

import msgspec

from samara_devtools.bench.bare import spread
from samara_devtools.bench.figures import Burst, median, trial
from samara_devtools.bench.lab import BARE, WORKERS, Lab, say
from samara_devtools.bench.secrets import content, folder, like_a_copy

CONCURRENCY = (8, 16, 32)
MOST = 10_000
"""Writes in one trial. More do not change the result."""
WARM_UP = 16
Address = tuple[str, str]
"""Namespace and name."""
Pair = tuple[Burst, Burst]
"""Creates and updates."""


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
    trials: dict[int, list[Pair]] = field(default_factory=dict)
    """By concurrency: the trials from which the best one was chosen."""
    unwatched: list[Pair] = field(default_factory=list)
    """For the record: without a watch."""
    rounds: list[Pair] = field(default_factory=list)
    number: int = 0

    async def choose(self, lab: Lab) -> None:
        """Finds the best concurrency for each kind of write, by several trials that take turns."""
        await self._pair(lab, WARM_UP, WARM_UP)  # to warm the server up
        for _ in range(lab.options.rounds):
            for concurrency in CONCURRENCY:
                self.trials.setdefault(concurrency, []).append(await self._pair(lab, concurrency, concurrency))
        for concurrency, pairs in self.trials.items():
            say(f"bare client, {concurrency} at a time: {_shown(pairs)}")
        self.creates, self.updates = (self._best(kind) for kind in (0, 1))

    def _best(self, kind: int) -> int:
        return max(
            self.trials, key=lambda concurrency: median(pair[kind].per_second for pair in self.trials[concurrency])
        )

    async def again(self, lab: Lab) -> None:
        self.unwatched.append(await self._pair(lab, self.creates, self.updates, watched=False))
        # As many writes as a fan-out has, because a server answers a short burst faster than it can sustain.
        many = min(MOST, len(lab.namespaces) * lab.options.resources)
        self.rounds.append(await self._pair(lab, self.creates, self.updates, many=many))
        say(f"bare client: {_shown(self.rounds[-1:])}; without a watch: {_shown(self.unwatched[-1:])}")

    def per_second(self, kind: int, *, watched: bool = True) -> float:
        return median(pair[kind].per_second for pair in (self.rounds if watched else self.unwatched))

    def cpu_ms(self, kind: int) -> float:
        return median(pair[kind].cpu_ms.serving for pair in self.rounds)

    async def _pair(
        self, lab: Lab, creates: int, updates: int, *, watched: bool = True, many: int | None = None
    ) -> Pair:
        self.number += 1
        loop = BareLoop(lab, f"bare-{self.number}", many or lab.options.trial)
        async with watching(lab) if watched else nullcontext():
            created = await loop.measured(creates, loop.create)
            updated = await loop.measured(updates, loop.update)
        await loop.clean_up()
        return created, updated


def watching(lab: Lab) -> AbstractAsyncContextManager[None]:
    """Watches Secrets with the bare client, since a controller also watches the kind that it writes."""
    return lab.bare.watching("/api/v1/secrets")


class BareLoop:
    """One pair of trials with a number of Secrets, spread over the namespaces."""

    def __init__(self, lab: Lab, name: str, writes: int) -> None:
        self._lab = lab
        self._answers: dict[Address, bytes] = {}
        self._data = content(name)
        self._versions: dict[Address, str] = {}
        many = len(lab.namespaces)
        self._addresses = [(lab.namespaces[i % many], f"{name}-{i // many}") for i in range(writes)]

    async def measured(self, workers: int, do: Callable[[Address], Awaitable[None]]) -> Burst:
        lab = self._lab
        mark, before = lab.log.catch_up(), lab.cpu(time.process_time())
        await spread(self._addresses, workers, do)
        used = lab.cpu(time.process_time()).since(before)
        self._versions = {address: _answer(raw).metadata.resourceVersion for address, raw in self._answers.items()}
        self._data = content(f"{self._addresses[0]} changed")
        return trial(lab.log.since(mark), BARE, used)

    async def create(self, address: Address) -> None:
        body = like_a_copy(*address, self._data)
        self._answers[address] = await self._lab.bare.send("POST", folder(address[0]), body)

    async def update(self, address: Address) -> None:
        body = like_a_copy(*address, self._data, self._versions[address])
        await self._lab.bare.send("PUT", f"{folder(address[0])}/{address[1]}", body)

    async def clean_up(self) -> None:
        await spread(self._addresses, WORKERS, self._delete)

    async def _delete(self, address: Address) -> None:
        await self._lab.bare.send("DELETE", f"{folder(address[0])}/{address[1]}")


def _shown(pairs: list[Pair]) -> str:
    medians = [
        (median(pair[kind].per_second for pair in pairs), median(pair[kind].cpu_ms.serving for pair in pairs))
        for kind in (0, 1)
    ]
    return ", ".join(
        f"{rate:.0f} {what}/s ({cpu:.2f} ms)" for (rate, cpu), what in zip(medians, ("creates", "updates"), strict=True)
    )
