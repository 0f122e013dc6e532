"""What a plan consists of: writes, places to look at, and copies that are blocked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from samara.core.allow import Reason
from samara.core.model import Key, Object, Ref
from samara.core.reads import Read
from samara.core.want import Copy, Fault, Overlay


@dataclass(frozen=True, slots=True)
class Create:
    key: Key
    ref: Ref
    copy: Copy
    why: str = "wanted here and absent"


@dataclass(frozen=True, slots=True)
class Update:
    """Replaces the object exactly, conditional on the version it was decided on."""

    key: Key
    ref: Ref
    copy: Copy
    have: Object
    why: str


@dataclass(frozen=True, slots=True)
class Recreate:
    """Deletes by uid, then creates: the difference lies in what cannot be changed, a fixed field or an owner."""

    key: Key
    ref: Ref
    copy: Copy
    have: Object
    why: str = "an immutable field differs"


@dataclass(frozen=True, slots=True)
class Delete:
    key: Key
    ref: Ref
    have: Object
    why: str = "no longer wanted here"
    late: bool = False
    """True for what the garbage collector should take: it is sent only where that has not happened for a while."""
    withdrawn: bool = False
    """True where the namespace has said that it does not accept the copy any more."""


@dataclass(frozen=True, slots=True)
class Release:
    """Takes our marks off an object and leaves it to its people."""

    key: Key
    ref: Ref
    have: Object
    why: str = "no longer wanted here; it was adopted, so it stays without our marks"


@dataclass(frozen=True, slots=True)
class Spare:
    """Says on a copy that it stays although nothing wants it: its removal was held, and somebody chose to keep it."""

    key: Key
    ref: Ref
    have: Object
    why: str = "its removal was discarded; it stays as an orphan"


@dataclass(frozen=True, slots=True)
class Apply:
    """Lays an overlay over an object that is not ours, by server-side apply."""

    key: Key
    ref: Ref
    overlay: Overlay
    have: Object
    why: str = "labels or annotations differ"


@dataclass(frozen=True, slots=True)
class Guard:
    """Puts our finalizer on a source, or takes it off."""

    key: Key
    ref: Ref
    have: Object
    finalizer: str
    add: bool
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """Writes a source's status."""

    key: Key
    ref: Ref
    have: Object
    status: Mapping[str, object] = field(repr=False)
    why: str = "the status has changed"


Removal = Delete | Release | Spare
Write = Create | Update | Recreate | Removal | Apply | Guard | Report


class Look(NamedTuple):
    """A place that must be seen before it can be decided about."""

    ref: Ref


class Blocked(NamedTuple):
    """A copy that cannot be placed, and why."""

    key: Key
    ref: Ref
    reason: Reason
    message: str


class Step(NamedTuple):
    """The outcome for one address: None where it is right."""

    ref: Ref
    outcome: Write | Look | Blocked | None
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """All that one key needs now."""

    ready: bool = True
    """False where a kind has not been listed yet, or a read is missing: then nothing is known and nothing planned."""
    writes: tuple[Write, ...] = ()
    looks: tuple[Look, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    wanted: tuple[Ref, ...] = ()
    reads: tuple[Read, ...] = ()
    recheck: float | None = None
    faults: tuple[Fault, ...] = ()
