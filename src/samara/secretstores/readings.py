"""Holds the paths of the secret manager that each source reads, and the reading of each path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from typing import NamedTuple

from samara.core.model import Key
from samara.core.names import quoted
from samara.core.queries import ReadError, SecretPath, SecretReading
from samara.core.vocabulary import PathLimit
from samara.secretstores.base import Content, NotFound, StoreError

MIN_REFRESH = 1.0
"""Seconds. A shorter refresh of a source counts as this."""
_MAX_TEXT = 500
_ADVICE = "; put a value there, or ask for another path"
"""For a path that was not found. The stores give advice for other errors themselves."""
_NO_READING = SecretReading()
_NO_PATHS: Mapping[str, SecretPath] = {}

ReadResult = Content | StoreError


@dataclass(slots=True)
class Document:
    """A document that at least one source reads."""

    name: str
    fields: dict[str, str] = field(default_factory=dict)
    """By path: which field of the document it names."""
    content: Content | None = field(default=None, repr=False)
    """As last read. A source that subscribes to another field gets its value from here."""
    read_at: str = ""
    fault: StoreError | None = field(default=None, repr=False)
    """Why the last read failed."""
    requested_at: float = 0.0
    failures: int = 0
    """How often in a row the store refused it, or a field was missing in it."""
    outages: int = 0
    """How often in a row the store did not answer."""
    tried: bool = False
    not_found_since: dict[str, float] = field(default_factory=dict)
    """By path: since when the store has answered every read with "not found"."""


class SubscriptionChange(NamedTuple):
    """The paths that a new subscription of a source affects."""

    added: tuple[str, ...]
    """No source that is allowed to read them did so before."""
    dropped: tuple[str, ...]
    """No source that is allowed to read them does so any more."""
    adjusted: tuple[str, ...]
    """They were read before, but perhaps less often, without success or for other namespaces."""
    refused: tuple[str, ...] = ()
    """The source asks for them, and no source is allowed to read them."""


class Updated(NamedTuple):
    """The sources to inform after a read."""

    changed: tuple[Key, ...]
    """The reading of one of their paths has changed."""
    refreshed: tuple[Key, ...]
    """One of their values was read again, changed or not."""


class Readings:
    """Holds the subscriptions and the readings of their paths. It does no I/O.

    A path is read while a source subscribes to it whose namespace is within its limit (`Allowance`).
    """

    def __init__(self, clock: Callable[[], float], limit: PathLimit | None) -> None:
        """Without a limit, a namespace may read any number of paths."""
        self.known: dict[str, SecretReading] = {}
        """What plans see. It holds subscribed paths only. Other components keep this dict, so it is never replaced."""
        self.subscribers: dict[str, dict[Key, SecretPath]] = {}
        """By path: the sources that read it, each with its refresh and whether the value is optional."""
        self._subscriptions: dict[Key, tuple[Mapping[str, SecretPath], object]] = {}
        self._allowance = Allowance(None if limit is None else limit.most)
        self._refusal = ReadError("LimitExceeded", "" if limit is None else limit.message)
        self._readers: Counter[str] = Counter()
        """By path: how many of its subscribers are allowed to read it."""
        self._clock = clock

    @property
    def pending(self) -> int:
        """How many paths have no result yet, good or bad."""
        return len(self.subscribers) - len(self.known)

    def subscribe(self, key: Key, reads: Iterable[SecretPath], edition: object = None) -> SubscriptionChange | None:
        """Replaces all paths that a source asks for. None if this edition of the source had the same ones before."""
        new: dict[str, SecretPath] = {}
        for read in reads:
            earlier = new.get(read.path, read)
            every = max(MIN_REFRESH, min(read.every, earlier.every))
            new[read.path] = SecretPath(read.path, every, read.optional and earlier.optional)
        old, old_edition = self._subscriptions.get(key, (_NO_PATHS, edition))
        if (new, edition) == (old, old_edition):
            return None
        was_reading = old if self._allowance.allows(key) else _NO_PATHS
        released = self._allowance.request(key, len(new))
        is_reading = new if self._allowance.allows(key) else _NO_PATHS
        self._replace(key, old, new, edition)
        changed = [path for path, read in new.items() if old.get(path) != read or edition != old_edition]
        freed = [path for other in released for path in self._subscriptions[other][0]]
        ended = [path for path in was_reading if path not in is_reading]
        begun = [*(path for path in is_reading if path not in was_reading), *freed]
        before = {path: path in self._readers for path in (*ended, *begun)}
        self._readers.update(begun)
        for path in ended:
            self._readers[path] -= 1
            if not self._readers[path]:
                del self._readers[path]
        added = tuple(path for path in dict.fromkeys(begun) if not before[path] and self.is_read(path))
        dropped = tuple(path for path in ended if not self.is_read(path))
        adjusted = dict.fromkeys(path for path in (*changed, *freed) if path not in added and self.is_read(path))
        refused = dict.fromkeys(
            path for path in (*dropped, *new) if path in self.subscribers and not self.is_read(path)
        )
        return SubscriptionChange(added, dropped, tuple(adjusted), tuple(refused))

    def _replace(self, key: Key, old: Mapping[str, SecretPath], new: Mapping[str, SecretPath], edition: object) -> None:
        self._subscriptions[key] = new, edition
        if not new:
            del self._subscriptions[key]
        for path, read in new.items():
            self.subscribers.setdefault(path, {})[key] = read
        for path in old:
            if path not in new:
                del self.subscribers[path][key]
                if not self.subscribers[path]:
                    del self.subscribers[path]
                    self.known.pop(path, None)

    def is_read(self, path: str) -> bool:
        """False if the namespaces of all its subscribers read too many paths."""
        return path in self._readers

    def namespaces(self, document: Document) -> set[str]:
        """The namespaces for which a document is read."""
        subscribers = chain.from_iterable(self.subscribers[path] for path in document.fields)
        return {key.source.namespace for key in subscribers if self._allowance.allows(key)}

    def shortest_refresh(self, path: str) -> float:
        return min(read.every for read in self.subscribers[path].values())

    def refresh_of_unserved(self, document: Document) -> float:
        """How often a document should be read for the subscribers that have no value from it."""
        return min((read.every for read in self._subscribers_of(document) if not self._is_served(read)), default=inf)

    def next_refresh(self, document: Document) -> float:
        """In how many seconds a document that was just read should be read again for the other subscribers."""
        return min(map(self._next_refresh, self._subscribers_of(document)), default=inf)

    def _next_refresh(self, read: SecretPath) -> float:
        reading = self.known[read.path]
        if self._is_served(read):
            return read.every
        # An optional value counts as absent one refresh after it was first not found. Other subscribers that wait for
        # the same document must not delay that.
        return max(MIN_REFRESH, read.every - reading.absent_for) if read.optional and reading.not_found else inf

    def _is_served(self, read: SecretPath) -> bool:
        """True if the subscriber has a value, or if the value is optional and known to be absent."""
        reading = self.known[read.path]
        return reading.fault is None or (read.optional and reading.not_found and reading.is_absent(read.every))

    def _subscribers_of(self, document: Document) -> Iterable[SecretPath]:
        return chain.from_iterable(self.subscribers[path].values() for path in document.fields)

    def all_served(self, document: Document) -> bool:
        return all(map(self._is_served, self._subscribers_of(document)))

    def is_faulty(self, path: str) -> bool:
        return self.known.get(path, _NO_READING).fault is not None

    # the results of reads

    def record(self, document: Document, result: ReadResult, scheme: str) -> Updated:
        """Records the result of a read for every path of its document."""
        changed: dict[Key, None] = {}
        refreshed: dict[Key, None] = {}
        for path in document.fields:
            before = self.known.get(path, _NO_READING).read_at
            if self.record_path(path, document, result, scheme):
                changed |= dict.fromkeys(self.subscribers[path])
            if self.known[path].read_at != before:
                refreshed |= dict.fromkeys(self.subscribers[path])
        return Updated(tuple(changed), tuple(refreshed))

    def record_path(self, path: str, document: Document, result: ReadResult, scheme: str) -> bool:
        """Records the result for one path. True if its reading has changed."""
        if isinstance(result, StoreError):
            return self.record_fault(path, result, scheme, self._missing_for(path, document, result))
        try:
            value = result.value(document.fields[path])
        except StoreError as fault:
            return self.record_fault(path, fault, scheme, self._missing_for(path, document, fault))
        document.not_found_since.pop(path, None)
        return self._set(path, SecretReading(value, document.read_at))

    def _missing_for(self, path: str, document: Document, fault: StoreError) -> float:
        """For how many seconds the store has answered every read of the path with "not found"."""
        if not isinstance(fault, NotFound):
            document.not_found_since.pop(path, None)
            return 0.0
        now = self._clock()
        return now - document.not_found_since.setdefault(path, now)

    def record_fault(self, path: str, fault: StoreError, scheme: str, missing: float = 0.0) -> bool:
        """Records a failed read. The last value is kept, and so is the time for which the path was missing."""
        not_found = isinstance(fault, NotFound)
        message = f"cannot read {quoted(path)} from the {scheme} store: {one_line(fault)}{_ADVICE if not_found else ''}"
        return self.record_unreadable(path, ReadError("FetchError", message), not_found, missing)

    def record_refused(self, path: str) -> bool:
        """Records that a path is not read, because its namespaces read too many."""
        return self.record_unreadable(path, self._refusal)

    def record_unreadable(self, path: str, fault: ReadError, not_found: bool = False, missing: float = 0.0) -> bool:
        old = self.known.get(path, _NO_READING)
        return self._set(path, SecretReading(old.value, old.read_at, fault, not_found, max(missing, old.absent_for)))

    def _set(self, path: str, new: SecretReading) -> bool:
        old = self.known.get(path)
        self.known[path] = new
        return old is None or (old.value, old.fault) != (new.value, new.fault) or self._became_absent(path, old, new)

    def _became_absent(self, path: str, old: SecretReading, new: SecretReading) -> bool:
        """True if the path has now been missing for so long that a subscriber counts it as absent."""
        if old.absent_for >= new.absent_for:
            return False
        reads = self.subscribers[path].values()
        return any(new.is_absent(read.every) and not old.is_absent(read.every) for read in reads)


class Allowance:
    """Which sources may read their paths: those of a namespace that asked first, while all their paths fit.

    The others wait in line until a source reads fewer paths or is gone. A path counts once for each source.
    """

    def __init__(self, most: int | None) -> None:
        self.most = most
        """Paths of all sources of one namespace. None: there is no limit."""
        self._allowed: dict[Key, int] = {}
        self._used: Counter[str] = Counter()
        self._waiting: dict[str, dict[Key, int]] = {}
        """By namespace: the sources in line, each with its number of paths."""

    def allows(self, key: Key) -> bool:
        return key in self._allowed

    def request(self, key: Key, paths: int) -> tuple[Key, ...]:
        """Replaces the number of paths that a source reads. Returns the other sources that may read theirs now."""
        namespace = key.source.namespace
        self._used[namespace] -= self._allowed.pop(key, 0)
        line = self._waiting.setdefault(namespace, {})
        if not paths:
            line.pop(key, None)
        elif self._fits(namespace, paths):
            line.pop(key, None)
            self._allow(key, paths)
        else:
            line[key] = paths  # a source that waits already keeps its position in the line
        served = self._serve(namespace, line)
        if not line:
            del self._waiting[namespace]
        if not self._used[namespace]:
            del self._used[namespace]
        return tuple(other for other in served if other != key)

    def _serve(self, namespace: str, line: dict[Key, int]) -> list[Key]:
        """Only the first in line is considered, so that a long line costs nothing."""
        served = []
        while line and self._fits(namespace, line[first := next(iter(line))]):
            self._allow(first, line.pop(first))
            served.append(first)
        return served

    def _fits(self, namespace: str, paths: int) -> bool:
        return self.most is None or self._used[namespace] + paths <= self.most

    def _allow(self, key: Key, paths: int) -> None:
        self._allowed[key] = paths
        self._used[key.source.namespace] += paths


def one_line(fault: StoreError) -> str:
    """The message as one line that fits into a condition."""
    text = " ".join(str(fault).split())
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
