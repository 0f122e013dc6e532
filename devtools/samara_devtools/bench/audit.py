"""Reads the API server's audit log: requests, their users, and when they were answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

READS = frozenset({"get", "list", "watch"})
REVIEWS = "selfsubjectaccessreviews"
"""Counts as a read, although it is a POST."""
CHUNK = 1 << 20
"""Bytes that are read at a time, so that reading does not block the event loop for long."""


class _User(msgspec.Struct):
    username: str = ""


class _Object(msgspec.Struct):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _Line(msgspec.Struct):
    stage: str
    verb: str
    requestURI: str
    requestReceivedTimestamp: datetime
    stageTimestamp: datetime
    user: _User = msgspec.field(default_factory=_User)
    userAgent: str = ""
    objectRef: _Object = msgspec.field(default_factory=_Object)
    responseStatus: _Status = msgspec.field(default_factory=_Status)


_line = msgspec.json.Decoder(_Line).decode


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One request. Times are seconds since the epoch by the server's clock.

    The garbage collector does not track entries. Otherwise many of them would slow down the bare client, which
    runs in the same process.
    """

    user: str
    agent: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    began: float
    ended: float
    dry: bool = False

    @property
    def is_good(self) -> bool:
        return 200 <= self.code < 300

    @property
    def is_write(self) -> bool:
        return self.verb not in READS


def entry_of(line: bytes) -> Entry | None:
    """One line as an entry. A watch counts when it opens, every other request when it is answered."""
    event = _line(line)
    opened = event.stage == "ResponseStarted"
    if opened != (event.verb == "watch"):
        return None
    target = event.objectRef
    return Entry(
        event.user.username,
        event.userAgent.partition(" ")[0],
        event.verb,
        target.resource,
        target.subresource,
        target.namespace,
        target.name,
        event.responseStatus.code,
        event.requestReceivedTimestamp.timestamp(),
        event.stageTimestamp.timestamp(),
        "dryRun=" in event.requestURI,
    )


class AuditLog:
    """The log of a running server, read as it grows."""

    def __init__(self, path: Path) -> None:
        self.entries: list[Entry] = []
        self._file = path.open("rb")
        self._tail = b""

    def poll(self) -> int:
        """Reads the next piece of the log and returns the number of entries so far."""
        *lines, self._tail = (self._tail + self._file.read(CHUNK)).split(b"\n")
        self.entries.extend(entry for line in lines if line and (entry := entry_of(line)) is not None)
        return len(self.entries)

    def catch_up(self) -> int:
        """Reads to the end of the log and returns the number of entries: a mark for `since`."""
        count = -1
        while count != (count := self.poll()):
            pass
        return count

    def since(self, mark: int) -> list[Entry]:
        self.catch_up()
        return self.entries[mark:]

    def close(self) -> None:
        self._file.close()


class Pending:
    """Namespaces in which a certain write is still missing. Each entry of the log is checked once."""

    def __init__(
        self, log: AuditLog, mark: int, missing: set[str], namespaces_in: Callable[[list[Entry]], Iterable[str]]
    ) -> None:
        self._log = log
        self._at = mark
        self._missing = missing
        self._namespaces_in = namespaces_in

    def is_over(self) -> bool:
        fresh, self._at = self._log.entries[self._at :], len(self._log.entries)
        self._missing.difference_update(self._namespaces_in(fresh))
        return not self._missing


class Counts(NamedTuple):
    """Requests by column. Each request is in one column, and a refused write in `failed` as well."""

    writes: int = 0
    reads: int = 0
    events: int = 0
    status: int = 0
    dry_runs: int = 0
    leases: int = 0
    failed: int = 0
    """Writes that the API server refused."""


def column(entry: Entry) -> str:
    if entry.resource in ("leases", "events"):
        return entry.resource
    if not entry.is_write or entry.resource == REVIEWS:
        return "reads"
    if entry.dry:
        return "dry_runs"
    return "status" if entry.subresource == "status" else "writes"


def count(entries: Iterable[Entry]) -> Counts:
    listed = list(entries)
    by_column = Counter(map(column, listed))
    failed = sum(1 for entry in listed if column(entry) == "writes" and not entry.is_good)
    return Counts(
        **{name: by_column[name] for name in ("writes", "reads", "events", "status", "dry_runs", "leases")},
        failed=failed,
    )


def by(entries: Iterable[Entry], user: str) -> list[Entry]:
    return [entry for entry in entries if entry.user == user]


def agents(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(sorted({entry.agent for entry in entries}))


def written(entries: Iterable[Entry], name: str, resource: str = "secrets") -> dict[str, float]:
    """When each namespace last had a good write of the object of this name."""
    times: dict[str, float] = {}
    for entry in _good_writes(entries, name, resource):
        times[entry.namespace] = max(entry.ended, times.get(entry.namespace, entry.ended))
    return times


def first_writes(entries: Iterable[Entry], name: str, resource: str = "secrets") -> dict[str, Entry]:
    """The first successful write in each namespace. Later ones do not delay the copy of a new namespace."""
    first: dict[str, Entry] = {}
    for entry in _good_writes(entries, name, resource):
        if entry.namespace not in first or entry.ended < first[entry.namespace].ended:
            first[entry.namespace] = entry
    return first


def _good_writes(entries: Iterable[Entry], name: str, resource: str) -> Iterator[Entry]:
    for entry in entries:
        if entry.name == name and entry.resource == resource and entry.is_write and entry.is_good and not entry.dry:
            yield entry


def created(entries: Iterable[Entry], resource: str) -> dict[str, float]:
    """When each cluster-wide object of this resource was made, by name."""
    return {
        entry.name: entry.ended
        for entry in entries
        if entry.resource == resource and entry.verb == "create" and entry.is_good
    }
