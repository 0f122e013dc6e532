"""Where an owner reference is the proof, nothing else makes an object ours."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.settle import settle
from tests.support.world import World, at, secret

from samara.core.allow import Rules
from samara.core.model import MANAGER, SECRET, Key, Kind, Object, Owner, Ref
from samara.core.plan import plan
from samara.core.table import Table
from samara.core.tally import Tally
from samara.core.view import View
from samara.core.want import Adopt, Copy, Dialect, Places, Want
from samara.core.write import Create, Delete, Plan, Update

MAKER = Kind("toys.dev", "v1", "Maker", "makers", namespaced=False)
SOURCE = Ref(MAKER, "", "m")
KEY = Key("maker", SOURCE)
MARK = "toys.dev/made-by"


def owner(uid: str) -> Owner:
    return Owner("toys.dev/v1", "Maker", "m", uid, True, True)


def maker(*namespaces: str) -> Dialect:
    def origin(obj: Object, view: View) -> Ref | None:
        return SOURCE if any(each.kind == "Maker" for each in obj.owners) else None

    def want(source: Ref, view: View) -> Want:
        have = view.get(source)
        if have is None:
            return Want()
        made = [Copy(at(each, "x"), secret(), {}, {MARK: "m"}, adopt=Adopt.NEVER) for each in namespaces]
        return Want(tuple(replace(copy, owner=owner(have.uid)) for copy in made))

    return Dialect(
        "maker",
        (SECRET, MAKER),
        lambda obj, view: obj.ref.kind == MAKER,
        origin,
        lambda source, view: Places(SECRET, "x"),
        want,
        frozenset({MARK}),
        frozenset(),
        by_owner=True,
    )


def a_world(*namespaces: str) -> World:
    world = World(Table((maker(*namespaces),)))
    world.namespace("a")
    world.put(SOURCE)
    return world


def planned(world: World) -> Plan:
    found = plan(KEY, world, world.table, Rules())
    world.look(look.ref for look in found.looks)
    return plan(KEY, world, world.table, Rules())


def put(world: World, uid: str, value: str = "one", by: str = MANAGER, created: str = "2026") -> None:
    more = {"owners": (owner(uid),), "annotations": {MARK: "m"}, "created": created}
    world.put(at("a", "x"), secret(value), by, **more)


def test_a_copy_is_made_with_the_owner_reference() -> None:
    (write,) = planned(a_world("a")).writes
    assert isinstance(write, Create)
    assert write.copy.owner is not None


def test_an_object_that_names_the_source_by_uid_is_put_right() -> None:
    world = a_world("a")
    put(world, world.objects[SOURCE].uid, "edited")
    (write,) = planned(world).writes
    assert isinstance(write, Update)


def test_an_identical_object_without_the_reference_is_a_conflict() -> None:
    world = a_world("a")
    world.put(at("a", "x"), secret(), annotations={MARK: "m"}, by="samara")
    assert [each.reason for each in planned(world).blocked] == ["conflict"]


@pytest.mark.parametrize("wanted", [("a",), ()])
def test_what_we_made_for_an_earlier_source_of_the_same_name_goes_late(wanted: tuple[str, ...]) -> None:
    world = a_world(*wanted)
    put(world, "an earlier uid")
    (write,) = planned(world).writes
    assert isinstance(write, Delete)
    assert write.late


def test_until_then_it_is_told_as_a_conflict() -> None:
    world = a_world("a")
    put(world, "an earlier uid")
    found = Tally.of(planned(world))
    assert (found.wanted, found.right, list(found.by_reason())) == (1, 0, ["conflict"])


def test_and_then_the_new_source_has_its_place() -> None:
    world = a_world("a")
    put(world, "an earlier uid", "old")
    settle(world)
    assert world.objects[at("a", "x")].owners == (owner(world.objects[SOURCE].uid),)


@pytest.mark.parametrize("wanted", [("a",), ()])
def test_what_somebody_else_made_in_the_name_of_an_earlier_source_stays(wanted: tuple[str, ...]) -> None:
    world = a_world(*wanted)
    put(world, "an earlier uid", by="")
    found = planned(world)
    assert ([each.reason for each in found.blocked], found.writes) == (["conflict"] * len(wanted), ())


def test_what_is_younger_than_its_source_was_not_made_for_an_earlier_one() -> None:
    """Somebody has seen a newer source already, and made it for that one."""
    world = a_world("a")
    put(world, "a later uid", created="2027")
    found = planned(world)
    assert ([each.reason for each in found.blocked], found.writes) == (["conflict"], ())


def test_what_is_no_longer_wanted_goes_if_it_names_the_source_by_uid() -> None:
    world = a_world()
    put(world, world.objects[SOURCE].uid)
    (write,) = planned(world).writes
    assert isinstance(write, Delete)
    assert not write.late


def test_what_a_source_that_is_gone_has_made_goes() -> None:
    world = a_world("a")
    put(world, world.objects[SOURCE].uid)
    world.delete(SOURCE)
    (write,) = planned(world).writes
    assert isinstance(write, Delete)


@pytest.mark.parametrize("gone", [False, True])
def test_a_reference_that_somebody_else_wrote_lets_nothing_go(gone: bool) -> None:
    world = a_world()
    put(world, world.objects[SOURCE].uid, by="")
    if gone:
        world.delete(SOURCE)
    assert planned(world).writes == ()
