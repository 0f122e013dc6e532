"""`samara why` reads only what decides about one address, and answers as if it had read the whole cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Shell
from tests.cli.program import samara_inside
from tests.cluster.support import definitions
from tests.cluster.support.stage import Stage, encoded

from samara import crds
from samara.cli.commands import why
from samara.cli.inspect.cluster_plans import ClusterPlans, plan_one_address
from samara_devtools.devcluster import Devcluster

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
SETTINGS = {
    "vocabularies": {
        "secret-copy": {},
        "resource-distribution": {},
        "accurate": {"watches": [{"version": "v1", "kind": "Secret"}]},
        "fishysecret": {"paths": [{"namespaces": ["*"], "allow": ["*"]}]},
        "sync-to": {},
    }
}
NAMESPACES = ("shop", "team", "sub", "subsub", "off", "missing", "admin", "root")
NAMES = ("db", "cfg", "leaf", "former", "gone", "fishy", "earlier", "dist", "paused", "none")


@pytest.fixture
def every_vocabulary(cluster: Devcluster, stage: Stage) -> Iterator[Stage]:
    with ExitStack() as stack:
        for name in crds.shipped():
            stack.enter_context(definitions.defined(cluster, crds.text(name)))
        yield stage


def secret(stage: Stage, namespace: str, name: str, *, manager: str = "people", **metadata: dict[str, str]) -> None:
    """`manager="samara"` makes it a copy that the operator has written."""
    body = {"metadata": {"name": name, **metadata}, "data": encoded({"n": "1"})}
    stage.api.request("POST", f"/api/v1/namespaces/{namespace}/secrets", body, query={"fieldManager": manager})


def fill(stage: Stage) -> None:
    """Copies that are right, stale, missing, foreign and rival, of every vocabulary."""
    stage.namespace("shop", "team", "root")
    stage.namespace("off", samara_ignore="true")
    for child, labels in {
        "root": {"accurate.cybozu.com/type": "root"},
        "sub": {"accurate.cybozu.com/parent": "root"},
        "subsub": {"accurate.cybozu.com/parent": "sub"},
    }.items():
        body = {"metadata": {"name": child, "labels": labels}}
        if child == "root":
            stage.api.patch(f"/api/v1/namespaces/{child}", body)
        else:
            stage.api.create("/api/v1/namespaces", body)
    everywhere, here = {"openkruise.io/sync-to": "cluster"}, {"accurate.cybozu.com/propagate": "update"}

    def copied(origin: str) -> dict[str, dict[str, str]]:
        label = {"secret-copy/from": origin.replace("/", "-")}
        return {"labels": label, "annotations": {"secret-copy/origin": origin}}

    secret(stage, "admin", "db", annotations={"secret-copy/namespaces": ""})
    secret(stage, "team", "db", annotations=everywhere)
    secret(stage, "shop", "db")
    secret(stage, "subsub", "db", manager="samara", **copied("admin/db"))
    secret(stage, "root", "cfg", annotations=here)
    by = {"app.kubernetes.io/created-by": "accurate"}
    from_root = {"accurate.cybozu.com/from": "root", **here}
    secret(stage, "sub", "cfg", manager="samara", labels=by, annotations=from_root)
    secret(stage, "subsub", "leaf", annotations=here)
    secret(stage, "shop", "former", manager="samara", **copied("admin/former"))
    synced = {"openkruise.io/synced-from": "team/gone"}
    secret(stage, "shop", "gone", manager="samara", labels={"openkruise.io/synced-from": "x"}, annotations=synced)
    secret(stage, "admin", "paused", annotations={"samara.dev/paused": "true"})
    secret(stage, "shop", "paused", manager="samara", **copied("admin/paused"))
    owner = {"fishykeys.2v.pm/owner-name": "fs", "fishykeys.2v.pm/owner-namespace": "team"}
    secret(stage, "shop", "earlier", manager="samara", labels=owner)
    fishy = {
        "apiVersion": "fishykeys.2v.pm/v1alpha1",
        "kind": "FishySecret",
        "metadata": {"name": "fs", "finalizers": ["fishykeys.2v.pm/finalizer"]},
        "spec": {
            "target": {"name": "fishy", "namespace": "shop"},
            "data": [{"secretPath": "a/b", "secretKeyName": "n"}],
        },
    }
    stage.api.create("/apis/fishykeys.2v.pm/v1alpha1/namespaces/team/fishysecrets", fishy)
    distribution = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ResourceDistribution",
        "metadata": {"name": "rd"},
        "spec": {
            "resource": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "dist"}, "stringData": {"n": "1"}},
            "targets": {"includedNamespaces": {"list": [{"name": "shop"}, {"name": "missing"}]}},
        },
    }
    stage.api.create("/apis/apps.kruise.io/v1beta1/resourcedistributions", distribution)
    secret(stage, "shop", "dist")


def test_answers_are_those_of_the_whole_cluster(
    every_vocabulary: Stage, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(every_vocabulary)
    config = tmp_path / "settings.yaml"
    config.write_text(yaml.safe_dump(SETTINGS))
    narrow: list[bool] = []

    def answer(namespace: str, name: str) -> Json:
        kubeconfig = every_vocabulary.cluster.kubeconfig
        flags = ("-n", namespace, "-o", "json", f"--config={config}", f"--kubeconfig={kubeconfig}")
        done = samara_inside("why", f"secret/{name}", *flags)
        assert done.code == 0, done.err
        return done.json

    async def counted(*args: Any) -> ClusterPlans | None:
        plans = await plan_one_address(*args)
        narrow.append(plans is not None)
        return plans

    async def nothing(*args: Any) -> None:
        return None

    addresses = [(namespace, name) for namespace in NAMESPACES for name in NAMES]
    monkeypatch.setattr(why, "plan_one_address", counted)
    answers = {address: answer(*address) for address in addresses}
    monkeypatch.setattr(why, "plan_one_address", nothing)
    for address in addresses:
        assert answers[address] == answer(*address), address
    assert sum(narrow) >= len(addresses) - 3, "a deletion and little else needs the whole cluster"


def test_only_the_sources_the_object_and_its_namespace_are_read(stage: Stage, shell: Shell) -> None:
    stage.namespace("shop", "billing")
    stage.source("db", "")
    secret(stage, "billing", "other")
    mark = stage.audit.mark()
    assert shell("why", "secret/db", "-n", "shop", "-o", "json").json["wanted"]
    lists = [event for event in stage.audit.ours(mark) if event.verb == "list" and event.resource == "secrets"]
    assert lists
    assert all("fieldSelector=metadata.name%3Ddb" in event.uri for event in lists)
    assert not any(event.verb == "list" and event.resource == "namespaces" for event in stage.audit.ours(mark))


def test_of_a_source_only_its_namespaces_and_the_objects_of_its_name_are_read(stage: Stage, shell: Shell) -> None:
    stage.namespace("shop", "billing")
    stage.source("db", "")
    stage.source("other", "")
    mark = stage.audit.mark()
    (makes,) = shell("why", "secret/db", "-n", "admin", "-o", "json").json["makes"]
    assert makes["wanted"] == makes["pending"] >= 2
    requests = stage.audit.ours(mark)
    lists = [event.uri for event in requests if (event.verb, event.resource) == ("list", "secrets")]
    assert len(lists) == 1
    assert "fieldSelector=metadata.name%3Ddb" in lists[0]
    assert {event.resource for event in requests if event.verb == "list"} <= {"secrets", "namespaces", "configmaps"}
