"""ResourceDistribution: the rules of its specification."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from gc import collect
from typing import Any

import pytest
from tests.support.settle import plan_of, settle
from tests.support.toys import COPYABLE, a_sync_to
from tests.support.world import World, at, content, secret

from samara.core.copy_counts import CopyCounts, NotInSync
from samara.core.metadata_keys import NAMED
from samara.core.model import CONFIG_MAP, SECRET, Content, Key, Kind, Object, OwnerReference, Ref, namespace_ref
from samara.core.ownership import ByOwnerReference
from samara.core.plan import prepare, steps
from samara.core.policy import ClusterPolicy
from samara.core.queries import DryRunCreate, Rejected
from samara.core.registry import Registry
from samara.core.source_type import CustomResource
from samara.core.writes import Create, Delete, Plan, Recreate, Update
from samara.vocabularies import resource_distribution, secret_copy, sync_to
from samara.vocabularies.resource_distribution import FROM, HASHCODE, NAME, RESOURCE_DISTRIBUTION
from samara.vocabularies.resource_distribution import spec as specs

Json = dict[str, Any]
RULES = ClusterPolicy(protected=("kube-*",))
QUEUE = Kind("toys.dev", "v1", "Queue", "queues")
DISTRIBUTION = Ref(RESOURCE_DISTRIBUTION, "", "dist")
KEY = Key(NAME, DISTRIBUTION)
SECRET_DB: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "stringData": {"key": "one"}}
STORED = content(data={"key": "b25l"}, type="Opaque")
EVERYWHERE: Json = {"allNamespaces": True}


def a_registry(
    kinds: tuple[Kind, ...] = (SECRET, CONFIG_MAP, QUEUE),
    is_protected: Callable[[str], bool] = lambda name: name.startswith("kube-"),
) -> Registry:
    distribution = resource_distribution.source_type(kinds, COPYABLE.as_written, is_protected=is_protected)
    last = a_sync_to()
    return Registry((secret_copy.source_type(), distribution, last))


def listed(*names: str) -> Json:
    return {"list": [{"name": name} for name in names]}


def resource(**changes: Any) -> Json:
    meta = {"name": "db", **changes.pop("metadata", {})}
    return {**SECRET_DB, **changes, "metadata": meta}


def a_world(targets: Json | None = None, what: Json = SECRET_DB) -> World:
    world = World(a_registry())
    for name, team in (("a", "red"), ("b", "blue"), ("c", "red"), ("kube-system", "red")):
        world.namespace(name, {"team": team})
    distribute(world, targets if targets is not None else {"includedNamespaces": listed("a", "b")}, what)
    return world


def distribute(world: World, targets: object, what: object = SECRET_DB, ref: Ref = DISTRIBUTION, **more: Any) -> Object:
    spec = content(spec={"resource": what, "targets": targets})
    if ref in world.objects:
        return world.edit(ref, content=spec, generation=world.objects[ref].generation + 1)
    return world.put(ref, spec, generation=1, **more)


def planned(world: World) -> Plan:
    return plan_of(KEY, world, RULES)


def filled(world: World, kind: Kind = SECRET) -> set[str]:
    settle(world, RULES)
    return {ref.namespace for ref in world.objects if ref.kind == kind and ref.name == "db"}


def copy(world: World, namespace: str = "a", kind: Kind = SECRET) -> Object:
    return world.objects[at(namespace, "db", kind)]


# Targets


UNIONS: list[tuple[Json, set[str]]] = [
    ({}, set()),
    ({"allNamespaces": False}, set()),
    ({"allNamespaces": True}, {"a", "b", "c"}),
    ({"includedNamespaces": listed("a")}, {"a"}),
    ({"includedNamespaces": listed("kube-system")}, {"kube-system"}),
    ({"allNamespaces": True, "includedNamespaces": listed("kube-system")}, {"a", "b", "c", "kube-system"}),
    ({"namespaceLabelSelector": {"matchLabels": {"team": "red"}}}, {"a", "c"}),
    ({"namespaceLabelSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}, {"a", "b", "c"}),
    ({"namespaceLabelSelector": {}}, set()),
    ({"namespaceLabelSelector": {"matchLabels": {}}}, set()),
    ({"includedNamespaces": listed("b"), "namespaceLabelSelector": {"matchLabels": {"team": "red"}}}, {"a", "b", "c"}),
    ({"allNamespaces": True, "excludedNamespaces": listed("b")}, {"a", "c"}),
    ({"includedNamespaces": listed("a", "b"), "excludedNamespaces": listed("b", "zz")}, {"a"}),
    (
        {"namespaceLabelSelector": {"matchLabels": {"team": "red"}}, "excludedNamespaces": listed("a")},
        {"c"},
    ),
    ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, {"a", "c"}),
    ({"namespaceSelector": {}}, set()),
    (
        {
            "namespaceLabelSelector": {"matchLabels": {"team": "red"}},
            "namespaceSelector": {"matchLabels": {"team": "blue"}},
            "excludedNamespaces": listed("a"),
        },
        {"b", "c"},
    ),
    *(
        ({"namespaceLabelSelector": {"matchExpressions": [{"key": key, "operator": operator, **values}]}}, selected)
        for key, operator, values, selected in (
            ("team", "In", {"values": ["red", "green"]}, {"a", "c"}),
            ("team", "NotIn", {"values": ["red"]}, {"b"}),
            ("stage", "NotIn", {"values": ["test"]}, {"a", "b", "c"}),
            ("stage", "Exists", {}, set()),
            ("team", "DoesNotExist", {}, set()),
            ("stage", "DoesNotExist", {"values": []}, {"a", "b", "c"}),
        )
    ),
    (
        {
            "namespaceLabelSelector": {
                "matchLabels": {"team": "red"},
                "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}],
            }
        },
        set(),
    ),
    ({"includedNamespaces": {"list": []}, "excludedNamespaces": {}}, set()),
    ({"includedNamespaces": None}, set()),
]


@pytest.mark.parametrize(("targets", "namespaces"), UNIONS)
def test_targets_are_the_union_minus_excluded(targets: Json, namespaces: set[str]) -> None:
    assert filled(a_world(targets)) == namespaces


def test_targets_that_are_empty_select_nothing_and_are_valid() -> None:
    assert planned(a_world({})).faults == ()


@pytest.mark.parametrize("targets", [EVERYWHERE, {"includedNamespaces": listed("new")}])
def test_a_new_namespace_gets_its_copy(targets: Json) -> None:
    world = a_world(targets)
    settle(world, RULES)
    woken = list(world.registry.keys_to_reconcile(world.namespace("new"), world))
    assert woken == [KEY.in_namespace("new")]
    (write,) = plan_of(woken[0], world, RULES).writes
    assert isinstance(write, Create)


@pytest.mark.parametrize(
    "targets",
    [
        {"allNamespaces": True, "excludedNamespaces": listed("new")},
        {"namespaceLabelSelector": {}},
        {"includedNamespaces": listed("a")},
    ],
)
def test_a_namespace_that_is_no_target_reconciles_nothing(targets: Json) -> None:
    world = a_world(targets)
    assert list(world.registry.keys_to_reconcile(world.namespace("new"), world)) == []


def test_a_namespace_gets_its_copy_when_its_labels_match_and_loses_it_when_they_do_not() -> None:
    world = a_world({"namespaceLabelSelector": {"matchLabels": {"team": "red"}}})
    assert filled(world) == {"a", "c"}
    old = world.objects[namespace_ref("a")]
    new = world.edit(old.ref, labels={"team": "blue"})
    assert [list(world.registry.keys_to_reconcile(namespace, world)) for namespace in (old, new)] == [
        [KEY.in_namespace("a")],
        [],
    ]
    assert filled(world) == {"c"}


def test_a_missing_or_terminating_namespace_is_waited_for() -> None:
    world = a_world({"includedNamespaces": listed("a", "b", "zz")})
    world.terminate("b")
    assert {target.ref.namespace: target.reason for target in planned(world).blocked} == {
        "b": "no-namespace",
        "zz": "no-namespace",
    }
    world.namespace("zz")
    assert filled(world) == {"a", "zz"}


@pytest.mark.parametrize("targets", [EVERYWHERE, {"includedNamespaces": listed("a")}], ids=["all", "list"])
def test_a_protected_namespace_that_is_no_longer_listed_loses_its_copy(targets: Json) -> None:
    world = a_world({**EVERYWHERE, "includedNamespaces": listed("kube-system")})
    assert "kube-system" in filled(world)
    distribute(world, targets)
    assert "kube-system" not in filled(world)


def test_a_namespace_that_becomes_protected_keeps_its_copy_until_it_was_listed_and_is_no_more() -> None:
    world = a_world(EVERYWHERE)
    protected, world.registry = world.registry, a_registry(is_protected=lambda name: False)
    settle(world)
    world.registry = protected
    assert "kube-system" in filled(world)
    assert NAMED not in copy(world, "kube-system").annotations
    distribute(world, {**EVERYWHERE, "includedNamespaces": listed("kube-system")})
    assert "kube-system" in filled(world)
    distribute(world, EVERYWHERE)
    assert "kube-system" not in filled(world)


def test_a_forged_annotation_does_not_delete_the_copy_in_a_namespace_that_became_protected() -> None:
    world = a_world(EVERYWHERE)
    protected, world.registry = world.registry, a_registry(is_protected=lambda name: False)
    settle(world)
    world.registry = protected
    live = copy(world, "kube-system")
    world.edit(live.ref, annotations={**live.annotations, NAMED: "true"})
    assert "kube-system" in filled(world)


def test_a_copy_in_a_namespace_that_is_no_longer_protected_loses_the_annotation() -> None:
    world = a_world({"includedNamespaces": listed("kube-system")})
    settle(world, RULES)
    assert copy(world, "kube-system").annotations[NAMED] == "true"
    world.registry = a_registry(is_protected=lambda name: False)
    settle(world)
    assert NAMED not in copy(world, "kube-system").annotations


def test_the_plans_of_single_namespaces_together_are_the_whole_plan() -> None:
    world = a_world(
        {"allNamespaces": True, "includedNamespaces": listed("kube-system"), "excludedNamespaces": listed("b")}
    )
    complete = {write.ref for write in planned(world).writes}
    slices = {write.ref for name in "abc" for write in plan_of(KEY.in_namespace(name), world, RULES).writes}
    assert slices | {at("kube-system", "db")} == complete
    assert plan_of(KEY.in_namespace("kube-system"), world, RULES).writes


# Copies


def test_a_copy_carries_the_owner_reference_both_annotations_and_the_labels_of_the_resource() -> None:
    meta = {
        "namespace": "elsewhere",
        "labels": {"team": "red", "app.kubernetes.io/managed-by": "Helm", "samara.dev/ignore": "true"},
        "annotations": {
            "note": "x",
            "argocd.argoproj.io/sync-options": "Prune=false",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "samara.dev/paused": "true",
            secret_copy.TARGETS: "b",
            FROM: "somebody",
        },
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
        "finalizers": ["a/b"],
    }
    world = a_world(what=resource(metadata=meta))
    settle(world, RULES)
    have, uid = copy(world), world.objects[DISTRIBUTION].uid
    assert have.content == STORED
    assert have.labels == {"team": "red", "app.kubernetes.io/managed-by": "Helm"}
    assert {key: value for key, value in have.annotations.items() if key != HASHCODE} == {
        "note": "x",
        "argocd.argoproj.io/sync-options": "Prune=false",
        FROM: "dist",
    }
    assert have.owner_references == (
        OwnerReference("apps.kruise.io/v1beta1", "ResourceDistribution", "dist", uid, True, True),
    )
    assert have.finalizers == ()


def test_the_hashcode_is_the_sha_256_of_the_compact_json_with_sorted_keys() -> None:
    world = a_world(
        what={"kind": "Secret", "apiVersion": "v1", "stringData": {"b": "é<&>", "a": "1"}, "metadata": {"name": "db"}}
    )
    settle(world, RULES)
    text = (
        '{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db"},'
        '"stringData":{"a":"1","b":"é\\u003c\\u0026\\u003e"}}'
    )
    assert copy(world).annotations[HASHCODE] == hashlib.sha256(text.encode()).hexdigest()


def test_string_data_and_an_omitted_type_cause_no_write() -> None:
    world = a_world()
    settle(world, RULES)
    assert copy(world).content == STORED
    assert planned(world).writes == ()


def test_config_maps_are_distributed_too() -> None:
    what = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "db"}, "data": {"k": "v"}}
    world = a_world(what=what)
    assert filled(world, CONFIG_MAP) == {"a", "b"}
    assert copy(world, kind=CONFIG_MAP).content == content(data={"k": "v"})


def test_changed_labels_and_annotations_reach_existing_copies_and_removed_ones_disappear() -> None:
    world = a_world(what=resource(metadata={"labels": {"old": "1", "both": "1"}, "annotations": {"gone": "1"}}))
    settle(world, RULES)
    world.edit(copy(world).ref, labels={**copy(world).labels, "theirs": "1"})
    distribute(
        world, {"includedNamespaces": listed("a", "b")}, resource(metadata={"labels": {"new": "1", "both": "2"}})
    )
    settle(world, RULES)
    assert copy(world).labels == {"new": "1", "both": "2", "theirs": "1"}
    assert set(copy(world).annotations) == {FROM, HASHCODE}


def test_a_changed_secret_type_recreates_the_copy() -> None:
    world = a_world()
    settle(world, RULES)
    distribute(world, {"includedNamespaces": listed("a")}, resource(type="kubernetes.io/tls"))
    first, *_ = planned(world).writes
    assert isinstance(first, Recreate)
    settle(world, RULES)
    assert copy(world).content == content(data={"key": "b25l"}, type="kubernetes.io/tls")


def test_an_edited_or_deleted_copy_is_restored() -> None:
    world = a_world()
    settle(world, RULES)
    world.edit(copy(world).ref, content=secret("edited"))
    world.delete(copy(world, "b").ref)
    assert {type(write) for write in planned(world).writes} == {Create, Update}
    assert filled(world) == {"a", "b"}
    assert copy(world).content == copy(world, "b").content == STORED


def test_removed_annotations_are_restored_while_the_owner_reference_is_there() -> None:
    world = a_world()
    settle(world, RULES)
    world.strip(copy(world).ref)
    world.fetch([copy(world).ref])
    settle(world, RULES)
    assert copy(world).annotations[FROM] == "dist"


def test_a_spec_is_parsed_and_its_content_built_once_for_all_namespaces() -> None:
    world = a_world(EVERYWHERE)
    builds = 0
    build = world.canonical

    def counted(kind: Kind, fields: Mapping[str, object]) -> Content | None:
        nonlocal builds
        builds += 1
        return build(kind, fields)

    world.canonical = counted  # type: ignore[method-assign]
    for number in range(50):
        world.namespace(f"n{number}")
        plan_of(KEY.in_namespace(f"n{number}"), world, RULES)
    assert builds == 1


def test_an_earlier_spec_is_freed_when_the_distribution_changes() -> None:
    world = a_world()
    settle(world, RULES)
    spec = world.objects[DISTRIBUTION].content.get("spec")
    assert spec is not None
    gone = weakref.ref(spec)
    del spec
    distribute(world, EVERYWHERE)
    settle(world, RULES)
    collect()
    assert gone() is None


def test_a_distribution_without_a_spec_is_reported() -> None:
    world = a_world()
    settle(world, RULES)
    world.edit(DISTRIBUTION, content=Content())
    assert [fault.reason for fault in planned(world).faults] == ["Invalid"]
    assert filled(world) == {"a", "b"}


# Other kinds: a dry run shows what the server would store


def a_queue(**fields: Any) -> Json:
    return {"apiVersion": "toys.dev/v1", "kind": "Queue", "metadata": {"name": "db", "namespace": "x"}, **fields}


def the_trial(world: World) -> DryRunCreate:
    (read,) = world.registry[NAME].desired(DISTRIBUTION, world).reads
    assert isinstance(read, DryRunCreate)
    return read


def test_a_kind_without_canonical_form_is_dry_run_once_and_copies_hold_the_answer() -> None:
    world = a_world(what=a_queue(spec={"depth": 1}, status={"used": 1}))
    trial = the_trial(world)
    assert trial.body == (
        b'{"apiVersion":"toys.dev/v1","kind":"Queue","metadata":{"annotations":{},"labels":{},"name":"db"},'
        b'"spec":{"depth":1}}'
    )
    world.outside[trial] = content(spec={"depth": 1, "defaulted": True})
    assert filled(world, QUEUE) == {"a", "b"}
    assert copy(world, kind=QUEUE).content == content(spec={"depth": 1, "defaulted": True})
    assert planned(world).writes == ()


def test_a_resource_that_the_server_refuses_is_reported_and_changes_nothing() -> None:
    world = a_world(what=a_queue(spec={"depth": 1}))
    world.outside[the_trial(world)] = content(spec={"depth": 1})
    settle(world, RULES)
    distribute(world, {"includedNamespaces": listed("a")}, a_queue(spec={"depth": -1}))
    world.outside[the_trial(world)] = Rejected("depth must not be negative")
    result = planned(world)
    assert (result.writes, [fault.reason for fault in result.faults]) == ((), ["Invalid"])
    assert "depth must not be negative" in result.faults[0].message
    assert filled(world, QUEUE) == {"a", "b"}
    assert status_of(world)["failed"] == 1


def test_a_distribution_keeps_its_claim_until_the_dry_run_is_answered() -> None:
    world = a_world(what=a_queue())
    younger = Ref(RESOURCE_DISTRIBUTION, "", "younger")
    distribute(world, {"includedNamespaces": listed("a")}, a_queue(), younger, created="2027")
    world.values[the_trial(world)] = content(spec={})
    assert [target.reason for target in plan_of(Key(NAME, younger), world, RULES).blocked] == ["conflict"]


# A distribution that cannot be served changes nothing


BAD: list[tuple[object, str, str]] = [
    ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db"}}, "Refused", "'v1/Pod'"),
    ({"apiVersion": "v2", "kind": "Secret", "metadata": {"name": "db"}}, "Refused", "'v2/Secret'"),
    (
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "db"}},
        "Refused",
        "rbac.authorization.k8s.io/v1/Role",
    ),
    ({"kind": "Secret", "metadata": {"name": "db"}}, "Invalid", "spec.resource.apiVersion"),
    ({"apiVersion": "v1", "metadata": {"name": "db"}}, "Invalid", "spec.resource.kind"),
    ({"apiVersion": "v1", "kind": "Secret", "metadata": {}}, "Invalid", "spec.resource.metadata.name"),
    ({"apiVersion": "v1", "kind": "Secret"}, "Invalid", "spec.resource.metadata.name"),
    ({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "Not Good"}}, "Invalid", "'Not Good'"),
    (resource(metadata={"labels": {"a": 1}}), "Invalid", "spec.resource.metadata.labels"),
    (resource(data={"key": "not base64!"}), "Invalid", "base64"),
    ({}, "Invalid", "spec.resource"),
    (None, "Invalid", "spec.resource"),
    ("text", "Invalid", "spec.resource"),
]


@pytest.mark.parametrize(("what", "reason", "expected"), BAD)
def test_an_invalid_resource_is_reported_and_changes_nothing(what: object, reason: str, expected: str) -> None:
    world = a_world()
    settle(world, RULES)
    distribute(world, {"includedNamespaces": listed("c")}, what)
    (fault,) = planned(world).faults
    assert fault.reason == reason
    assert expected in fault.message
    assert filled(world) == {"a", "b"}
    failed = {"status": "True", "reason": reason, "failedNamespaces": ["c"]}
    assert conditions_of(world) == {kind: failed if kind == "GetResourceFailed" else FINE for kind in SIX}
    status = status_of(world)
    assert (status["desired"], status["succeeded"], status["failed"]) == (1, 0, 1)


ACCOUNT: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "db"}}


@pytest.mark.parametrize("what", [ACCOUNT, None])
def test_all_targets_of_an_invalid_resource_count_as_failed(
    what: Json | None,
) -> None:
    world = a_world({"allNamespaces": True, "includedNamespaces": listed("zz")}, what or {})
    world.namespace("apart", annotations={"samara.dev/ignore": "true"})
    status, conditions = status_of(world), conditions_of(world)
    assert (status["desired"], status["succeeded"], status["failed"]) == (4, 0, 4)
    assert conditions["GetResourceFailed"]["failedNamespaces"] == ["a", "b", "c"]
    assert conditions["NamespaceNotExists"]["failedNamespaces"] == ["zz"]
    assert (conditions["CreateResourceFailed"], conditions["UpdateResourceFailed"]) == (FINE, FINE)


def test_invalid_targets_are_not_counted() -> None:
    targets = {"includedNamespaces": listed("a"), "namespaceLabelSelector": {"matchLabels": {"!": "a"}}}
    world = a_world(targets, ACCOUNT)
    status, conditions = status_of(world), conditions_of(world)
    assert (status["desired"], status["succeeded"], status["failed"]) == (0, 0, 0)
    assert conditions["GetResourceFailed"] == {"status": "True", "reason": "Invalid,Refused"}
    assert all(fault.message in messages_of(world)["GetResourceFailed"] for fault in planned(world).faults)


@pytest.mark.parametrize(
    "targets",
    [
        {"namespaceLabelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
        {"allNamespaces": "yes"},
        {"includedNamespaces": ["a"]},
        {"includedNamespaces": {"list": "a"}},
        {"excludedNamespaces": {"list": ["a"]}},
        "a",
    ],
)
def test_invalid_targets_are_reported_and_change_nothing(targets: object) -> None:
    world = a_world()
    settle(world, RULES)
    distribute(world, targets)
    (fault,) = planned(world).faults
    assert fault.reason == "Invalid"
    assert "spec.targets" in fault.message
    assert filled(world) == {"a", "b"}


def test_an_illegal_name_is_reported_and_the_others_are_served() -> None:
    world = a_world({"includedNamespaces": listed("a", "Bad_Name", "b")})
    (fault,) = planned(world).faults
    assert "'Bad_Name'" in fault.message
    assert filled(world) == {"a", "b"}
    assert status_of(world)["desired"] == 2


@pytest.mark.parametrize("mistyped", ["includedNamespaces", "excludedNamespaces"])
def test_no_copy_is_deleted_while_a_list_holds_an_illegal_name(mistyped: str) -> None:
    world = a_world()
    settle(world, RULES)
    distribute(world, {"includedNamespaces": listed("b"), mistyped: listed("b", "A")})
    assert filled(world) == {"a", "b"}
    distribute(world, {"includedNamespaces": listed("b", "c"), "excludedNamespaces": listed("c")})
    assert filled(world) == {"b"}


@pytest.mark.parametrize("kind", ["kubernetes.io/service-account-token", "helm.sh/release.v1"])
def test_credentials_of_the_cluster_are_never_distributed(kind: str) -> None:
    world = a_world(what=resource(type=kind))
    result = planned(world)
    assert result.writes == ()
    assert {target.reason for target in result.blocked} == {"refused"}


# Conflicts and claims


@pytest.mark.parametrize("identical", [True, False])
def test_a_foreign_object_is_a_conflict_even_if_identical_and_the_copy_is_created_when_it_is_deleted(
    identical: bool,
) -> None:
    world = a_world()
    theirs = world.put(at("a", "db"), STORED if identical else secret("theirs"))
    assert [(target.ref.namespace, target.reason) for target in planned(world).blocked] == [("a", "conflict")]
    settle(world, RULES)
    assert copy(world) is theirs
    woken = list(world.registry.keys_to_reconcile(theirs, world))
    assert woken == [KEY.in_namespace("a")]
    world.delete(theirs.ref)
    assert [type(write) for write in plan_of(woken[0], world, RULES).writes] == [Create]


def test_a_pasted_annotation_makes_no_copy_ours() -> None:
    world = a_world()
    theirs = world.put(at("a", "db"), secret("theirs"), annotations={FROM: "dist", HASHCODE: "0"})
    settle(world, RULES)
    assert copy(world) is theirs


def test_a_copy_of_an_earlier_distribution_of_the_name_is_left_to_the_garbage_collector_first() -> None:
    world = a_world()
    settle(world, RULES)
    world.delete(DISTRIBUTION)
    distribute(world, {"includedNamespaces": listed("a")})
    result = planned(world)
    assert {type(write) for write in result.writes} == {Delete}
    assert all(write.delayed for write in result.writes if isinstance(write, Delete))
    assert {ref.namespace for ref in CopyCounts.of(result).by_reason()["conflict"]} == {"a"}
    world.delete(at("a", "db"))
    assert Create in [type(write) for write in planned(world).writes]


def test_of_two_distributions_the_older_wins_and_the_other_follows_when_it_is_deleted() -> None:
    world = a_world()
    younger = Ref(RESOURCE_DISTRIBUTION, "", "younger")
    other = distribute(
        world, {"includedNamespaces": listed("a")}, resource(stringData={"key": "2"}), younger, created="2027"
    )
    settle(world, RULES)
    assert copy(world).owner_references[0].name == "dist"
    world.delete(DISTRIBUTION)
    world.delete(at("a", "db"))  # as the garbage collector does
    settle(world, RULES)
    assert copy(world).owner_references[0].uid == other.uid


def test_the_younger_distribution_takes_a_namespace_that_the_older_gives_up() -> None:
    world = a_world()
    younger = Ref(RESOURCE_DISTRIBUTION, "", "younger")
    distribute(world, {"includedNamespaces": listed("a")}, resource(stringData={"key": "2"}), younger, created="2027")
    settle(world, RULES)
    distribute(world, {"includedNamespaces": listed("b")})
    settle(world, RULES)
    assert copy(world).owner_references[0].name == "younger"
    assert [owner.name for owner in copy(world).owner_references] == ["younger"]


@pytest.mark.parametrize("later", [True, False])
def test_secret_copy_comes_first_and_its_copy_has_no_owner_reference(later: bool) -> None:
    world = a_world()
    if later:
        settle(world, RULES)
    world.namespace("admin")
    world.put(at("admin", "db"), secret("theirs"), annotations={secret_copy.TARGETS: "a"})
    settle(world, RULES)
    assert copy(world).annotations == {secret_copy.ORIGIN: "admin/db"}
    assert copy(world).owner_references == ()
    assert [(target.ref.namespace, target.reason) for target in planned(world).blocked] == [("a", "conflict")]


@pytest.mark.parametrize("later", [True, False])
def test_a_copy_of_sync_to_gives_way_to_a_distribution_and_comes_back_afterwards(later: bool) -> None:
    world = a_world({})
    world.namespace("home")
    annotations = {sync_to.SYNC_TO: "namespaces", sync_to.SYNC_TO_NAMESPACES: "a"}
    world.put(at("home", "db"), secret("theirs"), annotations=annotations)
    if later:
        settle(world, RULES)
    distribute(world, {"includedNamespaces": listed("a")})
    settle(world, RULES)
    assert set(copy(world).annotations) == {FROM, HASHCODE}
    assert copy(world).content == STORED
    distribute(world, {})
    settle(world, RULES)
    assert copy(world).content == secret("theirs")
    assert copy(world).owner_references == ()


# Narrowing and deletion


def test_narrowing_the_targets_deletes_the_dropped_copies() -> None:
    world = a_world()
    settle(world, RULES)
    distribute(world, {"includedNamespaces": listed("a")})
    (write,) = planned(world).writes
    assert isinstance(write, Delete)
    assert filled(world) == {"a"}


def test_renaming_the_resource_deletes_copies_of_the_old_name() -> None:
    world = a_world()
    settle(world, RULES)
    distribute(world, {"includedNamespaces": listed("a")}, resource(metadata={"name": "other"}))
    settle(world, RULES)
    assert {ref.path for ref in world.objects if ref.kind == SECRET} == {"a/other"}


def test_a_terminating_distribution_creates_and_deletes_nothing() -> None:
    world = a_world()
    settle(world, RULES)
    world.delete(at("a", "db"))
    world.edit(DISTRIBUTION, finalizers=("foregroundDeletion",), deleting=True)
    assert planned(world) == Plan()


def test_copies_that_still_name_a_deleted_distribution_are_deleted() -> None:
    world = a_world()
    settle(world, RULES)
    world.delete(DISTRIBUTION)
    assert {type(write) for write in planned(world).writes} == {Delete}
    assert filled(world) == set()
    source = world.registry[NAME].source
    assert isinstance(source, CustomResource)
    assert source.gone_after == 30.0


def test_orphaned_copies_stay() -> None:
    world = a_world()
    settle(world, RULES)
    for namespace in "ab":
        world.edit(at(namespace, "db"), owner_references=())  # as the garbage collector does for --cascade=orphan
    world.delete(DISTRIBUTION)
    assert filled(world) == {"a", "b"}


def test_taking_over_from_the_original_writes_nothing_for_any_version_in_the_owner_reference() -> None:
    world = a_world()
    settle(world, RULES)
    owner = copy(world).owner_references[0]
    world.edit(at("a", "db"), owner_references=(owner._replace(api_version="apps.kruise.io/v1alpha1"),))
    assert planned(world).writes == ()


def test_repairing_a_copy_never_adds_a_second_controller() -> None:
    world = a_world()
    settle(world, RULES)
    owner = copy(world).owner_references[0]
    other = OwnerReference("v1", "ConfigMap", "theirs", "uid-of-theirs")
    old = owner._replace(api_version="apps.kruise.io/v1alpha1")
    world.edit(at("a", "db"), content=secret("edited"), owner_references=(other, old))
    settle(world, RULES)
    assert copy(world).content == STORED
    assert [owner_reference.uid for owner_reference in copy(world).owner_references] == [other.uid, owner.uid]


VERSIONS = [
    ("apps.kruise.io/v1alpha1", "ResourceDistribution", True, True),
    ("apps.kruise.io/v1beta1", "ResourceDistribution", True, True),
    ("apps.kruise.io/v1beta1", "ResourceDistribution", None, False),
    ("apps.kruise.io/v1beta1", "CloneSet", True, False),
    ("example.com/v1beta1", "ResourceDistribution", True, False),
    ("v1", "ResourceDistribution", True, False),
]


@pytest.mark.parametrize(("version", "kind", "controller", "ours"), VERSIONS)
def test_a_controller_reference_of_any_version_names_the_source(
    version: str, kind: str, controller: bool | None, ours: bool
) -> None:
    world = a_world()
    obj = world.put(at("c", "db"), secret(), owner_references=(OwnerReference(version, kind, "dist", "u", controller),))
    assert world.registry[NAME].ownership.source_of(obj, world) == (DISTRIBUTION if ours else None)


# Status


def status_of(world: World, tally: CopyCounts | None = None) -> dict[str, Any]:
    status = world.registry[NAME].status
    assert status is not None
    return dict(status.report(world.objects[DISTRIBUTION], world, tally if tally is not None else counted(world)))


def counted(world: World) -> CopyCounts:
    tally = CopyCounts()
    prepared = prepare(KEY, world, world.registry, RULES)
    assert isinstance(prepared, tuple)
    for step in steps(*prepared):
        tally.count(step)
    return tally


def conditions_of(world: World, tally: CopyCounts | None = None) -> dict[str, dict[str, Any]]:
    conditions = status_of(world, tally)["conditions"]
    apart = ("type", "message")
    return {
        condition["type"]: {key: condition[key] for key in condition if key not in apart} for condition in conditions
    }


def messages_of(world: World, tally: CopyCounts | None = None) -> dict[str, str]:
    """The messages of the conditions that are true."""
    conditions = status_of(world, tally)["conditions"]
    return {condition["type"]: condition["message"] for condition in conditions if "message" in condition}


FINE = {"status": "False", "reason": "Succeeded"}
SIX = [
    "GetResourceFailed",
    "CreateResourceFailed",
    "UpdateResourceFailed",
    "DeleteResourceFailed",
    "ConflictOccurred",
    "NamespaceNotExists",
]


def test_the_status_counts_and_has_all_six_conditions_in_their_order() -> None:
    world = a_world()
    settle(world, RULES)
    status = status_of(world)
    assert {key: status[key] for key in status if key != "conditions"} == {
        "desired": 2,
        "succeeded": 2,
        "failed": 0,
        "observedGeneration": 1,
    }
    assert status["conditions"] == [{"type": kind, **FINE} for kind in SIX]


def test_conflicts_and_missing_namespaces_have_their_own_conditions() -> None:
    world = a_world({"includedNamespaces": listed("a", "b", "zz", "c")})
    world.put(at("a", "db"), secret("theirs"))
    world.terminate("b")
    settle(world, RULES)
    status = status_of(world)
    assert (status["desired"], status["succeeded"], status["failed"]) == (4, 1, 3)
    conditions = conditions_of(world)
    assert conditions["ConflictOccurred"] == {"status": "True", "reason": "Conflict", "failedNamespaces": ["a"]}
    assert conditions["NamespaceNotExists"] == {
        "status": "True",
        "reason": "NoNamespace",
        "failedNamespaces": ["b", "zz"],
    }
    assert [kind for kind in SIX if conditions[kind] == FINE] == SIX[:4]
    messages = messages_of(world)
    assert messages.keys() == {"ConflictOccurred", "NamespaceNotExists"}
    assert messages["ConflictOccurred"].startswith("Secret a/db: ")
    assert messages["NamespaceNotExists"] == "Secret b/db: namespace b is being deleted; and 1 more"


def test_a_refused_write_is_a_failed_update_if_the_copy_exists_and_else_a_failed_create() -> None:
    world = a_world()
    settle(world, RULES)
    world.delete(at("b", "db"))
    tally = counted(world)
    tally.mark_blocked(at("a", "db"), "fought", "somebody else's controller")
    tally.mark_blocked(at("b", "db"), "refused", "exceeded quota")
    assert messages_of(world, tally) == {
        "CreateResourceFailed": "Secret b/db: exceeded quota",
        "UpdateResourceFailed": "Secret a/db: somebody else's controller",
    }
    conditions = conditions_of(world, tally)
    assert conditions["CreateResourceFailed"] == {"status": "True", "reason": "Refused", "failedNamespaces": ["b"]}
    assert conditions["UpdateResourceFailed"] == {"status": "True", "reason": "Fought", "failedNamespaces": ["a"]}


@pytest.mark.parametrize(("reason", "word"), [("held", "Held"), ("refused", "Refused")])
def test_removals_that_are_held_or_refused_are_a_failed_delete(reason: Any, word: str) -> None:
    world = a_world()
    settle(world, RULES)
    tally = counted(world)
    tally.removals[at("c", "db")] = NotInSync(reason, "")
    conditions = conditions_of(world, tally)["DeleteResourceFailed"]
    assert conditions == {"status": "True", "reason": word, "failedNamespaces": ["c"]}


def test_a_pending_copy_counts_as_failed_but_is_no_problem() -> None:
    world = a_world()
    status = status_of(world)
    assert (status["desired"], status["succeeded"], status["failed"]) == (2, 0, 2)
    assert {condition["status"] for condition in status["conditions"]} == {"False"}


def test_the_list_of_namespaces_is_capped_with_a_count_and_sorted() -> None:
    names = [f"n{number:05}" for number in range(10_000)]
    world = a_world({"includedNamespaces": listed(*reversed(names))})
    shown = conditions_of(world)["NamespaceNotExists"]["failedNamespaces"]
    assert shown == [*names[:50], "and 9950 more"]


def test_a_condition_has_only_the_fields_of_its_own_type() -> None:
    world = a_world({"includedNamespaces": listed("zz")})
    keys = {key for condition in status_of(world)["conditions"] for key in condition}
    assert keys == {"type", "status", "reason", "message", "failedNamespaces"}


def test_the_message_of_a_condition_is_that_of_the_first_namespace_and_is_bounded() -> None:
    world = a_world()
    settle(world, RULES)
    tally = counted(world)
    tally.mark_blocked(at("b", "db"), "refused", "another quota")
    tally.mark_blocked(at("a", "db"), "refused", "x" * 5000)
    message = messages_of(world, tally)["UpdateResourceFailed"]
    assert message.startswith("Secret a/db: xxx")
    assert message.endswith("x…; and 1 more")
    assert len(message) < 1100


def test_a_terminating_distribution_gets_no_status() -> None:
    world = a_world()
    world.edit(DISTRIBUTION, finalizers=("orphan",), deleting=True)
    assert status_of(world) == {}


# Recognition


def test_the_source_type_declares_its_ownership_admission_rank_and_kinds() -> None:
    registry = a_registry()
    made = registry[NAME]
    assert (made.ownership.marks, made.source.metadata_keys) == (frozenset({FROM, HASHCODE}), frozenset())
    assert made.admission is not None
    assert made.admission.kinds == (RESOURCE_DISTRIBUTION,)
    assert isinstance(made.ownership, ByOwnerReference)
    assert isinstance(made.source, CustomResource)
    assert (made.source.explicit_deletion, registry.rank(NAME), made.status is not None) == (True, 1, True)
    assert made.kinds == (SECRET, CONFIG_MAP, QUEUE, RESOURCE_DISTRIBUTION)


def test_a_copy_is_recognised_by_its_owner_reference_and_not_by_managed_fields() -> None:
    world = a_world()
    settle(world, RULES)
    orphan = world.edit(at("a", "db"), owner_references=())
    assert orphan.known_copy
    assert [(target.ref.namespace, target.reason) for target in planned(world).blocked] == [("a", "conflict")]


def test_no_other_vocabulary_takes_an_orphaned_copy() -> None:
    world = a_world()
    settle(world, RULES)
    world.edit(at("a", "db"), owner_references=())
    world.delete(DISTRIBUTION)
    orphan = copy(world)
    world.put(
        at("c", "db"), secret("theirs"), annotations={sync_to.SYNC_TO: "namespaces", sync_to.SYNC_TO_NAMESPACES: "a"}
    )
    world.namespace("admin")
    world.put(at("admin", "db"), secret("home"), annotations={secret_copy.TARGETS: "a"})
    settle(world, RULES)
    assert copy(world) is orphan


def test_the_same_spec_with_another_digest_causes_no_write() -> None:
    world = a_world()
    settle(world, RULES)
    spec = world.objects[DISTRIBUTION].content.get("spec")
    assert spec is not None
    world.store(replace(world.objects[DISTRIBUTION], content=Content((replace(spec, digest=b"other"),))))
    assert planned(world).writes == ()


@pytest.mark.parametrize(("levels", "read"), [(100, True), (198, True), (199, False), (900, False), (60_000, False)])
def test_a_spec_that_is_nested_too_deep_is_a_fault(levels: int, read: bool) -> None:
    """The spec and the resource add two levels."""
    nested = b"[" * levels + b"]" * levels
    raw = b'{"resource":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db"},"data":%s}}' % nested
    parsed = specs.read(raw)
    expected = [] if read else ["spec: a mapping, nested at most 200 deep, was expected"]
    assert [fault.message for fault in parsed.faults] == expected
