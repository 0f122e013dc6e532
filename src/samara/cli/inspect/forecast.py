"""All that follows from a cluster as it was seen: its plans, laid over it and made again until nothing is to write."""

from __future__ import annotations

from collections.abc import Iterator

from samara.cli.inspect.outcome import Outcome, of_key
from samara.cli.inspect.simulate import lay
from samara.cli.session import Picture, Session, planned
from samara.core.model import NAMESPACE, Key
from samara.core.writes import Blocked, Delete, Step, Write
from samara.engine.process import utc_now

ROUNDS = 60
"""A finalizer, an object, its labels and a status are four; a tree has as many more as it is deep."""


async def forecast(at: Session, seen: Picture) -> Outcome:
    """What the operator would write from here on, and what is blocked at the end of it.

    The picture's cache becomes what the cluster would be; nothing is sent.
    """
    holds = await at.brake()
    writes: dict[Key, list[Step]] = {}
    blocked: dict[Key, list[Step]] = {}
    plans = seen.plans
    for _ in range(ROUNDS):
        found = {key: of_key(seen, holds, key, plan) for key, plan in plans.items()}
        blocked |= {
            key: [step for step in each.steps if isinstance(step.outcome, Blocked)] for key, each in found.items()
        }
        due = [write for each in found.values() for write in each.writes]
        if not due:
            break
        for key, each in found.items():
            if each.writes:
                writes.setdefault(key, []).extend(step for step in each.steps if isinstance(step.outcome, Write))
        plans = await planned(at, seen.shot, _laid(seen, due))
    else:
        at.say(f"the plan does not settle: after {ROUNDS} steps something is still to be written; the rest is left out")
    sent = tuple(step for steps in writes.values() for step in steps)
    return Outcome((*sent, *_lasting(blocked, sent)))


def _laid(seen: Picture, due: list[Write]) -> set[Key]:
    """Lays the writes over the picture; returns what has to be planned again."""
    cache, now = seen.shot.cache, utc_now()
    woken = {key for write in due for key in lay(cache, write, now)}
    return {key for key in woken if not cache.is_idle(key)}


def _lasting(blocked: dict[Key, list[Step]], sent: tuple[Step, ...]) -> Iterator[Step]:
    """Without the places in namespaces that are deleted here: nobody wonders why nothing comes there."""
    gone = {step.ref.name for step in sent if isinstance(step.outcome, Delete) and step.ref.kind == NAMESPACE}
    for step in (step for key in sorted(blocked, key=str) for step in blocked[key]):
        if not (
            isinstance(step.outcome, Blocked) and step.outcome.reason == "no-namespace" and step.ref.namespace in gone
        ):
            yield step
