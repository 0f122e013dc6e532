"""What the secret manager says from here, and what the operator says of it where nothing can be read from here."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple

from samara.cli.output import progress
from samara.core.desired import Fault
from samara.core.model import Key, Object, Ref
from samara.core.queries import SecretPath, SecretReading
from samara.core.registry import Registry
from samara.core.status import status_of
from samara.core.view import View
from samara.core.writes import Blocked, Outcome, Plan, ReadFirst
from samara.engine.process import utc_now
from samara.kube.client import Client
from samara.secretstores.config import read_once

FAULTS: Final = ("TokenError", "ConnectionError", "FetchError")
"""The reasons of a condition that are the secret manager's, or its configuration's."""
FROM_HERE = "could not be read from here, and the operator has not said yet what it gets"


class Told(NamedTuple):
    """The condition Ready."""

    ready: bool
    reason: str
    message: str


async def readings(
    client: Client, config: Ref, say: Callable[[str], None], paths: Collection[SecretPath]
) -> dict[str, SecretReading]:
    """What is at these paths now, with the rights and from the place of whoever asks.

    The operator believes that there is nothing at a path when it has been told so twice; who asks once believes it now.
    """
    with progress() as doing:
        doing("reading the secret manager")
        found = await read_once(client, config, paths, utc_now)
    told = {path: replace(each, missing=inf) if each.not_found else each for path, each in found.items()}
    unread = [each.fault for each in told.values() if each.fault is not None and not each.not_found]
    if unread:
        say(f"the secret manager could not be read from here, so what the operator says counts: {unread[0].message}")
    return told


def is_unread(key: Key, view: View, registry: Registry) -> bool:
    """True where a path of a source was not readable from here; that the manager has nothing there is an answer."""
    reads = registry[key.source_type].desired(key.source, view).reads
    paths = (read for read in reads if isinstance(read, SecretPath))
    found = [each for each in map(view.answer, paths) if isinstance(each, SecretReading)]
    return any(each.fault is not None and not each.not_found for each in found)


def told_by_operator(source: Object | None) -> Told | None:
    """What the operator says of a source as it is now; None where it has said nothing yet."""
    if source is None:
        return None
    conditions = [each for each in status_of(source).get("conditions") or () if isinstance(each, dict)]
    ready = next((each for each in conditions if each.get("type") == "Ready"), {})
    if ready.get("observedGeneration") != source.generation:
        return None
    return Told(ready.get("status") == "True", str(ready.get("reason", "")), str(ready.get("message", "")))


def corrected(key: Key, plan: Plan, view: View, registry: Registry) -> Plan:
    """A plan that does not take for the operator's trouble what is only ours: that we cannot read its manager."""
    ours = [fault for fault in plan.faults if fault.reason in FAULTS]
    if not ours:
        return plan
    told = told_by_operator(view.get(key.source))
    cause: Fault | None = ours[0]
    if is_unread(key, view, registry):
        unsaid = ours[0]._replace(message=f"{ours[0].message}; it {FROM_HERE}")
        cause = unsaid if told is None else _fault(told)
    others = tuple(fault for fault in plan.faults if fault not in ours)
    return replace(_explained(plan, cause), faults=(*((cause,) if cause is not None else ()), *others))


def _fault(told: Told) -> Fault | None:
    """What the operator cannot read, in its own words."""
    reason = next((each for each in FAULTS if each == told.reason), None)
    return None if told.ready or reason is None else Fault(reason, told.message)


def _explained(plan: Plan, cause: Fault | None) -> Plan:
    """Of a place whose content is not known: the cause, or that it is to be seen."""
    return replace(plan, steps=tuple(step._replace(outcome=_known(step.outcome, cause)) for step in plan.steps))


def _known(outcome: Outcome, cause: Fault | None) -> Outcome:
    if not isinstance(outcome, Blocked) or outcome.reason != "invalid":
        return outcome
    return ReadFirst(outcome.ref) if cause is None else outcome._replace(reason="refused", message=cause.message)
