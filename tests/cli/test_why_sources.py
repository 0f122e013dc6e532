"""`samara why` of a source says what it makes, and of a Namespace what comes into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Shell
from tests.cluster.support import definitions
from tests.cluster.support.stage import Stage
from tests.support.json_schema import check

from samara import crds
from samara_devtools.devcluster import Devcluster

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
SETTINGS: Json = {"vocabularies": {"secret-copy": {}, "resource-distribution": {}, "accurate": {}, "fishysecret": {}}}


@pytest.fixture
def defined(cluster: Devcluster, stage: Stage) -> Iterator[Stage]:
    with ExitStack() as stack:
        for name in crds.shipped():
            stack.enter_context(definitions.defined(cluster, crds.text(name)))
        yield stage


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump(SETTINGS))
    return file


def why(shell: Shell, what: str, *flags: str) -> Json:
    done = shell("why", what, "-o", "json", *flags)
    assert done.code == 0, done.err
    check("why", done.json)
    return done.json


def distribute(stage: Stage, *namespaces: str) -> None:
    resource = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "proxy"}, "data": {"a": "b"}}
    targets = {"includedNamespaces": {"list": [{"name": name} for name in namespaces]}}
    create(stage, "apps.kruise.io/v1beta1", "ResourceDistribution", "settings", resource=resource, targets=targets)


def create(stage: Stage, api_version: str, kind: str, name: str, namespace: str = "", **spec: Any) -> None:
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
    where = f"namespaces/{namespace}/" if namespace else ""
    stage.api.create(f"/apis/{api_version}/{where}{kind.lower()}s", body)


def test_a_resource_distribution_says_what_it_makes(defined: Stage, shell: Shell, config: Path) -> None:
    defined.namespace("shop", "billing")
    distribute(defined, "shop", "billing", "later")
    answer = why(shell, "resourcedistribution/settings", f"--config={config}")
    (makes,) = answer["makes"]
    assert answer["present"]
    assert [makes[name] for name in ("vocabulary", "wanted", "right", "pending", "blocked")] == [
        "resource-distribution",
        3,
        0,
        2,
        1,
    ]
    assert makes["sample"] == ["ConfigMap billing/proxy", "ConfigMap later/proxy", "ConfigMap shop/proxy"]
    text = shell("why", "distributor/settings", f"--config={config}").out
    assert "ResourceDistribution settings is there; it is a source." in text
    assert "makes ConfigMap billing/proxy, ConfigMap later/proxy, ConfigMap shop/proxy: 3 wanted, 0 right" in text
    assert "no-namespace (1): later" in text


def test_a_sub_namespace_and_a_fishy_secret_say_what_they_make_before_they_have_a_finalizer(
    defined: Stage, shell: Shell, config: Path
) -> None:
    defined.api.create(
        "/api/v1/namespaces", {"metadata": {"name": "a", "labels": {"accurate.cybozu.com/type": "root"}}}
    )
    create(defined, "accurate.cybozu.com/v2", "SubNamespace", "a-shop", "a")
    (makes,) = why(shell, "subnamespace/a-shop", "-n", "a", f"--config={config}")["makes"]
    assert (makes["wanted"], makes["pending"], makes["sample"]) == (1, 1, ["Namespace a-shop"])
    data, target = [{"secretPath": "a/b", "secretKeyName": "n"}], {"name": "db", "namespace": "a"}
    create(defined, "fishykeys.2v.pm/v1alpha1", "FishySecret", "db", "a", target=target, data=data)
    (makes,) = why(shell, "fishysecret/db", "-n", "a", f"--config={config}")["makes"]
    assert (makes["wanted"], makes["sample"]) == (1, ["Secret a/db"])


def test_an_annotated_source_says_what_it_makes(stage: Stage, shell: Shell) -> None:
    stage.namespace("shop", "billing")
    stage.source("db", "shop,billing")
    stage.foreign("billing", "db")
    (makes,) = why(shell, "secret/db", "-n", "admin")["makes"]
    assert (makes["wanted"], makes["pending"], makes["blocked"]) == (2, 1, 1)
    assert makes["reasons"] == [{"reason": "conflict", "count": 1, "sample": ["billing"]}]


def test_an_object_that_is_no_source_makes_nothing(stage: Stage, shell: Shell) -> None:
    stage.namespace("shop")
    stage.source("db", "shop")
    assert "makes" not in why(shell, "secret/db", "-n", "shop")


def test_a_namespace_says_what_comes_into_it(stage: Stage, shell: Shell) -> None:
    stage.namespace("shop")
    stage.source("db", "shop")
    stage.source("taken", "shop")
    stage.foreign("shop", "taken")
    stage.source("elsewhere", "billing")
    answer = why(shell, "ns/shop")
    found = [(entry["source"], entry["name"], entry["state"], entry["reason"]) for entry in answer["incoming"]]
    assert found == [
        ("Secret admin/taken", "taken", "blocked", "conflict"),
        ("Secret admin/db", "db", "pending", None),
    ]
    text = shell("why", "namespace/shop").out
    assert "pending: Secret db, secret-copy from Secret admin/db: to create: wanted here and absent" in text


def test_a_namespace_that_is_no_target_of_all_says_why(stage: Stage, shell: Shell) -> None:
    stage.namespace("shop", samara_ignore="true")
    stage.source("db", "")
    (entry,) = why(shell, "ns/shop")["incoming"]
    assert (entry["state"], "samara.dev/ignore" in entry["message"]) == ("excluded", True)


def test_a_namespace_names_the_sources_in_it(stage: Stage, shell: Shell) -> None:
    stage.source("db", "shop")
    assert why(shell, "ns/admin")["sources"] == [{"vocabulary": "secret-copy", "source": "Secret admin/db"}]
    assert "Sources in it: secret-copy Secret admin/db" in shell("why", "ns/admin").out
