"""Watched kinds with fields that belong to each object: service accounts, services and claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.stage import Stage
from tests.cluster.support.trees import CONFIG, FROM, PROPAGATE, SETTLED, Trees
from tests.cluster.support.waiting import eventually, never
from tests.cluster.test_accurate_rules import allow, rooted

pytestmark = [
    pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only; trees have a judge of theirs"),
    pytest.mark.usefixtures("cleared"),
]

Json = dict[str, Any]
KINDS = {"serviceaccounts": "ServiceAccount", "services": "Service", "persistentvolumeclaims": "PersistentVolumeClaim"}
STORED = ("serviceaccounts", "services/specs", "services/endpoints", "persistentvolumeclaims")
SPACES = ("root", "web", "deep")


@pytest.fixture
def cleared(stage: Stage) -> Iterator[None]:
    """Removes the finalizer of claims, because no controller runs that would."""
    yield
    for operator in stage.operators:
        operator.stop()
    stage.forget(*(f"{kind}/{name}/" for kind in STORED for name in SPACES))


def path(plural: str, namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/{plural}/one"


def put(trees: Trees, plural: str, **body: Any) -> None:
    """A source at the top of a chain of three, and an operator that serves its kind."""
    rooted(trees, *SPACES)
    allow(trees.stage, "", plural)
    meta = {"name": "one", "annotations": {PROPAGATE: "update"}}
    trees.api.create(path(plural, "root").rpartition("/")[0], {"metadata": meta, **body})
    trees.serve(accurate={"watches": [{"version": "v1", "kind": KINDS[plural]}]})


def copy(trees: Trees, plural: str, namespace: str) -> Json:
    """Waits for the copy and returns it."""
    above = {"web": "root", "deep": "web"}[namespace]
    live = eventually(lambda: trees.api.find(path(plural, namespace))) or {}
    assert metadata_of(live)[FROM] == above
    return live


def test_5_1_a_service_account_is_propagated_with_its_pull_secrets_and_without_its_secrets(trees: Trees) -> None:
    pulls = [{"name": "registry"}]
    put(trees, "serviceaccounts", secrets=[{"name": "token"}], imagePullSecrets=pulls)
    for name in ("web", "deep"):
        account = copy(trees, "serviceaccounts", name)
        assert account["imagePullSecrets"] == pulls
        assert "secrets" not in account
    more = {"imagePullSecrets": [*pulls, {"name": "mirror"}], "secrets": [{"name": "other"}]}
    trees.api.patch(path("serviceaccounts", "root"), more)
    eventually(lambda: len(copy(trees, "serviceaccounts", "deep")["imagePullSecrets"]) == 2)
    assert "secrets" not in copy(trees, "serviceaccounts", "deep")
    trees.api.delete(path("serviceaccounts", "root"))
    eventually(lambda: not any(trees.api.find(path("serviceaccounts", name)) for name in ("web", "deep")))


def test_5_1_a_copied_service_account_gets_secrets_of_its_own(trees: Trees) -> None:
    """Another controller adds fields. They are not drift, and an update keeps them."""
    put(trees, "serviceaccounts", imagePullSecrets=[{"name": "registry"}])
    for name in ("web", "deep"):
        copy(trees, "serviceaccounts", name)
    own = [{"name": "own"}]
    mark = trees.stage.audit.mark()
    trees.api.patch(path("serviceaccounts", "web"), {"secrets": own})
    never(lambda: trees.sent(mark), SETTLED)
    trees.api.patch(path("serviceaccounts", "root"), {"imagePullSecrets": [{"name": "mirror"}]})
    eventually(lambda: copy(trees, "serviceaccounts", "deep")["imagePullSecrets"] == [{"name": "mirror"}])
    assert copy(trees, "serviceaccounts", "web")["secrets"] == own
    assert "secrets" not in copy(trees, "serviceaccounts", "deep")


@pytest.mark.parametrize("headless", [True, False])
def test_5_1_a_service_is_propagated_and_has_its_own_address_or_none(trees: Trees, headless: bool) -> None:
    spec = {"selector": {"app": "x"}, "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}
    put(trees, "services", spec={**spec, **({"clusterIP": "None"} if headless else {})})
    spaces = {name: copy(trees, "services", name)["spec"] for name in ("web", "deep")}
    assert all({**namespace, **spec} == namespace for namespace in spaces.values())
    addresses = {namespace["clusterIP"] for namespace in spaces.values()} | {
        trees.api.get(path("services", "root"))["spec"]["clusterIP"]
    }
    assert addresses == {"None"} if headless else len(addresses) == 3
    trees.api.patch(path("services", "root"), {"spec": {"selector": {"app": "y"}}})
    eventually(lambda: copy(trees, "services", "deep")["spec"]["selector"] == {"app": "y"})
    assert copy(trees, "services", "deep")["spec"]["clusterIP"] == spaces["deep"]["clusterIP"]
    trees.api.delete(path("services", "root"))
    eventually(lambda: not any(trees.api.find(path("services", name)) for name in ("web", "deep")))


def test_5_1_a_claim_is_propagated_without_its_bound_volume(trees: Trees) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
        "volumeMode": "Filesystem",
    }
    put(trees, "persistentvolumeclaims", spec={**spec, "volumeName": "of-root"})
    for name in ("web", "deep"):
        assert copy(trees, "persistentvolumeclaims", name)["spec"] == spec
    trees.api.patch(path("persistentvolumeclaims", "root"), {"metadata": {"labels": {"l": "1"}}})
    eventually(lambda: metadata_of(copy(trees, "persistentvolumeclaims", "deep"), "labels").get("l") == "1")


def test_fields_that_the_cluster_set_on_a_copy_stay_when_the_copy_is_repaired(trees: Trees, stage: Stage) -> None:
    rooted(trees, "root", "web")
    accounts, claims = "/api/v1/namespaces/{}/serviceaccounts", "/api/v1/namespaces/{}/persistentvolumeclaims"
    for plural in ("serviceaccounts", "persistentvolumeclaims"):
        allow(stage, "", plural)
    meta = {"name": "own", "annotations": {PROPAGATE: "update"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    stage.api.create(accounts.format("root"), {"metadata": meta, "imagePullSecrets": [{"name": "registry"}]})
    stage.api.create(claims.format("root"), {"metadata": meta, "spec": spec})
    kinds = ("ServiceAccount", "PersistentVolumeClaim")
    watches = [*CONFIG["watches"], *({"version": "v1", "kind": kind} for kind in kinds)]
    operator = trees.serve(accurate={"watches": watches})
    account, claim = f"{accounts.format('web')}/own", f"{claims.format('web')}/own"
    eventually(lambda: stage.api.find(account) and stage.api.find(claim))
    given = {"name": "own-dockercfg-x7k2p"}
    stage.api.patch(account, {"secrets": [given], "imagePullSecrets": [{"name": "registry"}, given]})
    stage.api.patch(claim, {"spec": {"volumeName": "pv-1"}})
    for root in (accounts, claims):
        stage.api.patch(f"{root.format('root')}/own", {"metadata": {"labels": {"colour": "red"}}})
    stage.api.patch(f"{accounts.format('root')}/own", {"imagePullSecrets": [{"name": "other"}]})

    def is_red(path: str) -> bool:
        return bool((stage.api.find(path) or {})["metadata"].get("labels", {}).get("colour") == "red")

    eventually(lambda: is_red(account) and is_red(claim))
    eventually(lambda: (stage.api.find(account) or {})["imagePullSecrets"] == [{"name": "other"}, given])
    assert (stage.api.find(account) or {})["secrets"] == [given]
    assert (stage.api.find(claim) or {})["spec"]["volumeName"] == "pv-1"
    assert "write.refused" not in operator.log
