"""A definition that is being deleted is no wish to delete what its objects made."""

from __future__ import annotations

import pytest
from tests.support import toys
from tests.support.settle import plan_of, settle
from tests.support.world import World, at, content, secret

from samara.core.metadata_keys import ACCEPT
from samara.core.model import SECRET, Key, Ref
from samara.core.plan import plan
from samara.core.policy import ClusterPolicy
from samara.core.queries import CrdExists, IsGone
from samara.core.writes import Delete, Plan, SetFinalizer, Write, WriteStatus
from samara.vocabularies import sync_to
from samara.vocabularies.resource_distribution import RESOURCE_DISTRIBUTION

RULES = ClusterPolicy()
FETCH = at("a", "x", toys.FETCH)
KEY = Key("fetch", FETCH)
ASKED = CrdExists(toys.FETCH)
COPIES = {at("a", "x"), at("b", "x")}


def a_world() -> World:
    """A custom resource with a guard, and its two copies."""
    world = World(toys.full_registry())
    for name in ("a", "b"):
        world.namespace(name, annotations={ACCEPT: "*"})
    world.outside["p"] = secret("fetched")
    world.put(FETCH, annotations={toys.PATH: "p", toys.INTO: "a,b"})
    settle(world)
    assert {ref for ref in world.objects if ref.kind == SECRET} == COPIES
    return world


def done(world: World) -> list[Write]:
    """What it takes until all is settled, but for status."""
    return [write for write in settle(world) if not isinstance(write, WriteStatus)]


def test_before_the_end_of_a_custom_resource_is_acted_on_its_definition_is_asked_for() -> None:
    world = a_world()
    world.delete(FETCH)
    assert plan(KEY, world, world.registry, RULES) == Plan(ready=False, reads=(ASKED,))


def test_the_slice_of_one_namespace_asks_too() -> None:
    world = a_world()
    world.delete(FETCH)
    assert plan(KEY.in_namespace("a"), world, world.registry, RULES) == Plan(ready=False, reads=(ASKED,))


def test_a_custom_resource_that_stays_asks_nobody() -> None:
    world = a_world()
    world.edit(FETCH, annotations={toys.PATH: "p", toys.INTO: "a"})
    assert [type(write) for write in plan(KEY, world, world.registry, RULES).writes] == [Delete]


def test_where_the_definition_stands_its_copies_go_and_then_its_guard() -> None:
    world = a_world()
    world.delete(FETCH)
    assert [type(write) for write in done(world)] == [Delete, Delete, SetFinalizer]
    assert FETCH not in world.objects


def test_where_the_definition_goes_the_guard_is_released_and_nothing_is_deleted() -> None:
    world = a_world()
    world.revoked.add(toys.FETCH)
    world.delete(FETCH)
    (write,) = done(world)
    assert isinstance(write, SetFinalizer)
    assert not write.add
    assert FETCH not in world.objects
    assert {ref for ref in world.objects if ref.kind == SECRET} == COPIES


def test_a_resource_that_goes_without_our_guard_takes_nothing_and_asks_nobody() -> None:
    world = a_world()
    world.edit(FETCH, finalizers=("somebody/else",))
    world.delete(FETCH)
    assert plan(KEY, world, world.registry, RULES) == Plan()


def test_what_has_left_nothing_behind_asks_nobody() -> None:
    world = a_world()
    gone = Key("resource-distribution", Ref(RESOURCE_DISTRIBUTION, "", "d"))
    assert plan(gone, world, world.registry, RULES) == Plan()


def test_an_annotated_object_has_no_definition_to_ask_for() -> None:
    world = a_world()
    world.put(at("a", "y"), secret(), annotations={sync_to.SYNC_TO: "cluster"})
    settle(world)
    world.delete(at("a", "y"))
    assert [type(write) for write in plan_of(Key("sync-to", at("a", "y")), world, RULES).writes] == [Delete]


@pytest.mark.parametrize("withdrawn", [False, True])
def test_what_names_a_resource_that_is_gone_goes_only_while_its_definition_stands(withdrawn: bool) -> None:
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
def test_fault_44_what_a_list_lacks_has_gone_only_where_the_server_says_so_when_it_is_asked(absent: bool) -> None:
    """A list that comes back empty by mistake deletes nothing."""
    kind, world = RESOURCE_DISTRIBUTION, a_world()
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "z"}, "stringData": {"key": "one"}}
    targets = {"includedNamespaces": {"list": [{"name": "b"}]}}
    source = Ref(kind, "", "d")
    world.put(source, content(spec={"resource": body, "targets": targets}), generation=1)
    settle(world)
    del world.objects[source]
    asked = plan(Key("resource-distribution", source), world, world.registry, RULES).reads
    assert asked == (CrdExists(kind), IsGone(source))
    world.values |= {CrdExists(kind): True, IsGone(source): absent}
    planned = plan(Key("resource-distribution", source), world, world.registry, RULES)
    assert [type(write) for write in planned.writes] == ([Delete] if absent else [])
