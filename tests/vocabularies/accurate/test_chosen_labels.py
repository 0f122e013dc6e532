"""Labels that tenants choose in a SubNamespace select no namespace, unless the settings name their keys in full."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.settle import plan_of, settle
from tests.support.world import World, at, content, secret

from samara.app import unselected_labels
from samara.assembly import registry_of
from samara.core.model import CONFIG_MAP, Key, Ref, namespace_ref
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.core.trust import ChosenLabel
from samara.core.writes import Blocked, Delete
from samara.settings import Settings
from samara.vocabularies.accurate import AccurateSettings, tree
from samara.vocabularies.accurate.labels import FINALIZER, PARENT, SUB_NAMESPACE, TYPE
from samara.vocabularies.replicator import MATCHING, TO, ReplicatorSettings
from samara.vocabularies.resource_distribution import NAME, RESOURCE_DISTRIBUTION, ResourceDistributionSettings
from samara.vocabularies.secret_copy import SecretCopySettings

RULES = ClusterPolicy()
DISTRIBUTION = Ref(RESOURCE_DISTRIBUTION, "", "ca")
KEY = Key(NAME, DISTRIBUTION)
SETTING = "vocabularies.accurate.subNamespaceLabelKeys"


def a_registry(patterns: list[str], inherited: list[str] | None = None, **more: Any) -> Registry:
    config = {"subNamespaceLabelKeys": patterns, "labelKeys": inherited or []}
    own: dict[str, Any] = {
        "resource-distribution": ResourceDistributionSettings(),
        "replicator": ReplicatorSettings(),
        "accurate": AccurateSettings(config=config),
    }
    return registry_of(Settings(vocabularies=own, **more))


def a_world(patterns: list[str], inherited: list[str] | None = None, **labels: str) -> World:
    """A root `team` and its sub-namespace `web`, whose SubNamespace asks for these labels."""
    world = World(a_registry(patterns, inherited))
    world.namespace("team", {TYPE: "root"})
    a_sub(world, "web", "team", labels)
    return world


def a_sub(world: World, name: str, parent: str, labels: Mapping[str, str]) -> Ref:
    ref = Ref(SUB_NAMESPACE, parent, name)
    world.put(ref, content(spec={"labels": dict(labels)}), finalizers=(FINALIZER,), generation=1)
    settle(world, RULES)
    return ref


def distribute(world: World, selector: object, **targets: object) -> None:
    """A ResourceDistribution with this label selector, settled."""
    resource = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {"k": "v"}}
    spec = {"resource": resource, "targets": {"namespaceLabelSelector": selector, **targets}}
    world.put(DISTRIBUTION, content(spec=spec))
    settle(world, RULES)


def has_copy(world: World, namespace: str = "web") -> bool:
    return at(namespace, "ca", CONFIG_MAP) in world.objects


def refused(world: World, key: Key = KEY) -> dict[str, str]:
    blocked = plan_of(key, world, RULES).blocked
    return {step.ref.namespace: step.message for step in blocked if isinstance(step, Blocked)}


PAYMENTS = {"matchLabels": {"stage": "payments"}}
MESSAGE = (
    "only labels that tenants chose select the namespace (stage); "
    f"an administrator can allow these keys by writing them in full (setting {SETTING})"
)


@pytest.mark.parametrize(
    ("patterns", "is_allowed"), [(["stage"], True), (["*", "stage"], True), (["*"], False), (["sta?e", "team"], False)]
)
def test_a_label_from_a_spec_selects_its_namespace_only_if_the_settings_name_its_key_in_full(
    patterns: list[str], is_allowed: bool
) -> None:
    world = a_world(patterns, stage="payments")
    distribute(world, PAYMENTS)
    assert world.objects[namespace_ref("web")].labels["stage"] == "payments", "the label itself is set"
    assert has_copy(world) is is_allowed
    assert refused(world) == ({} if is_allowed else {"web": MESSAGE})


def test_a_label_that_an_administrator_set_selects_the_namespace() -> None:
    world = a_world(["*"])
    live = world.objects[namespace_ref("web")]
    world.edit(live.ref, labels={**live.labels, "stage": "payments"})
    distribute(world, PAYMENTS)
    assert has_copy(world)


def test_an_inherited_label_is_as_trusted_as_where_it_comes_from() -> None:
    world = a_world(["*"], ["stage"])
    root = world.objects[namespace_ref("team")]
    world.edit(root.ref, labels={**root.labels, "stage": "payments"})
    a_sub(world, "api", "web", {"stage": "payments"})  # it asks for what it inherits anyway
    world.namespace("rival", {TYPE: "root"})
    a_sub(world, "bad", "rival", {"stage": "payments"})
    a_sub(world, "worse", "bad", {})
    distribute(world, PAYMENTS)
    assert {name for name in ("team", "web", "api", "bad", "worse") if has_copy(world, name)} == {"team", "web", "api"}
    assert set(refused(world)) == {"bad", "worse"}


def test_a_label_counts_as_chosen_until_it_is_removed_although_its_sub_namespace_is_gone() -> None:
    world = a_world(["*"], stage="payments")
    ref, web = Ref(SUB_NAMESPACE, "team", "web"), world.objects[namespace_ref("web")]
    world.edit(ref, finalizers=())
    world.delete(ref)
    assert world.chosen_labels(web, ["stage"]) == {"stage": ChosenLabel(SETTING, None)}
    world.edit(web.ref, labels={**web.labels, "stage": "other"})
    assert world.chosen_labels(world.objects[web.ref], ["stage"]) == {}, "somebody else has set it since"


def test_labels_of_namespaces_in_a_loop_count_as_chosen() -> None:
    world = a_world(["*"], ["stage"], stage="payments")
    a_sub(world, "api", "web", {})
    live = world.objects[namespace_ref("web")]
    world.edit(live.ref, labels={**live.labels, PARENT: "api"})
    distribute(world, PAYMENTS)
    assert not has_copy(world)
    assert not has_copy(world, "api")


@pytest.mark.parametrize(
    ("selector", "stage", "is_selected", "is_refused"),
    [
        ({"matchExpressions": [{"key": "stage", "operator": "Exists"}]}, "x", False, True),
        ({"matchExpressions": [{"key": "stage", "operator": "NotIn", "values": ["dev"]}]}, "x", True, False),
        ({"matchExpressions": [{"key": "stage", "operator": "NotIn", "values": ["dev"]}]}, "dev", False, False),
        ({"matchExpressions": [{"key": "stage", "operator": "DoesNotExist"}]}, "x", False, False),
        ({"matchExpressions": [{"key": PARENT, "operator": "Exists"}]}, "x", True, False),
    ],
)
def test_a_chosen_label_keeps_a_namespace_out_and_never_gets_it_in(
    selector: object, stage: str, is_selected: bool, is_refused: bool
) -> None:
    world = a_world(["*"], stage=stage)
    distribute(world, selector)
    assert has_copy(world) is is_selected
    assert ("web" in refused(world)) is is_refused


NOT_PROD = {"matchExpressions": [{"key": "stage", "operator": "NotIn", "values": ["prod"]}]}


def test_a_chosen_label_in_place_of_an_inherited_one_does_not_get_past_an_exclusion() -> None:
    world = a_world(["*"], ["stage"], stage="dev")
    root = world.objects[namespace_ref("team")]
    world.edit(root.ref, labels={**root.labels, "stage": "prod"})
    a_sub(world, "sibling", "team", {})
    a_sub(world, "below", "web", {})
    a_sub(world, "back", "below", {"stage": "prod"})
    distribute(world, NOT_PROD)
    stages = {name: world.objects[namespace_ref(name)].labels["stage"] for name in ("web", "below", "back", "sibling")}
    assert stages == {"web": "dev", "below": "dev", "back": "prod", "sibling": "prod"}
    assert not [name for name in stages if has_copy(world, name)]
    assert refused(world) == {"web": MESSAGE, "below": MESSAGE}
    distribute(world, {"matchLabels": {"stage": "prod"}})
    assert [name for name in stages if has_copy(world, name)] == ["back", "sibling"]


def test_the_spec_of_a_sub_namespace_is_parsed_once_and_only_for_labels_that_are_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tenant may set thousands of labels, and every plan of a source with a selector asks."""
    labels = {f"key-{number}": "v" for number in range(1000)}
    world = World(a_registry(["*"]))
    world.namespace("team", {TYPE: "root"})
    world.put(Ref(SUB_NAMESPACE, "team", "web"), content(spec={"labels": labels}))
    world.namespace("web", {PARENT: "team", **labels})
    web, parsed = world.objects[namespace_ref("web")], list[object]()

    def parse(raw: bytes) -> object:
        parsed.append(raw)
        return json.loads(raw)

    monkeypatch.setattr(tree, "parse_json", parse)
    assert set(world.chosen_labels(web, labels)) == set(labels)
    assert len(parsed) == 1
    assert world.chosen_labels(web, ["stage", PARENT]) == {}
    assert len(parsed) == 1


def test_a_namespace_that_is_listed_or_selected_otherwise_needs_no_label() -> None:
    world = a_world(["*"], stage="payments")
    distribute(world, PAYMENTS, includedNamespaces={"list": [{"name": "web"}]})
    assert has_copy(world)
    world = a_world(["*"], stage="payments")
    distribute(world, PAYMENTS, allNamespaces=True)
    assert has_copy(world)


def test_one_selector_that_no_tenant_satisfies_is_enough() -> None:
    world = a_world(["*"], stage="payments")
    distribute(world, PAYMENTS, namespaceSelector={"matchLabels": {PARENT: "team"}})
    assert has_copy(world)


def test_a_copy_that_is_refused_later_stays_as_it_is() -> None:
    world = a_world(["stage"], stage="payments")
    distribute(world, PAYMENTS)
    world.registry = a_registry(["*"])
    assert not [write for write in settle(world, RULES) if isinstance(write, Delete)]
    assert has_copy(world)
    assert refused(world) == {"web": MESSAGE}


def test_the_selectors_of_annotated_sources_obey_the_same_rule() -> None:
    world = a_world(["*"], stage="payments")
    source = at("team", "db")
    world.put(source, secret(), annotations={MATCHING: "stage=payments"})
    settle(world, RULES)
    assert at("web", "db") not in world.objects
    assert refused(world, Key("replicator", source)) == {"web": MESSAGE}
    world.edit(source, annotations={MATCHING: "stage=payments", TO: "web"})
    settle(world, RULES)
    assert at("web", "db") in world.objects


# The start


def test_the_start_warns_of_patterns_if_a_served_vocabulary_has_selectors() -> None:
    assert unselected_labels(a_registry(["stage", "*", "a.b/?"])) == [(SETTING, "*,a.b/?")]
    assert unselected_labels(a_registry(["stage"])) == []
    own: dict[str, Any] = {
        "secret-copy": SecretCopySettings(),
        "accurate": AccurateSettings(config={"subNamespaceLabelKeys": ["*"]}),
    }
    assert unselected_labels(registry_of(Settings(vocabularies=own))) == []
