"""Vocabulary: what users name under `vocabularies` in the settings, and how it builds source types from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from samara.core.desired import Adopt
from samara.core.kinds import is_refused
from samara.core.model import DEPLOYMENT, Kind, KindName, Ref
from samara.core.source_limits import LIMIT_EXCEEDED
from samara.core.source_type import Copyable, SourceType

Conflicts = Literal["refuse", "overwrite"]
CrossNamespace = Literal["allow", "consent"]


class VocabularySettings(Protocol):
    """The settings that the core reads of every vocabulary. A vocabulary that does not offer one of them to users has a
    class variable in its place."""

    @property
    def takeover(self) -> bool: ...

    @property
    def managers(self) -> tuple[str, ...]: ...

    @property
    def kinds(self) -> tuple[KindName, ...]: ...

    @property
    def conflicts(self) -> Conflicts | None:
        """None: as the general setting says."""

    @property
    def cross_namespace(self) -> CrossNamespace | None:
        """None: what follows from the tenancy."""


S = TypeVar("S", bound=VocabularySettings)
Converter = Callable[[dict[str, Any], str], dict[str, Any]]
"""Takes a custom resource in any version and the wanted apiVersion, and returns the resource in that version. May raise
ConversionError."""


@dataclass(frozen=True, slots=True)
class BuildContext:
    """What a vocabulary gets besides its own settings: the general settings and what the API server knows."""

    kinds: tuple[Kind, ...]
    """The kinds that its settings name and that the API server has."""
    copyable: Copyable
    """Which labels and annotations of a source are copied.

    For sources of tenants under `tenancy: strict`, those that the setting `copiedMetadata` lists.
    """
    withheld: Copyable
    """Those that are not copied only because tenants write the source and the tenancy is strict."""
    copyable_as_written: Copyable
    """The same for metadata that the author wrote for the copies, and not for the source itself."""
    is_reserved: Callable[[str], bool]
    """True for names that no Namespace made by Samara may have."""
    is_protected: Callable[[str], bool]
    """True for namespaces that the setting `protectedNamespaces` names. The plan asks `policy` instead."""
    adopt: Adopt
    """The setting `conflicts`, and what follows from `tenancy`."""
    needs_consent: bool
    """The setting `crossNamespace`, or what follows from `tenancy`."""
    is_strict: bool
    """True under `tenancy: strict`."""
    managers: frozenset[str]
    """Field managers of the original that count as Samara's."""


def refused_kind(vocabulary: str, kinds: Iterable[Kind]) -> str | None:
    """The message about the first kind that may not be copied. The server knows which kinds have no namespace; the
    settings alone do not."""
    kind = next(filter(is_refused, kinds), None)
    if kind is None:
        return None
    expected = "expected kinds that may be copied; kinds that have no namespace are never copied"
    return f"vocabularies.{vocabulary}.kinds: found {kind}, {expected}"


@dataclass(frozen=True, slots=True)
class RequiredRights:
    """Rights on its kinds without which a vocabulary does not start. Without this, a refused write reports them."""

    verbs: tuple[str, ...]
    fault: Callable[[Iterable[tuple[str, Kind]]], str | None]
    """The message about missing rights, each a verb and a kind. None if none is missing."""


class KindRights(NamedTuple):
    """The operator's rights to write objects of one kind."""

    verbs: tuple[str, ...]
    reason: str
    """Printed by `samara rbac --explain`."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What is special about the rights on the kinds of a vocabulary. By default nothing is."""

    refused_kind: Callable[[str, Iterable[Kind]], str | None] = refused_kind
    """Why one of these kinds, as the API server knows it, cannot be served. Such a kind stops the start."""
    required: RequiredRights | None = None
    of_kinds: Mapping[Kind, KindRights] = field(default_factory=dict)
    """Rights that replace the usual ones on copies, for kinds whose objects are not copies, such as Namespaces."""
    of_users: tuple[Kind, ...] = ()
    """Custom resources that reach no further than the tree of their own namespace.

    `samara manifests` adds roles for them to the API server's `admin`, `edit` and `view`.
    """


class DeclaredReason(NamedTuple):
    """A reason of faults that one vocabulary adds to those that all share."""

    meaning: str
    """Printed in the reference of Events."""
    advice: str = ""
    """What users can do about it, as commands print it. Empty if blocked copies show the problem already."""
    is_of_secret_manager: bool = False
    """True if the fault is one of the secret manager or of its configuration, and not of the source."""


LIMIT_REASONS = {
    LIMIT_EXCEEDED: DeclaredReason(
        "a source lists too many namespaces, or the sources of its namespace list, hold or read too much together",
        "list fewer namespaces or paths, or delete sources; an administrator can raise the limit "
        "(setting limits, or pathsPerNamespace of the vocabulary)",
        is_of_secret_manager=True,  # the paths, which only the operator counts
    )
}
"""The reasons of every vocabulary that tenants can write. None of them declares these itself."""


class PathLimit(NamedTuple):
    """Most paths of the secret manager that the sources of one namespace read together."""

    most: int
    message: str
    """The message for a source that exceeds the limit."""


class SecretStore(NamedTuple):
    """The secret manager from which the values of a vocabulary come."""

    config: Ref
    """The Secret that names the manager and holds the credentials for it."""
    path_limit: PathLimit
    token_audience: str
    """The audience of the pod's token that a manager may get."""


class OriginalWorkload(NamedTuple):
    """How to find an original controller that holds no Lease with a name of its own: by the image that it runs."""

    images: frozenset[str]
    """The last part of the path of its image. The registry, the tag and the digest do not matter."""
    kinds: tuple[Kind, ...] = (DEPLOYMENT,)


class OriginalConfig(NamedTuple):
    """Where the original controller keeps its configuration: in a file of a ConfigMap that its Deployment mounts."""

    deployment: Ref
    """Where its own manifests install it."""
    volume: str
    file: str
    kinds: Callable[[Mapping[str, object]], tuple[KindName, ...]]
    """The kinds that this configuration names. Other keys are not checked. Raises SettingError."""


@dataclass(frozen=True, slots=True)
class Vocabulary(Generic[S]):
    """One way to request copies: annotations or custom resources, with their settings."""

    name: str
    settings: type[S]
    build: Callable[[S, BuildContext], tuple[SourceType, ...]]
    metadata_keys: frozenset[str]
    """The labels and annotations that mark its copies or request them. No vocabulary copies them from a source.

    Its source types name the same keys again, as `marks` and `metadata_keys`. They cannot be read from there: `build`
    gets the rule about what is copied (`BuildContext.copyable`), which needs the keys of all vocabularies first, also
    of those that the settings do not name. The contract suite compares both.
    """
    custom_resources: tuple[Kind, ...] = ()
    """Its custom resources. Objects of these kinds are never copied, because a copy would request copies itself."""
    convert: Converter | None = None
    """Converts its custom resources between versions."""
    original_lease: str = ""
    """The Lease of the original controller. While another process holds it, the vocabulary waits."""
    original_workload: OriginalWorkload | None = None
    """The workload of the original controller. While one runs, the vocabulary waits."""
    original_config: OriginalConfig | None = None
    """Where the original controller says which kinds it copies, for commands that run beside it. Its settings take the
    keys of that configuration, too."""
    shared_prefixes: frozenset[str] = frozenset()
    """Prefixes of its keys that others use, too. Under them, lint reports only keys that nearly equal one of ours."""
    unserved_keys: Mapping[str, str] = field(default_factory=dict)
    """Keys that the original controller reads and this vocabulary does not, each with what `samara lint` says of it.
    Without them, lint would take such a key for a misspelt one of ours."""
    is_off_until_named: bool = False
    """True if it is served only if the settings name it: its annotations may be in use by their original controller."""
    is_written_by_tenants: bool = False
    """True if people with rights in one namespace can request copies in others. `tenancy: strict` restricts these."""
    kinds: Callable[[S], tuple[KindName, ...]] = lambda settings: settings.kinds
    """The kinds that its settings name."""
    rights: Rights = field(default_factory=Rights)
    check: Callable[[S], None] = lambda settings: None
    """Raises SettingError for settings that their types accept and that still cannot be served."""
    reserved_namespaces: Callable[[S], tuple[str, ...]] = lambda settings: ()
    """Names that no Namespace made by Samara may have, because the vocabulary trusts what is in them."""
    reasons: Mapping[str, DeclaredReason] = field(default_factory=dict)
    """The reasons of its faults, besides `Invalid` and `Refused`, which all vocabularies share, and `LIMIT_REASONS`."""
    secret_store: Callable[[S, str], SecretStore] | None = None
    """If its values come from a secret manager: which one. Takes the operator's own namespace."""


class SettingError(ValueError):
    """A setting that cannot be served. The message is on one line and names no value that could be secret."""

    def __init__(self, text: str) -> None:
        super().__init__("".join(char if char.isprintable() else repr(char)[1:-1] for char in text))


def converters(vocabularies: Iterable[Vocabulary[Any]]) -> Iterator[tuple[str, Converter]]:
    """The converters by group and kind of their custom resources, as `<group>/<kind>`."""
    for vocabulary in vocabularies:
        if vocabulary.convert is not None:
            yield from ((f"{kind.group}/{kind.name}", vocabulary.convert) for kind in vocabulary.custom_resources)


def declared_reasons(vocabularies: Iterable[Vocabulary[Any]]) -> dict[str, DeclaredReason]:
    """The reasons of faults that these vocabularies add to `Invalid` and `Refused`."""
    return {
        name: reason
        for vocabulary in vocabularies
        for reasons in (vocabulary.reasons, LIMIT_REASONS if vocabulary.is_written_by_tenants else {})
        for name, reason in reasons.items()
    }
