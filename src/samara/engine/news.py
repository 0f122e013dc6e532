"""What people are told of a plan and its writes: which Event, on which object, in which words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from samara.core.model import Key, Object, Ref, namespace_ref
from samara.core.tally import Missing, Tally
from samara.core.want import Dialect, Fault, Want
from samara.core.write import Apply, Create, Delete, Recreate, Release, Update, Write
from samara.engine.holds import Hold
from samara.engine.tell import PUT_BACK, Teller
from samara.kube.cache import Cache

EVERY = 1.0
_DEEPEST = 100
"""So many links of a chain are followed to its first source: a loop has no end."""
_MOST_WORDS = 3
"""So many different messages of one reason an Event says."""
_REASONS = {
    "conflict": "Conflict",
    "refused": "Refused",
    "not-accepted": "NotAccepted",
    "invalid": "Invalid",
    "held": "Held",
    "fought": "Fought",
}
_WORDS = {
    Create: ("Copied", "copied"),
    Update: ("Updated", "put right"),
    Recreate: ("Updated", "made anew"),
    Delete: ("Removed", "removed"),
    Release: ("Removed", "given back without our marks"),
}


def _where(ref: Ref) -> str:
    """The namespace in which a place is, or which it is."""
    return ref.namespace or ref.name


class _Trouble(NamedTuple):
    """What stands against a source, in some namespaces or in none."""

    key: Key
    namespaces: set[str]
    messages: tuple[str, ...]
    advice: str = ""


class News:
    """Collects what plans and writes have brought, and once a second turns it into Events."""

    def __init__(self, teller: Teller, cache: Cache) -> None:
        self._teller = teller
        self._cache = cache
        self._due: dict[Key, Tally] = {}
        self._faults: dict[Key, tuple[Fault, ...]] = {}
        self._held: dict[Key, Hold] = {}
        self._lasting: dict[Ref, dict[Key, Tally]] = {}
        """Against whom something stands, by the object at which it is told: one source may be asked by several."""
        self._told: dict[Ref, frozenset[str]] = {}
        """The reasons for which something was to be told there the last time."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            await self.tell()

    async def tell(self) -> None:
        """Says what has come together since the last time."""
        self._gather()
        await self._teller.flush()

    def wrote(self, write: Write) -> None:
        words = _WORDS.get(type(write))
        source = self._first(write.key) if words is not None else None
        if words is not None and source is not None:
            key = Key(write.key.dialect, source)
            self._teller.note(self._about(source), words[0], [key], {_where(write.ref)}, words[1])

    def _first(self, key: Key) -> Ref | None:
        """The source with which a chain begins: a tree is told of once, there; None where that is not in sight."""
        dialect, ref = self._cache.table[key.dialect], key.source
        for _ in range(_DEEPEST):
            above = self._handed_on_from(ref, dialect)
            if above is None:
                return ref if ref == key.source or self._cache.get(ref) is not None else None
            ref = above
        return None

    def _handed_on_from(self, ref: Ref, dialect: Dialect) -> Ref | None:
        """Of a copy that hands on the place that it comes from; one that is only created need not say that itself."""
        if dialect.upstream is None:
            return None
        have, namespace = self._cache.get(ref), self._cache.get(namespace_ref(ref.namespace))
        if have is None or namespace is None or not have.made:
            return None
        origin = dialect.origin(have, self._cache)
        above = ref._replace(namespace=dialect.upstream(namespace))
        found = self._cache.get(above)
        return origin or (above if found is not None and dialect.is_source(found, self._cache) else None)

    def obstructed(self, write: Write, reason: str, message: str) -> None:
        """No tally counts what is written on an object that is no copy: what stands against it is told as it comes."""
        self._teller.note(self._about(write.key.source), reason, [write.key], {_where(write.ref)}, message)

    def put_back(self, write: Write, who: str) -> None:
        """The person who changed a copy finds out, in the namespace where it was changed."""
        by = f" after {who} changed it" if who else ""
        said = "is inherited here" if isinstance(write, Apply) else f"{write.key.source} says"
        now = self._cache.get(write.ref)
        self._teller.note(now or write.ref, PUT_BACK, [write.key], set(), f"put back to what {said}{by}")

    def planned(self, key: Key, want: Want, tally: Tally, hold: Hold | None) -> None:
        """Takes the end of a plan. A slice says nothing about the source itself."""
        self.due(key.whole, tally)
        self._held.pop(key.whole, None)
        if hold is not None:
            self._held[key.whole] = hold
        if key.slice is None:
            self._faults.pop(key, None)
            if want.faults:
                self._faults[key] = want.faults

    def due(self, key: Key, tally: Tally) -> None:
        """Says that something about this key may have to be told."""
        self._due[key] = tally

    def _gather(self) -> None:
        """Looks anew at every object at which something may have changed, or is to be said again."""
        # What lasts may never be planned again, and may have ended without a plan.
        places = {place for place, reason in self._teller.due() if reason in self._told.get(place, ())}
        for key, tally in self._due.items():
            about = self._about(key.source)
            place = about.ref if isinstance(about, Object) else about
            self._lasting.setdefault(place, {})[key] = tally
            places.add(place)
            for other in {key.source, namespace_ref(key.source.namespace)} - {place}:  # the source came or went
                if self._lasting.get(other, {}).pop(key, None) is not None:
                    places.add(other)
        self._due.clear()
        for place in places:
            self._look(place)

    def _look(self, place: Ref) -> None:
        """Notes all that is to be told at one object: one Event for each reason, whoever has it."""
        tallies = self._lasting.pop(place)
        found = {key: tuple(self._troubles(key, tallies[key])) for key in sorted(tallies)}
        lasting = {key: tallies[key] for key, troubles in found.items() if troubles}
        about, now = self._cache.get(place) or place, _merged(chain.from_iterable(found.values()))
        for reason, troubles in now.items():
            self._teller.note(about, reason, [trouble.key for trouble in troubles], *_told(troubles))
        for reason in self._told.pop(place, frozenset()) - now.keys():
            self._teller.over(about, reason)
        if lasting:
            self._lasting[place], self._told[place] = lasting, frozenset(now)

    def _troubles(self, key: Key, tally: Tally) -> Iterator[tuple[str, _Trouble]]:
        """What is to be said, each with its reason."""
        advice = self._cache.table[key.dialect].advice
        told = _by_reason(self._faults.get(key, ()))  # what is wrong with the source itself explains its places, too
        for reason, message in told.items():
            yield reason, _Trouble(key, set(), (message,))
        for reason, found in tally.troubles().items():
            if reason in _REASONS and _REASONS[reason] not in told and not (told and reason == "invalid"):
                where = set(map(_where, found))
                yield _REASONS[reason], _Trouble(key, where, _messages(found), advice.get(reason, ""))
        hold = self._held.get(key)
        if hold is not None:
            text = f"{hold.count} removals are held by the brake; `samara release {hold.key}` lets them go on"
            yield "Held", _Trouble(key, set(map(_where, hold.refs)), (text,))

    def _about(self, source: Ref) -> Object | Ref:
        """The source, or its namespace where it is gone. What is there and asks no more is not gone."""
        place = self._cache.get(source)
        if place is not None or not source.namespace or self._cache.taken(source):
            return place or source
        return self._cache.get(namespace_ref(source.namespace)) or source


def _by_reason(faults: tuple[Fault, ...]) -> dict[str, str]:
    """One reason is one Event, which says all that there is to say for it."""
    told: dict[str, list[str]] = {}
    for fault in faults:
        told.setdefault(fault.reason, []).append(fault.message)
    return {reason: "; ".join(messages) for reason, messages in told.items()}


def _messages(found: dict[Ref, Missing]) -> tuple[str, ...]:
    """Each message once, by its first place and not by what was tried last: the same is said in the same words."""
    first: dict[Missing, Ref] = {}
    for ref, missing in found.items():
        first[missing] = min(ref, first.get(missing, ref))
    ordered = sorted(first.items(), key=lambda item: item[1])
    return tuple(dict.fromkeys(missing.shown(ref) for missing, ref in ordered))


def _merged(found: Iterable[tuple[str, _Trouble]]) -> dict[str, list[_Trouble]]:
    now: dict[str, list[_Trouble]] = {}
    for reason, trouble in found:
        now.setdefault(reason, []).append(trouble)
    return now


def _told(troubles: list[_Trouble]) -> tuple[set[str], str, str]:
    """Where it is, what stands against it and what to do; the places are given once for all that is said."""
    where = {namespace for trouble in troubles for namespace in trouble.namespaces}
    words = list(dict.fromkeys(message for trouble in troubles for message in trouble.messages))
    others = ["and others"] if len(words) > _MOST_WORDS else []
    together = ["together"] if len(words) > 1 and where else []
    advice = dict.fromkeys(trouble.advice for trouble in troubles if trouble.advice)
    return where, "; ".join((*words[:_MOST_WORDS], *others, *together)), "; ".join(advice)
