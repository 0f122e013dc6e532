"""What a plan comes to for people: writes, what is blocked, and the removals that the brake would hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from samara.cli.session import Picture
from samara.core.allow import Reason
from samara.core.brake import must_hold
from samara.core.model import Key, Ref
from samara.core.status import status_due
from samara.core.tally import Tally
from samara.core.write import Blocked, Delete, Plan, Report, Write
from samara.engine.apply import verb
from samara.settings import Settings
from samara.vocabularies import brake_of

VERBS = ("create", "update", "recreate", "delete", "overlay", "guard", "report")
HELD = "removals wait: more than the brake lets pass at once (setting massDelete)"
_FAULTS: dict[str, Reason] = {
    "Invalid": "invalid",
    "Refused": "refused",
    "PathNotAllowed": "refused",
    "TokenError": "invalid",
    "ConnectionError": "invalid",
    "FetchError": "invalid",
}
"""Without `NoNamespace`: of that the place itself tells."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """All writes and all that is blocked, in the order of their sources."""

    writes: tuple[Write, ...]
    blocked: tuple[Blocked, ...]


def outcome(seen: Picture, settings: Settings, held: Iterable[str] = ()) -> Outcome:
    """What would be written and what not; `held` names the keys whose removals the operator holds already."""
    writes: list[Write] = []
    blocked: list[Blocked] = []
    stopped = _stopped(seen, settings, frozenset(held))
    for key, plan in seen.plans.items():
        waits = [each for each in plan.writes if _is_braked(each)] if key in stopped else []
        writes += [each for each in plan.writes if not (waits and _is_braked(each))]
        blocked += [*_faults(key, plan), *plan.blocked]
        blocked += [Blocked(key, each.ref, "held", f"{len(waits)} {HELD}") for each in waits]
        writes += _report(seen, key, plan)
    return Outcome(tuple(writes), tuple(blocked))


def _is_braked(write: Write) -> bool:
    """True for a removal that counts: what an earlier source of the name has left is the garbage collector's first."""
    return isinstance(write, Delete) and not write.late


def _report(seen: Picture, key: Key, plan: Plan) -> list[Write]:
    """A status that is not right; while something else is to be written, the operator will come to it itself."""
    source = seen.shot.cache.get(key.source)
    if source is None or not plan.ready or plan.writes:
        return []
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = status_due(seen.table[key.dialect], source, seen.shot.cache, Tally.of(plan), now)
    return [] if status is None else [Report(key, source.ref, source, status)]


def _faults(key: Key, plan: Plan) -> list[Blocked]:
    """What is wrong with a source is told at the source's own address."""
    return [
        Blocked(key, key.source, _FAULTS[each.reason], each.message) for each in plan.faults if each.reason in _FAULTS
    ]


def _stopped(seen: Picture, settings: Settings, held: frozenset[str]) -> set[Key]:
    """The keys whose deletes the brake would hold, as the operator would come to them one after the other."""
    brake = brake_of(settings)
    if brake is None:
        return set()
    has = {key: seen.shot.cache.count(key) for key in seen.plans}
    left: Counter[str] = Counter()
    for key, count in has.items():
        left[key.source.namespace] += count
    gone: Counter[str] = Counter()
    stopped: set[Key] = set()
    for key, plan in seen.plans.items():
        asked, home = sum(map(_is_braked, plan.writes)), key.source.namespace
        if not asked:
            continue
        burst = must_hold(brake, gone[home], asked, left[home])
        if str(key) in held or burst or must_hold(brake, 0, asked, has[key]):
            stopped.add(key)
        else:
            gone[home] += asked
            left[home] -= asked
    return stopped


def place(ref: Ref) -> dict[str, str]:
    return {"kind": str(ref.kind), "namespace": ref.namespace, "name": ref.name}


def shape(seen: Picture, found: Outcome) -> dict[str, Any]:
    """The promised JSON."""
    return {
        "writes": [_write(seen, each) for each in found.writes],
        "blocked": [
            {**place(each.ref), **_whose(seen, each.key), "reason": each.reason, "message": each.message}
            for each in found.blocked
        ],
        "summary": summary(found.writes, found.blocked),
    }


def _write(seen: Picture, write: Write) -> dict[str, str]:
    return {"verb": verb(write), **place(write.ref), **_whose(seen, write.key), "why": write.why}


def _whose(seen: Picture, key: Key) -> dict[str, str]:
    return {"dialect": seen.title(key), "source": key.source.path}


def summary(writes: Sequence[Write], blocked: Sequence[Blocked]) -> dict[str, int]:
    counts = Counter(verb(each) for each in writes)
    return {**{each: counts[each] for each in VERBS}, "blocked": len(blocked)}
