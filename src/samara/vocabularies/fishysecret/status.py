"""The status of a FishySecret: whether its Secret is in sync, and when that was last checked."""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from samara.core.copy_counts import CopyCounts
from samara.core.desired import in_camel_case
from samara.core.model import Object
from samara.core.status import condition, status_of
from samara.vocabularies.fishysecret.values import Values

READY = "Ready"
SYNCED = "lastSyncedTime"
MIN_STATUS_INTERVAL = 5.0
"""Least seconds between two status writes of a Secret that stays in sync. A shorter interval in the settings wins."""
_SKEW = 60
"""Seconds by which the clocks of two replicas may differ."""
ADVICE: Mapping[str, str] = {
    "conflict": "remove or rename what is there, or choose another target",
    "no-namespace": "the Secret follows once the namespace is there",
    "refused": "choose another target or ask an administrator; it is tried again now and then",
    "not-accepted": "ask whoever may edit that namespace, or choose another target",
    "invalid": "correct what the spec says",
    "held": "it goes on when the hold ends",
    "fought": "find out who else writes this Secret",
}
"""By reason why the Secret is blocked."""
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


class Condition(NamedTuple):
    """The condition `Ready`, before it is written."""

    is_ready: bool
    reason: str
    message: str


SUSPENDED = Condition(False, "Suspended", "spec.suspend is true: nothing is read or written, and what is there stays")
IS_SYNCED = Condition(True, "SecretSynced", "Secret successfully synced")


def outcome(values: Values, counts: CopyCounts) -> Condition | None:
    """The condition of a FishySecret with a valid spec. None until all paths are read and the Secret is written."""
    if not values.is_read:
        return None
    if values.faults:
        return Condition(False, values.faults[0].reason, values.faults[0].message)
    return _blocked(counts) or (IS_SYNCED if counts.wanted and not counts.pending else None)


def _blocked(counts: CopyCounts) -> Condition | None:
    for reason, copies in counts.by_reason().items():
        for ref, problem in copies.items():
            return _not_ready(reason, f"{ref}: {problem.shown(ref)}")
    return removal_condition(counts)


def removal_condition(counts: CopyCounts) -> Condition | None:
    """The condition for a Secret that cannot be deleted: that of an earlier target, or of a terminating FishySecret."""
    for ref, problem in counts.removals.items():
        return _not_ready(problem.reason, f"{ref} should go and does not: {problem.shown(ref)}")
    return None


def _not_ready(reason: str, message: str) -> Condition:
    return Condition(False, in_camel_case(reason), f"{message}; {ADVICE[reason]}")


def status(obj: Object, ready: Condition, synced: str) -> Mapping[str, object]:
    conditions = [condition(READY, ready.is_ready, ready.reason, ready.message, obj.generation)]
    return {"conditions": conditions, **({SYNCED: synced} if synced else {})}


def synced_at(obj: Object, ready: Condition, counts: CopyCounts, read_at: str, interval: float | None) -> str:
    """The new `lastSyncedTime`. It stays until the Secret changes or `interval` seconds pass. None: until a change."""
    reported = status_of(obj)
    stored = _time(reported.get(SYNCED))
    if not ready.is_ready:
        return stored
    stored, written, read_at = (_unless_ahead(time, counts.now) for time in (stored, counts.last_written, read_at))
    latest = max(stored, written)
    if not stored or not _was_ready(reported) or (interval is not None and _is_over(stored, read_at, interval)):
        return max(latest, read_at)
    return latest


def _unless_ahead(time: str, now: str) -> str:
    """The time, or empty if it is in the future: the clock that took it was wrong."""
    return "" if _time(time) and _time(now) and _seconds(time) > _seconds(now) + _SKEW else time


def _was_ready(reported: Mapping[str, Any]) -> bool:
    conditions = reported.get("conditions") or ()
    return any(stored.get("type") == READY and stored.get("status") == "True" for stored in conditions)


def is_reported(obj: Object) -> bool:
    """True if the stored condition is about the current generation."""
    conditions = status_of(obj).get("conditions") or ()
    return any(
        stored.get("type") == READY and stored.get("observedGeneration") == obj.generation for stored in conditions
    )


def was_synced(obj: Object) -> bool:
    """True if the Secret has been in sync once."""
    return bool(_time(status_of(obj).get(SYNCED)))


def _time(value: object) -> str:
    """The time, or empty if it is not in the format that Samara writes: a person may edit the status."""
    return value if isinstance(value, str) and _TIME.fullmatch(value) else ""


def _is_over(since: str, now: str, interval: float) -> bool:
    """True if the interval has passed. A read that comes a little early does not count; the next one does."""
    return bool(_time(now)) and _seconds(now) - _seconds(since) >= interval


def _seconds(time: str) -> int:
    return calendar.timegm(tuple(map(int, re.split("[-T:Z]", time)[:6])))
