"""The walk through Secret copy: every step does one thing with kubectl and shows what the operator made of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from samara.demo.audit import Audit, Entry
from samara.demo.examples import folder
from samara.demo.screen import Screen, spoken
from samara.demo.stage import DemoError, Stage

HOME = "admin"
PULL, DATABASE = "registry-pull", "orders-database"
CHANGED = '{"stringData":{"password":"changed-by-hand"}}'

Place = tuple[str, str]
"""Namespace and name of a Secret."""


class Walk:
    """Step by step, each with the server's own times."""

    def __init__(self, stage: Stage, screen: Screen) -> None:
        self._stage = stage
        self._screen = screen
        self._examples = folder("secret-copy")
        self._audit = Audit(stage.cluster.audit_log)

    def all(self) -> None:
        began = time.monotonic()
        self.sources()
        self.edited_copy()
        self.new_namespace()
        self.dropped_target()
        self.questions()
        self._screen.title(f"That was all of it, in {spoken(time.monotonic() - began)}.")

    def sources(self) -> None:
        """Two Secrets ask to be copied, and are."""
        self._screen.title("1. Two Secrets that ask to be copied")
        self._screen.say("One goes to every namespace, one to the two that its annotation lists.")
        self._kubectl("apply", "-f", self._file("namespaces.yaml"))
        self._fresh()
        self._kubectl("apply", "-f", self._file("pull-secret.yaml"), "-f", self._file("database.yaml"))
        wanted = {(namespace, PULL) for namespace in self._namespaces()} | {("shop", DATABASE), ("billing", DATABASE)}
        took = self._until("create", wanted)
        self._screen.took(f"{len(wanted)} copies, from the first request to the last copy", took)
        self._kubectl("get", "secrets", "--all-namespaces", "--selector=secret-copy/from")

    def edited_copy(self) -> None:
        """Somebody changes a copy: it is put back, and that person finds out why."""
        self._screen.title("2. Somebody edits a copy")
        self._fresh()
        self._kubectl("patch", "secret", DATABASE, "--namespace=shop", "--type=merge", f"--patch={CHANGED}")
        took = self._until("update", {("shop", DATABASE)})
        self._expect_equal((HOME, DATABASE), ("shop", DATABASE))
        self._screen.took("the copy is equal to its source again", took)
        events = ("get", "events", "--namespace=shop", f"--field-selector=involvedObject.name={DATABASE}")
        self._stage.wait_for("an Event in shop", lambda: DATABASE in self._stage.cluster.kubectl(*events))
        self._kubectl(*events, "--output=custom-columns=REASON:.reason,MESSAGE:.message")

    def new_namespace(self) -> None:
        """A namespace appears: what goes everywhere goes there too."""
        self._screen.title("3. A new namespace")
        self._fresh()
        self._kubectl("create", "namespace", "warehouse")
        took = self._until("create", {("warehouse", PULL)})
        self._expect_equal((HOME, PULL), ("warehouse", PULL))
        self._screen.took("the new namespace has its copy", took)
        self._kubectl("get", "secrets", "--namespace=warehouse")

    def dropped_target(self) -> None:
        """A namespace leaves the list: its copy goes, the others stay."""
        self._screen.title("4. A target leaves the list")
        self._fresh()
        targets = "secret-copy/namespaces=shop"
        self._kubectl("annotate", "secret", DATABASE, f"--namespace={HOME}", "--overwrite", targets)
        took = self._until("delete", {("billing", DATABASE)})
        self._screen.took("the copy in billing is gone", took)
        self._kubectl("get", "secrets", "--all-namespaces", f"--selector=secret-copy/from={HOME}-{DATABASE}")

    def questions(self) -> None:
        """The program explains itself, with the function that decides."""
        self._screen.title("5. Ask it")
        self._samara("why", f"secret/{DATABASE}", "-n", "billing")
        self._samara("status")

    # what the steps are made of

    def _file(self, name: str) -> str:
        path = self._examples / name
        here = Path.cwd()
        return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)

    def _kubectl(self, *words: str) -> None:
        self._screen.command("kubectl", *words)
        self._screen.output(self._stage.cluster.kubectl(*words))

    def _samara(self, *words: str) -> None:
        self._screen.command("samara", *words)
        self._screen.output(self._stage.samara(*words))

    def _namespaces(self) -> list[str]:
        listed = json.loads(self._stage.cluster.kubectl("get", "namespaces", "--output=json"))
        return [name for item in listed["items"] if (name := item["metadata"]["name"]) != HOME]

    def _fresh(self) -> None:
        """What was written before the next command does not count for it."""
        for _ in self._audit.news():
            pass

    def _until(self, verb: str, places: set[Place]) -> float:
        """Seconds from the moment the server received a person's request to the operator's last write."""
        missing = set(places)
        received: list[datetime] = []
        done: list[datetime] = []

        def take(entry: Entry) -> None:
            if entry.by_people:
                received.append(entry.received)
            elif entry.by_operator and entry.verb == verb and entry.resource == "secrets":
                missing.discard((entry.namespace, entry.name))
                done.append(entry.done)

        def arrived() -> bool:
            for entry in self._audit.news():
                take(entry)
            return not missing

        self._stage.wait_for(f"to see the {verb} of {len(places)} copies", arrived)
        return (max(done) - min(received)).total_seconds()

    def _expect_equal(self, source: Place, copy: Place) -> None:
        one, other = (self._content(place) for place in (source, copy))
        if one != other:
            raise DemoError(f"expected {'/'.join(copy)} to be equal to {'/'.join(source)}; it differs")

    def _content(self, place: Place) -> object:
        namespace, name = place
        secret = json.loads(
            self._stage.cluster.kubectl("get", "secret", name, f"--namespace={namespace}", "--output=json")
        )
        return secret["type"], secret["data"]


def timed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began
