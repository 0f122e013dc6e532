"""Copies whose sources the caller may not list are neither orphans nor deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Shell
from tests.cluster.support.definitions import defined
from tests.cluster.support.granting import granted
from tests.cluster.support.stage import OWN, USER, Stage
from tests.cluster.support.waiting import eventually

from samara import crds
from samara_devtools.devcluster import Devcluster

pytestmark = pytest.mark.cluster

VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]
DISTRIBUTION = "resourcedistributions.apps.kruise.io"
DISTRIBUTIONS = "/apis/apps.kruise.io/v1beta1/resourcedistributions"
KIND = "apps.kruise.io/v1beta1/ResourceDistribution"
READER = "carl"
"""May do all with ConfigMaps, Secrets and Namespaces, and nothing with ResourceDistributions."""


def rules(**resources: list[str]) -> list[dict[str, Any]]:
    return [{"apiGroups": [group], "resources": names, "verbs": VERBS} for group, names in resources.items()]


@pytest.fixture(scope="module", autouse=True)
def _kinds_and_rights(cluster: Devcluster) -> Iterator[None]:
    core = {"": ["namespaces", "secrets", "configmaps"]}
    own = {
        "": ["configmaps"],
        "apps.kruise.io": ["resourcedistributions", "resourcedistributions/status"],
        "apiextensions.k8s.io": ["customresourcedefinitions"],
    }
    besides = {
        "admissionregistration.k8s.io": ["*"],
        "apiextensions.k8s.io": ["customresourcedefinitions"],
        "apps": ["deployments"],
        "coordination.k8s.io": ["leases"],
    }
    with (
        defined(cluster, crds.text(DISTRIBUTION)),
        granted(cluster, "distributes", rules(**own), USER),
        granted(cluster, "reads-no-distributions", rules(**core, **besides), READER),
    ):
        yield


def config_map(stage: Stage, namespace: str) -> dict[str, Any] | None:
    return stage.api.find(f"/api/v1/namespaces/{namespace}/configmaps/ca")


@pytest.fixture
def config(stage: Stage, tmp_path: Path) -> str:
    """A distribution whose copies are in two namespaces, and the settings by which they were made."""
    stage.namespace("a", "b")
    resource = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {"k": "v"}}
    targets = {"includedNamespaces": {"list": [{"name": "a"}, {"name": "b"}]}}
    stage.also_remove(f"{DISTRIBUTIONS}/ca")
    body = {"metadata": {"name": "ca"}, "spec": {"resource": resource, "targets": targets}}
    stage.api.create(DISTRIBUTIONS, {"apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution", **body})
    operator = stage.operator(config={"vocabularies": {"resource-distribution": {}}})
    eventually(lambda: config_map(stage, "a") and config_map(stage, "b"))
    operator.stop()
    return settings(tmp_path, "resource-distribution")


def settings(folder: Path, vocabulary: str) -> str:
    file = folder / f"{vocabulary}.yaml"
    file.write_text(yaml.safe_dump({"vocabularies": {vocabulary: {}}}))
    return f"--config={file}"


def test_operator_4_6_copies_whose_sources_could_not_be_listed_are_no_orphans(
    stage: Stage, shell: Shell, config: str
) -> None:
    done = shell("orphans", "-o", "json", config, f"--as={READER}")
    assert done.json == {"orphans": []}
    (line,) = [line for line in done.err.splitlines() if "whether a source wants them" in line]
    assert line.startswith("samara: 2 copies left out: ")
    assert KIND in line
    assert "whether a source wants them" not in shell("orphans", config).err
    assert "whether a source wants them" not in shell("orphans", config, f"--as={READER}", "-n", "default").err


def test_operator_4_6_copies_whose_sources_could_not_be_listed_are_not_deleted(
    stage: Stage, shell: Shell, config: str
) -> None:
    done = shell("orphans", "--delete", "--yes", config, f"--as={READER}")
    assert done.code == 0, done.err
    assert "0 orphans to remove" in done.err
    assert all(config_map(stage, namespace) is not None for namespace in ("a", "b"))


def test_copy_without_its_owner_reference_is_not_deleted(stage: Stage, shell: Shell, config: str) -> None:
    path = "/api/v1/namespaces/a/configmaps/ca"
    stage.api.patch(path, {"metadata": {"ownerReferences": None}})
    shell("orphans", "--delete", "--yes", config, f"--as={READER}")
    assert config_map(stage, "a") is not None


def test_copy_of_a_vocabulary_outside_the_settings_is_an_orphan_even_if_its_source_may_not_be_read(
    stage: Stage, shell: Shell, config: str, tmp_path: Path
) -> None:
    orphans = shell("orphans", "-o", "json", settings(tmp_path, "secret-copy"), f"--as={READER}").json["orphans"]
    assert [orphan["namespace"] for orphan in orphans] == ["a", "b"]


def test_uninstall_deletes_no_copies_while_it_may_not_list_their_sources(
    stage: Stage, shell: Shell, config: str
) -> None:
    done = shell("uninstall", "-n", OWN, "--copies", "--yes", config, f"--as={READER}")
    assert done.code == 1
    assert "resourcedistributions" in done.err.splitlines()[-1]
    assert all(config_map(stage, namespace) is not None for namespace in ("a", "b"))


# why


def why(shell: Shell, what: str, namespace: str, *flags: str) -> dict[str, Any]:
    done = shell("why", what, "-n", namespace, "-o", "json", f"--as={READER}", *flags)
    assert done.code == 0, done.err
    return done.json


def test_operator_1_why_answers_from_marks_if_the_source_may_not_be_read(
    stage: Stage, shell: Shell, config: str
) -> None:
    answer_json = why(shell, "cm/ca", "a", config)
    assert (answer_json["present"], answer_json["wanted"]) == (True, None)
    (answer,) = answer_json["answers"]
    assert (answer["vocabulary"], answer["source"], answer["wanted"]) == ("resource-distribution", "ca", None)
    assert "its marks name ResourceDistribution ca as its source; Samara set them" in answer["rule"]
    assert "events" in answer_json
    assert "resourcedistributions" in answer_json["unread"][0]
    done = shell("why", "cm/ca", "-n", "a", f"--as={READER}", config)
    assert "its sources could not be read" in done.out
    assert "gone" not in done.out
    assert "could not be read: the sources" in done.err


def test_why_leaves_open_if_a_copy_is_wanted_while_a_kind_of_source_may_not_be_read(
    stage: Stage, shell: Shell, config: str
) -> None:
    answer_json = why(shell, "cm/other", "a", config)
    assert (answer_json["present"], answer_json["wanted"], answer_json["answers"]) == (False, None, [])
    assert "resourcedistributions" in answer_json["unread"][0]


def test_why_shows_known_answers_beside_what_could_not_be_read(stage: Stage, shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "both.yaml"
    file.write_text(yaml.safe_dump({"vocabularies": {"secret-copy": {}, "resource-distribution": {}}}))
    stage.namespace("a", "b")
    stage.source("db", "a")
    wanted = why(shell, "secret/db", "a", f"--config={file}")
    assert (wanted["wanted"], "unread" in wanted) == (True, False)
    answer_json = why(shell, "secret/db", "b", f"--config={file}")
    assert answer_json["wanted"] is None
    (answer,) = answer_json["answers"]
    assert (answer["source"], answer["wanted"]) == ("admin/db", False)
    assert "does not ask for a copy in namespace b" in answer["rule"]
    assert "resourcedistributions" in answer_json["unread"][0]
