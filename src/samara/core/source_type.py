"""SourceType: one way in which an object requests copies. A vocabulary has one source type or several."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from samara.core.admission import Operation, PatchOperation, Request
from samara.core.copy_counts import CopyCounts
from samara.core.desired import Desired, Mistake
from samara.core.model import NO_METADATA, Kind, Object, Ref, vocabulary_of
from samara.core.names import matches_any_glob
from samara.core.ownership import ByItself, Ownership
from samara.core.source_limits import SourceLimits
from samara.core.trust import root_in
from samara.core.view import View

Copyable = Callable[[str, Mapping[str, str]], dict[str, str]]
"""Which of a source's labels or annotations may be copied: a method of `CopyableMetadata`."""


class Addresses(NamedTuple):
    """The kind and name of the copies that a source may want, and in which namespaces."""

    kind: Kind
    name: str
    below: str = ""
    """Only in namespaces whose parent (`Hierarchy.parent`) is this one."""
    within: str = ""
    """Only in this namespace."""

    @property
    def target(self) -> tuple[Kind, str]:
        return self.kind, self.name


def same_kind_and_name(source: Ref, view: View) -> Addresses:
    return Addresses(source.kind, source.name)


class ListedNames(NamedTuple):
    """The names of namespaces that a source lists."""

    names: Collection[str] = frozenset()
    """Those that a namespace can have."""
    total: int = 0
    """How many these are together with the others."""
    elsewhere: bool = False
    """True if the source may want copies in namespaces that it does not list, too."""
    field: str = ""
    """The label, annotation or field that lists them."""
    note: str = ""
    """How they are counted, for a message."""


LISTS_NONE, UNLISTED = ListedNames(), ListedNames(elsewhere=True)


class Names(NamedTuple):
    """The names of namespaces that sources list, and who may read others."""

    listed_by: Callable[[Object], ListedNames] = lambda obj: UNLISTED
    """The namespaces that a source concerns, and what counts against the limits."""
    is_discreet: bool = False
    """True: messages to the author of a source name only namespaces that the source lists."""
    trusts: Callable[[Object, str], bool] | None = None
    """True if a source wants a copy in a namespace because of its name: it lists the name, or a pattern of it matches.
    None if no source of this type names a namespace."""


class Protected(Enum):
    """What a source may do in a protected namespace."""

    ALLOW = "allow"
    BY_NAME = "by-name"
    REFUSE = "refuse"


class TrustedNamespaces(NamedTuple):
    """The namespaces to which a setting gives something."""

    setting: str
    """The path of the setting."""
    items: tuple[str, ...] = ()
    """Names, globs and trees."""

    @property
    def trees(self) -> frozenset[str]:
        return frozenset(filter(None, map(root_in, self.items)))

    def includes(self, namespace: str, view: View) -> bool:
        if matches_any_glob(self.items, namespace):  # a tree is a glob that matches no name
            return True
        trees = self.trees
        return bool(trees) and not trees.isdisjoint(view.trees_of(namespace))

    def naming(self, name: str) -> str:
        """The first item that means a namespace because of this name, or an empty text.

        A glob without a letter, such as `*`, means every namespace, so a tenant gains nothing by choosing a name.
        """
        return next(
            (item for item in self.items if item.strip("*?") and matches_any_glob((item, root_in(item)), name)), ""
        )


class Policy(NamedTuple):
    """What the sources of one type may do. Vocabularies that tenants can write keep the defaults of the first two."""

    protected: Protected = Protected.REFUSE
    any_kind: bool = False
    """True if the administrator lists the kinds, and may list those that are refused otherwise."""
    needs_consent: bool = False
    """True if a target namespace must accept the source's namespace."""
    trusted: TrustedNamespaces | None = None
    """The namespaces that a setting names, because their sources may do more. None if there is no such setting."""

    limits: SourceLimits | None = None
    """How much the sources of one namespace may ask for. None if only administrators write them."""

    @property
    def follows_trees(self) -> bool:
        """True if what a source may do can depend on the tree that its own namespace is in."""
        return self.needs_consent or (self.trusted is not None and bool(self.trusted.trees))


Lint = Callable[[Object], Iterable[Mistake]]
"""Mistakes for `samara lint` besides the faults of the desired state: what a plan ignores, or reports as one fault.

They depend on the manifest alone, and not on what is in the cluster.
"""


Inputs = Callable[[Object], Iterable[Ref]]
"""The addresses of the objects besides a source from which its desired state is made, of the kinds of its source type.

The cache holds these objects in full, and a change of one queues the sources that read it.
"""


def no_inputs(source: Object) -> Iterable[Ref]:
    return ()


@dataclass(frozen=True, slots=True)
class Annotated:
    """The sources are objects that carry one of these labels or annotations."""

    metadata_keys: frozenset[str]
    matches: Callable[[Object, View], bool]
    labels: frozenset[str] = frozenset()
    """Those of the keys that are labels. The others are annotations."""
    kinds: Mapping[str, tuple[Kind, ...]] = field(default_factory=dict)
    """By key: the kinds on which it has an effect, or an empty tuple if the settings name none. A key without an entry
    has an effect on every kind."""
    pull_keys: frozenset[str] = frozenset()
    """The annotations by which an object requests its own content from another one. It is not a copy of any source of
    any type, even while this type is disabled."""
    ineffective: Lint = lambda obj: ()
    """Why keys on an object of a right kind have no effect: its namespace, a value, a key that is missing beside them.
    Called for objects that carry one of the keys; `Mistake.field` is one of them."""
    lint: Lint = lambda obj: ()
    """Called for objects that carry one of the keys, whether or not they are sources."""
    inputs: Inputs = no_inputs


@dataclass(frozen=True, slots=True)
class CustomResource:
    """The sources are all objects of one custom resource."""

    kind: Kind
    finalizer: str = ""
    explicit_deletion: bool = False
    """True if deleting a source is a request to delete its copies. The mass-delete limit does not count them then."""
    gone_after: float | None = None
    """Seconds for which the copies of a source that is gone are left to the garbage collector. None: as the settings
    say."""
    metadata_keys: frozenset[str] = frozenset()
    lint: Lint = lambda obj: ()
    inputs: Inputs = no_inputs

    def matches(self, obj: Object, view: View) -> bool:
        return obj.ref.kind == self.kind


@dataclass(frozen=True, slots=True)
class Status:
    """How a source reports its status."""

    report: Callable[[Object, View, CopyCounts], Mapping[str, object]]
    conditions: frozenset[str] = frozenset()
    """The condition types that Samara writes. It leaves other conditions alone."""
    field_manager: str = ""
    """Apply the status under this field manager. Empty: patch it under Samara's own."""
    advice: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)
    """By reason why a copy is blocked: what people can do."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Validation and defaulting, called by the webhook."""

    kinds: tuple[Kind, ...]
    validate: Callable[[Request, View], tuple[str, ...]]
    default: Callable[[Request], tuple[PatchOperation, ...]] | None = None
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    labels: frozenset[str] = frozenset()
    """Validate only objects with one of these labels. Empty: objects with one of the source's keys."""
    fail_closed: bool = False


@dataclass(frozen=True, slots=True)
class ChosenLabels:
    """The labels of Namespaces that tenants choose because an administrator allowed only a pattern."""

    setting: str
    """The path of the setting that has the patterns."""
    patterns: tuple[str, ...]
    admits: Callable[[str], bool]
    """True for a key that only a pattern lets tenants set."""
    on: Callable[[Object, Iterable[str], View], Mapping[str, str | None]]
    """Which of these keys are such labels on a Namespace, each with its `ChosenLabel.trusted`."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Namespaces that inherit from another namespace."""

    labels: frozenset[str]
    """The namespace labels that name another namespace. The cache indexes them."""
    parent: Callable[[Object], str] | None = None
    """The namespace from which a namespace inherits."""
    above: Callable[[Object], str] | None = None
    """The namespace directly above a namespace in a tree that consents and settings may name, as `tree:<name>`."""
    chosen_labels: ChosenLabels | None = None
    """The labels that tenants choose for namespaces. No selector of a source selects a namespace by them alone."""
    tree: Callable[[Ref, View], str] | None = None
    """The tree that a source belongs to, if its copies are Namespaces: their deletions are counted for each tree."""


@dataclass(frozen=True, slots=True)
class SourceType:
    """Which objects are sources, which copies they want, and how a copy is recognised."""

    name: str
    """The vocabulary's name; after a colon its own, if the vocabulary has several source types."""
    kinds: tuple[Kind, ...]
    """Every kind that is read or written. The cache, RBAC and the metrics follow from it."""
    source: Annotated | CustomResource
    ownership: Ownership
    desired: Callable[[Ref, View], Desired]
    """The desired state of a source, or of a source that is gone. Pure: no I/O, no clock."""
    affected_by: Callable[[Object, View], Iterable[Ref]]
    """The sources to reconcile when another object changes. For a Namespace: in that namespace only."""
    addresses: Callable[[Ref, View], Addresses | None] = same_kind_and_name
    policy: Policy = field(default_factory=Policy)
    status: Status | None = None
    admission: Admission | None = None
    hierarchy: Hierarchy | None = None
    names: Names = field(default_factory=Names)
    per_namespace: bool = True
    """False if a source has at most one target, so there is nothing to split by namespace."""
    selected_labels: Callable[[Object], Iterable[tuple[str, str]]] | None = None
    """The keys in the label selectors of a source, each with its field. None if no source of this type selects
    namespaces by their labels."""
    enabled: bool = True
    """False if the settings do not name the vocabulary, or if it waits for the original controller to stop."""

    @property
    def vocabulary(self) -> str:
        return vocabulary_of(self.name)

    @property
    def is_fill(self) -> bool:
        """True if its sources are filled themselves, and have no copies elsewhere."""
        return isinstance(self.ownership, ByItself)

    @property
    def resource(self) -> Kind | None:
        """The custom resource whose objects are the sources, if there is one and it is watched."""
        kind = self.source.kind if isinstance(self.source, CustomResource) else None
        return kind if kind in self.kinds else None

    @property
    def finalizer(self) -> str:
        """The finalizer of its sources, or an empty text."""
        return self.source.finalizer if isinstance(self.source, CustomResource) else ""

    def is_source(self, obj: Object, view: View) -> bool:
        return self.enabled and self.source.matches(obj, view)


def is_explicit_deletion(source_type: SourceType, source: Object | None) -> bool:
    """True if a source was deleted whose deletion is a request to delete its copies."""
    is_explicit = isinstance(source_type.source, CustomResource) and source_type.source.explicit_deletion
    return is_explicit and (source is None or source.deleting)


def tree_of(source_type: SourceType, source: Ref, view: View) -> str:
    """The tree that a source belongs to. Empty if its copies are not Namespaces."""
    tree = None if source_type.hierarchy is None else source_type.hierarchy.tree
    return "" if tree is None else tree(source, view)


def has_parents(source_type: SourceType) -> bool:
    """True for a source type whose copies go down a tree of namespaces: a copy is the source of the next ones."""
    return source_type.hierarchy is not None and source_type.hierarchy.parent is not None
