"""Reflector: which namespaces get a mirror, what it holds, and what happens to objects that people made."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.support.settle import follow, plan_of, settle
from tests.support.world import World, at, config_map, content, secret

from samara.assembly import registry_of
from samara.core.copy_counts import CopyCounts
from samara.core.metadata_keys import ADOPTED
from samara.core.model import CONFIG_MAP, FIELD_MANAGER, LABELS, Key, Object, Ref, namespace_ref
from samara.core.policy import ClusterPolicy
from samara.core.vocabulary import SettingError
from samara.core.writes import Blocked, Recreate, Update
from samara.settings import Settings
from samara.vocabularies import reflector, secret_copy
from samara.vocabularies.reflector import NAME, PULL, ReflectorSettings
from samara.vocabularies.reflector.annotations import (
    ALLOWED,
    ALLOWED_NAMES,
    ALLOWED_SELECTOR,
    AT,
    AUTO,
    AUTO_NAMES,
    AUTO_REFLECTS,
    AUTO_SELECTOR,
    REFLECTS,
    VERSION,
    auto_by,
    pitfalls,
)
from samara.vocabularies.sync_to import SyncToSettings

SOURCE = at("team", "db")
KEY = Key(NAME, SOURCE)
RULES = ClusterPolicy(protected=("kube-*",))
NAMESPACES = ("team", "shop", "shop-test", "billing", "kube-system")
OTHERS = {"shop", "shop-test", "billing"}
ON = {ALLOWED: "true", AUTO: "true"}
ORIGINAL = "kubernetes-csharp"
MIRROR = at("shop", "mine")
STARS = "(?=(a|aa)+$)(a|aa)+(?!b)c"
"""A pattern that would backtrack for ever on a name such as aaaa…"""


def a_world(asks: dict[str, str] | None = None, tenancy: str = "open", more: Any = None, **settings: Any) -> World:
    own = {NAME: ReflectorSettings(**settings), **(more or {})}
    world = World(registry_of(Settings(tenancy=tenancy, vocabularies=own)))  # type: ignore[arg-type]
    for name in NAMESPACES:
        world.namespace(name, {"stage": "test" if name.endswith("-test") else "live"})
    if asks is not None:
        world.put(SOURCE, secret(), annotations=asks, labels={"app": "db"})
        settle(world, RULES)
    return world


def mirrors(world: World) -> set[str]:
    return {ref.namespace for ref in world.objects if ref.name == SOURCE.name and ref != SOURCE}


def mirror(world: World, ref: Ref | None = None) -> Object:
    return world.objects[ref or at("shop", "db")]


def ask(world: World, asks: dict[str, str]) -> None:
    world.edit(SOURCE, annotations=asks)
    settle(world, RULES)


def blocked(world: World, key: Key = KEY) -> dict[str, str]:
    steps = plan_of(key, world, RULES).steps
    return {step.ref.namespace: step.outcome.reason for step in steps if isinstance(step.outcome, Blocked)}


def faults(world: World, key: Key = KEY) -> str:
    return " ".join(fault.message for fault in plan_of(key, world, RULES).faults)


def of_original(world: World, namespace: str, **marks: str) -> Object:
    """A mirror as the original writes it, by its field manager."""
    annotations = {
        AUTO_REFLECTS: "True",
        REFLECTS: SOURCE.path,
        VERSION: "12345",
        AT: "2026-08-01T10:00:00.1234567+00:00",
    } | marks
    ref = at(namespace, "db")
    world.put(ref, secret(), by=ORIGINAL, annotations=annotations)
    return world.objects[ref]


# Automatic mirrors


@pytest.mark.parametrize(
    ("asks", "namespaces"),
    [
        ({}, OTHERS),
        ({AUTO_NAMES: " ", ALLOWED_NAMES: "\t"}, OTHERS),
        ({AUTO_NAMES: "shop"}, {"shop"}),
        ({AUTO_NAMES: " shop ,billing,"}, {"shop", "billing"}),
        ({AUTO_NAMES: ","}, set()),
        ({AUTO_NAMES: "shop-.*"}, {"shop-test"}),
        ({AUTO_NAMES: "^b.*"}, {"billing"}),
        ({AUTO_NAMES: "(?!shop).*"}, {"billing"}),
        ({AUTO_NAMES: ".*(?<!-test)"}, {"shop", "billing"}),
        ({AUTO_NAMES: "shop|shop-test"}, {"shop"}),
        ({AUTO_NAMES: "shop-*"}, {"shop"}),
        ({AUTO_SELECTOR: "stage=test"}, {"shop-test"}),
        ({AUTO_SELECTOR: "stage notin (test), kind!=x"}, {"shop", "billing"}),
    ],
)
def test_r1_every_matching_namespace_gets_a_mirror(asks: dict[str, str], namespaces: set[str]) -> None:
    assert mirrors(a_world(ON | asks)) == namespaces


def test_r1_a_new_and_a_newly_labelled_namespace_get_a_mirror() -> None:
    world = a_world(ON | {AUTO_NAMES: "new-.*", AUTO_SELECTOR: "stage=dev"})
    assert mirrors(world) == set()
    follow(world, RULES, lambda world: world.namespace("new-shop"))
    follow(world, RULES, lambda world: world.edit(namespace_ref("billing"), labels={"stage": "dev"}))
    assert mirrors(world) == {"new-shop", "billing"}


@pytest.mark.parametrize(
    ("asks", "namespaces"),
    [
        ({ALLOWED: "true"}, set()),
        ({AUTO: "true"}, set()),
        ({ALLOWED: "yes", AUTO: "true"}, set()),
        ({ALLOWED: " TRUE ", AUTO: "True"}, OTHERS),
        (ON | {ALLOWED_NAMES: "shop", AUTO_NAMES: "billing"}, set()),
        (ON | {ALLOWED_NAMES: "shop"}, {"shop"}),
        (ON | {ALLOWED_NAMES: "shop.*", AUTO_NAMES: "shop, billing"}, {"shop"}),
    ],
)
def test_r2_both_booleans_and_both_lists_must_agree(asks: dict[str, str], namespaces: set[str]) -> None:
    assert mirrors(a_world(asks)) == namespaces


@pytest.mark.parametrize(
    ("asks", "namespaces"),
    [
        ({AUTO_NAMES: "billing", AUTO_SELECTOR: "stage=test"}, {"billing", "shop-test"}),
        ({ALLOWED_NAMES: "billing", ALLOWED_SELECTOR: "stage=test"}, {"billing", "shop-test"}),
        ({ALLOWED_NAMES: "billing", ALLOWED_SELECTOR: "stage=test", AUTO_NAMES: "shop.*"}, {"shop-test"}),
    ],
)
def test_r3_the_list_and_the_selector_are_alternatives(asks: dict[str, str], namespaces: set[str]) -> None:
    assert mirrors(a_world(ON | asks)) == namespaces


def test_r4_a_mirror_holds_type_and_data_and_the_four_annotations() -> None:
    world = a_world()
    world.put(SOURCE, secret(kind="example/one", immutable=True), annotations=ON | {"note": "x"}, labels={"app": "db"})
    settle(world, RULES)
    assert mirror(world).content == secret(kind="example/one")
    assert dict(mirror(world).labels) == {}
    assert set(mirror(world).annotations) == {REFLECTS, AUTO_REFLECTS, VERSION, AT}
    assert mirror(world).annotations[REFLECTS] == "team/db"
    assert mirror(world).annotations[AUTO_REFLECTS] == "True"
    assert mirror(world).annotations[VERSION] == str(world.objects[SOURCE].resource_version)


def test_r4_a_config_map_keeps_its_binary_data() -> None:
    world = a_world()
    body = config_map(binaryData={"x": "eA=="}, immutable=True)
    world.put(at("team", "db", CONFIG_MAP), body, annotations=ON)
    settle(world, RULES)
    assert world.objects[at("shop", "db", CONFIG_MAP)].content == body.without("immutable")


def test_r5_changes_of_the_data_reach_every_mirror() -> None:
    world = a_world(ON)
    world.edit(SOURCE, content=content(data={"other": "two"}, type="Opaque"))
    world.edit(at("shop", "db"), content=content(data={"key": "one", "added": "x"}, type="Opaque"))
    settle(world, RULES)
    assert {mirror(world, at(name, "db")).content for name in OTHERS} == {content(data={"other": "two"}, type="Opaque")}


@pytest.mark.parametrize(
    "asks", [{AUTO: "true"}, {ALLOWED: "true"}, ON | {AUTO_NAMES: "billing"}, ON | {ALLOWED_SELECTOR: "stage=test"}, {}]
)
def test_r6_a_mirror_that_is_no_longer_wanted_goes(asks: dict[str, str]) -> None:
    world = a_world(ON)
    ask(world, asks)
    assert "shop" not in mirrors(world)


def test_r6_a_mirror_goes_with_its_source_and_with_the_label_of_its_namespace() -> None:
    world = a_world(ON | {AUTO_SELECTOR: "stage=live"})
    follow(world, RULES, lambda world: world.edit(namespace_ref("shop"), labels={}))
    assert mirrors(world) == {"billing"}
    world.delete(SOURCE)
    settle(world, RULES)
    assert mirrors(world) == set()


def test_r7_a_pull_mirror_of_this_source_counts_as_right_and_stays() -> None:
    world = a_world(ON)
    world.delete(at("shop", "db"))
    world.put(at("shop", "db"), secret("placeholder"), annotations={REFLECTS: "team/db"})
    settle(world, RULES)
    assert mirror(world).content == secret()
    assert mirror(world).annotations[AUTO_REFLECTS] == "False"
    assert blocked(world) == {}
    ask(world, ON | {AUTO_NAMES: "billing"})
    assert mirrors(world) == {"shop", "billing"}


def test_r7_a_pull_mirror_of_another_source_is_a_conflict() -> None:
    world = a_world()
    world.put(at("shop", "db"), secret(), annotations={REFLECTS: "team/other"})
    world.put(SOURCE, secret(), annotations=ON)
    settle(world, RULES)
    assert blocked(world) == {"shop": "conflict"}
    assert set(mirror(world).annotations) == {REFLECTS}
    world.delete(SOURCE)
    settle(world, RULES)
    assert "shop" in mirrors(world)


def test_r8_a_changed_type_recreates_the_mirror() -> None:
    world = a_world(ON)
    world.edit(SOURCE, content=secret(kind="example/two"))
    writes = settle(world, RULES)
    assert {type(write) for write in writes} == {Recreate}
    assert mirror(world).content == secret(kind="example/two")


def test_r9_a_mirror_makes_no_mirrors() -> None:
    world = a_world(ON | {AUTO_NAMES: "shop"})
    world.edit(at("shop", "db"), annotations={**mirror(world).annotations, **ON})
    settle(world, RULES)
    assert mirrors(world) == {"shop"}
    world.put(at("team", "p"), secret(), annotations=ON | {REFLECTS: "team/db"})
    settle(world, RULES)
    assert [ref.namespace for ref in world.objects if ref.name == "p"] == ["team"]


# Pull mirrors


def pulled(world: World, asks: dict[str, str] | None = None, ref: Ref = MIRROR, **more: Any) -> Object:
    """A world with a source that allows reflection, and a mirror that asks for it."""
    if SOURCE not in world.objects:
        world.put(SOURCE, secret(), annotations=asks if asks is not None else {ALLOWED: "true"})
    annotations = {REFLECTS: "team/db", "mine": "1"} | more.pop("annotations", {})
    world.put(ref, more.pop("content", secret("placeholder", "example/mine")), annotations=annotations, **more)
    settle(world, RULES)
    return world.objects[ref]


@pytest.mark.parametrize("ref", [MIRROR, at("team", "mine"), at("shop", "db")])
def test_r10_a_mirror_gets_the_content_of_its_source(ref: Ref) -> None:
    assert pulled(a_world(), ref=ref).content == secret(kind="example/mine")


@pytest.mark.parametrize(
    ("asks", "is_filled"),
    [
        ({ALLOWED: "true", ALLOWED_NAMES: "shop"}, True),
        ({ALLOWED: "true", ALLOWED_SELECTOR: "stage=live"}, True),
        ({ALLOWED: "true", ALLOWED_NAMES: "billing"}, False),
        ({ALLOWED: "false"}, False),
        ({}, False),
    ],
)
def test_r10_and_r11_the_source_must_allow_it(asks: dict[str, str], is_filled: bool) -> None:
    world = a_world()
    assert (pulled(world, asks).content == secret(kind="example/mine")) is is_filled
    assert blocked(world, Key(PULL, MIRROR)) == ({} if is_filled else {"shop": "not-accepted"})


def test_r11_permission_that_comes_later_fills_at_once_and_one_that_ends_keeps_the_content() -> None:
    world = a_world()
    pulled(world, {ALLOWED: "true", ALLOWED_SELECTOR: "pull=yes"})
    follow(world, RULES, lambda world: world.edit(namespace_ref("shop"), labels={"pull": "yes"}))
    assert mirror(world, MIRROR).content == secret(kind="example/mine")
    world.edit(namespace_ref("shop"), labels={})
    world.edit(SOURCE, content=secret("two"))
    settle(world, RULES)
    assert mirror(world, MIRROR).content == secret(kind="example/mine")
    follow(world, RULES, lambda world: world.edit(SOURCE, annotations={ALLOWED: "true"}))
    assert mirror(world, MIRROR).content == secret("two", "example/mine")


def test_r12_without_its_source_a_mirror_keeps_its_content_until_the_source_is_back() -> None:
    world = a_world()
    pulled(world)
    follow(world, RULES, lambda world: world.delete(SOURCE))
    assert mirror(world, MIRROR).content == secret(kind="example/mine")
    follow(world, RULES, lambda world: world.put(SOURCE, secret("back"), annotations={ALLOWED: "true"}))
    assert mirror(world, MIRROR).content == secret("back", "example/mine")


def test_r13_a_fill_sets_three_marks_and_leaves_the_rest() -> None:
    found = pulled(a_world(), labels={"mine": "2"})
    assert dict(found.labels) == {"mine": "2"}
    assert set(found.annotations) == {REFLECTS, "mine", AUTO_REFLECTS, VERSION, AT}
    assert found.annotations[REFLECTS] == "team/db"
    assert found.annotations[AUTO_REFLECTS] == "False"


def test_r13_labels_that_a_field_manager_of_the_original_set_stay() -> None:
    world = a_world()
    world.put(SOURCE, secret(), annotations={ALLOWED: "true"})
    world.put(MIRROR, secret("x"), by="unknown", labels={"a": "b"}, annotations={REFLECTS: "team/db", "c": "d"})
    settle(world, RULES)
    assert dict(mirror(world, MIRROR).labels) == {"a": "b"}
    assert mirror(world, MIRROR).annotations["c"] == "d"


def test_r14_an_edited_mirror_is_put_right() -> None:
    world = a_world()
    pulled(world)
    edit = secret("placeholder", "example/mine")
    follow(world, RULES, lambda world: world.edit(MIRROR, content=edit))
    assert mirror(world, MIRROR).content == secret(kind="example/mine")


def test_r14_blanking_the_version_is_no_reason_for_a_write() -> None:
    world = a_world()
    found = pulled(world)
    world.edit(MIRROR, annotations={**found.annotations, VERSION: ""})
    assert settle(world, RULES) == []


def test_r15_another_source_is_followed_and_without_one_the_object_stays() -> None:
    world = a_world()
    pulled(world)
    world.put(at("billing", "b"), content(data={"b": "1"}, type="Opaque"), annotations={ALLOWED: "true"})
    world.edit(MIRROR, annotations={REFLECTS: "billing/b"})
    settle(world, RULES)
    filled = content(data={"b": "1"}, type="example/mine")
    assert mirror(world, MIRROR).content == filled
    world.edit(MIRROR, annotations={})
    world.edit(at("billing", "b"), content=secret("new"))
    assert settle(world, RULES) == []
    assert mirror(world, MIRROR).content == filled


@pytest.mark.parametrize("value", ["db", "team/", "/db", "team/db/x", "Team/db", "shop/mine", "team /db"])
def test_r15_an_illegal_source_is_invalid(value: str) -> None:
    world = a_world()
    assert pulled(world, annotations={REFLECTS: value}).content == secret("placeholder", "example/mine")
    assert blocked(world, Key(PULL, MIRROR)) == {"shop": "invalid"}
    assert REFLECTS in faults(world, Key(PULL, MIRROR))


def test_r16_a_change_runs_along_a_chain() -> None:
    world = a_world()
    pulled(world, annotations={ALLOWED: "true"})
    second = at("billing", "second")
    pulled(world, ref=second, annotations={REFLECTS: MIRROR.path})
    follow(world, RULES, lambda world: world.edit(SOURCE, content=secret("two")))
    assert mirror(world, second).content == secret("two", "example/mine")


def test_r16_the_members_of_a_circle_are_invalid_and_stay() -> None:
    world = a_world()
    circle = [at("shop", name) for name in ("a", "b", "c")]
    for number, ref in enumerate(circle):
        annotations = {REFLECTS: circle[(number + 1) % 3].path, ALLOWED: "true"}
        world.put(ref, secret(ref.name), annotations=annotations)
    assert settle(world, RULES) == []
    assert [blocked(world, Key(PULL, ref)) for ref in circle] == [{"shop": "invalid"}] * 3
    follow(world, RULES, lambda world: world.edit(circle[2], annotations={ALLOWED: "true"}))
    assert {mirror(world, ref).content for ref in circle} == {secret("c")}


def test_r16_a_mirror_beside_a_circle_is_filled_from_its_source() -> None:
    world = a_world()
    for name, source in (("a", "b"), ("b", "a")):
        world.put(at("shop", name), secret(name), annotations={REFLECTS: f"shop/{source}", ALLOWED: "true"})
    found = pulled(world, ref=at("shop", "beside"), annotations={REFLECTS: "shop/a"})
    assert found.content == secret("a", "example/mine")


def test_r16_an_automatic_mirror_may_be_the_source_of_a_pull_mirror() -> None:
    world = a_world(ON)
    world.edit(at("billing", "db"), annotations={**mirror(world, at("billing", "db")).annotations, ALLOWED: "true"})
    found = pulled(world, annotations={REFLECTS: "billing/db"})
    assert found.content == secret(kind="example/mine")


# Both


@pytest.mark.parametrize("kind", ["helm.sh/release.v1", "helm.sh/release.v2"])
def test_r17_releases_of_helm_are_neither_sources_nor_mirrors(kind: str) -> None:
    world = a_world()
    world.put(SOURCE, secret(kind=kind), annotations=ON)
    world.put(at("team", "other"), secret(), annotations={ALLOWED: "true"})
    pulled(world, ref=at("shop", "release"), content=secret("x", kind), annotations={REFLECTS: "team/other"})
    assert mirrors(world) == set()
    assert mirror(world, at("shop", "release")).content == secret("x", kind)


@pytest.mark.parametrize("kind", ["helm.sh/release.v2", "kubernetes.io/service-account-token"])
def test_r17_nothing_is_filled_from_a_type_that_is_never_reflected(kind: str) -> None:
    world = a_world()
    world.put(SOURCE, secret(kind=kind), annotations=ON)
    assert pulled(world).content == secret("placeholder", "example/mine")
    assert blocked(world, Key(PULL, MIRROR)) == {"shop": "refused"}
    assert mirrors(world) == set()


def test_r18_mirrors_that_the_original_left_in_step_cause_no_write() -> None:
    world = a_world()
    world.put(SOURCE, secret(), annotations=ON)
    for name in OTHERS:
        of_original(world, name)
    marks = {AUTO_REFLECTS: "False", REFLECTS: "team/db", VERSION: "1", AT: "2026-08-01T10:00:00Z"}
    world.put(MIRROR, secret(), annotations=marks)
    assert settle(world, RULES) == []


def test_r18_a_mirror_of_the_original_whose_source_went_away_is_removed() -> None:
    world = a_world()
    of_original(world, "shop")
    settle(world, RULES)
    assert mirrors(world) == set()


def test_r18_a_pull_mirror_of_the_original_without_a_source_stays() -> None:
    world = a_world()
    of_original(world, "shop", **{AUTO_REFLECTS: "False"})
    assert settle(world, RULES) == []


@pytest.mark.parametrize(("value", "result"), [("one", {}), ("other", {"shop": "conflict"})])
def test_r19_a_foreign_object_is_adopted_if_identical_and_a_conflict_otherwise(
    value: str, result: dict[str, str]
) -> None:
    world = a_world()
    world.put(at("shop", "db"), secret(value))
    world.put(SOURCE, secret(), annotations=ON)
    settle(world, RULES)
    assert blocked(world) == result
    assert (ADOPTED in mirror(world).annotations) is (not result)


def test_r19_a_foreign_object_stays_when_its_namespace_is_relabelled() -> None:
    world = a_world(ON | {AUTO_SELECTOR: "stage=dev"})
    world.put(at("shop", "db"), secret("theirs"))
    follow(world, RULES, lambda world: world.edit(namespace_ref("shop"), labels={"stage": "dev"}))
    assert mirror(world).content == secret("theirs")


@pytest.mark.parametrize(
    "asks",
    [
        {AUTO_NAMES: "*, billing"},
        {AUTO_NAMES: "a**, billing"},
        {ALLOWED_NAMES: "(?<a-b>x), billing"},
        {AUTO_NAMES: f"{'x.' * 501}, billing"},
        {AUTO_SELECTOR: "stage > 1", AUTO_NAMES: "billing"},
        {AUTO_SELECTOR: "stage in ()", AUTO_NAMES: "billing"},
        {AUTO_SELECTOR: ",", AUTO_NAMES: "billing"},
        {AUTO_SELECTOR: "stage=a b", AUTO_NAMES: "billing"},
    ],
)
def test_r20_a_fault_is_named_the_other_items_are_served_and_no_mirror_goes(asks: dict[str, str]) -> None:
    world = a_world(ON)
    ask(world, ON | asks)
    assert mirrors(world) == OTHERS
    assert set(asks).intersection(faults(world).replace(":", " ").split())
    assert mirrors(a_world(ON | asks)) == {"billing"}


def test_r21_a_pattern_that_backtracks_matches_nothing_and_is_invalid() -> None:
    world = a_world()
    for number in range(20):
        world.namespace("a" * (63 - number))
    world.put(SOURCE, secret(), annotations=ON | {AUTO_NAMES: f"{STARS}, billing"})
    settle(world, RULES)
    assert mirrors(world) == {"billing"}
    assert AUTO_NAMES in faults(world)


def test_r21_no_plan_takes_long_and_patterns_beside_slow_ones_are_served() -> None:
    world = a_world()
    world.namespace("a" * 63)
    world.namespace("shop-of-b")
    patterns = ",".join([*(f"{STARS}{number}" for number in range(20)), "shop-(?!test).*"])
    world.put(SOURCE, secret(), annotations=ON | {AUTO_NAMES: patterns})
    for _ in range(12):
        started = time.thread_time()
        desired = world.registry[NAME].desired(SOURCE, world)
        assert time.thread_time() - started < 0.2
    assert desired.requeue_after is None
    assert len(desired.faults) == 20
    settle(world, RULES)
    assert mirrors(world) == {"shop-of-b"}


def test_r21_the_pattern_with_the_most_steps_is_the_slow_one() -> None:
    """None of its matches takes too long, but there are too many of them."""
    world = a_world()
    for number in range(40):
        world.namespace(f"{'a' * 50}{number}")
    slow = "(?:a*a*a*(?!c)){2}b"
    world.put(SOURCE, secret(), annotations=ON | {AUTO_NAMES: f"shop-(?!test).*|shop, {slow}"})
    settle(world, RULES)
    assert mirrors(world) == {"shop"}
    assert list(auto_by(world.objects[SOURCE]).slow) == [slow]


def test_r22_consent_is_asked_for_automatic_mirrors_only() -> None:
    world = a_world(ON, cross_namespace="consent")
    assert mirrors(world) == set()
    assert set(blocked(world).values()) == {"not-accepted"}
    assert pulled(world).content == secret(kind="example/mine")
    world.edit(namespace_ref("shop"), annotations={"samara.dev/accept-from": "team"})
    settle(world, RULES)
    assert mirrors(world) == {"shop"}


def test_r23_a_protected_namespace_is_refused_by_name_and_passed_over_otherwise() -> None:
    world = a_world(ON | {AUTO_NAMES: "kube-system, shop"})
    assert (mirrors(world), blocked(world)) == ({"shop"}, {"kube-system": "refused"})
    ask(world, ON | {AUTO_NAMES: "kube-.*, shop"})
    assert (mirrors(world), blocked(world)) == ({"shop"}, {})


# Decisions


def test_d1_a_foreign_object_is_overwritten_only_if_the_setting_says_so() -> None:
    world = a_world(conflicts="overwrite")
    world.put(at("shop", "db"), secret("theirs"))
    world.put(SOURCE, secret(), annotations=ON)
    settle(world, RULES)
    assert mirror(world).content == secret()


def test_d2_a_mirror_of_a_person_outside_the_list_stays() -> None:
    world = a_world(ON | {AUTO_NAMES: "billing"})
    pulled(world, ref=at("shop", "db"))
    settle(world, RULES)
    assert mirrors(world) == {"billing", "shop"}


def test_d3_mirrors_go_at_once_when_they_are_turned_off() -> None:
    world = a_world(ON)
    follow(world, RULES, lambda world: world.edit(SOURCE, annotations={ALLOWED: "true"}))
    assert mirrors(world) == set()


def test_d4_an_edited_or_deleted_mirror_is_repaired_at_once() -> None:
    world = a_world(ON)
    follow(world, RULES, lambda world: world.edit(at("shop", "db"), content=secret("edited")))
    follow(world, RULES, lambda world: world.delete(at("billing", "db")))
    assert (mirror(world).content, mirrors(world)) == (secret(), OTHERS)


def test_d5_an_invalid_pattern_stops_no_other_source() -> None:
    world = a_world(ON | {AUTO_NAMES: "*"})
    other = at("team", "other")
    world.put(other, secret(), annotations=ON)
    settle(world, RULES)
    assert at("shop", "other") in world.objects


def test_d7_a_mirror_that_the_original_made_in_a_protected_namespace_stays_without_updates() -> None:
    world = a_world()
    world.put(SOURCE, secret("two"), annotations=ON)
    left = of_original(world, "kube-system")
    settle(world, RULES)
    assert world.objects[left.ref] is left


def test_d9_a_pasted_mirror_without_a_source_stays() -> None:
    world = a_world(ON | {AUTO_NAMES: "shop"})
    world.paste(at("shop", "db"), "billing")
    world.delete(SOURCE)
    settle(world, RULES)
    assert mirrors(world) == {"billing"}


def test_d9_a_filled_object_that_is_declared_an_automatic_mirror_stays() -> None:
    """We wrote three of its marks, but not the one that names its source."""
    world = a_world()
    pulled(world, ref=at("shop", "db"))
    world.edit(at("shop", "db"), annotations={**mirror(world).annotations, AUTO_REFLECTS: "True"})
    settle(world, RULES)
    assert "shop" in mirrors(world)


# Rules of every adopted vocabulary


def test_a12_a_filled_object_counts_as_a_source_with_one_wanted_copy() -> None:
    world = a_world()
    pulled(world)
    assert Key(PULL, MIRROR) in world.source_keys()
    assert CopyCounts.of(plan_of(Key(PULL, MIRROR), world, RULES)).wanted == 1
    world.edit(SOURCE, annotations={})
    assert CopyCounts.of(plan_of(Key(PULL, MIRROR), world, RULES)).wanted == 1


def test_a12_an_immutable_object_is_refused_and_never_recreated() -> None:
    world = a_world()
    found = pulled(world, content=secret("placeholder", immutable=True))
    assert found.content == secret("placeholder", immutable=True)
    assert blocked(world, Key(PULL, MIRROR)) == {"shop": "refused"}


def test_a12_a_fill_is_one_conditional_update() -> None:
    world = a_world()
    pulled(world)
    world.edit(SOURCE, content=secret("two"))
    writes = plan_of(Key(PULL, MIRROR), world, RULES).writes
    assert [(type(write), write.live) for write in writes if isinstance(write, Update)] == [
        (Update, world.objects[MIRROR])
    ]


def test_a12_a_filled_object_may_be_a_source_of_another_vocabulary() -> None:
    world = a_world(more={"sync-to": SyncToSettings()})
    pulled(world, annotations={"openkruise.io/sync-to": "cluster"})
    assert world.objects[at("billing", "mine")].content == secret(kind="example/mine")


@pytest.mark.parametrize("value", ["one", "theirs"])
def test_a13_a_source_of_any_vocabulary_is_blocked_by_an_object_that_is_filled(value: str) -> None:
    world = a_world(more={"secret-copy": secret_copy.SecretCopySettings(home="team")})
    world.put(SOURCE, secret(), annotations={secret_copy.TARGETS: "shop"})
    world.put(at("billing", "other"), secret(value), annotations={ALLOWED: "true"})
    world.put(at("shop", "db"), secret(), annotations={REFLECTS: "billing/other"})
    settle(world, RULES)
    assert mirror(world).content == secret(value)
    assert blocked(world, Key("secret-copy", SOURCE)) == {"shop": "conflict"}


def test_a13_the_place_is_right_if_the_pull_names_that_source() -> None:
    world = a_world(more={"secret-copy": secret_copy.SecretCopySettings(home="team")})
    world.put(SOURCE, secret(), annotations={secret_copy.TARGETS: "shop", ALLOWED: "true"})
    world.put(at("shop", "db"), secret("x"), annotations={REFLECTS: "team/db"})
    settle(world, RULES)
    assert blocked(world, Key("secret-copy", SOURCE)) == {}
    assert mirror(world).annotations[AUTO_REFLECTS] == "False"


def test_a3_the_marks_are_those_of_the_original() -> None:
    world = a_world(ON)
    assert world.objects[at("shop", "db")].manages("annotations", REFLECTS, [FIELD_MANAGER])
    assert dict(mirror(world).annotations) == {
        REFLECTS: "team/db",
        AUTO_REFLECTS: "True",
        VERSION: str(world.objects[SOURCE].resource_version),
        AT: mirror(world).annotations[AT],
    }


def test_what_stands_in_an_excluded_namespace_is_neither_a_source_nor_filled_and_still_gets_mirrors() -> None:
    world = a_world(ON, excluded_namespaces=("shop*",))
    assert mirrors(world) == OTHERS
    assert pulled(world).content == secret("placeholder", "example/mine")
    world.put(at("shop", "src"), secret(), annotations=ON)
    found = pulled(world, ref=at("billing", "mine"), annotations={REFLECTS: "shop/src"})
    assert found.content == secret("placeholder", "example/mine")
    assert at("billing", "src") not in world.objects


def test_only_secrets_and_config_maps_are_served() -> None:
    with pytest.raises(SettingError, match="expected v1/Secret or v1/ConfigMap"):
        reflector.check(ReflectorSettings(kinds=(("apps", "v1", "Deployment"),)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("annotations", "field"),
    [
        ({AUTO: "true"}, AUTO),
        (ON | {REFLECTS: "a/b"}, AUTO),
        ({ALLOWED: "true", AUTO_NAMES: "x"}, AUTO_NAMES),
        ({ALLOWED_NAMES: "x"}, ALLOWED_NAMES),
        ({ALLOWED: "true", ALLOWED_NAMES: "*"}, ALLOWED_NAMES),
        ({ALLOWED: "true", ALLOWED_NAMES: "x"}, None),
        ({ALLOWED: "false", ALLOWED_NAMES: "x"}, None),
        ({REFLECTS: "a/b"}, None),
    ],
)
def test_a_key_without_effect_is_pointed_out(annotations: dict[str, str], field: str | None) -> None:
    obj = Object(SOURCE, "u", 1, annotations=annotations)
    assert next((mistake.field for mistake in reflector.ineffective(obj)), None) == field


@pytest.mark.parametrize(("item", "found"), [("ns-*", True), ("ns-.*", False), ("[a-z]*", False), ("*", False)])
def test_lint_says_that_a_pattern_is_no_glob(item: str, found: bool) -> None:
    assert any(pitfalls(Object(SOURCE, "u", 1, annotations={AUTO_NAMES: item}))) is found


def test_labels_of_the_source_never_travel() -> None:
    world = a_world(ON)
    assert not [owned for owned in mirror(world).managed_keys if owned.where == LABELS]
