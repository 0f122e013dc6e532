"""What a dialect answers: the copies and overlays that one source wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from samara.core.model import EMPTY, MANAGER, Content, Kind, Object, Owner, Ref, vocabulary_of
from samara.core.reads import Read
from samara.core.view import View

if TYPE_CHECKING:
    from samara.core.admit import Edit, Operation, Request
    from samara.core.tally import Tally


class Mode(Enum):
    SYNC = "sync"
    """Keep the copy equal to its source."""
    SEED = "seed"
    """Create the copy once and leave it alone after."""


class Adopt(Enum):
    """What to do with an object at a wanted place that is not ours."""

    NEVER = "never"
    IDENTICAL = "identical"
    ANY = "any"


class Keep(Enum):
    KEEP = "keep"
    """The place is wanted and what is there stays; nothing is created, rewritten or deleted."""


KEEP: Final = Keep.KEEP


class Reach(Enum):
    """How far a vocabulary reaches into protected namespaces."""

    ANYWHERE = "anywhere"
    NAMED = "named"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Copy:
    """A wanted object at an address."""

    ref: Ref
    content: Content | Keep = field(repr=False)
    labels: Mapping[str, str] = field(default_factory=lambda: EMPTY, repr=False)
    annotations: Mapping[str, str] = field(default_factory=lambda: EMPTY, repr=False)
    mode: Mode = Mode.SYNC
    adopt: Adopt = Adopt.IDENTICAL
    named: bool = False
    """True where the source names this namespace, false where it is one of all or of a selection."""
    owner: Owner | None = None
    awaits: str = ""
    """Of a place that is only kept: what has to happen first, told where nothing is there."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """Some labels and annotations wanted on an object that is not ours: never creates, owns or deletes."""

    ref: Ref
    labels: Mapping[str, str] = field(default_factory=lambda: EMPTY, repr=False)
    annotations: Mapping[str, str] = field(default_factory=lambda: EMPTY, repr=False)
    manager: str = MANAGER


class Fault(NamedTuple):
    """Something in a source that a person must put right."""

    reason: Literal[
        "Invalid", "Refused", "PathNotAllowed", "NoNamespace", "TokenError", "ConnectionError", "FetchError"
    ]
    message: str


@dataclass(frozen=True, slots=True)
class Want:
    """A dialect's whole answer for one source."""

    copies: tuple[Copy, ...] = ()
    overlays: tuple[Overlay, ...] = ()
    prune: bool = True
    """False: copies that are not wanted stay where they are."""
    in_turn: bool = False
    """True: they go only once everything that is wanted is there and right."""
    guard: str | None = None
    """The finalizer that must be on the source before anything is written for it."""
    recheck: float | None = None
    """Seconds after which the source is planned again though nothing has changed; None: it is not."""
    faults: tuple[Fault, ...] = ()
    barred: tuple[Barred, ...] = ()
    """Places that the dialect itself reports as blocked; while there is one, the guard is not released."""


Bare = Callable[[str, Mapping[str, str]], dict[str, str]]
"""`Table.bare`: of a source's labels or annotations, those that may travel."""


class Places(NamedTuple):
    """The kind and name that a source may write, in whichever namespaces, in one, or in those that hang on one."""

    kind: Kind
    name: str
    below: str = ""
    """Only in namespaces whose `Dialect.upstream` is this one; empty: anywhere."""
    within: str = ""
    """Only in this namespace; empty: anywhere."""

    @property
    def spot(self) -> tuple[Kind, str]:
        return self.kind, self.name


class Barred(NamedTuple):
    """A wanted place where the dialect itself sees that nothing can be done now."""

    ref: Ref
    reason: Literal["conflict", "refused"]
    message: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """A vocabulary, or one part of it, as plain functions in a value."""

    name: str
    """The vocabulary's, and after a colon the dialect's own where a vocabulary has several."""
    kinds: tuple[Kind, ...]
    is_source: Callable[[Object, View], bool]
    origin: Callable[[Object, View], Ref | None]
    places: Callable[[Ref, View], Places | None]
    """None where a source writes nothing of its own, or cannot say what."""
    want: Callable[[Ref, View], Want]
    marks: frozenset[str]
    asks: frozenset[str]
    also: Callable[[Object, View], Iterable[Ref]] = lambda obj, view: ()
    """The sources that another object's change concerns; for a Namespace, in that namespace only."""
    reads: Callable[[Ref, View], tuple[Read, ...]] = lambda source, view: ()
    report: Callable[[Object, View, Tally], Mapping[str, object]] | None = None
    """The source's status; conditions come without transition times, which `status.settled` adds."""
    admit: Callable[[Request, View], tuple[str, ...]] | None = None
    """All faults for which a change of an object of `guarded` is refused; a plain one says that it is invalid."""
    mutate: Callable[[Request], tuple[Edit, ...]] | None = None
    """What is changed in an object of `guarded` when it is created, before it is judged and stored."""
    guarded: tuple[Kind, ...] = ()
    judged: tuple[Operation, ...] = ("CREATE", "UPDATE")
    """The operations about which `admit` is asked."""
    scope: frozenset[str] = frozenset()
    """The labels of which a change must carry one, before or after, to be judged; none: the words of `asks`."""
    fails_closed: bool = False
    """True where a change in this scope is refused while nobody can judge it, as it is for the kinds of `asking`."""
    given_away: Callable[[Object], bool] = lambda obj: False
    """True for a marked object that is its namespace's own since it was made, whatever is served or configured."""
    managers: frozenset[str] = frozenset()
    rank: int = 0
    """Where two vocabularies claim a place, the lower rank has it."""
    reach: Reach = Reach.NEVER
    any_kind: bool = False
    """True where the administrator lists the kinds, and may list those that are denied to others."""
    consent: bool = False
    """True where a target namespace must accept the source's namespace."""
    asking: tuple[Kind, ...] = ()
    """Of its kinds, those whose objects only ask and are never made: custom resources.

    Before the end of one takes anything away, or lets its guard go, the definition of its kind is asked for.
    """
    finalizer: str = ""
    """What it puts on its sources as their guard, and takes off again."""
    proven: bool = False
    """True where the mark is proof enough, whoever set it: a label of a Namespace, and no namespace's own word."""
    hands_on: bool = False
    """True where what it makes may itself be annotated as a source of another vocabulary."""
    unsaid: frozenset[str] = frozenset()
    """The fields of a content about which the vocabulary says nothing: a copy is right with them and without."""
    by_owner: bool = False
    """True where an owner reference with the source's uid makes an object ours, and nothing else does."""
    explicit: bool = False
    """True where deleting a source is an explicit act: what it made then goes without a brake."""
    relations: frozenset[str] = frozenset()
    """The labels of Namespaces that name other Namespaces: `View.labelled` finds by them."""
    upstream: Callable[[Object], str] | None = None
    """The namespace on which a Namespace hangs, or nothing: `Places.below` counts by it."""
    whole: bool = False
    """True where a source is never planned in slices: what it wants is one object."""
    served: bool = True
    """False where the settings do not name it, or where it waits: it knows its copies, and wants nothing."""
    reporter: str = ""
    """The field manager under which the status is applied; none: it is patched under ours."""
    conditions: frozenset[str] = frozenset()
    """The types of the conditions that a status of ours may hold; those of other types are other people's."""
    advice: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """By the reason for which a place is blocked: what people can do. Events say it, and so does the status."""
    gone_after: float | None = None
    """How long the copies of a source that vanished are left to the garbage collector; None: as the settings say."""

    @property
    def title(self) -> str:
        return vocabulary_of(self.name)

    @property
    def all_managers(self) -> frozenset[str]:
        return self.managers | {MANAGER}
