"""`samara plan -f` shows all later writes of the operator and the removals that the brake would hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.program import Done, samara
from tests.cluster.support.audit import Event
from tests.cluster.support.fishy import Fishy
from tests.cluster.support.fishy import manifest as fishy_manifest
from tests.cluster.support.fishy_folder import CANARY
from tests.cluster.support.operators import Operator
from tests.cluster.support.stage import OWN, Stage, encoded
from tests.cluster.support.trees import GROUP, Trees
from tests.cluster.support.waiting import eventually
from tests.cluster.test_resource_distribution_rules import Distributor, a_secret
from tests.cluster.test_resource_distribution_rules import definition as definition
from tests.support.json_schema import check

pytestmark = pytest.mark.oracle_off(
    "O4", reason="it knows the rules of Secret copy only; here each test asserts its own"
)

Json = dict[str, Any]
Sent = set[tuple[str, str, str]]
PLURAL = {
    "v1/Secret": "secrets",
    "v1/Namespace": "namespaces",
    f"{GROUP}/v2/SubNamespace": "subnamespaces",
    "fishykeys.2v.pm/v1alpha1/FishySecret": "fishysecrets",
    "apps.kruise.io/v1beta1/ResourceDistribution": "resourcedistributions",
}
REQUEST = {"create": "create", "update": "update", "delete": "delete", "overlay": "patch", "guard": "patch"}
"""The verb of the request, by the verb of a plan. A report is a patch of the status."""


def plan(stage: Stage, config: Json, *manifests: Json) -> Json:
    file, settings = stage.folder / "laid.yaml", stage.folder / "plan-settings.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    settings.write_text(yaml.safe_dump(config))
    files = ("-f", file) if manifests else ()
    done = ask(stage, "plan", *files, f"--config={settings}", "-o", "json")
    assert done.code == 0, done.err
    check("plan", done.json)
    return done.json


def ask(stage: Stage, *args: str | Path) -> Done:
    return samara(*args, f"--kubeconfig={stage.cluster.kubeconfig}", "-A", "-n", OWN)


def planned(answer: Json) -> Sent:
    def request(write: Json) -> tuple[str, str, str]:
        place = "/".join(part for part in (write["namespace"], write["name"]) if part)
        if write["verb"] == "report":
            return "patch", f"{PLURAL[write['kind']]}/status", place
        return REQUEST[write["verb"]], PLURAL[write["kind"]], place

    return set(map(request, answer["writes"]))


def sent(stage: Stage, mark: int) -> Sent:
    """A status may be written more than once while work continues."""

    def request(event: Event) -> tuple[str, str, str]:
        namespace, name = event.address
        resource = f"{event.resource}/{event.subresource}" if event.subresource else event.resource
        is_cluster_scoped = event.resource in ("namespaces", "resourcedistributions")
        return event.verb, resource, name if is_cluster_scoped or not namespace else f"{namespace}/{name}"

    apart = ("events", "leases", "selfsubjectaccessreviews", "subjectaccessreviews", "configmaps")
    ours = [event for event in stage.audit.since(mark) if event.ours and event.mutating and not event.dry_run]
    return {request(event) for event in ours if event.resource not in apart}


def verbs(answer: Json) -> list[str]:
    return [write["verb"] for write in answer["writes"]]


# The plan equals the writes


def test_the_plan_of_a_sub_namespace_equals_its_writes(trees: Trees, stage: Stage) -> None:
    trees.root(team="a")
    trees.put("root", "db")
    names = ("web", "shop")
    new: list[Json] = [
        {"apiVersion": f"{GROUP}/v2", "kind": "SubNamespace", "metadata": {"name": name, "namespace": "root"}}
        for name in names
    ]
    config = json.loads(trees.settings().read_text())
    answer = plan(stage, config, *new)
    assert [write["verb"] for write in answer["writes"] if write["source"] == "root/web"] == [
        "guard",
        "create",
        "report",
    ]
    mark = stage.audit.mark()
    stage.cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(new))
    trees.serve()
    for name in names:
        trees.until_well(name, "root")
        trees.until_copied("db", "root", name)
        eventually(lambda name=name: trees.labels(name).get("team") == "a")  # type: ignore[misc]
    assert planned(answer) == {
        request
        for name in names
        for request in (
            ("patch", "subnamespaces", f"root/{name}"),
            ("create", "namespaces", name),
            ("patch", "namespaces", name),
            ("create", "secrets", f"{name}/db"),
            ("patch", "subnamespaces/status", f"root/{name}"),
        )
    }
    eventually(lambda: sent(stage, mark) >= planned(answer))
    assert sent(stage, mark) == planned(answer)
    assert plan(stage, config)["writes"] == []


def test_the_plan_of_a_fishysecret_equals_its_writes(fishy: Fishy, stage: Stage) -> None:
    fishy.put("app/password", f"{CANARY}-1")
    fishy.configure()
    body = fishy_manifest("db", wanting("app/password"))
    answer = plan(stage, {"vocabularies": {"fishysecret": {}}}, body)
    assert verbs(answer) == ["guard", "create", "report"]
    assert answer["blocked"] == []
    mark = stage.audit.mark()
    stage.cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump(body))
    fishy.serve()
    fishy.until("db")
    eventually(lambda: sent(stage, mark) >= planned(answer))
    assert sent(stage, mark) == planned(answer)
    assert planned(answer) == {
        ("patch", "fishysecrets", "team/db"),
        ("create", "secrets", "target/db"),
        ("patch", "fishysecrets/status", "team/db"),
    }


def wanting(path: str) -> Json:
    data = [{"secretKeyName": "password", "secretPath": path}]
    return {"target": {"name": "db", "namespace": "target"}, "data": data}


def test_the_plan_of_a_new_fishysecret_reports_its_conflict_and_its_finalizer(fishy: Fishy, stage: Stage) -> None:
    fishy.put("app/password", f"{CANARY}-1")
    fishy.configure()
    stage.foreign("target", "db")
    planned = plan(stage, {"vocabularies": {"fishysecret": {}}}, fishy_manifest("db", wanting("app/password")))
    assert verbs(planned) == ["guard", "report"]
    conflicts = [
        (blocked_copy["namespace"], blocked_copy["name"], blocked_copy["reason"]) for blocked_copy in planned["blocked"]
    ]
    assert conflicts == [("target", "db", "conflict")]


def test_the_plan_of_a_distribution_equals_its_writes(stage: Stage) -> None:
    stage.namespace("a", "b")
    targets = {"includedNamespaces": {"list": [{"name": "a"}, {"name": "b"}, {"name": "later"}]}}
    body = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ResourceDistribution",
        "metadata": {"name": "db"},
        "spec": {"resource": a_secret("db"), "targets": targets},
    }
    config: Json = {"vocabularies": {"resource-distribution": {"kinds": ["v1/Secret"]}}}
    answer = plan(stage, config, body)
    assert verbs(answer) == ["create", "create", "report"]
    assert [(blocked_copy["namespace"], blocked_copy["reason"]) for blocked_copy in answer["blocked"]] == [
        ("later", "no-namespace")
    ]
    mark = stage.audit.mark()
    stage.also_remove("/apis/apps.kruise.io/v1beta1/resourcedistributions/db")
    stage.cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump(body))
    stage.operator(config=config)
    Distributor(stage).until_counted("db", 3, 2)
    eventually(lambda: sent(stage, mark) >= planned(answer))
    assert sent(stage, mark) == planned(answer)


def test_a_finalizer_that_our_webhook_sets_is_not_planned(trees: Trees, stage: Stage) -> None:
    trees.root()
    rule = {"apiGroups": [GROUP], "apiVersions": ["v2"], "resources": ["subnamespaces"], "operations": ["CREATE"]}
    hook = {
        "name": "changes.samara.dev",
        "rules": [rule],
        "clientConfig": {"url": "https://127.0.0.1:1/mutate"},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    labels = {"app.kubernetes.io/name": "samara"}
    new = {"apiVersion": f"{GROUP}/v2", "kind": "SubNamespace", "metadata": {"name": "web", "namespace": "root"}}
    config = json.loads(trees.settings().read_text())
    assert "guard" in verbs(plan(stage, config, new))
    stage.also_remove(f"{hooks}/planned")
    stage.api.create(hooks, {"metadata": {"name": "planned", "labels": labels}, "webhooks": [hook]})
    assert verbs(plan(stage, config, new)) == ["create", "report", "overlay"]


def test_a_chain_of_copies_is_planned_completely(trees: Trees, stage: Stage) -> None:
    trees.root()
    for above, name in (("root", "a"), ("a", "b"), ("b", "c")):
        trees.hang(name, above)
    trees.put("root", "db", data=encoded({"k": "1"}))
    planned = plan(stage, json.loads(trees.settings().read_text()))
    created = [(write["namespace"], write["source"]) for write in planned["writes"] if write["verb"] == "create"]
    assert created == [("a", "root/db"), ("b", "a/db"), ("c", "b/db")]


# The brake of the namespaces


def grown(trees: Trees, *names: str) -> Operator:
    """Sub-namespaces in order, and their operator."""
    trees.root()
    for name in names:
        trees.ask(name, "root")
    operator = trees.serve()
    for name in names:
        trees.until_well(name, "root")
    return operator


def let_go(trees: Trees, *names: str) -> None:
    for name in names:
        trees.api.delete(trees.path("subnamespaces", "root", name))


def settings(trees: Trees, **more: Any) -> Json:
    return {**json.loads(trees.settings().read_text()), **more}


def test_namespaces_beyond_the_limit_of_the_brake_are_held(trees: Trees, stage: Stage) -> None:
    names = [f"web{number}" for number in range(5)]
    grown(trees, *names).stop()
    let_go(trees, *names)
    planned = plan(stage, settings(trees))
    deleted = [write["name"] for write in planned["writes"] if write["verb"] == "delete"]
    held = [(blocked_copy["kind"], blocked_copy["name"], blocked_copy["reason"]) for blocked_copy in planned["blocked"]]
    assert deleted == names[:3]
    assert held == [("v1/Namespace", name, "held") for name in names[3:]]
    assert f"samara release accurate/SubNamespace/root/{names[3]}" in planned["blocked"][0]["message"]
    freed = plan(stage, settings(trees, massDelete={"namespaces": 5}))
    assert (freed["summary"]["delete"], freed["blocked"]) == (5, [])


def test_namespaces_that_the_operator_deleted_recently_count(trees: Trees, stage: Stage) -> None:
    names = [f"web{number}" for number in range(4)]
    operator = grown(trees, *names)
    let_go(trees, *names[:3])
    eventually(lambda: all(trees.sub_namespace(name, "root") is None for name in names[:3]))
    operator.stop()
    let_go(trees, names[3])
    planned = plan(stage, settings(trees))
    assert [(blocked_copy["name"], blocked_copy["reason"]) for blocked_copy in planned["blocked"]] == [
        (names[3], "held")
    ]
    assert planned["summary"]["delete"] == 0


def test_the_deletion_of_a_sub_namespace_is_planned_including_its_finalizer(trees: Trees, stage: Stage) -> None:
    grown(trees, "web").stop()
    let_go(trees, "web")
    planned = plan(stage, settings(trees))
    assert [(write["verb"], write["name"]) for write in planned["writes"]] == [("delete", "web"), ("guard", "web")]
