"""Measures fills and changes alternately with the bare client, since the speed of a machine varies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from samara_devtools.bench.audit import agents, of_user
from samara_devtools.bench.baseline import UPDATES, Baseline
from samara_devtools.bench.controller import Controller
from samara_devtools.bench.figures import Burst, WritesOf, fan_out, ratios
from samara_devtools.bench.lab import ADMIN, CONTROLLER, Lab, say
from samara_devtools.bench.secrets import Source


@dataclass(slots=True)
class FanOuts:
    baseline: Baseline = field(default_factory=Baseline)
    fills: list[Burst] = field(default_factory=list)
    changes: list[Burst] = field(default_factory=list)
    agents: tuple[str, ...] = ()
    """The user agents of the controller."""

    def bursts(self, kind: int) -> list[Burst]:
        """A fill creates copies, and a change updates them."""
        return self.changes if kind == UPDATES else self.fills

    def ratios_to_bare(self, kind: int, figure_of: Callable[[Burst], float]) -> list[float]:
        """A figure of each burst over that of the bare client just before and just after it."""
        bare = [figure_of(pair[kind]) for pair in self.baseline.rounds]
        return ratios([figure_of(burst) for burst in self.bursts(kind)], bare)


async def measure_fan_outs(lab: Lab) -> FanOuts:
    fan_outs = FanOuts()
    await fan_outs.baseline.choose(lab)
    await fan_outs.baseline.measure_round(lab)
    for number in range(1, lab.options.rounds + 1):
        names = [f"round-{number}-{resource}" for resource in range(lab.options.resources)]
        await _fill_and_change(lab, fan_outs, [lab.source(name) for name in names])
        await fan_outs.baseline.measure_round(lab)
    return fan_outs


async def _fill_and_change(lab: Lab, fan_outs: FanOuts, sources: list[Source]) -> None:
    mark = lab.log.catch_up()
    async with lab.ready() as controller:
        fan_outs.fills.append(await run_fan_out(lab, controller, *sources))
        say(f"fill: {_shown(fan_outs.fills[-1])}")
        if lab.options.wants("change"):
            fan_outs.changes.append(await run_fan_out(lab, controller, *(source.changed() for source in sources)))
            say(f"change: {_shown(fan_outs.changes[-1])}")
    fan_outs.agents = agents(of_user(lab.log.since(mark), CONTROLLER))


async def run_fan_out(lab: Lab, controller: Controller, *sources: Source) -> Burst:
    """Writes the sources, and measures until every namespace has its copies. Fails if a copy is wrong."""
    mark, before = lab.log.catch_up(), lab.cpu(controller.cpu())
    for source in sources:
        await lab.write(source)
    for source in sources:
        await lab.wait_copied(source, mark)
    used = lab.cpu(controller.cpu()).since(before)
    await lab.wait_settled()
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
