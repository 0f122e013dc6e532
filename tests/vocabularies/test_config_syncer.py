"""Config-syncer: which namespaces a source selects, what its copies hold, and what stays of the original."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.settle import plan_of, settle
from tests.support.world import World, at, config_map, content, secret

from samara.assembly import registry_of
from samara.core.metadata_keys import ACCEPT, ADOPTED
from samara.core.model import (
    CONFIG_MAP,
    FIELD_MANAGER,
    LABELS,
    SECRET,
    Key,
    Kind,
    KindName,
    ManagedKey,
    Object,
    Ref,
    namespace_ref,
)
from samara.core.policy import ClusterPolicy
from samara.core.vocabulary import SettingError
from samara.core.writes import Blocked, Recreate
from samara.settings import Settings
from samara.settings.model import CopiedMetadata
from samara.vocabularies import config_syncer
from samara.vocabularies.config_syncer import (
    CONTEXTS,
    NAME,
    ORIGIN,
    ORIGIN_CLUSTER,
    ORIGIN_NAME,
    ORIGIN_NAMESPACE,
    SYNC,
    ConfigSyncerSettings,
    parse,
)

SOURCE = at("team", "db")
KEY = Key(NAME, SOURCE)
RULES = ClusterPolicy(protected=("kube-*",))
NAMESPACES = {"team": "live", "shop": "live", "shop-test": "test", "billing": "live", "kube-system": "live"}
ALL = {"shop", "shop-test", "billing"}
EVERYWHERE = {SYNC: ""}
MANAGERS = ["config-syncer", "kubed"]
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def a_world(value: str | None = None, tenancy: str = "open", copied: str = "", **settings: Any) -> World:
    """`value`: that of `sync` on a source. `copied`: a glob in the setting `copiedMetadata`."""
    own, listed = ConfigSyncerSettings(**settings), CopiedMetadata((copied,), (copied,))
    world = World(
        registry_of(Settings(tenancy=tenancy, vocabularies={NAME: own}, copied_metadata=listed))  # type: ignore[arg-type]
    )
    for name, stage in NAMESPACES.items():
        world.namespace(name, {"stage": stage})
    if value is not None:
        world.put(SOURCE, secret(), annotations={SYNC: value}, labels={"app": "db"})
        settle(world, RULES)
    return world


def copied_to(world: World, source: Ref = SOURCE) -> set[str]:
    return {ref.namespace for ref in world.objects if ref.name == source.name and ref != source}


def copy(world: World, namespace: str = "shop", kind: Kind = SECRET) -> Object:
    return world.objects[at(namespace, "db", kind)]


def edit_source(world: World, **changes: Any) -> None:
    world.edit(SOURCE, **changes)
    settle(world, RULES)


def blocked(world: World, key: Key = KEY) -> dict[str, str]:
    steps = plan_of(key, world, RULES).steps
    return {step.ref.namespace: step.outcome.reason for step in steps if isinstance(step.outcome, Blocked)}


def faults(world: World) -> list[tuple[str, str]]:
    return [(fault.reason, fault.field) for fault in plan_of(KEY, world, RULES).faults]


def origin(source: Ref = SOURCE, uid: str = "an-older-uid", version: int = 7, typed: bool = True) -> str:
    """As the original writes it: it knows kind and apiVersion unless it got the source from a watch."""
    kind, api = ({"kind": source.kind.name}, {"apiVersion": "v1"}) if typed else ({}, {})
    named = {**kind, "namespace": source.namespace, "name": source.name, "uid": uid, **api}
    return json.dumps({**named, "resourceVersion": str(version)}, separators=(",", ":"))


def marks(source: Ref = SOURCE, cluster: str = "", **origin_fields: Any) -> dict[str, dict[str, str]]:
    return {
        "labels": {ORIGIN_NAME: source.name, ORIGIN_NAMESPACE: source.namespace, ORIGIN_CLUSTER: cluster},
        "annotations": {ORIGIN: origin(source, **origin_fields)},
    }


def left(
    world: World, namespace: str = "shop", by: str = "kubed", value: str = "one", more: dict[str, str] | None = None
) -> Object:
    """A copy of the original's hand. `more`: labels of its source that it copied."""
    given = marks()
    labels = {**(more or {}), **given["labels"]}
    return world.put(at(namespace, "db"), secret(value), by=by, labels=labels, annotations=given["annotations"])


# Which namespaces


@pytest.mark.parametrize("value", ["", "true"])
def test_r1_every_namespace_but_its_own_and_the_protected_ones_gets_a_copy(value: str) -> None:
    world = a_world(value)
    assert (copied_to(world), blocked(world)) == (ALL, {})


def test_r1_a_terminating_namespace_gets_none() -> None:
    world = a_world()
    world.terminate("billing")
    world.put(SOURCE, secret(), annotations=EVERYWHERE)
    settle(world, RULES)
    assert copied_to(world) == ALL - {"billing"}


@pytest.mark.parametrize(
    ("value", "namespaces"),
    [
        ("stage=live", {"shop", "billing"}),
        (" stage == test ", {"shop-test"}),
        ("stage!=live", {"shop-test"}),
        ("stage in (live, test), size notin (big)", {"shop", "shop-test"}),
        ("size", {"billing"}),
        ("!size", {"shop", "shop-test"}),
        ("rank>1", {"billing"}),
        ("rank < 3,stage=live", {"billing"}),
        ("false", set()),
        ("True", set()),
    ],
)
def test_r2_a_label_selector_chooses_the_namespaces(value: str, namespaces: set[str]) -> None:
    world = a_world()
    world.edit(namespace_ref("billing"), labels={"stage": "live", "size": "big", "rank": "2"})
    world.put(SOURCE, secret(), annotations={SYNC: value})
    settle(world, RULES)
    assert copied_to(world) == namespaces


def test_r2_false_selects_the_namespaces_that_have_such_a_label() -> None:
    world = a_world("false")
    world.edit(namespace_ref("shop"), labels={"false": ""})
    settle(world, RULES)
    assert copied_to(world) == {"shop"}


def test_r2_a_label_that_comes_brings_the_copy_and_one_that_goes_takes_it() -> None:
    world = a_world("stage=next")
    world.edit(namespace_ref("shop"), labels={"stage": "next"})
    settle(world, RULES)
    assert copied_to(world) == {"shop"}
    world.edit(namespace_ref("shop"), labels={})
    settle(world, RULES)
    assert copied_to(world) == set()


def test_r3_a_new_namespace_gets_what_it_matches() -> None:
    world = a_world("stage=next")
    world.namespace("new", {"stage": "next"})
    world.namespace("other")
    settle(world, RULES)
    assert copied_to(world) == {"new"}


# What a copy holds


def test_r4_a_copy_has_the_content_the_metadata_that_travels_and_the_marks() -> None:
    world = a_world()
    body = content(data={"b": "1"}, type="example.com/t", immutable=True)
    travels, stays = {"app": "db"}, {"helm.sh/chart": "x", "argocd.argoproj.io/instance": "y"}
    asks = {SYNC: "", CONTEXTS: "east", LAST_APPLIED: "{}"}
    source = world.put(SOURCE, body, labels={**travels, **stays}, annotations={**asks, "note": "1"})
    settle(world, RULES)
    made = copy(world)
    assert made.content == body.without("immutable")
    assert dict(made.labels) == {**travels, **marks()["labels"]}
    assert dict(made.annotations) == {"note": "1", ORIGIN: origin(uid=source.uid, version=source.resource_version)}
    assert made.owner_references == ()


def test_r4_a_config_map_has_its_binary_data_too() -> None:
    world = a_world()
    source = at("team", "db", CONFIG_MAP)
    world.put(source, config_map(binaryData={"z": "eg=="}, immutable=True), annotations=EVERYWHERE)
    settle(world, RULES)
    made = copy(world, kind=CONFIG_MAP)
    assert made.content == config_map(binaryData={"z": "eg=="})
    assert '"kind":"ConfigMap"' in made.annotations[ORIGIN]


def test_r4_a_changed_label_or_annotation_follows_and_a_dropped_one_leaves() -> None:
    world = a_world("")
    edit_source(world, labels={"app": "new", "tier": "1"}, annotations={SYNC: "", "note": "1"})
    assert copy(world).labels["app"] == "new"
    assert copy(world).annotations["note"] == "1"
    edit_source(world, labels={}, annotations=EVERYWHERE)
    assert set(copy(world).labels) == {ORIGIN_NAME, ORIGIN_NAMESPACE, ORIGIN_CLUSTER}
    assert set(copy(world).annotations) == {ORIGIN}


def test_r4_under_strict_tenancy_no_label_travels_whatever_the_settings_list() -> None:
    world = a_world(tenancy="strict", copied="*")
    world.edit(namespace_ref("shop"), annotations={ACCEPT: "team"})
    world.put(SOURCE, secret(), labels={"app": "db"}, annotations=EVERYWHERE)
    settle(world, RULES)
    assert dict(copy(world).labels) == marks()["labels"]


def test_r5_changed_data_reach_every_copy_and_keys_that_left_or_were_added_go() -> None:
    world = a_world("")
    edit_source(world, content=content(data={"new": "2"}, type="Opaque"))
    assert {copy(world, name).content for name in ALL} == {content(data={"new": "2"}, type="Opaque")}
    world.edit(copy(world).ref, content=content(data={"new": "2", "added": "3"}, type="Opaque"))
    settle(world, RULES)
    assert copy(world).content == content(data={"new": "2"}, type="Opaque")
    assert settle(world, RULES) == []


# What goes


def test_r6_copies_that_a_changed_value_no_longer_selects_go() -> None:
    world = a_world("")
    edit_source(world, annotations={SYNC: "stage=test"})
    assert copied_to(world) == {"shop-test"}


@pytest.mark.parametrize("end", ["unasked", "deleted", "namespace"])
def test_r6_without_its_source_every_copy_goes(end: str) -> None:
    world = a_world("")
    if end == "unasked":
        world.edit(SOURCE, annotations={})
    else:
        world.delete(SOURCE if end == "deleted" else namespace_ref("team"))
    settle(world, RULES)
    assert copied_to(world) == set()


def test_r7_an_edited_or_deleted_copy_comes_back() -> None:
    world = a_world("")
    world.edit(copy(world).ref, content=secret("edited"), labels={}, annotations={})
    world.delete(at("billing", "db"))
    settle(world, RULES)
    assert copied_to(world) == ALL
    assert copy(world).content == secret()
    assert copy(world).labels.items() >= marks()["labels"].items()


def test_r7_a_changed_type_means_recreate() -> None:
    world = a_world("stage=test")
    world.edit(SOURCE, content=secret(kind="example.com/t"))
    assert [type(write) for write in plan_of(KEY, world, RULES).writes] == [Recreate]


@pytest.mark.parametrize("key", [*marks()["labels"], ORIGIN])
def test_r7_a_mark_that_is_taken_off_comes_back(key: str) -> None:
    world = a_world("stage=test")
    before = copy(world, "shop-test")
    labels, annotations = (
        {name: value for name, value in words.items() if name != key} for words in (before.labels, before.annotations)
    )
    world.edit(before.ref, labels=labels, annotations=annotations)
    settle(world, RULES)
    after = copy(world, "shop-test")
    assert (after.labels, after.annotations) == (before.labels, before.annotations)


@pytest.mark.parametrize("by", ["", *MANAGERS])
def test_r7_a_copy_that_another_client_assigns_to_another_cluster_is_put_right_and_goes_with_its_source(
    by: str,
) -> None:
    world = a_world()
    if by:
        left(world, "shop-test", by=by)
    world.put(SOURCE, secret(), annotations={SYNC: "stage=test"})
    settle(world, RULES)
    made = copy(world, "shop-test")
    world.edit(made.ref, labels={**made.labels, ORIGIN_CLUSTER: "east"}, content=secret("edited"))
    settle(world, RULES)
    assert (copy(world, "shop-test").labels, copy(world, "shop-test").content) == (made.labels, secret())
    world.edit(made.ref, labels={**made.labels, ORIGIN_CLUSTER: "east"})
    world.delete(SOURCE)
    settle(world, RULES)
    assert copied_to(world) == set()


# Who is a source


def test_r8_d11_a_copy_is_never_a_source() -> None:
    world = a_world("stage=test")
    made = copy(world, "shop-test")
    world.edit(made.ref, annotations={**made.annotations, SYNC: ""})
    settle(world, RULES)
    assert copied_to(world) == {"shop-test"}


def test_r8_a_copy_from_another_cluster_is_no_source() -> None:
    world = a_world()
    given = marks(cluster="east")
    world.put(SOURCE, secret(), labels=given["labels"], annotations={**given["annotations"], SYNC: ""})
    settle(world, RULES)
    assert copied_to(world) == set()


def test_r9_d12_only_the_source_namespace_has_sources_also_for_a_new_or_relabelled_namespace() -> None:
    world = a_world("", source_namespace="billing")
    world.put(at("billing", "ca"), secret(), annotations=EVERYWHERE)
    world.namespace("new", {"stage": "live"})
    world.edit(namespace_ref("shop"), labels={"stage": "next"})
    settle(world, RULES)
    assert copied_to(world) == set()
    assert copied_to(world, at("billing", "ca")) == {"team", "shop", "shop-test", "new"}


def test_r9_a_new_source_namespace_deletes_no_copy_of_another_namespace() -> None:
    before = a_world("")
    after = World(a_world(source_namespace="billing").registry, before.objects)
    settle(after, RULES)
    assert copied_to(after) == ALL


# What is left alone


def test_r10_d1_a_foreign_object_is_a_conflict_until_it_goes_and_adopted_if_it_is_equal() -> None:
    world = a_world()
    world.put(at("shop", "db"), secret("theirs"), labels={"theirs": "1"})
    world.put(at("billing", "db"), secret(), labels={"theirs": "1"})
    world.put(SOURCE, secret(), annotations=EVERYWHERE)
    settle(world, RULES)
    assert (copy(world).content, blocked(world)) == (secret("theirs"), {"shop": "conflict"})
    assert ADOPTED in copy(world, "billing").annotations
    assert copy(world, "billing").labels["theirs"] == "1"
    world.delete(at("shop", "db"))
    settle(world, RULES)
    assert (copy(world).content, blocked(world)) == (secret(), {})


def test_r10_with_overwrite_a_foreign_object_is_taken_over() -> None:
    world = a_world(conflicts="overwrite")
    world.put(at("shop", "db"), secret("theirs"))
    world.put(SOURCE, secret(), annotations=EVERYWHERE)
    settle(world, RULES)
    assert (copy(world).content, blocked(world)) == (secret(), {})


def test_d1_labels_and_annotations_that_others_put_on_a_copy_stay() -> None:
    world = a_world("")
    made = copy(world)
    world.edit(made.ref, labels={**made.labels, "theirs": "1"}, annotations={**made.annotations, "note": "2"})
    edit_source(world, content=secret("two"))
    assert (copy(world).labels["theirs"], copy(world).annotations["note"]) == ("1", "2")


@pytest.mark.parametrize("by", ["", FIELD_MANAGER, *MANAGERS])
@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("conflicts", ["refuse", "overwrite"])
def test_r11_d7_a_copy_from_another_cluster_is_never_changed_or_deleted(by: str, wanted: bool, conflicts: str) -> None:
    world = a_world(cluster_name="west", conflicts=conflicts)
    theirs = world.put(at("shop", "db"), secret("theirs"), by=by, **marks(cluster="east"))
    world.put(SOURCE, secret(), annotations=EVERYWHERE if wanted else {})
    settle(world, RULES)
    world.edit(SOURCE, content=secret("two"))
    settle(world, RULES)
    assert world.objects[theirs.ref] is theirs
    assert blocked(world) == ({"shop": "conflict"} if wanted else {})
    world.delete(SOURCE)
    settle(world, RULES)
    assert world.objects[theirs.ref] is theirs


def test_r11_the_cluster_name_is_on_every_copy() -> None:
    assert copy(a_world("", cluster_name="west")).labels[ORIGIN_CLUSTER] == "west"


@pytest.mark.parametrize("value", ["stage in", "a,,b", ",", "a=b c", "-", "stage > high"])
def test_r12_d8_an_invalid_selector_is_reported_and_deletes_nothing(value: str) -> None:
    world = a_world("stage=test")
    edit_source(world, annotations={SYNC: value})
    assert (copied_to(world), faults(world)) == ({"shop-test"}, [("Invalid", SYNC)])
    assert SYNC in plan_of(KEY, world, RULES).faults[0].message
    edit_source(world, annotations={SYNC: "stage=live"})
    assert copied_to(world) == {"shop", "billing"}


def test_r13_d6_copies_in_other_clusters_are_reported_and_sync_is_served() -> None:
    world = a_world("")
    edit_source(world, annotations={SYNC: "", CONTEXTS: "east,west"})
    assert (copied_to(world), faults(world)) == (ALL, [("Invalid", CONTEXTS)])
    edit_source(world, annotations={SYNC: "stage=test", CONTEXTS: "east"})
    assert copied_to(world) == {"shop-test"}
    edit_source(world, annotations={CONTEXTS: "east"})
    assert copied_to(world) == set()


LONG = at("team", "a-name-that-is-longer-than-a-label-may-be-" * 3 + "x")


def test_r14_d5_a_source_with_a_long_name_is_served() -> None:
    world = a_world()
    world.put(LONG, secret(), annotations=EVERYWHERE)
    settle(world, RULES)
    made = world.objects[LONG._replace(namespace="shop")]
    assert len(made.labels[ORIGIN_NAME]) <= 63
    assert world.registry[NAME].ownership.source_of(made, world) == LONG
    world.delete(LONG)
    settle(world, RULES)
    assert copied_to(world, LONG) == set()


# Coming from the original


@pytest.mark.parametrize("by", MANAGERS)
@pytest.mark.parametrize("typed", [True, False])
def test_r15_copies_that_the_original_left_in_step_cause_no_write(by: str, typed: bool) -> None:
    world = a_world()
    for name in ALL:
        given = marks(typed=typed)
        labels = {"app": "db", **given["labels"]}
        annotations = {"note": "1", **given["annotations"]}
        world.put(at(name, "db"), secret(), by=by, labels=labels, annotations=annotations)
    world.put(SOURCE, secret(), labels={"app": "db"}, annotations={SYNC: "", "note": "1"})
    assert settle(world, RULES) == []
    assert plan_of(KEY, world, RULES).blocked == ()


def test_r15_without_its_annotation_a_copy_is_found_by_its_labels_and_gets_it_back() -> None:
    world = a_world()
    world.put(at("shop-test", "db"), secret(), by="kubed", labels=marks()["labels"])
    world.put(SOURCE, secret(), annotations={SYNC: "stage=test"})
    (write,) = settle(world, RULES)
    assert write.ref.namespace == "shop-test"
    assert ORIGIN in copy(world, "shop-test").annotations


@pytest.mark.parametrize(
    ("labels", "annotation"),
    [
        (marks()["labels"], origin(at("other", "db"))),
        (marks(at("other", "db"))["labels"], origin()),
        ({**marks()["labels"], ORIGIN_NAME: "other"}, None),
        ({ORIGIN_NAME: "db", ORIGIN_NAMESPACE: "team"}, None),
        ({}, origin(at("team", "other"))),
        ({}, origin(at("team", "db", CONFIG_MAP))),
        ({}, origin(at("shop", "db"))),
        *(({}, text) for text in ("", "[]", "{}", '{"namespace":1,"name":"db"}', "no json", "[" * 9999)),
    ],
)
def test_r15_marks_that_do_not_agree_or_cannot_be_true_name_no_source(
    labels: dict[str, str], annotation: str | None
) -> None:
    world = a_world()
    annotations = {} if annotation is None else {ORIGIN: annotation}
    forged = world.put(at("shop", "db"), secret("theirs"), labels=labels, annotations=annotations)
    assert world.registry[NAME].ownership.source_of(forged, world) is None
    settle(world, RULES)
    assert world.objects[forged.ref] is forged


@pytest.mark.parametrize("by", MANAGERS)
def test_r16_copies_of_the_original_go_when_they_are_unwanted(by: str) -> None:
    world = a_world()
    left(world, by=by)
    world.put(SOURCE, secret(), annotations={SYNC: "stage=test"})
    settle(world, RULES)
    assert copied_to(world) == {"shop-test"}


@pytest.mark.parametrize("by", ["", "kubectl"])
def test_r16_d2_forged_or_pasted_copies_stay(by: str) -> None:
    world = a_world()
    world.store(replace(left(world, by=by), managed_keys=frozenset()))
    world.put(SOURCE, secret(), annotations={SYNC: "stage=test"})
    settle(world, RULES)
    assert copied_to(world) == {"shop", "shop-test"}
    world.paste(at("shop-test", "db"), "billing")
    world.delete(SOURCE)
    settle(world, RULES)
    assert copied_to(world) == {"shop", "billing"}


def test_r17_under_consent_a_namespace_must_accept() -> None:
    world = a_world("", cross_namespace="consent")
    assert (copied_to(world), blocked(world)) == (set(), dict.fromkeys(ALL, "not-accepted"))
    world.edit(namespace_ref("shop"), annotations={ACCEPT: "team"})
    settle(world, RULES)
    assert copied_to(world) == {"shop"}
    world.edit(namespace_ref("shop"), annotations={})
    settle(world, RULES)
    assert copied_to(world) == set()


# What stays behind stays quiet (A6), and consent that was never given (A7)


BEHIND = {"argocd.argoproj.io/instance": "shop", "helm.sh/chart": "c"}


@pytest.mark.parametrize("tenancy", ["open", "strict"])
def test_a6_d4_what_would_not_travel_today_is_no_reason_for_a_write_and_goes_with_the_next(tenancy: str) -> None:
    world = a_world(tenancy=tenancy)
    world.edit(namespace_ref("shop"), annotations={ACCEPT: "team"})
    more = {"app": "db", **BEHIND}
    before = left(world, more=more)
    world.edit(before.ref, by="kubed", annotations={**before.annotations, LAST_APPLIED: "{}"})
    world.edit(before.ref, labels={**before.labels, "theirs": "1"})
    asks = {SYNC: "stage in (live)", LAST_APPLIED: "{}"}
    world.edit(namespace_ref("billing"), labels={})
    world.put(SOURCE, secret(), labels=more, annotations=asks)
    assert settle(world, RULES) == []
    edit_source(world, content=secret("two"))
    travels = {"app": "db"} if tenancy == "open" else {}
    assert dict(copy(world).labels) == {**travels, **marks()["labels"], "theirs": "1"}
    assert set(copy(world).annotations) == {ORIGIN}


@pytest.mark.parametrize("labels", [{}, {"helm.sh/chart": "other"}])
def test_a6_a_key_that_the_source_no_longer_has_is_a_reason_for_a_write(labels: dict[str, str]) -> None:
    world = a_world()
    left(world, "shop-test", more={"helm.sh/chart": "c"})
    world.put(SOURCE, secret(), labels=labels, annotations={SYNC: "stage=test"})
    assert len(settle(world, RULES)) == 1
    assert dict(copy(world, "shop-test").labels) == marks()["labels"]


def test_a6_a_key_that_samara_wrote_itself_goes_when_it_must_not_travel_any_more() -> None:
    before = a_world("stage=test")
    after = World(a_world(tenancy="strict").registry, before.objects)
    after.edit(namespace_ref("shop-test"), annotations={ACCEPT: "team"})
    assert len(settle(after, RULES)) == 1
    assert dict(copy(after, "shop-test").labels) == marks()["labels"]


@pytest.mark.parametrize("value", ["one", "two"])
def test_r17_a7_a_copy_of_the_original_stays_as_it_is_where_consent_was_never_given(value: str) -> None:
    world = a_world(cross_namespace="consent")
    before = left(world, value=value)
    world.put(SOURCE, secret(), annotations=EVERYWHERE)
    assert settle(world, RULES) == []
    assert blocked(world)["shop"] == "not-accepted"
    edit_source(world, annotations={})
    world.delete(SOURCE)
    settle(world, RULES)
    assert world.objects[before.ref] is before


def test_a7_a_copy_that_samara_has_written_goes_when_consent_is_withdrawn() -> None:
    world = a_world(cross_namespace="consent")
    left(world, value="old")
    world.edit(namespace_ref("shop"), annotations={ACCEPT: "team"})
    world.put(SOURCE, secret(), annotations=EVERYWHERE)
    settle(world, RULES)
    assert copy(world).content == secret()
    world.edit(namespace_ref("shop"), annotations={})
    settle(world, RULES)
    assert copied_to(world) == set()


def test_a7_d9_a_copy_of_the_original_in_a_protected_namespace_stays_without_updates() -> None:
    world = a_world()
    before = left(world, "kube-system", value="old")
    world.put(SOURCE, secret(), annotations=EVERYWHERE)
    settle(world, RULES)
    world.delete(SOURCE)
    settle(world, RULES)
    assert world.objects[before.ref] is before
    assert copied_to(world) == {"kube-system"}


# Settings and lint


def test_a1_without_being_named_it_serves_nothing_and_its_marks_are_known() -> None:
    world = World(registry_of(Settings()))
    assert not world.registry[NAME].enabled
    assert config_syncer.VOCABULARY.metadata_keys <= world.registry.metadata_keys


@pytest.mark.parametrize("kind", [KindName("", "v1", "Service"), KindName("apps", "v1", "Deployment")])
def test_settings_refuse_other_kinds(kind: KindName) -> None:
    with pytest.raises(SettingError, match="expected v1/Secret or v1/ConfigMap"):
        config_syncer.check(ConfigSyncerSettings(kinds=(kind,)))


@pytest.mark.parametrize(("value", "found"), [("false", 1), ("True", 1), ("FALSE", 1), ("true", 0), ("", 0), ("a", 0)])
def test_lint_points_at_booleans_that_are_selectors(value: str, found: int) -> None:
    world = a_world(value)
    source_type = world.registry[NAME]
    assert len(list(source_type.source.lint(world.objects[SOURCE]))) == found


def test_a9_nothing_is_refused_at_admission() -> None:
    assert a_world().registry[NAME].admission is None


def test_a_selector_is_parsed_once() -> None:
    assert parse("stage=live") is parse("stage=live")


def test_a3_the_marks_are_those_that_the_original_looks_for() -> None:
    """The original finds its copies by exactly these labels, and compares nothing else."""
    world = a_world("", cluster_name="west")
    expected = {ORIGIN_NAME: "db", ORIGIN_NAMESPACE: "team", ORIGIN_CLUSTER: "west"}
    for name in ALL:
        assert copy(world, name).labels.items() >= expected.items()
        assert ManagedKey(FIELD_MANAGER, LABELS, ORIGIN_NAME) in copy(world, name).managed_keys
