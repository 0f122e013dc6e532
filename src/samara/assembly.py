"""Builds the source types of all vocabularies from the settings and from the kinds that the API server has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samara.core.desired import Adopt
from samara.core.kinds import ROOT_CA
from samara.core.mass_delete import MassDeleteLimit
from samara.core.metadata_keys import CopyableMetadata
from samara.core.model import CONFIG_MAP, LEASE, SECRET, Kind, KindName, ObjectName, Ref
from samara.core.names import matches_any_glob
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.core.restrictions import disabled, limited, without_cluster_objects
from samara.core.source_limits import SourceLimits
from samara.core.source_type import SourceType
from samara.core.vocabulary import BuildContext, SecretStore, Vocabulary, VocabularySettings, converters
from samara.settings import Settings
from samara.vocabularies import VOCABULARIES

Vocabularies = tuple[Vocabulary[Any], ...]
Kinds = Mapping[KindName, Kind]
"""The kinds that settings name, as the API server has them."""

CERTIFICATE = "samara-webhook-tls"
"""The operator's Secret with the certificate of its webhooks."""
HOLDS = "samara-holds"
"""The operator's ConfigMap with the deletions that it holds."""
LEASE_NAME = "samara"
"""The operator's Lease, which elects the leader."""
WELL_KNOWN: Kinds = {KindName(kind.group, kind.version, kind.name): kind for kind in (SECRET, CONFIG_MAP)}
"""The kinds that every API server has."""
CONVERTERS = dict(converters(VOCABULARIES))
"""By group and kind: converts a custom resource from one version to another."""


def registry_of(
    settings: Settings,
    kinds: Kinds = WELL_KNOWN,
    waiting: frozenset[str] = frozenset(),
    *,
    own_namespace: str = "",
    every_kind: bool = False,
    vocabularies: Vocabularies = VOCABULARIES,
) -> Registry:
    """Every source type. Those of vocabularies that are not served or that wait are disabled, and recognise copies.

    The kinds of a disabled source type are watched only if an enabled one watches them, or with `every_kind`.
    """
    enabled = settings.vocabularies.keys() - waiting
    copyable = copyable_metadata(settings, vocabularies)
    reserved_names = reserved_namespaces(settings, own_namespace, vocabularies)

    def context(vocabulary: Vocabulary[Any], own: VocabularySettings) -> BuildContext:
        return BuildContext(
            kinds=tuple(kinds[name] for name in vocabulary.kinds(own) if name in kinds),
            copyable=copyable.of_tenants_source if vocabulary.is_written_by_tenants else copyable.of_source,
            withheld=copyable.withheld_from_tenants,
            copyable_as_written=copyable.as_written,
            is_reserved=lambda name: matches_any_glob(reserved_names, name),
            is_protected=lambda name: matches_any_glob(settings.protected_namespaces, name),
            adopt=_adopt(settings, vocabulary),
            needs_consent=settings.cross_namespace_of(vocabulary.name) == "consent",
            is_strict=settings.tenancy == "strict",
            managers=frozenset(own.managers),
        )

    limits, kept = source_limits(settings), kept_by_cluster(settings)
    built = [
        limited(source_type, limits) if vocabulary.is_written_by_tenants else source_type
        for vocabulary in vocabularies
        for own in (settings.vocabularies.get(vocabulary.name) or vocabulary.settings(),)
        for source_type in vocabulary.build(own, context(vocabulary, own))
    ]
    source_types = [without_cluster_objects(source_type, kept) for source_type in built]
    watched = {
        kind
        for source_type in source_types
        if every_kind or source_type.vocabulary in enabled
        for kind in source_type.kinds
    }
    return Registry(
        tuple(
            source_type if source_type.vocabulary in enabled else disabled(source_type, watched)
            for source_type in source_types
        ),
        keys_of_others=frozenset(key for vocabulary in vocabularies for key in vocabulary.unserved_keys),
    )


def source_limits(settings: Settings) -> SourceLimits:
    """The setting `limits`."""
    limits = settings.limits
    return SourceLimits(limits.listed_names, limits.listed_names_per_namespace, limits.source_bytes_per_namespace)


def _adopt(settings: Settings, vocabulary: Vocabulary[Any]) -> Adopt:
    """What a vocabulary does with objects of others. Under `tenancy: strict` a tenant's source must not show whether an
    object in another namespace equals it, so it adopts nothing."""
    if settings.conflicts_of(vocabulary.name) == "overwrite":
        return Adopt.ANY
    return Adopt.NEVER if settings.tenancy == "strict" and vocabulary.is_written_by_tenants else Adopt.IDENTICAL


def copyable_metadata(settings: Settings, vocabularies: Vocabularies) -> CopyableMetadata:
    """Which labels and annotations are copied from a source."""
    keys = frozenset().union(*(vocabulary.metadata_keys for vocabulary in vocabularies))
    never, listed = settings.never_copied, settings.copied_metadata
    if settings.tenancy != "strict":
        return CopyableMetadata(keys, never.labels, never.annotations)
    return CopyableMetadata(keys, never.labels, never.annotations, listed.labels, listed.annotations)


def kept_by_cluster(settings: Settings) -> tuple[ObjectName, ...]:
    """The objects that are the same in every namespace. Kubernetes' own is one of them, whatever the settings list."""
    return tuple(dict.fromkeys((ROOT_CA, *settings.never_copied.objects)))


def served_source_types(
    settings: Settings, kinds: Kinds = WELL_KNOWN, vocabularies: Vocabularies = VOCABULARIES
) -> tuple[SourceType, ...]:
    """The source types of the vocabularies that the settings name."""
    source_types = registry_of(settings, kinds, vocabularies=vocabularies).source_types
    return tuple(source_type for source_type in source_types if source_type.vocabulary in settings.vocabularies)


def named_vocabularies(
    settings: Settings, vocabularies: Vocabularies = VOCABULARIES
) -> list[tuple[Vocabulary[Any], VocabularySettings]]:
    """The vocabularies that the settings name, each with its own settings."""
    named = settings.vocabularies
    return [(vocabulary, named[vocabulary.name]) for vocabulary in vocabularies if vocabulary.name in named]


def kinds_in(settings: Settings) -> tuple[KindName, ...]:
    """Every kind that the settings name."""
    named = named_vocabularies(settings)
    return tuple(dict.fromkeys(kind for vocabulary, own in named for kind in vocabulary.kinds(own)))


def kinds_in_trees(settings: Settings, vocabularies: Vocabularies = VOCABULARIES) -> tuple[KindName, ...]:
    """The kinds that are copied down trees of namespaces, where a copy is the source of the next ones."""
    source_types = served_source_types(settings, vocabularies=vocabularies)
    in_trees = {source_type.vocabulary for source_type in source_types if source_type.hierarchy is not None}
    named = named_vocabularies(settings, vocabularies)
    return tuple(
        dict.fromkeys(
            kind for vocabulary, own in named if vocabulary.name in in_trees for kind in vocabulary.kinds(own)
        )
    )


def reserved_namespaces(
    settings: Settings, own_namespace: str, vocabularies: Vocabularies = VOCABULARIES
) -> tuple[str, ...]:
    """The names that no Namespace made by Samara may have, as globs."""
    named = named_vocabularies(settings, vocabularies)
    trusted = [name for vocabulary, own in named for name in vocabulary.reserved_namespaces(own)]
    return tuple(filter(None, (*settings.protected_namespaces, "default", "kube-*", own_namespace, *trusted)))


def cluster_policy(settings: Settings, own_namespace: str, *, in_cluster: bool) -> ClusterPolicy:
    """The policy for all vocabularies. In a cluster the operator's own namespace is always protected."""
    own = (own_namespace,) if in_cluster else ()
    return ClusterPolicy(
        (*settings.protected_namespaces, *own),
        settings.recreate == "allow",
        reserved_namespaces(settings, own_namespace),
        _own_objects(settings, own_namespace),
        kept_by_cluster(settings),
    )


def _own_objects(settings: Settings, own_namespace: str) -> frozenset[Ref]:
    """The objects that the operator reads and writes for itself. Outside a cluster they may be in any namespace."""
    certificate, holds = Ref(SECRET, own_namespace, CERTIFICATE), Ref(CONFIG_MAP, own_namespace, HOLDS)
    lease, config = Ref(LEASE, own_namespace, LEASE_NAME), store_config(settings, own_namespace)
    return frozenset((certificate, holds, lease, *(() if config is None else (config,))))


def store_config(settings: Settings, own_namespace: str, vocabularies: Vocabularies = VOCABULARIES) -> Ref | None:
    """The Secret that configures the secret manager. None if no vocabulary reads one."""
    store = secret_store(settings, own_namespace, vocabularies)
    return None if store is None else store.config


def secret_store(
    settings: Settings, own_namespace: str, vocabularies: Vocabularies = VOCABULARIES
) -> SecretStore | None:
    """The secret manager. The program reads one, so the first vocabulary that names one decides."""
    for vocabulary in vocabularies:
        if vocabulary.secret_store is not None:
            own = settings.vocabularies.get(vocabulary.name) or vocabulary.settings()
            return vocabulary.secret_store(own, own_namespace)
    return None


def secret_store_vocabularies(settings: Settings) -> frozenset[str]:
    """The vocabularies that the settings name and whose values come from the secret manager."""
    return frozenset(vocabulary.name for vocabulary, _ in named_vocabularies(settings) if vocabulary.secret_store)


def mass_delete_limit(settings: Settings) -> MassDeleteLimit | None:
    """The limit of the setting `massDelete`; None if it is switched off."""
    limits = settings.mass_delete
    return None if limits is None else MassDeleteLimit(limits.most, limits.percent, limits.namespaces)
