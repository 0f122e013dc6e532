"""The rules of ResourceDistribution against the real server; each name quotes its rule."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.support.api import ApiFault
from tests.cluster.support.audit import Event, until_recorded
from tests.cluster.support.definitions import DEFINITIONS, define, defined
from tests.cluster.support.faults import answered
from tests.cluster.support.granting import granted
from tests.cluster.support.hooks import CANARY, Webhook
from tests.cluster.support.operators import Operator
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.proxy import Seen
from tests.cluster.support.stage import SECOND, USER, Stage, encoded
from tests.cluster.support.waiting import eventually, never

from samara import crds
from samara.cli.deploy.rights import cluster_rules
from samara.core.model import KindName
from samara.settings import Settings
from samara.vocabularies.resource_distribution import ResourceDistributionSettings
from samara_devtools.devcluster import Devcluster

pytestmark = pytest.mark.oracle_off(
    "O4", reason="it knows the rules of Secret copy only; here each test asserts its own"
)

Json = dict[str, Any]
DEFINITION = "resourcedistributions.apps.kruise.io"
GROUP = "/apis/apps.kruise.io"
DISTRIBUTIONS = f"{GROUP}/v1beta1/resourcedistributions"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
FROM = "kruise.io/resourcedistribution.resource.from"
HASHCODE = "kruise.io/resourcedistribution.resource.hashcode"
SETTLED = 0.5
SIX = [
    "GetResourceFailed",
    "CreateResourceFailed",
    "UpdateResourceFailed",
    "DeleteResourceFailed",
    "ConflictOccurred",
    "NamespaceNotExists",
]
KINDS = (
    KindName("", "v1", "Secret"),
    KindName("", "v1", "ConfigMap"),
    KindName("networking.k8s.io", "v1", "NetworkPolicy"),
)
COLLECTED = 60.0
"""The garbage collector notices a new kind only every half minute."""


@pytest.fixture(scope="module", autouse=True)
def definition(cluster: Devcluster) -> Iterator[None]:
    """The definition, and exactly the rights that `samara rbac` prints for the vocabulary."""
    settings = Settings(vocabularies={"resource-distribution": ResourceDistributionSettings(kinds=KINDS)})
    rules = [rule.manifest() for rule in cluster_rules(settings)]
    with defined(cluster, crds.text(DEFINITION)), granted(cluster, "distribution", rules, USER, SECOND):
        yield


@pytest.fixture
def collector(stage: Stage) -> None:
    """The garbage collector has noticed the kind: it looks for new ones twice a minute only."""
    distributor, maps = Distributor(stage), "/api/v1/namespaces/default/configmaps"
    uid = distributor.create("canary", {})["metadata"]["uid"]
    owner = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution", "name": "canary", "uid": uid}
    stage.api.create(maps, {"metadata": {"name": "canary", "ownerReferences": [owner]}})
    distributor.delete("canary")
    eventually(lambda: stage.api.find(f"{maps}/canary") is None, COLLECTED)


class Distributor:
    """Creates, changes and reads distributions for a test."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.api = stage.api

    def create(self, name: str, targets: Json, resource: Json | None = None, version: str = "v1beta1") -> Json:
        self.stage.also_remove(f"{DISTRIBUTIONS}/{name}")
        body = {
            "apiVersion": f"apps.kruise.io/{version}",
            "kind": "ResourceDistribution",
            "metadata": {"name": name},
            "spec": {"resource": resource or a_secret(name), "targets": targets},
        }
        return self.api.create(f"{GROUP}/{version}/resourcedistributions", body)

    def change(self, name: str, targets: Json | None = None, resource: Json | None = None) -> Json:
        """Replaces complete fields. A merge patch would keep omitted ones; an update could conflict with our status."""
        given = {"targets": targets, "resource": resource}
        edits: list[Json] = [
            {"op": "add", "path": f"/spec/{key}", "value": value} for key, value in given.items() if value is not None
        ]
        return self.api.request("PATCH", f"{DISTRIBUTIONS}/{name}", edits, content_type="application/json-patch+json")

    def get(self, name: str, version: str = "v1beta1") -> Json:
        return self.api.get(f"{GROUP}/{version}/resourcedistributions/{name}")

    def delete(self, name: str, policy: str = "Background") -> None:
        self.api.delete(f"{DISTRIBUTIONS}/{name}", {"propagationPolicy": policy})

    def copy(self, namespace: str, name: str, plural: str = "secrets") -> Json | None:
        return self.api.find(f"/api/v1/namespaces/{namespace}/{plural}/{name}")

    def until(self, name: str, *namespaces: str, plural: str = "secrets") -> None:
        """Waits until the copies in these namespaces equal the resource of the distribution."""
        code = hashcode(self.get(name)["spec"]["resource"])

        def right(namespace: str) -> bool:
            live = self.copy(namespace, name, plural)
            return live is not None and metadata_of(live).get(HASHCODE) == code

        eventually(lambda: all(map(right, namespaces)))

    def until_gone(self, name: str, *namespaces: str, deadline: float = 20.0) -> None:
        eventually(lambda: not any(self.copy(namespace, name) for namespace in namespaces), deadline)

    def status(self, name: str) -> Json:
        status: Json = self.get(name).get("status") or {}
        return status

    def counts(self, name: str) -> tuple[int, int, int]:
        status = self.status(name)
        return status.get("desired", -1), status.get("succeeded", -1), status.get("failed", -1)

    def until_counted(self, name: str, desired: int, succeeded: int) -> None:
        eventually(lambda: self.counts(name) == (desired, succeeded, desired - succeeded))

    def condition(self, name: str, kind: str) -> Json:
        conditions = [condition for condition in self.status(name).get("conditions", ()) if condition["type"] == kind]
        return conditions[0] if conditions else {}

    def until_condition(self, name: str, kind: str, reason: str, namespaces: list[str] | None = None) -> None:
        def has_reason() -> bool:
            condition = self.condition(name, kind)
            return (condition.get("status"), condition.get("reason"), condition.get("failedNamespaces")) == (
                "True",
                reason,
                namespaces,
            )

        eventually(has_reason)

    def reports(self, mark: int = 0) -> list[Event]:
        """The status writes of the operator."""
        return [
            event for event in self.stage.audit.since(mark) if event.ours and event.resource == "resourcedistributions"
        ]

    def writes(self, mark: int = 0) -> list[Event]:
        """All writes of the operator except Events and dry runs."""
        ours = [event for event in self.stage.audit.since(mark) if event.ours and event.mutating and not event.dry_run]
        return [request for request in ours if request.resource not in ("events", "leases")]


@pytest.fixture
def distributor(stage: Stage) -> Distributor:
    return Distributor(stage)


def a_secret(name: str = "db", **changes: Any) -> Json:
    meta = {"name": name, **changes.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"key": "one"}, **changes}


def a_map(name: str, **changes: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "one"}, **changes}


def listed(*names: str) -> Json:
    return {"list": [{"name": name} for name in names]}


def included(*names: str) -> Json:
    return {"includedNamespaces": listed(*names)}


def hashcode(resource: Json) -> str:
    """The hash of the specification, independent of the product: of the bytes that the server writes."""
    text = json.dumps(resource, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return hashlib.sha256(text.encode()).hexdigest()


def serve(stage: Stage, **more: Any) -> Operator:
    return stage.operator(config={"vocabularies": {"resource-distribution": {}}, **more})


def labelled(stage: Stage, name: str, **labels: str | None) -> None:
    stage.api.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})


# Targets


def test_targets_are_the_union_of_all_included_and_selected_minus_excluded(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a", "b", "c", "d")
    labelled(stage, "c", team="red")
    labelled(stage, "d", team="red")
    selector = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["red"]}]}
    targets = {**included("a", "b"), "namespaceLabelSelector": selector, "excludedNamespaces": listed("b", "d")}
    distributor.create("db", targets)
    serve(stage)
    distributor.until("db", "a", "c")
    distributor.until_counted("db", 2, 2)
    assert [distributor.copy(namespace, "db") for namespace in ("b", "d", "default")] == [None] * 3


def test_all_namespaces_and_selectors_exclude_kube_namespaces_and_a_name_includes_them(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a")
    distributor.create("db", {"allNamespaces": True})
    distributor.create("named", {"allNamespaces": True, **included("kube-system")})
    selector = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}
    distributor.create("chosen", {"namespaceLabelSelector": selector})
    serve(stage)
    for name in ("db", "named", "chosen"):
        distributor.until(name, "a", "admin", "default")
    distributor.until("named", "kube-system")
    distributor.until_counted("db", 3, 3)
    distributor.until_counted("chosen", 3, 3)
    distributor.until_counted("named", 4, 4)
    for namespace in ("kube-system", "kube-public", "kube-node-lease"):
        assert distributor.copy(namespace, "db") is None
        assert distributor.copy(namespace, "chosen") is None
    distributor.change("named", {"allNamespaces": True})
    eventually(lambda: distributor.copy("kube-system", "named") is None)
    distributor.until("named", "a", "admin", "default")


@pytest.mark.parametrize("targets", [{}, {"namespaceLabelSelector": {}}, {"allNamespaces": False}])
def test_empty_targets_and_an_empty_selector_select_nothing_and_are_valid(
    stage: Stage, distributor: Distributor, targets: Json
) -> None:
    stage.namespace("a")
    distributor.create("db", targets)
    serve(stage)
    distributor.until_counted("db", 0, 0)
    assert distributor.copy("a", "db") is None
    assert {condition["status"] for condition in distributor.status("db")["conditions"]} == {"False"}


def test_a_new_namespace_gets_its_copy_and_a_missing_one_is_reported_until_it_exists(
    stage: Stage, distributor: Distributor
) -> None:
    distributor.create("all", {"allNamespaces": True})
    distributor.create("db", included("default", "later"))
    serve(stage)
    distributor.until("all", "default")
    distributor.until_condition("db", "NamespaceNotExists", "NoNamespace", ["later"])
    distributor.until_counted("db", 2, 1)
    stage.namespace("later")
    distributor.until("all", "later")
    distributor.until("db", "later")
    distributor.until_counted("db", 2, 2)
    assert distributor.condition("db", "NamespaceNotExists")["status"] == "False"


def test_a_namespace_is_served_while_its_labels_match(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a")
    distributor.create("db", {"namespaceLabelSelector": {"matchLabels": {"team": "red"}}})
    serve(stage)
    labelled(stage, "a", team="red")
    distributor.until("db", "a")
    labelled(stage, "a", team=None)
    distributor.until_gone("db", "a")
    distributor.until_counted("db", 0, 0)


@pytest.mark.parametrize(
    ("key", "operator", "values", "chosen"),
    [
        ("team", "In", ["red", "green"], ["a"]),
        ("team", "NotIn", ["red"], ["b", "c"]),
        ("team", "Exists", [], ["a", "b"]),
        ("team", "DoesNotExist", [], ["c"]),
    ],
)
def test_every_operator_of_a_selector_matches_as_elsewhere_in_kubernetes(
    stage: Stage, distributor: Distributor, key: str, operator: str, values: list[str], chosen: list[str]
) -> None:
    stage.namespace("a", "b", "c")
    for name in "abc":
        labelled(stage, name, tested="yes")
    labelled(stage, "a", team="red")
    labelled(stage, "b", team="blue")
    expression = {"key": key, "operator": operator, **({"values": values} if values else {})}
    selector = {"matchLabels": {"tested": "yes"}, "matchExpressions": [expression]}
    distributor.create("db", {"namespaceLabelSelector": selector})
    serve(stage)
    distributor.until_counted("db", len(chosen), len(chosen))
    assert [namespace for namespace in "abc" if distributor.copy(namespace, "db")] == chosen


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_the_newer_name_of_the_selector_is_stored_and_applies_in_both_versions(
    stage: Stage, distributor: Distributor, version: str
) -> None:
    stage.namespace("a", "b")
    labelled(stage, "a", team="red")
    selector = {"matchLabels": {"team": "red"}}
    distributor.create("db", {"namespaceSelector": selector}, version=version)
    serve(stage)
    distributor.until("db", "a")
    distributor.until_counted("db", 1, 1)
    for version in ("v1alpha1", "v1beta1"):
        assert distributor.get("db", version)["spec"]["targets"] == {"namespaceSelector": selector}
    labelled(stage, "b", team="red")
    distributor.until("db", "b")


# Copies


def test_a_copy_carries_the_controller_reference_and_the_two_annotations(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a")
    meta = {"namespace": "elsewhere", "labels": {"team": "red"}, "annotations": {"note": "<&> é"}}
    made = distributor.create("db", included("a"), a_secret(metadata=meta))
    serve(stage)
    distributor.until("db", "a")
    live = distributor.copy("a", "db") or {}
    assert live["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "ResourceDistribution",
            "name": "db",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert (metadata_of(live)[FROM], metadata_of(live)["note"], metadata_of(live, "labels")) == (
        "db",
        "<&> é",
        {"team": "red"},
    )
    assert (live["type"], live["data"]) == ("Opaque", encoded({"key": "one"}))


def test_the_hashcode_is_the_sha_256_of_the_bytes_in_which_the_server_writes_the_resource(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a")
    distributor.create("db", included("a"), a_secret(stringData={"k": "<a href='x'>é & \u2028 \"q\"\n</a>"}))
    serve(stage)
    live = eventually(lambda: distributor.copy("a", "db"))
    raw = stage.cluster.kubectl("get", "--raw", f"{DISTRIBUTIONS}/db")
    written = re.search(r'"resource":(\{.*\}),"targets":', raw)
    assert written is not None
    assert metadata_of(live or {})[HASHCODE] == hashlib.sha256(written[1].encode()).hexdigest()


@pytest.mark.parametrize("edit", [{"data": encoded({"key": "two"})}, {"metadata": {"annotations": {FROM: None}}}])
def test_an_edited_copy_is_repaired_with_one_request(stage: Stage, distributor: Distributor, edit: Json) -> None:
    stage.namespace("a")
    distributor.create("db", included("a"))
    serve(stage)
    distributor.until("db", "a")
    mark = stage.audit.mark()
    stage.api.patch(stage.path("a", "db"), edit)
    eventually(lambda: stage.audit.writes(mark))
    live = distributor.copy("a", "db") or {}
    assert (live["data"], metadata_of(live)[FROM]) == (encoded({"key": "one"}), "db")
    assert [event.verb for event in stage.audit.writes(mark)] == ["update"]


def test_a_deleted_copy_is_recreated(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a")
    distributor.create("db", included("a"))
    serve(stage)
    distributor.until("db", "a")
    stage.api.delete(stage.path("a", "db"))
    distributor.until("db", "a")


def test_an_owner_reference_that_lost_controller_is_repaired_and_those_of_others_stay(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a")
    distributor.create("db", included("a"))
    serve(stage)
    distributor.until("db", "a")
    (own,) = (distributor.copy("a", "db") or {})["metadata"]["ownerReferences"]
    theirs = {
        "apiVersion": "v1",
        "kind": "Secret",
        "name": "theirs",
        "uid": stage.foreign("a", "theirs")["metadata"]["uid"],
    }
    stage.api.patch(stage.path("a", "db"), {"metadata": {"ownerReferences": [theirs, {**own, "controller": False}]}})
    eventually(lambda: (distributor.copy("a", "db") or {})["metadata"]["ownerReferences"] == [theirs, own])


def test_a_copy_without_its_owner_reference_is_a_conflict_until_it_has_it_again(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a")
    distributor.create("db", included("a"))
    serve(stage)
    distributor.until("db", "a")
    own = (distributor.copy("a", "db") or {})["metadata"]["ownerReferences"]
    stage.api.patch(stage.path("a", "db"), {"metadata": {"ownerReferences": None}, "data": encoded({"key": "theirs"})})
    distributor.until_condition("db", "ConflictOccurred", "Conflict", ["a"])
    assert stage.data("a", "db") == {"key": "theirs"}
    stage.api.patch(stage.path("a", "db"), {"metadata": {"ownerReferences": own}})
    distributor.until_counted("db", 1, 1)
    assert stage.data("a", "db") == {"key": "one"}


def test_without_admission_a_changed_name_or_kind_of_the_resource_replaces_the_copies(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a", "b")
    distributor.create("db", included("a", "b"))
    serve(stage)
    distributor.until_counted("db", 2, 2)
    distributor.change("db", resource=a_secret("other"))
    distributor.until_gone("db", "a", "b")
    eventually(lambda: stage.data("a", "other") == stage.data("b", "other") == {"key": "one"})
    distributor.change("db", resource=a_map("other"))
    distributor.until_gone("other", "a", "b")
    eventually(lambda: distributor.copy("a", "other", "configmaps") and distributor.copy("b", "other", "configmaps"))
    distributor.until_counted("db", 2, 2)


def test_changes_after_a_crash_are_applied_at_the_next_start(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a", "b", "c", "d")
    distributor.create("db", included("a", "b", "c"))
    operator = serve(stage)
    distributor.until_counted("db", 3, 3)
    operator.kill()
    stage.api.delete(stage.path("a", "db"))
    stage.api.patch(stage.path("b", "db"), {"data": encoded({"key": "two"})})
    distributor.change("db", included("a", "b", "d"))
    serve(stage)
    distributor.until("db", "a", "b", "d")
    distributor.until_gone("db", "c")
    distributor.until_counted("db", 3, 3)
    assert stage.data("b", "db") == {"key": "one"}
    assert distributor.status("db")["observedGeneration"] == 2


def test_changed_labels_and_annotations_reach_existing_copies_and_dropped_ones_are_removed(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a")
    meta = {"labels": {"old": "1", "both": "1"}, "annotations": {"gone": "1"}}
    distributor.create("db", included("a"), a_secret(metadata=meta))
    serve(stage)
    distributor.until("db", "a")
    stage.api.patch(stage.path("a", "db"), {"metadata": {"labels": {"theirs": "1"}}})
    distributor.change("db", resource=a_secret(metadata={"labels": {"new": "1", "both": "2"}}))
    distributor.until("db", "a")
    live = distributor.copy("a", "db") or {}
    assert metadata_of(live, "labels") == {"new": "1", "both": "2", "theirs": "1"}
    assert set(metadata_of(live)) == {FROM, HASHCODE}


def test_a_changed_secret_type_recreates(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a")
    distributor.create("db", included("a"), a_secret(stringData={"username": "u", "password": "p"}))
    serve(stage)
    distributor.until("db", "a")
    mark, before = stage.audit.mark(), (distributor.copy("a", "db") or {})["metadata"]["uid"]
    new = a_secret(stringData={"username": "u", "password": "p"}, type="kubernetes.io/basic-auth")
    distributor.change("db", resource=new)
    distributor.until("db", "a")
    live = distributor.copy("a", "db") or {}
    assert (live["type"], live["metadata"]["uid"] == before) == ("kubernetes.io/basic-auth", False)
    assert [event.verb for event in until_recorded(lambda: stage.audit.writes(mark), 2)] == ["delete", "create"]
    distributor.until_counted("db", 1, 1)


def test_string_data_and_an_omitted_type_cause_no_write_at_a_resync_or_at_a_restart(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a", "b")
    distributor.create("db", included("a", "b"))
    distributor.create("settings-0", included("a", "b"), a_map("settings-0"))
    first = serve(stage, resync="1s")
    distributor.until("db", "a", "b")
    distributor.until("settings-0", "a", "b", plural="configmaps")
    distributor.until_counted("db", 2, 2)
    distributor.until_counted("settings-0", 2, 2)
    mark = stage.audit.mark()
    never(lambda: distributor.writes(mark), 3.0)
    first.stop()
    serve(stage)
    never(lambda: distributor.writes(mark), 1.0)


def test_an_immutable_config_map_is_recreated_when_its_data_change(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a")
    distributor.create("settings-1", included("a"), a_map("settings-1", immutable=True))
    serve(stage)
    distributor.until("settings-1", "a", plural="configmaps")
    distributor.change("settings-1", resource=a_map("settings-1", immutable=True, data={"key": "two"}))
    distributor.until("settings-1", "a", plural="configmaps")
    live = distributor.copy("a", "settings-1", "configmaps") or {}
    assert (live["data"], live["immutable"]) == ({"key": "two"}, True)


def test_a_config_map_of_a_mebibyte_is_distributed(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a", "b")
    binary, more = bytes(range(256)), "é<&>\n"
    large = {"text": "x" * (1024 * 1024 - len(binary) - len(more.encode())), "more": more}
    distributor.create(
        "large", included("a", "b"), a_map("large", data=large, binaryData={"raw": base64.b64encode(binary).decode()})
    )
    serve(stage)
    distributor.until("large", "a", "b", plural="configmaps")
    live = distributor.copy("a", "large", "configmaps") or {}
    assert (live["data"], base64.b64decode(live["binaryData"]["raw"])) == (large, binary)
    distributor.until_counted("large", 2, 2)
    mark = stage.audit.mark()
    never(lambda: distributor.writes(mark), SETTLED)


# Conflicts


@pytest.mark.parametrize("data", [{"key": "one"}, {"mine": "1"}])
def test_a_foreign_object_is_unchanged_even_if_identical_and_replaced_at_once_when_it_is_deleted(
    stage: Stage, distributor: Distributor, data: dict[str, str]
) -> None:
    stage.namespace("a", "b")
    theirs = stage.foreign("a", "db", data)
    distributor.create("db", included("a", "b"))
    serve(stage)
    distributor.until_condition("db", "ConflictOccurred", "Conflict", ["a"])
    distributor.until_counted("db", 2, 1)
    live = distributor.copy("a", "db") or {}
    assert live["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]
    stage.api.delete(stage.path("a", "db"))
    distributor.until("db", "a")
    distributor.until_counted("db", 2, 2)
    assert distributor.condition("db", "ConflictOccurred")["status"] == "False"


def test_a_pasted_copy_without_the_owner_reference_is_a_conflict(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a")
    stage.foreign("a", "db", metadata={"annotations": {FROM: "db", HASHCODE: "0"}})
    distributor.create("db", included("a"))
    serve(stage)
    distributor.until_condition("db", "ConflictOccurred", "Conflict", ["a"])
    assert stage.data("a", "db") == {"mine": "1"}


def test_the_older_of_two_distributions_wins_until_it_no_longer_wants_the_copy(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a", "b")
    distributor.create("first", included("a", "b"), a_secret("shared"))
    operator = serve(stage)
    distributor.until_counted("first", 2, 2)
    distributor.create("second", included("a"), a_secret("shared", stringData={"key": "two"}))
    distributor.until_condition("second", "ConflictOccurred", "Conflict", ["a"])
    distributor.change("first", included("b"))
    distributor.until_counted("second", 1, 1)
    assert stage.data("a", "shared") == {"key": "two"}
    owners = (distributor.copy("a", "shared") or {})["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == ["second"]
    assert operator.running


def synced(stage: Stage, name: str = "db") -> Operator:
    """A source of sync-to in `team`, with its copy in `a`; a distribution comes before it."""
    stage.namespace("team", "a")
    words = {"openkruise.io/sync-to": "namespaces", "openkruise.io/sync-to-namespaces": "a"}
    stage.foreign("team", name, {"key": "synced"}, metadata={"annotations": words})
    operator = stage.operator(config={"vocabularies": {"resource-distribution": {}, "sync-to": {}}})
    eventually(lambda: stage.data("a", name) == {"key": "synced"})
    return operator


def test_a_distribution_replaces_the_copy_of_a_lower_source_which_reports_it_and_deletes_nothing(
    stage: Stage, distributor: Distributor
) -> None:
    synced(stage)
    mark = stage.audit.mark()
    distributor.create("db", included("a"))
    distributor.until("db", "a")
    distributor.until_counted("db", 1, 1)
    assert [event.verb for event in stage.audit.writes(mark)] == ["delete", "create"]
    assert set(stage.audit.writes(mark)[0].request["preconditions"]) == {"uid", "resourceVersion"}
    assert "resource-distribution/ResourceDistribution/-/db" in stage.until_event("Conflict", "team", "db")["message"]
    distributor.change("db", {})
    eventually(lambda: stage.data("a", "db") == {"key": "synced"})


def test_a_distribution_that_the_server_refuses_takes_nothing_from_a_lower_source(
    stage: Stage, distributor: Distributor
) -> None:
    synced(stage)
    live, mark = distributor.copy("a", "db") or {}, stage.audit.mark()
    distributor.create("db", included("a"), a_secret(type="kubernetes.io/tls"))
    distributor.until_condition("db", "UpdateResourceFailed", "Refused", ["a"])
    assert stage.audit.writes(mark) == []
    assert distributor.copy("a", "db") == live
    distributor.change("db", resource=a_secret())
    distributor.until("db", "a")


def test_a_takeover_from_the_original_writes_only_the_status(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a")
    made = distributor.create("db", included("a"))
    owner = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "ResourceDistribution",
        "name": "db",
        "uid": made["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    marks = {FROM: "db", HASHCODE: hashcode(made["spec"]["resource"])}
    stage.foreign("a", "db", {"key": "one"}, metadata={"annotations": marks, "ownerReferences": [owner]})
    serve(stage)
    distributor.until_counted("db", 1, 1)
    assert [(event.resource, event.subresource) for event in distributor.writes()] == [
        ("resourcedistributions", "status")
    ]
    stage.api.patch(stage.path("a", "db"), {"data": encoded({"key": "two"})})
    eventually(lambda: stage.data("a", "db") == {"key": "one"})
    assert len((distributor.copy("a", "db") or {})["metadata"]["ownerReferences"]) == 1


# Narrowing and deletion


def test_narrowed_targets_delete_the_dropped_copies_by_uid_and_version(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a", "b")
    distributor.create("db", included("a", "b"))
    serve(stage)
    distributor.until("db", "a", "b")
    mark = stage.audit.mark()
    distributor.change("db", included("a"))
    distributor.until_gone("db", "b")
    distributor.until_counted("db", 1, 1)
    (delete,) = stage.audit.writes(mark)
    assert set(delete.request["preconditions"]) == {"uid", "resourceVersion"}


def test_while_the_brake_holds_removals_the_status_is_held(stage: Stage, distributor: Distributor) -> None:
    names = [f"n{number}" for number in range(8)]
    stage.namespace(*names)
    distributor.create("db", included(*names))
    serve(stage)
    distributor.until("db", *names)
    distributor.change("db", included("n0"))
    distributor.until_condition("db", "DeleteResourceFailed", "Held", names[1:])
    assert all(distributor.copy(name, "db") for name in names)
    distributor.change("db", included(*names))
    eventually(lambda: distributor.condition("db", "DeleteResourceFailed").get("status") == "False")
    distributor.until_counted("db", 8, 8)


def test_a_removal_that_the_server_refuses_is_reported_until_another_user_deletes_the_copy(
    stage: Stage, distributor: Distributor
) -> None:
    def goes_from_b(seen: Seen) -> bool:
        return seen.method == "DELETE" and seen.namespace == "b"

    stage.namespace("a", "b")
    proxy = stage.proxy()
    proxy.on_request(goes_from_b, answered(403, "Forbidden"))
    distributor.create("db", included("a", "b"))
    stage.operator(config={"vocabularies": {"resource-distribution": {}}}, through=proxy)
    distributor.until("db", "a", "b")
    distributor.change("db", included("a"))
    distributor.until_condition("db", "DeleteResourceFailed", "Refused", ["b"])
    stage.api.delete(stage.path("b", "db"))
    eventually(lambda: distributor.condition("db", "DeleteResourceFailed").get("status") == "False")


@pytest.mark.usefixtures("collector")
def test_a_deleted_distribution_leaves_its_copies_to_the_garbage_collector_and_we_delete_none(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a", "b")
    distributor.create("db", included("a", "b"))
    serve(stage)
    distributor.until("db", "a", "b")
    mark = stage.audit.mark()
    distributor.delete("db")
    distributor.until_gone("db", "a", "b", deadline=COLLECTED)
    assert stage.audit.writes(mark) == []


@pytest.mark.usefixtures("collector")
def test_a_distribution_deleted_in_the_foreground_is_deleted_after_its_copies_and_none_is_recreated(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a", "b")
    distributor.create("db", included("a", "b"))
    serve(stage)
    distributor.until("db", "a", "b")
    stage.api.patch(stage.path("a", "db"), {"metadata": {"finalizers": ["example.com/waits"]}})
    mark = stage.audit.mark()
    distributor.delete("db", "Foreground")
    distributor.until_gone("db", "b", deadline=COLLECTED)
    assert distributor.get("db")["metadata"]["deletionTimestamp"]
    never(lambda: stage.audit.writes(mark), SETTLED)
    stage.api.patch(stage.path("a", "db"), {"metadata": {"finalizers": None}})
    distributor.until_gone("db", "a", deadline=COLLECTED)
    eventually(lambda: stage.api.find(f"{DISTRIBUTIONS}/db") is None, COLLECTED)
    assert stage.audit.writes(mark) == []


@pytest.mark.usefixtures("collector")
def test_copies_orphaned_by_cascade_orphan_stay(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a", "b")
    distributor.create("db", included("a", "b"))
    serve(stage)
    distributor.until("db", "a", "b")
    distributor.delete("db", "Orphan")
    eventually(lambda: stage.api.find(f"{DISTRIBUTIONS}/db") is None, COLLECTED)
    mark = stage.audit.mark()
    never(lambda: stage.audit.writes(mark), 1.0)
    for namespace in "ab":
        assert (
            "ownerReferences"
            not in (distributor.copy(namespace, "db") or {"metadata": {"ownerReferences": 1}})["metadata"]
        )


@pytest.mark.usefixtures("collector")
def test_an_orphaned_copy_has_no_owner_and_no_lower_source_takes_it_over(
    stage: Stage, distributor: Distributor
) -> None:
    synced(stage)
    distributor.create("db", included("a"))
    distributor.until("db", "a")
    distributor.delete("db", "Orphan")
    eventually(lambda: stage.api.find(f"{DISTRIBUTIONS}/db") is None, COLLECTED)
    eventually(lambda: "not a copy of this source" in stage.until_event("Conflict", "team", "db")["message"])
    assert stage.data("a", "db") == {"key": "one"}
    stage.api.delete(stage.path("a", "db"))
    eventually(lambda: stage.data("a", "db") == {"key": "synced"})


# Invalid resources


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        ({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "db"}}, "Refused"),
        ({"apiVersion": "v2", "kind": "Secret", "metadata": {"name": "db"}}, "Refused"),
        (a_secret(data={"key": "not base64!"}), "Invalid"),
    ],
)
def test_an_invalid_resource_is_reported_and_changes_nothing(
    stage: Stage, distributor: Distributor, resource: Json, reason: str
) -> None:
    stage.namespace("a", "b")
    distributor.create("db", included("a"))
    serve(stage)
    distributor.until("db", "a")
    mark = stage.audit.mark()
    distributor.change("db", included("b"), resource)
    distributor.until_condition("db", "GetResourceFailed", reason, ["b"])
    distributor.until_counted("db", 1, 0)
    assert stage.audit.writes(mark) == []
    assert distributor.copy("a", "db") is not None
    event = eventually(lambda: stage.events("default", reason, "db"))[0]
    assert "spec.resource" in event["message"]
    distributor.change("db", included("b"), a_secret())
    distributor.until("db", "b")
    distributor.until_gone("db", "a")
    distributor.until_counted("db", 1, 1)


def test_a_copy_that_a_namespace_refuses_is_a_failed_create_and_is_created_once_allowed(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a", "b")
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/secrets": "0"}}}
    stage.api.create("/api/v1/namespaces/a/resourcequotas", quota)
    eventually(lambda: stage.api.get("/api/v1/namespaces/a/resourcequotas/none").get("status", {}).get("hard"))
    distributor.create("db", included("a", "b"))
    serve(stage)
    distributor.until_condition("db", "CreateResourceFailed", "Refused", ["a"])
    distributor.until_counted("db", 2, 1)
    stage.api.delete("/api/v1/namespaces/a/resourcequotas/none")
    distributor.until("db", "a")
    distributor.until_counted("db", 2, 2)


# Other kinds


POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"
MORE: Json = {"kinds": [*map("{0.version}/{0.kind}".format, KINDS[:2]), "networking.k8s.io/v1/NetworkPolicy"]}


def a_policy(name: str, **spec: Any) -> Json:
    spec_of_policy = {"podSelector": {}, "ingress": [{"ports": [{"port": 53}]}], **spec}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name},
        "spec": spec_of_policy,
    }


def test_another_kind_is_compared_in_its_stored_form_and_causes_no_write_at_a_resync_or_at_a_restart(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a", "b")
    distributor.create("dns", included("a", "b"), a_policy("dns"))
    config = {"vocabularies": {"resource-distribution": MORE}, "resync": "1s"}
    first = stage.operator(config=config)
    distributor.until_counted("dns", 2, 2)
    live = stage.api.get(f"{POLICIES.format('a')}/dns")
    assert live["spec"]["ingress"] == [{"ports": [{"port": 53, "protocol": "TCP"}]}]
    tried = [event for event in stage.audit.events() if event.ours and event.dry_run]
    assert [(request.resource, request.namespace) for request in tried] == [("networkpolicies", "default")]
    mark = stage.audit.mark()
    never(lambda: distributor.writes(mark), 2.0)
    first.stop()
    stage.operator(config=config)
    never(lambda: distributor.writes(mark), 1.0)
    stage.api.patch(f"{POLICIES.format('b')}/dns", {"spec": {"ingress": []}})
    eventually(lambda: stage.api.get(f"{POLICIES.format('b')}/dns")["spec"] == live["spec"])


def test_a_resource_that_the_server_would_refuse_is_reported_and_changes_nothing(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a")
    distributor.create("odd", included("a"), a_policy("odd"))
    stage.operator(config={"vocabularies": {"resource-distribution": MORE}})
    distributor.until_counted("odd", 1, 1)
    mark = stage.audit.mark()
    distributor.change("odd", included("default"), a_policy("odd", policyTypes=["Sideways"]))
    distributor.until_condition("odd", "GetResourceFailed", "Invalid", ["default"])
    distributor.until_counted("odd", 1, 0)
    assert [event for event in distributor.writes(mark) if event.resource == "networkpolicies"] == []
    assert "policyTypes" in eventually(lambda: stage.events("default", "Invalid", "odd"))[0]["message"]


# Status


def test_the_status_has_exact_counts_the_generation_and_all_six_conditions_in_their_order(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a", "b")
    distributor.create("db", included("a", "b"))
    serve(stage)
    distributor.until_counted("db", 2, 2)
    status = distributor.status("db")
    assert status["observedGeneration"] == distributor.get("db")["metadata"]["generation"]
    assert [condition["type"] for condition in status["conditions"]] == SIX
    for condition in status["conditions"]:
        assert set(condition) == {"type", "status", "reason", "lastTransitionTime"}
        assert (condition["status"], condition["reason"]) == ("False", "Succeeded")
    before = {condition["type"]: condition["lastTransitionTime"] for condition in status["conditions"]}
    distributor.change("db", included("a", "b"), a_secret(stringData={"key": "two"}))
    eventually(lambda: distributor.status("db")["observedGeneration"] == 2)
    assert {
        condition["type"]: condition["lastTransitionTime"] for condition in distributor.status("db")["conditions"]
    } == before


def test_the_status_is_written_once_per_settled_change(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a", "b")
    distributor.create("db", included("a", "b"))
    serve(stage)
    distributor.until_counted("db", 2, 2)
    mark = stage.audit.mark()
    distributor.change("db", resource=a_secret(stringData={"key": "two"}))
    eventually(lambda: distributor.status("db")["observedGeneration"] == 2)
    distributor.until("db", "a", "b")
    never(lambda: len(distributor.reports(mark)) > 1, 2.0)
    stage.annotate(f"{DISTRIBUTIONS}/db", {"note": "nothing that travels"})
    stage.api.patch(stage.path("a", "db"), {"metadata": {"labels": {"theirs": "1"}}})
    never(lambda: len(distributor.reports(mark)) > 1, SETTLED)


def test_an_edited_status_is_restored(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a")
    distributor.create("db", included("a"))
    serve(stage)
    distributor.until_counted("db", 1, 1)
    before = distributor.status("db")
    stage.api.patch(f"{DISTRIBUTIONS}/db/status", {"status": {"desired": 99, "failed": 98}})
    eventually(lambda: distributor.status("db") == before)


@pytest.mark.parametrize("there", [False, True])
def test_a_namespace_with_repeated_server_errors_is_reported_until_the_write_succeeds(
    stage: Stage, distributor: Distributor, tmp_path: Path, there: bool
) -> None:
    stage.namespace("a", "b")
    serve(stage)
    if there:
        distributor.create("db", included("a", "b"))
        distributor.until_counted("db", 2, 2)
    kind = "UpdateResourceFailed" if there else "CreateResourceFailed"
    with Webhook(stage, tmp_path, "breaks") as webhook:
        if there:
            distributor.change("db", resource=a_secret(stringData={"key": "two"}))
        else:
            distributor.create("db", included("a", "b"))
        distributor.until_condition("db", kind, "Refused", ["a"])
        distributor.until_counted("db", 2, 1)
        (event,) = eventually(lambda: stage.events("default", "Refused", "db"))
        assert "failed calling webhook" in event["message"]
        assert CANARY not in event["message"]
        never(lambda: distributor.condition("db", kind)["status"] != "True", 2.0)
        webhook.remove()
        distributor.until_counted("db", 2, 2)
    eventually(lambda: distributor.condition("db", kind)["status"] == "False")


# The definition


def test_kubectl_explains_every_field(stage: Stage) -> None:
    def explained(path: str, version: str = "v1beta1") -> str:
        return stage.explained(path, f"apps.kruise.io/{version}")

    assert "contains one object" in explained("distributor")
    assert "selects nothing" in explained("distributor.spec.targets.namespaceLabelSelector")
    assert "complete object that is copied" in explained("distributor.spec.resource")
    assert "says how many more" in explained("distributor.status.conditions.failedNamespaces")
    assert "says how many more" in explained("distributor.status.conditions.failedNamespace", "v1alpha1")


def test_the_columns_are_total_succeed_and_failed(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a")
    distributor.create("db", included("a", "zz"))
    serve(stage)
    distributor.until_counted("db", 2, 1)
    for version in ("v1beta1", "v1alpha1"):
        shown = stage.cluster.kubectl("get", f"resourcedistributions.{version}.apps.kruise.io").strip()
        assert [line.split() for line in shown.splitlines()] == [
            ["NAME", "TOTAL", "SUCCEED", "FAILED"],
            ["db", "2", "1", "1"],
        ]
    assert stage.cluster.kubectl("get", "distributor", "-o", "name").split() == [
        "resourcedistribution.apps.kruise.io/db"
    ]


def test_both_versions_can_be_written_and_read(stage: Stage, distributor: Distributor) -> None:
    stage.namespace("a")
    distributor.create("db", included("a", "zz"), version="v1alpha1")
    serve(stage)
    distributor.until("db", "a")
    distributor.until_counted("db", 2, 1)
    alpha, beta = distributor.get("db", "v1alpha1"), distributor.get("db")
    assert (alpha["spec"], alpha["metadata"]["uid"]) == (beta["spec"], beta["metadata"]["uid"])
    plain = [(condition["type"], condition["status"]) for condition in beta["status"]["conditions"]]
    assert [(condition["type"], condition["status"]) for condition in alpha["status"]["conditions"]] == plain
    # Without the conversion webhook the list of namespaces has a name in the stored version only.
    assert beta["status"]["conditions"][-1]["failedNamespaces"] == ["zz"]
    assert not [
        condition
        for condition in alpha["status"]["conditions"]
        if set(condition) & {"failedNamespace", "failedNamespaces"}
    ]


def test_a_resource_without_kind_or_targets_is_refused_by_the_definition_itself(
    stage: Stage, distributor: Distributor
) -> None:
    with pytest.raises(ApiFault, match=r"spec\.resource"):
        distributor.create("db", {}, {"apiVersion": "v1", "metadata": {"name": "db"}})
    with pytest.raises(ApiFault, match=r"spec\.targets"):
        stage.api.create(
            DISTRIBUTIONS,
            {
                "apiVersion": "apps.kruise.io/v1beta1",
                "kind": "ResourceDistribution",
                "metadata": {"name": "db"},
                "spec": {"resource": a_secret()},
            },
        )


def test_a_deleted_definition_deletes_the_copies_and_a_restored_one_is_served_again(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a")
    distributor.create("db", included("a"))
    operator = serve(stage)
    distributor.until("db", "a")
    stage.api.delete(f"{DEFINITIONS}/{DEFINITION}")
    eventually(lambda: stage.api.find(f"{DEFINITIONS}/{DEFINITION}") is None)
    distributor.until_gone("db", "a", deadline=COLLECTED)
    stage.source("other", "a")
    stage.until_copied("other", "a")  # the other vocabulary is served all the time
    define(stage.cluster, stage.api, crds.text(DEFINITION))
    distributor.create("db", included("a"))
    eventually(lambda: distributor.copy("a", "db"), COLLECTED)
    assert operator.running


def test_a_lease_of_the_original_that_a_tenant_made_stops_nothing(stage: Stage) -> None:
    """Everybody with `edit` in a namespace can write a Lease there. No account there may write distributions."""
    stage.namespace("tenant", "a")
    leases = "/apis/coordination.k8s.io/v1/namespaces/tenant/leases"
    renewed = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": "kruise-manager-0", "leaseDurationSeconds": 3600, "renewTime": renewed}
    stage.api.create(leases, {"metadata": {"name": "kruise-manager"}, "spec": spec})
    stage.also_remove(f"{leases}/kruise-manager")
    distributor, operator = Distributor(stage), serve(stage)
    distributor.create("ca", included("a"))
    distributor.until("ca", "a")
    assert "original.not-believed" in operator.log
