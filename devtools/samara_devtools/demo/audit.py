"""Reads accepted writes, their clients and their times from the server's audit log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

OPERATOR = "samara/"
PEOPLE = "kubectl/"


class Entry(NamedTuple):
    """One write that the server has accepted."""

    agent: str
    verb: str
    resource: str
    namespace: str
    name: str
    received: datetime
    done: datetime

    @property
    def by_operator(self) -> bool:
        return self.agent.startswith(OPERATOR)

    @property
    def by_people(self) -> bool:
        return self.agent.startswith(PEOPLE)


class Audit:
    """Reads the log as it grows, from its end at the start."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset = log.stat().st_size

    def new_entries(self) -> Iterator[Entry]:
        """The accepted writes since the last call. An incomplete line is read by the next call."""
        with self._log.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                entry = _entry(json.loads(line))
                if entry is not None:
                    yield entry


_WRITES = frozenset({"create", "update", "patch", "delete"})


def _entry(event: dict[str, Any]) -> Entry | None:
    about = event.get("objectRef") or {}
    accepted = 200 <= (event.get("responseStatus") or {}).get("code", 0) < 300
    if event["stage"] != "ResponseComplete" or event["verb"] not in _WRITES or not accepted:
        return None
    return Entry(
        agent=event.get("userAgent", ""),
        verb=event["verb"],
        resource=about.get("resource", ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        received=_time(event["requestReceivedTimestamp"]),
        done=_time(event["stageTimestamp"]),
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
