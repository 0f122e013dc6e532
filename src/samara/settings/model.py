"""What can be set: one dataclass per mapping, each field with its default, type and description."""

# ruff: noqa: RUF009 - `setting` declares a dataclass field, as `field` does

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from samara.dialects.accurate.config import KEYS, Config, read
from samara.settings.schema import AsGiven, ListOf, Nullable, Record, Vocabularies, setting
from samara.settings.values import (
    FILE,
    FLAG,
    KEY_GLOB,
    KIND,
    MANAGER,
    NAMESPACE,
    NAMESPACE_GLOB,
    PATH_GLOB,
    KindName,
    duration,
    number,
    one_of,
    whole,
)

Conflicts = Literal["refuse", "overwrite"]
CrossNamespace = Literal["allow", "consent"]

SECRET = KindName("", "v1", "Secret")
CONFIG_MAP = KindName("", "v1", "ConfigMap")

CONFLICTS = one_of("refuse", "overwrite")
CROSS = one_of("allow", "consent")
INHERITED = "null: as the general `conflicts` says"
CONSENT = (
    "must a target namespace accept it? null: by tenancy, open = allow, strict = consent; "
    "a word written here comes before tenancy: allow asks nobody, under strict, too"
)
TAKEOVER = "serve although the original still runs in this cluster"
MORE = "more keys that stay behind"
MANAGERS = "field managers of the original, whose marks count as ours"


@dataclass(frozen=True, slots=True)
class SecretCopy:
    home: str = setting("admin", NAMESPACE, "the namespace whose Secrets are copied")
    on_source_gone: Literal["keep", "delete"] = setting("keep", one_of("keep", "delete"), "copies whose source is gone")
    conflicts: Conflicts | None = setting(None, Nullable(CONFLICTS), INHERITED)
    takeover: bool = setting(False, FLAG, TAKEOVER)
    managers: tuple[str, ...] = setting((), ListOf(MANAGER), MANAGERS)


@dataclass(frozen=True, slots=True)
class ResourceDistribution:
    kinds: tuple[KindName, ...] = setting((SECRET, CONFIG_MAP), ListOf(KIND, 1), "the kinds that may be distributed")
    takeover: bool = setting(False, FLAG, TAKEOVER)
    managers: tuple[str, ...] = setting((), ListOf(MANAGER), MANAGERS)


@dataclass(frozen=True, slots=True)
class Accurate:
    config_file: str | None = setting(None, Nullable(FILE), "the original's own file, unchanged")
    config: Mapping[str, object] = setting(
        MappingProxyType({}), AsGiven(KEYS), "the original's own keys, in place of configFile"
    )
    allow_cascading_deletion: bool = setting(False, FLAG, "a sub-namespace with children may be deleted")
    propagate_generated: bool = setting(False, FLAG, "objects that controllers made are propagated too")
    conflicts: Conflicts | None = setting(None, Nullable(CONFLICTS), INHERITED)
    takeover: bool = setting(False, FLAG, TAKEOVER)
    managers: tuple[str, ...] = setting(("accurate-controller",), ListOf(MANAGER), MANAGERS)

    def read_config(self) -> Config:
        """What the original's keys say, from here or from its file; settings that were parsed raise nothing."""
        return read(self.config)


def watched_kinds(accurate: Accurate) -> tuple[KindName, ...]:
    """The kinds that are propagated along the trees."""
    return tuple(KindName(*each) for each in accurate.read_config().watches)


@dataclass(frozen=True, slots=True)
class PathRule:
    namespaces: tuple[str, ...] = setting((), ListOf(NAMESPACE_GLOB), "of the FishySecrets", required=True)
    allow: tuple[str, ...] = setting((), ListOf(PATH_GLOB), "paths they may read", required=True)


@dataclass(frozen=True, slots=True)
class FishySecret:
    namespace: str | None = setting(None, Nullable(NAMESPACE), "where fishysecret-config is; null = the operator's own")
    cross_namespace: CrossNamespace | None = setting(None, Nullable(CROSS), CONSENT)
    paths: tuple[PathRule, ...] | None = setting(
        None,
        Nullable(ListOf(Record(PathRule))),
        "who may read which paths; null = any under tenancy open, none if strict",
    )
    refresh_interval: float = setting(300.0, duration(), "how often the store is read, where the object does not say")
    last_synced: Literal["interval", "change"] = setting(
        "interval", one_of("interval", "change"), "when status.lastSyncedTime is written"
    )
    takeover: bool = setting(False, FLAG, TAKEOVER)
    managers: tuple[str, ...] = setting((), ListOf(MANAGER), MANAGERS)


@dataclass(frozen=True, slots=True)
class SyncTo:
    kinds: tuple[KindName, ...] = setting((SECRET, CONFIG_MAP), ListOf(KIND, 1), "the kinds whose annotations are read")
    cross_namespace: CrossNamespace | None = setting(None, Nullable(CROSS), CONSENT)
    conflicts: Conflicts | None = setting(None, Nullable(CONFLICTS), INHERITED)
    takeover: bool = setting(False, FLAG, TAKEOVER)
    managers: tuple[str, ...] = setting((), ListOf(MANAGER), MANAGERS)


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


def _all_of_them() -> Mapping[str, Vocabulary]:
    return MappingProxyType({name: made() for name, made in VOCABULARIES.items()})


@dataclass(frozen=True, slots=True)
class NeverCopied:
    labels: tuple[str, ...] = setting((), ListOf(KEY_GLOB), MORE)
    annotations: tuple[str, ...] = setting((), ListOf(KEY_GLOB), MORE)


@dataclass(frozen=True, slots=True)
class Writes:
    in_flight: int = setting(32, whole(1, 256), "writes at the same time at most; adapts to what the server bears")
    per_second: float = setting(0.0, number(0, 100_000), "0 = as fast as the server stays healthy")


@dataclass(frozen=True, slots=True)
class MassDelete:
    most: int = setting(50, whole(0), "more deletes than this in 10 minutes are held …")
    percent: int = setting(30, whole(0, 100), "… if they are also more than this part of a source's copies")
    hold: float = setting(600.0, duration(forever=True), "how long; forever = until `samara release`")
    namespaces: int = setting(3, whole(0), "more sub-namespaces than this in 10 minutes wait for `samara release`")


@dataclass(frozen=True, slots=True)
class Timers:
    lease: float = setting(15.0, duration(), "the leader's lease lasts this long")
    renew: float = setting(10.0, duration(), "it must be renewed within this time; less than lease")
    silence: float = setting(75.0, duration(), "a watch silent for this long is reopened")
    backoff_most: float = setting(900.0, duration(), "the longest wait before a refused write is tried again")


@dataclass(frozen=True, slots=True)
class Settings:
    vocabularies: Mapping[str, Vocabulary] = field(
        default_factory=_all_of_them,
        metadata={"type": Vocabularies(), "about": "absent: all of them; present: only those named", "required": False},
    )
    tenancy: Literal["open", "strict"] = setting("open", one_of("open", "strict"), "who may have what copied where")
    conflicts: Conflicts = setting("refuse", CONFLICTS, "an object that is not ours in the place of a copy")
    recreate: Literal["allow", "refuse"] = setting(
        "allow", one_of("allow", "refuse"), "copies whose fixed fields differ"
    )
    protected_namespaces: tuple[str, ...] = setting(
        ("kube-system", "kube-public", "kube-node-lease"),
        ListOf(NAMESPACE_GLOB),
        "no targets of `all` or of a selector",
    )
    never_copied: NeverCopied = setting(
        NeverCopied(),
        Record(NeverCopied),
        "stays behind, besides what the lists above name",
    )
    source_gone_after: float = setting(3.0, duration(zero=True), "a source that vanished keeps its copies this long")
    resync: float = setting(600.0, duration(zero=True), "everything is planned again from the cache; 0 = off")
    writes: Writes = setting(Writes(), Record(Writes), "the load on the API server")
    mass_delete: MassDelete | None = setting(
        MassDelete(), Nullable(Record(MassDelete)), "the brake against mass deletion; null = off"
    )
    timers: Timers = setting(Timers(), Record(Timers), "of leader election, watches and retries")

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
