"""Admission and conversion of ResourceDistributions: one answer lists all faults, and no conversion loses data."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.world import World, content
from tests.vocabularies.test_resource_distribution import (
    DISTRIBUTION,
    QUEUE,
    SECRET_DB,
    a_queue,
    a_registry,
    listed,
    resource,
)

from samara.core.admission import Operation, Request
from samara.core.model import SECRET, Object, Ref
from samara.core.queries import DryRunCreate, Rejected
from samara.core.registry import Registry
from samara.vocabularies.resource_distribution import NAME, RESOURCE_DISTRIBUTION, source_type
from samara.vocabularies.resource_distribution.spec import convert

Json = dict[str, Any]
NOWHERE: Json = {}


def stored(what: object = SECRET_DB, targets: object = NOWHERE, ref: Ref = DISTRIBUTION, **more: Any) -> Object:
    return Object(ref, "u", 1, content(spec={"resource": what, "targets": targets}), **more)


def answered(new: Object | None, old: Object | None = None, world: World | None = None) -> tuple[str, ...]:
    world = world or World(a_registry())
    admission = world.registry[NAME].admission
    assert admission is not None
    operation: Operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
    return admission.validate(Request(operation, new, old), world)


@pytest.mark.parametrize(
    "targets",
    [
        {},
        {"allNamespaces": True},
        {"includedNamespaces": listed("a", "kube-system"), "excludedNamespaces": listed("b")},
        {"namespaceLabelSelector": {"matchLabels": {"a": "b"}}},
        {"namespaceSelector": {"matchLabels": {"a": "b"}}},
    ],
)
def test_a_valid_distribution_is_admitted(targets: Json) -> None:
    assert answered(stored(targets=targets)) == ()


FAULTS: list[tuple[object, object, str]] = [
    (None, {}, "spec.resource: the complete object that is to be copied was expected, found nothing"),
    ("text", {}, "spec.resource: a mapping was expected"),
    ({"kind": "Secret", "metadata": {"name": "db"}}, {}, "spec.resource.apiVersion: expected, and missing"),
    ({"apiVersion": "v1", "metadata": {"name": "db"}}, {}, "spec.resource.kind: expected, and missing"),
    (
        {"apiVersion": "v1", "kind": "Secret"},
        {},
        "spec.resource.metadata.name: a DNS subdomain was expected, found none",
    ),
    (
        resource(metadata={"name": "-x"}),
        {},
        "spec.resource.metadata.name: a DNS subdomain was expected, found '-x'",
    ),
    (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db"}},
        {},
        "spec.resource: a kind that may be distributed was expected"
        " (toys.dev/v1/Queue, v1/ConfigMap, v1/Secret), found 'v1/Pod'",
    ),
    (
        SECRET_DB,
        {"includedNamespaces": listed("a", "Not/Good", "")},
        "spec.targets.includedNamespaces: names of namespaces were expected, found '', 'Not/Good'",
    ),
    (
        SECRET_DB,
        {"excludedNamespaces": listed("a.b")},
        "spec.targets.excludedNamespaces: names of namespaces were expected, found 'a.b'",
    ),
    (
        SECRET_DB,
        {"includedNamespaces": listed("a", "b"), "excludedNamespaces": listed("b")},
        "spec.targets: in includedNamespaces and in excludedNamespaces, where the latter counts: b",
    ),
    (
        SECRET_DB,
        {"namespaceLabelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "spec.targets.namespaceLabelSelector.matchExpressions[0].values:"
        " at least one value was expected with In, found none",
    ),
    (
        SECRET_DB,
        {"namespaceSelector": {"matchLabels": {"a": "not good"}}},
        "spec.targets.namespaceSelector.matchLabels[a]: a label value was expected, found 'not good'",
    ),
    (
        resource(type="kubernetes.io/service-account-token"),
        {},
        "spec.resource: Secrets of type kubernetes.io/service-account-token are never copied",
    ),
]


@pytest.mark.parametrize(("what", "targets", "fault"), FAULTS)
def test_a_fault_names_the_field_the_expected_and_the_found_value(what: object, targets: object, fault: str) -> None:
    assert answered(stored(what, targets)) == (fault,)


def test_the_name_of_the_distribution_is_a_dns_subdomain() -> None:
    bad = Ref(RESOURCE_DISTRIBUTION, "", "Not_Good")
    assert answered(stored(ref=bad)) == ("metadata.name: a DNS subdomain was expected, found 'Not_Good'",)
    assert answered(stored(ref=Ref(RESOURCE_DISTRIBUTION, "", ""))) == ()  # the server generates a name


def test_one_answer_lists_all_faults() -> None:
    targets = {
        "includedNamespaces": listed("x", "Not/Good"),
        "excludedNamespaces": listed("x"),
        "namespaceLabelSelector": {"matchLabels": {"!": "a"}},
    }
    bad = Ref(RESOURCE_DISTRIBUTION, "", "Not_Good")
    assert len(answered(stored({"apiVersion": "v1"}, targets, bad))) == 6


def test_a_bad_name_of_the_resource_hides_no_other_fault() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "Not_Good"}}
    messages = answered(stored(pod), stored())
    assert [fault.partition(": ")[0] for fault in messages] == [
        "spec.resource.metadata.name",
        "spec.resource",
        "spec.resource.kind cannot be changed",
        "spec.resource.metadata.name cannot be changed",
    ]
    unnamed = {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "stringData": {"key": "one"}}
    misnamed = {**unnamed, "metadata": {"name": "Not_Good"}}
    assert b"name" not in the_trial(unnamed, SECRET).body
    assert the_trial(misnamed, SECRET) == the_trial(unnamed, SECRET)


CHANGES: list[tuple[Json, list[str]]] = [
    (resource(metadata={"name": "other"}), ["spec.resource.metadata.name cannot be changed: 'db' was expected"]),
    (resource(kind="ConfigMap"), ["spec.resource.kind cannot be changed: 'Secret' was expected, found 'ConfigMap'"]),
    (a_queue(), ["spec.resource.apiVersion cannot be changed", "spec.resource.kind cannot be changed"]),
    (resource(apiVersion="v2"), ["found 'v2/Secret'", "spec.resource.apiVersion cannot be changed"]),
]


@pytest.mark.parametrize(("what", "faults"), CHANGES)
def test_on_update_api_version_kind_and_name_of_the_resource_are_immutable(what: Json, faults: list[str]) -> None:
    messages = answered(stored(what), stored())
    assert [fault in message for fault, message in zip(faults, messages, strict=True)] == [True] * len(faults)


def test_everything_else_may_be_updated() -> None:
    assert answered(stored(resource(stringData={"new": "1"}), {"allNamespaces": True}), stored()) == ()


def test_a_faulty_distribution_may_be_labelled_and_deleted() -> None:
    faulty: dict[str, Any] = {"what": {"kind": "Secret"}}
    assert answered(stored(**faulty, labels={"a": "b"}), stored(**faulty)) == ()
    assert answered(stored({"apiVersion": "v1"}, deleting=True), stored(**faulty)) == ()
    assert answered(None, stored(**faulty)) == ()


@pytest.mark.parametrize("what", [{"kind": "Secret"}, resource(metadata={"name": "Not_Good"})])
def test_a_faulty_distribution_may_be_corrected(what: Json) -> None:
    assert answered(stored(), stored(what)) == ()


# The dry run


def the_trial(what: Json, kind: Any) -> DryRunCreate:
    """The dry run that admission asks for."""
    queries: list[DryRunCreate] = []
    world = World(a_registry())
    world.answer = lambda read: queries.append(read)  # type: ignore[method-assign,arg-type]
    answered(stored(what), None, world)
    query = queries[-1]
    assert query.kind == kind
    return query


@pytest.mark.parametrize("what", [SECRET_DB, a_queue()])
def test_every_kind_is_dry_run_and_a_refusal_by_the_server_is_a_fault(what: Json) -> None:
    world = World(a_registry())
    kind = QUEUE if what["kind"] == "Queue" else a_registry()[NAME].kinds[0]
    world.values[the_trial(what, kind)] = Rejected("422: it is invalid")
    assert answered(stored(what), None, world) == ("spec.resource: the API server refuses it: 422: it is invalid",)


@pytest.mark.parametrize(("is_strict", "is_about_object"), [(True, False), (True, True), (False, False)])
def test_strict_tenancy_hides_what_policies_and_quotas_of_the_operators_namespace_say(
    is_strict: bool, is_about_object: bool
) -> None:
    """Any pod that reaches the webhook can send a review and read the answer."""
    distribution = source_type((SECRET,), lambda where, words: dict(words), lambda name: False, is_strict=is_strict)
    registry = Registry((distribution,))
    world = World(registry)
    world.values[the_trial(SECRET_DB, SECRET)] = Rejected("exceeded quota: gold", is_about_object)
    (fault,) = answered(stored(), None, world)
    assert fault.startswith("spec.resource: the API server refuses it: ")
    assert ("gold" in fault) == (is_about_object or not is_strict)


def test_a_dry_run_without_an_answer_is_no_fault() -> None:
    assert answered(stored(a_queue())) == ()


def test_a_successful_dry_run_is_no_fault() -> None:
    world = World(a_registry())
    world.values[the_trial(a_queue(), QUEUE)] = content(spec={})
    assert answered(stored(a_queue()), None, world) == ()


def test_the_dry_run_carries_the_labels_annotations_and_name_of_the_copies_and_no_namespace() -> None:
    meta = {"namespace": "x", "labels": {"a": "b"}, "annotations": {"c": "d", "samara.dev/paused": "true"}}
    trial = the_trial(resource(metadata=meta), a_registry()[NAME].kinds[0])
    assert trial.body == (
        b'{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"c":"d"},"labels":{"a":"b"},"name":"db"},'
        b'"stringData":{"key":"one"}}'
    )
    assert "one" not in repr(trial)


# Conversion


BETA, ALPHA = "apps.kruise.io/v1beta1", "apps.kruise.io/v1alpha1"
CONDITIONS = [
    {"type": "ConflictOccurred", "status": "True", "failedNamespaces": ["a"]},
    {"type": "x", "status": "False"},
]


def of(version: str, **status: Any) -> Json:
    return {"apiVersion": version, "kind": "ResourceDistribution", "spec": {"resource": {"x": 1}}, "status": status}


def test_the_versions_differ_in_the_name_of_the_list_of_namespaces() -> None:
    beta = of(BETA, desired=2, conditions=CONDITIONS)
    alpha = convert(beta, ALPHA)
    assert alpha["apiVersion"] == ALPHA
    assert alpha["status"]["desired"] == 2
    assert alpha["status"]["conditions"] == [
        {"type": "ConflictOccurred", "status": "True", "failedNamespace": ["a"]},
        {"type": "x", "status": "False"},
    ]
    assert convert(alpha, BETA) == beta


def test_converting_does_not_change_the_given_object() -> None:
    beta = of(BETA, conditions=CONDITIONS)
    convert(beta, ALPHA)
    assert beta == of(BETA, conditions=CONDITIONS)


@pytest.mark.parametrize(
    "obj", [{"apiVersion": BETA}, of(BETA), of(BETA, conditions=None), of(BETA, conditions=["odd"]), {"status": None}]
)
def test_unknown_fields_stay_as_they_are(obj: Json) -> None:
    assert convert(obj, ALPHA) == {**obj, "apiVersion": ALPHA}
    assert convert(obj, BETA) == {**obj, "apiVersion": BETA}


def test_converting_to_the_same_version_changes_nothing() -> None:
    beta = of(BETA, conditions=CONDITIONS)
    assert convert(beta, BETA) == beta
