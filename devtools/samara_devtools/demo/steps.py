"""The steps of the walks: commands as users type them, and times from the server's audit log."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from samara_devtools.demo.audit import Audit, Entry
from samara_devtools.demo.screen import Screen
from samara_devtools.demo.stage import EXAMPLES, DemoError, Stage

Address = tuple[str, str]
"""Namespace and name of a copy."""


class Steps(ABC):
    """The walk of one vocabulary. Every step runs one command and shows its effect."""

    def __init__(self, vocabulary: str, stage: Stage, screen: Screen) -> None:
        self._stage = stage
        self._screen = screen
        self._examples = EXAMPLES / vocabulary
        self._audit = Audit(stage.cluster.audit_log)

    @abstractmethod
    def sources(self) -> None:
        """The first step. With `--keep` it is the only one."""

    @abstractmethod
    def all(self) -> None:
        """Every step, in order."""

    def _file(self, name: str) -> str:
        """The path of an example, as short as a user would type it."""
        path, folder = self._examples / name, Path.cwd()
        return str(path.relative_to(folder) if path.is_relative_to(folder) else path)

    def _kubectl(self, *arguments: str) -> None:
        self._screen.command("kubectl", *arguments)
        self._screen.output(self._stage.cluster.kubectl(*arguments))

    def _samara(self, *arguments: str) -> None:
        self._screen.command("samara", *arguments)
        self._screen.output(self._stage.samara(*arguments))

    def _namespaces(self, *excluded: str) -> list[str]:
        listed = json.loads(self._stage.cluster.kubectl("get", "namespaces", "--output=json"))
        return [name for item in listed["items"] if (name := item["metadata"]["name"]) not in excluded]

    def _skip_earlier_writes(self) -> None:
        """Only writes after this call count in `_until`."""
        for _ in self._audit.new_entries():
            pass

    def _until(
        self, verb: str, addresses: set[Address], resource: str = "secrets", since: datetime | None = None
    ) -> float:
        """Waits for a write at each address. Seconds from a person's request, or from `since`, to the last write."""
        missing = set(addresses)
        received = [] if since is None else [since]
        done: list[datetime] = []

        def take(entry: Entry) -> None:
            if entry.by_people:
                received.append(entry.received)
            elif entry.by_operator and entry.verb == verb and entry.resource == resource:
                missing.discard((entry.namespace, entry.name))
                done.append(entry.done)

        def are_done() -> bool:
            for entry in self._audit.new_entries():
                take(entry)
            return not missing

        self._stage.wait_for(f"to see the {verb} of {len(addresses)} copies", are_done)
        return (max(done) - min(received)).total_seconds()

    def _expect_equal(self, source: Address, copy: Address, kind: str = "secret") -> None:
        if self._content(source, kind) != self._content(copy, kind):
            raise DemoError(f"expected {'/'.join(copy)} to be equal to {'/'.join(source)}; it differs")

    def _content(self, address: Address, kind: str) -> object:
        namespace, name = address
        obj = json.loads(self._stage.cluster.kubectl("get", kind, name, f"--namespace={namespace}", "--output=json"))
        return obj.get("type"), obj["data"]


def timed(action: Callable[[], object]) -> float:
    """Runs the action and returns the seconds that it took."""
    began = time.monotonic()
    action()
    return time.monotonic() - began
