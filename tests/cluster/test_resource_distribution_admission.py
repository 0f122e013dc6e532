"""Admission and conversion of ResourceDistributions and of sync-to by a running operator on the real server."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.support.definitions import DEFINITIONS
from tests.cluster.support.faults import delayed
from tests.cluster.support.granting import granted
from tests.cluster.support.operators import Operator
from tests.cluster.support.proxy import Proxy, Seen
from tests.cluster.support.stage import USER, Stage
from tests.cluster.support.waiting import eventually
from tests.cluster.test_resource_distribution_rules import (
    DEFINITION,
    GROUP,
    Distributor,
    a_map,
    a_secret,
    definition,
    distributor,
    included,
    listed,
)
from tests.support.ports import free_port

from samara_devtools.devcluster import Devcluster, DevclusterError

pytestmark = [
    pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only; here each test asserts its own"),
    pytest.mark.usefixtures("unregistered"),
]

Json = dict[str, Any]
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/samara"
REGISTERING = {
    "apiGroups": ["admissionregistration.k8s.io"],
    "resources": ["validatingwebhookconfigurations"],
    "verbs": ["get", "list", "create", "update", "delete"],
}
"""An operator outside of a cluster needs this right as well."""
ASK, LIST = "openkruise.io/sync-to", "openkruise.io/sync-to-namespaces"
__all__ = ["definition", "distributor"]


@pytest.fixture(scope="module", autouse=True)
def registering(cluster: Devcluster, definition: None) -> Iterator[None]:
    with granted(cluster, "registering", [REGISTERING], USER):
        yield


@pytest.fixture
def unregistered(stage: Stage) -> Iterator[None]:
    """Removes the webhooks that a killed operator has left."""
    yield
    for operator in stage.operators:
        operator.kill()
    stage.api.gone(HOOKS)
    conversion = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
    stage.api.patch(f"{DEFINITIONS}/{DEFINITION}", conversion)
    eventually(lambda: stage.api.serves(f"{GROUP}/v1alpha1/resourcedistributions"))


def guard(stage: Stage, through: Proxy | None = None) -> Operator:
    """An operator with admission, started; returns when the server calls it."""
    port = free_port()
    flags = (f"--webhook-address=127.0.0.1:{port}", f"--webhook-url=https://127.0.0.1:{port}")
    config: Json = {"vocabularies": {"resource-distribution": {}, "sync-to": {}}}
    operator = stage.operator(*flags, config=config, through=through)
    eventually(lambda: "spec.targets" in refusal_of(stage, a_distribution(targets=included("Not_Good"))))
    eventually(lambda: "accepted are" in refusal_of(stage, asking("probe", {ASK: "everywhere"})))
    path = f"{DEFINITIONS}/{DEFINITION}"
    eventually(lambda: stage.api.get(path)["spec"]["conversion"]["strategy"] == "Webhook")
    eventually(lambda: stage.api.serves(f"{GROUP}/v1alpha1/resourcedistributions"))
    return operator


def a_distribution(name: str = "db", version: str = "v1beta1", **spec: Any) -> Json:
    secret = {"resource": a_secret(), "targets": {}, **spec}
    head = {"apiVersion": f"apps.kruise.io/{version}", "kind": "ResourceDistribution"}
    return {**head, "metadata": {"name": name}, "spec": secret}


def asking(name: str, annotations: dict[str, str]) -> Json:
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta}


def refusal_of(stage: Stage, body: Json) -> str:
    """The error of kubectl in a dry run, or an empty text."""
    try:
        stage.cluster.kubectl("apply", "--dry-run=server", "-f", "-", input=json.dumps(body))
    except DevclusterError as fault:
        return str(fault)
    return ""


def test_a_valid_distribution_is_admitted_in_both_versions_and_served(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a")
    guard(stage)
    distributor.create("old", included("a"), a_map("old"), version="v1alpha1")
    distributor.create("new", included("a"))
    distributor.until("old", "a", plural="configmaps")
    distributor.until("new", "a")


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_one_answer_lists_all_faults(stage: Stage, version: str) -> None:
    guard(stage)
    targets = {
        "includedNamespaces": listed("Not_Good", "both"),
        "excludedNamespaces": listed("both"),
        "namespaceLabelSelector": {"matchExpressions": [{"key": "team", "operator": "In"}]},
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "db"}}
    refusal = refusal_of(stage, a_distribution(version=version, resource=account, targets=targets))
    for fault in (
        "spec.targets.namespaceLabelSelector.matchExpressions[0].values",
        "'v1/ServiceAccount'",
        "'Not_Good'",
        "in includedNamespaces and in excludedNamespaces, where the latter counts: both",
    ):
        assert fault in refusal


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        (a_secret(data={"key": "not base64!"}), "the server would not take it"),
        (a_secret(type="kubernetes.io/tls"), "data[tls.crt]"),
        (a_secret(metadata={"labels": {"not good": "1"}}), "metadata.labels"),
        (a_map("db", data={"not/good": "1"}), "data[not/good]"),
        (a_map("db", data={"text": "x" * (1024 * 1024 + 1)}), "Too long"),
    ],
)
def test_a_resource_that_a_dry_run_refuses_is_refused_without_its_values(
    stage: Stage, resource: Json, words: str
) -> None:
    guard(stage)
    body = a_distribution(resource=resource)
    with pytest.raises(DevclusterError) as refusal:
        stage.cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(body))
    assert words in str(refusal.value)
    assert "not base64!" not in str(refusal.value)


def test_an_existing_resource_of_the_same_name_in_the_operators_namespace_is_no_fault(
    stage: Stage, distributor: Distributor
) -> None:
    stage.foreign("default", "db")
    stage.also_remove("/api/v1/namespaces/default/secrets/db")
    guard(stage)
    assert refusal_of(stage, a_distribution()) == ""


def test_on_update_only_api_version_kind_and_name_of_the_resource_are_immutable(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a")
    distributor.create("db", included("a"))
    guard(stage)
    distributor.until("db", "a")
    assert "spec.resource.metadata.name cannot be changed: 'db' was expected, found 'other'" in refusal_of(
        stage, a_distribution(resource=a_secret("other"))
    )
    assert "spec.resource.kind cannot be changed: 'Secret' was expected, found 'ConfigMap'" in refusal_of(
        stage, a_distribution(resource=a_map("db"))
    )
    new = a_secret(stringData={"username": "u", "password": "p"}, type="kubernetes.io/basic-auth")
    distributor.change("db", included("a", "default"), new)
    distributor.until("db", "a", "default")
    assert (distributor.copy("a", "db") or {})["type"] == "kubernetes.io/basic-auth"


def test_the_namespaces_of_a_condition_are_readable_in_both_versions(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a")
    guard(stage)
    distributor.create("db", included("a", "zz"), version="v1alpha1")
    distributor.until_counted("db", 2, 1)
    for version, field in (("v1alpha1", "failedNamespace"), ("v1beta1", "failedNamespaces")):
        *fine, last = distributor.get("db", version)["status"]["conditions"]
        assert {key: last[key] for key in last if key != "lastTransitionTime"} == {
            "type": "NamespaceNotExists",
            "status": "True",
            "reason": "NoNamespace",
            "message": "Secret zz/db: namespace zz does not exist yet",
            field: ["zz"],
        }
        assert {frozenset(condition) for condition in fine} == {
            frozenset({"type", "status", "reason", "lastTransitionTime"})
        }


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({ASK: "everywhere"}, ("openkruise.io/sync-to is 'everywhere'", "'cluster'", "'namespaces'")),
        ({ASK: ""}, ("openkruise.io/sync-to is ''", "'cluster'", "'namespaces'")),
        ({ASK: "namespaces"}, ("openkruise.io/sync-to-namespaces is ''", "'ns-1;ns-2'")),
        ({ASK: "namespaces", LIST: " ; ,"}, ("openkruise.io/sync-to-namespaces is ' ; ,'", "'ns-1;ns-2'")),
        ({ASK: "namespaces", LIST: "a;Not_Good"}, (LIST, "'Not_Good'", "'ns-1;ns-2'")),
    ],
)
def test_an_invalid_sync_to_is_refused_with_the_key_the_value_and_the_accepted_values(
    stage: Stage, annotations: dict[str, str], words: tuple[str, ...]
) -> None:
    guard(stage)
    refusal = refusal_of(stage, asking("db", annotations))
    for word in words:
        assert word in refusal
    for good in ({ASK: "cluster"}, {ASK: "namespace", LIST: "a"}, {ASK: "namespaces", LIST: "a;b,c d"}):
        assert refusal_of(stage, asking("db", good)) == ""


def test_a_stopped_operator_leaves_no_webhook_and_no_conversion(stage: Stage, distributor: Distributor) -> None:
    operator = guard(stage)
    operator.stop()
    assert stage.api.find(HOOKS) is None
    assert stage.api.get(f"{DEFINITIONS}/{DEFINITION}")["spec"]["conversion"] == {"strategy": "None"}
    eventually(lambda: refusal_of(stage, a_distribution(targets=included("Not_Good"))) == "")


def test_no_write_begins_after_the_signal_while_the_webhooks_are_being_removed(
    stage: Stage, distributor: Distributor
) -> None:
    def hooks_are_removed(seen: Seen) -> bool:
        return seen.method == "DELETE" and seen.plural == "validatingwebhookconfigurations"

    stage.namespace("a")
    proxy = stage.proxy()
    operator = guard(stage, through=proxy)
    proxy.on_request(hooks_are_removed, delayed(1.5))
    operator.signal(signal.SIGTERM)
    eventually(lambda: proxy.requests(hooks_are_removed))
    distributor.create("db", included("a"))
    assert operator.wait() == 0
    assert stage.api.find(HOOKS) is None
    assert distributor.copy("a", "db") is None
