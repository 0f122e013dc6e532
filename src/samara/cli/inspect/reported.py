"""What only the operator knows about a write: that the API server refuses it, or that another client keeps undoing it.

The operator reports both with Events. They are read if a source still has something to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from samara.cli.session import Picture, Session
from samara.core.desired import Reason
from samara.core.model import EVENT, Key, Ref
from samara.core.writes import Apply, Blocked, Create, Outcome, Plan, Recreate, Update
from samara.engine.event_sink import KEY, NAMESPACE_COUNT, NAMESPACES, REPEAT_AFTER
from samara.kube.client import collection
from samara.kube.codec import decode
from samara.kube.errors import Forbidden

REASONS: dict[str, Reason] = {"Refused": "refused", "Fought": "fought"}
_FRESH = timedelta(seconds=REPEAT_AFTER + 60.0)
"""The operator repeats the Event of a lasting problem within this time."""


class Told(NamedTuple):
    reason: Reason
    message: str
    keys: frozenset[str] | None
    """None if the Event does not say which: an older version wrote it."""
    namespaces: frozenset[str] | None
    """None if the Event does not name all of them. Then it concerns every namespace."""

    def concerns(self, key: Key, ref: Ref) -> bool:
        is_key = self.keys is None or str(key) in self.keys
        return is_key and (self.namespaces is None or (ref.namespace or ref.name) in self.namespaces)


Source = tuple[str, str, str]


async def as_told(at: Session, seen: Picture) -> Picture:
    """The same picture, with those writes as blocked of which the operator says why they do not go through."""
    if not any(plan.writes for plan in seen.plans.values()):
        return seen
    told: dict[Source, list[Told]] = {}
    try:
        for reason in REASONS:
            for source, each in await _events(at, reason):
                told.setdefault(source, []).append(each)
    except Forbidden as fault:
        at.say(f"what the operator has told of refused writes could not be read: {fault}")
    plans = {key: _stopped(plan, told.get(_source(key.source), [])) for key, plan in seen.plans.items()}
    return replace(seen, plans=plans)


async def _events(at: Session, reason: str) -> list[tuple[Source, Told]]:
    chosen = {"fieldSelector": f"reportingComponent=samara,reason={reason}"}
    found: list[dict[str, Any]] = decode(await at.client.get(collection(EVENT), chosen))["items"]
    return [(_about(each), _read(each)) for each in found if _is_fresh(each)]


def _is_fresh(event: dict[str, Any]) -> bool:
    try:
        said = datetime.fromisoformat(str(event.get("lastTimestamp")))
    except ValueError:
        return False
    return datetime.now(UTC) - said <= _FRESH


def _read(event: dict[str, Any]) -> Told:
    annotations = event.get("metadata", {}).get("annotations") or {}
    keys = frozenset(annotations[KEY].split(",")) if KEY in annotations else None
    message = str(event.get("message") or "")
    return Told(REASONS[event["reason"]], message, keys, _namespaces(annotations))


def _namespaces(annotations: Mapping[str, str]) -> frozenset[str] | None:
    """Anybody who may write Events can write these annotations, so they may be anything."""
    try:
        names = msgspec.json.decode(annotations.get(NAMESPACES, "[]"), type=list[str])
    except msgspec.MsgspecError:
        return None
    return frozenset(names) if names and annotations.get(NAMESPACE_COUNT) == str(len(names)) else None


def _about(event: dict[str, Any]) -> Source:
    about = event.get("involvedObject") or {}
    return about.get("kind", ""), about.get("namespace", ""), about.get("name", "")


def _source(ref: Ref) -> Source:
    return ref.kind.name, ref.namespace, ref.name


def _stopped(plan: Plan, told: list[Told]) -> Plan:
    """The steps keep their rules: the operator wants to write, and the Event says why it cannot."""
    return replace(plan, steps=tuple(step._replace(outcome=_unless_stopped(step.outcome, told)) for step in plan.steps))


def _unless_stopped(outcome: Outcome, told: list[Told]) -> Outcome:
    if not isinstance(outcome, Create | Update | Recreate | Apply):
        return outcome
    why = next((each for each in told if each.concerns(outcome.key, outcome.ref)), None)
    return outcome if why is None else Blocked(outcome.key, outcome.ref, why.reason, why.message)
