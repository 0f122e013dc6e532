"""Conditions in the style of Kubernetes, which keep their transition time while their status stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


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


def _since(wanted: Mapping[str, object], before: Mapping[str, object] | None, now: str) -> object:
    if before is not None and before.get("status") == wanted["status"]:
        return before.get("lastTransitionTime", now)
    return now
