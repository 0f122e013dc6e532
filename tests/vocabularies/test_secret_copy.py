"""The Secret copy vocabulary, by the numbers of the rules in its specification."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.support import toys
from tests.support.settle import plan_of, settle
from tests.support.world import World, at, secret

from samara.core.desired import Adopt
from samara.core.metadata_keys import ADOPTED, RELEASED
from samara.core.model import FIELD_MANAGER, Content, Key, Object, OwnerReference, namespace_ref
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.core.writes import Create, Delete, Plan, Recreate, Release, Update
from samara.vocabularies import secret_copy
from samara.vocabularies.secret_copy import FROM, ORIGIN, TARGETS

SOURCE = at("admin", "db")
KEY = Key("secret-copy", SOURCE)
RULES = ClusterPolicy(protected=("kube-*",))
MARKS: dict[str, Any] = {"labels": {FROM: "admin-db"}, "annotations": {ORIGIN: "admin/db"}}


def a_world(value: str | None = "", gone: str = "keep", adopt: Adopt = Adopt.IDENTICAL) -> World:
    world = World(toys.registry(gone, adopt))
    for name in ("admin", "a", "b", "kube-system"):
        world.namespace(name)
    world.put(SOURCE, secret(), annotations={} if value is None else {TARGETS: value})
    return world


def planned(world: World) -> Plan:
    return plan_of(KEY, world, RULES)


def filled(world: World) -> set[str]:
    settle(world, RULES)
    return {ref.namespace for ref in world.objects if ref.name == "db" and ref != SOURCE}


def annotate(world: World, value: str) -> None:
    world.edit(SOURCE, annotations={TARGETS: value})


def copy(world: World, namespace: str = "a") -> Object:
    return world.objects[at(namespace, "db")]


def test_rule_1_a_secret_in_the_home_namespace_with_the_annotation_is_a_source() -> None:
    assert filled(a_world("a")) == {"a"}


def test_rule_1_any_other_secret_is_ignored() -> None:
    world = a_world(None)
    world.put(at("a", "other"), secret(), annotations={TARGETS: "b"})
    assert settle(world, RULES) == []


LISTS = [
    ("", {"a", "b", "kube-system"}),
    ("  ", {"a", "b", "kube-system"}),
    ("\n", {"a", "b", "kube-system"}),
    ("a", {"a"}),
    (" a , b ", {"a", "b"}),
    ("a,,a,", {"a"}),
    ('"a","b"', {"a", "b"}),
    ("admin,a", {"a"}),
    ("admin", set[str]()),
    (",", set[str]()),
    ("Bad_Name", set[str]()),
    ("Bad_Name,a", {"a"}),
    ("kube-system", {"kube-system"}),
    ("zz,a", {"a"}),
]


@pytest.mark.parametrize(("value", "namespaces"), LISTS)
def test_rule_2_the_list_names_the_namespaces_of_the_copies(value: str, namespaces: set[str]) -> None:
    assert filled(a_world(value)) == namespaces


@pytest.mark.parametrize("value", [",", "Bad_Name", "a,Bad_Name", '""', "a\nb", "../x"])
def test_rule_2_an_illegal_namespace_name_is_reported(value: str) -> None:
    (fault,) = planned(a_world(value)).faults
    assert fault.reason == "Invalid"
    assert TARGETS in fault.message


@pytest.mark.parametrize("value", ["", "a", "admin", "zz", " a , a "])
def test_rule_2_a_valid_list_is_not_reported(value: str) -> None:
    assert planned(a_world(value)).faults == ()


def test_rule_2_one_illegal_name_does_not_stop_the_ten_legal_ones() -> None:
    good = [f"n{number}" for number in range(10)]
    world = a_world(",".join([*good, "Not Good"]))
    for name in good:
        world.namespace(name)
    assert filled(world) == set(good)
    assert "'Not Good'" in planned(world).faults[0].message


def test_rule_3_a_copy_has_type_data_and_marks_and_no_other_metadata() -> None:
    world = a_world("a")
    annotations = {TARGETS: "a", "kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "x"}
    owners = (OwnerReference("v1", "Pod", "p", "u"),)
    world.edit(
        SOURCE, content=secret(immutable=True), labels={"team": "red"}, annotations=annotations, owner_references=owners
    )
    settle(world, RULES)
    have = copy(world)
    assert have.content == secret()
    assert (dict(have.labels), dict(have.annotations)) == ({FROM: "admin-db"}, {ORIGIN: "admin/db"})
    assert have.owner_references == ()


def test_rule_3_a_name_too_long_for_a_label_gets_a_legal_label() -> None:
    world = a_world(None)
    world.put(at("admin", "x" * 253), secret(), annotations={TARGETS: "a"})
    settle(world, RULES)
    have = world.objects[at("a", "x" * 253)]
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", have.labels[FROM])
    assert have.annotations[ORIGIN] == "admin/" + "x" * 253


def test_rule_4_a_copy_that_differs_in_data_is_repaired() -> None:
    world = a_world("a")
    settle(world, RULES)
    world.edit(SOURCE, content=secret("new"))
    (write,) = settle(world, RULES)
    assert isinstance(write, Update)
    assert copy(world).content == secret("new")


@pytest.mark.parametrize("changes", [{"labels": {}}, {"labels": {FROM: "other"}}])
def test_rule_4_a_copy_that_differs_in_marks_is_repaired(changes: dict[str, dict[str, str]]) -> None:
    world = a_world("a")
    settle(world, RULES)
    world.edit(copy(world).ref, labels=changes["labels"])
    (write,) = settle(world, RULES)
    assert isinstance(write, Update)
    assert copy(world).labels == {FROM: "admin-db"}


def test_rule_4_an_equal_copy_causes_no_write() -> None:
    world = a_world()
    settle(world, RULES)
    assert planned(world).writes == ()


def test_rule_4_a_changed_type_recreates_the_copy() -> None:
    world = a_world("a")
    settle(world, RULES)
    before = copy(world).uid
    world.delete(SOURCE)
    world.put(SOURCE, secret("one", "kubernetes.io/tls"), annotations={TARGETS: "a"})
    (write,) = settle(world, RULES)
    assert isinstance(write, Recreate)
    assert write.live.uid == before
    assert copy(world).content == secret("one", "kubernetes.io/tls")


def test_rule_5_a_copy_whose_namespace_left_the_list_is_deleted() -> None:
    world = a_world("a,b")
    settle(world, RULES)
    annotate(world, "b")
    (write,) = settle(world, RULES)
    assert isinstance(write, Delete)
    assert filled(world) == {"b"}


@pytest.mark.parametrize("gone", ["keep", "delete"])
def test_rule_5_a_copy_whose_namespace_left_a_list_with_a_mistake_is_deleted_too(gone: str) -> None:
    world = a_world("a,b", gone=gone)
    settle(world, RULES)
    annotate(world, "b,B_B")
    assert [fault.reason for fault in planned(world).faults] == ["Invalid"]
    assert filled(world) == {"b"}


def test_rule_5_a_pasted_or_forged_copy_outside_the_list_stays() -> None:
    world = a_world("a")
    settle(world, RULES)
    world.paste(copy(world).ref, "b")
    world.put(at("kube-system", "db"), secret(), **MARKS)
    assert settle(world, RULES) == []


def test_rule_6_a_new_namespace_gets_its_copies() -> None:
    for value in ("", "new"):
        world = a_world(value)
        settle(world, RULES)
        new = world.namespace("new")
        woken = [key for key in world.registry.keys_to_reconcile(new, world) if key.source_type == "secret-copy"]
        assert woken == [KEY.in_namespace("new")]
        (write,) = plan_of(woken[0], world, RULES).writes
        assert isinstance(write, Create)


def test_rule_6_a_namespace_that_does_not_exist_yet_is_waited_for() -> None:
    result = planned(a_world("zz"))
    assert (result.writes, result.faults) == ((), ())
    assert [blocked.reason for blocked in result.blocked] == ["no-namespace"]


def test_rule_6_a_terminating_namespace_is_left_alone() -> None:
    world = a_world("a,b")
    world.terminate("a")
    assert filled(world) == {"b"}


def test_rule_6_a_source_for_every_namespace_does_not_wait_for_a_terminating_one() -> None:
    world = a_world("")
    world.terminate("a")
    assert planned(world).blocked == ()
    assert "a" not in filled(world)


def test_rule_7_an_edited_or_deleted_copy_comes_back() -> None:
    world = a_world("a,b")
    settle(world, RULES)
    world.edit(copy(world).ref, content=secret("edited"))
    world.delete(copy(world, "b").ref)
    assert filled(world) == {"a", "b"}
    assert copy(world).content == copy(world, "b").content == secret()


def ask_no_more(world: World) -> None:
    world.edit(SOURCE, annotations={})


def delete_it(world: World) -> None:
    world.delete(SOURCE)


ENDS = (delete_it, ask_no_more)


def test_rule_8_by_default_the_copies_outlive_their_source() -> None:
    for end in ENDS:
        world = a_world("a", gone="keep")
        settle(world, RULES)
        end(world)
        assert settle(world, RULES) == []


def test_rule_8_with_on_source_gone_delete_the_copies_are_deleted_with_their_source() -> None:
    for end in ENDS:
        world = a_world("a,b", gone="delete")
        settle(world, RULES)
        end(world)
        assert filled(world) == set()


def test_rule_8_with_on_source_gone_delete_a_deletion_during_downtime_also_counts() -> None:
    world = a_world(None, gone="delete")
    world.delete(SOURCE)
    world.put(at("a", "db"), secret(), FIELD_MANAGER, **MARKS)
    assert filled(world) == set()


@pytest.mark.parametrize(("gone", "left"), [("delete", set()), ("keep", {"a"})])
def test_rule_8_a_terminating_source_counts_as_gone(gone: str, left: set[str]) -> None:
    world = a_world("a", gone=gone)
    settle(world, RULES)
    world.edit(SOURCE, finalizers=("somebody/else",), deleting=True)
    assert filled(world) == left


@pytest.mark.parametrize("adopt", [Adopt.IDENTICAL, Adopt.ANY])
@pytest.mark.parametrize("theirs", [secret(), secret(immutable=True)], ids=["the same", "made immutable"])
def test_rule_9_an_identical_object_is_adopted_and_later_only_loses_our_marks(adopt: Adopt, theirs: Content) -> None:
    """An identical object is adopted, also under `conflicts: overwrite`."""
    world = a_world("a", gone="delete", adopt=adopt)
    world.put(at("a", "db"), theirs, labels={"app": "theirs"})
    settle(world, RULES)
    assert copy(world).content == theirs
    assert copy(world).annotations == {ORIGIN: "admin/db", ADOPTED: "true"}
    world.delete(SOURCE)
    (write,) = settle(world, RULES)
    assert isinstance(write, Release)
    assert (dict(copy(world).labels), dict(copy(world).annotations)) == ({"app": "theirs"}, {RELEASED: "true"})


def test_rule_4_a_copy_that_was_made_immutable_is_in_sync_until_its_source_changes() -> None:
    world = a_world("a")
    settle(world, RULES)
    world.edit(at("a", "db"), content=secret(immutable=True))
    assert settle(world, RULES) == []
    world.edit(at("a", "db"), labels={})
    (write,) = settle(world, RULES)
    assert isinstance(write, Update), "the marks are repaired, and the content stays"
    assert copy(world).content == secret(immutable=True)
    world.edit(SOURCE, content=secret("two"))
    (write,) = settle(world, RULES)
    assert isinstance(write, Recreate)
    assert copy(world).content == secret("two")


def test_rule_9_a_different_object_is_left_alone_and_reported() -> None:
    world = a_world("a")
    theirs = world.put(at("a", "db"), secret("theirs"))
    (blocked,) = planned(world).blocked
    assert blocked.reason == "conflict"
    settle(world, RULES)
    assert copy(world) is theirs


def test_rule_9_the_conflict_ends_when_the_foreign_object_is_deleted_or_becomes_identical() -> None:
    world = a_world("a")
    world.put(at("a", "db"), secret("theirs"))
    settle(world, RULES)
    world.edit(at("a", "db"), content=secret())
    assert isinstance(planned(world).writes[0], Update)
    world.delete(at("a", "db"))
    assert isinstance(planned(world).writes[0], Create)


def test_rule_9_overwrite_updates_a_different_object() -> None:
    world = a_world("a", adopt=Adopt.ANY)
    world.put(at("a", "db"), secret("theirs"))
    settle(world, RULES)
    assert copy(world).content == secret()


@pytest.mark.parametrize(
    "kind", ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1"]
)
def test_rule_10_credentials_of_the_cluster_are_never_copied_and_reported(kind: str) -> None:
    world = a_world("a")
    world.edit(SOURCE, content=secret("one", kind))
    result = planned(world)
    assert result.writes == ()
    assert [(blocked.reason, kind in blocked.message) for blocked in result.blocked] == [("refused", True)]


def test_only_the_configured_home_namespace_has_sources() -> None:
    world = World(Registry((secret_copy.source_type("vault"),)))
    for name in ("admin", "vault", "a"):
        world.namespace(name)
    world.put(at("vault", "db"), secret(), annotations={TARGETS: "a"})
    world.put(at("admin", "x"), secret(), annotations={TARGETS: "a"})
    settle(world)
    assert copy(world).annotations == {ORIGIN: "vault/db"}
    assert copy(world).labels == {FROM: "vault-db"}
    assert at("a", "x") not in world.objects


def test_the_home_namespace_never_gets_a_copy() -> None:
    world = a_world("")
    assert namespace_ref("admin") in world.objects
    assert all(write.ref.namespace != "admin" for write in settle(world, RULES))
