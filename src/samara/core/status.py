"""The status of a source: its conditions, and whether it must be written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from samara.core.copy_counts import CopyCounts
from samara.core.model import Object
from samara.core.source_type import Status
from samara.core.view import View


def condition(kind: str, status: bool, reason: str, message: str, generation: int) -> dict[str, object]:
    """A condition without its transition time, which `with_transition_times` adds."""
    return {
        "type": kind,
        "status": "True" if status else "False",
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
    }


def with_transition_times(
    wanted: Sequence[Mapping[str, object]], before: Sequence[Mapping[str, object]], now: str
) -> list[dict[str, object]]:
    """The wanted conditions, each with the time at which its status last changed."""
    stored = {str(old.get("type")): old for old in before}
    return [{**new, "lastTransitionTime": _transition_time(new, stored.get(str(new["type"])), now)} for new in wanted]


def status_of(source: Object) -> Mapping[str, Any]:
    """The stored status. One that is not a mapping counts as empty."""
    raw = source.status.raw if source.status is not None else None
    status = json.loads(raw) if raw is not None else {}
    return status if isinstance(status, dict) else {}


def status_to_write(
    status: Status | None, source: Object, view: View, counts: CopyCounts, now: str
) -> Mapping[str, object] | None:
    """The status that a source should have. None if it has it already, or if its source type reports none."""
    if status is None:
        return None
    before = status_of(source)
    wanted = dict(status.report(source, view, replace(counts, now=now)))
    conditions, stored = wanted.get("conditions"), before.get("conditions") or []
    if isinstance(conditions, list):
        conditions = wanted["conditions"] = [
            *with_transition_times(conditions, stored, now),
            *_foreign_conditions(status, stored),
        ]
    if status.field_manager:  # an apply removes what it leaves out, and keeps the fields of other managers
        applied = {key: value for key, value in before.items() if value}
        applied["conditions"] = _own_conditions(status, stored)
        reported = conditions if isinstance(conditions, list) else []
        is_applied = {**wanted, "conditions": _own_conditions(status, reported)} == applied
        return None if not wanted or is_applied else wanted
    return None if wanted.items() <= before.items() else wanted


def _own_conditions(status: Status, conditions: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """In one order: after an apply, that of the API server depends on what was there before."""
    own = (condition for condition in conditions if condition.get("type") in status.conditions)
    return sorted(own, key=lambda condition: str(condition.get("type")))


def _foreign_conditions(status: Status, stored: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Conditions of other controllers or versions. A patch must repeat them; an apply leaves them alone."""
    if status.field_manager or not status.conditions:
        return []
    return [condition for condition in stored if condition.get("type") not in status.conditions]


def _transition_time(wanted: Mapping[str, object], before: Mapping[str, object] | None, now: str) -> object:
    if before is not None and before.get("status") == wanted["status"]:
        return before.get("lastTransitionTime", now)
    return now
