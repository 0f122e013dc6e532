"""Replicator: which namespaces a push reaches, what its copies hold, and what is left alone."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.server import CREATED
from tests.support.settle import plan_of, settle
from tests.support.world import World, at, config_map, content, secret

from samara.assembly import registry_of
from samara.core.admission import Request
from samara.core.metadata_keys import ADOPTED
from samara.core.model import CONFIG_MAP, FIELD_MANAGER, Key, KindName, Object, namespace_ref
from samara.core.policy import ClusterPolicy
from samara.core.vocabulary import SettingError
from samara.core.writes import Blocked
from samara.regular_expressions import Regexp, compile_regexp
from samara.settings import Settings
from samara.settings.model import CopiedMetadata
from samara.vocabularies import replicator
from samara.vocabularies.replicator import (
    AT,
    FROM,
    KEYS,
    MATCHING,
    NAME,
    PULL,
    STRIP_LABELS,
    TO,
    VERSION,
    ReplicatorSettings,
    parse,
    request_in,
)

SOURCE = at("team", "db")
KEY = Key(NAME, SOURCE)
RULES = ClusterPolicy(protected=("kube-*",))
NAMESPACES = {"team": "1", "shop": "1", "shop-test": "2", "billing": "3", "kube-system": "9"}
SHOP = {TO: "shop"}


def a_world(asks: dict[str, str] | None = None, tenancy: str = "open", copied: str = "", **settings: Any) -> World:
    """`copied`: a glob in the setting `copiedMetadata`."""
    own, listed = ReplicatorSettings(**settings), CopiedMetadata((copied,), (copied,))
    world = World(
        registry_of(Settings(tenancy=tenancy, vocabularies={NAME: own}, copied_metadata=listed))  # type: ignore[arg-type]
    )
    for name, tier in NAMESPACES.items():
        world.namespace(name, {"stage": "test" if name.endswith("-test") else "live", "tier": tier})
    if asks is not None:
        world.put(SOURCE, secret(), annotations=asks, labels={"app": "db"})
        settle(world, RULES)
    return world


def copied_to(world: World) -> set[str]:
    return {ref.namespace for ref in world.objects if ref.name == SOURCE.name and ref != SOURCE}


def copy(world: World, namespace: str = "shop") -> Object:
    return world.objects[at(namespace, "db")]


def ask(world: World, asks: dict[str, str]) -> None:
    world.edit(SOURCE, annotations=asks)
    settle(world, RULES)


def blocked(world: World) -> dict[str, str]:
    steps = plan_of(KEY, world, RULES).steps
    return {step.ref.namespace: step.outcome.reason for step in steps if isinstance(step.outcome, Blocked)}


# Which namespaces


@pytest.mark.parametrize(
    ("to", "namespaces"),
    [
        ("shop", {"shop"}),
        (" shop ,billing,", {"shop", "billing"}),
        ("shop.*", {"shop", "shop-test"}),
        ("^shop", {"shop"}),
        ("hop", set()),
        ("shop-|ing", {"shop-test", "billing"}),
        ("(shop|test)", {"shop"}),
        ("*", {"shop", "shop-test", "billing"}),
        (".*", {"shop", "shop-test", "billing"}),
        ("nowhere, ^.+$", {"shop", "shop-test", "billing"}),
        ("shop-*", {"shop"}),
        ("sho{1,3}p", set()),
        ("", set()),
    ],
)
def test_an_item_is_searched_in_the_name_with_an_anchor_on_each_side(to: str, namespaces: set[str]) -> None:
    assert copied_to(a_world({TO: to})) - {"sho{1"} == namespaces


@pytest.mark.parametrize(
    ("matching", "namespaces"),
    [
        ("stage=live", {"shop", "billing"}),
        ("stage==test", {"shop-test"}),
        ("stage != live", {"shop-test"}),
        ("stage in (live, test),\n tier notin (3)", {"shop", "shop-test"}),
        ("tier, !color", {"shop", "shop-test", "billing"}),
        ("tier>1", {"shop-test", "billing"}),
        ("stage in (live), tier < 3", {"shop"}),
        ("tier > 1, tier < 3", {"shop-test"}),
        ("stage > 1", set()),
        ("", {"shop", "shop-test", "billing"}),
    ],
)
def test_a_label_selector_chooses_the_namespaces_and_an_empty_one_chooses_all(
    matching: str, namespaces: set[str]
) -> None:
    assert copied_to(a_world({MATCHING: matching})) == namespaces


def test_both_annotations_select_the_union() -> None:
    assert copied_to(a_world({TO: "billing", MATCHING: "stage=test"})) == {"billing", "shop-test"}


def test_a_namespace_that_comes_later_gets_its_copy_and_loses_it_with_its_label() -> None:
    world = a_world({TO: "dev", MATCHING: "stage=dev"})
    assert copied_to(world) == set()
    world.namespace("dev")
    world.namespace("shop-dev", {"stage": "dev"})
    settle(world, RULES)
    assert copied_to(world) == {"dev", "shop-dev"}
    world.edit(namespace_ref("shop-dev"), labels={})
    settle(world, RULES)
    assert copied_to(world) == {"dev"}


def test_a_protected_namespace_is_refused_by_name_and_passed_over_by_a_pattern() -> None:
    world = a_world({TO: "kube-system"})
    assert (copied_to(world), blocked(world)) == (set(), {"kube-system": "refused"})
    ask(world, {TO: "kube-.*"})
    assert (copied_to(world), blocked(world)) == (set(), {})


def test_an_excluded_namespace_gets_no_copy() -> None:
    assert copied_to(a_world({TO: "shop-test, .*", MATCHING: ""}, exclude_namespaces=("shop-*",))) == {
        "shop",
        "billing",
    }


def test_under_strict_tenancy_a_namespace_must_accept() -> None:
    world = a_world(SHOP, tenancy="strict")
    assert (copied_to(world), blocked(world)) == (set(), {"shop": "not-accepted"})
    world.edit(namespace_ref("shop"), annotations={"samara.dev/accept-from": "team"})
    settle(world, RULES)
    assert dict(copy(world).labels) == {}


def test_under_strict_tenancy_no_label_travels_whatever_the_settings_list() -> None:
    world = a_world(SHOP, tenancy="strict", copied="*")
    world.edit(namespace_ref("shop"), annotations={"samara.dev/accept-from": "team"})
    settle(world, RULES)
    assert copy(world).content == secret()
    assert dict(copy(world).labels) == {}


# Mistakes


@pytest.mark.parametrize("asks", [{TO: "shop, ("}, {TO: "shop, (?=a)"}, {**SHOP, MATCHING: "stage in"}])
def test_a_mistake_is_reported_while_the_rest_is_served_and_deletes_nothing(asks: dict[str, str]) -> None:
    world = a_world({TO: "billing"})
    ask(world, asks)
    assert copied_to(world) == {"billing", "shop"}
    assert [fault.reason for fault in plan_of(KEY, world, RULES).faults] == ["Invalid"]


@pytest.mark.parametrize("value", ["tier > high", "tier > 1 2", "> 1", "tier >"])
def test_a_comparison_needs_a_key_and_an_integer(value: str) -> None:
    assert parse(None, value).faults


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("a|b", "parentheses"),
        ("*", "no glob"),
        ("ns-*", "no glob"),
        ("a{1,3}", "braces"),
        ("(a|b), ns-.*, [a-z]*, a{2}, shop", None),
    ],
)
def test_lint_points_at_what_does_not_mean_what_it_seems_to(to: str, expected: str | None) -> None:
    world = a_world({TO: to})
    found = [mistake.expected for mistake in replicator.lint(world.objects[SOURCE])]
    assert len(found) == (expected is not None)
    assert all(str(expected) in text for text in found)


@pytest.mark.parametrize("kind", [KindName("", "v1", "Service"), KindName("apps", "v1", "Deployment")])
def test_settings_refuse_other_kinds(kind: KindName) -> None:
    with pytest.raises(SettingError, match="expected v1/Secret or v1/ConfigMap"):
        replicator.check(ReplicatorSettings(kinds=(kind,)))


# Regular expressions that cost too much


def test_a_regular_expression_counts_like_a_hundred_names_and_is_not_compiled_before_it_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten thousand expressions took 16 s of CPU and 2.2 GB, before the limit on the number of names was applied."""
    compiled = list[str]()

    def compile_counted(text: str, max_memory: int) -> Regexp:
        compiled.append(text)
        return compile_regexp(text, max_memory)

    monkeypatch.setattr(replicator, "compile_regexp", compile_counted)
    world = a_world({TO: "shop"})
    source_type, most = world.registry[NAME], ",".join(f"counted-{number}-.*" for number in range(100))
    limits, admission = source_type.policy.limits, source_type.admission
    assert limits is not None
    assert admission is not None
    for to, is_allowed in (("one,*,.*", True), (most, True), (f"{most},one", False)):
        live = world.edit(SOURCE, annotations={TO: to})
        assert limits.allow_source(source_type.names.listed_by(live).total) is is_allowed
    (message,) = admission.validate(Request("CREATE", live, None), world)
    assert "a regular expression counts like 100" in message
    settle(world, RULES)
    assert copied_to(world) == {"shop"}, "the copies of a refused source stay"
    assert [fault.reason for fault in plan_of(KEY, world, RULES).faults] == ["LimitExceeded"]
    assert compiled == []


def test_a_regular_expression_is_compiled_once_for_any_number_of_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = list[str]()

    def compile_counted(text: str, max_memory: int) -> Regexp:
        compiled.append(text)
        return compile_regexp(text, max_memory)

    monkeypatch.setattr(replicator, "compile_regexp", compile_counted)
    world = a_world()
    sources = [at("team", f"once-{number}") for number in range(20)]
    for number, source in enumerate(sources):
        world.put(source, secret(), annotations={TO: f"once{number}-.*,shop-[t]est-{number}"})
    for name in ("once1-a", "once2-b", "once3-c"):
        world.namespace(name)
        settle(world, RULES)
    assert len(compiled) == len(set(compiled)) == 2 * len(sources)
    assert {ref.namespace for ref in world.objects if ref.name == "once-2"} == {"team", "once2-b"}


@pytest.mark.parametrize(
    "item",
    [".{999}x", "((a|b){30}){30}", r"[\pL\pN]{200}", "a" * 1001, "(" + "x|" * 500 + "x)"],
    ids=lambda item: item[:9],
)
def test_a_regular_expression_that_is_long_or_takes_much_memory_is_invalid_and_matches_nothing(item: str) -> None:
    world = a_world({TO: f"billing, {item}, .{{3}}p"})
    assert copied_to(world) == {"billing", "shop"}
    (fault,) = plan_of(KEY, world, RULES).faults
    assert fault.reason == "Invalid"


def test_one_regular_expression_takes_less_than_a_millisecond_for_one_name() -> None:
    """RE2 takes a time in proportion to the text and to the program of an expression, and both have limits."""
    names = ["".join("ab"[number >> bit & 1] for bit in range(63)) for number in range(200)]
    for count in range(10, 200, 10):
        for item in (f"(?:(?:a?b?){{{count}}}c?){{10}}", f"(?:.?){{{count}}}", f"(?:.*a){{{count}}}"):
            selector = parse(item, None).targets
            started = time.process_time()
            for name in names:
                selector.selects(name, {})
            assert time.process_time() - started < 0.002 * len(names)


@given(st.lists(st.sampled_from(["shop", "a", "sho", "hop", "shop-", "sh.p", "(", "*", " ", "a b"]), max_size=5))
def test_the_request_in_one_namespace_is_a_part_of_the_request(items: list[str]) -> None:
    world = a_world()
    source = world.put(SOURCE, secret(), annotations={TO: ",".join(items), MATCHING: "stage=test"})
    whole = parse(source.annotations[TO], "stage=test")
    for name in (*NAMESPACES, "a", "a-b", "sho", "hop"):
        part = request_in(source, name)
        for labels in ({}, {"stage": "test"}):
            assert part.targets.selects(name, labels) == whole.targets.selects(name, labels)
        assert part.targets.names_namespace(name) == whole.targets.names_namespace(name)
        assert part.faults == whole.faults


# What a copy holds


def test_r4_a_copy_has_the_data_the_type_the_labels_and_the_marks_and_nothing_else() -> None:
    world = a_world()
    body = content(data={"b": "1", "a": "2"}, type="example.com/t", immutable=True)
    world.put(SOURCE, body, annotations={**SHOP, "note": "stays"}, labels={"app": "db", "helm.sh/chart": "x"})
    settle(world, RULES)
    made, version = copy(world), str(world.objects[SOURCE].resource_version)
    assert made.content == body.without("immutable")
    assert dict(made.labels) == {"app": "db"}
    assert dict(made.annotations) == {FROM: "team/db", KEYS: "a,b", AT: CREATED, VERSION: version}


def test_r4_a_change_that_leaves_the_copies_right_writes_nothing_and_the_next_write_has_its_version() -> None:
    world = a_world(SHOP)
    old = copy(world).annotations[VERSION]
    world.edit(SOURCE, annotations={**SHOP, "note": "stays"})
    assert settle(world, RULES) == []
    new = world.edit(SOURCE, content=secret("two")).resource_version
    settle(world, RULES)
    assert old != copy(world).annotations[VERSION] == str(new)


def test_a_config_map_has_its_binary_data_too() -> None:
    world = a_world()
    source = at("team", "db", CONFIG_MAP)
    world.put(source, config_map(binaryData={"z": "eg=="}), annotations=SHOP)
    settle(world, RULES)
    made = world.objects[at("shop", "db", CONFIG_MAP)]
    assert (made.content, made.annotations[KEYS]) == (config_map(binaryData={"z": "eg=="}), "key,z")


@pytest.mark.parametrize("value", ["true", "false", ""])
def test_with_strip_labels_a_copy_has_no_label(value: str) -> None:
    assert dict(copy(a_world({**SHOP, STRIP_LABELS: value})).labels) == {}


def test_strip_labels_alone_asks_for_nothing() -> None:
    assert copied_to(a_world({STRIP_LABELS: "true"})) == set()


def test_a_changed_source_reaches_every_copy_and_nothing_is_written_at_rest() -> None:
    world = a_world({TO: ".*"})
    world.edit(SOURCE, content=secret("two"))
    assert len(settle(world, RULES)) == 3
    assert copy(world).content == secret("two")
    assert settle(world, RULES) == []


def test_a_copy_keeps_its_own_immutable() -> None:
    world = a_world(SHOP)
    world.edit(copy(world).ref, content=secret(immutable=True))
    assert settle(world, RULES) == []


# What is deleted, and what is left alone


@pytest.mark.parametrize("asks", [{}, {TO: ""}, {TO: "nowhere"}, {**SHOP, PULL: "other/db"}])
def test_a_copy_that_is_no_longer_requested_is_deleted(asks: dict[str, str]) -> None:
    world = a_world(SHOP)
    ask(world, asks)
    assert copied_to(world) == set()


def test_a_deleted_source_takes_its_copies_with_it() -> None:
    world = a_world(SHOP)
    world.delete(SOURCE)
    settle(world, RULES)
    assert copied_to(world) == set()


def test_a_copy_is_no_source() -> None:
    world = a_world(SHOP)
    world.edit(copy(world).ref, annotations={**copy(world).annotations, TO: "billing"})
    settle(world, RULES)
    assert copied_to(world) == {"shop"}


@pytest.mark.parametrize("mark", ["team/other", "billing/db", "Team/db", "db", "", "team/db/x"])
def test_a_mark_that_cannot_be_true_is_ignored(mark: str) -> None:
    world = a_world(SHOP)
    forged = world.put(at("billing", "db"), secret("theirs"), annotations={FROM: mark})
    settle(world, RULES)
    assert world.objects[forged.ref] is forged
    assert world.registry[NAME].ownership.source_of(forged, world) is None


def test_a_pasted_copy_stays_where_no_copy_is_wanted() -> None:
    world = a_world(SHOP)
    world.paste(copy(world).ref, "billing")
    settle(world, RULES)
    assert copied_to(world) == {"shop", "billing"}


def test_a_foreign_object_is_left_alone_or_adopted_if_it_is_equal() -> None:
    world = a_world()
    world.put(at("shop", "db"), secret("theirs"))
    world.put(at("billing", "db"), secret())
    world.put(SOURCE, secret(), annotations={TO: "shop, billing"})
    settle(world, RULES)
    assert copy(world).content == secret("theirs")
    assert ADOPTED in copy(world, "billing").annotations
    assert blocked(world) == {"shop": "conflict"}


# Coming from the original


@pytest.mark.parametrize("manager", ["replicator", "kubernetes-replicator"])
def test_a_copy_of_the_original_is_ours_from_its_first_update(manager: str) -> None:
    world = a_world()
    world.put(at("shop", "db"), secret("old"), by=manager, annotations={AT: "2026", VERSION: "7", KEYS: "key"})
    world.put(SOURCE, secret(), annotations=SHOP)
    settle(world, RULES)
    assert copy(world).content == secret()
    version = str(world.objects[SOURCE].resource_version)
    assert dict(copy(world).annotations) == {FROM: "team/db", KEYS: "key", AT: CREATED, VERSION: version}
    ask(world, {})
    assert copied_to(world) == set()


def test_what_another_client_marked_as_the_original_does_stays_foreign() -> None:
    world = a_world()
    world.put(at("shop", "db"), secret("old"), annotations={AT: "2026", VERSION: "7", KEYS: "key"})
    world.put(SOURCE, secret(), annotations=SHOP)
    settle(world, RULES)
    assert (copy(world).content, blocked(world)) == (secret("old"), {"shop": "conflict"})


@pytest.mark.parametrize("tenancy", ["open", "strict"])
def test_a7_a_copy_of_the_original_stays_as_it_is_where_samara_may_not_write(tenancy: str) -> None:
    world, place = a_world(tenancy=tenancy), "shop" if tenancy == "strict" else "kube-system"
    marks = {AT: "2026", VERSION: "7", KEYS: "key"}
    before = world.put(at(place, "db"), secret("old"), by="replicator", annotations=marks)
    world.put(SOURCE, secret(), annotations={TO: ".*"})
    settle(world, RULES)
    world.delete(SOURCE)
    settle(world, RULES)
    assert world.objects[before.ref] is before


def test_a6_a_label_of_the_original_that_does_not_travel_goes_with_the_first_write() -> None:
    world = a_world()
    labels, marks = {"app": "db", "helm.sh/chart": "x"}, {FROM: "team/db", AT: "2026", VERSION: "7", KEYS: "key"}
    world.put(at("shop", "db"), secret(), by="replicator", annotations=marks, labels=labels)
    world.put(SOURCE, secret(), annotations=SHOP, labels=labels)
    assert settle(world, RULES) == []
    world.edit(SOURCE, content=secret("two"))
    settle(world, RULES)
    assert dict(copy(world).labels) == {"app": "db"}


@pytest.mark.parametrize("manager", ["", "replicator"])
def test_a_target_of_pull_mode_is_left_alone_and_pushes_nothing(manager: str) -> None:
    world = a_world()
    marks = {AT: "2026", VERSION: "7", KEYS: "key"} if manager else {}
    target = world.put(at("shop", "db"), secret("old"), annotations={PULL: "other/db", TO: "billing"})
    target = world.edit(target.ref, by=manager, annotations={**target.annotations, **marks})
    world.put(SOURCE, secret(), annotations=SHOP)
    settle(world, RULES)
    assert world.objects[target.ref] is target
    assert (copied_to(world), blocked(world)) == ({"shop"}, {"shop": "conflict"})
    ask(world, {})
    assert world.objects[target.ref] is target


def test_a_copy_of_ours_that_another_client_makes_a_pull_target_stays_our_copy() -> None:
    world = a_world(SHOP)
    world.edit(copy(world).ref, by=FIELD_MANAGER, annotations={**copy(world).annotations, PULL: "other/db"})
    settle(world, RULES)
    assert (copied_to(world), blocked(world)) == ({"shop"}, {})
