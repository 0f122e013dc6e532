"""Which labels and annotations nearly request something, and what is said of them, for every vocabulary."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product
from string import ascii_lowercase
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.samples import a_copy, a_namespace, an_object
from tests.support.world import World, at

from samara.assembly import WELL_KNOWN, registry_of
from samara.core.metadata_keys import ACCEPT, IGNORE, PAUSED
from samara.core.model import ANNOTATIONS, CONFIG_MAP, FIELD_MANAGER, LABELS, SECRET, Kind, ManagedKey, Object
from samara.core.near_misses import MOST_EDITS, MOST_KEYS, MOST_MISSES, NearMiss, NearMissRules, edits, nearest
from samara.core.registry import Registry
from samara.settings import Settings, parse
from samara.vocabularies import VOCABULARIES, secret_copy, sync_to
from samara.vocabularies.accurate import labels as accurate
from samara.vocabularies.replicator import MATCHING, PREFIX, PULL, STRIP_LABELS, TO
from samara.vocabularies.secret_copy import ORIGIN, TARGETS
from samara.vocabularies.sync_to import SYNC_TO, SYNC_TO_NAMESPACES

SETTINGS = """
vocabularies:
  secret-copy: {}
  sync-to: {}
  accurate: {watches: [{version: v1, kind: Secret}]}
  replicator: {}
"""
SERVICE = Kind("", "v1", "Service", "services")
NO_EFFECT = "on any other kind this key does nothing"


def registry(settings: Settings | str = SETTINGS) -> Registry:
    return registry_of(settings if isinstance(settings, Settings) else parse(settings, "settings"), WELL_KNOWN)


def misses(obj: Object, settings: Settings | str = SETTINGS) -> list[tuple[str, str, str]]:
    """Where, key and what was found instead."""
    return [(miss.where, miss.key, miss.found) for miss in all_misses(obj, settings)]


def all_misses(obj: Object, settings: Settings | str = SETTINGS) -> tuple[NearMiss, ...]:
    served = registry(settings)
    return NearMissRules(served).of_object(obj, World(served))


def a_secret(namespace: str = "shop", kind: Kind = SECRET, **metadata: Any) -> Object:
    return an_object(at(namespace, "db", kind), **metadata)


def only(obj: Object, settings: Settings | str = SETTINGS) -> NearMiss:
    (miss,) = all_misses(obj, settings)
    return miss


# The right key on the wrong kind


@pytest.mark.parametrize(
    ("key", "value", "kind", "expected"),
    [
        (TARGETS, "", CONFIG_MAP, "the kind Secret"),
        (SYNC_TO, "cluster", SERVICE, "one of ConfigMap, Secret"),
        (accurate.PROPAGATE, "update", CONFIG_MAP, "the kind Secret"),
        (TO, "a", SERVICE, "one of ConfigMap, Secret"),
    ],
)
def test_a_request_on_a_kind_that_is_not_served_is_a_near_miss(key: str, value: str, kind: Kind, expected: str) -> None:
    miss = only(a_secret("admin", kind, annotations={key: value}))
    assert miss == NearMiss(ANNOTATIONS, key, f"on a {kind.name}", f"{expected}: {NO_EFFECT}")


def test_a_label_of_a_tree_on_another_kind_than_a_namespace_is_a_near_miss() -> None:
    miss = only(a_secret(labels={accurate.PARENT: "acme"}))
    assert (miss.where, miss.found) == (LABELS, "on a Secret")
    assert miss.expected.startswith("the kind Namespace:")


def test_several_requests_of_one_vocabulary_on_a_wrong_kind_are_one_near_miss() -> None:
    both = {SYNC_TO: "namespaces", SYNC_TO_NAMESPACES: "a"}
    assert len(all_misses(a_secret(kind=SERVICE, annotations=both))) == 1


# In the wrong namespace


def test_a_request_of_secret_copy_outside_of_the_home_namespace_is_a_near_miss() -> None:
    miss = only(a_secret(annotations={TARGETS: "a"}))
    assert miss.message == (
        f"{TARGETS}: in namespace shop; expected namespace admin, the home namespace: elsewhere this key does nothing"
    )
    assert misses(a_secret("admin", annotations={TARGETS: "a"})) == []


def test_under_strict_tenancy_the_home_namespace_is_not_named_to_others() -> None:
    miss = only(a_secret(annotations={TARGETS: "a"}), Settings(tenancy="strict"))
    assert "admin" not in miss.message
    assert "vocabularies.secret-copy.home" in miss.expected


# A label in place of an annotation, and the reverse


@pytest.mark.parametrize("key", [TARGETS, SYNC_TO, SYNC_TO_NAMESPACES, accurate.PROPAGATE, TO])
def test_a_request_as_a_label_is_a_near_miss(key: str) -> None:
    assert misses(a_secret("admin", labels={key: "update"})) == [(LABELS, key, "a label")]


@pytest.mark.parametrize("key", accurate.ROLES)
def test_a_label_of_a_tree_as_an_annotation_is_a_near_miss(key: str) -> None:
    assert misses(a_namespace("shop", annotations={key: "root"})) == [(ANNOTATIONS, key, "an annotation")]


def test_the_consent_of_a_namespace_as_a_label_is_a_near_miss() -> None:
    assert misses(a_namespace("shop", labels={ACCEPT: "team"})) == [(LABELS, ACCEPT, "a label of a Namespace")]


# Misspelt keys


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("secret-copy/namespace", TARGETS),
        ("secret-copy/namepsaces", TARGETS),
        ("secretcopy/namespaces", TARGETS),
        ("secretcopy/namespace", TARGETS),
        ("secret-copy.namespaces", TARGETS),
        ("openkruise.oi/sync-to", SYNC_TO),
        ("openkruise.io/sync_to", SYNC_TO),
        ("openkruise.io/sync-to-namespace", SYNC_TO_NAMESPACES),
        ("accurate.cybozu.com/propogate", accurate.PROPAGATE),
        ("accurate.cybozu.com/parrent", accurate.PARENT),
        (f"{PREFIX}replicate-to-matchin", MATCHING),
        ("samara.dev/pause", PAUSED),
        ("samara.dev/ignored", IGNORE),
        ("samara.dev/accepts-from", ACCEPT),
    ],
)
@pytest.mark.parametrize("where", [LABELS, ANNOTATIONS])
def test_a_misspelt_key_is_a_near_miss_with_the_right_one(key: str, meant: str, where: str) -> None:
    metadata: dict[str, Any] = {where: {key: "x"}}
    miss = only(a_secret(**metadata))
    assert (miss.where, miss.key, miss.found, miss.expected) == (where, key, "an unknown key", meant)


@pytest.mark.parametrize(
    "key",
    ["openkruise.io/owner", "secret-copy/note", ORIGIN, "samara.dev/new-in-a-later-version", PULL, "team", "app/name"],
)
def test_a_key_of_others_or_a_mark_is_no_near_miss(key: str) -> None:
    assert misses(a_secret(annotations={key: "x"})) == []


def test_the_nearest_key_counts() -> None:
    assert nearest("openkruise.io/sync-too", [SYNC_TO_NAMESPACES, SYNC_TO]) == SYNC_TO
    assert nearest("openkruise.io/sync", [SYNC_TO]) == ""


def test_keys_of_a_vocabulary_that_is_not_served_are_no_near_misses() -> None:
    served = Settings(vocabularies={"sync-to": sync_to.SyncToSettings()})
    keys = {TARGETS: "a", "secret-copy/namespace": "a", accurate.PROPAGATE: "always", TO: "a"}
    assert misses(a_secret(annotations=keys, labels={accurate.PARENT: "a"}), served) == []


def test_no_key_of_any_vocabulary_is_taken_for_a_misspelt_one() -> None:
    keys = {key for vocabulary in VOCABULARIES for key in (*vocabulary.metadata_keys, *vocabulary.unserved_keys)}
    rules = NearMissRules(registry())
    found = [rules.of_key(where, key) for key in keys for where in (LABELS, ANNOTATIONS)]
    assert "an unknown key" not in {miss.found for miss in found if miss is not None}


def test_a_key_of_another_controller_is_not_taken_for_a_misspelt_one() -> None:
    asked = a_secret(annotations={"secret-copy/namespace": "a"})
    for others, expected in ((frozenset[str](), 1), (frozenset({"secret-copy/namespace"}), 0)):
        served = Registry((secret_copy.source_type(),), keys_of_others=others)
        assert len(NearMissRules(served).of_object(asked, World(served))) == expected


@given(st.text("ab-/", max_size=6), st.text("ab-/", max_size=6))
def test_edits_are_those_of_the_recursive_definition(one: str, other: str) -> None:
    def naive(left: str, right: str) -> int:
        if not left or not right:
            return len(left) + len(right)
        replaced = naive(left[1:], right[1:]) + (left[0] != right[0])
        return min(replaced, naive(left[1:], right) + 1, naive(left, right[1:]) + 1)

    assert min(edits(one, other), MOST_EDITS + 1) == min(naive(one, other), MOST_EDITS + 1)


def many_misspelt_keys(number: int) -> dict[str, str]:
    letters = map("".join, product(ascii_lowercase, repeat=3))
    return dict.fromkeys((f"openkruise.io/sync-to-namespa{end}" for end in islice(letters, number)), "")


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_an_object_with_thousands_of_misspelt_keys_takes_little_time_and_gives_few_near_misses(where: str) -> None:
    """More keys than the results that are remembered: each would be compared again with every put."""
    metadata: dict[str, Any] = {where: many_misspelt_keys(15_000)}
    served, obj = registry(), a_secret(**metadata)
    rules, view = NearMissRules(served), World(served)
    started = process_time()
    found = rules.of_object(obj, view)
    assert process_time() - started < 0.5
    assert 0 < len(found) <= MOST_MISSES


# Unknown values, and keys without their partner


@pytest.mark.parametrize("value", ["always", "Update", "", "true"])
def test_an_unknown_mode_of_propagate_is_a_near_miss(value: str) -> None:
    miss = only(a_secret(annotations={accurate.PROPAGATE: value}))
    assert (miss.key, miss.found) == (accurate.PROPAGATE, repr(value))
    assert '"create" or "update"' in miss.expected


@pytest.mark.parametrize("value", ["Root", "sub", ""])
def test_an_unknown_type_of_a_namespace_is_a_near_miss(value: str) -> None:
    miss = only(a_namespace("shop", labels={accurate.TYPE: value}))
    assert (miss.where, miss.found) == (LABELS, repr(value))
    assert '"root" or "template"' in miss.expected


def test_a_list_of_sync_to_alone_is_a_near_miss() -> None:
    assert misses(a_secret(annotations={SYNC_TO_NAMESPACES: "a"})) == [
        (ANNOTATIONS, SYNC_TO_NAMESPACES, f"no {SYNC_TO}")
    ]


@pytest.mark.parametrize(
    ("annotations", "key", "found"),
    [({STRIP_LABELS: "true"}, STRIP_LABELS, "no request for copies"), ({TO: "a", PULL: "b/c"}, TO, f"beside {PULL}")],
)
def test_keys_of_replicator_that_request_nothing_are_near_misses(
    annotations: dict[str, str], key: str, found: str
) -> None:
    assert misses(a_secret(annotations=annotations)) == [(ANNOTATIONS, key, found)]


@pytest.mark.parametrize("where", [LABELS, ANNOTATIONS])
@pytest.mark.parametrize("key", [IGNORE, PAUSED])
def test_an_unknown_value_of_a_control_key_on_a_namespace_is_a_near_miss(where: str, key: str) -> None:
    unknown: dict[str, Any] = {where: {key: "yes"}}
    known: dict[str, Any] = {where: {key: "true"}}
    assert misses(a_namespace("shop", **unknown)) == [(where, key, "'yes'")]
    assert misses(a_namespace("shop", **known)) == []


@pytest.mark.parametrize("where", [LABELS, ANNOTATIONS])
def test_an_unknown_value_of_a_pause_is_a_near_miss_on_an_object_that_is_no_source(where: str) -> None:
    unknown: dict[str, Any] = {where: {PAUSED: "yes"}}
    known: dict[str, Any] = {where: {PAUSED: "true"}}
    assert misses(a_secret(**unknown)) == [(where, PAUSED, "'yes'")]
    assert misses(a_secret(**known)) == []


@pytest.mark.parametrize("value", ["yes", "true"])
def test_the_plan_of_a_source_reports_its_pause(value: str) -> None:
    assert misses(a_secret("admin", annotations={TARGETS: "a", PAUSED: value})) == []


@pytest.mark.parametrize(("value", "found"), [("true", ["on a copy"]), ("yes", ["on a copy"]), ("false", [])])
def test_a_pause_of_a_copy_is_a_near_miss(value: str, found: list[str]) -> None:
    copy = a_copy("shop")
    paused = replace(copy, annotations={**copy.annotations, PAUSED: value})
    assert [miss[2] for miss in misses(paused)] == found
    asking = replace(paused, annotations={**paused.annotations, SYNC_TO: "cluster"})
    assert [miss[1:] for miss in misses(asking)] == [*((PAUSED, text) for text in found), (SYNC_TO, "on a copy")]


def test_a_copy_that_is_itself_a_source_can_be_paused() -> None:
    ours = frozenset(ManagedKey(FIELD_MANAGER, ANNOTATIONS, key) for key in (accurate.FROM, accurate.PROPAGATE))
    annotations = {accurate.PROPAGATE: "update", accurate.FROM: "acme", PAUSED: "yes"}
    link = a_secret(annotations=annotations, managed_keys=ours, known_copy=True)
    served = registry()
    world = World(served)
    world.namespace("acme")
    world.namespace("shop", {accurate.PARENT: "acme"})
    assert served.owner(link, world) is not None
    assert NearMissRules(served).of_object(link, world) == ()
    assert NearMissRules(served).control_mistake(link, ANNOTATIONS, PAUSED, "true", world) is None


def test_a_control_key_where_it_has_no_effect_is_a_near_miss() -> None:
    annotations = {IGNORE: "true", ACCEPT: "team", PAUSED: "true"}
    assert misses(a_secret(annotations=annotations)) == [
        (ANNOTATIONS, IGNORE, "on a Secret"),
        (ANNOTATIONS, ACCEPT, "an annotation of a Secret"),
    ]


def test_a_consent_that_can_name_no_source_is_a_near_miss() -> None:
    assert misses(a_namespace("shop", annotations={ACCEPT: "team, Bad_Name"})) == [(ANNOTATIONS, ACCEPT, "'Bad_Name'")]


# Requests on copies


def test_a_request_on_a_copy_is_a_near_miss_that_names_no_other_namespace() -> None:
    copy = a_copy("shop")
    asking = an_object(
        copy.ref, annotations={**copy.annotations, SYNC_TO: "cluster"}, managed_keys=copy.managed_keys, known_copy=True
    )
    miss = only(asking)
    assert (miss.key, miss.found) == (SYNC_TO, "on a copy")
    assert "admin" not in miss.message
    assert misses(copy) == []


def test_a_copy_of_a_tree_is_a_link_of_a_chain_and_no_near_miss() -> None:
    keys = (accurate.FROM, accurate.PROPAGATE)
    ours = frozenset(ManagedKey(FIELD_MANAGER, ANNOTATIONS, key) for key in keys)
    annotations = {accurate.PROPAGATE: "update", accurate.FROM: "acme"}
    assert misses(a_secret(annotations=annotations, managed_keys=ours, known_copy=True)) == []
    pasted = {**annotations, ORIGIN: "admin/db"}
    assert misses(a_secret(annotations=pasted, managed_keys=ours, known_copy=True)) == []
    asking = {**annotations, SYNC_TO: "cluster"}
    assert misses(a_secret(annotations=asking, managed_keys=ours, known_copy=True)) == [
        (ANNOTATIONS, SYNC_TO, "on a copy")
    ]


def test_a_source_with_a_pasted_mark_is_no_near_miss() -> None:
    assert misses(a_secret(annotations={SYNC_TO: "cluster", ORIGIN: "admin/db"})) == []


# Objects


@pytest.mark.parametrize(
    "obj",
    [
        a_secret("admin", annotations={TARGETS: ""}),
        a_secret(annotations={SYNC_TO: "namespaces", SYNC_TO_NAMESPACES: "a"}),
        a_secret(annotations={accurate.PROPAGATE: "create"}),
        a_secret(annotations={TO: "a", STRIP_LABELS: "true"}),
        a_secret(annotations={"note": "x"}, labels={"team": "red"}),
        a_namespace("shop", labels={accurate.PARENT: "acme"}, annotations={ACCEPT: "*", IGNORE: "true"}),
    ],
)
def test_a_source_and_an_unrelated_object_have_no_near_misses(obj: Object) -> None:
    assert misses(obj) == []


def test_a_source_may_have_a_near_miss_too() -> None:
    annotations = {TARGETS: "", "secret-copy/namespace": "a"}
    assert misses(a_secret("admin", annotations=annotations)) == [
        (ANNOTATIONS, "secret-copy/namespace", "an unknown key")
    ]


def test_an_object_that_is_being_deleted_has_no_near_misses() -> None:
    assert misses(a_secret(annotations={TARGETS: ""}, deleting=True)) == []


def test_an_object_with_thousands_of_misspelt_keys_has_few_near_misses_which_cost_little() -> None:
    rules = NearMissRules(registry())
    keys = [f"openkruise.io/sync-{number}" for number in range(10_000)]
    assert len(rules.of_object(a_secret(annotations=dict.fromkeys(keys, "")), World(registry()))) == MOST_MISSES
    assert not rules.may_miss(ANNOTATIONS, (f"{key}-no" for key in keys))
    assert rules.of_key.cache_info().misses <= 2 * MOST_KEYS
