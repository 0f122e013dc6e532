"""The values that every other module uses: kinds, addresses, observed objects and the keys of the work queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

FIELD_MANAGER = "samara"
"""The field manager of all our writes. The API server records it in managedFields."""

NO_METADATA: Mapping[str, str] = MappingProxyType({})
"""The labels or annotations of every object that has none."""

_BOOLEANS = (b"true", b"false")


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
    """A kind as settings name it. The core group is an empty text."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        return "/".join(filter(None, self))


class ObjectName(NamedTuple):
    """The objects of one kind and name, in every namespace, as settings name them."""

    kind: KindName
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


SECRET = Kind("", "v1", "Secret", "secrets")
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas")
EVENT = Kind("", "v1", "Event", "events")
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs")


class Ref(NamedTuple):
    """The address of an object that may exist. The namespace of a cluster-scoped one is empty."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name} {self.path}"

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def namespace_or_name(self) -> str:
        """The namespace of an object. For a cluster-scoped object, such as a Namespace, its own name."""
        return self.namespace or self.name


@lru_cache(maxsize=64)
def namespace_ref(name: str) -> Ref:
    """Cached, because the rules ask for the Namespace of one address several times in a row."""
    return Ref(NAMESPACE, "", name)


def vocabulary_of(source_type: str) -> str:
    """The name that users know: the part of a source type's name before the colon."""
    return source_type.partition(":")[0]


class Key(NamedTuple):
    """What is reconciled: a source of one source type, or its part in one target namespace."""

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
    """One top-level field of an object: the bytes that the API server sent. Fields are compared by a keyed digest."""

    name: str
    digest: bytes = field(repr=False)
    raw: bytes | None = field(repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Field) and self.name == other.name and self.digest == other.digest

    def __hash__(self) -> int:
        return hash((self.name, self.digest))


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Content:
    """All fields of an object except metadata and status. Its repr shows nothing, because it can hold secrets."""

    fields: tuple[Field, ...] = field(default=(), repr=False)

    def get(self, name: str) -> Field | None:
        return next((entry for entry in self.fields if entry.name == name), None)

    def pick(self, *names: str) -> Content:
        return Content(tuple(entry for entry in self.fields if entry.name in names))

    def without(self, *names: str) -> Content:
        return Content(tuple(entry for entry in self.fields if entry.name not in names))

    @property
    def has_bytes(self) -> bool:
        """False if only digests are left of a field, so that nothing can be made of this content."""
        return all(entry.raw is not None for entry in self.fields)

    def digests_only(self) -> Content:
        """The same content for comparison only: digests without bytes. The bytes of `true` and `false` stay."""
        return Content(
            tuple(
                Field(entry.name, entry.digest, entry.raw if entry.raw in _BOOLEANS else None) for entry in self.fields
            )
        )


class OwnerReference(NamedTuple):
    """An owner reference with all its fields, so that an update sends back those of other owners unchanged."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ManagedKey(NamedTuple):
    """A label or annotation key that managedFields attribute to one field manager."""

    manager: str
    where: str
    key: str


LABELS = "labels"
ANNOTATIONS = "annotations"


@dataclass(frozen=True, slots=True, eq=False)
class Object:
    """One observed object. Its repr shows no annotations and no content, because both can hold secrets."""

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
    """Keys of our field manager, or of the controller that Samara replaced, in entries not older than the object."""
    applied_keys: frozenset[ManagedKey] = field(default=frozenset(), repr=False)
    """The `managed_keys` that were set by server-side apply."""
    written: bool = False
    """True if managedFields name our field manager: Samara itself has written the object, not only the original."""
    known_copy: bool = False
    """True if managedFields name our field manager, or if the cache last saw this uid as a copy of ours."""
    last_manager: str = ""
    """The field manager of the newest change. Empty if the change was ours."""
    status: Field | None = None

    def manages(self, where: str, key: str, managers: Iterable[str]) -> bool:
        return any(ManagedKey(manager, where, key) in self.managed_keys for manager in managers)
