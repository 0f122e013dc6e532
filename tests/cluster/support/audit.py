"""The server's audit log as the tests read it: every request, who sent it, what it carried and what came back."""

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
"""O2 counts writes to sources, copies and Namespaces; everything else is counted apart."""
Json = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Event:
    """One request, once it was answered."""

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
        """Of any version: while one replaces the other, both are ours."""
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
        """Refused, since somebody else was faster: it was planned on what is no longer so."""
        return self.code == 409

    @property
    def uncertain(self) -> bool:
        """Perhaps done: when a client goes away the server may commit its write and yet record a 504 without object."""
        return self.mutating and (self.code >= 500 or self.code == 0)

    @property
    def address(self) -> tuple[str, str]:
        name = self.name or str((self.response.get("metadata") or {}).get("name") or "")
        return self.namespace, name or str(((self.request.get("metadata") or {}).get("name")) or "")

    @property
    def counted(self) -> bool:
        """A write of ours to a source, a copy or a Namespace, dry runs left out."""
        return self.ours and self.mutating and self.resource in _COUNTED and not self.dry_run

    def __str__(self) -> str:
        return f"{self.code} {self.verb} {self.resource}/{self.subresource} {'/'.join(self.address)} by {self.user}"


_decode = msgspec.json.Decoder().decode
LONGEST = 4 * 2**20
"""Bytes of one line: a request and its answer, each of an object of less than two megabytes."""


class Audit:
    """Reads one log from where the test began."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._start = end_of(path)
        self._read = self._start
        self._events: list[Event] = []
        self._marks = [(0, 0.0)]

    def mark(self) -> int:
        """A moment to count from later: what was asked before it does not count, although it is recorded after it."""
        self._marks.append((len(self.events()), self._clock()))
        return len(self._marks) - 1

    def events(self) -> list[Event]:
        """Everything since the test began."""
        lines = _whole_lines(self._path, self._read)
        self._read += len(lines)
        self._events.extend(_event(line) for line in lines.splitlines() if line)
        return self._events

    def since(self, mark: int) -> list[Event]:
        first, since = self._marks[mark]
        return [event for event in self.events()[first:] if event.received >= since]

    def writes(self, mark: int = 0) -> list[Event]:
        """The operators' writes to sources, copies and Namespaces, also those that were refused."""
        return [event for event in self.since(mark) if event.counted]

    def ours(self, mark: int = 0) -> Iterator[Event]:
        return (event for event in self.since(mark) if event.ours)


def end_of(path: Path) -> int:
    """Where the last whole line of a log ends: a long one appears piece by piece, and its rest is still to come."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        before = file.seek(max(0, size - LONGEST))
        return before + file.read(size - before).rfind(b"\n") + 1


def lines_of(path: Path) -> list[str]:
    """What a log holds by now, line by line: without the one that is being written."""
    return _whole_lines(path).decode().splitlines()


def _whole_lines(path: Path, start: int = 0) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        raw = file.read()
    return raw[: raw.rfind(b"\n") + 1]


def due_again(tried: Sequence[Event]) -> float:
    """The first moment at which a write that was refused so often is sent again, unless something changes before.

    After two seconds, and each time twice as long, give or take a fifth.
    """
    return tried[-1].received + 0.8 * 2.0 ** len(tried)


def until_recorded(recorded: Callable[[], list[T]], count: int) -> list[T]:
    """Waits for so many: what a request has done can be read a moment before the request is in the log."""
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
    """A body, unless it is a list: the tests' own lists would fill the memory."""
    body = raw.get(field)
    return {} if not isinstance(body, dict) or "items" in body else body


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
