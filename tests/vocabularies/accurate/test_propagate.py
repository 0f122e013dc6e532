"""Propagation along namespace trees; the numbers are the sections and rows of the specification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.support.server import perform
from tests.support.settle import follow, plan_of, settle
from tests.support.world import World, at, config_map, content, secret
from tests.vocabularies.accurate.forest import (
    RULES,
    a_copy,
    a_world,
    blocked,
    chain,
    faults,
    instance,
    root,
    set_mode,
    set_roles,
    settled,
    source,
    sub,
    template,
    values,
)

from samara.core.desired import Adopt, Fault
from samara.core.kinds import ROLE_BINDING
from samara.core.metadata_keys import ADOPTED, PAUSED, RELEASED
from samara.core.model import CONFIG_MAP, FIELD_MANAGER, Key, Object, OwnerReference, Ref, namespace_ref
from samara.core.plan import plan
from samara.core.policy import ClusterPolicy
from samara.core.queries import UNREAD, OwnerAnnotation, Rejected
from samara.core.writes import Create, Delete, Recreate, Release, Update, Write
from samara.vocabularies.accurate.labels import (
    CREATED_BY,
    FROM,
    GENERATED,
    PARENT,
    PROPAGATE,
    PROPAGATE_GENERATED,
    TEMPLATE,
)
from samara.vocabularies.accurate.propagate import PROPAGATION

DEEP = ("r", "a", "b", "c", "d", "e", "f")
TOP = at("r", "x")
OWN = OwnerReference("apps/v1", "Deployment", "d", "u-d", controller=True)


def grown(mode: str = "update", names: tuple[str, ...] = ("r", "a", "b"), **terms: Adopt) -> World:
    """A chain of namespaces with a source at the top, settled."""
    world = a_world(**terms)
    chain(world, *names)
    source(world, TOP, mode)
    settled(world)
    return world


def x(world: World, name: str) -> Object:
    return world.objects[at(name, "x")]


def key(name: str) -> Key:
    return Key(PROPAGATION, at(name, "x"))


def removed(writes: list[Write]) -> list[Ref]:
    return [write.ref for write in writes if isinstance(write, Delete | Release)]


def follow_events(world: World, act: Callable[[World], object]) -> None:
    """Makes a change and the writes that its events cause. Nothing may be left to write then."""
    follow(world, RULES, act)
    assert settled(world) == [], "the events of the act must cause every write"


@pytest.mark.parametrize("mode", ["", "Update", "creat", "true"])
def test_1_2_any_other_mode_is_ignored(mode: str) -> None:
    world = a_world()
    chain(world, "r", "a")
    source(world, TOP, mode)
    assert {type(write).__name__ for write in settled(world)} == {"Apply"}


@pytest.mark.parametrize("mode", ["create", "update"])
def test_1_2_a_copy_carries_its_mode_and_the_name_of_the_direct_parent(mode: str) -> None:
    world = grown(mode)
    assert x(world, "a").annotations == {PROPAGATE: mode, FROM: "r"}
    assert x(world, "b").annotations == {PROPAGATE: mode, FROM: "a"}
    assert x(world, "b").labels == {CREATED_BY: "accurate"}


def test_1_2_an_empty_from_counts_as_absent() -> None:
    world = a_world()
    chain(world, "r", "a")
    source(world, at("a", "x"), "update", **{FROM: ""})
    sub(world, "b", "a")
    settled(world)
    assert values(world) == {"a": "one", "b": "one"}


def test_1_2_an_object_with_an_empty_from_is_no_copy_even_below_a_source_of_its_name() -> None:
    world = a_world()
    chain(world, "r", "a")
    source(world, TOP, "update")
    source(world, at("a", "x"), "update", "theirs", **{FROM: ""})
    sub(world, "b", "a")
    settled(world)
    assert values(world) == {"r": "one", "a": "theirs", "b": "theirs"}


@pytest.mark.parametrize("mode", ["create", "update"])
def test_row_1_a_false_from_on_an_object_of_a_team_does_not_stop_its_propagation(mode: str) -> None:
    world = a_world()
    chain(world, "r", "a")
    source(world, TOP, "update")
    source(world, at("a", "x"), mode, "theirs", **{FROM: "elsewhere"})
    sub(world, "b", "a")
    settled(world)
    assert values(world) == {"r": "one", "a": "theirs", "b": "theirs"}


def test_row_5_removing_propagate_from_an_object_of_a_team_deletes_its_copies_even_below_a_source() -> None:
    world = a_world()
    chain(world, "r", "a", "b")
    source(world, at("a", "x"), "update", "theirs", **{FROM: "elsewhere"})
    settled(world)
    source(world, TOP, "update")
    settled(world)
    assert values(world) == {"r": "one", "a": "theirs", "b": "theirs"}
    follow_events(world, lambda world: world.edit(at("a", "x"), annotations={FROM: "elsewhere"}))
    assert values(world) == {"r": "one", "a": "theirs"}


def test_4_an_instance_gets_the_objects_of_its_template() -> None:
    world = a_world()
    template(world, "t"), instance(world, "i", "t")
    source(world, at("t", "x"), "update"), source(world, at("t", "y"), "create")
    settled(world)
    assert x(world, "i").annotations[FROM] == "t"
    assert at("i", "y") in world.objects


def test_4_a_sub_namespace_with_a_template_label_gets_nothing_from_the_template() -> None:
    world = a_world()
    root(world), template(world, "t"), world.namespace("a", {PARENT: "r", TEMPLATE: "t"})
    source(world, at("t", "x"), "update")
    settled(world)
    assert values(world) == {"t": "one"}


def test_4_templates_of_templates_pass_objects_on() -> None:
    world = a_world()
    template(world, "t1"), template(world, "t2", {TEMPLATE: "t1"}), instance(world, "i", "t2")
    source(world, at("t1", "x"), "update")
    settled(world)
    assert [x(world, name).annotations[FROM] for name in ("t2", "i")] == ["t1", "t2"]


def test_4_a_root_that_is_an_instance_receives_objects_and_passes_them_on() -> None:
    world = a_world()
    template(world, "t"), root(world, "r", {TEMPLATE: "t"}), sub(world, "a", "r")
    source(world, at("t", "x"), "update")
    settled(world)
    assert [x(world, name).annotations[FROM] for name in ("r", "a")] == ["t", "r"]


@pytest.mark.parametrize("mode", ["create", "update"])
def test_4_2_a_namespace_that_joins_gets_its_copies(mode: str) -> None:
    world = grown(mode, ("r", "a"))
    world.namespace("new")
    follow_events(world, lambda world: set_roles(world, "new", parent="a"))
    assert values(world) == {"r": "one", "a": "one", "new": "one"}


def test_4_2_a_chain_six_deep_settles_by_one_write_per_namespace() -> None:
    world = a_world()
    chain(world, *DEEP)
    settled(world)
    source(world, TOP, "update")
    assert [write.ref.namespace for write in settled(world)] == list(DEEP[1:])
    assert values(world) == dict.fromkeys(DEEP, "one")


@pytest.mark.parametrize("mode", ["create", "update"])
def test_4_2_in_a_loop_nothing_is_written_and_nothing_deleted(mode: str) -> None:
    world = a_world()
    sub(world, "a", "b"), sub(world, "b", "a"), sub(world, "c", "b")
    source(world, at("a", "x"), mode)
    a_copy(world, at("c", "x"), "b", "update"), a_copy(world, at("b", "y"), "a", "update")
    assert settled(world) == []
    assert len(faults(world)) == 3


def test_4_2_a_source_deleted_in_a_loop_takes_no_copy_with_it() -> None:
    world = a_world()
    sub(world, "a", "b"), sub(world, "b", "a")
    source(world, at("a", "x"), "update"), a_copy(world, at("b", "x"), "a", "update")
    world.delete(at("a", "x"))
    assert settled(world) == []
    source(world, at("a", "x"), "never")
    assert settled(world) == []


def test_4_2_objects_are_propagated_again_when_a_loop_is_broken() -> None:
    world = a_world()
    sub(world, "a", "c"), sub(world, "b", "a"), sub(world, "c", "b")
    source(world, at("b", "x"), "update"), source(world, at("a", "y"), "update")
    assert settled(world) == []
    follow_events(world, lambda world: set_roles(world, "a", type="root"))
    assert values(world) == {"b": "one", "c": "one"}
    assert values(world, "y") == {"a": "one", "b": "one", "c": "one"}


def test_4_2_a_source_created_in_a_loop_is_propagated_when_the_loop_is_broken() -> None:
    """The labels are in sync, so that only the end of the loop reconciles the source."""
    world = a_world()
    chain(world, "a", "b", "c")
    settled(world)
    set_roles(world, "a", parent="c")
    source(world, at("b", "x"), "update")
    assert settled(world) == []
    follow_events(world, lambda world: set_roles(world, "a", type="root"))
    assert values(world) == {"b": "one", "c": "one"}


@pytest.mark.parametrize(("mode", "stays"), [("create", True), ("update", False)])
@pytest.mark.parametrize("becomes", [{}, {"type": "root"}, {"parent": ""}])
def test_4_2_a_cut_removes_update_copies_and_keeps_create_copies(
    mode: str, stays: bool, becomes: dict[str, str]
) -> None:
    world = grown(mode)
    follow_events(world, lambda world: set_roles(world, "a", **becomes))
    assert values(world) == ({"r": "one", "a": "one", "b": "one"} if stays else {"r": "one"})


@pytest.mark.parametrize(("mode", "stays"), [("create", True), ("update", False)])
def test_4_2_unsetting_a_template_removes_update_copies_and_keeps_create_copies(mode: str, stays: bool) -> None:
    world = a_world()
    template(world, "t"), instance(world, "i", "t")
    source(world, at("t", "x"), mode)
    settled(world)
    follow_events(world, lambda world: set_roles(world, "i"))
    assert ("i" in values(world)) == stays


def test_4_2_a_namespace_that_was_cut_still_propagates_its_create_copies() -> None:
    world = grown("create", ("r", "a"))
    follow_events(world, lambda world: set_roles(world, "a", type="root"))
    follow_events(world, lambda world: sub(world, "n", "a"))
    assert values(world)["n"] == "one"


MOVES = [
    ("update", None, None),
    ("create", None, "one"),
    ("update", "update", "two"),
    ("update", "create", "two"),
    ("create", "create", "one"),
    ("create", "update", "two"),
]


@pytest.mark.parametrize(("here", "there", "after"), MOVES)
@pytest.mark.parametrize("role", ["parent", "template"])
def test_4_2_a_move_removes_old_update_copies_keeps_create_copies_and_adds_the_new_ones(
    here: str, there: str | None, after: str | None, role: str
) -> None:
    world = a_world()
    root(world), root(world, "q"), world.namespace("a"), set_roles(world, "a", **{role: "r"})
    source(world, TOP, here)
    if there is not None:
        source(world, at("q", "x"), there, "two")
    settled(world)
    follow_events(world, lambda world: set_roles(world, "a", **{role: "q"}))
    assert values(world).get("a") == after
    if after == "two":
        assert x(world, "a").annotations == {FROM: "q", PROPAGATE: there}


@pytest.mark.parametrize(("there", "changed"), [("create", "ab"), ("update", "a")])
def test_4_2_a_move_between_parents_with_the_same_object_is_one_update(there: str, changed: str) -> None:
    """One update for each copy that changes: with another mode also the copies below."""
    world = a_world()
    root(world), root(world, "q"), sub(world, "a", "r"), sub(world, "b", "a")
    source(world, TOP, "update"), source(world, at("q", "x"), there)
    settled(world)
    before = x(world, "a").uid, x(world, "b").uid
    set_roles(world, "a", parent="q")
    writes = [write for write in settled(world) if write.ref.kind == TOP.kind]
    assert [(type(write), write.ref.namespace) for write in writes] == [(Update, name) for name in changed]
    assert (x(world, "a").uid, x(world, "b").uid) == before
    assert x(world, "a").annotations[FROM] == "q"


@pytest.mark.parametrize("backwards", [False, True])
def test_4_2_an_adopted_object_is_released_when_its_namespace_moves_below_a_source_in_create_mode(
    backwards: bool,
) -> None:
    world = a_world()
    root(world), root(world, "q"), sub(world, "a", "q")
    source(world, at("r", "x"), "update"), source(world, at("q", "x"), "create")
    adopted = {FROM: "r", PROPAGATE: "update", ADOPTED: "true"}
    world.put(at("a", "x"), secret(), FIELD_MANAGER, annotations=adopted)
    settle(world, order=lambda keys: sorted(keys, key=str, reverse=backwards))
    assert x(world, "a").annotations == {RELEASED: "true"}


def test_4_2_a_stale_copy_that_the_original_left_after_a_move_is_replaced() -> None:
    world = a_world()
    root(world), root(world, "q"), sub(world, "a", "q")
    source(world, at("q", "x"), "create", "two")
    a_copy(world, at("a", "x"), "r", "update", by="accurate-controller")
    settled(world)
    assert values(world) == {"q": "two", "a": "two"}


def test_5_1_a_copy_has_the_content_labels_and_annotations_and_no_other_metadata() -> None:
    world = a_world(propagateLabelKeyExcludes=["hid*"], propagateAnnotationKeyExcludes=["hid*"])
    chain(world, "r", "a")
    metadata = {"keep": "1", "hidden": "1"}
    notes = {PROPAGATE: "update", PROPAGATE_GENERATED: "update", GENERATED: "false", **metadata}
    world.put(
        TOP,
        secret("two", "kubernetes.io/tls", immutable=True),
        labels=metadata,
        annotations=notes,
        owner_references=(OWN,),
    )
    world.edit(TOP, finalizers=("somebody/else",))
    settled(world)
    have = x(world, "a")
    assert have.content == secret("two", "kubernetes.io/tls", immutable=True)
    assert have.labels == {"keep": "1", CREATED_BY: "accurate"}
    assert have.annotations == {"keep": "1", PROPAGATE: "update", FROM: "r"}
    assert (have.owner_references, have.finalizers) == ((), ())


EXCLUDED = {"propagateLabelKeyExcludes": ["*", "*/*"], "propagateAnnotationKeyExcludes": ["*", "accurate.cybozu.com/*"]}


@pytest.mark.parametrize("mode", ["create", "update"])
def test_3_1_excluding_our_own_keys_strips_propagate_but_not_created_by_and_from(mode: str) -> None:
    world = a_world(**EXCLUDED)
    chain(world, "r", "a", "b")
    source(world, TOP, mode, note="n")
    settled(world)
    assert x(world, "a").labels == {CREATED_BY: "accurate"}
    assert x(world, "a").annotations == {FROM: "r"}
    assert values(world) == {"r": "one", "a": "one"}  # a copy without `propagate` is no source


@pytest.mark.parametrize(("mode", "after"), [("create", "drift"), ("update", "two")])
def test_3_1_without_propagate_a_copy_follows_its_source_and_outlives_it(mode: str, after: str) -> None:
    world = a_world(**EXCLUDED)
    chain(world, "r", "a")
    source(world, TOP, mode)
    settled(world)
    world.edit(at("a", "x"), content=secret("drift"))
    world.edit(TOP, content=secret("two"))
    settled(world)
    assert values(world) == {"r": "two", "a": after}
    world.delete(TOP)
    settled(world)
    assert values(world) == {"a": after}


def test_3_1_excluding_propagate_later_ends_the_chain_after_the_first_copies() -> None:
    before, world = grown(), a_world(**EXCLUDED)
    for obj in before.objects.values():
        world.store(obj)
    settled(world)
    assert x(world, "a").annotations == {FROM: "r"}
    assert values(world) == {"r": "one", "a": "one"}


def test_5_1_every_watched_kind_is_propagated_and_no_other() -> None:
    world = a_world()
    chain(world, "r", "a")
    other = replace_kind(TOP)
    for ref in (Ref(CONFIG_MAP, "r", "x"), Ref(ROLE_BINDING, "r", "x"), other):
        world.put(ref, content(data={}), annotations={PROPAGATE: "update"})
    settled(world)
    assert {ref.kind for ref in world.objects if ref.namespace == "a"} == {CONFIG_MAP, ROLE_BINDING}


def replace_kind(ref: Ref) -> Ref:
    return ref._replace(kind=ref.kind._replace(name="Other", plural="others"))


@pytest.mark.parametrize("mode", ["create", "update"])
def test_5_1_a_protected_namespace_in_a_tree_gets_its_copies(mode: str) -> None:
    world = a_world()
    chain(world, "r", "kube-public")
    source(world, TOP, mode)
    settle(world, ClusterPolicy(protected=("kube-*",)))
    assert at("kube-public", "x") in world.objects


def test_5_2_a_copy_whose_source_was_deleted_while_the_controller_was_down_is_deleted() -> None:
    world = grown()
    world.delete(TOP)
    assert removed(settled(world)) == [at("a", "x"), at("b", "x")]


def test_5_2_a_create_copy_outlives_its_source_and_is_still_propagated() -> None:
    world = grown("create")
    world.delete(TOP)
    world.delete(at("b", "x"))
    settled(world)
    assert values(world) == {"a": "one", "b": "one"}


def test_5_2_a_terminating_source_changes_no_copy_until_it_is_gone() -> None:
    world = grown(names=("r", "a"))
    world.edit(TOP, finalizers=("somebody/else",), deleting=True, content=secret("two"))
    sub(world, "b", "r"), sub(world, "c", "a")
    settled(world)
    assert values(world) == {"r": "two", "a": "one", "c": "one"}
    follow_events(world, lambda world: world.edit(TOP, finalizers=()))
    assert values(world) == {}


def test_5_2_a_copy_deleted_while_its_source_terminates_keeps_the_copies_below() -> None:
    world = grown()
    world.edit(TOP, finalizers=("somebody/else",), deleting=True)
    world.delete(at("a", "x"))
    settled(world)
    assert values(world) == {"r": "one", "b": "one"}
    follow_events(world, lambda world: world.edit(TOP, finalizers=()))
    assert values(world) == {}


def test_5_3_a_changed_value_reaches_every_depth() -> None:
    world = grown(names=DEEP)
    follow_events(world, lambda world: world.edit(TOP, content=secret("two")))
    assert values(world) == dict.fromkeys(DEEP, "two")


def test_5_3_and_row_2_a_removed_key_leaves_every_copy() -> None:
    world = a_world()
    chain(world, "r", "a", "b")
    both = content(data={"one": "1", "two": "2"}, type="Opaque")
    world.put(TOP, both, labels={"old": "1"}, annotations={PROPAGATE: "update", "old": "1"})
    settled(world)
    one = content(data={"one": "1"}, type="Opaque")
    follow_events(world, lambda world: world.edit(TOP, content=one, labels={}, annotations={PROPAGATE: "update"}))
    for name in "ab":
        assert x(world, name).content == one
        assert "old" not in {**x(world, name).labels, **x(world, name).annotations}


def test_5_3_labels_that_other_clients_add_to_a_copy_stay_and_are_propagated_further() -> None:
    world = grown()
    have = x(world, "a")
    follow_events(world, lambda world: world.edit(have.ref, labels={**have.labels, "mine": "1"}))
    assert [x(world, name).labels.get("mine") for name in "rab"] == [None, "1", "1"]


DRIFTS: dict[str, dict[str, Any]] = {
    "content": {"content": secret("drift")},
    "label": {"labels": {CREATED_BY: "me", "tier": "9"}},
    "labels gone": {"labels": {}},
    "mode": {"annotations": {FROM: "r", PROPAGATE: "create", "note": "n"}},
    "odd mode": {"annotations": {FROM: "r", PROPAGATE: "sometimes", "note": "n"}},
    "mode gone": {"annotations": {FROM: "r", "note": "n"}},
    "from gone": {"annotations": {PROPAGATE: "update", "note": "n"}},
    "from elsewhere": {"annotations": {PROPAGATE: "update", "note": "n", FROM: "z"}},
    "from gone and content": {"annotations": {PROPAGATE: "update"}, "content": secret("drift")},
    "mode and content": {"annotations": {FROM: "r", PROPAGATE: "create"}, "content": secret("drift")},
    "stripped": {"annotations": {}, "labels": {}, "content": secret("drift")},
}


@pytest.mark.parametrize("drift", DRIFTS.values(), ids=DRIFTS)
@pytest.mark.parametrize("backwards", [False, True])
def test_5_3_drift_in_the_middle_of_a_chain_is_repaired_and_never_propagated(
    drift: dict[str, Any], backwards: bool
) -> None:
    world = a_world()
    chain(world, "r", "a", "b", "c")
    source(world, TOP, "update", note="n")
    world.edit(TOP, labels={"tier": "1"})
    settled(world)
    before = world.state()
    world.fetch([at("a", "x")])
    world.edit(at("a", "x"), **drift)
    writes = settle(world, RULES, order=lambda keys: keys[::-1] if backwards else keys)
    assert [(type(write), write.ref.namespace) for write in writes] == [(Update, "a")]
    assert world.state() == before


@pytest.mark.parametrize("drift", DRIFTS.values(), ids=DRIFTS)
def test_5_3_events_alone_repair_drift(drift: dict[str, Any]) -> None:
    world = a_world()
    chain(world, "r", "a", "b", "c")
    source(world, TOP, "update", note="n")
    world.edit(TOP, labels={"tier": "1"})
    settled(world)
    before = world.state()
    world.fetch([at("a", "x")])
    follow_events(world, lambda world: world.edit(at("a", "x"), **drift))
    assert world.state() == before


def test_5_3_writes_that_waited_for_the_repair_of_a_copy_follow_it() -> None:
    """Drift at two depths: the plan sees the lower one first, and must repair it later."""
    world = grown(names=("r", "a", "b", "c"))
    world.edit(at("a", "x"), content=secret("drift"))
    world.edit(at("c", "x"), content=secret("drift"))
    assert plan_of(key("b"), world, RULES).writes == ()
    (write,) = plan_of(key("r").in_namespace("a"), world, RULES).writes
    follow_events(world, lambda world: perform(world, write))
    assert values(world) == dict.fromkeys("rabc", "one")


def test_5_3_a_copy_that_cannot_be_repaired_is_not_propagated() -> None:
    world = grown(names=("r", "a", "b"))
    world.edit(namespace_ref("a"), annotations={PAUSED: "true"})
    world.edit(at("a", "x"), content=secret("drift"))
    settled(world)
    assert values(world) == {"r": "one", "a": "drift", "b": "one"}


def test_5_3_a_new_namespace_below_a_drifted_copy_waits_and_the_message_names_the_copy() -> None:
    world = grown(names=("r", "a"))
    world.edit(namespace_ref("a"), annotations={PAUSED: "true"})
    world.edit(at("a", "x"), content=secret("drift"))
    sub(world, "b", "a")
    settled(world)
    assert values(world) == {"r": "one", "a": "drift"}
    message = "a/x differs from its own source: Samara repairs it first and then propagates it"
    assert [(target.ref, target.reason, target.message) for target in blocked(world, key("a"))] == [
        (at("b", "x"), "conflict", message)
    ]
    follow_events(world, lambda world: world.edit(namespace_ref("a"), annotations={}))
    assert values(world) == {"r": "one", "a": "one", "b": "one"}


@pytest.mark.parametrize("kind", ["secret type", "role", "immutable"])
def test_5_3_and_row_14_a_difference_in_an_immutable_field_recreates_the_copy(kind: str) -> None:
    ref, old, new = {
        "secret type": (TOP, secret("one"), secret("one", "kubernetes.io/tls")),
        "role": (Ref(ROLE_BINDING, "r", "x"), content(roleRef={"name": "view"}), content(roleRef={"name": "edit"})),
        "immutable": (Ref(CONFIG_MAP, "r", "x"), config_map("one", immutable=True), config_map("two", immutable=True)),
    }[kind]
    world = a_world()
    chain(world, "r", "a", "b")
    world.put(ref, old, annotations={PROPAGATE: "update"})
    settled(world)
    world.delete(ref)
    world.put(ref, new, annotations={PROPAGATE: "update"})
    writes = settled(world)
    assert [type(write) for write in writes] == [Recreate, Recreate]
    assert all(world.objects[ref._replace(namespace=name)].content == new for name in "ab")


def test_row_14_subjects_of_a_binding_are_updated_in_place() -> None:
    ref = Ref(ROLE_BINDING, "r", "x")
    world = a_world()
    chain(world, "r", "a")
    world.put(ref, content(roleRef={"name": "view"}, subjects=["one"]), annotations={PROPAGATE: "update"})
    settled(world)
    world.edit(ref, content=content(roleRef={"name": "view"}, subjects=["two"]))
    assert [type(write) for write in settled(world)] == [Update]


@pytest.mark.parametrize("mode", ["create", "update"])
def test_5_4_a_missing_copy_is_created(mode: str) -> None:
    assert values(grown(mode)) == {"r": "one", "a": "one", "b": "one"}


@pytest.mark.parametrize(("mode", "after"), [("create", "drift"), ("update", "one")])
def test_5_4_a_copy_that_differs_is_overwritten_only_in_update_mode(mode: str, after: str) -> None:
    world = grown(mode, ("r", "a"))
    follow_events(world, lambda world: world.edit(at("a", "x"), content=secret("drift")))
    assert values(world)["a"] == after


def test_5_4_create_mode_leaves_an_existing_object_alone() -> None:
    world = a_world()
    chain(world, "r", "a")
    theirs = world.put(at("a", "x"), secret("theirs"))
    source(world, TOP, "create")
    settled(world)
    assert x(world, "a") is theirs


@pytest.mark.parametrize("mode", ["create", "update"])
@pytest.mark.parametrize("depth", ["a", "b", "c"])
def test_5_4_a_deleted_copy_comes_back_and_the_copies_below_stay(mode: str, depth: str) -> None:
    world = grown(mode, ("r", "a", "b", "c"))
    uids = {name: x(world, name).uid for name in "abc" if name != depth}
    follow_events(world, lambda world: world.delete(at(depth, "x")))
    assert values(world) == dict.fromkeys("rabc", "one")
    assert {name: x(world, name).uid for name in uids} == uids


@pytest.mark.parametrize("backwards", [False, True])
def test_5_4_two_copies_deleted_at_once_come_back_and_the_copies_below_stay(backwards: bool) -> None:
    world = grown(names=("r", "a", "b", "c"))
    before = x(world, "c")
    world.delete(at("a", "x"))
    world.delete(at("b", "x"))
    writes = settle(world, RULES, order=lambda keys: keys[::-1] if backwards else keys)
    assert [type(write) for write in writes] == [Create, Create]
    assert x(world, "c") is before


def test_5_4_the_copies_below_a_terminating_copy_stay() -> None:
    world = grown()
    world.edit(at("a", "x"), finalizers=("somebody/else",), deleting=True)
    assert settled(world) == []
    follow_events(world, lambda world: world.edit(at("a", "x"), finalizers=()))
    assert values(world) == {"r": "one", "a": "one", "b": "one"}


@pytest.mark.parametrize(("mode", "left"), [("create", "ab"), ("update", "")])
def test_5_4_deleting_a_source_keeps_create_copies_and_deletes_update_copies_at_every_depth(
    mode: str, left: str
) -> None:
    world = grown(mode)
    follow_events(world, lambda world: world.delete(TOP))
    assert values(world) == dict.fromkeys(left, "one")


def test_5_4_a_create_copy_without_from_is_an_independent_source() -> None:
    world = grown("create")
    world.edit(at("a", "x"), annotations={PROPAGATE: "create"}, content=secret("theirs"))
    assert settled(world) == []
    world.delete(at("b", "x"))
    settled(world)
    assert values(world) == {"r": "one", "a": "theirs", "b": "theirs"}


def test_5_4_changing_create_to_update_overwrites_copies_at_once() -> None:
    world = grown("create")
    world.edit(at("a", "x"), content=secret("drift"))
    follow_events(world, lambda world: set_mode(world, TOP, "update"))
    assert values(world) == {"r": "one", "a": "one", "b": "one"}
    assert x(world, "b").annotations[PROPAGATE] == "update"


def test_5_4_changing_create_to_update_overwrites_copies_of_the_original() -> None:
    world = a_world()
    chain(world, "r", "a")
    source(world, TOP, "update")
    a_copy(world, at("a", "x"), "r", "create", "two", by="accurate-controller")
    settled(world)
    assert values(world)["a"] == "one"


def test_5_4_changing_update_to_create_keeps_the_copies_and_stops_updating_them() -> None:
    world = grown("update")
    uids = [x(world, name).uid for name in "ab"]
    follow_events(world, lambda world: set_mode(world, TOP, "create"))
    assert [x(world, name).annotations[PROPAGATE] for name in "ab"] == ["create", "create"]
    assert [x(world, name).uid for name in "ab"] == uids
    follow_events(world, lambda world: world.edit(TOP, content=secret("two")))
    assert values(world) == {"r": "two", "a": "one", "b": "one"}


def test_5_4_the_mode_of_copies_follows_repeated_changes_of_the_mode() -> None:
    world = grown("update")
    for mode in ("create", "update", "create", "update"):
        follow_events(world, lambda world, mode=mode: set_mode(world, TOP, mode))  # type: ignore[misc]
        assert [x(world, name).annotations[PROPAGATE] for name in "ab"] == [mode, mode]


@pytest.mark.parametrize(("mode", "left"), [("create", "rab"), ("update", "r")])
@pytest.mark.parametrize("becomes", [None, "", "never"])
def test_5_4_and_row_5_removing_propagate_deletes_update_copies_at_once_and_keeps_create_copies(
    mode: str, left: str, becomes: str | None
) -> None:
    world = grown(mode)
    follow_events(world, lambda world: set_mode(world, TOP, becomes))
    assert values(world) == dict.fromkeys(left, "one")


def test_5_5_deleting_a_namespace_keeps_the_create_copies_below_it() -> None:
    world = grown("create")
    follow_events(world, lambda world: world.delete(namespace_ref("a")))
    assert values(world) == {"r": "one", "b": "one"}


def test_5_5_deleting_a_namespace_deletes_the_update_copies_below_it() -> None:
    world = grown("update")
    follow_events(world, lambda world: world.delete(namespace_ref("a")))
    assert values(world) == {"r": "one"}


@pytest.mark.parametrize("forged", ["r", "elsewhere", "a"])
def test_row_1_an_object_with_a_forged_from_gets_no_content_and_is_left_alone(forged: str) -> None:
    world = a_world()
    root(world), world.namespace("a"), root(world, "elsewhere")
    source(world, TOP, "update")
    theirs = world.put(at("a", "x"), secret("theirs"), annotations={FROM: forged, PROPAGATE: "update"})
    assert settled(world) == []
    assert x(world, "a") is theirs


def test_row_1_an_object_with_a_forged_from_survives_the_deletion_of_the_source_it_names() -> None:
    world = a_world()
    root(world), root(world, "q"), sub(world, "a", "q")
    source(world, TOP, "update")
    world.put(at("a", "x"), secret("theirs"), annotations={FROM: "r", PROPAGATE: "update"})
    world.delete(TOP)
    assert removed(settled(world)) == []
    assert values(world) == {"a": "theirs"}


def test_row_3_a_foreign_object_is_refused_and_reported() -> None:
    world = a_world()
    chain(world, "r", "a", "b")
    theirs = world.put(at("a", "x"), secret("theirs"))
    source(world, TOP, "update")
    settled(world)
    assert x(world, "a") is theirs
    assert values(world) == {"r": "one", "a": "theirs"}
    assert [(target.ref, target.reason) for target in blocked(world, key("r"))] == [(at("a", "x"), "conflict")]


def test_row_3_an_identical_object_is_adopted_and_released_without_our_labels_and_annotations() -> None:
    world = a_world()
    chain(world, "r", "a", "b")
    theirs = world.put(at("a", "x"), secret("one"), annotations={"note": "mine"})
    source(world, TOP, "update")
    settled(world)
    assert x(world, "a").uid == theirs.uid
    assert x(world, "a").annotations == {"note": "mine", FROM: "r", PROPAGATE: "update", ADOPTED: "true"}
    assert values(world)["b"] == "one"
    world.delete(TOP)
    settled(world)
    assert (x(world, "a").labels, x(world, "a").annotations) == ({}, {"note": "mine", RELEASED: "true"})
    assert values(world) == {"a": "one"}


def test_row_3_a_released_object_keeps_created_by_if_another_client_set_it() -> None:
    world = a_world()
    chain(world, "r", "a")
    world.put(at("a", "x"), secret("one"), labels={CREATED_BY: "accurate"})
    source(world, TOP, "update")
    settled(world)
    world.delete(TOP)
    settled(world)
    assert x(world, "a").labels == {CREATED_BY: "accurate"}


def test_row_3_overwrite_behaves_like_the_original() -> None:
    world = a_world(adopt=Adopt.ANY)
    chain(world, "r", "a", "b")
    world.put(at("a", "x"), secret("theirs"))
    source(world, TOP, "update")
    settled(world)
    assert values(world) == {"r": "one", "a": "one", "b": "one"}
    world.delete(TOP)
    settled(world)
    assert values(world) == {}


@pytest.mark.parametrize("mode", ["create", "update"])
def test_row_3_overwrite_takes_over_a_source_of_the_same_name_below(mode: str) -> None:
    world = a_world(adopt=Adopt.ANY)
    chain(world, "r", "a", "b")
    source(world, at("a", "x"), mode, "theirs")
    settled(world)
    source(world, TOP, "update")
    settled(world)
    assert values(world)["a"] == "one"
    assert x(world, "a").annotations == {FROM: "r", PROPAGATE: "update"}
    world.delete(TOP)
    settled(world)
    assert ("a" in values(world)) == (mode == "update"), "its own team wrote this word"


@pytest.mark.parametrize("adopt", [Adopt.NEVER, Adopt.IDENTICAL])
def test_row_3_and_4_without_overwrite_a_source_of_the_same_name_below_is_never_touched(adopt: Adopt) -> None:
    world = a_world(adopt=adopt)
    chain(world, "r", "a", "b")
    theirs = source(world, at("a", "x"), "update", "theirs")
    source(world, TOP, "update")
    settled(world)
    world.delete(TOP)
    settled(world)
    assert x(world, "a") is theirs
    assert values(world) == {"a": "theirs", "b": "theirs"}


def test_row_4_deleting_a_source_deletes_only_copies_whose_from_names_it() -> None:
    world = grown(names=("r", "a"))
    root(world, "q"), sub(world, "b", "q")
    source(world, at("q", "x"), "update")
    settled(world)
    world.delete(TOP)
    assert removed(settled(world)) == [at("a", "x")]
    assert values(world) == {"q": "one", "b": "one"}


def test_row_4_and_10_a_delete_carries_the_uid_and_version_that_it_was_decided_on() -> None:
    world = grown(names=("r", "a"))
    world.delete(TOP)
    (write,) = plan_of(key("r"), world, RULES).writes
    assert isinstance(write, Delete)
    world.edit(at("a", "x"), annotations={})
    assert not perform(world, write)


def test_row_7_a_terminating_namespace_does_not_stop_its_siblings() -> None:
    world = a_world()
    root(world)
    for name in "abc":
        sub(world, name, "r")
    world.terminate("a")
    source(world, TOP, "update")
    settled(world)
    assert values(world) == {"r": "one", "b": "one", "c": "one"}
    assert [target.reason for target in blocked(world, key("r"))] == ["no-namespace"]


def test_row_7_a_conflict_in_one_sibling_does_not_stop_the_others() -> None:
    world = a_world()
    root(world), sub(world, "a", "r"), sub(world, "b", "r")
    world.put(at("a", "x"), secret("theirs"))
    source(world, TOP, "update")
    settled(world)
    assert values(world)["b"] == "one"


@pytest.mark.parametrize("value", ["a", "x y", "ä", "x HTTP/1.1\r\n", "../r", "A", "r/secrets"])
def test_row_1_a_from_that_cannot_be_the_name_of_another_namespace_is_no_mark(value: str) -> None:
    world = a_world()
    root(world), sub(world, "a", "r")
    forged = a_copy(world, at("a", "x"), of=value, mode="update")
    assert world.registry.owner(forged, world) is None
    settled(world)
    assert values(world) == {"a": "one"}


def test_row_21_a_copy_left_over_from_another_parent_is_not_propagated_before_its_deletion() -> None:
    """The namespace was cut and has a child. The result must not depend on which plan comes first."""
    world = a_world()
    root(world), sub(world, "a", "r")
    left = a_copy(world, TOP, of="elsewhere", mode="update")
    assert plan_of(key("r"), world, RULES).writes == ()
    world.edit(left.ref, annotations={**left.annotations, FROM: ""})
    assert [write.ref for write in plan_of(key("r"), world, RULES).writes] == [at("a", "x")]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("top", ["without mode", "deleted"])
def test_a_copy_that_is_about_to_be_deleted_takes_over_no_create_copy(top: str, backwards: bool) -> None:
    """Otherwise the order in which sources are planned would decide whether the object is deleted with the copy."""
    world = grown("update")
    world.edit(at("b", "x"), annotations={PROPAGATE: "create", FROM: "a"})
    if top == "deleted":
        world.delete(TOP)
    else:
        set_mode(world, TOP, None)
    settle(world, RULES, order=lambda keys: sorted(keys, reverse=backwards))
    assert values(world) == ({"b": "one"} if top == "deleted" else {"r": "one", "b": "one"})


@pytest.mark.parametrize("backwards", [False, True])
def test_a_copy_that_is_about_to_change_to_create_mode_takes_over_no_object(backwards: bool) -> None:
    world = grown("update")
    world.edit(at("b", "x"), annotations={PROPAGATE: "create", FROM: "a"}, content=secret("theirs"))
    set_mode(world, TOP, "create")
    settle(world, RULES, order=lambda keys: sorted(keys, reverse=backwards))
    assert values(world) == {"r": "one", "a": "one", "b": "theirs"}


@pytest.mark.parametrize("backwards", [False, True])
def test_a_copy_takes_over_no_object_while_a_copy_two_levels_above_it_may_change(backwards: bool) -> None:
    world = grown("update", ("r", "a", "b", "c"))
    world.edit(at("c", "x"), annotations={PROPAGATE: "create", FROM: "b"}, content=secret("theirs"))
    set_mode(world, TOP, "create")
    assert world.registry[PROPAGATION].desired(key("b").source, world).requeue_after, (
        "no event may trigger another plan of this source"
    )
    settle(world, RULES, order=lambda keys: sorted(keys, reverse=backwards))
    assert values(world) == {"r": "one", "a": "one", "b": "one", "c": "theirs"}


def test_a_create_copy_is_taken_over_once_all_copies_above_it_are_in_sync() -> None:
    world = grown("update", ("r", "a", "b", "c"))
    world.edit(at("a", "x"), content=secret("drift"))
    world.edit(at("c", "x"), annotations={PROPAGATE: "create", FROM: "b"}, content=secret("theirs"))
    settled(world)
    assert values(world) == dict.fromkeys("rabc", "one")


@pytest.mark.parametrize(("by", "stays"), [("accurate-controller", False), ("samara", False), ("kubectl", True)])
def test_row_21_left_over_copies_are_deleted_only_if_managed_fields_name_us_or_the_original(
    by: str, stays: bool
) -> None:
    world = a_world()
    root(world), world.namespace("a")
    a_copy(world, at("a", "x"), "gone", "update", by=by), a_copy(world, at("a", "y"), "gone", "create", by=by)
    settled(world)
    assert (at("a", "x") in world.objects) == stays
    assert at("a", "y") in world.objects


def test_row_21_a_pasted_copy_is_left_alone() -> None:
    world = grown(names=("r", "a"))
    world.namespace("z")
    pasted = world.paste(at("a", "x"), "z")
    assert settled(world) == []
    assert x(world, "z") is pasted


def test_a_released_copy_in_the_middle_of_a_chain_stays_and_the_copies_below_are_deleted() -> None:
    world = grown()
    world.edit(at("a", "x"), annotations={RELEASED: "true"}, content=secret("theirs"))
    world.fetch([at("a", "x")])
    settled(world)
    assert values(world) == {"r": "one", "a": "theirs"}


def test_an_object_created_in_place_of_a_deleted_copy_ends_the_chain() -> None:
    world = grown()
    world.delete(at("a", "x"))
    world.put(at("a", "x"), secret("theirs"))
    settled(world)
    assert values(world) == {"r": "one", "a": "theirs"}


def test_the_plans_of_single_namespaces_together_are_the_whole_plan() -> None:
    world = a_world()
    root(world), sub(world, "a", "r"), sub(world, "b", "r"), sub(world, "c", "a")
    source(world, TOP, "update")
    parts = [plan_of(key("r").in_namespace(name), world, RULES).writes for name in "rabc"]
    assert [write.ref.namespace for part in parts for write in part] == ["a", "b"]


def test_an_object_with_a_controller_can_be_a_source() -> None:
    world = a_world()
    chain(world, "r", "a")
    source(world, TOP, "update")
    world.store(replace(world.objects[TOP], owner_references=(OWN,)))
    settled(world)
    assert x(world, "a").owner_references == ()


# The mode of an owner


def made_by(
    owner: OwnerReference = OWN, says: object = "update", gate: bool = True, annotations: dict[str, str] | None = None
) -> World:
    """A root with one sub-namespace, and a Secret that a controller created."""
    world = a_world(generated=gate)
    chain(world, "r", "a")
    world.put(TOP, secret(), annotations=annotations or {}, owner_references=(owner,))
    world.fetch([TOP])
    world.outside[OwnerAnnotation(owner, "r", PROPAGATE_GENERATED)] = says
    return world


@pytest.mark.parametrize("word", [PROPAGATE, FROM])
def test_5_6_an_object_with_an_empty_annotation_takes_the_mode_of_its_owner(word: str) -> None:
    world = made_by(annotations={word: ""})
    settled(world)
    assert dict(x(world, "a").annotations) == {FROM: "r", PROPAGATE: "update"}


@pytest.mark.parametrize(("mode", "after"), [("create", "one"), ("update", "two")])
def test_5_6_and_row_27_an_object_that_a_controller_created_is_a_source_with_the_mode_of_its_owner(
    mode: str, after: str
) -> None:
    world = made_by(says=mode)
    before = world.objects[TOP]
    settled(world)
    assert world.objects[TOP] is before, "the source is not written"
    copy = x(world, "a")
    assert dict(copy.annotations) == {FROM: "r", PROPAGATE: mode}
    assert copy.owner_references == ()
    world.edit(TOP, content=secret("two"))
    settled(world)
    assert values(world) == {"r": "two", "a": after}


@pytest.mark.parametrize("says", ["", "Update", "true"])
def test_5_6_an_owner_without_a_valid_mode_makes_no_source(says: str) -> None:
    world = made_by(says=says)
    settled(world)
    assert values(world) == {"r": "one"}


@pytest.mark.parametrize(
    ("owner", "gate", "annotations"),
    [
        (OWN, False, {}),
        (OWN._replace(controller=False), True, {}),
        (OWN, True, {GENERATED: "false"}),
        (OWN, True, {PROPAGATE: "never"}),
        (OWN, True, {FROM: "q"}),
    ],
    ids=["gate closed", "no controller", "generated is false", "mode of its own", "a copy"],
)
def test_5_6_and_row_27_the_owner_is_not_read_if_its_mode_cannot_count(
    owner: OwnerReference, gate: bool, annotations: dict[str, str]
) -> None:
    world = made_by(owner, gate=gate, annotations=annotations)
    assert world.registry[PROPAGATION].desired(TOP, world).reads == ()
    settled(world)
    assert values(world) == {"r": "one"}


def test_5_6_the_mode_of_an_object_comes_before_that_of_its_owner() -> None:
    world = made_by(annotations={PROPAGATE: "create"})
    settled(world)
    assert x(world, "a").annotations[PROPAGATE] == "create"


def test_5_6_a_generated_annotation_other_than_false_is_ignored() -> None:
    world = made_by(annotations={GENERATED: "true"})
    settled(world)
    assert values(world) == {"r": "one", "a": "one"}


def test_5_6_an_owner_that_cannot_be_read_is_reported_and_the_copies_stay() -> None:
    world = made_by()
    settled(world)
    query = OwnerAnnotation(OWN, "r", PROPAGATE_GENERATED)
    world.outside[query] = world.values[query] = Rejected("no right to get deployments")
    assert settled(world) == []
    (fault,) = faults(world)
    assert fault == Fault("Refused", "the annotations of its owner cannot be read: no right to get deployments")
    assert values(world) == {"r": "one", "a": "one"}


def test_5_6_nothing_is_written_before_the_owner_has_been_read() -> None:
    world = made_by()
    planned = plan(key("r"), world, world.registry, RULES)
    assert (planned.ready, planned.writes) == (False, ())
    assert planned.reads == (OwnerAnnotation(OWN, "r", PROPAGATE_GENERATED),)


def test_5_6_a_copy_of_a_generated_object_is_propagated_by_its_own_annotation() -> None:
    world = made_by()
    sub(world, "b", "a")
    settled(world)
    assert x(world, "b").annotations[FROM] == "a"
    assert values(world) == dict.fromkeys("rab", "one")


def gate_closed(world: World, says: object, held: bool) -> None:
    """Restarts with the setting off. The cache then holds only objects that have another metadata key."""
    world.registry = a_world(generated=False).registry
    world.outside[OwnerAnnotation(OWN if held else TOP, "r", PROPAGATE_GENERATED)] = says
    if not held:
        world.fetched.discard(TOP)
    assert world.exists_unread(TOP) is not held


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("mode", ["update", "create"])
def test_operator_2_switching_the_setting_off_deletes_no_generated_copy(held: bool, mode: str) -> None:
    world = made_by(says="update", annotations={GENERATED: "true"} if held else {})
    sub(world, "b", "a")
    settled(world)
    gate_closed(world, mode, held)
    assert settled(world) == []
    assert values(world) == dict.fromkeys("rab", "one")


@pytest.mark.parametrize("says", ["", "Update", Rejected("no right to get deployments")])
@pytest.mark.parametrize("held", [True, False])
def test_with_the_gate_closed_removing_propagate_deletes_copies_also_for_an_object_with_a_controller(
    held: bool, says: object
) -> None:
    world = made_by(annotations={PROPAGATE: "update"})
    settled(world)
    assert values(world) == {"r": "one", "a": "one"}
    world.edit(TOP, annotations={GENERATED: "true"} if held else {})
    gate_closed(world, says, held)
    settled(world)
    assert values(world) == {"r": "one"}


def test_with_the_gate_closed_deleting_a_generated_object_deletes_its_copies() -> None:
    world = made_by()
    settled(world)
    gate_closed(world, "update", held=False)
    world.delete(TOP)
    settled(world)
    assert values(world) == {}


def test_with_the_gate_closed_copies_of_a_generated_object_stay_until_its_owner_is_read() -> None:
    """A plan of another source may compute this desired state before the owner is read."""
    world = made_by()
    settled(world)
    gate_closed(world, "update", held=False)
    assert world.answer(OwnerAnnotation(TOP, "r", PROPAGATE_GENERATED)) is UNREAD
    assert not world.registry[PROPAGATION].desired(TOP, world).prune


def test_a_tree_may_be_deeper_than_the_stack() -> None:
    world = a_world()
    names = [f"n{number}" for number in range(1200)]
    chain(world, *names)
    bottom = at(names[-1], "x")
    world.put(bottom, secret(), annotations={FROM: names[-2], PROPAGATE: "update"})
    assert world.registry[PROPAGATION].desired(at(names[-2], "x"), world).prune


# A copy that was made in create mode and that its team turns to update


def turned(value: str = "theirs") -> World:
    """A chain of three namespaces. The team of the second turned its create copy to update and changed it."""
    world = grown("create", ("r", "a"))
    sub(world, "b", "a")
    settled(world)
    made = x(world, "a")
    world.edit(made.ref, content=secret(value), annotations={**made.annotations, PROPAGATE: "update"})
    return world


def test_row_21_a_create_copy_that_its_team_turned_to_update_is_not_overwritten_and_is_passed_on() -> None:
    world = turned()
    settled(world)
    assert values(world) == {"r": "one", "a": "theirs", "b": "theirs"}
    assert x(world, "a").annotations[PROPAGATE] == "update"


@pytest.mark.parametrize("end", [None, ""], ids=["deleted", "without propagate"])
def test_row_21_a_create_copy_that_its_team_turned_to_update_outlives_its_source(end: str | None) -> None:
    world = turned()
    settled(world)
    if end is None:
        follow_events(world, lambda world: world.delete(TOP))
    else:
        follow_events(world, lambda world: world.edit(TOP, annotations={}))
    assert {**values(world), "r": "any"} == {"r": "any", "a": "theirs", "b": "theirs"}


def test_row_21_a_create_copy_that_its_team_turned_to_update_stays_when_its_namespace_moves() -> None:
    world = turned()
    settled(world)
    root(world, "s")
    follow_events(world, lambda world: set_roles(world, "a", parent="s"))
    assert values(world) == {"r": "one", "a": "theirs", "b": "theirs"}


def test_row_21_an_update_copy_that_we_made_is_still_deleted_with_its_source() -> None:
    world = grown("update", ("r", "a", "b"))
    world.delete(TOP)
    settled(world)
    assert values(world) == {}
