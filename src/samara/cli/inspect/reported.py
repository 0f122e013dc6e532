"""Reads what only the operator knows, from its Events and from the status of sources.

Events say which writes the API server refuses, and which copies another client keeps changing. The condition Ready says
what the secret manager has, if this machine cannot read it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, NamedTuple

import msgspec

from samara.cli.output import progress
from samara.cli.session import Session
from samara.core.desired import Fault, Reason
from samara.core.model import EVENT, Key, Object, Ref
from samara.core.queries import SecretPath, SecretReading
from samara.core.registry import Registry
from samara.core.status import status_of
from samara.core.view import View
from samara.core.vocabulary import declared_reasons
from samara.core.writes import Apply, Blocked, Create, Outcome, Plan, ReadFirst, Recreate, Update
from samara.engine.event_sink import KEY, NAMESPACE_COUNT, NAMESPACES, REPEAT_AFTER
from samara.engine.process import utc_timestamp
from samara.kube.client import Client, collection
from samara.kube.codec import decode
from samara.kube.errors import Forbidden
from samara.vocabularies import VOCABULARIES

REASONS: dict[str, Reason] = {"Refused": "refused", "Fought": "fought"}
STORE_FAULTS = frozenset(reason for reason, info in declared_reasons(VOCABULARIES).items() if info.is_of_secret_manager)
"""The reasons of faults of the secret manager and of its configuration."""
_FRESH = timedelta(seconds=REPEAT_AFTER + 60.0)
"""The operator repeats the Event of a lasting problem within this time."""
_UNREAD_HERE = "could not be read from here, and the operator has not reported yet what it reads"


class Reported(NamedTuple):
    """A problem that the operator has reported with an Event."""

    reason: Reason
    message: str
    keys: frozenset[str] | None
    """None if the Event does not name keys. Older versions wrote such Events."""
    namespaces: frozenset[str] | None
    """None if the Event does not name all of them. Then it concerns every namespace."""

    def concerns(self, key: Key, ref: Ref) -> bool:
        """True if the problem is about this copy of this source."""
        concerns_key = self.keys is None or str(key) in self.keys
        return concerns_key and (self.namespaces is None or ref.namespace_or_name in self.namespaces)


Source = tuple[str, str, str]
"""Kind, namespace and name: how an Event names the object that it is about."""


async def merge_reported(session: Session, plans: dict[Key, Plan]) -> dict[Key, Plan]:
    """The plans, with writes as blocked if the operator has reported that they fail or are undone."""
    if not any(plan.writes for plan in plans.values()):
        return plans
    reported: dict[Source, list[Reported]] = {}
    try:
        for reason in REASONS:
            for source, problem in await _read_events(session, reason):
                reported.setdefault(source, []).append(problem)
    except Forbidden as fault:
        session.note_once(f"what the operator has reported about refused writes could not be read: {fault}")
    return {key: _block_reported(plan, reported.get(_source(key.source), [])) for key, plan in plans.items()}


async def _read_events(session: Session, reason: str) -> list[tuple[Source, Reported]]:
    selector = {"fieldSelector": f"reportingComponent=samara,reason={reason}"}
    events: list[dict[str, Any]] = decode(await session.client.get(collection(EVENT), selector))["items"]
    return [(_involved_object(event), _parse_event(event)) for event in events if _is_fresh(event)]


def _is_fresh(event: dict[str, Any]) -> bool:
    try:
        last = datetime.fromisoformat(str(event.get("lastTimestamp")))
    except ValueError:
        return False
    return datetime.now(UTC) - last <= _FRESH


def _parse_event(event: dict[str, Any]) -> Reported:
    annotations = event.get("metadata", {}).get("annotations") or {}
    keys = frozenset(annotations[KEY].split(",")) if KEY in annotations else None
    message = str(event.get("message") or "")
    return Reported(REASONS[event["reason"]], message, keys, _namespaces(annotations))


def _namespaces(annotations: Mapping[str, str]) -> frozenset[str] | None:
    """The namespaces that an Event names, if it names all of them.

    Any client that may write Events can write these annotations, so their values may be anything.
    """
    try:
        names = msgspec.json.decode(annotations.get(NAMESPACES, "[]"), type=list[str])
    except msgspec.MsgspecError:
        return None
    return frozenset(names) if names and annotations.get(NAMESPACE_COUNT) == str(len(names)) else None


def _involved_object(event: dict[str, Any]) -> Source:
    involved = event.get("involvedObject") or {}
    return involved.get("kind", ""), involved.get("namespace", ""), involved.get("name", "")


def _source(ref: Ref) -> Source:
    return ref.kind.name, ref.namespace, ref.name


def _block_reported(plan: Plan, problems: list[Reported]) -> Plan:
    """The steps keep their rules: the operator wants to write, and the Event says why it cannot."""
    steps = (step._replace(outcome=_outcome_with_reported(step.outcome, problems)) for step in plan.steps)
    return replace(plan, steps=tuple(steps))


def _outcome_with_reported(outcome: Outcome, problems: list[Reported]) -> Outcome:
    if not isinstance(outcome, Create | Update | Recreate | Apply):
        return outcome
    problem = next((problem for problem in problems if problem.concerns(outcome.key, outcome.ref)), None)
    return outcome if problem is None else Blocked(outcome.key, outcome.ref, problem.reason, problem.message)


# the secret manager


class ReadyCondition(NamedTuple):
    """The condition Ready of a source."""

    is_ready: bool
    reason: str
    message: str


async def read_secret_paths(
    client: Client, config: Ref, own_namespace: str, note_unread: Callable[[str], None], paths: Collection[SecretPath]
) -> dict[str, SecretReading]:
    """Reads these paths once, from this machine and with the caller's rights.

    The operator takes a path for empty only after it was not found twice. A command reads once, so here one answer is
    enough.
    """
    from samara.secretstores.config import read_once  # late, because most answers need no secret manager

    with progress() as show_progress:
        show_progress("reading the secret manager")
        first = await read_once(client, config, own_namespace, paths, utc_timestamp)
    readings = {
        path: replace(reading, absent_for=inf) if reading.not_found else reading for path, reading in first.items()
    }
    faults = [reading.fault for reading in readings.values() if reading.fault is not None and not reading.not_found]
    if faults:
        note_unread(
            f"the secret manager could not be read from here, so this is the operator's report: {faults[0].message}"
        )
    return readings


def is_unread(key: Key, view: View, registry: Registry) -> bool:
    """True if a path of the source could not be read from here. A path that was not found has been read."""
    queries = registry[key.source_type].desired(key.source, view).reads
    answers = [view.answer(query) for query in queries if isinstance(query, SecretPath)]
    readings = [answer for answer in answers if isinstance(answer, SecretReading)]
    return any(reading.fault is not None and not reading.not_found for reading in readings)


def reported_ready(source: Object | None) -> ReadyCondition | None:
    """The operator's condition for the present generation of a source. None if there is none yet."""
    if source is None:
        return None
    conditions = [condition for condition in status_of(source).get("conditions") or () if isinstance(condition, dict)]
    ready = next((condition for condition in conditions if condition.get("type") == "Ready"), {})
    if ready.get("observedGeneration") != source.generation:
        return None
    return ReadyCondition(ready.get("status") == "True", str(ready.get("reason", "")), str(ready.get("message", "")))


def with_operator_readings(key: Key, plan: Plan, view: View, registry: Registry) -> Plan:
    """The plan with what the operator reports of the secret manager, if a path could not be read from here."""
    store_faults = [fault for fault in plan.faults if fault.reason in STORE_FAULTS]
    if not store_faults:
        return plan
    fault: Fault | None = store_faults[0]
    if is_unread(key, view, registry):
        ready = reported_ready(view.get(key.source))
        unreported = store_faults[0]._replace(message=f"{store_faults[0].message}; it {_UNREAD_HERE}")
        fault = unreported if ready is None else _store_fault(ready)
    others = tuple(other for other in plan.faults if other not in store_faults)
    steps = tuple(step._replace(outcome=_outcome_with_fault(step.outcome, fault)) for step in plan.steps)
    return replace(plan, steps=steps, faults=(*(() if fault is None else (fault,)), *others))


def _store_fault(ready: ReadyCondition) -> Fault | None:
    """The fault of the secret manager that the operator has reported. None if it could read."""
    return None if ready.is_ready or ready.reason not in STORE_FAULTS else Fault(ready.reason, ready.message)


def _outcome_with_fault(outcome: Outcome, fault: Fault | None) -> Outcome:
    """A copy without content is blocked by the fault. Without a fault, the content must be read first."""
    if not isinstance(outcome, Blocked) or outcome.reason != "invalid":
        return outcome
    return ReadFirst(outcome.ref) if fault is None else outcome._replace(reason="refused", message=fault.message)
