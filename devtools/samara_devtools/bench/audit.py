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
"""Bytes that are read at once. Reading more would block the event loop for long."""


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
    is_dry_run: bool = False

    @property
    def succeeded(self) -> bool:
        return 200 <= self.code < 300

    @property
    def is_write(self) -> bool:
        return self.verb not in READS


def entry_of(line: bytes) -> Entry | None:
    """The entry of one line. A watch counts when it opens, any other request when it is answered."""
    event = _line(line)
    is_opening = event.stage == "ResponseStarted"
    if is_opening != (event.verb == "watch"):
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


class MissingWrites:
    """Namespaces in which a certain write is still missing. Each entry of the log is examined once."""

    def __init__(
        self, log: AuditLog, mark: int, namespaces: set[str], namespaces_in: Callable[[list[Entry]], Iterable[str]]
    ) -> None:
        self._log = log
        self._mark = mark
        self._missing = namespaces
        self._namespaces_in = namespaces_in

    def are_done(self) -> bool:
        new, self._mark = self._log.entries[self._mark :], len(self._log.entries)
        self._missing.difference_update(self._namespaces_in(new))
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
    if entry.is_dry_run:
        return "dry_runs"
    return "status" if entry.subresource == "status" else "writes"


def count(entries: Iterable[Entry]) -> Counts:
    listed = list(entries)
    by_column = Counter(map(column, listed))
    failed = sum(1 for entry in listed if column(entry) == "writes" and not entry.succeeded)
    return Counts(
        **{name: by_column[name] for name in ("writes", "reads", "events", "status", "dry_runs", "leases")},
        failed=failed,
    )


def of_user(entries: Iterable[Entry], user: str) -> list[Entry]:
    return [entry for entry in entries if entry.user == user]


def agents(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(sorted({entry.agent for entry in entries}))


def last_writes(entries: Iterable[Entry], name: str, resource: str = "secrets") -> dict[str, float]:
    """When the object of this name was last written, by namespace."""
    times: dict[str, float] = {}
    for entry in _successful_writes(entries, name, resource):
        times[entry.namespace] = max(entry.ended, times.get(entry.namespace, entry.ended))
    return times


def first_writes(entries: Iterable[Entry], name: str, resource: str = "secrets") -> dict[str, Entry]:
    """The first successful write of the object of this name, by namespace."""
    first: dict[str, Entry] = {}
    for entry in _successful_writes(entries, name, resource):
        if entry.namespace not in first or entry.ended < first[entry.namespace].ended:
            first[entry.namespace] = entry
    return first


def _successful_writes(entries: Iterable[Entry], name: str, resource: str) -> Iterator[Entry]:
    for entry in entries:
        is_stored = entry.is_write and entry.succeeded and not entry.is_dry_run
        if is_stored and (entry.name, entry.resource) == (name, resource):
            yield entry


def creations(entries: Iterable[Entry], resource: str) -> dict[str, float]:
    """When each cluster-scoped object of this resource was created, by name."""
    return {
        entry.name: entry.ended
        for entry in entries
        if entry.resource == resource and entry.verb == "create" and entry.succeeded
    }
