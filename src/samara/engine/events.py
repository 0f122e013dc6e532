"""Decides which Events report plans and writes: the object, the reason and the message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from samara import log
from samara.core.copy_counts import CopyCounts, NotInSync
from samara.core.desired import REASONS, Desired, Fault, in_camel_case
from samara.core.model import NAMESPACE, NO_METADATA, Key, Object, Ref, namespace_ref
from samara.core.names import PackedNames
from samara.core.policy import is_paused, no_writes_at
from samara.core.source_type import SourceType
from samara.core.writes import Apply, Create, Delete, Recreate, Release, Update, Write
from samara.engine.event_sink import NOWHERE, REVERTED, EventSink, Namespaces
from samara.engine.mass_delete import HeldSet
from samara.kube.cache import Cache, Change, NearMissed

INTERVAL = 1.0
"""Seconds between two flushes."""
_MAX_HOPS = 100
"""Hops of a chain that are followed to its first source. A chain may be a loop."""
_MAX_MESSAGES = 3
"""Different messages that one Event shows."""
_NEAR_MISSES_AT_ONCE = 50
"""Objects of which the near misses are reported with one flush, so that the Events of sources need not wait."""
_MOST_NEAR_MISSES = 1000
"""Objects that have an Event at the same time for near misses alone. One mistake may be rolled out to thousands."""
ABSENT_AFTER = 60.0
"""Seconds after which a namespace counts as absent. People often create a source shortly before its namespaces, which
is not a mistake."""
_NO_NAMES = PackedNames()
_ABSENT = "no such namespace exists: create it, or take its name off the source"
_NO_NAMESPACE = in_camel_case("no-namespace")
"""The reason of faults by which a source type itself reports that a namespace does not exist."""
_EVENT_REASONS: dict[str, str] = {reason: in_camel_case(reason) for reason in REASONS if reason != "no-namespace"}
"""The Event's reason for each reason of `CopyCounts` that is reported."""
_WRITE_EVENTS = {
    Create: ("Copied", "copied"),
    Update: ("Updated", "updated"),
    Recreate: ("Updated", "recreated"),
    Delete: ("Removed", "removed"),
    Release: ("Removed", "released: only Samara's marks were removed"),
}
"""The Event's reason and message for each kind of write that is reported."""


class _Problem(NamedTuple):
    """Why a source cannot be served, in some namespaces or, for a fault of the source itself, in none."""

    key: Key | None
    """None for the near misses of an object."""
    where: Namespaces
    messages: tuple[str, ...]
    advice: str = ""


class EventRecorder:
    """Owns the problems to report, by object. The planner and the result handler call it.

    Once a second it turns them into Events for the sink. It sends no request itself.
    """

    def __init__(self, sink: EventSink, cache: Cache, clock: Callable[[], float]) -> None:
        self._sink = sink
        self._cache = cache
        self._absent = AbsentNamespaces(clock)
        self._due: dict[Key, CopyCounts] = {}
        self._faults: dict[Key, tuple[Fault, ...]] = {}
        self._held: dict[Key, HeldSet] = {}
        self._lasting: dict[Ref, dict[Key, CopyCounts]] = {}
        """Counts of keys with problems, by the object that carries their Events. Keys may share an object."""
        self._reported: dict[Ref, frozenset[str]] = {}
        """The reasons last reported on each object."""
        self._observed: dict[Ref, None] = {}
        """Objects whose near misses may have changed."""
        self._near: set[Ref] = set()
        """Objects whose Event tells of near misses."""
        self._has_warned = False
        self._last_listed: tuple[Object | None, str, Collection[str]] = None, "", ()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            await self.flush()

    async def flush(self) -> None:
        """Reports everything that was recorded since the last flush."""
        self.gather()
        await self._sink.flush()

    def report_write(self, write: Write) -> None:
        """Reports a successful write at the first source of its chain."""
        event = _WRITE_EVENTS.get(type(write))
        source = self._first_source(write.key) if event is not None else None
        if event is not None and source is not None:
            (reason, message), key = event, Key(write.key.source_type, source)
            self._add(self._about(source), reason, [key], self._where(key, {write.ref.namespace_or_name}), message)

    def _add(
        self, about: Object | Ref, reason: str, keys: list[Key], where: Namespaces, message: str, advice: str = ""
    ) -> None:
        """Passes an Event on, unless it would be a write in a paused namespace.

        When the pause ends, the planner plans again and reports the problems that are left. Events about an object
        without a namespace are in namespace `default`.
        """
        ref = about.ref if isinstance(about, Object) else about
        if not ref.namespace or not no_writes_at(ref, self._cache):
            self._sink.add(about, reason, keys, where, message, advice)

    def _where(self, key: Key, namespaces: AbstractSet[str]) -> Namespaces:
        """Separates the namespaces that the author of a source may see from those that are only counted."""
        if not self._cache.registry[key.source_type].names.is_discreet:
            return Namespaces(namespaces)
        listed, own = self._listed_by(key), key.source.namespace
        named = {namespace for namespace in namespaces if namespace == own or namespace in listed}
        return Namespaces(named, namespaces - named)

    def _listed_by(self, key: Key) -> Collection[str]:
        """The namespaces that a source lists by name. The last answer is kept: a list may be long, and its copies are
        written one after the other."""
        source = self._cache.get(key.source)
        if source is None:
            return ()
        last_source, last_type, listed = self._last_listed
        if last_source is not source or last_type != key.source_type:
            listed = self._cache.registry[key.source_type].names.listed_by(source).names
            self._last_listed = source, key.source_type, listed
        return listed

    def _first_source(self, key: Key) -> Ref | None:
        """The source at which a chain begins, so that a tree has one Event. None if it is not in the cache."""
        source_type, ref = self._cache.registry[key.source_type], key.source
        for _ in range(_MAX_HOPS):
            previous = self._previous_source(ref, source_type)
            if previous is None:
                return ref if ref == key.source or self._cache.get(ref) is not None else None
            ref = previous
        return None

    def _previous_source(self, ref: Ref, source_type: SourceType) -> Ref | None:
        """The source of a copy that is itself a source; None if this object is no copy.

        A copy in create mode does not name its source. Then it is the object of this name in the parent namespace.
        """
        hierarchy = source_type.hierarchy
        if hierarchy is None or hierarchy.parent is None:
            return None
        obj, namespace = self._cache.get(ref), self._cache.get(namespace_ref(ref.namespace))
        if obj is None or namespace is None or not obj.known_copy:
            return None
        named = source_type.ownership.source_of(obj, self._cache)
        if named is not None:
            return named
        in_parent = self._cache.get(ref._replace(namespace=hierarchy.parent(namespace)))
        return in_parent.ref if in_parent is not None and source_type.is_source(in_parent, self._cache) else None

    def report_blocked(self, write: Write, reason: str, message: str) -> None:
        """Reports a problem with a write to an object that is no copy, so that `CopyCounts` does not contain it."""
        where = self._where(write.key, {write.ref.namespace_or_name})
        self._add(self._about(write.key.source), reason, [write.key], where, message)

    def note_change(self, change: Change) -> None:
        """Checks the near misses of an object that has changed; and if a Namespace is paused no more, of all in it."""
        old, new = change.old, change.new
        self.note_observed((change.ref,))
        if change.ref.kind == NAMESPACE and old is not None and is_paused(old) and new is not None:
            self.note_observed(ref for ref in self._cache.with_near_misses() if ref.namespace == change.ref.name)

    def note_observed(self, refs: Iterable[Ref]) -> None:
        """Checks the near misses of these objects, if they have or had any."""
        self._observed.update((ref, None) for ref in refs if ref in self._near or self._cache.has_near_misses(ref))

    def report_reverted(self, write: Write, editor: str) -> None:
        """Reports on the copy that a change was reverted, where the person who made it will look."""
        restored, them = f"restored to match {write.key.source}", "it"
        if isinstance(write, Apply):
            restored, them = "the inherited labels and annotations were restored", "them"
        by = f" after {editor} changed {them}" if editor else ""
        about = self._cache.get(write.ref) or write.ref
        self._add(about, REVERTED, [write.key], NOWHERE, f"{restored}{by}")

    def record_plan(self, key: Key, desired: Desired, counts: CopyCounts, hold: HeldSet | None) -> None:
        """Records the result of a plan. Only the plan of a whole source can end a fault of the source."""
        self.recheck(key.all_namespaces, counts)
        self._held.pop(key.all_namespaces, None)
        if hold is not None:
            self._held[key.all_namespaces] = hold
        if key.namespace is None:
            self._faults.pop(key, None)
            if desired.faults:
                self._faults[key] = desired.faults

    def recheck(self, key: Key, counts: CopyCounts) -> None:
        """Reports the problems of a key with the next flush, because they may have changed."""
        self._due[key] = counts

    def gather(self) -> None:
        """Checks each object on which a problem may have changed, or is to be reported again."""
        # A lasting problem may never be planned again, or may have ended without a plan.
        refs = {ref: None for ref, reason in self._sink.due() if reason in self._reported.get(ref, ())}
        for key in self._absent.due():
            counts = self._lasting.get(self._about_ref(key.source), {}).get(key)
            if counts is not None:
                self._due.setdefault(key, counts)
        for key, counts in self._due.items():
            ref = self._about_ref(key.source)
            self._lasting.setdefault(ref, {})[key] = counts
            self._absent.note(key, self._absent_namespaces(counts))
            refs[ref] = None
            # If the source appeared or disappeared since the last report, another object carries its Events now.
            for other in {key.source, namespace_ref(key.source.namespace)} - {ref}:
                if self._lasting.get(other, {}).pop(key, None) is not None:
                    refs[other] = None
        self._due.clear()
        for ref in tuple(islice(self._observed, _NEAR_MISSES_AT_ONCE)):
            del self._observed[ref]
            refs[ref] = None
        for ref in refs:
            self._report(ref)

    def _absent_namespaces(self, counts: CopyCounts) -> frozenset[str]:
        """The namespaces in which copies are wanted and that do not exist. One that is being deleted exists."""
        return frozenset(
            name for names in counts.absent.values() for name in names if self._cache.get(namespace_ref(name)) is None
        )

    def _report(self, ref: Ref) -> None:
        """Reports what is wrong with the keys whose Events are on one object, and with its labels and annotations: one
        Event per reason."""
        lasting: dict[Key, CopyCounts] = {}
        by_reason: dict[str, list[_Problem]] = {}
        for key, counts in sorted(self._lasting.pop(ref, {}).items(), key=lambda item: item[0]):
            problems = list(self._problems(key, counts))
            if problems or self._absent.is_noted(key):
                lasting[key] = counts
            for reason, problem in problems:
                by_reason.setdefault(reason, []).append(problem)
        missed = self._near_misses(ref, is_alone=not by_reason)
        if missed is not None:
            messages = tuple(miss.message for miss in missed.misses)
            by_reason.setdefault("Invalid", []).append(_Problem(None, NOWHERE, messages))
        self._send(ref, by_reason, missed.uid if missed is not None else "")
        if lasting:
            self._lasting[ref] = lasting

    def _send(self, ref: Ref, by_reason: dict[str, list[_Problem]], uid: str) -> None:
        """Passes the problems of one object on, and ends those that were reported before and are no more."""
        about = self._cache.get(ref) or (Object(ref, uid, 0) if uid else ref)
        for reason, problems in by_reason.items():
            keys = [problem.key for problem in problems if problem.key is not None]
            self._add(about, reason, keys, *_summary(problems))
        for reason in self._reported.pop(ref, frozenset()) - by_reason.keys():
            self._sink.clear(about, reason)
        if by_reason:
            self._reported[ref] = frozenset(by_reason)

    def _near_misses(self, ref: Ref, *, is_alone: bool) -> NearMissed | None:
        """The near misses of an object. None also if they would need one Event too many."""
        missed = self._cache.near_misses(ref)
        self._near.discard(ref)
        if missed is None or (is_alone and not self._has_room()):
            return None
        self._near.add(ref)
        return missed

    def _has_room(self) -> bool:
        """False if so many objects have near misses that those of another one get no Event."""
        if len(self._near) < _MOST_NEAR_MISSES:
            return True
        if not self._has_warned:
            self._has_warned = True
            log.warning("near-misses.many", reported=_MOST_NEAR_MISSES, then="`samara why` tells those of any object")
        return False

    def _problems(self, key: Key, counts: CopyCounts) -> Iterator[tuple[str, _Problem]]:
        """The problems of one key, each with the reason of its Event."""
        status = self._cache.registry[key.source_type].status
        advice = status.advice if status is not None else NO_METADATA
        faults = _by_reason(self._faults.get(key, ()))  # a fault of the source explains its missing copies
        for reason, message in faults.items():
            yield reason, _Problem(key, NOWHERE, (message,))
        for reason, blocked in counts.problems().items():
            event_reason = _EVENT_REASONS.get(reason)
            if event_reason is not None and event_reason not in faults and not (faults and reason == "invalid"):
                where = self._where(key, {ref.namespace_or_name for ref in blocked})
                yield event_reason, _Problem(key, where, _messages(blocked, where), advice.get(reason, ""))
        absent = self._absent.lasting(key)
        if absent and _NO_NAMESPACE not in faults:
            yield "Invalid", _Problem(key, self._where(key, absent), ("no copies",), _ABSENT)
        hold = self._held.get(key)
        if hold is not None:
            held = f"{hold.count} deletions are held by the limit on mass deletion"
            text = f"{held} (`samara release {hold.key}` lets them continue)"
            where = self._where(key, {ref.namespace_or_name for ref in hold.refs})
            yield "Held", _Problem(key, where, (text,))

    def _about_ref(self, source: Ref) -> Ref:
        about = self._about(source)
        return about.ref if isinstance(about, Object) else about

    def _about(self, source: Ref) -> Object | Ref:
        """The object of the Events of a source: itself, or its namespace if it is gone.

        An object that only stopped being a source still exists, so it carries its own Events.
        """
        obj = self._cache.get(source)
        if obj is not None or not source.namespace or self._cache.exists_unread(source):
            return obj or source
        return self._cache.get(namespace_ref(source.namespace)) or source


@dataclass(frozen=True, slots=True)
class _AbsenceCheck:
    """Which of the namespaces that one source lists did not exist at a check."""

    at: float
    absent: PackedNames
    lasting: PackedNames
    """Those that did not exist at the check before it either."""
    is_settled: bool
    """True if these are all that do not exist now, so that no further check is needed."""


class AbsentNamespaces:
    """The namespaces that sources list and that have not existed for a minute.

    It compares two checks that are `ABSENT_AFTER` apart. So no name needs a time of its own: a list may be long.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._checks: dict[Key, _AbsenceCheck] = {}

    def note(self, key: Key, absent: frozenset[str]) -> None:
        """Records which namespaces a source lists that do not exist now."""
        last, now = self._checks.get(key), self._clock()
        if not absent:
            self._checks.pop(key, None)
        elif last is None:
            self._checks[key] = _AbsenceCheck(now, PackedNames(absent), _NO_NAMES, is_settled=False)
        elif now - last.at < ABSENT_AFTER:
            lasting = absent.intersection(last.lasting)
            still = PackedNames(absent.intersection(last.absent))
            self._checks[key] = _AbsenceCheck(last.at, still, PackedNames(lasting), lasting == absent)
        else:
            lasting = absent.intersection(last.absent)
            self._checks[key] = _AbsenceCheck(now, PackedNames(absent), PackedNames(lasting), lasting == absent)

    def due(self) -> list[Key]:
        """The sources whose absent namespaces are to be noted again now."""
        now = self._clock()
        return [key for key, check in self._checks.items() if not check.is_settled and now - check.at >= ABSENT_AFTER]

    def is_noted(self, key: Key) -> bool:
        """True if a source lists a namespace that does not exist."""
        return key in self._checks

    def lasting(self, key: Key) -> frozenset[str]:
        """The namespaces that have not existed for `ABSENT_AFTER` seconds at least."""
        return frozenset(self._checks[key].lasting) if key in self._checks else frozenset()


def _by_reason(faults: tuple[Fault, ...]) -> dict[str, str]:
    """The messages of each reason in one text, since there is one Event per reason."""
    by_reason: dict[str, list[str]] = {}
    for fault in faults:
        by_reason.setdefault(fault.reason, []).append(fault.message)
    return {reason: "; ".join(messages) for reason, messages in by_reason.items()}


def _messages(blocked: dict[Ref, NotInSync], where: Namespaces) -> tuple[str, ...]:
    """Each message once, in the order of their first copy, so that the same problems always give the same text."""
    first_ref: dict[NotInSync, Ref] = {}
    for ref, missing in blocked.items():
        first_ref[missing] = min(ref, first_ref.get(missing, ref))
    ordered = sorted(first_ref.items(), key=lambda item: item[1])
    return tuple(dict.fromkeys(missing.shown(ref, ref.namespace_or_name in where.named) for missing, ref in ordered))


def _summary(problems: list[_Problem]) -> tuple[Namespaces, str, str]:
    """Namespaces, message and advice. The namespaces are those of all messages together."""
    where = Namespaces(
        {namespace for problem in problems for namespace in problem.where.named},
        {namespace for problem in problems for namespace in problem.where.hidden},
    )
    messages = list(dict.fromkeys(message for problem in problems for message in problem.messages))
    others = ["and others"] if len(messages) > _MAX_MESSAGES else []
    together = ["together"] if len(messages) > 1 and any(where) else []
    advice = dict.fromkeys(problem.advice for problem in problems if problem.advice)
    return where, "; ".join((*messages[:_MAX_MESSAGES], *others, *together)), "; ".join(advice)
