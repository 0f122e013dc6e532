"""Which names of namespaces are trusted: by a setting, by the consent of another namespace, by the list of a source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support import toys
from tests.support.caches import a_plain_cache
from tests.support.samples import a_namespace, an_object
from tests.support.world import World, at, content, secret

from samara.assembly import registry_of
from samara.core.metadata_keys import ACCEPT
from samara.core.model import Object, Ref, namespace_ref
from samara.core.source_type import TrustedNamespaces
from samara.core.trust import Trust
from samara.settings import Settings
from samara.vocabularies.accurate import AccurateSettings
from samara.vocabularies.accurate.labels import PARENT, TEMPLATE, TYPE
from samara.vocabularies.fishysecret import FISHY_SECRET, FishySecretSettings, PathRule
from samara.vocabularies.replicator import TO, ReplicatorSettings
from samara.vocabularies.resource_distribution import RESOURCE_DISTRIBUTION, ResourceDistributionSettings
from samara.vocabularies.secret_copy import TARGETS, SecretCopySettings
from samara.vocabularies.sync_to import SYNC_TO, SYNC_TO_NAMESPACES, SyncToSettings

RULE = PathRule(("payments", "shop-*"), ("/shop/*",))
OWN: dict[str, Any] = {
    "secret-copy": SecretCopySettings(),
    "sync-to": SyncToSettings(),
    "resource-distribution": ResourceDistributionSettings(),
    "replicator": ReplicatorSettings(),
    "fishysecret": FishySecretSettings(paths=(RULE,)),
    "accurate": AccurateSettings(),
}
HOME = at("admin", "db")


def a_world(paths: tuple[PathRule, ...] | None = None) -> World:
    own = {**OWN, "fishysecret": FishySecretSettings(paths=paths)}
    return World(registry_of(Settings(vocabularies=own)))


def shown(world: World, name: str, is_discreet: bool = False, namespace: str = "team") -> list[str]:
    return [trust.shown(namespace, is_discreet) for trust in world.trust_in(name)]


def distribution(included: list[str], excluded: list[str] | None = None) -> Any:
    listed, left_out = ({"list": [{"name": name} for name in names]} for names in (included, excluded or []))
    resource = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {}}
    targets = {"includedNamespaces": listed, "excludedNamespaces": left_out}
    return content(spec={"resource": resource, "targets": targets})


# Settings


@pytest.mark.parametrize(
    ("item", "name", "is_trusted"),
    [
        ("payments", "payments", True),
        ("payments", "payments-x", False),
        ("shop-*", "shop-x", True),
        ("shop-*", "shop", False),
        ("*", "payments", False),
        ("**", "payments", False),
        ("?*", "payments", False),
        ("*-prod", "shop-prod", True),
        ("tree:shop", "shop", True),
        ("tree:shop", "shop-x", False),
    ],
)
def test_a_glob_trusts_a_name_unless_it_means_every_namespace(item: str, name: str, is_trusted: bool) -> None:
    trusted = TrustedNamespaces("vocabularies.toys.rules", (item,))
    assert trusted.naming(name) == (item if is_trusted else "")


def test_a_path_rule_trusts_the_names_that_it_matches() -> None:
    world = a_world((RULE, PathRule(("empty",), ())))
    assert shown(world, "shop-x") == ["the setting vocabularies.fishysecret.paths names it (shop-*)"]
    assert shown(world, "payments") == ["the setting vocabularies.fishysecret.paths names it (payments)"]
    assert shown(world, "billing") == []
    assert shown(world, "empty") == [], "a rule without paths gives nothing"


def test_the_rules_of_a_vocabulary_that_waits_for_its_original_count() -> None:
    settings = Settings(vocabularies={"fishysecret": OWN["fishysecret"]})
    assert shown(World(registry_of(settings, waiting=frozenset({"fishysecret"}))), "shop-x")
    assert not shown(World(registry_of(Settings(vocabularies={"accurate": AccurateSettings()}))), "shop-x")


# Consent


def test_a_setting_includes_the_namespaces_of_a_tree() -> None:
    world = a_world()
    world.namespace("shop", {TYPE: "root"}), world.namespace("web", {PARENT: "shop"}), world.namespace("shop-x")
    trusted = TrustedNamespaces("vocabularies.toys.rules", ("tree:shop", "ops"))
    included = [name for name in ("shop", "web", "shop-x", "ops", "tree") if trusted.includes(name, world)]
    assert included == ["shop", "web", "ops"]
    world.edit(namespace_ref("web"), labels={PARENT: "shop-x"})
    assert not trusted.includes("web", world)


@pytest.mark.parametrize("consent", ["ci-tools", "a, ci-tools", "ci-tools:Secret/deploy", "tree:ci-tools"])
def test_a_consent_trusts_the_name_that_it_lists(consent: str) -> None:
    world = a_world()
    world.namespace("shop", annotations={ACCEPT: consent})
    assert shown(world, "ci-tools") == [f"Namespace shop accepts it ({ACCEPT})"]
    assert shown(world, "ci") == shown(world, "deploy") == []


def test_a_consent_for_every_namespace_trusts_no_name() -> None:
    world = a_world()
    world.namespace("shop", annotations={ACCEPT: "*"})
    assert shown(world, "ci-tools") == shown(world, "*") == []


# Labels of Namespaces


@pytest.mark.parametrize("label", [PARENT, TEMPLATE])
def test_a_namespace_that_would_inherit_trusts_the_name_of_its_missing_parent_or_template(label: str) -> None:
    world = a_world()
    world.namespace("shop", {label: "gone"})
    assert shown(world, "gone") == [f"Namespace shop inherits from it ({label})"]
    assert shown(world, "shop") == []
    world.edit(namespace_ref("shop"), labels={label: "other"})
    assert shown(world, "gone") == []
    assert shown(world, "other")


def test_a_namespace_that_is_being_deleted_inherits_nothing_and_trusts_no_parent() -> None:
    world = a_world()
    world.namespace("shop", {PARENT: "gone"})
    shop = world.objects[namespace_ref("shop")]
    world.objects[shop.ref] = replace(shop, deleting=True)
    assert shown(world, "gone") == []


# Sources


def secret_copy_list(world: World) -> Ref:
    world.put(HOME, secret(), annotations={TARGETS: "shop, payments"})
    return HOME


def sync_to_list(world: World) -> Ref:
    world.put(at("shop", "db"), secret(), annotations={SYNC_TO: "namespaces", SYNC_TO_NAMESPACES: "a;payments"})
    return at("shop", "db")


def replicator_list(world: World) -> Ref:
    world.put(at("shop", "db"), secret(), annotations={TO: "pay.*"})
    return at("shop", "db")


def distribution_list(world: World) -> Ref:
    ref = Ref(RESOURCE_DISTRIBUTION, "", "ca")
    world.put(ref, distribution(["payments", "excluded"], ["excluded"]))
    return ref


def fishysecret_target(world: World) -> Ref:
    ref = Ref(FISHY_SECRET, "shop", "db")
    data = [{"secretPath": "/shop/db", "secretKeyName": "DB"}]
    world.put(ref, content(spec={"target": {"name": "db", "namespace": "payments"}, "data": data}))
    return ref


LISTS = [secret_copy_list, sync_to_list, replicator_list, distribution_list, fishysecret_target]


@pytest.mark.parametrize("listing", LISTS)
def test_a_source_trusts_the_names_that_it_lists(listing: Any) -> None:
    world = a_world()
    ref = listing(world)
    assert shown(world, "payments") == [f"{ref} lists it"]
    assert shown(world, "my-payments") == shown(world, "excluded") == []
    world.delete(ref)
    assert shown(world, "payments") == []


@pytest.mark.parametrize(
    "asks",
    [{TARGETS: ""}, {SYNC_TO: "cluster"}, {TO: ".*"}, {TO: "^.+$"}, {TO: "*"}],
)
def test_a_source_that_wants_copies_everywhere_trusts_no_name(asks: dict[str, str]) -> None:
    world = a_world()
    world.put(HOME, secret(), annotations=asks)
    assert shown(world, "payments") == []


def test_a_source_of_a_vocabulary_that_is_not_served_trusts_no_name() -> None:
    world = World(registry_of(Settings(vocabularies={"accurate": AccurateSettings()})))
    world.put(HOME, secret(), annotations={TARGETS: "payments"})
    assert shown(world, "payments") == []


# Messages


def test_a_discreet_message_names_nothing_outside_of_the_namespace_of_its_reader() -> None:
    world = a_world((RULE,))
    world.namespace("shop", annotations={ACCEPT: "payments"})
    world.put(HOME, secret(), annotations={TARGETS: "payments"})
    distribution_list(world)
    expected = [
        "the setting vocabularies.fishysecret.paths names it",
        f"a Namespace elsewhere accepts it ({ACCEPT})",
        "a Secret elsewhere lists it",
        "a ResourceDistribution elsewhere lists it",
    ]
    assert sorted(shown(world, "payments", is_discreet=True)) == sorted(expected)
    assert f"Namespace shop accepts it ({ACCEPT})" in shown(world, "payments", is_discreet=True, namespace="shop")
    assert "Secret admin/db lists it" in shown(world, "payments", is_discreet=True, namespace="admin")


# The cache


def test_the_cache_finds_the_same_trust_as_a_scan_and_forgets_what_is_gone() -> None:
    world = a_world((RULE,))
    cache = a_plain_cache(world.registry)

    def known(name: str) -> list[str]:
        return sorted(trust.shown("", is_discreet=False) for trust in cache.trust_in(name))

    for name, consent in {"shop": "payments", "billing": "ci-tools,payments", "plain": ""}.items():
        world.namespace(name, annotations={ACCEPT: consent} if consent else {})
    for listing in LISTS[:2]:
        listing(world)
    world.namespace("web", {PARENT: "gone", TEMPLATE: "payments"})
    for number, obj in enumerate(world.objects.values(), 1):
        cache.put(replace(obj, resource_version=number))
    for name in ("payments", "ci-tools", "shop-x", "gone", "other"):
        assert known(name) == sorted(shown(world, name))
    assert len(known("payments")) == 6

    cache.put(a_namespace("shop", 100, annotations={ACCEPT: "other"}))
    cache.put(an_object(HOME, 101))
    cache.remove(namespace_ref("billing"))
    cache.remove(at("shop", "db"))
    cache.remove(namespace_ref("web"))
    assert known("payments") == ["the setting vocabularies.fishysecret.paths names it (payments)"]
    assert known("other") == [f"Namespace shop accepts it ({ACCEPT})"]


def test_trust_that_an_object_no_longer_gives_does_not_hold() -> None:
    world = a_world()
    world.namespace("shop", annotations={ACCEPT: "payments"})
    world.namespace("web", {TEMPLATE: "payments"})
    sync_to_list(world)
    trusts: list[Trust] = list(world.trust_in("payments"))
    assert len(trusts) == 3
    for trust in trusts:
        assert isinstance(trust.by, Ref)
        live: Object = world.objects[trust.by]
        assert trust.holds(live)
        assert not trust.holds(replace(live, annotations={}, labels={}))
        assert not trust.holds(None)


def test_the_toys_that_list_namespaces_trust_their_names() -> None:
    world = World(toys.full_registry())
    ref = Ref(toys.FETCH, "team", "x")
    world.put(ref, annotations={toys.PATH: "/p", toys.INTO: "payments"})
    assert shown(world, "payments") == [f"{ref} lists it"]
