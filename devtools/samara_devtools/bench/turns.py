"""Measures fill and change alternately with the bare client, since the speed of a machine varies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from samara_devtools.bench.audit import agents, by
from samara_devtools.bench.baseline import Baseline, Pair
from samara_devtools.bench.controller import Controller
from samara_devtools.bench.figures import Burst, WritesOf, fan_out, ratios
from samara_devtools.bench.lab import ADMIN, CONTROLLER, Lab, say
from samara_devtools.bench.secrets import Source, source_of


@dataclass(slots=True)
class Turns:
    baseline: Baseline = field(default_factory=Baseline)
    fills: list[Burst] = field(default_factory=list)
    changes: list[Burst] = field(default_factory=list)
    agents: tuple[str, ...] = ()

    def shares(self, kind: int, beside: list[Pair], of: Callable[[Burst], float]) -> list[float]:
        """A figure of each fill (0) or change (1) over that of the bare client just before and just after it."""
        return ratios([of(burst) for burst in (self.fills, self.changes)[kind]], [of(pair[kind]) for pair in beside])


async def take_turns(lab: Lab) -> Turns:
    turns = Turns()
    await turns.baseline.choose(lab)
    await turns.baseline.again(lab)
    for number in range(1, lab.options.rounds + 1):
        names = [f"turn-{number}-{resource}" for resource in range(lab.options.resources)]
        await _turn(lab, turns, [source_of(lab.options, name) for name in names])
        await turns.baseline.again(lab)
    return turns


async def _turn(lab: Lab, turns: Turns, sources: list[Source]) -> None:
    mark = lab.log.catch_up()
    async with lab.ready() as controller:
        turns.fills.append(await fan(lab, controller, *sources))
        say(f"fill: {_shown(turns.fills[-1])}")
        if lab.options.wants("change"):
            turns.changes.append(await fan(lab, controller, *(source.changed() for source in sources)))
            say(f"change: {_shown(turns.changes[-1])}")
    turns.agents = agents(by(lab.log.since(mark), CONTROLLER))


async def fan(lab: Lab, controller: Controller, *sources: Source) -> Burst:
    """Writes the sources, and measures until every namespace has its copies."""
    mark, before = lab.log.catch_up(), lab.cpu(controller.cpu())
    for source in sources:
        await lab.write(source)
    await lab.all_copied(sources, mark)
    used = lab.cpu(controller.cpu()).since(before)
    await lab.settled()
    for source in sources:
        await lab.verify(source)
    controller.check()
    names = tuple(source.name for source in sources)
    return fan_out(lab.log.since(mark), WritesOf(ADMIN, names, sources[0].resource), WritesOf(CONTROLLER, names), used)


def _shown(burst: Burst) -> str:
    cpu = burst.cpu_ms
    return (
        f"{burst.copies} copies, {burst.per_second:.0f}/s, {burst.per_copy(burst.counts.writes):.3f} writes a copy; "
        f"CPU ms a copy: server {cpu.server:.2f}, etcd {cpu.etcd:.2f}, controller {cpu.client:.2f}"
    )
