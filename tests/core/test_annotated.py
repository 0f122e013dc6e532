"""Rules of all vocabularies of annotated objects: targets, requeues, faults and admission."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.support.caches import a_plain_cache
from tests.support.samples import a_namespace, an_object
from tests.support.settle import follow, plan_of, settle
from tests.support.world import World, at, config_map, secret

from samara.core.admission import Operation, Request
from samara.core.annotated import AnnotatedObjects, CopyRequest
from samara.core.desired import Fault, Template
from samara.core.label_selectors import Requirement, Selector
from samara.core.model import CONFIG_MAP, FIELD_MANAGER, SECRET, Key, Object, Ref, namespace_ref
from samara.core.names import parse_csv_names
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.core.selectors import NO_NAMESPACES, NamespaceSelector
from samara.core.writes import Create, Update, Write

TO, MATCHING, FROM = "toys.dev/to", "toys.dev/matching", "toys.dev/from"
SOURCE = at("home", "x")
KEY = Key("toy", SOURCE)
RULES = ClusterPolicy()
MISTAKE = Fault("Invalid", "a mistake", TO)


def request(obj: Object) -> CopyRequest:
    """A list of names, `/a regular expression/` or `key=value`. A `?` at its end is a mistake."""
    text = obj.annotations[TO]
    faults = (MISTAKE,) if "?" in text else ()
    text = text.removesuffix("?")
    if "=" in text:
        key, _, value = text.partition("=")
        selector = Selector((Requirement(key, "In", frozenset({value})),))
        return CopyRequest(NamespaceSelector(selectors=(selector,)), faults)
    if text.startswith("/"):
        return CopyRequest(NamespaceSelector(patterns=(re.compile(text.strip("/")),)), faults)
    return CopyRequest(NamespaceSelector(parse_csv_names(text)) if text else NO_NAMESPACES, faults)


def source_of(obj: Object) -> Ref | None:
    namespace, _, name = obj.annotations.get(FROM, "").partition("/")
    return Ref(obj.ref.kind, namespace, name) if name == obj.ref.name and namespace != obj.ref.namespace else None


def template(obj: Object) -> Template:
    return Template(obj.content, annotations={FROM: obj.ref.path})


TOY = AnnotatedObjects(
    "toy",
    (SECRET, CONFIG_MAP),
    annotations=frozenset({TO, MATCHING}),
    marks=frozenset({FROM}),
    is_source=lambda obj: TO in obj.annotations and source_of(obj) is None,
    source_of=source_of,
    request=request,
    template=template,
)


def a_world(to: str = "a,b", vocabulary: AnnotatedObjects = TOY, **changes: Any) -> World:
    world = World(Registry((replace(vocabulary, **changes).source_type(),)))
    for name, team in (("home", "red"), ("a", "red"), ("b", "blue"), ("c", "red")):
        world.namespace(name, {"team": team})
    world.put(SOURCE, secret(), annotations={TO: to})
    return world


def ask(world: World, to: str) -> None:
    world.edit(SOURCE, annotations={TO: to})


def filled(world: World) -> set[str]:
    settle(world, RULES)
    return {ref.namespace for ref in world.objects if ref.kind == SECRET and ref != SOURCE}


def kinds_of(writes: list[Write]) -> list[type]:
    return [type(write) for write in writes]


# Copies


@pytest.mark.parametrize(
    ("to", "namespaces"),
    [
        ("a,b", {"a", "b"}),
        ("a,zz", {"a"}),
        ("/.*/", {"a", "b", "c"}),
        ("team=red", {"a", "c"}),
        ("home,a", {"a"}),
        ("", set()),
    ],
)
def test_an_object_is_copied_to_the_namespaces_of_its_annotation_and_never_onto_itself(
    to: str, namespaces: set[str]
) -> None:
    world = a_world(to)
    assert filled(world) == namespaces
    assert all(world.objects[at(name, "x")].content == secret() for name in namespaces)
    assert SOURCE not in [copy.ref for copy in world.registry["toy"].desired(SOURCE, world).copies]


def test_a_copy_is_by_name_only_if_the_selector_lists_its_namespace() -> None:
    for to, by_name in (("a", True), ("/a/", False), ("team=red", False)):
        world = a_world(to)
        copies = world.registry["toy"].desired(SOURCE, world).copies
        assert {copy.by_name for copy in copies} == {by_name}


def test_all_copies_share_one_template() -> None:
    world = a_world("/.*/")
    copies = world.registry["toy"].desired(SOURCE, world).copies
    assert len(copies) == 3
    assert {id(copy.template) for copy in copies} == {id(copies[0].template)}


def test_every_served_kind_is_copied_as_that_kind_and_others_are_not_sources() -> None:
    world = a_world("a", kinds=(SECRET,))
    world.put(at("home", "x", CONFIG_MAP), config_map(), annotations={TO: "a"})
    settle(world, RULES)
    assert at("a", "x", CONFIG_MAP) not in world.objects
    world.registry = Registry((TOY.source_type(),))
    world.fetch([at("home", "x", CONFIG_MAP)])
    settle(world, RULES)
    assert world.objects[at("a", "x", CONFIG_MAP)].content == config_map()


def test_a_copy_is_not_a_source_and_is_recognised_by_its_mark() -> None:
    world = a_world("a")
    settle(world, RULES)
    copy = world.objects[at("a", "x")]
    assert world.registry.owner(copy, world) == KEY
    world.edit(copy.ref, annotations={**copy.annotations, TO: "b"})
    assert world.sources("toy") == [SOURCE]


def test_a_field_manager_in_the_settings_counts_as_samara() -> None:
    for managers, left in ((frozenset[str](), {"a"}), (frozenset({"original"}), set[str]())):
        world = a_world("", managers=managers)
        world.put(at("a", "x"), secret(), "original", annotations={FROM: "home/x"})
        assert world.registry["toy"].ownership.managers == {FIELD_MANAGER, *managers}
        assert filled(world) == left


# Wake-ups


@pytest.mark.parametrize(
    ("to", "woken"), [("new", True), ("a", False), ("/n.*/", True), ("/a/", False), ("team=red", True), ("x=y", False)]
)
def test_a_new_namespace_requeues_the_sources_that_select_it_and_gets_their_copies(to: str, woken: bool) -> None:
    world = a_world(to)
    settle(world, RULES)
    new = world.namespace("new", {"team": "red"})
    assert list(world.registry.keys_to_reconcile(new, world)) == ([KEY.in_namespace("new")] if woken else [])
    world.delete(new.ref)
    follow(world, RULES, lambda world: world.namespace("new", {"team": "red"}))
    assert (at("new", "x") in world.objects) is woken


def test_changed_labels_of_a_namespace_requeue_the_sources_that_selected_it_before() -> None:
    world = a_world("team=red")
    settle(world, RULES)
    follow(world, RULES, lambda world: world.edit(namespace_ref("a"), labels={"team": "blue"}))
    assert at("a", "x") not in world.objects
    follow(world, RULES, lambda world: world.edit(namespace_ref("b"), labels={"team": "red"}))
    assert at("b", "x") in world.objects


def test_a_recreated_namespace_gets_its_copies_again() -> None:
    world = a_world("a,b")
    settle(world, RULES)
    world.delete(namespace_ref("a"))
    assert filled(world) == {"b"}
    follow(world, RULES, lambda world: world.namespace("a"))
    assert filled(world) == {"a", "b"}


def test_the_namespace_of_a_source_does_not_requeue_it() -> None:
    world = a_world("home,a")
    assert list(world.registry["toy"].affected_by(world.objects[namespace_ref("home")], world)) == []


def test_an_object_that_is_not_a_namespace_requeues_no_source() -> None:
    world = a_world()
    assert list(world.registry["toy"].affected_by(world.objects[SOURCE], world)) == []


def test_a_namespace_that_a_source_does_not_list_parses_no_annotation() -> None:
    parsed: list[str] = []

    def counted(obj: Object) -> CopyRequest:
        parsed.append(obj.ref.name)
        return request(obj)

    registry = Registry((replace(TOY, request=counted).source_type(),))
    cache = a_plain_cache(registry)
    cache.put(an_object(SOURCE, annotations={TO: "a"}))
    parsed.clear()
    assert list(registry["toy"].affected_by(a_namespace("c"), cache)) == []
    assert parsed == []
    assert list(registry["toy"].affected_by(a_namespace("a"), cache)) == [SOURCE]


@pytest.mark.parametrize(
    ("to", "names", "elsewhere"), [("a,b", {"a", "b"}, False), ("/.*/", set(), True), ("team=red", set(), True)]
)
def test_the_names_that_a_source_lists_are_those_of_its_selector(to: str, names: set[str], elsewhere: bool) -> None:
    listed = TOY.listed(Object(SOURCE, "u", 1, annotations={TO: to, MATCHING: ""}))
    assert (set(listed.names), listed.elsewhere, listed.field) == (names, elsewhere, TO)
    assert TOY.listed(Object(SOURCE, "u", 1, annotations={TO: "a,B,c"})).total == 3
    assert TOY.listed(Object(SOURCE, "u", 1)).total == 0


def test_an_excluded_namespace_gets_no_copy_not_even_by_name() -> None:
    assert filled(a_world("a,b", excluded=("b*",))) == {"a"}
    assert filled(a_world("/.*/", excluded=("a", "b"))) == {"c"}


def test_an_excluded_namespace_requeues_no_source() -> None:
    world = a_world("a,b", excluded=("b",))
    assert list(world.registry["toy"].affected_by(world.objects[namespace_ref("b")], world)) == []
    assert list(world.registry["toy"].affected_by(world.objects[namespace_ref("a")], world)) == [SOURCE]


def test_an_object_that_requests_its_own_content_is_a_conflict_with_its_reason() -> None:
    world = a_world("a,b", pull_keys=frozenset({"toy/pull"}))
    world.put(at("a", "x"), secret("other"), annotations={"toy/pull": "mine"}, by=FIELD_MANAGER)
    settle(world, RULES)
    assert world.objects[at("a", "x")].content == secret("other")
    assert world.objects[at("b", "x")].content == secret()
    assert [(blocked.ref, blocked.reason, blocked.message) for blocked in plan_of(KEY, world, RULES).blocked] == [
        (at("a", "x"), "conflict", "the object there has toy/pull: it requests its own content")
    ]


# Mistakes, and the end of a source


def test_an_invalid_value_deletes_nothing_and_its_valid_part_is_served() -> None:
    world = a_world("a,b")
    settle(world, RULES)
    ask(world, "b,c?")
    assert plan_of(KEY, world, RULES).faults == (MISTAKE,)
    assert kinds_of(settle(world, RULES)) == [Create]
    assert filled(world) == {"a", "b", "c"}
    ask(world, "b,c")
    assert filled(world) == {"b", "c"}


def test_an_invalid_value_does_not_stop_updates_of_copies() -> None:
    world = a_world("a")
    settle(world, RULES)
    world.edit(SOURCE, content=secret("new"), annotations={TO: "a?"})
    assert kinds_of(settle(world, RULES)) == [Update]


@pytest.mark.parametrize("end", ["deleted", "terminating", "cleared"])
def test_copies_are_deleted_with_their_source(end: str) -> None:
    world = a_world("a,b")
    settle(world, RULES)
    if end == "cleared":
        world.edit(SOURCE, annotations={})
    else:
        world.edit(SOURCE, finalizers=("somebody/else",) if end == "terminating" else (), deleting=True)
    assert filled(world) == set()


# Admission


def refusals(new: Mapping[str, str] | None, old: Mapping[str, str] | None = None, ref: Ref = SOURCE) -> tuple[str, ...]:
    def obj(annotations: Mapping[str, str] | None) -> Object | None:
        return None if annotations is None else Object(ref, "u", 1, annotations=annotations)

    world = a_world()
    admission = world.registry["toy"].admission
    assert admission is not None
    operation: Operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
    return admission.validate(Request(operation, obj(new), obj(old)), world)


def test_an_invalid_value_is_refused_with_the_message_of_its_fault() -> None:
    assert refusals({TO: "a?"}) == (MISTAKE.message,)
    assert refusals({TO: "a?"}, {TO: "a"}) == (MISTAKE.message,)
    assert refusals({TO: "a?", MATCHING: "x"}, {TO: "a?"}) == (MISTAKE.message,)


def test_an_invalid_value_from_before_refuses_no_other_change_and_no_deletion() -> None:
    assert refusals({TO: "a?", "note": "x"}, {TO: "a?"}) == ()
    assert refusals(None, {TO: "a?"}) == ()
    assert refusals({}, {TO: "a?"}) == ()


def test_an_object_that_is_not_a_source_is_not_validated() -> None:
    assert refusals({TO: "a?", FROM: "other/x"}) == ()
    assert refusals({TO: "a?"}, ref=namespace_ref("home")) == ()


def test_admission_covers_all_kinds() -> None:
    admission = TOY.source_type().admission
    assert admission is not None
    assert admission.kinds == (SECRET, CONFIG_MAP)


def test_the_source_type_has_the_values_of_its_vocabulary() -> None:
    made = TOY.source_type()
    assert (made.name, made.kinds, made.resource, made.finalizer) == ("toy", (SECRET, CONFIG_MAP), None, "")
    assert made.source.metadata_keys == {TO, MATCHING}
    assert made.ownership.marks == {FROM}
    assert made.per_namespace
