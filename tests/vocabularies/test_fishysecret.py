"""FishySecret: the promises of the post and the defects of its operator, by their numbers in the specification."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.settle import plan_of, settle
from tests.support.toys import a_sync_to, options
from tests.support.world import NOT_FOUND, World, at, content, path, secret

from samara.core.metadata_keys import ACCEPT, PAUSED
from samara.core.model import Content, Key, Object, Ref, namespace_ref
from samara.core.policy import ClusterPolicy
from samara.core.queries import ReadError, SecretPath, SecretReading
from samara.core.registry import Registry
from samara.core.writes import Create, Delete, Plan, Recreate, SetFinalizer, Update, WriteStatus
from samara.vocabularies import fishysecret, secret_copy, sync_to
from samara.vocabularies.fishysecret import (
    FINALIZER,
    FISHY_SECRET,
    NAME,
    OWNER_NAME,
    OWNER_NAMESPACE,
    FishySecretSettings,
    Options,
)

Json = dict[str, Any]
RULES = ClusterPolicy(protected=("kube-*",))
SOURCE = Ref(FISHY_SECRET, "default", "fishysecret-db")
KEY = Key(NAME, SOURCE)
TARGET = at("target-namespace", "test-secret")
OWNED = {OWNER_NAME: "fishysecret-db", OWNER_NAMESPACE: "default"}
USER, PASSWORD = "/app/db/username", "/app/db/password"
ITEMS: list[Json] = [
    {"secretPath": USER, "secretKeyName": "DB_USER"},
    {"secretPath": PASSWORD, "secretKeyName": "DB_PASS"},
]
SAMPLE: Json = {"target": {"name": "test-secret", "namespace": "target-namespace"}, "data": ITEMS}
STORED = content(data={"DB_PASS": "Y2xpY2sgbWUh", "DB_USER": "YXBwX3VzZXI="}, type="Opaque")
AT = "2026-11-15T10:00:00Z"
DOWN = ReadError("FetchError", "the store does not answer")


def a_registry(terms: Options | None = None) -> Registry:
    last = a_sync_to()
    return Registry((secret_copy.source_type(), fishysecret.source_type(terms or options()), last))


def a_world(spec: object = SAMPLE, terms: Options | None = None, **more: Any) -> World:
    world = World(a_registry(terms))
    for name in ("default", "target-namespace", "other", "kube-system"):
        world.namespace(name)
    holds(world, USER, b"app_user")
    holds(world, PASSWORD, b"click me!")
    apply(world, spec, **more)
    return world


def holds(world: World, where: str, value: bytes | None, **more: Any) -> None:
    """Sets the reading of a path. Earlier answers are dropped, so that every path is read again."""
    world.outside[path(where)] = SecretReading(value, **{"read_at": AT, **more})
    world.values.clear()


def apply(
    world: World, spec: object, ref: Ref = SOURCE, finalizers: tuple[str, ...] = (FINALIZER,), **more: Any
) -> Object:
    has = Content() if spec is None else content(spec=spec)
    if ref in world.objects:
        return world.edit(ref, content=has, generation=world.objects[ref].generation + 1)
    return world.put(ref, has, finalizers=finalizers, generation=1, **more)


def spec(name: str = "test-secret", namespace: str = "target-namespace", **more: Any) -> Json:
    target = {"name": name, "namespace": namespace, **more.pop("target", {})}
    return {"target": target, "data": ITEMS, **more}


def planned(world: World, key: Key = KEY) -> Plan:
    return plan_of(key, world, RULES)


def kinds(writes: Any) -> list[type]:
    return [type(write) for write in writes]


def made(world: World, ref: Ref = TARGET) -> Object | None:
    settle(world, RULES)
    return world.objects.get(ref)


def faults(world: World) -> list[str]:
    return [fault.reason for fault in planned(world).faults]


# The promises of the post


def test_1_2_the_sample_gives_a_secret_of_type_opaque_with_a_key_per_item() -> None:
    live = made(a_world())
    assert live is not None
    assert live.content == STORED


def test_5_the_finalizer_is_the_first_write_and_comes_before_any_path_is_read() -> None:
    world = a_world(finalizers=())
    assert kinds(planned(world).writes) == [SetFinalizer]
    assert world.values == {}
    assert made(world) is not None


def test_6_reconciling_a_fishysecret_that_is_gone_does_nothing() -> None:
    world = a_world()
    del world.objects[SOURCE]
    assert planned(world) == Plan()


def test_7_24_deletion_removes_the_secret_first_and_then_the_finalizer() -> None:
    world = a_world()
    settle(world, RULES)
    world.delete(SOURCE)
    assert kinds(planned(world).writes) == [Delete]
    assert kinds(settle(world, RULES)) == [Delete, SetFinalizer]
    assert SOURCE not in world.objects
    assert TARGET not in world.objects


def test_7_a_terminating_fishysecret_reads_and_syncs_nothing() -> None:
    world = a_world()
    world.delete(SOURCE)
    assert world.registry[NAME].desired(SOURCE, world).reads == ()
    assert kinds(settle(world, RULES)) == [SetFinalizer]


def test_8_a_secret_that_was_deleted_by_hand_does_not_block_the_deletion() -> None:
    world = a_world()
    settle(world, RULES)
    world.delete(SOURCE)
    world.delete(TARGET)
    assert kinds(settle(world, RULES)) == [SetFinalizer]


def test_10_11_a_path_that_cannot_be_read_leaves_the_secret_as_it_was() -> None:
    world = a_world()
    before = made(world)
    holds(world, USER, b"new")
    holds(world, PASSWORD, None, fault=DOWN)
    assert planned(world).writes == ()
    assert faults(world) == ["FetchError"]
    assert made(world) is before


def test_10_11_a_path_that_cannot_be_read_creates_no_partial_secret() -> None:
    world = a_world()
    holds(world, PASSWORD, None, fault=DOWN)
    assert made(world) is None


def test_47_while_a_path_cannot_be_read_the_secret_gets_no_new_values_of_other_paths() -> None:
    world = a_world()
    settle(world, RULES)
    holds(world, USER, b"new")
    holds(world, PASSWORD, b"click me!", fault=DOWN)
    assert planned(world).writes == ()
    assert faults(world) == ["FetchError"]
    holds(world, PASSWORD, b"also new")
    assert kinds(planned(world).writes) == [Update]


def test_a_secret_that_was_deleted_during_an_outage_comes_back_from_the_last_good_values() -> None:
    world = a_world()
    settle(world, RULES)
    for where, value in ((USER, b"app_user"), (PASSWORD, b"click me!")):
        holds(world, where, value, fault=DOWN)
    world.delete(TARGET)
    live = made(world)
    assert live is not None
    assert live.content == STORED
    assert faults(world) == ["FetchError"]


def test_11_a_new_secret_is_not_created_from_last_good_values() -> None:
    """Another FishySecret read the values before the outage, so they are still in memory."""
    world = a_world()
    for where, value in ((USER, b"app_user"), (PASSWORD, b"click me!")):
        holds(world, where, value, fault=DOWN)
    assert made(world) is None
    assert faults(world) == ["FetchError"]


def test_13_the_secret_carries_both_owner_labels_and_no_annotation() -> None:
    live = made(a_world())
    assert live is not None
    assert (live.labels, live.annotations, live.owner_references) == (OWNED, {}, ())


def test_14_22_equal_data_needs_no_write() -> None:
    world = a_world()
    settle(world, RULES)
    assert planned(world).writes == ()
    assert settle(world, RULES) == []


def test_15_18_a_changed_value_in_the_store_causes_one_update() -> None:
    world = a_world()
    settle(world, RULES)
    holds(world, PASSWORD, b"next")
    assert kinds(planned(world).writes) == [Update]
    live = made(world)
    assert live is not None
    assert live.content == content(data={"DB_PASS": "bmV4dA==", "DB_USER": "YXBwX3VzZXI="}, type="Opaque")


def test_19_a_deleted_secret_is_created_again() -> None:
    world = a_world()
    have = made(world)
    assert have is not None
    assert KEY in world.registry.keys_to_reconcile(have, world)
    world.delete(TARGET)
    assert kinds(planned(world).writes) == [Create]


def test_20_edited_data_is_restored() -> None:
    world = a_world()
    settle(world, RULES)
    world.edit(TARGET, content=secret("edited"))
    assert kinds(planned(world).writes) == [Update]


@pytest.mark.parametrize("labels", [{}, {OWNER_NAME: "fishysecret-db"}, {OWNER_NAMESPACE: "default"}])
def test_21_a_secret_without_both_labels_reconciles_nothing(labels: dict[str, str]) -> None:
    world = a_world()
    obj = world.put(at("other", "theirs"), secret(), labels=labels)
    assert list(world.registry.keys_to_reconcile(obj, world)) == []


def test_a_secret_of_the_original_operator_is_taken_over_without_a_write() -> None:
    world = a_world()
    world.put(TARGET, STORED, labels=OWNED)
    assert planned(world).writes == ()


# The defects of the original operator


def test_defect_1_a_secret_that_is_not_ours_is_never_overwritten_even_if_it_is_equal() -> None:
    for has in (secret(), STORED):
        world = a_world()
        theirs = world.put(TARGET, has)
        assert [target.reason for target in planned(world).blocked] == ["conflict"]
        assert made(world) is theirs


def test_defect_1_the_conflict_ends_when_the_other_secret_is_deleted() -> None:
    world = a_world()
    world.put(TARGET, secret())
    settle(world, RULES)
    world.delete(TARGET)
    live = made(world)
    assert live is not None
    assert live.content == STORED


def test_defect_2_a_secret_that_is_not_ours_is_never_deleted() -> None:
    world = a_world()
    theirs = world.put(TARGET, secret())
    world.delete(SOURCE)
    settle(world, RULES)
    assert world.objects[TARGET] is theirs


def test_defect_2_a_secret_with_pasted_labels_is_not_deleted() -> None:
    world = a_world()
    settle(world, RULES)
    pasted = world.paste(TARGET, "other")
    world.delete(SOURCE)
    settle(world, RULES)
    assert world.objects.get(pasted.ref) is pasted
    assert TARGET not in world.objects


def test_defect_3_a_changed_target_is_written_first_and_then_the_old_secret_is_deleted() -> None:
    world = a_world()
    settle(world, RULES)
    apply(world, spec("moved"))
    assert kinds(planned(world).writes) == [Create]
    sent = [write for write in settle(world, RULES) if not isinstance(write, WriteStatus)]
    assert kinds(sent) == [Create, Delete]
    assert [write.ref for write in sent] == [at("target-namespace", "moved"), TARGET]


def test_creating_the_new_secret_reconciles_its_owner_so_that_the_old_one_is_deleted() -> None:
    world = a_world()
    have = made(world)
    assert have is not None
    assert list(world.registry.next_hop(have, world)) == []
    apply(world, spec("moved"))
    new = world.put(at("target-namespace", "moved"), STORED, "samara", labels=OWNED)
    assert list(world.registry.next_hop(new, world)) == [KEY]


def a_foreign_secret(world: World) -> None:
    world.put(at("other", "moved"), secret())


def no_values(world: World) -> None:
    holds(world, USER, None, fault=DOWN)


def a_foreign_secret_and_no_values(world: World) -> None:
    a_foreign_secret(world)
    world.fetch([at("other", "moved")])
    no_values(world)


def an_unproven_copy_and_no_values(world: World) -> None:
    """With our labels, it counts as the copy of this FishySecret. Nobody knows whether it holds the right values."""
    world.put(at("other", "moved"), secret("pasted"), labels=OWNED)
    no_values(world)


def no_namespace(world: World) -> None:
    world.delete(namespace_ref("other"))


def a_pause(world: World) -> None:
    world.edit(namespace_ref("other"), annotations={PAUSED: "true"})


@pytest.mark.parametrize(
    "obstacle",
    [
        a_foreign_secret,
        no_values,
        a_foreign_secret_and_no_values,
        an_unproven_copy_and_no_values,
        no_namespace,
        a_pause,
    ],
)
def test_while_the_new_target_is_blocked_the_old_secret_stays(obstacle: Any) -> None:
    world = a_world()
    before = made(world)
    obstacle(world)
    apply(world, spec("moved", "other"))
    settle(world, RULES)
    assert world.objects[TARGET] is before


@pytest.mark.parametrize("broken", [None, {}, spec("Not_A_Name"), spec(data=[])])
def test_an_invalid_spec_keeps_the_existing_secret(broken: object) -> None:
    world = a_world()
    before = made(world)
    apply(world, broken)
    settle(world, RULES)
    assert world.objects[TARGET] is before
    assert faults(world) == ["Invalid"]


@pytest.mark.parametrize("namespace", ["kube-system", "samara"])
def test_defect_4_protected_namespaces_and_the_operators_own_secrets_are_refused(namespace: str) -> None:
    own = at("samara", "fishysecret-config")
    world = a_world(spec("fishysecret-config", namespace))
    world.namespace("samara")
    plan = plan_of(KEY, world, replace(RULES, operators_own=frozenset({own})))
    assert plan.writes == ()
    assert [target.reason for target in plan.blocked] == ["refused"]


def test_defect_4_targeting_the_operators_own_secret_changes_and_deletes_nothing() -> None:
    own = at("other", "fishysecret-config")
    rules = replace(RULES, operators_own=frozenset({own}))
    world = a_world()
    before = made(world)
    mine = world.put(own, secret())
    apply(world, spec("fishysecret-config", "other"))
    settle(world, rules)
    assert (world.objects[TARGET], world.objects[own]) == (before, mine)
    world.edit(SOURCE, deleting=True)
    settle(world, rules)
    assert world.objects[own] is mine
    assert TARGET not in world.objects


def test_defect_4_with_consent_the_target_namespace_must_accept_that_of_the_fishysecret() -> None:
    world = a_world(terms=options(consent=True))
    assert [target.reason for target in planned(world).blocked] == ["not-accepted"]
    world.edit(namespace_ref("target-namespace"), annotations={ACCEPT: "default"})
    assert made(world) is not None
    world.edit(namespace_ref("target-namespace"), annotations={ACCEPT: "other"})
    assert made(world) is None


@pytest.mark.parametrize("stopped", [spec(suspend=True), {**SAMPLE, "data": []}], ids=["suspended", "invalid"])
def test_withdrawn_consent_deletes_the_secret_also_of_a_suspended_or_invalid_fishysecret(stopped: Json) -> None:
    world = a_world(terms=options(consent=True))
    namespace = namespace_ref("target-namespace")
    world.edit(namespace, annotations={ACCEPT: "default"})
    before = made(world)
    apply(world, stopped)
    assert made(world) is before
    world.edit(namespace, annotations={})
    assert made(world) is None


def test_withdrawn_consent_deletes_the_secret_also_while_the_store_is_down() -> None:
    world = a_world(terms=options(consent=True))
    namespace = namespace_ref("target-namespace")
    world.edit(namespace, annotations={ACCEPT: "default"})
    assert made(world) is not None
    holds(world, USER, b"app_user", fault=DOWN)
    world.edit(namespace, annotations={})
    assert made(world) is None


def test_defect_4_a_target_in_its_own_namespace_needs_no_consent() -> None:
    world = a_world(spec(namespace="default"), options(consent=True))
    assert made(world, at("default", "test-secret")) is not None


def test_defect_4_a_path_that_is_not_allowed_is_not_read_and_the_secret_stays() -> None:
    allowed = [USER]
    terms = options(readable=lambda namespace, view: (USER,) if allowed and namespace == "default" else ("*",))
    allowed.clear()
    world = a_world(terms=terms)
    before = made(world)
    allowed.append(USER)
    plan = planned(world)
    assert [fault.reason for fault in plan.faults] == ["PathNotAllowed"]
    assert PASSWORD in plan.faults[0].message
    assert USER not in plan.faults[0].message
    assert world.registry[NAME].desired(SOURCE, world).reads == ()
    assert made(world) is before


SECOND = Ref(FISHY_SECRET, "default", "second")


def test_defect_5_of_two_fishysecrets_with_one_target_the_older_wins_and_the_other_deletes_nothing() -> None:
    world = a_world(created="2026-02")
    apply(world, SAMPLE, SECOND, created="2026-01")
    live = made(world)
    assert live is not None
    assert live.labels[OWNER_NAME] == "second"
    assert [target.reason for target in planned(world).blocked] == ["conflict"]
    world.delete(SOURCE)
    settle(world, RULES)
    assert world.objects[TARGET] is live


def test_defect_5_an_older_fishysecret_that_changes_to_the_target_of_another_takes_it_over() -> None:
    world = a_world(created="2026-02")
    live = made(world)
    apply(world, spec("elsewhere"), SECOND, created="2026-01")
    settle(world, RULES)
    apply(world, SAMPLE, SECOND)
    writes = settle(world, RULES)
    assert [type(write) for write in writes if write.ref == TARGET] == [
        Update
    ]  # the Secret is never deleted in between
    taken = world.objects[TARGET]
    assert live is not None
    assert (taken.uid, taken.labels[OWNER_NAME]) == (live.uid, "second")
    (blocked,) = planned(world).blocked
    assert blocked.message == "fishysecret/FishySecret/default/second has this address"


def test_defect_5_when_the_older_is_deleted_the_other_takes_the_secret_over() -> None:
    world = a_world(created="2026-02")
    apply(world, SAMPLE, SECOND, created="2026-01")
    settle(world, RULES)
    world.delete(SECOND)
    live = made(world)
    assert live is not None
    assert live.labels == OWNED


LONG = "a-fishysecret-with-a-name-that-is-longer-than-any-label-can-hold-" + "x" * 100


def test_defect_6_a_name_too_long_for_a_label_becomes_a_token_and_is_complete_in_an_annotation() -> None:
    world = a_world()
    ref = Ref(FISHY_SECRET, "default", LONG)
    apply(world, spec("long"), ref)
    live = made(world, at("target-namespace", "long"))
    assert live is not None
    assert len(live.labels[OWNER_NAME]) <= 63
    assert live.annotations == {OWNER_NAME: LONG}
    assert world.registry[NAME].ownership.source_of(live, world) == ref
    world.delete(ref)
    assert made(world, at("target-namespace", "long")) is None


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({**OWNED, OWNER_NAMESPACE: "Not_A_Namespace"}, {}),
        ({**OWNED, OWNER_NAME: ""}, {}),
        ({**OWNED, OWNER_NAME: "Not_A_Name"}, {}),
    ],
)
def test_labels_that_are_not_possible_names_are_no_mark(labels: dict[str, str], annotations: dict[str, str]) -> None:
    world = a_world()
    obj = world.put(at("other", "x"), secret(), labels=labels, annotations=annotations)
    assert world.registry[NAME].ownership.source_of(obj, world) is None


def test_an_owner_annotation_of_another_client_does_not_change_the_owner() -> None:
    world = a_world()
    settle(world, RULES)
    world.edit(TARGET, annotations={OWNER_NAME: "another"})
    assert settle(world, RULES) == []
    world.delete(SOURCE)
    assert kinds(settle(world, RULES)) == [Delete, SetFinalizer]
    assert TARGET not in world.objects


def test_24_the_secret_is_deleted_although_another_fishysecret_without_values_has_the_same_target() -> None:
    world = a_world()
    other = Ref(FISHY_SECRET, "other", "young")
    items = [{"secretPath": "/absent", "secretKeyName": "X"}]
    apply(world, {"target": SAMPLE["target"], "data": items}, other, created="2027")
    world.outside[path("/absent")] = SecretReading(None, fault=DOWN)
    settle(world, RULES)
    world.delete(SOURCE)
    assert kinds(settle(world, RULES)) == [Delete, SetFinalizer]
    assert TARGET not in world.objects
    world.delete(other)
    assert kinds(settle(world, RULES)) == [SetFinalizer]


def test_withdrawn_consent_deletes_the_old_secret_while_the_new_target_is_blocked() -> None:
    world = a_world(terms=options(consent=True))
    old = namespace_ref("target-namespace")
    world.edit(old, annotations={ACCEPT: "default"})
    assert made(world) is not None
    apply(world, spec(namespace="other"))
    assert made(world) is not None
    world.edit(old, annotations={})
    assert SOURCE in world.registry[NAME].affected_by(world.objects[old], world)
    assert Delete in kinds(settle(world, RULES))
    assert TARGET not in world.objects


def test_a_fishysecret_in_a_paused_namespace_is_not_written_and_neither_is_its_secret() -> None:
    world = a_world()
    world.edit(namespace_ref("default"), annotations={PAUSED: "true"})
    (blocked,) = planned(world).blocked
    assert (blocked.reason, blocked.message) == ("held", f"namespace default of the source is paused ({PAUSED})")
    assert planned(world).writes == ()
    world.edit(namespace_ref("default"), annotations={})
    assert made(world) is not None
    world.edit(namespace_ref("default"), annotations={PAUSED: "true"})
    world.delete(SOURCE)
    assert made(world) is not None
    assert world.objects[SOURCE].finalizers == (FINALIZER,)


def test_a_secret_that_cannot_be_deleted_because_its_namespace_is_paused_is_reported() -> None:
    world = a_world()
    settle(world, RULES)
    world.edit(namespace_ref("target-namespace"), annotations={PAUSED: "true"})
    world.delete(SOURCE)
    settle(world, RULES)
    status = world.objects[SOURCE].status
    assert status is not None
    assert status.raw is not None
    (condition,) = json.loads(status.raw)["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "Held")
    assert "should be deleted, but is not" in condition["message"]


def test_a_new_spec_reports_an_optional_path_that_is_not_found() -> None:
    world = a_world()
    settle(world, RULES)
    more = {"secretPath": "/maybe", "secretKeyName": "MAYBE", "optional": True}
    world.outside[path("/maybe")] = SecretReading(None, fault=NOT_FOUND.fault, not_found=True)
    apply(world, {"target": SAMPLE["target"], "data": [*ITEMS, more]})
    assert faults(world) == ["FetchError"]


def test_defect_7_removed_labels_are_restored() -> None:
    world = a_world()
    settle(world, RULES)
    world.strip(TARGET)
    world.fetch([TARGET])
    live = made(world)
    assert live is not None
    assert live.labels == OWNED


def test_defect_7_a_changed_type_recreates_the_secret() -> None:
    world = a_world()
    settle(world, RULES)
    apply(world, spec(target={"type": "example.com/db"}))
    assert kinds(planned(world).writes) == [Recreate]


def test_defect_7_adding_the_labels_to_another_secret_causes_no_write() -> None:
    world = a_world()
    settle(world, RULES)
    theirs = world.put(at("other", "theirs"), secret(), labels=OWNED)
    assert [write for write in settle(world, RULES) if not isinstance(write, WriteStatus)] == []
    assert world.objects[theirs.ref] is theirs


def test_defect_9_deletion_without_our_finalizer_deletes_nothing() -> None:
    world = a_world()
    before = made(world)
    world.edit(SOURCE, finalizers=("somebody/else",))
    world.delete(SOURCE)
    assert settle(world, RULES) == []
    assert world.objects[TARGET] is before


def test_defect_9_a_finalizer_removed_by_hand_leaves_an_orphan() -> None:
    world = a_world()
    before = made(world)
    del world.objects[SOURCE]
    world.edit(namespace_ref("other"))
    assert planned(world).writes == ()
    assert world.objects[TARGET] is before


def test_deleting_the_crd_deletes_no_secret_even_after_consent_is_withdrawn() -> None:
    world = a_world(terms=options(consent=True))
    world.edit(namespace_ref("target-namespace"), annotations={ACCEPT: "default"})
    before = made(world)
    world.edit(namespace_ref("target-namespace"), annotations={})
    world.revoked, world.values = {FISHY_SECRET}, {}
    world.delete(SOURCE)
    assert kinds(settle(world, RULES)) == [SetFinalizer]
    assert world.objects[TARGET] is before


def test_deleting_the_crd_deletes_no_secret() -> None:
    world = a_world()
    before = made(world)
    world.revoked, world.values = {FISHY_SECRET}, {}
    world.delete(SOURCE)
    assert kinds(settle(world, RULES)) == [SetFinalizer]
    assert world.objects[TARGET] is before


def test_defect_12_each_path_is_read_once_per_interval_of_the_fishysecret() -> None:
    twice = [*ITEMS, {"secretPath": USER, "secretKeyName": "AGAIN"}]
    world = a_world(spec(data=twice, refreshInterval="1h2m3s"))
    assert world.registry[NAME].desired(SOURCE, world).reads == (SecretPath(USER, 3723.0), SecretPath(PASSWORD, 3723.0))
    world = a_world(terms=options(refresh_interval=42.0))
    assert world.registry[NAME].desired(SOURCE, world).reads == (SecretPath(USER, 42.0), SecretPath(PASSWORD, 42.0))


@pytest.mark.parametrize(
    ("asked", "least", "default", "used"),
    [
        ("1s", 10.0, 300.0, 10.0),
        ("11s", 10.0, 300.0, 11.0),
        ("1s", 1.0, 300.0, 1.0),
        ("1s", 10.0, 5.0, 5.0),  # the administrator's own interval is never too short
        ("1h", 10.0, 5.0, 3600.0),
    ],
)
def test_a_fishysecret_is_not_read_more_often_than_the_settings_allow(
    asked: str, least: float, default: float, used: float
) -> None:
    terms = options(refresh_interval=default, min_refresh_interval=least)
    world = a_world(spec(refreshInterval=asked), terms=terms)
    assert world.registry[NAME].desired(SOURCE, world).reads == (SecretPath(USER, used), SecretPath(PASSWORD, used))


def gone(world: World) -> None:
    world.delete(namespace_ref("target-namespace"))


def going(world: World) -> None:
    world.terminate("target-namespace")


@pytest.mark.parametrize("end", [gone, going])
def test_defect_16_a_missing_or_terminating_namespace_is_reported_and_waited_for(end: Any) -> None:
    world = a_world()
    end(world)
    assert faults(world) == ["NoNamespace"]
    assert [target.reason for target in planned(world).blocked] == ["no-namespace"]


def test_defect_16_a_new_namespace_reconciles_only_the_fishysecrets_that_target_it() -> None:
    world = a_world()
    gone(world)
    assert list(world.registry.keys_to_reconcile(world.namespace("another"), world)) == []
    assert list(world.registry.keys_to_reconcile(world.namespace("target-namespace"), world)) == [KEY]
    assert made(world) is not None


def optional(where: str = PASSWORD) -> Json:
    items = [{**item, "optional": True} if item["secretPath"] == where else item for item in ITEMS]
    return spec(data=items)


def test_a_path_is_optional_only_if_every_key_that_uses_it_is_optional() -> None:
    world = a_world(optional())
    assert world.registry[NAME].desired(SOURCE, world).reads == (
        SecretPath(USER, 300.0),
        SecretPath(PASSWORD, 300.0, True),
    )
    items = [*optional()["data"], {"secretPath": PASSWORD, "secretKeyName": "AGAIN"}]
    world = a_world(spec(data=items))
    assert world.registry[NAME].desired(SOURCE, world).reads == (SecretPath(USER, 300.0), SecretPath(PASSWORD, 300.0))


def test_defect_17_an_optional_path_that_is_absent_for_an_interval_is_left_out() -> None:
    world = a_world(optional())
    settle(world, RULES)
    holds(world, PASSWORD, b"click me!", fault=NOT_FOUND.fault, not_found=True, absent_for=300.0)
    live = made(world)
    assert live is not None
    assert live.content == content(data={"DB_USER": "YXBwX3VzZXI="}, type="Opaque")
    assert faults(world) == []


@pytest.mark.parametrize("sample", [SAMPLE, optional(USER)])
def test_46_a_required_path_that_is_absent_keeps_its_last_good_value(sample: Json) -> None:
    world = a_world(sample)
    before = made(world)
    holds(world, PASSWORD, b"click me!", fault=NOT_FOUND.fault, not_found=True, absent_for=300.0)
    assert made(world) is before
    assert faults(world) == ["FetchError"]


@pytest.mark.parametrize(("every", "left_out"), [("2s", True), ("1m", True), ("5m", False), ("999999h", False)])
def test_46_each_fishysecret_judges_absence_by_its_own_interval(every: str, left_out: bool) -> None:
    world = a_world({**optional(), "refreshInterval": every})
    holds(world, PASSWORD, None, fault=NOT_FOUND.fault, not_found=True, absent_for=60.0)
    assert (made(world) is not None) is left_out
    assert faults(world) == ([] if left_out else ["FetchError"])


def test_46_one_not_found_answer_is_no_absence() -> None:
    world = a_world(optional())
    before = made(world)
    holds(world, PASSWORD, None, fault=NOT_FOUND.fault)
    assert made(world) is before


def test_46_the_first_not_found_after_a_restart_is_not_reported_if_the_secret_exists() -> None:
    world = a_world(optional())
    before = made(world)
    holds(world, PASSWORD, None, fault=NOT_FOUND.fault, not_found=True)
    assert made(world) is before
    assert faults(world) == []
    world.delete(TARGET)
    assert faults(world) == ["FetchError"]


def test_46_other_faults_are_reported_while_an_optional_path_may_be_absent() -> None:
    world = a_world(optional())
    made(world)
    holds(world, PASSWORD, None, fault=NOT_FOUND.fault, not_found=True)
    holds(world, USER, b"app_user", fault=NOT_FOUND.fault)
    assert faults(world) == ["FetchError"]


def test_46_a_failing_read_of_an_optional_path_is_reported_although_it_was_absent_before() -> None:
    """The last read failed, so it does not show whether the path exists by now."""
    world = a_world(optional())
    holds(world, PASSWORD, None, fault=NOT_FOUND.fault, not_found=True, absent_for=300.0)
    before = made(world)
    assert before is not None
    holds(world, PASSWORD, None, fault=DOWN, absent_for=300.0)
    assert faults(world) == ["FetchError"]
    assert made(world) is before
    world.delete(TARGET)
    again = made(world)
    assert again is not None, "the last good values are enough to create it"
    assert again.content == before.content


def test_46_a_failing_read_is_reported_while_another_optional_path_may_be_absent() -> None:
    world = a_world(spec(data=[{**item, "optional": True} for item in ITEMS]))
    made(world)
    holds(world, USER, None, fault=NOT_FOUND.fault, not_found=True)
    holds(world, PASSWORD, None, fault=DOWN, absent_for=300.0)
    assert "FetchError" in faults(world)


def test_50_binary_values_are_copied_unchanged() -> None:
    world = a_world()
    holds(world, PASSWORD, b"\0\xff{{ evil }}")
    live = made(world)
    assert live is not None
    assert live.content == content(data={"DB_PASS": "AP97eyBldmlsIH19", "DB_USER": "YXBwX3VzZXI="}, type="Opaque")


def test_50_values_too_large_for_one_secret_are_reported_and_nothing_is_written() -> None:
    world = a_world()
    before = made(world)
    holds(world, PASSWORD, b"x" * 2**20)
    assert faults(world) == ["Invalid"]
    assert "1,048,576 bytes" in planned(world).faults[0].message
    assert made(world) is before


def test_a_suspended_fishysecret_reads_nothing_writes_nothing_and_keeps_its_secret() -> None:
    world = a_world()
    before = made(world)
    apply(world, spec("moved", suspend=True))
    assert world.registry[NAME].desired(SOURCE, world).reads == ()
    assert [write for write in settle(world, RULES) if not isinstance(write, WriteStatus)] == []
    assert world.objects[TARGET] is before


def test_deleting_a_suspended_fishysecret_deletes_its_secret() -> None:
    world = a_world()
    settle(world, RULES)
    apply(world, spec(suspend=True))
    world.delete(SOURCE)
    assert made(world) is None


def test_the_secret_may_be_a_source_of_another_vocabulary() -> None:
    world = a_world()
    have = made(world)
    assert have is not None
    world.edit(TARGET, annotations={sync_to.SYNC_TO: "namespaces", sync_to.SYNC_TO_NAMESPACES: "other"})
    settle(world, RULES)
    copy = world.objects[at("other", "test-secret")]
    assert copy.content == STORED
    assert not {OWNER_NAME, OWNER_NAMESPACE} & {*copy.labels, *copy.annotations}


def test_forged_labels_make_no_source_of_a_copy_of_another_vocabulary() -> None:
    world = a_world()
    world.put(
        at("default", "db"), secret(), annotations={sync_to.SYNC_TO: "namespaces", sync_to.SYNC_TO_NAMESPACES: "other"}
    )
    settle(world, RULES)
    copy = world.objects[at("other", "db")]
    forged = world.edit(
        copy.ref, labels={**copy.labels, **OWNED}, annotations={**copy.annotations, sync_to.SYNC_TO: "cluster"}
    )
    assert list(world.registry.sources(forged, world)) == []


def test_one_target_name_in_several_namespaces_is_no_conflict() -> None:
    world = a_world()
    for number in range(3):
        world.namespace(f"n{number}")
        apply(world, spec("db", f"n{number}"), Ref(FISHY_SECRET, "default", f"f{number}"))
    assert list(world.claimants(at("n1", "db"))) == [Key(NAME, Ref(FISHY_SECRET, "default", "f1"))]


def test_no_repr_shows_a_value() -> None:
    world = a_world()
    holds(world, PASSWORD, b"canary-7f3a9")
    plan = planned(world)
    want = world.registry[NAME].desired(SOURCE, world)
    shown = repr((plan, want, want.copies, world.outside))
    assert "canary" not in shown
    assert "Y2FuYXJ5" not in shown


def test_the_limit_of_paths_says_which_setting_it_is() -> None:
    most, message = fishysecret.secret_store(FishySecretSettings(paths_per_namespace=1200), "operator").path_limit
    assert most == 1200
    assert "may have 1,200 paths together (setting vocabularies.fishysecret.pathsPerNamespace)" in message
