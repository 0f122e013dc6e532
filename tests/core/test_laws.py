"""The four laws of ownership and their consequences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support import toys
from tests.support.settle import is_silent, plan_of, settle
from tests.support.world import World, at, path, secret

from samara.core.desired import Adopt
from samara.core.metadata_keys import ADOPTED, RELEASED
from samara.core.model import ANNOTATIONS, FIELD_MANAGER, SECRET, Key, ManagedKey, Object
from samara.core.names import to_label_value
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.core.writes import Delete, Update
from samara.vocabularies import secret_copy
from samara.vocabularies.secret_copy import FROM, ORIGIN, TARGETS

RULES = ClusterPolicy()
SOURCE = at("admin", "x")
KEY = Key("secret-copy", SOURCE)
MARKS: dict[str, Any] = {"labels": {FROM: "admin-x"}, "annotations": {ORIGIN: "admin/x"}}


def a_world(targets: str | None = "a", gone: str = "delete", registry: Registry | None = None) -> World:
    world = World(registry or toys.registry(gone))
    for name in ("admin", "a", "b", "c"):
        world.namespace(name)
    if targets is not None:
        world.put(SOURCE, secret("one"), annotations={TARGETS: targets})
    return world


def a_chain(world: World, value: str = "two", created: str = "2026") -> None:
    """A source of the chain in namespace a, whose copy goes to b."""
    world.namespace("b", {toys.PARENT: "a"})
    world.put(at("a", "x"), secret(value), annotations={toys.CHAIN: "yes"}, created=created)


def a_fetch(world: World, namespace: str, created: str = "2026", into: str = "b") -> None:
    world.outside[path("p")] = secret(f"from {namespace}")
    words = {toys.PATH: "p", toys.INTO: into}
    world.put(at(namespace, "x", toys.FETCH), annotations=words, created=created, finalizers=(toys.GUARD,))
    world.edit(world.namespace("b").ref, annotations={"samara.dev/accept-from": "*"})


def has(world: World, namespace: str) -> str:
    field = world.objects[at(namespace, "x")].content.get("data")
    assert field is not None
    assert field.raw is not None
    return field.raw.decode()


def test_law_1_the_vocabulary_of_lower_rank_wins_and_the_conflict_of_the_loser_names_it() -> None:
    world = a_world("b")
    a_chain(world)
    settle(world)
    assert "one" in has(world, "b")
    (blocked,) = plan_of(Key("chain", at("a", "x")), world, RULES).blocked
    assert (blocked.reason, str(KEY) in blocked.message) == ("conflict", True)


def test_law_1_the_older_source_wins_the_address() -> None:
    for older in ("a", "c"):
        world = a_world(None)
        for namespace in ("a", "c"):
            a_fetch(world, namespace, "2020" if namespace == older else "2021")
        settle(world)
        assert world.objects[at("b", "x")].annotations[toys.FETCHED] == older


def test_law_1_among_sources_of_the_same_age_the_first_by_namespace_wins() -> None:
    world = a_world(None)
    a_fetch(world, "c")
    a_fetch(world, "a")
    settle(world)
    assert world.objects[at("b", "x")].annotations[toys.FETCHED] == "a"


def test_law_1_two_source_types_that_tie_in_everything_else_do_not_both_win() -> None:
    """Source types of one vocabulary have one rank."""
    for name in ("secret-copy:aaa", "secret-copy:zzz"):
        twins = [replace(secret_copy.source_type(), name=twin_name) for twin_name in ("secret-copy:mmm", name)]
        world = a_world("b", registry=Registry(tuple(twins)))
        keys = [Key(twin.name, SOURCE) for twin in twins]
        blocked = [bool(plan_of(key, world, RULES).blocked) for key in keys]
        assert sorted(blocked) == [False, True]


def test_law_1_a_new_winner_takes_over_with_one_update_that_changes_the_marks() -> None:
    world = a_world(None)
    a_chain(world)
    settle(world)
    uid = world.objects[at("b", "x")].uid
    world.put(SOURCE, secret("one"), annotations={TARGETS: "b"})
    (write,) = settle(world)
    assert isinstance(write, Update)
    live = world.objects[at("b", "x")]
    assert (live.uid, dict(live.annotations)) == (uid, {ORIGIN: "admin/x"})
    assert dict(live.labels) == {FROM: "admin-x"}


def test_law_1_the_next_source_takes_over_the_copy_of_a_deleted_winner() -> None:
    world = a_world("b")
    a_chain(world)
    settle(world)
    uid = world.objects[at("b", "x")].uid
    world.delete(SOURCE)
    (write,) = settle(world)
    assert isinstance(write, Update)
    assert world.objects[at("b", "x")].uid == uid
    assert "two" in has(world, "b")


def test_law_1_a_rival_that_may_not_write_there_does_not_win_the_address() -> None:
    world = a_world("b")
    world.edit(SOURCE, content=secret("one", "kubernetes.io/service-account-token"))
    a_chain(world)
    settle(world)
    assert "two" in has(world, "b")


def test_law_2_marks_and_requests_of_every_vocabulary_are_not_copied() -> None:
    world = a_world(None)
    a_chain(world)
    words = {"team": "red", FROM: "admin-x", "app.kubernetes.io/instance": "argo"}
    world.edit(at("a", "x"), labels=words)
    settle(world)
    assert dict(world.objects[at("b", "x")].labels) == {"team": "red", toys.LINK: to_label_value("a/x")}


def test_law_2_a_copy_with_a_request_of_another_vocabulary_is_not_a_source() -> None:
    world = a_world("a")
    world.namespace("b", {toys.PARENT: "a"})
    settle(world)
    copy = world.objects[at("a", "x")]
    world.edit(copy.ref, annotations={**copy.annotations, toys.CHAIN: "yes"})
    assert settle(world) == []
    assert plan_of(Key("chain", copy.ref), world, RULES).writes == ()


def test_law_2_a_copy_is_a_source_of_its_own_vocabulary() -> None:
    world = a_world(None)
    a_chain(world)
    world.namespace("c", {toys.PARENT: "b"})
    settle(world)
    assert "two" in has(world, "c")


def test_law_3_at_a_desired_address_a_correct_mark_makes_an_object_ours() -> None:
    world = a_world("a")
    world.put(at("a", "x"), secret("forged"), **MARKS)
    (write,) = settle(world)
    assert isinstance(write, Update)
    assert "one" in has(world, "a")


def test_law_3_at_an_unwanted_address_only_an_object_that_we_marked_is_deleted() -> None:
    world = a_world("a")
    world.put(at("b", "x"), secret("forged"), **MARKS)
    world.put(at("c", "x"), secret("stale"), FIELD_MANAGER, **MARKS)
    settle(world)
    assert at("b", "x") in world.objects
    assert at("c", "x") not in world.objects


def test_law_3_a_pasted_copy_is_left_alone() -> None:
    world = a_world("a")
    settle(world)
    pasted = world.paste(at("a", "x"), "b")
    assert settle(world) == []
    assert world.objects[at("b", "x")] is pasted


def test_law_3_a_pasted_copy_stays_when_its_source_is_deleted() -> None:
    world = a_world("a")
    settle(world)
    pasted = world.paste(at("a", "x"), "b")
    world.delete(SOURCE)
    settle(world)
    assert world.objects.get(at("b", "x")) is pasted
    assert at("a", "x") not in world.objects


def test_law_3_an_impossible_mark_is_ignored() -> None:
    world = a_world("a")
    world.put(at("b", "x"), secret("one"), FIELD_MANAGER, annotations={ORIGIN: "admin/y"})
    world.put(at("c", "x"), secret("one"), FIELD_MANAGER, annotations={ORIGIN: "other/x"})
    assert [write.ref for write in settle(world)] == [at("a", "x")]


def test_law_3_a_mark_that_another_field_manager_changed_does_not_prove_a_copy() -> None:
    world = a_world("a")
    live = world.put(at("b", "x"), secret("one"), FIELD_MANAGER, annotations={ORIGIN: "admin/other"})
    world.edit(live.ref, annotations={ORIGIN: "admin/x"})
    settle(world)
    assert at("b", "x") in world.objects


def test_law_3_a_mark_of_the_originals_field_manager_counts_if_the_settings_list_it() -> None:
    for managers, stays in ((frozenset[str](), True), (frozenset({"original"}), False)):
        world = a_world("a", registry=Registry((secret_copy.source_type(managers=managers),)))
        world.put(at("b", "x"), secret("one"), "original", **MARKS)
        settle(world)
        assert (at("b", "x") in world.objects) is stays


def test_law_3_a_forged_mark_causes_no_copy() -> None:
    world = a_world(None)
    world.namespace("b", {toys.PARENT: "a"})
    world.put(at("a", "x"), secret("forged"), annotations={toys.CHAINED: "c"})
    assert settle(world) == []


def test_law_3_a_forged_mark_on_a_source_changes_none_of_its_copies() -> None:
    world = a_world(None)
    a_chain(world)
    settle(world)
    source = world.objects[at("a", "x")]
    world.edit(source.ref, annotations={**source.annotations, ORIGIN: "admin/x"})
    assert settle(world) == []


def test_law_4_a_stripped_mark_does_not_free_a_copy() -> None:
    world = a_world("a")
    settle(world)
    world.strip(at("a", "x"))
    world.edit(at("a", "x"), content=secret("theirs"))
    settle(world)
    assert world.objects[at("a", "x")].annotations[ORIGIN] == "admin/x"
    assert "one" in has(world, "a")


def test_law_4_an_object_that_carries_released_is_free() -> None:
    world = a_world("a")
    settle(world)
    world.strip(at("a", "x"))
    world.edit(at("a", "x"), content=secret("theirs"), annotations={RELEASED: "true"})
    assert settle(world) == []


def test_law_4_a_stripped_copy_at_an_unwanted_address_is_left_alone() -> None:
    world = a_world("a")
    settle(world)
    world.strip(at("a", "x"))
    world.delete(SOURCE)
    assert settle(world) == []


def test_a_copy_is_deleted_by_its_mark_alone_if_its_source_was_deleted_while_we_were_down() -> None:
    world = a_world(None)
    world.put(at("a", "x"), secret("one"), FIELD_MANAGER, **MARKS)
    (write,) = settle(world)
    assert isinstance(write, Delete)


def test_a_label_removed_from_its_source_is_removed_from_the_copies() -> None:
    world = a_world(None)
    a_chain(world)
    world.edit(at("a", "x"), labels={"team": "red", "tier": "1"})
    settle(world)
    copy = world.objects[at("b", "x")]
    world.edit(copy.ref, labels={**copy.labels, "theirs": "1"})
    world.edit(at("a", "x"), labels={"team": "red"})
    settle(world)
    assert set(world.objects[at("b", "x")].labels) == {"team", "theirs", toys.LINK}


def test_an_adopted_object_stays_when_it_is_no_longer_wanted_and_is_not_adopted_again() -> None:
    world = a_world("a")
    world.put(at("a", "x"), secret("one"), labels={"app": "theirs"})
    settle(world)
    assert world.objects[at("a", "x")].annotations[ADOPTED] == "true"
    world.delete(SOURCE)
    settle(world)
    left = world.objects[at("a", "x")]
    assert dict(left.labels) == {"app": "theirs"}
    assert dict(left.annotations) == {RELEASED: "true"}
    assert is_silent(world, RULES)


def test_a_source_without_content_does_not_keep_the_copy_of_a_deleted_source() -> None:
    world = a_world("b")
    settle(world)
    a_fetch(world, "a")
    world.outside[path("p")] = None
    world.delete(SOURCE)
    settle(world)
    assert at("b", "x") not in world.objects


@pytest.mark.parametrize("adopt", list(Adopt))
def test_an_update_records_us_as_field_manager_of_the_marks(adopt: Adopt) -> None:
    world = a_world("a", registry=toys.registry("delete", adopt))
    settle(world)
    live: Object = world.objects[at("a", "x")]
    assert ManagedKey(FIELD_MANAGER, ANNOTATIONS, ORIGIN) in live.managed_keys
    assert live.known_copy


def test_a_registry_names_one_owner_the_first_by_rank() -> None:
    world = a_world(None)
    words = {ORIGIN: "admin/x", toys.CHAINED: "a", toys.FETCHED: "c"}
    live = world.put(at("b", "x"), secret(), annotations=words)
    assert world.registry.owner(live, world) == KEY


def test_kinds_and_metadata_keys_of_a_registry_are_those_of_its_source_types() -> None:
    registry = toys.registry()
    assert [str(kind) for kind in registry.kinds] == ["v1/Namespace", "v1/Secret", "toys.dev/v1/Fetch"]
    assert {TARGETS, ORIGIN, FROM, toys.CHAIN, toys.PATH} <= registry.metadata_keys
    assert registry.managers == {FIELD_MANAGER}
    assert registry["chain"].kinds == (SECRET,)


def test_a_kept_orphan_becomes_a_copy_of_the_next_source_and_goes_with_it() -> None:
    """What Samara made is never adopted: without its source it would stay for good, like an object of people."""
    world = a_world("b", gone="keep")
    settle(world)
    a_chain(world, "one")
    world.delete(SOURCE)
    settle(world)
    assert {ADOPTED, ORIGIN}.isdisjoint(world.objects[at("b", "x")].annotations)
    world.delete(at("a", "x"))
    settle(world)
    assert at("b", "x") not in world.objects


def test_an_adopted_object_that_had_to_be_recreated_is_deleted_with_its_source() -> None:
    world = a_world("a")
    world.put(at("a", "x"), secret("one"))
    settle(world)
    assert world.objects[at("a", "x")].annotations[ADOPTED] == "true"
    world.delete(SOURCE)
    world.put(SOURCE, secret("one", "kubernetes.io/tls"), annotations={TARGETS: "a"})
    settle(world)
    assert ADOPTED not in world.objects[at("a", "x")].annotations
    world.delete(SOURCE)
    settle(world)
    assert at("a", "x") not in world.objects
