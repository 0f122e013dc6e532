"""Without --config, settings that an administrator installed come first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Shell
from tests.cluster.support.stage import Stage

pytestmark = pytest.mark.cluster

LABELS = {"app.kubernetes.io/name": "samara"}
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
FORGED = "vocabularies: {secret-copy: {home: aaa}}\nmassDelete: null\n"


def settings(stage: Stage, namespace: str, text: str) -> None:
    """A ConfigMap with our label, as every tenant can create one."""
    stage.namespace(namespace)
    body = {"metadata": {"name": "samara", "labels": LABELS}, "data": {"config.yaml": text}}
    stage.api.create(f"/api/v1/namespaces/{namespace}/configmaps", body)


@pytest.fixture
def bound(stage: Stage) -> Iterator[str]:
    """A namespace whose ServiceAccount has rights in the whole cluster, as an installation gives them."""
    role = {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"}
    subject = {"kind": "ServiceAccount", "name": "samara", "namespace": "ops"}
    body = {"metadata": {"name": "ops-samara", "labels": LABELS}, "roleRef": role, "subjects": [subject]}
    stage.api.create(BINDINGS, body)
    yield "ops"
    stage.api.gone(f"{BINDINGS}/ops-samara")


def copied(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    operator = stage.operator()
    stage.until_copied("db", "a")
    operator.stop()


def test_settings_of_an_administrator_come_before_those_of_a_tenant(stage: Stage, shell: Shell, bound: str) -> None:
    settings(stage, "aaa", FORGED)
    settings(stage, bound, "vocabularies: {secret-copy: {}}")
    done = shell("status")
    assert "settings: from ConfigMap ops/samara" in done.err
    assert "found more than one ConfigMap with settings (aaa/samara, ops/samara)" in done.err
    for command in ("status", "plan"):
        assert "settings: from ConfigMap ops/samara" in shell(command, "-n", "aaa").err, "-n selects objects"
        assert "settings: from ConfigMap aaa/samara" in shell(command, "-A", "-n", "aaa").err, "-n can only mean them"


def test_nothing_is_deleted_by_the_settings_of_a_tenant(stage: Stage, shell: Shell) -> None:
    copied(stage)
    settings(stage, "aaa", FORGED)
    (orphan,) = shell("orphans", "-o", "json").json["orphans"]
    assert orphan["namespace"] == "a"
    for command in (("orphans", "--delete", "--yes"), ("uninstall", "--copies", "--yes")):
        done = shell(*command)
        assert done.code == 1
        assert "expected settings that an administrator has written, found ConfigMap aaa/samara" in done.err
    assert stage.secret("a", "db") is not None


@pytest.mark.parametrize("command", ["rbac", "manifests"])
def test_rights_are_never_printed_for_the_namespace_of_a_tenant(stage: Stage, shell: Shell, command: str) -> None:
    settings(stage, "aaa", FORGED)
    printed: list[dict[str, Any]] = list(yaml.safe_load_all(shell(command).out))
    namespaces = {subject["namespace"] for manifest in printed for subject in manifest.get("subjects") or ()}
    assert namespaces == {"samara"}


def test_installation_is_found_in_its_namespace(stage: Stage, shell: Shell, bound: str) -> None:
    settings(stage, bound, "vocabularies: {secret-copy: {}}")
    printed: list[dict[str, Any]] = list(yaml.safe_load_all(shell("rbac").out))
    namespaces = {subject["namespace"] for manifest in printed for subject in manifest.get("subjects") or ()}
    assert namespaces == {"ops"}
