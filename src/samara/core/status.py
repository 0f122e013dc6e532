"""Conditions in the style of Kubernetes, which keep their transition time while their status stays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from samara.core.model import Object
from samara.core.tally import Tally
from samara.core.view import View
from samara.core.want import Dialect


def condition(kind: str, status: bool, reason: str, message: str, generation: int) -> dict[str, object]:
    """A condition without its transition time, which `settled` adds."""
    return {
        "type": kind,
        "status": "True" if status else "False",
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
    }


def settled(
    wanted: Sequence[Mapping[str, object]], before: Sequence[Mapping[str, object]], now: str
) -> list[dict[str, object]]:
    """The wanted conditions, each with the time at which its status last changed."""
    known = {str(each.get("type")): each for each in before}
    return [{**each, "lastTransitionTime": _since(each, known.get(str(each["type"])), now)} for each in wanted]


def status_of(source: Object) -> Mapping[str, Any]:
    """The status as it is stored; an odd one counts as none."""
    raw = source.status.raw if source.status is not None else None
    found = json.loads(raw) if raw is not None else {}
    return found if isinstance(found, dict) else {}


def status_due(dialect: Dialect, source: Object, view: View, tally: Tally, now: str) -> Mapping[str, object] | None:
    """The status that a source should have; None where it has it, or where the dialect reports none."""
    if dialect.report is None:
        return None
    before = status_of(source)
    wanted = dict(dialect.report(source, view, replace(tally, now=now)))
    conditions, stored = wanted.get("conditions"), before.get("conditions") or []
    if isinstance(conditions, list):
        wanted["conditions"] = [*settled(conditions, stored, now), *_others(dialect, stored)]
    if dialect.reporter:  # applied: what is not said goes, and what others say stays
        ours = [each for each in stored if each.get("type") in dialect.conditions]
        told = {key: value for key, value in {**before, "conditions": ours}.items() if value}
        return None if not wanted or wanted == told else wanted
    return None if wanted.items() <= before.items() else wanted


def _others(dialect: Dialect, stored: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Conditions that are not ours to take away: of another controller, or of another version of ours."""
    if dialect.reporter or not dialect.conditions:  # what is applied leaves them alone by itself
        return []
    return [each for each in stored if each.get("type") not in dialect.conditions]


def _since(wanted: Mapping[str, object], before: Mapping[str, object] | None, now: str) -> object:
    if before is not None and before.get("status") == wanted["status"]:
        return before.get("lastTransitionTime", now)
    return now
