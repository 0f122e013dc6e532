"""The status of a FishySecret: one condition that says whether its Secret is right, and when that was last known."""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from samara.core.copy_counts import CopyCounts
from samara.core.model import Object
from samara.core.status import condition, status_of
from samara.vocabularies.fishysecret.values import Values

READY = "Ready"
SYNCED = "lastSyncedTime"
MIN_STATUS_INTERVAL = 5.0
"""Seconds at least between two reports that only say that all is still well, unless the settings' interval is less."""
_SKEW = 60
"""The clocks of two replicas may differ a little, in seconds."""
_WORDS = {
    "conflict": ("Conflict", "remove or rename what is there, or choose another target"),
    "no-namespace": ("NoNamespace", "the Secret follows once the namespace is there"),
    "refused": ("Refused", "choose another target or ask an administrator; it is tried again now and then"),
    "not-accepted": ("NotAccepted", "ask whoever may edit that namespace, or choose another target"),
    "invalid": ("Invalid", "correct what the spec says"),
    "held": ("Held", "it goes on when the hold ends"),
    "fought": ("Fought", "find out who else writes this Secret"),
}
ADVICE = {reason: advice for reason, (_, advice) in _WORDS.items()}
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


class Condition(NamedTuple):
    """A condition in the making."""

    ready: bool
    reason: str
    message: str


SUSPENDED = Condition(False, "Suspended", "spec.suspend is true: nothing is read or written, and what is there stays")
IS_SYNCED = Condition(True, "SecretSynced", "Secret successfully synced")


def outcome(values: Values, tally: CopyCounts) -> Condition | None:
    """What became of a spec that can be served; None while that is not known."""
    if not values.read:
        return None
    if values.faults:
        return Condition(False, values.faults[0].reason, values.faults[0].message)
    return _blocked(tally) or (IS_SYNCED if tally.wanted and not tally.pending else None)


def _blocked(tally: CopyCounts) -> Condition | None:
    for reason, places in tally.by_reason().items():
        for ref, missing in places.items():
            return _told(reason, f"{ref}: {missing.shown(ref)}")
    return removal_condition(tally)


def removal_condition(tally: CopyCounts) -> Condition | None:
    """What is to be told of a Secret that should go and does not: of the target of before, or at the very end."""
    for ref, missing in tally.removals.items():
        return _told(missing.reason, f"{ref} should go and does not: {missing.shown(ref)}")
    return None


def _told(reason: str, message: str) -> Condition:
    word, advice = _WORDS[reason]
    return Condition(False, word, f"{message}; {advice}")


def status(obj: Object, told: Condition, synced: str) -> Mapping[str, object]:
    conditions = [condition(READY, told.ready, told.reason, told.message, obj.generation)]
    return {"conditions": conditions, **({SYNCED: synced} if synced else {})}


def synced_at(obj: Object, told: Condition, tally: CopyCounts, read_at: str, interval: float | None) -> str:
    """When the Secret was last known to be right. Without an interval only a change is worth a write."""
    before = status_of(obj)
    stored = _time(before.get(SYNCED))
    if not told.ready:
        return stored
    stored, landed, read_at = (_unless_ahead(time, tally.now) for time in (stored, tally.last_written, read_at))
    latest = max(stored, landed)
    if not stored or not _was_ready(before) or (interval is not None and _is_over(stored, read_at, interval)):
        return max(latest, read_at)
    return latest


def _unless_ahead(time: str, now: str) -> str:
    """Nothing in place of a time that has not come yet: some clock was wrong when it was taken."""
    return "" if _time(time) and _time(now) and _seconds(time) > _seconds(now) + _SKEW else time


def _was_ready(before: Mapping[str, Any]) -> bool:
    found = before.get("conditions") or ()
    return any(each.get("type") == READY and each.get("status") == "True" for each in found)


def is_reported(obj: Object) -> bool:
    """True where the condition is about the spec as it is now."""
    found = status_of(obj).get("conditions") or ()
    return any(each.get("type") == READY and each.get("observedGeneration") == obj.generation for each in found)


def was_synced(obj: Object) -> bool:
    """True where its Secret has been right once."""
    return bool(_time(status_of(obj).get(SYNCED)))


def _time(found: object) -> str:
    """Nothing in place of a time that nobody but a person can have written so."""
    return found if isinstance(found, str) and _TIME.fullmatch(found) else ""


def _is_over(since: str, now: str, interval: float) -> bool:
    """A read may come a little early: then the next one tells, so that nobody is told twice in an interval."""
    return bool(_time(now)) and _seconds(now) - _seconds(since) >= interval


def _seconds(time: str) -> int:
    return calendar.timegm(tuple(map(int, re.split("[-T:Z]", time)[:6])))
