"""Who asks for which paths of the secret manager, and what is known of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from typing import NamedTuple

from samara.backends.base import Absent, Document, StoreError
from samara.core.match import shown
from samara.core.model import Key
from samara.core.reads import Reading, SecretPath, Unreadable

LEAST = 1.0
"""Nobody is so impatient that a document is read more often than this, in seconds."""
_MOST_TEXT = 500
_ADVICE = "; put a value there, or ask for another path"
"""What to do about a path that leads nowhere; the stores themselves say it of other faults."""
_NONE = Reading()
_NOTHING: Mapping[str, SecretPath] = {}

Outcome = Document | StoreError
"""What a read has brought."""


@dataclass(slots=True)
class Record:
    """One document that somebody asks for."""

    name: str
    fields: dict[str, str] = field(default_factory=dict)
    """By path: where in the document the path leads."""
    content: Document | None = field(default=None, repr=False)
    """As it was last read; whoever asks for another field of it is answered from here."""
    read_at: str = ""
    fault: StoreError | None = field(default=None, repr=False)
    """Why the last read brought nothing, where it did."""
    asked_at: float = 0.0
    failures: int = 0
    """How often in a row the store has refused it, or found something missing in it."""
    outages: int = 0
    """How often in a row the store did not answer."""
    tried: bool = False
    not_found: dict[str, float] = field(default_factory=dict)
    """Since when the store has said nothing of a path but that it is not there."""


class Moved(NamedTuple):
    """What it changes that a source asks for something else now."""

    new: tuple[str, ...]
    """Paths that nobody asked for before."""
    left: tuple[str, ...]
    """Paths that nobody asks for any more."""
    paced: tuple[str, ...]
    """Paths that were asked for before, by this source or another, but maybe less often or in vain."""


class Readings:
    """Nothing in it awaits. `known` is what plans see; it holds paths that somebody asks for, and no others."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.known: dict[str, Reading] = {}
        self.asked: dict[str, dict[Key, SecretPath]] = {}
        """By path: who asks, and what it says of how often, and whether it can do without."""
        self.again: Callable[[Key, float], None] = lambda key, delay: None
        """Told of every key for which a reading has changed."""
        self.touched: Callable[[Key], None] = lambda key: None
        """Told of every key for which a value was read anew, whatever it was."""
        self._asks: dict[Key, tuple[Mapping[str, SecretPath], object]] = {}
        self._clock = clock

    def asks(self, key: Key, reads: Iterable[SecretPath], edition: object = None) -> Moved | None:
        """Takes all that a source asks for now; None where it is what this very edition asked for before."""
        new: dict[str, SecretPath] = {}
        for read in reads:
            also = new.get(read.path, read)
            every = max(LEAST, min(read.every, also.every))
            new[read.path] = SecretPath(read.path, every, read.optional and also.optional)
        old, before = self._asks.get(key, (_NOTHING, edition))
        if (new, edition) == (old, before):
            return None
        self._asks[key] = new, edition
        if not new:
            del self._asks[key]
        left = tuple(path for path in old if path not in new and self._is_left_by(key, path))
        changed = [path for path, ask in new.items() if old.get(path) != ask or edition != before]
        fresh = tuple(path for path in changed if path not in self.asked)
        for path in changed:
            self.asked.setdefault(path, {})[key] = new[path]
        return Moved(fresh, left, tuple(path for path in changed if path not in fresh))

    def _is_left_by(self, key: Key, path: str) -> bool:
        """True where nobody else asks for it: then it is forgotten."""
        del self.asked[path][key]
        if self.asked[path]:
            return False
        del self.asked[path]
        self.known.pop(path, None)
        return True

    def every(self, record: Record) -> float:
        """How often a document should be read by those who ask in vain."""
        return min((ask.every for ask in self._asks_of(record) if not self._is_well(ask)), default=inf)

    def due(self, record: Record) -> float:
        """When a document that has just been read is read again for the others."""
        return min(map(self._due, self._asks_of(record)), default=inf)

    def _due(self, ask: SecretPath) -> float:
        found = self.known[ask.path]
        if self._is_well(ask):
            return ask.every
        # Who can do without learns a refresh after the first time that there is nothing, whoever else asks in vain.
        return max(LEAST, ask.every - found.missing) if ask.optional and found.not_found else inf

    def _is_well(self, ask: SecretPath) -> bool:
        """True for one who has what it asks for, or can do without and knows that there is nothing."""
        found = self.known[ask.path]
        return found.fault is None or (ask.optional and found.not_found and found.is_absent(ask.every))

    def _asks_of(self, record: Record) -> Iterable[SecretPath]:
        return chain.from_iterable(self.asked[path].values() for path in record.fields)

    def is_faulty(self, path: str) -> bool:
        return self.known.get(path, _NONE).fault is not None

    # what is heard

    def hear_all(self, record: Record, outcome: Outcome, store: str) -> bool:
        """Takes what a read has brought, for every path of its document; False where somebody asks in vain now."""
        fresh: set[Key] = set()
        for path in record.fields:
            before = self.known.get(path, _NONE).read_at
            if self.hear(path, record, outcome, store):
                self.tell(path)
            if self.known[path].read_at != before:
                fresh.update(self.asked[path])
        for key in fresh:
            self.touched(key)
        return all(map(self._is_well, self._asks_of(record)))

    def hear(self, path: str, record: Record, outcome: Outcome, store: str) -> bool:
        """The same for one path; True where what is known has changed."""
        if isinstance(outcome, StoreError):
            return self.fault(path, outcome, store, self._missing(path, record, outcome))
        try:
            value = outcome.value(record.fields[path])
        except StoreError as fault:
            return self.fault(path, fault, store, self._missing(path, record, fault))
        record.not_found.pop(path, None)
        return self._keep(path, Reading(value, record.read_at))

    def _missing(self, path: str, record: Record, fault: StoreError) -> float:
        """For how long the store has said nothing but that there is nothing."""
        if not isinstance(fault, Absent):
            record.not_found.pop(path, None)
            return 0.0
        now = self._clock()
        return now - record.not_found.setdefault(path, now)

    def fault(self, path: str, fault: StoreError, store: str, missing: float = 0.0) -> bool:
        """A path could not be read: its value stays, and so does that it is known to have none."""
        gone = isinstance(fault, Absent)
        message = f"cannot read {shown(path)} from the {store} store: {bounded(fault)}{_ADVICE if gone else ''}"
        return self.unreadable(path, Unreadable("FetchError", message), gone, missing)

    def unreadable(self, path: str, fault: Unreadable, not_found: bool = False, missing: float = 0.0) -> bool:
        old = self.known.get(path, _NONE)
        return self._keep(path, Reading(old.value, old.read_at, fault, not_found, max(missing, old.missing)))

    def _keep(self, path: str, new: Reading) -> bool:
        old = self.known.get(path)
        self.known[path] = new
        return old is None or (old.value, old.fault) != (new.value, new.fault) or self._is_believed(path, old, new)

    def _is_believed(self, path: str, old: Reading, new: Reading) -> bool:
        """True where somebody who asks has had to doubt until now that there is nothing."""
        if old.missing >= new.missing:
            return False
        return any(new.is_absent(ask.every) and not old.is_absent(ask.every) for ask in self.asked[path].values())

    def tell(self, path: str) -> None:
        for key in self.asked[path]:
            self.again(key, 0.0)


def bounded(fault: StoreError) -> str:
    """What a fault says, as one line that fits into a condition."""
    text = " ".join(str(fault).split())
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
