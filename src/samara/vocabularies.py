"""Which dialects the program has, made as the settings say.

What else a new vocabulary touches is in docs/concepts/architecture.md, under "Add something".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from samara.core.brake import Brake
from samara.core.match import any_glob
from samara.core.model import CONFIG_MAP, SECRET, Key, Kind, Object, Ref
from samara.core.table import Table
from samara.core.view import OwnerOf, View
from samara.core.want import Adopt, Bare, Dialect, Want
from samara.dialects import accurate, fishysecret, resource_distribution, secret_copy, sync_to
from samara.settings import (
    Accurate,
    FishySecret,
    KindName,
    ResourceDistribution,
    SecretCopy,
    Settings,
    SyncTo,
    Vocabulary,
    watched_kinds,
)

V = TypeVar("V", SecretCopy, ResourceDistribution, Accurate, FishySecret, SyncTo)
Kinds = Mapping[KindName, Kind]
"""The kinds that settings name, as the server knows them."""

CERTIFICATE = "samara-webhook-tls"
"""The operator's Secret with the certificate of its webhooks."""
WELL_KNOWN: Kinds = {KindName(kind.group, kind.version, kind.name): kind for kind in (SECRET, CONFIG_MAP)}


CONVERTERS: Mapping[str, Callable[[dict[str, Any], str], dict[str, Any]]] = {
    "apps.kruise.io/ResourceDistribution": resource_distribution.convert,
    "accurate.cybozu.com/SubNamespace": accurate.convert,
}
"""By group and kind: from one version of a custom resource to another."""


def table_of(
    settings: Settings,
    kinds: Kinds = WELL_KNOWN,
    waiting: frozenset[str] = frozenset(),
    *,
    home: str = "",
    every_kind: bool = False,
) -> Table:
    """Every dialect, always: one that is switched off, or waits, recognises its objects and wants nothing.

    Its kinds are watched only where another one serves them, or where `every_kind` is asked for. `home` is the
    operator's own namespace.
    """

    def bare(where: str, words: Mapping[str, str]) -> dict[str, str]:
        return table.bare(where, words)

    def as_written(where: str, words: Mapping[str, str]) -> dict[str, str]:
        return table.bare(where, words, by_default=())

    def owner(obj: Object, view: View) -> Key | None:
        return table.owner(obj, view)

    on = settings.vocabularies.keys() - waiting
    made = [
        _secret_copy(settings),
        _resource_distribution(settings, kinds, as_written),  # whoever wrote a key into one means it
        *_accurate(settings, kinds, bare, owner, home),
        _fishysecret(settings),
        _sync_to(settings, kinds, bare),
    ]
    watched = {kind for each in made if every_kind or each.title in on for kind in each.kinds}
    by_rank = sorted(made, key=lambda each: each.rank)
    dialects = tuple(each if each.title in on else switched_off(each, watched) for each in by_rank)
    never = settings.never_copied
    table = Table(dialects, never.labels, never.annotations)
    return table


def served(settings: Settings, kinds: Kinds = WELL_KNOWN) -> tuple[Dialect, ...]:
    """The dialects of the vocabularies that the settings name."""
    return tuple(each for each in table_of(settings, kinds).dialects if each.title in settings.vocabularies)


def switched_off(dialect: Dialect, watched: Collection[Kind]) -> Dialect:
    return replace(
        dialect,
        kinds=tuple(kind for kind in dialect.kinds if kind in watched),
        asking=tuple(kind for kind in dialect.asking if kind in watched),
        is_source=lambda obj, view: False,
        want=lambda source, view: Want(prune=False),
        also=lambda obj, view: (),
        reads=lambda source, view: (),
        report=None,
        admit=None,
        mutate=None,
        served=False,
    )


def brake_of(settings: Settings) -> Brake | None:
    own = settings.mass_delete
    return None if own is None else Brake(own.most, own.percent, own.namespaces)


def kinds_in(settings: Settings) -> tuple[KindName, ...]:
    """Every kind that the settings name."""
    return tuple(dict.fromkeys((*kinds_for_all(settings), *kinds_of_trees(settings))))


def kinds_for_all(settings: Settings) -> tuple[KindName, ...]:
    """Those whose objects people may have copied who need no rights elsewhere."""
    own = [each for each in settings.vocabularies.values() if isinstance(each, SyncTo | ResourceDistribution)]
    return tuple(dict.fromkeys(kind for each in own for kind in each.kinds))


def kinds_of_trees(settings: Settings) -> tuple[KindName, ...]:
    own = settings.vocabularies.get(accurate.NAME)
    return watched_kinds(own) if isinstance(own, Accurate) else ()


def _secret_copy(settings: Settings) -> Dialect:
    own = _own(settings, secret_copy.NAME, SecretCopy)
    return secret_copy.dialect(own.home, own.on_source_gone, _adopt(settings, secret_copy.NAME), _managers(own))


def _resource_distribution(settings: Settings, kinds: Kinds, bare: Bare) -> Dialect:
    own = _own(settings, resource_distribution.NAME, ResourceDistribution)
    return resource_distribution.dialect(_found(own.kinds, kinds), bare, _managers(own))


def reserved(settings: Settings, home: str) -> tuple[str, ...]:
    """The names, as globs, that no namespace of ours may have; where Secret copy is off it has no home."""
    copying = settings.vocabularies.get(secret_copy.NAME)
    homes = (home, copying.home if isinstance(copying, SecretCopy) else "")
    return tuple(filter(None, (*settings.protected_namespaces, "default", "kube-*", *homes)))


def _accurate(settings: Settings, kinds: Kinds, bare: Bare, owner: OwnerOf, home: str) -> tuple[Dialect, ...]:
    own, names = _own(settings, accurate.NAME, Accurate), reserved(settings, home)
    terms = accurate.Terms(
        _adopt(settings, accurate.NAME),
        own.allow_cascading_deletion,
        lambda name: any_glob(names, name),
        _managers(own),
        own.propagate_generated,
    )
    return accurate.dialects(own.read_config(), _found(watched_kinds(own), kinds), bare, owner, terms)


def _fishysecret(settings: Settings) -> Dialect:
    own = _own(settings, fishysecret.NAME, FishySecret)
    terms = fishysecret.Terms(
        may_read(settings),
        own.refresh_interval,
        own.last_synced == "change",
        settings.cross_namespace_of(fishysecret.NAME) == "consent",
        _managers(own),
    )
    return fishysecret.dialect(terms)


def store_config(settings: Settings, home: str) -> Ref:
    """The Secret that says which secret manager is read, and as whom."""
    own = _own(settings, fishysecret.NAME, FishySecret)
    return Ref(SECRET, own.namespace or home, fishysecret.CONFIG)


def may_read(settings: Settings) -> Callable[[str, str], bool]:
    """Who may read which path; without rules everybody may, or nobody where tenants are strictly apart."""
    rules = _own(settings, fishysecret.NAME, FishySecret).paths
    if rules is None:
        return lambda namespace, path: settings.tenancy != "strict"
    return lambda namespace, path: any(
        any_glob(rule.namespaces, namespace) and any_glob(rule.allow, path) for rule in rules
    )


def _sync_to(settings: Settings, kinds: Kinds, bare: Bare) -> Dialect:
    own = _own(settings, sync_to.NAME, SyncTo)
    return sync_to.dialect(
        _found(own.kinds, kinds),
        bare,
        _adopt(settings, sync_to.NAME),
        consent=settings.cross_namespace_of(sync_to.NAME) == "consent",
        carry_labels=settings.carries_labels,
        managers=_managers(own),
    )


def _own(settings: Settings, name: str, kind: type[V]) -> V:
    chosen = settings.vocabularies.get(name)
    return chosen if isinstance(chosen, kind) else kind()


def _found(names: tuple[KindName, ...], kinds: Kinds) -> tuple[Kind, ...]:
    return tuple(kinds[name] for name in names if name in kinds)


def _adopt(settings: Settings, name: str) -> Adopt:
    return Adopt.ANY if settings.conflicts_of(name) == "overwrite" else Adopt.IDENTICAL


def _managers(own: Vocabulary) -> frozenset[str]:
    return frozenset(own.managers)
