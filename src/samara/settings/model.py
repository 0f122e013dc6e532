"""The settings: one struct per mapping, each field with its default, its type and its line in the manual."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec

from samara.core.vocabulary import Conflicts, CrossNamespace, VocabularySettings
from samara.setting_types import (
    Duration,
    DurationOrForever,
    DurationOrZero,
    KeyGlob,
    Named,
    NamespaceGlob,
    Size,
    Struct,
    about,
)
from samara.vocabularies import VOCABULARIES

STRUCTS: Mapping[str, type[Struct]] = MappingProxyType(
    {vocabulary.name: vocabulary.settings for vocabulary in VOCABULARIES}
)
"""By name: the settings of each vocabulary, in order of rank."""
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
    hold: Annotated[DurationOrForever, about("how long; forever = until `samara release KEY`")] = inf
    namespaces: Annotated[
        int,
        msgspec.Meta(ge=0),
        about("more sub-namespaces of one tree than this in 10 minutes wait for `samara release`"),
    ] = 3


class Limits(Struct, frozen=True):
    listed_names: Annotated[int, msgspec.Meta(ge=1), about("names of namespaces that one source lists")] = 10_000
    listed_names_per_namespace: Annotated[
        int, msgspec.Meta(ge=1), about("the same for all sources of one namespace")
    ] = 100_000
    source_bytes_per_namespace: Annotated[
        Size, about("the content and the metadata of all sources of one namespace")
    ] = 16 * 1024 * 1024


class Timers(Struct, frozen=True):
    lease: Annotated[Duration, about("the leader's lease lasts this long")] = 15.0
    renew: Annotated[Duration, about("it must be renewed within this time; less than lease")] = 10.0
    silence: Annotated[Duration, about("a watch silent for this long is reopened")] = 75.0
    backoff_most: Annotated[Duration, about("the longest wait before a refused write is tried again")] = 900.0


def _all_vocabularies() -> Mapping[str, VocabularySettings]:
    return MappingProxyType({vocabulary.name: vocabulary.settings() for vocabulary in VOCABULARIES})


_VOCABULARIES = Named(
    lambda: STRUCTS,
    "{name: settings}",
    "a mapping that names at least one vocabulary (leave it out for all)",
)


class Settings(Struct, frozen=True):
    vocabularies: Annotated[
        Mapping[str, VocabularySettings], _VOCABULARIES, about("absent: all of them; present: only those named")
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
    limits: Annotated[Limits, about("for what tenants write: sync-to, fishysecret; more is `LimitExceeded`")] = Limits()
    timers: Annotated[Timers, about("of leader election, watches and retries")] = Timers()

    def conflicts_of(self, name: str) -> Conflicts:
        """A vocabulary's own setting, else the general one. A vocabulary that is not served refuses."""
        own = self.vocabularies.get(name)
        return "refuse" if own is None else own.conflicts or self.conflicts

    def cross_namespace_of(self, name: str) -> CrossNamespace:
        """A vocabulary's own setting, else what follows from the tenancy."""
        own = self.vocabularies.get(name)
        by_tenancy: CrossNamespace = "consent" if self.tenancy == "strict" else "allow"
        return by_tenancy if own is None else own.cross_namespace or by_tenancy
