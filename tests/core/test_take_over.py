"""Contested addresses: copies that are handed over, replaced or kept by their source."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from tests.support import strategies, toys
from tests.support.oracle import assert_lawful
from tests.support.settle import is_silent, plan_of, settle
from tests.support.toys import a_sync_to
from tests.support.world import World, at, content, path, secret

from samara.core.desired import Adopt
from samara.core.metadata_keys import ACCEPT, ADOPTED, PAUSED, RELEASED
from samara.core.model import Key, OwnerReference, Ref, namespace_ref
from samara.core.policy import ClusterPolicy
from samara.core.queries import SecretReading
from samara.core.registry import Registry
from samara.core.writes import Delete, Recreate, Update
from samara.vocabularies import fishysecret, sync_to
from samara.vocabularies.accurate import labels as accurate
from samara.vocabularies.fishysecret import FISHY_SECRET
from samara.vocabularies.resource_distribution import RESOURCE_DISTRIBUTION
from samara.vocabularies.resource_distribution.spec_cache import FROM as DISTRIBUTED_FROM
from samara.vocabularies.secret_copy import ORIGIN, TARGETS

RULES = ClusterPolicy()
SYNC = Key("sync-to", at("a", "x"))
LATER = Key("sync-to", at("c", "x"))
DISTRIBUTION = Ref(RESOURCE_DISTRIBUTION, "", "d")
DISTRIBUTED = Key("resource-distribution", DISTRIBUTION)
PLACE = at("b", "x")
ASK = {sync_to.SYNC_TO: "namespaces", sync_to.SYNC_TO_NAMESPACES: "b"}
MISTYPED = {sync_to.SYNC_TO: "everywhere", sync_to.SYNC_TO_NAMESPACES: "b"}


def a_world(adopt: Adopt = Adopt.IDENTICAL) -> World:
    world = World(toys.full_registry(adopt=adopt))
    for name in ("admin", "a", "b", "c"):
        world.namespace(name)
    return world


def ask(world: World, namespace: str = "a", created: str = "2025") -> None:
    """A source of sync-to that wants its copy in b."""
    world.put(at(namespace, "x"), secret(namespace), annotations=ASK, created=created)


def distribute(world: World, *names: str, ref: Ref = DISTRIBUTION, created: str = "2026") -> None:
    """A distribution, which comes before every source of sync-to."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "stringData": {"key": ref.name}}
    spec = {"resource": body, "targets": {"includedNamespaces": {"list": [{"name": name} for name in names]}}}
    world.put(ref, content(spec=spec), created=created, generation=1)


def holder(world: World) -> Key | None:
    return world.registry.owner(world.objects[PLACE], world)


def blocked(world: World, key: Key) -> list[tuple[str, str]]:
    return [(blocked_copy.reason, blocked_copy.message) for blocked_copy in plan_of(key, world, RULES).blocked]


# Where an owner reference is involved


def test_the_winner_replaces_the_copy_of_the_loser_and_the_loser_deletes_nothing() -> None:
    world = a_world()
    ask(world)
    settle(world)
    distribute(world, "b")
    assert plan_of(SYNC, world, RULES).writes == ()
    assert blocked(world, SYNC) == [("conflict", f"{DISTRIBUTED} has this address")]
    (write,) = plan_of(DISTRIBUTED, world, RULES).writes
    assert isinstance(write, Recreate)
    assert str(SYNC) in write.why


@pytest.mark.parametrize("rules", [ClusterPolicy(), ClusterPolicy(recreate=False)])
def test_a_takeover_recreates_even_if_the_settings_refuse_to_recreate(rules: ClusterPolicy) -> None:
    world = a_world()
    ask(world)
    settle(world, rules)
    distribute(world, "b")
    writes = settle(world, rules, check=assert_lawful)
    assert not any(isinstance(write, Delete) for write in writes)
    assert holder(world) == DISTRIBUTED
    assert is_silent(world, rules)


def test_a_higher_vocabulary_replaces_a_copy_with_an_owner_reference() -> None:
    world = a_world()
    distribute(world, "b")
    settle(world)
    world.put(at("admin", "x"), secret("home"), annotations={TARGETS: "b"})
    settle(world, check=assert_lawful)
    assert holder(world) == Key("secret-copy", at("admin", "x"))
    assert world.objects[PLACE].owner_references == ()


def test_the_older_of_two_distributions_replaces_the_copy_of_the_younger() -> None:
    world = a_world()
    distribute(world, "b", ref=Ref(RESOURCE_DISTRIBUTION, "", "young"))
    settle(world)
    distribute(world, "b", created="2025")
    settle(world, check=assert_lawful)
    assert holder(world) == DISTRIBUTED


@pytest.mark.parametrize("adopt", strategies.SETTABLE)
def test_a_source_of_a_later_vocabulary_replaces_nothing(adopt: Adopt) -> None:
    world = a_world(adopt)
    distribute(world, "b")
    settle(world)
    ask(world)
    assert settle(world) == []


@pytest.mark.parametrize("words", [{ADOPTED: "true"}, {RELEASED: "true"}])
def test_an_adopted_or_released_object_is_not_replaced(words: dict[str, str]) -> None:
    world = a_world()
    ask(world)
    settle(world)
    live = world.objects[PLACE]
    world.edit(PLACE, annotations={**live.annotations, **words})
    distribute(world, "b")
    settle(world)
    assert world.objects[PLACE].uid == live.uid
    assert [reason for reason, _ in blocked(world, DISTRIBUTED)] == ["conflict"]


@pytest.mark.parametrize("data", ["a", "home"], ids=["the same", "other"])
def test_an_adopted_object_is_taken_over_only_if_it_is_identical(data: str) -> None:
    world, home = a_world(), Key("secret-copy", at("admin", "x"))
    theirs = world.put(PLACE, secret("a"))
    ask(world)
    settle(world)
    assert ADOPTED in world.objects[PLACE].annotations
    world.put(home.source, secret(data), annotations={TARGETS: "b"})
    settle(world, check=assert_lawful)
    assert world.objects[PLACE].content == theirs.content
    assert holder(world) == (home if data == "a" else SYNC)
    assert [reason for reason, _ in blocked(world, home)] == ([] if data == "a" else ["conflict"])


@pytest.mark.parametrize("data", ["a", "c"], ids=["the same", "other"])
def test_an_adopted_object_is_released_when_its_source_is_deleted_for_any_next_source(data: str) -> None:
    world = a_world()
    theirs = world.put(PLACE, secret("a"))
    ask(world)
    settle(world)
    world.put(LATER.source, secret(data), annotations=ASK, created="2027")
    world.delete(SYNC.source)
    settle(world, check=assert_lawful)
    assert world.objects[PLACE].content == theirs.content
    assert holder(world) == (LATER if data == "a" else None)
    assert is_silent(world, RULES)


def test_a_pasted_or_forged_copy_is_not_replaced() -> None:
    world = a_world()
    ask(world)
    marks = {sync_to.FROM: "a/x"}
    theirs = world.put(PLACE, secret("a"), annotations=marks)
    distribute(world, "b")
    settle(world)
    assert world.objects[PLACE] is theirs


def test_a_paused_winner_replaces_nothing() -> None:
    world = a_world()
    ask(world)
    settle(world)
    distribute(world, "b")
    world.edit(DISTRIBUTION, annotations={PAUSED: "true"})
    settle(world)
    assert holder(world) == SYNC


def test_a_winner_with_invalid_content_replaces_nothing_and_reports_a_conflict() -> None:
    world = a_world()
    ask(world)
    settle(world)
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {"key": "no base64"}}
    targets = {"includedNamespaces": {"list": [{"name": "b"}]}}
    world.put(DISTRIBUTION, content(spec={"resource": body, "targets": targets}), generation=1)
    settle(world)
    assert holder(world) == SYNC
    assert [reason for reason, _ in blocked(world, DISTRIBUTED)] == ["conflict"]


def test_the_copy_of_a_paused_source_is_not_replaced() -> None:
    world = a_world()
    ask(world)
    settle(world)
    world.edit(at("a", "x"), annotations={**ASK, PAUSED: "true"})
    distribute(world, "b")
    settle(world)
    assert holder(world) == SYNC


def test_the_copy_of_a_deleted_source_is_replaced_at_once() -> None:
    world = a_world()
    ask(world)
    settle(world)
    world.delete(at("a", "x"))
    distribute(world, "b")
    (write,) = plan_of(DISTRIBUTED, world, RULES).writes
    assert isinstance(write, Recreate)


@pytest.mark.parametrize("adopt", strategies.SETTABLE)
def test_a_distribution_that_is_gone_leaves_its_copies_to_the_garbage_collector_first(adopt: Adopt) -> None:
    world = a_world(adopt)
    distribute(world, "b")
    settle(world)
    ask(world)
    world.delete(DISTRIBUTION)
    assert plan_of(SYNC, world, RULES).writes == ()


# Copies that their source no longer wants


HOME = at("admin", "x")


def a_copy_from_home(world: World) -> None:
    """A source of Secret copy wins the address and then stops targeting it."""
    world.put(HOME, secret("home"), annotations={TARGETS: "b"})
    settle(world)
    assert holder(world) == Key("secret-copy", HOME)
    world.edit(HOME, annotations={TARGETS: "c"})


def test_a_copy_that_the_next_source_cannot_take_over_is_deleted_although_a_later_one_could() -> None:
    """A distribution owns by reference, and comes before sync-to, which would take the copy as it is."""
    world = a_world()
    ask(world)
    distribute(world, "b")
    a_copy_from_home(world)
    settle(world, check=assert_lawful)
    assert holder(world) == DISTRIBUTED


def test_a_copy_that_the_next_source_takes_over_is_not_deleted_first() -> None:
    world = a_world()
    ask(world)
    a_copy_from_home(world)
    writes = settle(world, check=assert_lawful)
    assert not any(isinstance(write, Delete) for write in writes)
    assert holder(world) == SYNC


def test_a_copy_that_the_next_source_would_only_create_is_deleted_and_created_again() -> None:
    world = a_world()
    a_tree(world, "a", "b")
    propagate(world, "create")
    a_copy_from_home(world)
    settle(world, check=assert_lawful)
    assert world.objects[PLACE].content == secret("tree")


@pytest.mark.parametrize(
    "forged",
    [
        {ORIGIN: "admin/x"},
        {accurate.FROM: "a", accurate.PROPAGATE: "update"},
        {DISTRIBUTED_FROM: "d"},
    ],
)
def test_a_forged_mark_of_another_source_does_not_free_a_copy(forged: dict[str, str]) -> None:
    world = a_world()
    ask(world)
    settle(world)
    live = world.objects[PLACE]
    owner = OwnerReference("apps.kruise.io/v1beta1", "ResourceDistribution", "d", "u-d", controller=True)
    owners = (owner,) if DISTRIBUTED_FROM in forged else ()
    world.edit(PLACE, annotations={**live.annotations, **forged}, owner_references=owners)
    assert holder(world) == SYNC
    world.delete(at("a", "x"))
    settle(world)
    assert PLACE not in world.objects


def test_a_copy_that_only_a_paused_source_would_take_over_is_deleted() -> None:
    world = a_world()
    world.put(at("a", "x"), secret("a"), annotations={**ASK, PAUSED: "true"})
    a_copy_from_home(world)
    settle(world, check=assert_lawful)
    assert PLACE not in world.objects


def a_world_with_consent(accepted: str) -> World:
    """Copies of sync-to need the consent of namespace b."""
    world = World(Registry((a_sync_to(copyable=lambda where, words: dict(words), consent=True),)))
    for name in ("a", "b", "c"):
        world.namespace(name)
    world.edit(namespace_ref("b"), annotations={ACCEPT: accepted})
    return world


def test_a_source_without_consent_keeps_no_copy_even_with_an_invalid_value() -> None:
    world = a_world_with_consent("a, c")
    ask(world)
    ask(world, "c", created="2026")
    settle(world)
    assert holder(world) == SYNC
    world.edit(at("a", "x"), annotations=MISTYPED)
    settle(world)
    assert holder(world) == SYNC
    world.edit(namespace_ref("b"), annotations={ACCEPT: "c"})
    settle(world, check=assert_lawful)
    assert (holder(world), world.objects[PLACE].content) == (LATER, secret("c"))


def test_a_source_without_consent_does_not_delete_the_copy_of_another() -> None:
    world = a_world_with_consent("a")
    ask(world)
    settle(world)
    assert holder(world) == SYNC
    world.edit(SYNC.source, annotations={**ASK, PAUSED: "true"})
    ask(world, "c", created="2026")
    assert [reason for reason, _ in blocked(world, LATER)] == ["not-accepted"]
    assert settle(world) == []


def test_a_copy_that_the_next_source_may_not_recreate_is_deleted_and_created_again() -> None:
    world = a_world()
    world.put(at("a", "x"), secret("a"), annotations=ASK)
    a_copy_from_home(world)
    other = content(type="example.com/other", data={"k": "aG9tZQ=="})
    world.objects[PLACE] = replace(world.objects[PLACE], content=other)
    settle(world, ClusterPolicy(recreate=False), check=assert_lawful)
    assert (holder(world), world.objects[PLACE].content) == (SYNC, secret("a"))


# Trees, whose copies are sources of the next ones


def a_tree(world: World, *names: str) -> None:
    world.edit(namespace_ref(names[0]), labels={accurate.TYPE: accurate.ROOT})
    for above, name in pairwise(names):
        world.edit(namespace_ref(name), labels={accurate.PARENT: above})


def propagate(world: World, mode: str, value: str = "tree") -> None:
    world.put(at("a", "x"), secret(value), annotations={accurate.PROPAGATE: mode})


def test_copies_of_a_copy_that_another_vocabulary_took_over_are_deleted() -> None:
    world = a_world()
    a_tree(world, "a", "b", "c")
    propagate(world, "update")
    settle(world)
    assert at("c", "x") in world.objects
    world.put(HOME, secret("home"), annotations={TARGETS: "b"})
    settle(world, check=assert_lawful)
    assert holder(world) == Key("secret-copy", HOME)
    assert at("c", "x") not in world.objects
    world.edit(HOME, annotations={TARGETS: "none"})
    settle(world, check=assert_lawful)
    assert [world.objects[at(name, "x")].content for name in "bc"] == [secret("tree")] * 2


def test_a_create_only_source_does_not_keep_another_copy_from_following_its_source() -> None:
    world = a_world()
    a_tree(world, "c", "b")
    ask(world)
    settle(world)
    world.put(at("c", "x"), secret("tree"), annotations={accurate.PROPAGATE: "create"})
    world.edit(at("a", "x"), content=secret("new"))
    settle(world, check=assert_lawful)
    assert holder(world) == SYNC
    assert world.objects[PLACE].content == secret("new")


def test_a_copy_created_once_is_not_taken_over_by_a_later_vocabulary_while_its_source_exists() -> None:
    world = a_world()
    a_tree(world, "c", "b")
    world.put(at("c", "x"), secret("tree"), annotations={accurate.PROPAGATE: "create"})
    settle(world)
    ask(world)
    assert settle(world) == []
    assert [reason for reason, _ in blocked(world, SYNC)] == ["conflict"]


def test_a_copy_created_once_belongs_to_its_namespace_when_its_source_is_deleted() -> None:
    world = a_world()
    a_tree(world, "c", "b")
    world.put(at("c", "x"), secret("tree"), annotations={accurate.PROPAGATE: "create"})
    settle(world)
    world.edit(PLACE, content=secret("mine"))
    world.delete(at("c", "x"))
    ask(world)
    settle(world, check=assert_lawful)
    assert world.objects[PLACE].content == secret("mine")
    assert [reason for reason, _ in blocked(world, SYNC)] == ["conflict"]


# Copies that a source keeps


def a_mistyped_world(adopt: Adopt = Adopt.IDENTICAL) -> World:
    """The older source has mistyped its annotation; its copy is there."""
    world = a_world(adopt)
    ask(world)
    settle(world)
    world.edit(at("a", "x"), annotations=MISTYPED)
    return world


@pytest.mark.parametrize("adopt", strategies.SETTABLE)
def test_a_later_source_does_not_take_over_a_copy_that_an_earlier_one_keeps(adopt: Adopt) -> None:
    world = a_mistyped_world(adopt)
    ask(world, "c", "2026")
    assert settle(world) == []
    assert blocked(world, LATER) == [("conflict", f"{SYNC} has this address")]


def test_an_earlier_source_takes_over_a_copy_that_a_later_one_keeps() -> None:
    world = a_mistyped_world()
    ask(world, "c", "2024")
    (write,) = settle(world)
    assert isinstance(write, Update)
    assert holder(world) == LATER


def test_a_source_with_an_invalid_value_holds_only_the_addresses_of_its_existing_copies() -> None:
    world = a_mistyped_world()
    world.delete(PLACE)
    ask(world, "c", "2026")
    settle(world)
    assert holder(world) == LATER


def test_a_mark_of_another_field_manager_does_not_keep_an_object_for_its_source() -> None:
    world = a_mistyped_world(Adopt.ANY)
    marks: dict[str, Any] = {"annotations": {sync_to.FROM: "a/x"}}
    world.put(PLACE, secret("forged"), **marks)
    ask(world, "c", "2026")
    settle(world)
    assert holder(world) == LATER


def test_a_kept_copy_is_taken_over_once_its_source_is_no_longer_a_source() -> None:
    world = a_mistyped_world()
    ask(world, "c", "2026")
    world.edit(at("a", "x"), annotations={})
    settle(world)
    assert holder(world) == LATER


@pytest.mark.parametrize("adopt", strategies.SETTABLE)
def test_a_distribution_with_an_invalid_spec_keeps_its_copies(adopt: Adopt) -> None:
    world = a_world(adopt)
    distribute(world, "b")
    settle(world)
    world.edit(DISTRIBUTION, content=content(spec={"resource": {}, "targets": {}}))
    ask(world)
    settle(world)
    assert holder(world) == DISTRIBUTED
    assert sync_to.FROM not in world.objects[PLACE].annotations


@pytest.mark.parametrize("finalizers", [(), (fishysecret.FINALIZER,)])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_copy_is_kept_until_the_next_source_has_read_its_values(finalizers: tuple[str, ...], backwards: bool) -> None:
    """Otherwise the application would have no Secret for a while, and metadata of others would be lost."""
    world = a_world()
    world.outside[path("/p")] = SecretReading(b"one", "2026-11-15T10:00:00Z")
    spec = {"target": {"namespace": "b", "name": "x"}, "data": [{"secretPath": "/p", "secretKeyName": "key"}]}
    world.put(Ref(FISHY_SECRET, "a", "f"), content(spec=spec), finalizers=finalizers, generation=1)
    left = world.put(at("b", "x"), secret(), "samara", annotations={toys.CHAINED: "a"})
    world.edit(left.ref, annotations={**left.annotations, "note": "theirs"})
    writes = settle(world, order=lambda keys: sorted(keys, reverse=backwards))
    assert not [write for write in writes if isinstance(write, Delete)]
    assert world.objects[left.ref].annotations["note"] == "theirs"


def test_a_copy_is_deleted_if_the_next_source_cannot_read_its_values() -> None:
    world = a_world()
    spec = {"target": {"namespace": "b", "name": "x"}, "data": [{"secretPath": "/p", "secretKeyName": "key"}]}
    world.put(Ref(FISHY_SECRET, "a", "f"), content(spec=spec), finalizers=(fishysecret.FINALIZER,), generation=1)
    left = world.put(at("b", "x"), secret(), "samara", annotations={toys.CHAINED: "a"})
    settle(world)
    assert left.ref not in world.objects


def pause(world: World, key: Key, paused: bool = True) -> None:
    source = world.objects[key.source]
    rest = {name: value for name, value in source.annotations.items() if name != PAUSED}
    world.edit(key.source, annotations={**rest, **({PAUSED: "true"} if paused else {})})


def test_a_paused_source_without_a_copy_leaves_the_address_to_others() -> None:
    world = a_world()
    ask(world)
    pause(world, SYNC)
    ask(world, "c", created="2026")
    settle(world)
    assert holder(world) == LATER
    pause(world, SYNC, paused=False)
    settle(world)
    assert holder(world) == SYNC


@pytest.mark.parametrize("created", ["2024", "2026"])
@pytest.mark.parametrize("listed", ["b", "c"])
def test_a_paused_source_keeps_the_copy_that_it_has(created: str, listed: str) -> None:
    """Also if the other source is older, and if its own list was narrowed during the pause."""
    world = a_world()
    ask(world)
    settle(world)
    pause(world, SYNC)
    annotations = world.objects[SYNC.source].annotations
    world.edit(SYNC.source, annotations={**annotations, sync_to.SYNC_TO_NAMESPACES: listed})
    ask(world, "c", created=created)
    settle(world)
    assert holder(world) == SYNC
    assert [blocked.reason for blocked in plan_of(LATER, world, RULES).blocked] == ["conflict"]
    pause(world, SYNC, paused=False)
    settle(world)
    assert holder(world) == (SYNC if (created, listed) == ("2026", "b") else LATER)


def test_the_source_after_a_paused_one_inherits_a_copy() -> None:
    world = a_world()
    ask(world, created="2024")
    settle(world)
    ask(world, "admin", created="2025")
    pause(world, Key("sync-to", at("admin", "x")))
    ask(world, "c", created="2026")
    made = world.objects[PLACE].uid
    world.delete(SYNC.source)
    settle(world, order=lambda keys: sorted(keys, key=lambda key: key.source != SYNC.source))
    assert (holder(world), world.objects[PLACE].uid) == (LATER, made)
