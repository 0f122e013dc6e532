"""The audit log of the server: every request with its user agent, its body and its response."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec
from tests.cluster.support.waiting import eventually

OPERATOR = "samara/"
MUTATING = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_COUNTED = frozenset({"secrets", "namespaces"})
"""O2 counts writes to sources, copies and Namespaces; other writes are counted separately."""
Json = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Event:
    """One request with its response."""

    verb: str
    agent: str
    user: str
    uri: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    received: float
    answered: float
    request: Json
    response: Json

    @property
    def ours(self) -> bool:
        """True for the operator of any version: during an upgrade, both versions are ours."""
        return self.agent.startswith(OPERATOR)

    @property
    def mutating(self) -> bool:
        return self.verb in MUTATING

    @property
    def dry_run(self) -> bool:
        return "dryRun" in parse_qs(urlsplit(self.uri).query)

    @property
    def done(self) -> bool:
        return 200 <= self.code < 300

    @property
    def overtaken(self) -> bool:
        """Refused with a conflict: another client changed the object after the write was planned."""
        return self.code == 409

    @property
    def uncertain(self) -> bool:
        """Perhaps executed: if the client disconnects, the server may commit the write and still record a 504."""
        return self.mutating and (self.code >= 500 or self.code == 0)

    @property
    def address(self) -> tuple[str, str]:
        name = self.name or str((self.response.get("metadata") or {}).get("name") or "")
        return self.namespace, name or str(((self.request.get("metadata") or {}).get("name")) or "")

    @property
    def counted(self) -> bool:
        """True for a write of ours to a source, a copy or a Namespace that is not a dry run."""
        return self.ours and self.mutating and self.resource in _COUNTED and not self.dry_run

    def __str__(self) -> str:
        return f"{self.code} {self.verb} {self.resource}/{self.subresource} {'/'.join(self.address)} by {self.user}"


_decode = msgspec.json.Decoder().decode
LONGEST = 4 * 2**20
"""The maximum length of a line in bytes: a request and its response, each with an object of less than 2 MB."""


class Audit:
    """Reads a log from its end at the start of the test."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._start = end_of(path)
        self._read = self._start
        self._events: list[Event] = []
        self._marks = [(0, 0.0)]

    def mark(self) -> int:
        """A point in time for `since`. Requests received before it do not count, even if they are recorded after it."""
        self._marks.append((len(self.events()), self._clock()))
        return len(self._marks) - 1

    def events(self) -> list[Event]:
        """All requests since the start of the test."""
        lines = _complete_lines(self._path, self._read)
        self._read += len(lines)
        self._events.extend(_event(line) for line in lines.splitlines() if line)
        return self._events

    def since(self, mark: int) -> list[Event]:
        first, since = self._marks[mark]
        return [event for event in self.events()[first:] if event.received >= since]

    def writes(self, mark: int = 0) -> list[Event]:
        """The operators' writes to sources, copies and Namespaces, including refused ones."""
        return [event for event in self.since(mark) if event.counted]

    def ours(self, mark: int = 0) -> Iterator[Event]:
        return (event for event in self.since(mark) if event.ours)


def end_of(path: Path) -> int:
    """The position after the last complete line. A long line is written in parts, so the last one may be incomplete."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        before = file.seek(max(0, size - LONGEST))
        return before + file.read(size - before).rfind(b"\n") + 1


def lines_of(path: Path) -> list[str]:
    """The complete lines of a log, without one that is still being written."""
    return _complete_lines(path).decode().splitlines()


def _complete_lines(path: Path, start: int = 0) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        raw = file.read()
    return raw[: raw.rfind(b"\n") + 1]


def due_again(tried: Sequence[Event]) -> float:
    """The earliest time of the next retry after these refused writes, unless an object changes before.

    The first pause is two seconds; each further one is twice as long, with 20 % jitter.
    """
    return tried[-1].received + 0.8 * 2.0 ** len(tried)


def until_recorded(recorded: Callable[[], list[T]], count: int) -> list[T]:
    """Waits for this many events: the effect of a request is visible shortly before the request is in the log."""
    eventually(lambda: len(recorded()) >= count)
    return recorded()


def _event(line: bytes) -> Event:
    raw = _decode(line)
    reference = raw.get("objectRef") or {}
    return Event(
        verb=raw["verb"],
        agent=raw.get("userAgent", ""),
        user=(raw.get("user") or {}).get("username", ""),
        uri=raw["requestURI"],
        resource=reference.get("resource", ""),
        subresource=reference.get("subresource", ""),
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
        code=(raw.get("responseStatus") or {}).get("code", 0),
        received=_time(raw["requestReceivedTimestamp"]),
        answered=_time(raw["stageTimestamp"]),
        request=_kept(raw, "requestObject"),
        response=_kept(raw, "responseObject"),
    )


def _kept(raw: Json, field: str) -> Json:
    """A body that is not a list: the lists of the tests themselves would fill the memory."""
    body = raw.get(field)
    return {} if not isinstance(body, dict) or "items" in body else body


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
