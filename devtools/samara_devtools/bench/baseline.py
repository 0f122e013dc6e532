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
from samara_devtools.bench.secrets import content, copy_body, secrets_path

CONCURRENCY = (8, 16, 32)
MAX_WRITES = 10_000
"""Writes in one trial. More writes do not change the result."""
WARM_UP = 16
Address = tuple[str, str]
"""Namespace and name."""
CREATES, UPDATES = 0, 1
Pair = tuple[Burst, Burst]
"""Creates, and updates of the same Secrets."""


class _Meta(msgspec.Struct):
    resourceVersion: str


class _Answer(msgspec.Struct):
    metadata: _Meta


_answer = msgspec.json.Decoder(_Answer).decode


@dataclass(slots=True)
class Baseline:
    """All trials of the bare client."""

    creates: int = 0
    """The best concurrency for creates."""
    updates: int = 0
    """The best concurrency for updates."""
    trials: dict[int, list[Pair]] = field(default_factory=dict)
    """By concurrency: the trials from which the best one was chosen."""
    unwatched: list[Pair] = field(default_factory=list)
    """For comparison: trials without a watch."""
    rounds: list[Pair] = field(default_factory=list)
    """The trials before and after each fan-out."""
    number: int = 0
    """How many pairs were measured, for the names of their Secrets."""

    async def choose(self, lab: Lab) -> None:
        """Finds the best concurrency for each kind of write, by several trials of each concurrency in turn."""
        await self._measure_pair(lab, WARM_UP, WARM_UP)  # to warm the server up
        for _ in range(lab.options.rounds):
            for concurrency in CONCURRENCY:
                self.trials.setdefault(concurrency, []).append(await self._measure_pair(lab, concurrency, concurrency))
        for concurrency, pairs in self.trials.items():
            say(f"bare client, {concurrency} at a time: {_shown(pairs)}")
        self.creates, self.updates = (self._best(kind) for kind in (CREATES, UPDATES))

    def _best(self, kind: int) -> int:
        return max(
            self.trials, key=lambda concurrency: median(pair[kind].per_second for pair in self.trials[concurrency])
        )

    async def measure_round(self, lab: Lab) -> None:
        """Measures the best concurrency once more, without and with a watch."""
        self.unwatched.append(await self._measure_pair(lab, self.creates, self.updates, watched=False))
        # As many writes as a fan-out has, because a server answers a short burst faster than it can sustain.
        writes = min(MAX_WRITES, len(lab.namespaces) * lab.options.resources)
        self.rounds.append(await self._measure_pair(lab, self.creates, self.updates, writes=writes))
        say(f"bare client: {_shown(self.rounds[-1:])}; without a watch: {_shown(self.unwatched[-1:])}")

    def per_second(self, kind: int, *, watched: bool = True) -> float:
        return median(pair[kind].per_second for pair in (self.rounds if watched else self.unwatched))

    def cpu_ms(self, kind: int) -> float:
        return median(pair[kind].cpu_ms.serving for pair in self.rounds)

    async def _measure_pair(
        self, lab: Lab, creates: int, updates: int, *, watched: bool = True, writes: int | None = None
    ) -> Pair:
        self.number += 1
        loop = BareLoop(lab, f"bare-{self.number}", writes or lab.options.trial)
        async with watching(lab) if watched else nullcontext():
            created = await loop.measured(creates, loop.create)
            updated = await loop.measured(updates, loop.update)
        await loop.clean_up()
        return created, updated


def watching(lab: Lab) -> AbstractAsyncContextManager[None]:
    """Watches Secrets with the bare client, since a controller also watches the kind that it writes."""
    return lab.bare.watching("/api/v1/secrets")


class BareLoop:
    """A pair of trials with the same Secrets, spread over the namespaces."""

    def __init__(self, lab: Lab, name: str, writes: int) -> None:
        self._lab = lab
        self._answers: dict[Address, bytes] = {}
        self._data = content(name)
        self._versions: dict[Address, str] = {}
        width = len(lab.namespaces)
        self._addresses = [(lab.namespaces[index % width], f"{name}-{index // width}") for index in range(writes)]

    async def measured(self, workers: int, do: Callable[[Address], Awaitable[None]]) -> Burst:
        lab = self._lab
        mark, before = lab.log.catch_up(), lab.cpu(time.process_time())
        await spread(self._addresses, workers, do)
        used = lab.cpu(time.process_time()).since(before)
        self._versions = {address: _answer(raw).metadata.resourceVersion for address, raw in self._answers.items()}
        self._data = content(f"{self._addresses[0]} changed")
        return trial(lab.log.since(mark), BARE, used)

    async def create(self, address: Address) -> None:
        body = copy_body(*address, self._data)
        self._answers[address] = await self._lab.bare.send("POST", secrets_path(address[0]), body)

    async def update(self, address: Address) -> None:
        body = copy_body(*address, self._data, self._versions[address])
        await self._lab.bare.send("PUT", f"{secrets_path(address[0])}/{address[1]}", body)

    async def clean_up(self) -> None:
        await spread(self._addresses, WORKERS, self._delete)

    async def _delete(self, address: Address) -> None:
        await self._lab.bare.send("DELETE", f"{secrets_path(address[0])}/{address[1]}")


def _shown(pairs: list[Pair]) -> str:
    medians = [
        (median(pair[kind].per_second for pair in pairs), median(pair[kind].cpu_ms.serving for pair in pairs))
        for kind in (CREATES, UPDATES)
    ]
    return ", ".join(
        f"{rate:.0f} {verb}/s ({cpu:.2f} ms)" for (rate, cpu), verb in zip(medians, ("creates", "updates"), strict=True)
    )
