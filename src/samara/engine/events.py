"""Decides what is reported about plans and writes: which Event, on which object, with which message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from samara.core.copy_counts import CopyCounts, NotInSync
from samara.core.desired import Desired, Fault
from samara.core.model import NO_METADATA, Key, Object, Ref, namespace_ref
from samara.core.source_type import SourceType
from samara.core.writes import Apply, Create, Delete, Recreate, Release, Update, Write
from samara.engine.event_sink import REVERTED, EventSink
from samara.engine.mass_delete import HeldSet
from samara.kube.cache import Cache

INTERVAL = 1.0
_MAX_HOPS = 100
"""Hops of a chain that are followed to its first source. A chain may be a loop."""
_MAX_MESSAGES = 3
"""Different messages that one Event shows."""
_REASONS = {
    "conflict": "Conflict",
    "refused": "Refused",
    "not-accepted": "NotAccepted",
    "invalid": "Invalid",
    "held": "Held",
    "fought": "Fought",
}
_DONE = {
    Create: ("Copied", "copied"),
    Update: ("Updated", "put right"),
    Recreate: ("Updated", "made anew"),
    Delete: ("Removed", "removed"),
    Release: ("Removed", "given back without our marks"),
}


def _namespace_name(ref: Ref) -> str:
    """The namespace of an object, or the namespace itself."""
    return ref.namespace or ref.name


class _Problem(NamedTuple):
    """Why a source cannot be served, in some namespaces or, for a fault of the source itself, in none."""

    key: Key
    namespaces: set[str]
    messages: tuple[str, ...]
    advice: str = ""


class EventRecorder:
    """Collects what plans and writes report, and once a second turns it into Events."""

    def __init__(self, sink: EventSink, cache: Cache) -> None:
        self._sink = sink
        self._cache = cache
        self._due: dict[Key, CopyCounts] = {}
        self._faults: dict[Key, tuple[Fault, ...]] = {}
        self._held: dict[Key, HeldSet] = {}
        self._lasting: dict[Ref, dict[Key, CopyCounts]] = {}
        """The keys with problems, by the object that carries their Events. Several vocabularies may copy one source."""
        self._reported: dict[Ref, frozenset[str]] = {}
        """The reasons that were reported on each object the last time."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            await self.flush()

    async def flush(self) -> None:
        """Sends what has been collected since the last time."""
        self._gather()
        await self._sink.flush()

    def wrote(self, write: Write) -> None:
        """Reports a successful write at the first source of its chain."""
        done = _DONE.get(type(write))
        source = self._first(write.key) if done is not None else None
        if done is not None and source is not None:
            (reason, message), key = done, Key(write.key.source_type, source)
            self._sink.add(self._about(source), reason, [key], {_namespace_name(write.ref)}, message)

    def _first(self, key: Key) -> Ref | None:
        """The source at which a chain begins, so that a tree has one Event. None if it is not in the cache."""
        source_type, ref = self._cache.registry[key.source_type], key.source
        for _ in range(_MAX_HOPS):
            previous = self._previous_hop(ref, source_type)
            if previous is None:
                return ref if ref == key.source or self._cache.get(ref) is not None else None
            ref = previous
        return None

    def _previous_hop(self, ref: Ref, source_type: SourceType) -> Ref | None:
        """The source of a copy that is itself a source. A copy that was created once need not name it."""
        hierarchy = source_type.hierarchy
        if hierarchy is None or hierarchy.parent is None:
            return None
        have, namespace = self._cache.get(ref), self._cache.get(namespace_ref(ref.namespace))
        if have is None or namespace is None or not have.known_copy:
            return None
        origin = source_type.ownership.source_of(have, self._cache)
        above = ref._replace(namespace=hierarchy.parent(namespace))
        found = self._cache.get(above)
        return origin or (above if found is not None and source_type.is_source(found, self._cache) else None)

    def blocked(self, write: Write, reason: str, message: str) -> None:
        """Reports a problem with a write to an object that is no copy, which no counts counts."""
        self._sink.add(self._about(write.key.source), reason, [write.key], {_namespace_name(write.ref)}, message)

    def reverted(self, write: Write, who: str) -> None:
        """Reports at the copy that a change was reverted, so that the person who made it finds out."""
        by = f" after {who} changed it" if who else ""
        said = "is inherited here" if isinstance(write, Apply) else f"{write.key.source} says"
        now = self._cache.get(write.ref)
        self._sink.add(now or write.ref, REVERTED, [write.key], set(), f"put back to what {said}{by}")

    def planned(self, key: Key, want: Desired, counts: CopyCounts, hold: HeldSet | None) -> None:
        """Takes the result of a plan. A slice cannot tell whether the source itself is faulty."""
        self.due(key.all_namespaces, counts)
        self._held.pop(key.all_namespaces, None)
        if hold is not None:
            self._held[key.all_namespaces] = hold
        if key.namespace is None:
            self._faults.pop(key, None)
            if want.faults:
                self._faults[key] = want.faults

    def due(self, key: Key, counts: CopyCounts) -> None:
        """Notes that the problems of a key may have changed."""
        self._due[key] = counts

    def _gather(self) -> None:
        """Checks each object on which a problem may have changed, or is to be reported again."""
        # A lasting problem may never be planned again, or may have ended without a plan.
        places = {place for place, reason in self._sink.due() if reason in self._reported.get(place, ())}
        for key, counts in self._due.items():
            about = self._about(key.source)
            place = about.ref if isinstance(about, Object) else about
            self._lasting.setdefault(place, {})[key] = counts
            places.add(place)
            for other in {key.source, namespace_ref(key.source.namespace)} - {
                place
            }:  # the source appeared or disappeared
                if self._lasting.get(other, {}).pop(key, None) is not None:
                    places.add(other)
        self._due.clear()
        for place in places:
            self._report(place)

    def _report(self, place: Ref) -> None:
        """Reports the problems of all keys whose Events are on one object: one Event per reason."""
        all_counts = self._lasting.pop(place)
        found = {key: tuple(self._problems(key, all_counts[key])) for key in sorted(all_counts)}
        lasting = {key: all_counts[key] for key, problems in found.items() if problems}
        about, now = self._cache.get(place) or place, _merged(chain.from_iterable(found.values()))
        for reason, problems in now.items():
            self._sink.add(about, reason, [problem.key for problem in problems], *_summary(problems))
        for reason in self._reported.pop(place, frozenset()) - now.keys():
            self._sink.clear(about, reason)
        if lasting:
            self._lasting[place], self._reported[place] = lasting, frozenset(now)

    def _problems(self, key: Key, counts: CopyCounts) -> Iterator[tuple[str, _Problem]]:
        """The problems of one key, each with the reason of its Event."""
        status = self._cache.registry[key.source_type].status
        advice = status.advice if status is not None else NO_METADATA
        faults = _by_reason(self._faults.get(key, ()))  # a fault of the source explains its missing copies
        for reason, message in faults.items():
            yield reason, _Problem(key, set(), (message,))
        for reason, found in counts.problems().items():
            if reason in _REASONS and _REASONS[reason] not in faults and not (faults and reason == "invalid"):
                where = set(map(_namespace_name, found))
                yield _REASONS[reason], _Problem(key, where, _messages(found), advice.get(reason, ""))
        hold = self._held.get(key)
        if hold is not None:
            text = f"{hold.count} removals are held by the brake; `samara release {hold.key}` lets them go on"
            yield "Held", _Problem(key, set(map(_namespace_name, hold.refs)), (text,))

    def _about(self, source: Ref) -> Object | Ref:
        """The source, or its namespace if the source is gone. An object that is a source no longer is not gone."""
        place = self._cache.get(source)
        if place is not None or not source.namespace or self._cache.exists_unread(source):
            return place or source
        return self._cache.get(namespace_ref(source.namespace)) or source


def _by_reason(faults: tuple[Fault, ...]) -> dict[str, str]:
    """The messages of each reason in one text, since there is one Event per reason."""
    found: dict[str, list[str]] = {}
    for fault in faults:
        found.setdefault(fault.reason, []).append(fault.message)
    return {reason: "; ".join(messages) for reason, messages in found.items()}


def _messages(found: dict[Ref, NotInSync]) -> tuple[str, ...]:
    """Each message once, in the order of their first copy, so that the same problems always give the same text."""
    first: dict[NotInSync, Ref] = {}
    for ref, missing in found.items():
        first[missing] = min(ref, first.get(missing, ref))
    ordered = sorted(first.items(), key=lambda item: item[1])
    return tuple(dict.fromkeys(missing.shown(ref) for missing, ref in ordered))


def _merged(found: Iterable[tuple[str, _Problem]]) -> dict[str, list[_Problem]]:
    now: dict[str, list[_Problem]] = {}
    for reason, problem in found:
        now.setdefault(reason, []).append(problem)
    return now


def _summary(problems: list[_Problem]) -> tuple[set[str], str, str]:
    """Namespaces, message and advice. The namespaces are those of all messages together."""
    namespaces = {namespace for problem in problems for namespace in problem.namespaces}
    messages = list(dict.fromkeys(message for problem in problems for message in problem.messages))
    others = ["and others"] if len(messages) > _MAX_MESSAGES else []
    together = ["together"] if len(messages) > 1 and namespaces else []
    advice = dict.fromkeys(problem.advice for problem in problems if problem.advice)
    return namespaces, "; ".join((*messages[:_MAX_MESSAGES], *others, *together)), "; ".join(advice)
