"""What people are told of a plan and its writes: which Event, on which object, in which words."""

from __future__ import annotations

from samara import log
from samara.core.model import Object, Ref, namespace_ref
from samara.core.place import Case
from samara.core.tally import Tally
from samara.core.want import Want
from samara.core.write import Create, Delete, Recreate, Release, Update, Write
from samara.engine.holds import Hold
from samara.engine.tell import Teller
from samara.kube.cache import Cache

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


class News:
    """Turns results into Events through the teller."""

    def __init__(self, teller: Teller, cache: Cache) -> None:
        self._teller = teller
        self._cache = cache

    async def run(self) -> None:
        await self._teller.run()

    def wrote(self, write: Write) -> None:
        words = _WORDS.get(type(write))
        if words is not None:
            self._teller.note(self._about(write.key.source), words[0], {write.ref.namespace}, words[1])

    def put_back(self, write: Write, who: str) -> None:
        """The person who changed a copy finds out, in the namespace where it was changed."""
        by = f" after {who} changed it" if who else ""
        now = self._cache.get(write.ref)
        self._teller.note(now or write.ref, "Updated", set(), f"put back to what {write.key.source} says{by}")

    def planned(self, case: Case, want: Want, tally: Tally, hold: Hold | None) -> None:
        about = self._about(case.key.source)
        for fault in want.faults:
            log.warning("source.fault", source=case.key.source, reason=fault.reason, fault=fault.message)
            self._teller.note(about, fault.reason, set(), fault.message)
        self._exceptions(about, tally)
        if hold is not None:
            text = f"{hold.count} removals are held by the brake; `samara release {hold.key}` lets them go on"
            log.warning("brake.held", key=hold.key, count=hold.count)
            self._teller.note(about, "Held", {ref.namespace for ref in hold.refs}, text)

    def refused(self, write: Write, tally: Tally) -> None:
        self._exceptions(self._about(write.key.source), tally)

    def _exceptions(self, about: Object | Ref, tally: Tally) -> None:
        for reason, found in tally.by_reason().items():
            if reason in _REASONS:
                message = next(iter(found.values()))
                self._teller.note(about, _REASONS[reason], {ref.namespace for ref in found}, message)

    def _about(self, source: Ref) -> Object | Ref:
        """The source, or its namespace where it is gone."""
        place = self._cache.get(source)
        if place is not None or not source.namespace:
            return place or source
        return self._cache.get(namespace_ref(source.namespace)) or source
