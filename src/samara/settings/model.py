"""The settings: one struct per mapping, each field with its default, its type and its line in the manual."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec

from samara.core.kinds import KEPT_BY_CLUSTER
from samara.core.vocabulary import Conflicts, CrossNamespace, VocabularySettings
from samara.setting_types import (
    CopiedObject,
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
_MORE = "keys that are not copied"


class NeverCopied(Struct, frozen=True):
    labels: Annotated[tuple[KeyGlob, ...], about(_MORE)] = ()
    annotations: Annotated[tuple[KeyGlob, ...], about(_MORE)] = ()
    objects: Annotated[tuple[CopiedObject, ...], about("the same in every namespace: no sources, no copies")] = (
        KEPT_BY_CLUSTER
    )


class CopiedMetadata(Struct, frozen=True):
    labels: Annotated[tuple[KeyGlob, ...], about("keys that travel all the same")] = ()
    annotations: Annotated[tuple[KeyGlob, ...], about("keys that travel all the same")] = ()


class Writes(Struct, frozen=True):
    in_flight: Annotated[
        int, msgspec.Meta(ge=1, le=256), about("most writes in flight; Samara adapts below it to the API server")
    ] = 32
    per_second: Annotated[
        float, msgspec.Meta(ge=0, le=100_000), about("most writes a second; 0 = as many as the API server takes")
    ] = 0.0


class MassDelete(Struct, frozen=True):
    most: Annotated[int, msgspec.Meta(ge=0), about("more deletions than this in 10 minutes are held …")] = 50
    percent: Annotated[
        int, msgspec.Meta(ge=0, le=100), about("… if they are also more than this part of a source's copies")
    ] = 30
    hold: Annotated[DurationOrForever, about("how long they are held; forever = until `samara release`")] = inf
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
    lease: Annotated[Duration, about("how long the leader's Lease is valid")] = 15.0
    renew: Annotated[Duration, about("the leader must renew it within this time; less than lease")] = 10.0
    silence: Annotated[Duration, about("a watch silent for this long is reopened")] = 75.0
    backoff_most: Annotated[Duration, about("the longest wait before a refused write is tried again")] = 900.0


_SERVED_BY_DEFAULT = tuple(vocabulary for vocabulary in VOCABULARIES if not vocabulary.is_off_until_named)
SERVED_BY_DEFAULT = tuple(vocabulary.name for vocabulary in _SERVED_BY_DEFAULT)
"""The vocabularies that are served if the settings name none."""


def _default_vocabularies() -> Mapping[str, VocabularySettings]:
    return MappingProxyType({vocabulary.name: vocabulary.settings() for vocabulary in _SERVED_BY_DEFAULT})


_OFF_UNTIL_NAMED = ", ".join(name for name in STRUCTS if name not in SERVED_BY_DEFAULT)
_WRITTEN_BY_TENANTS = ", ".join(vocabulary.name for vocabulary in VOCABULARIES if vocabulary.is_written_by_tenants)
_VOCABULARIES = Named(
    lambda: STRUCTS,
    "{name: settings}",
    f"a mapping that names at least one vocabulary (leave it out for all but {_OFF_UNTIL_NAMED})",
)


class Settings(Struct, frozen=True):
    vocabularies: Annotated[
        Mapping[str, VocabularySettings],
        _VOCABULARIES,
        about(f"the served ones; without this key all but {_OFF_UNTIL_NAMED}"),
    ] = msgspec.field(default_factory=_default_vocabularies)
    tenancy: Annotated[Literal["open", "strict"], about("open if tenants trust each other, strict if they do not")] = (
        "open"
    )
    conflicts: Annotated[Conflicts, about("what to do if another client's object has the name of a copy")] = "refuse"
    recreate: Annotated[Literal["allow", "refuse"], about("delete and create copies whose immutable fields differ")] = (
        "allow"
    )
    protected_namespaces: Annotated[
        tuple[NamespaceGlob, ...], about("no targets of a source that asks for every namespace or selects by label")
    ] = (
        "kube-system",
        "kube-public",
        "kube-node-lease",
    )
    never_copied: Annotated[
        NeverCopied, about("labels and annotations that are not copied, besides those above, and objects")
    ] = NeverCopied()
    copied_metadata: Annotated[
        CopiedMetadata,
        about("of sources that tenants write, which copy none under tenancy strict; some vocabularies never do"),
    ] = CopiedMetadata()
    source_gone_after: Annotated[DurationOrZero, about("the copies of a deleted source stay this long")] = 3.0
    resync: Annotated[DurationOrZero, about("how often everything is planned again from the cache; 0 = never")] = 600.0
    writes: Annotated[Writes, about("the load on the API server")] = Writes()
    mass_delete: Annotated[MassDelete | None, about("the limit on mass deletion; null = off")] = MassDelete()
    limits: Annotated[Limits, about(f"for what tenants write: {_WRITTEN_BY_TENANTS}; more is `LimitExceeded`")] = (
        Limits()
    )
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
