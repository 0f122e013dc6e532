"""A definition that is being deleted deletes no copies of its objects."""

from __future__ import annotations

import pytest
from tests.support import toys
from tests.support.settle import plan_of, settle
from tests.support.toys import a_sync_to
from tests.support.world import World, at, content, path, secret

from samara.core.metadata_keys import ACCEPT
from samara.core.model import SECRET, Key, Ref
from samara.core.plan import plan
from samara.core.policy import ClusterPolicy
from samara.core.queries import CrdExists, IsGone
from samara.core.registry import Registry
from samara.core.writes import Delete, Plan, SetFinalizer, Update, Write, WriteStatus
from samara.vocabularies import sync_to
from samara.vocabularies.resource_distribution import RESOURCE_DISTRIBUTION

RULES = ClusterPolicy()
FETCH = at("a", "x", toys.FETCH)
KEY = Key("fetch", FETCH)
DEFINITION_QUERY = CrdExists(toys.FETCH)
COPIES = {at("a", "x"), at("b", "x")}


def a_world() -> World:
    """A custom resource with a guard, and its two copies."""
    world = World(toys.full_registry())
    for name in ("a", "b"):
        world.namespace(name, annotations={ACCEPT: "*"})
    world.outside[path("p")] = secret("fetched")
    world.put(FETCH, annotations={toys.PATH: "p", toys.INTO: "a,b"})
    settle(world)
    assert {ref for ref in world.objects if ref.kind == SECRET} == COPIES
    return world


def done(world: World) -> list[Write]:
    """The writes until the world is settled, without status."""
    return [write for write in settle(world) if not isinstance(write, WriteStatus)]


def test_the_definition_is_read_before_a_deleted_custom_resource_has_an_effect() -> None:
    world = a_world()
    world.delete(FETCH)
    assert plan(KEY, world, world.registry, RULES) == Plan(ready=False, reads=(DEFINITION_QUERY,))


def test_a_plan_of_one_namespace_reads_the_definition_too() -> None:
    world = a_world()
    world.delete(FETCH)
    assert plan(KEY.in_namespace("a"), world, world.registry, RULES) == Plan(ready=False, reads=(DEFINITION_QUERY,))


def test_an_existing_custom_resource_needs_no_read_of_its_definition() -> None:
    world = a_world()
    world.edit(FETCH, annotations={toys.PATH: "p", toys.INTO: "a"})
    assert [type(write) for write in plan(KEY, world, world.registry, RULES).writes] == [Delete]


def test_with_its_definition_the_copies_are_deleted_and_then_the_finalizer_is_removed() -> None:
    world = a_world()
    world.delete(FETCH)
    assert [type(write) for write in done(world)] == [Delete, Delete, SetFinalizer]
    assert FETCH not in world.objects


def test_a_deleted_definition_removes_the_finalizer_and_deletes_no_copies() -> None:
    world = a_world()
    world.revoked.add(toys.FETCH)
    world.delete(FETCH)
    (write,) = done(world)
    assert isinstance(write, SetFinalizer)
    assert not write.add
    assert FETCH not in world.objects
    assert {ref for ref in world.objects if ref.kind == SECRET} == COPIES


def test_a_resource_deleted_without_our_finalizer_deletes_and_reads_nothing() -> None:
    world = a_world()
    world.edit(FETCH, finalizers=("somebody/else",))
    world.delete(FETCH)
    assert plan(KEY, world, world.registry, RULES) == Plan()


def test_a_deleted_resource_without_copies_reads_nothing() -> None:
    world = a_world()
    gone = Key("resource-distribution", Ref(RESOURCE_DISTRIBUTION, "", "d"))
    assert plan(gone, world, world.registry, RULES) == Plan()


def test_an_annotated_object_has_no_definition_to_read() -> None:
    world = a_world()
    world.put(at("a", "y"), secret(), annotations={sync_to.SYNC_TO: "cluster"})
    settle(world)
    world.delete(at("a", "y"))
    assert [type(write) for write in plan_of(Key("sync-to", at("a", "y")), world, RULES).writes] == [Delete]


@pytest.mark.parametrize("withdrawn", [False, True])
def test_copies_of_a_deleted_resource_are_deleted_only_while_its_definition_exists(withdrawn: bool) -> None:
    kind = RESOURCE_DISTRIBUTION
    world = a_world()
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "z"}, "stringData": {"key": "one"}}
    targets = {"includedNamespaces": {"list": [{"name": "b"}]}}
    world.put(Ref(kind, "", "d"), content(spec={"resource": body, "targets": targets}), generation=1)
    settle(world)
    world.revoked |= {kind} if withdrawn else set()
    world.delete(Ref(kind, "", "d"))
    settle(world)
    assert (at("b", "z") in world.objects) == withdrawn


@pytest.mark.parametrize("absent", [False, True])
def test_fault_44_a_source_missing_from_a_list_counts_as_deleted_only_if_a_read_confirms_it(absent: bool) -> None:
    """A list that is empty by mistake deletes nothing."""
    kind, world = RESOURCE_DISTRIBUTION, a_world()
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "z"}, "stringData": {"key": "one"}}
    targets = {"includedNamespaces": {"list": [{"name": "b"}]}}
    source = Ref(kind, "", "d")
    world.put(source, content(spec={"resource": body, "targets": targets}), generation=1)
    settle(world)
    del world.objects[source]
    reads = plan(Key("resource-distribution", source), world, world.registry, RULES).reads
    assert reads == (CrdExists(kind), IsGone(source))
    world.values |= {CrdExists(kind): True, IsGone(source): absent}
    planned = plan(Key("resource-distribution", source), world, world.registry, RULES)
    assert [type(write) for write in planned.writes] == ([Delete] if absent else [])


def with_a_rival(world: World, gone: bool = False) -> Key:
    """A source of sync-to that wants the Secret `b/x` of the custom resource, which is being deleted or is gone."""
    rival = world.put(at("c", "x"), secret("synced"), annotations={sync_to.SYNC_TO: "cluster"})
    if gone:
        del world.objects[FETCH]
    else:
        world.delete(FETCH)
    return Key("sync-to", rival.ref)


@pytest.mark.parametrize("gone", [False, True], ids=["deleting", "gone"])
def test_the_definition_is_read_before_another_source_takes_a_copy_of_a_deleted_custom_resource(gone: bool) -> None:
    world = a_world()
    key = with_a_rival(world, gone).in_namespace("b")
    planned = plan(key, world, world.registry, RULES)
    assert planned.writes == ()
    assert planned.queries == ((DEFINITION_QUERY, IsGone(FETCH)) if gone else (DEFINITION_QUERY,))
    world.values |= {DEFINITION_QUERY: True, IsGone(FETCH): True}
    assert [type(write) for write in plan(key, world, world.registry, RULES).writes] == [Update]


@pytest.mark.parametrize("gone", [False, True], ids=["deleting", "gone"])
def test_a_deleted_definition_hands_no_copy_to_another_source(gone: bool) -> None:
    world = a_world()
    world.revoked.add(toys.FETCH)
    key = with_a_rival(world, gone)
    before = {ref: world.objects[ref] for ref in COPIES}
    settle(world)
    assert {ref: world.objects[ref] for ref in COPIES} == before
    (blocked,) = [blocked for blocked in plan_of(key, world, RULES).blocked if blocked.ref == at("b", "x")]
    assert (blocked.reason, str(KEY) in blocked.message) == ("conflict", True)


def test_a_discreet_message_about_a_deleted_definition_names_no_source_of_another_namespace() -> None:
    world = a_world()
    world.registry = Registry((world.registry["fetch"], a_sync_to(is_discreet=True)))
    world.revoked.add(toys.FETCH)
    key = with_a_rival(world)
    settle(world)
    (blocked,) = [blocked for blocked in plan_of(key, world, RULES).blocked if blocked.ref == at("b", "x")]
    assert blocked.message == "the object there was made for a source of another namespace, whose CRD is being deleted"


def test_a_custom_resource_that_only_a_list_missed_keeps_its_copies() -> None:
    world = a_world()
    key = with_a_rival(world, gone=True)
    world.values |= {DEFINITION_QUERY: True, IsGone(FETCH): False}
    assert [write.ref for write in plan(key.in_namespace("b"), world, world.registry, RULES).writes] == []


def test_a_forged_mark_of_a_custom_resource_that_never_was_reads_nothing() -> None:
    world = a_world()
    world.delete(FETCH)
    settle(world)
    world.put(at("b", "x"), secret(), annotations={toys.FETCHED: "nobody"})
    rival = world.put(at("c", "x"), secret("synced"), annotations={sync_to.SYNC_TO: "cluster"})
    assert plan(Key("sync-to", rival.ref, "b"), world, world.registry, RULES).queries == ()
