"""The nouns of the program: kinds, addresses, observed objects and the keys of work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

FIELD_MANAGER = "samara"
"""The field manager under which every write of ours is recorded by the server."""

NO_METADATA: Mapping[str, str] = MappingProxyType({})


_FLAGS = (b"true", b"false")


class Kind(NamedTuple):
    """One resource type of the API server."""

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version}/{self.name}"


class KindName(NamedTuple):
    """A kind as settings name it. The group of the core is empty."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        return "/".join(filter(None, self))


SECRET = Kind("", "v1", "Secret", "secrets")
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas")
EVENT = Kind("", "v1", "Event", "events")
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")


class Ref(NamedTuple):
    """Where an object lives, or would live; the namespace of a cluster-scoped object is empty."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name} {self.path}"

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def namespace_ref(name: str) -> Ref:
    return Ref(NAMESPACE, "", name)


def vocabulary_of(source_type: str) -> str:
    """What users call it: the first part of a source type's name."""
    return source_type.partition(":")[0]


class Key(NamedTuple):
    """One source as one source type sees it, or the part of it that lies in one namespace."""

    source_type: str
    source: Ref
    namespace: str | None = None

    @property
    def all_namespaces(self) -> Key:
        return self if self.namespace is None else Key(self.source_type, self.source)

    def in_namespace(self, namespace: str) -> Key:
        return Key(self.source_type, self.source, namespace)

    def __str__(self) -> str:
        kind, namespace, name = self.source
        return f"{vocabulary_of(self.source_type)}/{kind.name}/{namespace or '-'}/{name}"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Field:
    """One top-level field of an object: its bytes as the server wrote them, known apart by a keyed digest."""

    name: str
    digest: bytes = field(repr=False)
    raw: bytes | None = field(repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Field) and self.name == other.name and self.digest == other.digest

    def __hash__(self) -> int:
        return hash((self.name, self.digest))


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Content:
    """All of an object but its address, metadata and status. Never shown."""

    fields: tuple[Field, ...] = field(default=(), repr=False)

    def get(self, name: str) -> Field | None:
        return next((each for each in self.fields if each.name == name), None)

    def pick(self, *names: str) -> Content:
        return Content(tuple(each for each in self.fields if each.name in names))

    def without(self, *names: str) -> Content:
        return Content(tuple(each for each in self.fields if each.name not in names))

    def digests_only(self) -> Content:
        """The same content for comparison only: the digests stay, the bytes go, but for a plain yes or no."""
        return Content(
            tuple(Field(each.name, each.digest, each.raw if each.raw in _FLAGS else None) for each in self.fields)
        )


class OwnerReference(NamedTuple):
    """An owner reference, complete, so that a replaced object keeps those of others."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ManagedKey(NamedTuple):
    """A label or annotation key that the server's record attributes to one field manager."""

    manager: str
    where: str
    key: str


LABELS = "labels"
ANNOTATIONS = "annotations"


@dataclass(frozen=True, slots=True, eq=False)
class Object:
    """One observed object. Annotations and content are left out of its repr: both can hold secrets."""

    ref: Ref
    uid: str
    resource_version: int
    content: Content = field(default=Content(), repr=False)
    labels: Mapping[str, str] = field(default_factory=lambda: NO_METADATA, repr=False)
    annotations: Mapping[str, str] = field(default_factory=lambda: NO_METADATA, repr=False)
    created: str = ""
    generation: int = 0
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    managed_keys: frozenset[ManagedKey] = field(default=frozenset(), repr=False)
    """Keys owned by our field manager or by that of an original, by entries not older than the object."""
    applied_keys: frozenset[ManagedKey] = field(default=frozenset(), repr=False)
    """Keys that were set by a server-side apply of such a manager."""
    known_copy: bool = False
    """True where the server's record names our field manager, or where this uid was last seen as our copy."""
    last_manager: str = ""
    """The field manager of the newest change, where that is not ours."""
    status: Field | None = None

    def manages(self, where: str, key: str, managers: Iterable[str]) -> bool:
        return any(ManagedKey(manager, where, key) in self.managed_keys for manager in managers)
