"""What a plan consists of: writes, objects to read first, and blocked copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from samara.core.desired import Copy, Fault, Overlay, Reason
from samara.core.model import Key, Object, Ref
from samara.core.queries import Query


@dataclass(frozen=True, slots=True)
class Create:
    key: Key
    ref: Ref
    copy: Copy
    why: str = "wanted here and absent"


@dataclass(frozen=True, slots=True)
class Update:
    """Replace the whole object, if it still has the version that the plan saw."""

    key: Key
    ref: Ref
    copy: Copy
    live: Object
    why: str


@dataclass(frozen=True, slots=True)
class Recreate:
    """Delete by uid, then create: an immutable field or an owner reference differs."""

    key: Key
    ref: Ref
    copy: Copy
    live: Object
    why: str = "an immutable field differs"


@dataclass(frozen=True, slots=True)
class Delete:
    key: Key
    ref: Ref
    live: Object
    why: str = "no longer wanted here"
    delayed: bool = False
    """True if the garbage collector should delete it: we do so only if it has not for a while."""
    revoked: bool = False
    """True if the namespace withdrew its consent."""


@dataclass(frozen=True, slots=True)
class Release:
    """Remove our marks from an adopted object and leave the object."""

    key: Key
    ref: Ref
    live: Object
    why: str = "no longer wanted here; it was adopted, so only Samara's marks are removed"


@dataclass(frozen=True, slots=True)
class KeepAsOrphan:
    """Mark a copy that stays although no source wants it: its deletion was held, and a person discarded it."""

    key: Key
    ref: Ref
    live: Object
    why: str = "its deletion was discarded; it stays as an orphan"


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of an overlay."""

    key: Key
    ref: Ref
    overlay: Overlay
    live: Object
    why: str = "labels or annotations differ"


@dataclass(frozen=True, slots=True)
class SetFinalizer:
    """Add our finalizer to a source, or remove it."""

    key: Key
    ref: Ref
    live: Object
    finalizer: str
    add: bool
    why: str


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the status of a source."""

    key: Key
    ref: Ref
    live: Object
    status: Mapping[str, object] = field(repr=False)
    why: str = "the status has changed"


Removal = Delete | Release | KeepAsOrphan
Write = Create | Update | Recreate | Removal | Apply | SetFinalizer | WriteStatus
VERBS: dict[type[Write], str] = {
    Create: "create",
    Update: "update",
    Recreate: "recreate",
    Delete: "delete",
    Release: "update",
    KeepAsOrphan: "update",
    Apply: "overlay",
    SetFinalizer: "guard",
    WriteStatus: "report",
}
"""The names of writes in metrics, log lines and answers of commands."""


def verb(write: Write) -> str:
    return VERBS[type(write)]


class ReadFirst(NamedTuple):
    """An object that the cache knows only by its address. It must be read before a decision."""

    ref: Ref


class AskFirst(NamedTuple):
    """Queries that must be answered before something is written at an address."""

    ref: Ref
    queries: tuple[Query, ...]


class Blocked(NamedTuple):
    """A copy that cannot be written, and why."""

    key: Key
    ref: Ref
    reason: Reason
    message: str


Outcome = Write | ReadFirst | AskFirst | Blocked | None
"""What a rule decides for one address. None: nothing needs to be written."""


class Step(NamedTuple):
    """The decision for one address, and the name of the rule that made it."""

    ref: Ref
    outcome: Outcome
    rule: str
    desired: bool = True


@dataclass(frozen=True)
class Plan:
    """What one key needs now: a step for each address."""

    steps: tuple[Step, ...] = ()
    ready: bool = True
    """False if a kind is not synced, an input is not read or a query has no answer yet: then nothing is planned."""
    reads: tuple[Query, ...] = ()
    """If not ready: the queries that the plan depends on. Some may have an answer already."""
    faults: tuple[Fault, ...] = ()

    @cached_property
    def writes(self) -> tuple[Write, ...]:
        return tuple(step.outcome for step in self.steps if isinstance(step.outcome, Write))

    @cached_property
    def read_first(self) -> tuple[ReadFirst, ...]:
        return tuple(step.outcome for step in self.steps if isinstance(step.outcome, ReadFirst))

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        """The queries that the plan or one of its steps waits for."""
        asked = (query for step in self.steps if isinstance(step.outcome, AskFirst) for query in step.outcome.queries)
        return tuple(dict.fromkeys((*self.reads, *asked)))

    @cached_property
    def blocked(self) -> tuple[Blocked, ...]:
        return tuple(step.outcome for step in self.steps if isinstance(step.outcome, Blocked))

    @cached_property
    def desired(self) -> tuple[Ref, ...]:
        return tuple(step.ref for step in self.steps if step.desired)
