"""Labels and annotations that namespaces inherit; the numbers are the sections and rows of the specification."""

from __future__ import annotations

import pytest
from tests.support.server import perform
from tests.support.settle import follow, plan_of
from tests.support.world import World, content
from tests.vocabularies.accurate.forest import (
    a_sub,
    a_world,
    chain,
    faults,
    instance,
    labels,
    namespace,
    relabel,
    root,
    set_roles,
    settled,
    sub,
    template,
)

from samara.core.metadata_keys import PAUSED
from samara.core.model import LABELS, Key, ManagedKey, Ref, namespace_ref
from samara.core.policy import ClusterPolicy
from samara.core.queries import IsGone
from samara.core.writes import Apply
from samara.vocabularies.accurate import config
from samara.vocabularies.accurate.labels import ACCURATE_MANAGER, CREATED_BY, PARENT, SUB_NAMESPACE, TEMPLATE, TYPE
from samara.vocabularies.accurate.tree import TREE

DEEP = ("r", "a", "b", "c", "d", "e", "f")


def team(world: World, *names: str) -> list[str | None]:
    return [labels(world, name).get("team") for name in names]


def key(name: str) -> Key:
    return Key(TREE, namespace_ref(name))


def test_1_1_type_template_and_parent_of_the_parent_are_never_inherited() -> None:
    world = a_world(labelKeys=["*", "*/*", "*.cybozu.com/*"])
    root(world, "r", {"team": "red"})
    sub(world, "a", "r")
    settled(world)
    assert labels(world, "a") == {PARENT: "r", CREATED_BY: "accurate", "team": "red"}


def test_1_1_sub_namespaces_get_created_by_and_instances_do_not() -> None:
    world = a_world()
    root(world), template(world, "t"), sub(world, "a", "r"), instance(world, "i", "t")
    settled(world)
    assert labels(world, "a")[CREATED_BY] == "accurate"
    assert CREATED_BY not in labels(world, "i")


@pytest.mark.parametrize("role", [PARENT, TEMPLATE])
def test_1_1_and_row_16_an_empty_parent_or_template_label_counts_as_absent(role: str) -> None:
    world = a_world()
    world.namespace("a", {role: "", "team": "red"})
    assert settled(world) == []
    assert faults(world) == []


def test_1_1_with_an_empty_parent_label_the_template_counts() -> None:
    world = a_world()
    template(world, "t", {"team": "red"})
    world.namespace("a", {PARENT: "", TEMPLATE: "t"})
    settled(world)
    assert team(world, "a") == ["red"]


def test_1_3_and_row_28_taking_over_labels_that_the_original_applied_writes_nothing() -> None:
    world = a_world()
    root(world, "r", {"team": "red"})
    inherited = {PARENT: "r", CREATED_BY: "accurate", "team": "red"}
    have = world.namespace("a", inherited)
    applied = frozenset(ManagedKey("accurate-controller", LABELS, key) for key in inherited)
    world.store(
        type(have)(
            have.ref, have.uid, have.resource_version, labels=inherited, managed_keys=applied, applied_keys=applied
        )
    )
    assert settled(world) == []


def test_1_3_labels_are_applied_under_the_field_manager_of_the_original() -> None:
    world = a_world()
    chain(world, "r", "a")
    (write,) = settled(world)
    assert isinstance(write, Apply)
    assert write.overlay.manager == ACCURATE_MANAGER == "accurate-controller"


def test_2_5_a_namespace_gets_the_labels_and_annotations_of_its_sub_namespace_resource() -> None:
    world = a_world()
    chain(world, "r", "a")
    a_sub(world, "a", "r", labels={"size": "L"}, annotations={"story": "long"})
    settled(world)
    assert labels(world, "a")["size"] == "L"
    assert namespace(world, "a").annotations == {"story": "long"}


def test_2_5_keys_outside_the_configured_lists_are_ignored_without_a_fault() -> None:
    world = a_world()
    chain(world, "r", "a")
    a_sub(world, "a", "r", labels={"other": "x"}, annotations={"note": "x"})
    settled(world)
    assert labels(world, "a") == {PARENT: "r", CREATED_BY: "accurate"}
    assert namespace(world, "a").annotations == {}
    assert faults(world) == []


def test_2_5_labels_of_the_sub_namespace_resource_override_those_of_the_parent() -> None:
    world = a_world()
    root(world, "r", {"team": "red"})
    sub(world, "a", "r")
    a_sub(world, "a", "r", labels={"team": "blue"})
    settled(world)
    assert team(world, "a") == ["blue"]


def test_2_5_grandchildren_inherit_only_keys_in_the_lists_of_inherited_keys() -> None:
    world = a_world()
    chain(world, "r", "a", "b")
    a_sub(world, "a", "r", labels={"team": "blue", "size": "L"})
    settled(world)
    assert labels(world, "b") == {PARENT: "a", CREATED_BY: "accurate", "team": "blue"}


def test_2_5_a_changed_spec_reaches_the_namespace_and_its_descendants() -> None:
    world = a_world()
    chain(world, "r", "a", "b")
    a_sub(world, "a", "r", labels={"team": "blue", "size": "L"})
    settled(world)
    spec = content(spec={"labels": {"team": "green"}})
    follow(world, ClusterPolicy(), lambda world: world.edit(Ref(SUB_NAMESPACE, "r", "a"), content=spec, generation=2))
    assert team(world, "a", "b") == ["green", "green"]
    assert "size" not in labels(world, "a")


def test_2_5_only_the_sub_namespace_resource_in_the_actual_parent_counts() -> None:
    world = a_world()
    chain(world, "r", "a")
    root(world, "q")
    a_sub(world, "a", "q", labels={"team": "blue"})
    settled(world)
    assert team(world, "a") == [None]


def test_2_5_a_terminating_sub_namespace_resource_counts_until_it_is_gone() -> None:
    world = a_world()
    chain(world, "r", "a", "b")
    a_sub(world, "a", "r", labels={"size": "L"})
    settled(world)
    world.delete(Ref(SUB_NAMESPACE, "r", "a"))
    settled(world)
    assert labels(world, "a")["size"] == "L"


def test_2_5_deleting_the_sub_namespace_resource_removes_its_labels_from_the_namespace() -> None:
    world = a_world()
    chain(world, "r", "a")
    a_sub(world, "a", "r", guard=False, labels={"size": "L"})
    settled(world)
    assert labels(world, "a")["size"] == "L"
    sub_ref = Ref(SUB_NAMESPACE, "r", "a")
    world.edit(sub_ref, finalizers=())
    follow(world, ClusterPolicy(), lambda world: world.delete(sub_ref))
    assert "size" not in labels(world, "a")


@pytest.mark.parametrize("odd", [None, "text", 7, ["x"], {"labels": "text"}, {"labels": {"size": 7}}, {"labels": None}])
def test_2_5_a_malformed_spec_is_ignored(odd: object) -> None:
    world = a_world()
    chain(world, "r", "a")
    world.put(Ref(SUB_NAMESPACE, "r", "a"), content(spec=odd))
    settled(world)
    assert labels(world, "a").get("size", "7") == "7"


def test_4_a_terminating_namespace_is_left_alone() -> None:
    world = a_world()
    chain(world, "r", "a")
    world.terminate("a")
    assert settled(world) == []


def test_4_a_parent_label_comes_before_a_template_label() -> None:
    world = a_world()
    root(world, "r", {"team": "red"})
    template(world, "t", {"team": "blue", "a.glob/x": "1"})
    world.namespace("a", {PARENT: "r", TEMPLATE: "t"})
    settled(world)
    assert labels(world, "a") == {PARENT: "r", TEMPLATE: "t", CREATED_BY: "accurate", "team": "red"}


def test_4_a_namespace_without_relations_is_left_alone() -> None:
    world = a_world()
    root(world), template(world, "t"), world.namespace("plain", {TYPE: "whatever", "team": "red"})
    assert settled(world) == []


def test_4_the_type_of_the_parent_or_template_does_not_matter() -> None:
    world = a_world()
    world.namespace("plain", {"team": "red"})
    sub(world, "a", "plain"), instance(world, "i", "plain")
    settled(world)
    assert team(world, "a", "i") == ["red", "red"]


@pytest.mark.parametrize("role", ["parent", "template"])
def test_4_a_missing_parent_or_template_is_a_fault_and_nothing_is_written(role: str) -> None:
    world = a_world()
    world.namespace("a", {PARENT if role == "parent" else TEMPLATE: "gone", "team": "red"})
    assert settled(world) == []
    (fault,) = faults(world)
    assert (fault.reason, fault.message) == ("Invalid", "parent namespace does not exist: gone")


@pytest.mark.parametrize("ring", ["a", "ab", "abc"])
@pytest.mark.parametrize("role", ["parent", "template"])
def test_4_in_a_loop_nothing_is_written_and_each_namespace_has_one_clear_fault(ring: str, role: str) -> None:
    world = a_world()
    label = PARENT if role == "parent" else TEMPLATE
    for name, above in zip(ring, ring[1:] + ring[0], strict=True):
        world.namespace(name, {label: above, "team": name})
    assert settled(world) == []
    for name in ring:
        (fault,) = plan_of(key(name), world, ClusterPolicy()).faults
        assert fault.reason == "Invalid"
        assert fault.message.startswith(f"circular reference is not permitted: {name} → ")


def test_4_a_namespace_below_a_loop_waits_until_the_loop_is_broken() -> None:
    world = a_world()
    for name, above in (("a", "b"), ("b", "a"), ("c", "b")):
        sub(world, name, above, {"team": name})
    assert settled(world) == []
    set_roles(world, "a", type="root")
    settled(world)
    assert team(world, "a", "b", "c") == ["a", "a", "a"]


def test_4_breaking_a_loop_reconciles_every_namespace_below_it() -> None:
    world = a_world()
    for name, above in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "c")):
        sub(world, name, above, {"team": name})
    assert settled(world) == []
    follow(world, ClusterPolicy(), lambda world: world.delete(namespace_ref("a")))
    assert team(world, "b", "c", "d") == ["c", "c", "c"]
    assert settled(world) == []


def test_4_1_only_keys_that_match_the_lists_are_inherited() -> None:
    world = a_world()
    root(world, "r", {"team": "red", "foo.glob/a": "1", "other": "x"}, annotations={"note": "n", "secret": "s"})
    sub(world, "a", "r")
    settled(world)
    assert labels(world, "a") == {PARENT: "r", CREATED_BY: "accurate", "team": "red", "foo.glob/a": "1"}
    assert namespace(world, "a").annotations == {"note": "n"}


def test_4_1_a_changed_value_reaches_every_descendant() -> None:
    world = a_world()
    chain(world, *DEEP)
    relabel(world, "r", team="red")
    settled(world)
    follow(world, ClusterPolicy(), lambda world: relabel(world, "r", team="blue"))
    assert team(world, *DEEP) == ["blue"] * 7


def test_4_1_a_key_removed_on_the_parent_is_removed_on_every_descendant() -> None:
    world = a_world()
    chain(world, *DEEP)
    relabel(world, "r", team="red")
    settled(world)
    follow(world, ClusterPolicy(), lambda world: relabel(world, "r", team=None))
    assert team(world, *DEEP) == [None] * 7


def test_4_1_a_key_edited_on_the_child_is_restored() -> None:
    world = a_world()
    chain(world, "r", "a", "b")
    relabel(world, "r", team="red")
    settled(world)
    follow(world, ClusterPolicy(), lambda world: relabel(world, "a", team="mine"))
    assert team(world, "a", "b") == ["red", "red"]


def test_4_1_a_key_deleted_on_the_child_comes_back() -> None:
    world = a_world()
    chain(world, "r", "a")
    relabel(world, "r", team="red")
    settled(world)
    follow(world, ClusterPolicy(), lambda world: relabel(world, "a", team=None))
    assert team(world, "a") == ["red"]


def test_4_1_a_key_that_does_not_match_is_never_touched() -> None:
    world = a_world()
    chain(world, "r", "a")
    relabel(world, "a", mine="1")
    relabel(world, "r", mine="2")
    settled(world)
    assert labels(world, "a")["mine"] == "1"


@pytest.mark.parametrize("role", ["parent", "template"])
def test_4_1_another_parent_or_template_replaces_the_inherited_keys(role: str) -> None:
    world = a_world()
    root(world, "one", {"team": "red", "a.glob/x": "1"})
    root(world, "two", {"a.glob/y": "2"})
    world.namespace("a")
    set_roles(world, "a", **{role: "one"})
    settled(world)
    follow(world, ClusterPolicy(), lambda world: set_roles(world, "a", **{role: "two"}))
    inherited = {name: value for name, value in labels(world, "a").items() if "glob" in name or name == "team"}
    assert inherited == {"a.glob/y": "2"}


@pytest.mark.parametrize("role", ["parent", "template"])
@pytest.mark.parametrize("becomes", [{}, {"type": "root"}])
def test_4_1_and_row_6_inherited_keys_stay_after_a_cut(role: str, becomes: dict[str, str]) -> None:
    world = a_world()
    root(world, "r", {"team": "red"}, annotations={"note": "n"})
    world.namespace("a")
    set_roles(world, "a", **{role: "r"})
    settled(world)
    follow(world, ClusterPolicy(), lambda world: set_roles(world, "a", **becomes))
    assert settled(world) == []
    assert team(world, "a") == ["red"]
    assert namespace(world, "a").annotations == {"note": "n"}


def test_4_1_created_by_stays_after_a_cut() -> None:
    world = a_world()
    chain(world, "r", "a")
    settled(world)
    set_roles(world, "a", type="root")
    settled(world)
    assert labels(world, "a")[CREATED_BY] == "accurate"


def test_4_1_a_key_removed_from_the_configuration_disappears_from_the_children() -> None:
    world = a_world()
    chain(world, "r", "a", "b")
    relabel(world, "r", team="red")
    settled(world)
    world.registry = a_world(labelKeys=[]).registry
    settled(world)
    assert team(world, "r", "a", "b") == ["red", None, None]


def test_4_1_a_template_of_a_template_adds_its_own_labels() -> None:
    world = a_world()
    template(world, "t1", {"team": "red"})
    template(world, "t2", {TEMPLATE: "t1", "a.glob/x": "2"})
    instance(world, "i", "t2")
    settled(world)
    assert labels(world, "t2") == {TYPE: "template", TEMPLATE: "t1", "team": "red", "a.glob/x": "2"}
    assert labels(world, "i") == {TEMPLATE: "t2", "team": "red", "a.glob/x": "2"}


def test_4_1_a_root_that_is_an_instance_inherits_and_passes_labels_on() -> None:
    world = a_world()
    template(world, "t", {"team": "red"})
    root(world, "r", {TEMPLATE: "t"})
    sub(world, "a", "r")
    settled(world)
    assert team(world, "r", "a") == ["red", "red"]


def test_4_1_a_tree_six_deep_settles() -> None:
    world = a_world()
    chain(world, *DEEP)
    relabel(world, "r", team="red")
    assert len(settled(world)) <= 2 * 6
    assert team(world, *DEEP) == ["red"] * 7


def test_row_7_a_terminating_or_paused_namespace_does_not_stop_its_siblings() -> None:
    world = a_world()
    root(world, "r", {"team": "red"})
    for name in "abc":
        sub(world, name, "r")
    world.terminate("a")
    world.edit(namespace_ref("b"), annotations={PAUSED: "true"})
    settled(world)
    assert team(world, "a", "b", "c") == [None, None, "red"]


def test_row_10_a_write_decided_on_an_old_version_is_not_performed() -> None:
    world = a_world()
    root(world, "r", {"team": "red"}), root(world, "q", {"team": "blue"})
    sub(world, "a", "r")
    (write,) = plan_of(key("a"), world, ClusterPolicy()).writes
    set_roles(world, "a", parent="q")
    assert not perform(world, write)
    settled(world)
    assert labels(world, "a")[PARENT] == "q"
    assert team(world, "a") == ["blue"]


@pytest.mark.parametrize("word", ["accurate.cybozu.com/x", "samara.dev/paused", "pod-security.kubernetes.io/enforce"])
def test_row_23_a_glob_admits_no_key_that_grants_access(word: str) -> None:
    world = a_world(labelKeys=["*", "*/*"], subNamespaceLabelKeys=["*", "*/*"])
    root(world, "r", {word: "privileged", "kubernetes.io/metadata.name": "r"})
    sub(world, "a", "r")
    a_sub(world, "a", "r", labels={word: "privileged", PARENT: "elsewhere", TYPE: "root"})
    settled(world)
    assert labels(world, "a") == {PARENT: "r", CREATED_BY: "accurate"}


def test_row_23_a_pod_security_key_is_inherited_if_it_is_listed_literally() -> None:
    word = "pod-security.kubernetes.io/enforce"
    world = a_world(labelKeys=[word])
    root(world, "r", {word: "baseline"})
    sub(world, "a", "r")
    settled(world)
    assert labels(world, "a")[word] == "baseline"


def test_a_sub_namespace_keeps_its_own_created_by_label_whatever_the_lists_admit() -> None:
    world = a_world(labelKeys=["app.kubernetes.io/created-by"], subNamespaceLabelKeys=["app.kubernetes.io/created-by"])
    root(world, "r", {CREATED_BY: "somebody"})
    sub(world, "a", "r")
    a_sub(world, "a", "r", labels={CREATED_BY: "somebody"})
    settled(world)
    assert labels(world, "a") == {PARENT: "r", CREATED_BY: "accurate"}


def test_the_empty_configuration_inherits_nothing() -> None:
    assert config.read({}).label_keys.admitted({"team": "red"}) == {}


def with_words_of_its_own() -> World:
    """A sub-namespace that got labels from a SubNamespace that is gone now."""
    world = a_world()
    root(world), sub(world, "a", "r")
    made = a_sub(world, "a", "r", labels={"size": "big"})
    settled(world)
    assert labels(world, "a")["size"] == "big"
    del world.objects[made.ref]
    return world


def test_labels_of_a_sub_namespace_resource_stay_while_its_crd_is_deleted() -> None:
    world = with_words_of_its_own()
    world.revoked.add(SUB_NAMESPACE)
    settled(world)
    assert labels(world, "a")["size"] == "big"


def test_labels_of_a_sub_namespace_resource_stay_while_it_is_only_missing_in_a_list() -> None:
    world = with_words_of_its_own()
    reads = world.registry[TREE].desired(namespace_ref("a"), world).reads
    world.values.update({reads[0]: True, IsGone(Ref(SUB_NAMESPACE, "r", "a")): False})
    assert plan_of(key("a"), world, ClusterPolicy()).writes == ()


def test_nothing_is_read_for_a_terminating_namespace() -> None:
    world = with_words_of_its_own()
    world.terminate("a")
    assert world.registry[TREE].desired(namespace_ref("a"), world).reads == ()


def test_labels_of_a_sub_namespace_resource_are_removed_with_it() -> None:
    world = with_words_of_its_own()
    settled(world)
    assert "size" not in labels(world, "a")
