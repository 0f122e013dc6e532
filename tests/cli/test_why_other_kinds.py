"""`samara why` of a kind that no vocabulary in the settings uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Shell
from tests.cluster.support.granting import granted
from tests.cluster.support.stage import Stage
from tests.cluster.support.waiting import eventually
from tests.support.json_schema import check

from samara_devtools.devcluster import Devcluster

pytestmark = pytest.mark.cluster


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Settings that use only Secrets and Namespaces."""
    file = tmp_path / "settings.yaml"
    file.write_text("vocabularies: {secret-copy: {}}\n")
    return f"--config={file}"


def config_map(stage: Stage, name: str, **metadata: Any) -> None:
    stage.api.create("/api/v1/namespaces/shop/configmaps", {"metadata": {"name": name, **metadata}})


def test_the_answer_says_that_no_vocabulary_uses_the_kind(stage: Stage, shell: Shell, config: str) -> None:
    stage.namespace("shop")
    config_map(stage, "ca")
    answer = shell("why", "cm/ca", "-n", "shop", "-o", "json", config).json
    check("why", answer)
    assert (answer["present"], answer["wanted"], answer["answers"]) == (True, False, [])
    assert answer["note"] == "no vocabulary in the settings uses the kind ConfigMap; they use Namespace, Secret"
    assert "  No vocabulary in the settings uses the kind ConfigMap" in shell("why", "cm/ca", "-n", "shop", config).out


def test_keys_of_ours_on_such_an_object_are_reported(stage: Stage, shell: Shell, config: str) -> None:
    stage.namespace("shop")
    config_map(stage, "ca", annotations={"secret-copy/namespaces": "a"}, labels={"samara.dev/pause": "true"})
    answer = shell("why", "configmap/ca", "-n", "shop", "-o", "json", config).json
    check("why", answer)
    assert [(miss["key"], miss["expected"].partition(":")[0]) for miss in answer["nearMisses"]] == [
        ("samara.dev/pause", "samara.dev/paused"),
        ("secret-copy/namespaces", "the kind Secret"),
    ]


def test_marks_from_other_settings_are_named(stage: Stage, shell: Shell, config: str) -> None:
    stage.namespace("shop")
    config_map(stage, "ca", annotations={"openkruise.io/synced-from": "team/ca"})
    (answer,) = shell("why", "configmap/ca", "-n", "shop", "-o", "json", config).json["answers"]
    assert (answer["vocabulary"], answer["source"], answer["wanted"]) == ("sync-to", "team/ca", False)


def test_a_missing_object_of_such_a_kind_gets_a_suggestion(stage: Stage, shell: Shell, config: str) -> None:
    stage.namespace("shop")
    config_map(stage, "company-ca")
    done = shell("why", "configmap/compnay-ca", "-n", "shop", config)
    assert "ConfigMap compnay-ca in namespace shop is not there" in done.out
    assert done.err.endswith("there is no ConfigMap shop/compnay-ca; did you mean 'company-ca'?\n")


@pytest.mark.parametrize("kind", ["clusterrole", "clusterroles.rbac.authorization.k8s.io"])
def test_a_kind_without_a_namespace_is_answered(stage: Stage, shell: Shell, config: str, kind: str) -> None:
    answer = shell("why", kind, "view", "-o", "json", config).json
    assert (answer["object"]["namespace"], answer["present"]) == ("", True)


def test_such_a_kind_and_one_that_is_used_are_answered_together(stage: Stage, shell: Shell, config: str) -> None:
    stage.namespace("shop")
    config_map(stage, "db")
    stage.source("db", "shop")
    answers = shell("why", "secret,configmap", "db", "-n", "shop", "-o", "json", config).json["items"]
    assert [(answer["wanted"], "note" in answer) for answer in answers] == [(True, False), (False, True)]


def test_a_misspelt_kind_of_the_cluster_is_wrong_usage_that_names_it(stage: Stage, shell: Shell, config: str) -> None:
    done = shell("why", "confgimap/ca", config)
    assert done.code == 2
    assert done.err.splitlines()[-1].endswith("found 'confgimap'; did you mean 'configmap'?")


def test_without_the_right_to_read_the_object_the_answer_says_so(
    stage: Stage, cluster: Devcluster, config: str
) -> None:
    stage.namespace("shop")
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]}]
    with granted(cluster, "lists-namespaces", rules, "tenant"):
        tenant = Shell(stage.kubeconfig("tenant"))
        answer = eventually(lambda: tenant("why", "cm/ca", "-n", "shop", "-o", "json", config).json)
    check("why", answer)
    assert answer["present"] is None
