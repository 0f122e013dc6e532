"""What can be set: one struct per mapping, each field with its default, its type and its line in the manual."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec

from samara.dialects.accurate.config import KEYS, Config, read
from samara.setting_types import (
    CopiedKind,
    Duration,
    DurationOrForever,
    DurationOrZero,
    FieldManager,
    FilePath,
    Inline,
    KeyGlob,
    KindName,
    Named,
    NamespaceGlob,
    NamespaceName,
    PathGlob,
    Struct,
    about,
)

Conflicts = Literal["refuse", "overwrite"]
CrossNamespace = Literal["allow", "consent"]

SECRET = KindName("", "v1", "Secret")
CONFIG_MAP = KindName("", "v1", "ConfigMap")

# Settings that several vocabularies have.
Takeover = Annotated[bool, about("serve although the original still runs in this cluster")]
Managers = Annotated[tuple[FieldManager, ...], about("field managers of the original, whose marks count as ours")]
OwnConflicts = Annotated[Conflicts | None, about("null: as the general `conflicts` says")]
OwnCrossNamespace = Annotated[
    CrossNamespace | None,
    about(
        "must a target namespace accept it? null: by tenancy, open = allow, strict = consent; "
        "a word written here comes before tenancy: allow asks nobody, under strict, too"
    ),
]


class SecretCopy(Struct, frozen=True):
    home: Annotated[NamespaceName, about("the namespace whose Secrets are copied")] = "admin"
    on_source_gone: Annotated[Literal["keep", "delete"], about("copies whose source is gone")] = "keep"
    conflicts: OwnConflicts = None
    takeover: Takeover = False
    managers: Managers = ()


class ResourceDistribution(Struct, frozen=True):
    kinds: Annotated[tuple[CopiedKind, ...], about("the kinds that may be distributed", min_length=1)] = (
        SECRET,
        CONFIG_MAP,
    )
    takeover: Takeover = False
    managers: Managers = ()


class Accurate(Struct, frozen=True):
    config_file: Annotated[FilePath | None, about("the original's own file, unchanged")] = None
    config: Annotated[
        Mapping[str, object],
        Inline(KEYS),
        about("the original's own keys, in place of configFile"),
    ] = MappingProxyType({})
    allow_cascading_deletion: Annotated[bool, about("a sub-namespace with children may be deleted")] = False
    propagate_generated: Annotated[bool, about("objects that controllers made are propagated too")] = False
    conflicts: OwnConflicts = None
    takeover: Takeover = False
    managers: Managers = ("accurate-controller",)

    def read_config(self) -> Config:
        """What the original's keys say, from here or from its file; settings that were parsed raise nothing."""
        return read(self.config)


def watched_kinds(accurate: Accurate) -> tuple[KindName, ...]:
    """The kinds that are propagated along the trees."""
    return tuple(KindName(*watch) for watch in accurate.read_config().watches)


class PathRule(Struct, frozen=True):
    namespaces: Annotated[tuple[NamespaceGlob, ...], about("of the FishySecrets")]
    allow: Annotated[tuple[PathGlob, ...], about("paths they may read")]


class FishySecret(Struct, frozen=True):
    namespace: Annotated[NamespaceName | None, about("where fishysecret-config is; null = the operator's own")] = None
    cross_namespace: OwnCrossNamespace = None
    paths: Annotated[
        tuple[PathRule, ...] | None, about("who may read which paths; null = any under tenancy open, none if strict")
    ] = None
    refresh_interval: Annotated[Duration, about("how often the store is read, where the object does not say")] = 300.0
    last_synced: Annotated[Literal["interval", "change"], about("when status.lastSyncedTime is written")] = "interval"
    takeover: Takeover = False
    managers: Managers = ()


class SyncTo(Struct, frozen=True):
    kinds: Annotated[tuple[CopiedKind, ...], about("the kinds whose annotations are read", min_length=1)] = (
        SECRET,
        CONFIG_MAP,
    )
    cross_namespace: OwnCrossNamespace = None
    conflicts: OwnConflicts = None
    takeover: Takeover = False
    managers: Managers = ()


Vocabulary = SecretCopy | ResourceDistribution | Accurate | FishySecret | SyncTo

# Listed by rank, as people read them; the rank itself is each dialect's: docs/concepts/ownership.md.
VOCABULARIES: Mapping[str, type[Vocabulary]] = MappingProxyType(
    {
        "secret-copy": SecretCopy,
        "resource-distribution": ResourceDistribution,
        "accurate": Accurate,
        "fishysecret": FishySecret,
        "sync-to": SyncTo,
    }
)
_MORE = "more keys that stay behind"


class NeverCopied(Struct, frozen=True):
    labels: Annotated[tuple[KeyGlob, ...], about(_MORE)] = ()
    annotations: Annotated[tuple[KeyGlob, ...], about(_MORE)] = ()


class Writes(Struct, frozen=True):
    in_flight: Annotated[
        int, msgspec.Meta(ge=1, le=256), about("writes at the same time at most; adapts to what the server bears")
    ] = 32
    per_second: Annotated[float, msgspec.Meta(ge=0, le=100_000), about("0 = as fast as the server stays healthy")] = 0.0


class MassDelete(Struct, frozen=True):
    most: Annotated[int, msgspec.Meta(ge=0), about("more deletes than this in 10 minutes are held …")] = 50
    percent: Annotated[
        int, msgspec.Meta(ge=0, le=100), about("… if they are also more than this part of a source's copies")
    ] = 30
    hold: Annotated[DurationOrForever, about("how long; forever = until `samara release`")] = 600.0
    namespaces: Annotated[
        int, msgspec.Meta(ge=0), about("more sub-namespaces than this in 10 minutes wait for `samara release`")
    ] = 3


class Timers(Struct, frozen=True):
    lease: Annotated[Duration, about("the leader's lease lasts this long")] = 15.0
    renew: Annotated[Duration, about("it must be renewed within this time; less than lease")] = 10.0
    silence: Annotated[Duration, about("a watch silent for this long is reopened")] = 75.0
    backoff_most: Annotated[Duration, about("the longest wait before a refused write is tried again")] = 900.0


def _all_vocabularies() -> Mapping[str, Vocabulary]:
    return MappingProxyType({name: struct() for name, struct in VOCABULARIES.items()})


_VOCABULARIES = Named(
    lambda: VOCABULARIES,
    "{name: settings}",
    "a mapping that names at least one vocabulary (leave it out for all)",
)


class Settings(Struct, frozen=True):
    vocabularies: Annotated[
        Mapping[str, Vocabulary], _VOCABULARIES, about("absent: all of them; present: only those named")
    ] = msgspec.field(default_factory=_all_vocabularies)
    tenancy: Annotated[Literal["open", "strict"], about("who may have what copied where")] = "open"
    conflicts: Annotated[Conflicts, about("an object that is not ours in the place of a copy")] = "refuse"
    recreate: Annotated[Literal["allow", "refuse"], about("copies whose fixed fields differ")] = "allow"
    protected_namespaces: Annotated[tuple[NamespaceGlob, ...], about("no targets of `all` or of a selector")] = (
        "kube-system",
        "kube-public",
        "kube-node-lease",
    )
    never_copied: Annotated[NeverCopied, about("stays behind, besides what the lists above name")] = NeverCopied()
    source_gone_after: Annotated[DurationOrZero, about("a source that vanished keeps its copies this long")] = 3.0
    resync: Annotated[DurationOrZero, about("everything is planned again from the cache; 0 = off")] = 600.0
    writes: Annotated[Writes, about("the load on the API server")] = Writes()
    mass_delete: Annotated[MassDelete | None, about("the brake against mass deletion; null = off")] = MassDelete()
    timers: Annotated[Timers, about("of leader election, watches and retries")] = Timers()

    def conflicts_of(self, name: str) -> Conflicts:
        """A vocabulary's own word, else the general one; those that own by reference or spec always refuse."""
        match self.vocabularies.get(name):
            case SecretCopy() | Accurate() | SyncTo() as own:
                return own.conflicts or self.conflicts
            case _:
                return "refuse"

    @property
    def carries_labels(self) -> bool:
        """Whether labels of a tenant's source travel: a label can give an object power."""
        return self.tenancy != "strict"

    def cross_namespace_of(self, name: str) -> CrossNamespace:
        """A vocabulary's own word, else the tenancy's."""
        by_tenancy: CrossNamespace = "consent" if self.tenancy == "strict" else "allow"
        match self.vocabularies.get(name):
            case SyncTo() | FishySecret() as own:
                return own.cross_namespace or by_tenancy
            case _:
                return by_tenancy
