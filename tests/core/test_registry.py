"""The keys of an event, and the view of a slice."""

from __future__ import annotations

from dataclasses import replace

from tests.support import toys
from tests.support.world import World, at, secret

from samara.core.metadata_keys import ADOPTED
from samara.core.model import FIELD_MANAGER, NAMESPACE, Key, namespace_ref
from samara.core.names import parse_csv_names
from samara.core.view import NamespaceView
from samara.vocabularies.secret_copy import ORIGIN, TARGETS

SOURCE = at("admin", "x")
KEY = Key("secret-copy", SOURCE)


def a_world(targets: str = "") -> World:
    world = World(toys.registry())
    for name in ("admin", "a", "b"):
        world.namespace(name)
    world.put(SOURCE, secret(), annotations={TARGETS: targets})
    return world


def keys(world: World, ref: object) -> set[Key]:
    return {
        key for obj in world.objects.values() if obj.ref == ref for key in world.registry.keys_to_reconcile(obj, world)
    }


def test_an_event_of_a_source_plans_all_its_namespaces() -> None:
    assert keys(a_world(), SOURCE) == {KEY}


def test_a_copy_is_planned_as_the_slice_of_its_source() -> None:
    world = a_world()
    world.put(at("a", "x"), secret(), annotations={ORIGIN: "admin/x"})
    assert keys(world, at("a", "x")) == {KEY.in_namespace("a")}


def test_an_object_at_a_claimed_address_requeues_the_claiming_source() -> None:
    world = a_world()
    world.put(at("b", "x"), secret())
    assert keys(world, at("b", "x")) == {KEY.in_namespace("b")}


def test_an_unrelated_object_requeues_no_source() -> None:
    world = a_world()
    world.put(at("b", "other"), secret())
    assert keys(world, at("b", "other")) == set()


def test_a_namespace_requeues_the_slices_of_the_sources_that_select_it() -> None:
    inherited = {Key("inherit", namespace_ref("b"))}
    assert keys(a_world(""), namespace_ref("b")) == {KEY.in_namespace("b")} | inherited
    assert keys(a_world("b"), namespace_ref("b")) == {KEY.in_namespace("b")} | inherited
    assert keys(a_world("a"), namespace_ref("b")) == inherited


def test_a_copy_stays_ours_without_its_marks_but_an_adopted_object_may_be_taken_back() -> None:
    world = a_world()
    copy = world.put(at("a", "x"), secret(), FIELD_MANAGER, annotations={ORIGIN: "admin/x"})
    assert world.registry.is_copy(copy, world)
    adopted = replace(copy, annotations={ORIGIN: "admin/x", ADOPTED: "true"})
    assert not world.registry.is_copy(adopted, world)


def test_a_copy_of_a_deleted_source_still_leads_to_its_key() -> None:
    world = a_world()
    world.put(at("a", "x"), secret(), annotations={ORIGIN: "admin/x"})
    world.delete(SOURCE)
    assert keys(world, at("a", "x")) == {KEY.in_namespace("a")}


def test_a_slice_sees_one_namespace_and_every_object() -> None:
    world = a_world()
    for namespace in ("a", "b"):
        world.put(at(namespace, "x"), secret(), annotations={ORIGIN: "admin/x"})
    view = NamespaceView(world, "a")
    assert list(view.namespaces()) == ["a"]
    assert [obj.ref.name for obj in view.objects_of(NAMESPACE)] == ["a"]
    assert [copy.ref for copy in view.copies_of(KEY)] == [at("a", "x")]
    assert view.get(at("b", "x")) is not None
    assert list(view.sources("secret-copy")) == [SOURCE]
    assert list(view.claimants(at("b", "x"))) == [KEY]


def test_a_slice_of_an_absent_namespace_sees_it_only_in_a_list() -> None:
    view = NamespaceView(a_world(), "zz")
    assert list(view.namespaces()) == []
    assert list(view.namespaces(parse_csv_names("a,zz"))) == ["zz"]
    assert list(view.namespaces(parse_csv_names("a"))) == []


def test_a_key_prints_as_users_type_it() -> None:
    assert str(KEY) == "secret-copy/Secret/admin/x"
    assert str(Key("inherit", namespace_ref("a")).in_namespace("b")) == "inherit/Namespace/-/a"
    assert KEY.in_namespace("a").all_namespaces == KEY
