"""Definitions installed before ours: of an older version, or without a field that ours has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from tests.cli.program import samara
from tests.cluster.support.definitions import CHANGED, undefine
from tests.cluster.support.fishy import CONFIG, FISHY, TEAM, manifest
from tests.cluster.support.fishy_folder import CANARY, Folder
from tests.cluster.support.granting import granted
from tests.cluster.support.operators import Operator
from tests.cluster.support.stage import OWN, USER, Stage, encoded
from tests.cluster.support.trees import CONFIG as TREES
from tests.cluster.support.waiting import eventually, never
from tests.cluster.test_faults_kinds import a_map, listed

from samara import crds
from samara.cli.deploy.rights import cluster_rules
from samara.core.vocabulary import VocabularySettings
from samara.settings import Settings
from samara.vocabularies.accurate import AccurateSettings
from samara.vocabularies.fishysecret import FishySecretSettings
from samara.vocabularies.resource_distribution import ResourceDistributionSettings
from samara.vocabularies.secret_copy import SecretCopySettings
from samara_devtools.devcluster import Devcluster

pytestmark = pytest.mark.oracle_off("O4", reason="it knows Secrets only; here each test counts its own writes")

Json = dict[str, Any]
SUB, DISTRIBUTION, SECRET = (
    "subnamespaces.accurate.cybozu.com",
    "resourcedistributions.apps.kruise.io",
    "fishysecrets.fishykeys.2v.pm",
)
DISTRIBUTIONS = "/apis/apps.kruise.io/v1beta1/resourcedistributions"
ALL: Json = {
    "secret-copy": {},
    "resource-distribution": {},
    "accurate": TREES,
    "fishysecret": {"refreshInterval": "1s"},
}
Install = Callable[[Json], None]


@pytest.fixture(scope="module", autouse=True)
def _rights(cluster: Devcluster) -> Iterator[None]:
    """Grants exactly the rights that `samara rbac` prints for these vocabularies."""
    served: dict[str, VocabularySettings] = {
        "secret-copy": SecretCopySettings(),
        "resource-distribution": ResourceDistributionSettings(),
        "accurate": AccurateSettings(config=TREES),
        "fishysecret": FishySecretSettings(),
    }
    rules = [rule.manifest() for rule in cluster_rules(Settings(served))]
    with granted(cluster, "older", rules, USER):
        yield


@pytest.fixture
def install(stage: Stage) -> Iterator[Install]:
    """Installs CRDs, after removing older ones of the same name. They are removed after the test."""
    names: set[str] = set()

    def installed(definition: Json) -> None:
        name = definition["metadata"]["name"]
        if name not in names:
            undefine(stage.cluster, stage.api, name)  # an earlier test may have left one
        names.add(name)
        stage.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=json.dumps(definition))
        spec = definition["spec"]
        for version in [version for version in spec["versions"] if version["served"]]:
            path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
            eventually(lambda where=path: stage.api.serves(where), CHANGED)  # type: ignore[misc]

    yield installed
    stage.end_processes()
    for name in names:
        undefine(stage.cluster, stage.api, name)


def ours(name: str) -> Json:
    definition: Json = yaml.safe_load(crds.text(name))
    return definition


def only(name: str, version: str) -> Json:
    """Our definition as it was when it had only this version."""
    older = ours(name)
    older["spec"]["versions"] = [entry for entry in older["spec"]["versions"] if entry["name"] == version]
    older["spec"]["versions"][0] |= {"served": True, "storage": True}
    return older


def without(name: str, *paths: str) -> Json:
    """Our definition before it had these fields."""
    older = ours(name)
    for version in older["spec"]["versions"]:
        for path in paths:
            *steps, last = path.split(".")
            schema = version["schema"]["openAPIV3Schema"]
            for step in steps:
                schema = schema["items"] if step == "[]" else schema["properties"][step]
            schema["properties"].pop(last, None)
    return older


def serve(stage: Stage, *names: str) -> Operator:
    return stage.operator(config={"vocabularies": {name: ALL[name] for name in ("secret-copy", *names)}})


def others_work(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.until_copied("db", "a")


def written(stage: Stage, resource: str, mark: int = 0) -> list[str]:
    return [str(event) for event in stage.audit.ours(mark) if event.mutating and event.resource == resource]


def needs(operator: Operator, kind: str, have: str, version: str) -> None:
    """Both the page and the log state the installed version, the required one and the remedy."""
    message = f"only in {have}, and {version} is needed"
    eventually(lambda: message in operator.waiting()[kind])  # first the error of the server, then its explanation
    assert "samara crds" in operator.waiting()[kind]
    eventually(lambda: message in operator.log)
    assert operator.log.count("watch.failed") == 1, "told once"


def test_sub_namespaces_of_the_first_version_wait_untouched_until_the_second_is_served(
    stage: Stage, install: Install
) -> None:
    install(only(SUB, "v1"))
    stage.api.create(
        "/api/v1/namespaces", {"metadata": {"name": "root", "labels": {"accurate.cybozu.com/type": "root"}}}
    )
    old = {"apiVersion": "accurate.cybozu.com/v1", "kind": "SubNamespace", "metadata": {"name": "web"}, "spec": {}}
    path = "/apis/accurate.cybozu.com/v1/namespaces/root/subnamespaces"
    before = stage.api.create(path, old)
    operator = serve(stage, "accurate")
    needs(operator, "accurate.cybozu.com/v2/SubNamespace", "v1", "v2")
    others_work(stage)
    never(lambda: written(stage, "subnamespaces") + written(stage, "namespaces"), 1.0)
    assert stage.api.get(f"{path}/web")["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    install(ours(SUB))
    eventually(lambda: not operator.waiting(), 30)
    eventually(lambda: stage.api.find("/api/v1/namespaces/web"))


def test_distributions_of_the_first_version_wait_untouched_until_the_second_is_served(
    stage: Stage, install: Install
) -> None:
    install(only(DISTRIBUTION, "v1alpha1"))
    stage.namespace("b")
    spec = {"resource": a_map("cm", {"k": "1"}), "targets": {"includedNamespaces": listed("b")}}
    head = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistribution"}
    path = DISTRIBUTIONS.replace("v1beta1", "v1alpha1")
    before = stage.api.create(path, {**head, "metadata": {"name": "old"}, "spec": spec})
    operator = serve(stage, "resource-distribution")
    needs(operator, "apps.kruise.io/v1beta1/ResourceDistribution", "v1alpha1", "v1beta1")
    others_work(stage)
    never(lambda: written(stage, "resourcedistributions") + written(stage, "configmaps"), 1.0)
    assert stage.api.get(f"{path}/old")["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    install(ours(DISTRIBUTION))
    eventually(lambda: not operator.waiting(), 30)
    eventually(lambda: stage.api.find("/api/v1/namespaces/b/configmaps/cm"))


def test_a_missing_definition_is_reported_and_the_others_are_served(stage: Stage) -> None:
    operator = serve(stage, "accurate", "resource-distribution", "fishysecret")
    kinds = {kind.rpartition("/")[2] for kind in operator.waiting()}
    assert kinds == {"SubNamespace", "ResourceDistribution", "FishySecret"}
    assert all("404" in why for why in operator.waiting().values())
    others_work(stage)
    settings = stage.folder / "served.yaml"
    served = {name: ALL[name] for name in ("secret-copy", "accurate", "resource-distribution", "fishysecret")}
    settings.write_text(json.dumps({"vocabularies": served}))
    config = (f"--config={settings}", f"--kubeconfig={stage.cluster.kubeconfig}", "-A", "-n", OWN)
    shown = samara("status", *config, "-o", "json")
    assert {entry["kind"].rpartition("/")[2] for entry in shown.json["waiting"]} == kinds
    for done in (shown, samara("status", *config), samara("plan", *config)):
        assert done.code == 0
        assert "not served until its definition is installed: " in done.err
        assert all(f"no {kind}" in done.err for kind in kinds)
    settings.write_text(json.dumps({"vocabularies": {"secret-copy": {}}}))
    assert "definition" not in samara("status", *config).err


def fishy(stage: Stage) -> None:
    """A FishySecret, and the folder that it is read from."""
    folder = Folder(stage.folder / "manager")
    folder.put("a", CANARY)
    stage.namespace(TEAM)
    config = {"metadata": {"name": CONFIG}, "type": "Opaque", "data": encoded({"url": folder.url})}
    stage.api.create(f"/api/v1/namespaces/{OWN}/secrets", config)
    spec = {"target": {"name": "fishy", "namespace": TEAM}, "data": [{"secretKeyName": "A", "secretPath": "a"}]}
    stage.api.create(f"{FISHY}/namespaces/{TEAM}/fishysecrets", manifest("fishy", spec))


def test_a_fishysecret_definition_without_our_fields_is_reported_at_the_start_and_served_with_its_own_fields(
    stage: Stage, install: Install
) -> None:
    """The definition of the original has no refresh interval and no last synced time."""
    install(without(SECRET, "spec.refreshInterval", "spec.suspend", "status.lastSyncedTime"))
    fishy(stage)
    operator = serve(stage, "fishysecret")
    (line,) = [line for line in operator.log.splitlines() if "definition.older" in line]
    assert " warning " in line
    for hint in ("spec.refreshInterval", "spec.suspend", "status.lastSyncedTime", "samara crds"):
        assert hint in line
    assert operator.waiting() == {}
    eventually(lambda: stage.data(TEAM, "fishy") == {"A": CANARY})
    others_work(stage)
    mark = stage.audit.mark()
    never(lambda: len(written(stage, "fishysecrets", mark)) > 5, 4.0)


def test_a_distribution_definition_without_a_status_field_is_reported_and_not_written_in_a_loop(
    stage: Stage, install: Install
) -> None:
    fields = ("status.succeeded", *(f"status.conditions.[].{name}" for name in ("failedNamespaces", "message")))
    install(without(DISTRIBUTION, *fields))
    operator = serve(stage, "resource-distribution")
    assert "status.succeeded" in operator.log
    assert operator.waiting() == {}
    stage.namespace("b")
    spec = {"resource": a_map("cm", {"k": "1"}), "targets": {"includedNamespaces": listed("b", "nowhere")}}
    head = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution"}
    stage.api.create(DISTRIBUTIONS, {**head, "metadata": {"name": "cm"}, "spec": spec})
    eventually(lambda: stage.api.find("/api/v1/namespaces/b/configmaps/cm"))
    eventually(lambda: (stage.api.get(f"{DISTRIBUTIONS}/cm").get("status") or {}).get("desired") == 2)
    others_work(stage)
    mark = stage.audit.mark()
    never(lambda: written(stage, "resourcedistributions", mark), 3.0)


def test_our_own_definitions_are_not_reported_as_older(stage: Stage, install: Install) -> None:
    for name in crds.shipped():
        install(ours(name))
    operator = serve(stage, "accurate", "resource-distribution", "fishysecret")
    assert operator.waiting() == {}
    assert "definition.older" not in operator.log
