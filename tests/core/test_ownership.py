"""Ownership by owner reference, and which proofs each ownership accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.support.settle import plan_of, settle
from tests.support.toys import unaffected
from tests.support.world import World, at, secret

from samara.core.copy_counts import CopyCounts
from samara.core.desired import Adopt, Copy, Desired, Template
from samara.core.model import CONFIG_MAP, FIELD_MANAGER, SECRET, Key, Kind, Object, OwnerReference, Ref
from samara.core.ownership import ByMark, ByOwnerReference, Ownership
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.core.source_type import Addresses, CustomResource, SourceType
from samara.core.view import View
from samara.core.writes import Create, Delete, Plan, Update

MAKER = Kind("toys.dev", "v1", "Maker", "makers", namespaced=False)
SOURCE = Ref(MAKER, "", "m")
KEY = Key("maker", SOURCE)
MARK = "toys.dev/made-by"


def owner(uid: str) -> OwnerReference:
    return OwnerReference("toys.dev/v1", "Maker", "m", uid, True, True)


def maker(*namespaces: str) -> SourceType:
    def desired(source: Ref, view: View) -> Desired:
        live = view.get(source)
        if live is None:
            return Desired()
        template = Template(secret(), {}, {MARK: "m"}, adopt=Adopt.NEVER, owner=owner(live.uid))
        return Desired(tuple(Copy(at(namespace, "x"), template) for namespace in namespaces))

    return SourceType(
        "maker",
        (SECRET, MAKER),
        source=CustomResource(MAKER),
        ownership=ByOwnerReference(MAKER, frozenset({SECRET}), frozenset({MARK})),
        desired=desired,
        affected_by=unaffected,
        addresses=lambda source, view: Addresses(SECRET, "x"),
    )


def a_world(*namespaces: str) -> World:
    world = World(Registry((maker(*namespaces),)))
    world.namespace("a")
    world.put(SOURCE)
    return world


def planned(world: World) -> Plan:
    return plan_of(KEY, world, ClusterPolicy())


def put(world: World, uid: str, value: str = "one", by: str = FIELD_MANAGER, created: str = "2026") -> None:
    more = {"owner_references": (owner(uid),), "annotations": {MARK: "m"}, "created": created}
    world.put(at("a", "x"), secret(value), by, **more)


def test_a_copy_is_created_with_the_owner_reference() -> None:
    (write,) = planned(a_world("a")).writes
    assert isinstance(write, Create)
    assert write.copy.template.owner is not None


def test_an_object_that_names_the_source_by_uid_is_updated() -> None:
    world = a_world("a")
    put(world, world.objects[SOURCE].uid, "edited")
    (write,) = planned(world).writes
    assert isinstance(write, Update)


def test_a_copy_whose_owner_reference_differs_is_updated() -> None:
    """Without `blockOwnerDeletion` the source could vanish before its copies."""
    world = a_world("a")
    reference = owner(world.objects[SOURCE].uid)
    put(world, reference.uid)
    assert planned(world).writes == ()
    world.edit(at("a", "x"), owner_references=(reference._replace(block_owner_deletion=None),))
    (write,) = planned(world).writes
    assert isinstance(write, Update)


def test_an_identical_object_without_the_reference_is_a_conflict() -> None:
    world = a_world("a")
    world.put(at("a", "x"), secret(), annotations={MARK: "m"}, by="samara")
    assert [blocked_copy.reason for blocked_copy in planned(world).blocked] == ["conflict"]


@pytest.mark.parametrize("wanted", [("a",), ()])
def test_a_copy_of_an_earlier_source_of_the_same_name_is_deleted_after_a_delay(wanted: tuple[str, ...]) -> None:
    world = a_world(*wanted)
    put(world, "an earlier uid")
    (write,) = planned(world).writes
    assert isinstance(write, Delete)
    assert write.delayed


def test_a_copy_of_an_earlier_source_of_the_same_name_is_reported_as_a_conflict() -> None:
    world = a_world("a")
    put(world, "an earlier uid")
    counts = CopyCounts.of(planned(world))
    assert (counts.wanted, counts.in_sync, list(counts.by_reason())) == (1, 0, ["conflict"])


def test_a_new_source_of_the_same_name_replaces_the_copy_of_the_earlier_one() -> None:
    world = a_world("a")
    put(world, "an earlier uid", "old")
    settle(world)
    assert world.objects[at("a", "x")].owner_references == (owner(world.objects[SOURCE].uid),)


@pytest.mark.parametrize("wanted", [("a",), ()])
def test_an_object_of_another_field_manager_that_names_an_earlier_source_stays(wanted: tuple[str, ...]) -> None:
    world = a_world(*wanted)
    put(world, "an earlier uid", by="")
    result = planned(world)
    assert ([blocked_copy.reason for blocked_copy in result.blocked], result.writes) == (["conflict"] * len(wanted), ())


def test_a_copy_newer_than_its_source_is_not_taken_for_one_of_an_earlier_source() -> None:
    """Another replica has already seen the newer source and created the copy for it."""
    world = a_world("a")
    put(world, "a later uid", created="2027")
    result = planned(world)
    assert ([blocked_copy.reason for blocked_copy in result.blocked], result.writes) == (["conflict"], ())


def test_a_copy_newer_than_its_source_stays_even_if_it_is_not_wanted() -> None:
    world = a_world()
    put(world, "a later uid", created="2027")
    assert [(step.rule, step.outcome) for step in planned(world).steps] == [("newer-than-source", None)]


@pytest.mark.parametrize("mark", ["claimed", "proven", "remembered"])
def test_how_far_a_claim_is_trusted_depends_on_its_field_manager_and_the_ownership(mark: str) -> None:
    """Rows: the ownership. Columns: created by us, marked by another manager, marks removed by another manager."""
    beliefs = {
        "by mark": (BY_MARK, {"claimed": "yyn", "proven": "ynn", "remembered": "ynn"}),
        "by trusted mark": (replace(BY_MARK, trusted=True), {"claimed": "yyn", "proven": "yyy", "remembered": "yny"}),
        "by owner reference": (BY_OWNER, {"claimed": "yyn", "proven": "ynn", "remembered": "yny"}),
    }
    for name, (ownership, expected) in beliefs.items():
        answers = [BELIEFS[mark](ownership, obj, world) for obj, world in objects()]
        assert "".join("y" if answer else "n" for answer in answers) == expected[mark], name


def objects() -> list[tuple[Object, World]]:
    """A copy of ours, one of another field manager, and one of ours without its marks."""
    worlds = [a_world("a") for _ in range(3)]
    for world, by in zip(worlds, (FIELD_MANAGER, "", FIELD_MANAGER), strict=True):
        put(world, world.objects[SOURCE].uid, by=by)
    worlds[2].edit(at("a", "x"), annotations={}, owner_references=())
    return [(world.objects[at("a", "x")], world) for world in worlds]


BY_MARK = ByMark(frozenset({MARK}), lambda obj, view: SOURCE if MARK in obj.annotations else None)
BY_OWNER = maker().ownership
BELIEFS: dict[str, Callable[[Ownership, Object, World], bool]] = {
    "claimed": lambda ownership, obj, world: ownership.is_copy_of(obj, SOURCE, world.get(SOURCE), world),
    "proven": lambda ownership, obj, world: ownership.is_proven(obj),
    "remembered": lambda ownership, obj, world: ownership.is_remembered(obj),
}


def test_an_owner_reference_on_an_object_of_another_kind_names_no_source() -> None:
    world = a_world()
    live = world.put(at("a", "x", CONFIG_MAP), by=FIELD_MANAGER, owner_references=(owner("u"),))
    assert BY_OWNER.source_of(live, world) is None


def test_an_unwanted_copy_that_names_the_source_by_uid_is_deleted() -> None:
    world = a_world()
    put(world, world.objects[SOURCE].uid)
    (write,) = planned(world).writes
    assert isinstance(write, Delete)
    assert not write.delayed


def test_copies_of_a_deleted_source_are_deleted() -> None:
    world = a_world("a")
    put(world, world.objects[SOURCE].uid)
    world.delete(SOURCE)
    (write,) = planned(world).writes
    assert isinstance(write, Delete)


@pytest.mark.parametrize("gone", [False, True])
def test_an_owner_reference_of_another_field_manager_deletes_nothing(gone: bool) -> None:
    world = a_world()
    put(world, world.objects[SOURCE].uid, by="")
    if gone:
        world.delete(SOURCE)
    assert planned(world).writes == ()
