"""The sync-to vocabulary, by the numbers of the rules in its specification."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.settle import plan_of, settle
from tests.support.toys import COPYABLE, a_sync_to
from tests.support.world import World, at, content, secret

from samara.assembly import registry_of
from samara.core.admission import Request
from samara.core.desired import Adopt, Desired
from samara.core.metadata_keys import ACCEPT, ADOPTED, RELEASED
from samara.core.model import (
    CONFIG_MAP,
    FIELD_MANAGER,
    SECRET,
    Content,
    Key,
    Kind,
    KindName,
    Object,
    ObjectName,
    Ref,
    namespace_ref,
)
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.core.restrictions import disabled
from samara.core.view import NamespaceView
from samara.core.writes import Create, Delete, Plan, Recreate, Release, Update
from samara.settings import CopiedMetadata, NeverCopied, Settings
from samara.vocabularies import secret_copy
from samara.vocabularies.secret_copy import TARGETS
from samara.vocabularies.sync_to import FROM, NAME, SYNC_TO, SYNC_TO_NAMESPACES, listed_names, parse, parse_for

SOURCE = at("team", "db")
KEY = Key("sync-to", SOURCE)
RULES = ClusterPolicy(protected=("kube-*",))
EVERY = {SYNC_TO: "cluster"}
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")


def to(*names: str) -> dict[str, str]:
    return {SYNC_TO: "namespaces", SYNC_TO_NAMESPACES: ";".join(names)}


def a_registry(kinds: tuple[Kind, ...] = (SECRET, CONFIG_MAP), **settings: Any) -> Registry:
    return Registry(
        (
            secret_copy.source_type("admin"),
            a_sync_to(kinds, **settings),
        )
    )


def a_world(annotations: dict[str, str] | None = None, registry: Registry | None = None) -> World:
    world = World(registry or a_registry())
    for name in ("admin", "team", "a", "b", "kube-system"):
        world.namespace(name)
    world.put(SOURCE, secret(), annotations=EVERY if annotations is None else annotations)
    return world


def planned(world: World, key: Key = KEY) -> Plan:
    return plan_of(key, world, RULES)


def filled(world: World, source: Ref = SOURCE) -> set[str]:
    settle(world, RULES)
    places = [ref for ref in world.objects if (ref.kind, ref.name) == (source.kind, source.name)]
    return {ref.namespace for ref in places if ref != source}


def annotate(world: World, annotations: dict[str, str]) -> None:
    world.edit(SOURCE, annotations=annotations)


def copy(world: World, namespace: str = "a") -> Object:
    return world.objects[at(namespace, "db")]


@pytest.mark.parametrize("is_discreet", [True, False])
def test_under_strict_tenancy_no_message_names_the_source_of_another_namespace_that_has_the_address(
    is_discreet: bool,
) -> None:
    world = a_world(to("a"), a_registry(is_discreet=is_discreet))
    world.put(at("b", "db"), secret(), annotations=to("a"))
    winner = "a source of another namespace" if is_discreet else "sync-to/Secret/b/db"
    assert [target.message for target in planned(world).blocked] == [f"{winner} has this address"]


def desired_by(world: World, source: Ref = SOURCE) -> Desired:
    return world.registry["sync-to"].desired(source, world)


# 1. A source is an object of a served kind with the annotation, in any namespace, that is not itself a copy


@pytest.mark.parametrize("kind", [SECRET, CONFIG_MAP])
@pytest.mark.parametrize("namespace", ["team", "default", "kube-system"])
def test_rule_1_a_source_is_an_object_of_a_served_kind_with_the_annotation_in_any_namespace(
    kind: Kind, namespace: str
) -> None:
    world = a_world({})
    source = at(namespace, "x", kind)
    world.put(source, content(data={"k": "v"}), annotations=to("a"))
    assert filled(world, source) == {"a"}


def test_rule_1_an_object_of_another_kind_or_without_the_annotation_is_no_source() -> None:
    world = a_world({SYNC_TO_NAMESPACES: "a"})
    world.put(at("team", "x", SERVICE_ACCOUNT), annotations=EVERY)
    assert settle(world, RULES) == []
    assert world.sources("sync-to") == []


def test_rule_1_a_copy_with_the_annotation_is_no_source() -> None:
    world = a_world(to("a"))
    settle(world, RULES)
    world.edit(copy(world).ref, annotations={**copy(world).annotations, **to("b")})
    assert settle(world, RULES) == []
    assert world.sources("sync-to") == [SOURCE]


PASTED = [{FROM: "b/db"}, {secret_copy.ORIGIN: "admin/db"}]


@pytest.mark.parametrize("mark", PASTED, ids=["own mark", "mark of another vocabulary"])
def test_rule_1_a_mark_pasted_onto_a_source_does_not_switch_it_off_and_is_reported(mark: dict[str, str]) -> None:
    world = a_world(to("a"))
    assert filled(world) == {"a"}
    world.edit(SOURCE, annotations={**to("a"), **mark}, content=secret("two"))
    settle(world, RULES)
    assert copy(world).content == secret("two")
    (fault,) = planned(world).faults
    assert (fault.reason, "remove the marks" in fault.message) == ("Invalid", True)
    world.edit(SOURCE, annotations=to("b"))
    assert filled(world) == {"b"}
    assert planned(world).faults == ()


@pytest.mark.parametrize("mark", PASTED, ids=["own mark", "mark of another vocabulary"])
def test_rule_1_an_object_whose_mark_names_a_source_that_wants_it_there_is_no_source(mark: dict[str, str]) -> None:
    world = a_world({})
    (value,) = mark.values()
    namespace, _, name = value.partition("/")
    requests = {secret_copy.TARGETS: "team"} if namespace == "admin" else to("team")
    world.put(at(namespace, name), secret(), annotations=requests)
    labels = {FROM: "b-db"} if FROM in mark else {secret_copy.FROM: "admin-db"}
    world.edit(SOURCE, annotations={**to("a"), **mark}, labels=labels)
    assert filled(world) == {namespace}
    assert KEY not in world.source_keys()
    world.edit(at(namespace, name), annotations={})
    assert "a" in filled(world), "its mark is not proven, so it is a source as soon as nobody wants it there"


def test_rule_1_a_copy_of_another_vocabulary_with_the_annotation_is_no_source() -> None:
    world = a_world({})
    world.put(at("admin", "x"), secret(), annotations={secret_copy.TARGETS: "a"})
    settle(world, RULES)
    world.edit(at("a", "x"), annotations={**world.objects[at("a", "x")].annotations, **EVERY})
    assert settle(world, RULES) == []


@pytest.mark.parametrize(
    ("mark", "kind"),
    [
        ("a/db", SECRET),  # its own namespace
        ("team/other", SECRET),
        ("/db", SECRET),
        ("db", SECRET),
        ("Bad_Name/db", SECRET),
        ("team/db/more", SECRET),
        ("", SECRET),
        ("team/db", SERVICE_ACCOUNT),
    ],
)
def test_rule_1_a_mark_that_names_no_possible_source_is_ignored(mark: str, kind: Kind) -> None:
    world = a_world()
    marked = world.put(at("a", "db", kind), secret(), annotations={FROM: mark})
    assert world.registry["sync-to"].ownership.source_of(marked, world) is None


# 2. `cluster`: every namespace except the source's own, terminating and protected ones. `namespaces`: those in a list


def test_rule_2_cluster_is_every_namespace_except_its_own_and_the_protected() -> None:
    assert filled(a_world()) == {"admin", "a", "b"}


def test_rule_2_cluster_does_not_report_protected_or_missing_namespaces() -> None:
    assert planned(a_world({**EVERY, SYNC_TO_NAMESPACES: "zz"})).blocked == ()


def test_rule_2_terminating_namespaces_are_left_alone() -> None:
    world = a_world()
    world.terminate("a")
    assert filled(world) == {"admin", "b"}


LISTS = [
    ("a", {"a"}),
    ("a;b", {"a", "b"}),
    ("a,b", {"a", "b"}),
    ("a b", {"a", "b"}),
    (" a ;\n\tb ,; ", {"a", "b"}),
    ("a;a,a", {"a"}),
    ("team;a", {"a"}),
    ("team", set[str]()),
    ("zz;a", {"a"}),
]


@pytest.mark.parametrize("word", ["namespaces", "namespace", " namespaces\n"])
@pytest.mark.parametrize(("listed", "namespaces"), LISTS)
def test_rule_2_namespaces_are_those_listed_except_its_own(word: str, listed: str, namespaces: set[str]) -> None:
    world = a_world({SYNC_TO: word, SYNC_TO_NAMESPACES: listed})
    assert planned(world).faults == ()
    assert filled(world) == namespaces


def test_rule_2_a_listed_namespace_that_does_not_exist_yet_is_waited_for() -> None:
    result = planned(a_world(to("zz")))
    assert (result.writes, result.faults) == ((), ())
    assert [blocked.reason for blocked in result.blocked] == ["no-namespace"]


def test_rule_2_a_protected_namespace_is_refused_even_when_listed_by_name() -> None:
    world = a_world(to("kube-system", "a"))
    (blocked,) = planned(world).blocked
    assert (blocked.reason, "kube-system is protected" in blocked.message) == ("refused", True)
    assert filled(world) == {"a"}


def test_rule_2_an_object_of_the_operator_is_never_a_target() -> None:
    rules = ClusterPolicy(operators_own=frozenset({at("a", SOURCE.name)}))
    world = a_world(to("a", "b"))
    (blocked,) = plan_of(KEY, world, rules).blocked
    assert (blocked.ref.namespace, blocked.reason) == ("a", "refused")
    assert blocked.message == "the object of this name there belongs to the operator"
    everywhere = plan_of(KEY, a_world(), rules)
    assert "a" not in {write.ref.namespace for write in everywhere.writes}
    assert everywhere.blocked == ()


def test_rule_2_a_namespace_taken_off_the_protected_list_in_the_settings_is_a_target() -> None:
    world = a_world(to("kube-system"))
    (write,) = plan_of(KEY, world, ClusterPolicy()).writes
    assert write.ref.namespace == "kube-system"


# 3. The copy has the same name and content, and the labels and annotations that may be copied


def test_rule_3_a_copy_has_all_of_the_content() -> None:
    world = a_world({})
    source = at("team", "x", CONFIG_MAP)
    everything = content(data={"k": "v"}, binaryData={"b": "AA=="}, immutable=True)
    world.put(source, everything, annotations=to("a"))
    settle(world, RULES)
    assert world.objects[at("a", "x", CONFIG_MAP)].content == everything


STAYS = {
    "kubectl.kubernetes.io/last-applied-configuration": "{}",
    "argocd.argoproj.io/tracking-id": "t",
    "meta.helm.sh/release-name": "r",
    "app.kubernetes.io/managed-by": "Helm",
    secret_copy.TARGETS: "",
    secret_copy.FROM: "x",
    "samara.dev/paused": "false",
}


def test_rule_3_labels_and_annotations_are_copied_except_those_of_tools_and_vocabularies() -> None:
    world = a_world()
    world.edit(
        SOURCE, annotations={**STAYS, **to("a"), "note": "n"}, labels={**STAYS, SYNC_TO_NAMESPACES: "x", "team": "red"}
    )
    settle(world, RULES)
    assert dict(copy(world).labels) == {"team": "red", FROM: "team-db"}
    assert dict(copy(world).annotations) == {"note": "n", FROM: "team/db"}


def test_rule_3_keys_that_the_settings_exclude_are_not_copied() -> None:
    kept = replace(COPYABLE, never_labels=("shop.example/*",), never_annotations=("note",))
    world = a_world(registry=Registry((a_sync_to(copyable=kept.of_source),)))
    metadata = {"shop.example/team": "x", "note": "n"}
    world.edit(SOURCE, annotations={**to("a"), **metadata}, labels=metadata)
    settle(world, RULES)
    assert dict(copy(world).labels) == {"note": "n", FROM: "team-db"}
    assert dict(copy(world).annotations) == {"shop.example/team": "x", FROM: "team/db"}


def test_rule_3_a_label_removed_from_the_source_leaves_the_copies_and_foreign_labels_stay() -> None:
    world = a_world(to("a"))
    world.edit(SOURCE, labels={"team": "red"})
    settle(world, RULES)
    world.edit(copy(world).ref, labels={**copy(world).labels, "theirs": "x"})
    world.edit(SOURCE, labels={})
    settle(world, RULES)
    assert dict(copy(world).labels) == {"theirs": "x", FROM: "team-db"}


def test_rule_3_under_strict_tenancy_only_the_listed_labels_and_annotations_are_copied() -> None:
    listed = CopiedMetadata(labels=("team", "velero.io/*"), annotations=("docs/*",))
    for settings, labels, notes in (({}, {}, {}), ({"copied_metadata": listed}, {"team": "red"}, {"docs/url": "u"})):
        world = strict_world({}, **settings)
        words = {"team": "red", "power": "much", "velero.io/backup": "b"}
        world.edit(SOURCE, labels=words, annotations={**to("a"), "note": "n", "docs/url": "u"})
        settle(world, RULES)
        assert dict(copy(world).labels) == {**labels, FROM: "team-db"}
        assert dict(copy(world).annotations) == {**notes, FROM: "team/db"}


def test_without_strict_tenancy_the_setting_of_copied_metadata_has_no_effect() -> None:
    world = a_world(to("a"), registry_of(Settings(copied_metadata=CopiedMetadata(labels=("other",)))))
    world.edit(SOURCE, labels={"team": "red"})
    settle(world, RULES)
    assert dict(copy(world).labels) == {"team": "red", FROM: "team-db"}


def test_rule_3_a_name_too_long_for_a_label_gets_a_legal_token() -> None:
    world = a_world({})
    world.put(at("team", "x" * 253), secret(), annotations=to("a"))
    settle(world, RULES)
    have = world.objects[at("a", "x" * 253)]
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", have.labels[FROM])
    assert have.annotations[FROM] == "team/" + "x" * 253


# 4. Consent. Invalid values are refused at admission; without admission they are reported and change no copy


def test_rule_4_with_consent_a_namespace_is_written_only_if_it_accepts() -> None:
    world = a_world(registry=a_registry(consent=True))
    world.edit(namespace_ref("a"), annotations={ACCEPT: "team"})
    world.edit(namespace_ref("b"), annotations={ACCEPT: "team:ConfigMap/db, other"})
    assert filled(world) == {"a"}
    assert {blocked.reason for blocked in planned(world).blocked} == {"not-accepted"}


def test_rule_4_withdrawn_consent_deletes_the_copy() -> None:
    world = a_world(registry=a_registry(consent=True))
    world.edit(namespace_ref("a"), annotations={ACCEPT: "*"})
    settle(world, RULES)
    world.edit(namespace_ref("a"), annotations={})
    (write,) = settle(world, RULES)
    assert isinstance(write, Delete)
    assert write.revoked
    assert write.why == "namespace a does not accept team/db: samara.dev/accept-from must name team"


def test_rule_4_withdrawn_consent_deletes_the_copy_also_while_the_annotation_is_invalid() -> None:
    world = a_world(registry=a_registry(consent=True))
    world.edit(namespace_ref("a"), annotations={ACCEPT: "team"})
    world.edit(namespace_ref("b"), annotations={ACCEPT: "team"})
    settle(world, RULES)
    world.edit(SOURCE, annotations={SYNC_TO: "everywhere"})
    assert filled(world) == {"a", "b"}
    world.edit(namespace_ref("a"), annotations={})
    assert filled(world) == {"b"}


def test_rule_4_a_disabled_vocabulary_keeps_its_copies_after_consent_is_withdrawn() -> None:
    world = a_world(registry=a_registry(consent=True))
    world.edit(namespace_ref("a"), annotations={ACCEPT: "team"})
    settle(world, RULES)
    world.registry = Registry((disabled(a_registry(consent=True)[NAME], (SECRET,)),))
    world.edit(namespace_ref("a"), annotations={})
    assert filled(world) == {"a"}


INVALID = [
    ({SYNC_TO: "everywhere"}, SYNC_TO, "'everywhere'", "'cluster'"),
    ({SYNC_TO: ""}, SYNC_TO, "''", "'namespaces'"),
    ({SYNC_TO: "Cluster"}, SYNC_TO, "'Cluster'", "'cluster'"),
    ({SYNC_TO: "ns-1;ns-2"}, SYNC_TO, "'ns-1;ns-2'", "'namespaces'"),
    ({SYNC_TO: "namespaces"}, SYNC_TO_NAMESPACES, "''", "ns-1;ns-2"),
    ({SYNC_TO: "namespaces", SYNC_TO_NAMESPACES: " ;, \n"}, SYNC_TO_NAMESPACES, "' ;, \\n'", "ns-1;ns-2"),
    ({SYNC_TO: "namespaces", SYNC_TO_NAMESPACES: "Bad_Name"}, SYNC_TO_NAMESPACES, "'Bad_Name'", "ns-1;ns-2"),
    ({SYNC_TO: "namespaces", SYNC_TO_NAMESPACES: "a;*"}, SYNC_TO_NAMESPACES, "'*'", "ns-1;ns-2"),
    ({SYNC_TO: "namespace", SYNC_TO_NAMESPACES: "a;../x"}, SYNC_TO_NAMESPACES, "'../x'", "ns-1;ns-2"),
]


def annotated(annotations: dict[str, str], ref: Ref = SOURCE) -> Object:
    return Object(ref, "u", 1, annotations=annotations)


def admitted(
    new: Object | None, old: Object | None = None, operation: Literal["CREATE", "UPDATE", "DELETE"] = "CREATE"
) -> tuple[str, ...]:
    world = a_world()
    admission = world.registry["sync-to"].admission
    assert admission is not None
    return admission.validate(Request(operation, new, old), world)


@pytest.mark.parametrize(("annotations", "key", "value", "accepted"), INVALID)
def test_rule_4_a_refusal_at_admission_names_the_key_the_value_and_the_accepted_ones(
    annotations: dict[str, str], key: str, value: str, accepted: str
) -> None:
    (refusal,) = admitted(annotated(annotations))
    assert refusal.startswith(f"{key} ")
    assert value in refusal
    assert accepted in refusal


@pytest.mark.parametrize(
    "annotations", [EVERY, to("a"), to("zz", "team"), {}, {SYNC_TO_NAMESPACES: "a"}, {SYNC_TO_NAMESPACES: "Bad_Name"}]
)
def test_rule_4_valid_values_are_admitted_and_so_is_a_list_without_sync_to(annotations: dict[str, str]) -> None:
    assert admitted(annotated(annotations)) == ()


def test_rule_4_the_annotation_can_be_cleared_while_the_list_stays() -> None:
    assert admitted(annotated({SYNC_TO_NAMESPACES: "a"}), annotated(to("a")), "UPDATE") == ()


def test_rule_4_a_stored_mistake_does_not_stop_other_changes_or_a_deletion() -> None:
    bad = {SYNC_TO: "everywhere"}
    assert admitted(annotated({**bad, "note": "n"}), annotated(bad), "UPDATE") == ()
    assert admitted(annotated(bad), annotated(EVERY), "UPDATE") != ()
    assert admitted(None, annotated(bad), "DELETE") == ()


def test_rule_4_admission_covers_every_served_kind() -> None:
    admission = a_registry((CONFIG_MAP,))["sync-to"].admission
    assert admission is not None
    assert admission.kinds == (CONFIG_MAP,)


def test_rule_4_kinds_that_are_not_served_are_not_validated() -> None:
    assert admitted(annotated({SYNC_TO: "everywhere"}, at("team", "x", SERVICE_ACCOUNT))) == ()


@pytest.mark.parametrize(("annotations", "key", "value", "accepted"), INVALID)
def test_rule_4_without_admission_the_mistake_is_reported_and_existing_copies_stay(
    annotations: dict[str, str], key: str, value: str, accepted: str
) -> None:
    world = a_world(to("a", "b"))
    settle(world, RULES)
    annotate(world, annotations)
    (fault,) = planned(world).faults
    assert (fault.reason, fault.message.startswith(f"{key} ")) == ("Invalid", True)
    assert (value in fault.message, accepted in fault.message) == (True, True)
    assert settle(world, RULES) == []


def test_rule_4_one_illegal_name_is_reported_and_the_ten_legal_ones_are_served() -> None:
    good = [f"n{number}" for number in range(10)]
    world = a_world(to(*good, "Not_Good"))
    for name in good:
        world.namespace(name)
    assert filled(world) == set(good)
    assert "'Not_Good'" in planned(world).faults[0].message


def test_rule_4_when_the_mistake_is_corrected_copies_outside_the_list_are_deleted() -> None:
    world = a_world(to("a", "b"))
    settle(world, RULES)
    annotate(world, to("a", "B"))
    assert filled(world) == {"a", "b"}
    annotate(world, to("a"))
    assert filled(world) == {"a"}


# 5. Annotation cleared or changed, source deleted


def deleted(world: World) -> None:
    world.delete(SOURCE)


def cleared(world: World) -> None:
    annotate(world, {SYNC_TO_NAMESPACES: "a;b"})


def going(world: World) -> None:
    world.edit(SOURCE, finalizers=("somebody/else",), deleting=True)


@pytest.mark.parametrize("end", [deleted, cleared, going])
@pytest.mark.parametrize("annotations", [EVERY, to("a", "b")])
def test_rule_5_clearing_the_annotation_or_deleting_the_source_deletes_all_copies(
    end: Callable[[World], None], annotations: dict[str, str]
) -> None:
    world = a_world(annotations)
    settle(world, RULES)
    end(world)
    assert filled(world) == set()


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [(to("a", "b"), to("b"), {"b"}), (EVERY, to("a"), {"a"}), (to("a", "b"), to("team"), set[str]())],
)
def test_rule_5_copies_outside_a_changed_list_are_deleted(
    before: dict[str, str], after: dict[str, str], left: set[str]
) -> None:
    world = a_world(before)
    settle(world, RULES)
    annotate(world, after)
    assert filled(world) == left


def test_rule_5_copies_of_a_source_deleted_during_downtime_are_deleted() -> None:
    world = a_world({})
    world.delete(SOURCE)
    marks: dict[str, Any] = {"labels": {FROM: "team-db"}, "annotations": {FROM: "team/db"}}
    world.put(at("a", "db"), secret(), FIELD_MANAGER, **marks)
    world.put(at("b", "db"), secret(), **marks)  # pasted or forged: not ours to delete
    assert filled(world) == {"b"}


def test_rule_5_a_mark_set_by_a_field_manager_of_the_settings_counts_as_ours() -> None:
    world = a_world({}, a_registry(managers=frozenset({"before-us"})))
    world.put(at("a", "db"), secret(), "before-us", annotations={FROM: "team/db"})
    world.put(at("b", "db"), secret(), "somebody", annotations={FROM: "team/db"})
    assert filled(world) == {"b"}


def test_rule_5_no_finalizer_is_put_on_a_source() -> None:
    world = a_world()
    assert desired_by(world).finalizer is None
    settle(world, RULES)
    assert world.objects[SOURCE].finalizers == ()


# 6. New namespaces


@pytest.mark.parametrize(
    ("annotations", "woken"), [(EVERY, True), (to("new"), True), (to("newer"), False), ({}, False)]
)
def test_rule_6_a_new_namespace_gets_all_cluster_sources_and_those_that_list_it(
    annotations: dict[str, str], woken: bool
) -> None:
    world = a_world(annotations)
    settle(world, RULES)
    new = world.namespace("new")
    keys = [key for key in world.registry.keys_to_reconcile(new, world) if key.source_type == "sync-to"]
    assert keys == ([KEY.in_namespace("new")] if woken else [])
    assert [type(write) for key in keys for write in planned(world, key).writes] == [Create] * woken


def test_rule_6_a_change_of_the_sources_own_namespace_reconciles_nothing() -> None:
    world = a_world(to("team", "a"))
    assert list(world.registry["sync-to"].affected_by(world.objects[namespace_ref("team")], world)) == []


def test_rule_6_a_namespace_deleted_and_created_again_gets_its_copy_again() -> None:
    world = a_world(to("a"))
    settle(world, RULES)
    world.delete(namespace_ref("a"))
    assert filled(world) == set()
    world.namespace("a")
    assert filled(world) == {"a"}


# 7. Foreign objects of the same name, and two sources that want the same address


def test_rule_7_an_identical_object_is_adopted_and_later_only_loses_our_marks() -> None:
    world = a_world(to("a"))
    world.put(at("a", "db"), secret(), labels={"app": "theirs"})
    settle(world, RULES)
    assert copy(world).annotations == {FROM: "team/db", ADOPTED: "true"}
    world.delete(SOURCE)
    (write,) = settle(world, RULES)
    assert isinstance(write, Release)
    assert (dict(copy(world).labels), dict(copy(world).annotations)) == ({"app": "theirs"}, {RELEASED: "true"})


def test_rule_7_a_different_object_is_reported_and_left_alone_until_it_is_deleted() -> None:
    world = a_world(to("a"))
    theirs = world.put(at("a", "db"), secret("theirs"))
    assert [blocked.reason for blocked in planned(world).blocked] == ["conflict"]
    settle(world, RULES)
    assert copy(world) is theirs
    world.delete(at("a", "db"))
    assert filled(world) == {"a"}


def test_rule_7_overwrite_takes_a_different_object_over_but_never_another_source() -> None:
    world = a_world(to("a", "b"), a_registry(adopt=Adopt.ANY))
    world.put(at("a", "db"), secret("theirs"))
    world.put(at("b", "db"), secret("source"), annotations=to("zz"))
    settle(world, RULES)
    assert copy(world).content == secret()
    assert copy(world, "b").content == secret("source")


def rivals(first: str, second: str) -> World:
    """The source in `team` and one of the same name in `b`, created at these times."""
    world = a_world({})
    world.put(SOURCE, secret("team"), annotations=to("a"), created=first)
    world.put(at("b", "db"), secret("b"), annotations=to("a"), created=second)
    return world


@pytest.mark.parametrize(
    ("first", "second", "has"), [("2025", "2026", "team"), ("2026", "2025", "b"), ("2026", "2026", "b")]
)
def test_rule_7_of_two_sources_the_older_wins_and_the_other_is_reported(first: str, second: str, has: str) -> None:
    world = rivals(first, second)
    settle(world, RULES)
    assert copy(world).annotations[FROM] == f"{has}/db"
    loser = KEY if has == "b" else Key("sync-to", at("b", "db"))
    (blocked,) = planned(world, loser).blocked
    assert (blocked.reason, f"/{has}/db" in blocked.message) == ("conflict", True)


def test_rule_7_a_vocabulary_of_higher_rank_wins_even_with_a_younger_source() -> None:
    world = a_world({})
    world.put(SOURCE, secret("team"), annotations=to("a"), created="2025")
    world.put(at("admin", "db"), secret("admin"), annotations={secret_copy.TARGETS: "a"}, created="2026")
    settle(world, RULES)
    assert copy(world).content == secret("admin")
    assert [blocked.reason for blocked in planned(world).blocked] == ["conflict"]


def test_rule_7_when_the_first_source_is_deleted_one_write_gives_its_copy_to_the_second() -> None:
    world = rivals("2025", "2026")
    settle(world, RULES)
    world.delete(SOURCE)
    (write,) = settle(world, RULES)
    assert isinstance(write, Update)
    assert (copy(world).content, copy(world).annotations[FROM]) == (secret("b"), "b/db")


def test_rule_7_two_sources_that_list_each_others_namespace_do_not_overwrite_each_other() -> None:
    world = a_world({})
    world.put(SOURCE, secret("team"), annotations=to("a", "b"), created="2025")
    world.put(at("b", "db"), secret("b"), annotations=to("a", "team"), created="2026")
    settle(world, RULES)
    assert (world.objects[SOURCE].content, copy(world, "b").content) == (secret("team"), secret("b"))
    assert copy(world).content == secret("team")


# 8. Edited or deleted copies; immutable objects and changed types


def test_rule_8_edited_or_deleted_copies_come_back() -> None:
    world = a_world(to("a", "b"))
    settle(world, RULES)
    world.edit(copy(world).ref, content=secret("edited"), labels={})
    world.delete(copy(world, "b").ref)
    assert filled(world) == {"a", "b"}
    assert copy(world).content == copy(world, "b").content == secret()
    assert copy(world).labels == {FROM: "team-db"}


def test_rule_8_an_equal_copy_causes_no_write() -> None:
    world = a_world()
    settle(world, RULES)
    assert planned(world).writes == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (secret("one"), secret("one", "kubernetes.io/tls")),
        (secret("one", immutable=True), secret("two", immutable=True)),
        (secret("one", immutable=True), secret("one")),
    ],
)
def test_rule_8_changed_types_and_immutable_objects_are_recreated(before: Content, after: Content) -> None:
    world = a_world({})
    world.put(SOURCE, before, annotations=to("a"))
    settle(world, RULES)
    uid = copy(world).uid
    world.put(SOURCE, after, annotations=to("a"))
    (write,) = settle(world, RULES)
    assert isinstance(write, Recreate)
    assert write.live.uid == uid
    assert copy(world).content == after


def test_rule_8_an_immutable_config_map_is_recreated() -> None:
    world, source, place = a_world({}), at("team", "x", CONFIG_MAP), at("a", "x", CONFIG_MAP)
    world.put(source, content(data={"k": "1"}, immutable=True), annotations=to("a"))
    settle(world, RULES)
    world.put(source, content(data={"k": "2"}, immutable=True), annotations=to("a"))
    (write,) = settle(world, RULES)
    assert isinstance(write, Recreate)
    assert world.objects[place].content == content(data={"k": "2"}, immutable=True)


# 9. `type: generic` is copied literally


def test_rule_9_type_generic_is_copied_literally() -> None:
    world = a_world({})
    world.put(SOURCE, secret("one", "generic"), annotations=to("a"))
    settle(world, RULES)
    kind = copy(world).content.get("type")
    assert kind is not None
    assert kind.raw == json.dumps("generic").encode()


# Rules of the core


@pytest.mark.parametrize("kind", ["kubernetes.io/service-account-token", "helm.sh/release.v1"])
def test_credentials_of_the_cluster_are_never_copied_and_reported(kind: str) -> None:
    world = a_world(to("a"))
    world.put(SOURCE, secret("one", kind), annotations=to("a"))
    result = planned(world)
    assert result.writes == ()
    assert [(blocked.reason, kind in blocked.message) for blocked in result.blocked] == [("refused", True)]


def test_the_root_ca_config_map_of_the_cluster_is_never_copied_and_reported() -> None:
    world = a_world({}, registry_of(Settings()))
    for namespace in ("team", "a", "b"):
        world.put(at(namespace, "kube-root-ca.crt", CONFIG_MAP), content(data={"ca.crt": "x"}))
    source = world.edit(at("team", "kube-root-ca.crt", CONFIG_MAP), annotations=EVERY)
    (fault,) = planned(world, Key("sync-to", source.ref)).faults
    assert (fault.reason, "never copied" in fault.message) == ("Refused", True)
    assert settle(world, RULES) == []


def test_a_kind_that_grants_access_is_never_copied_and_reported() -> None:
    world = a_world({}, a_registry((SERVICE_ACCOUNT,)))
    source = at("team", "x", SERVICE_ACCOUNT)
    world.put(source, annotations=to("a"))
    result = planned(world, Key("sync-to", source))
    assert (result.writes, [blocked.reason for blocked in result.blocked]) == ((), ["refused"])


def test_the_desired_copies_of_one_namespace_are_a_part_of_all_desired_copies() -> None:
    world = a_world(to("a", "zz", "Bad_Name"))
    complete = desired_by(world)
    for name in ("a", "b", "zz", "team"):
        part = world.registry["sync-to"].desired(SOURCE, NamespaceView(world, name))
        assert part.copies == tuple(copy for copy in complete.copies if copy.ref.namespace == name)
        assert (part.prune, part.faults) == (complete.prune, complete.faults)


def test_the_names_of_a_list_keep_their_order() -> None:
    names = listed_names("b;a,Bad;b\tc,-x")
    assert (names.legal, names.illegal) == (("b", "a", "c"), ("Bad", "-x"))


# one namespace of a list


_LISTS = st.lists(
    st.sampled_from(["a", "b", "ab", "a-b", "b-a-b", "x1", "A", "a_", "-a", "", " "]), max_size=8
).flatmap(lambda names: st.sampled_from([";", ",", " ; ", ";;", "\n", "\u2003"]).map(lambda text: text.join(names)))


@given(_LISTS, st.sampled_from(["a", "b", "ab", "a-b", "x1", "c"]), st.sampled_from(["namespaces", "cluster", "?"]))
def test_the_request_for_one_namespace_is_that_part_of_the_whole_request(listed: str, name: str, value: str) -> None:
    whole, part = parse(value, listed), parse_for(name, value, listed)

    assert part.targets.selects(name, {}) == whole.targets.selects(name, {})
    assert part.faults == whole.faults


# Objects that are the same in every namespace


def test_the_settings_list_objects_that_are_never_sources_and_never_copies() -> None:
    """A source with equal content would adopt them everywhere, and change them all when its own content changes."""
    listed = NeverCopied(objects=(ObjectName(KindName("", "v1", "Secret"), "db"),))
    settings = Settings(never_copied=listed)
    world = a_world(EVERY, registry_of(settings))
    world.put(at("a", "db"), secret())
    assert settle(world, RULES) == []
    (fault,) = planned(world).faults
    assert (fault.reason, "never copied" in fault.message) == ("Refused", True)
    root_ca = world.put(at("team", "kube-root-ca.crt", CONFIG_MAP), content(), annotations=EVERY)
    assert [fault.reason for fault in planned(world, Key(NAME, root_ca.ref)).faults] == ["Refused"]


# Strict tenancy


def strict_world(annotations: dict[str, str], **settings: Any) -> World:
    """A world under strict tenancy, in which the namespace `a` accepts the source."""
    world = a_world(annotations, registry_of(Settings(tenancy="strict", **settings)))
    world.edit(namespace_ref("a"), annotations={ACCEPT: "team"})
    return world


def test_under_strict_tenancy_an_identical_object_is_a_conflict_like_any_other() -> None:
    """Otherwise the author of a source could find out what an object in another namespace holds."""
    answers = []
    for value in ("one", "other"):
        world = strict_world(to("a"))
        theirs = world.put(at("a", "db"), secret(value))
        assert filled(world) == {"a"}
        assert world.objects[theirs.ref] is theirs
        answers.append([(blocked.reason, blocked.message) for blocked in planned(world).blocked])
    assert answers[0] == answers[1] == [("conflict", "an object of this name exists that is not a copy of this source")]


def test_under_strict_tenancy_vocabularies_of_administrators_adopt_identical_objects() -> None:
    world = strict_world({})
    world.put(at("admin", "ca"), secret(), annotations={TARGETS: "a"})
    world.put(at("a", "ca"), secret())
    settle(world, RULES)
    assert world.objects[at("a", "ca")].annotations[ADOPTED] == "true"
