"""What `kubectl get -o yaml | samara lint -` reports: what people wrote, and nothing that a program has added."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Shell
from tests.cli.lint.manifests import findings_in
from tests.cli.program import samara_inside
from tests.cluster.support import definitions
from tests.cluster.support.stage import Stage, encoded
from tests.cluster.support.waiting import eventually

from samara import crds
from samara.settings import parse
from samara_devtools.devcluster import Devcluster

CREATED = "2030-01-01T12:00:00Z"
OLD = "2029-01-01T12:00:00Z"
COPY = {
    "labels": {"secret-copy/from": "admin-db"},
    "annotations": {"secret-copy/origin": "admin/db"},
}
SOURCE = {"annotations": {"secret-copy/namespaces": "shop"}}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def managed_by(manager: str, metadata: dict[str, dict[str, str]], time: str = CREATED) -> list[dict[str, Any]]:
    """managedFields that attribute all of these labels and annotations to one manager."""
    fields: dict[str, Any] = {
        f"f:{where}": {".": {}, **{f"f:{key}": {} for key in keys}} for where, keys in metadata.items()
    }
    entry = {"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}, "f:metadata": fields}}
    return [{**entry, "manager": manager, "operation": "Update", "time": time}]


def observed(metadata: dict[str, Any], kind: str = "Secret", **more: Any) -> str:
    """An object as kubectl prints it, in a List."""
    added = {"uid": "7c1f", "resourceVersion": "12", "creationTimestamp": CREATED, "generation": 1}
    body = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "db", "namespace": "admin", **added, **metadata},
        "status": {"phase": "secret-copy/namespace"},
        **more,
    }
    listed = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [body]}
    return yaml.safe_dump(listed, sort_keys=False)


def keys_of(text: str, folder: Path) -> list[str]:
    return [finding.key for finding in findings_in(folder, text)]


def test_what_the_server_and_kubectl_add_to_a_source_is_not_reported(tmp_path: Path) -> None:
    annotations = {**SOURCE["annotations"], LAST_APPLIED: '{"kind":"Secret"}\n'}
    assert keys_of(observed({"annotations": annotations}), tmp_path) == []


def test_what_people_wrote_is_reported_on_its_line(tmp_path: Path) -> None:
    text = observed({"annotations": {"secret-copy/namespace": "shop", LAST_APPLIED: "{}"}})
    (finding,) = findings_in(tmp_path, text)
    assert finding.expected == "secret-copy/namespaces"
    assert "secret-copy/namespace:" in text.splitlines()[finding.line - 1]


def test_the_last_applied_configuration_in_a_file_of_a_person_is_reported(tmp_path: Path) -> None:
    text = observed({"annotations": {**SOURCE["annotations"], LAST_APPLIED: "{}"}}).replace("uid:", "x:")
    assert keys_of(text, tmp_path) == [LAST_APPLIED]


@pytest.mark.parametrize("manager", ["samara", "samara-for-others"])
def test_a_mark_that_samara_wrote_is_no_mark_by_hand(manager: str, tmp_path: Path) -> None:
    assert keys_of(observed({**COPY, "managedFields": managed_by(manager, COPY)}), tmp_path) == []


def test_a_mark_that_the_original_controller_wrote_is_no_mark_by_hand(tmp_path: Path) -> None:
    marks = {"annotations": {"accurate.cybozu.com/from": "root"}}
    assert keys_of(observed({**marks, "managedFields": managed_by("accurate-controller", marks)}), tmp_path) == []


def test_a_mark_that_somebody_else_wrote_is_reported(tmp_path: Path) -> None:
    text = observed({**COPY, "managedFields": managed_by("kubectl-edit", COPY)})
    assert sorted(keys_of(text, tmp_path)) == ["secret-copy/from", "secret-copy/origin"]


def test_only_the_keys_that_samara_wrote_are_passed_over(tmp_path: Path) -> None:
    fields = managed_by("samara", {"labels": COPY["labels"]}) + managed_by("kubectl-edit", SOURCE)
    assert keys_of(observed({**COPY, "managedFields": fields}), tmp_path) == ["secret-copy/origin"]


ASKS = {"annotations": {"openkruise.io/sync-to": "cluster"}}
"""What a person adds to a copy."""
OF_A_DISTRIBUTION = {"annotations": {"kruise.io/resourcedistribution.resource.from": "settings"}}
OWNER = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistribution", "name": "settings", "uid": "a7"}


@pytest.mark.parametrize(
    ("copy", "owners"),
    [(COPY, {}), (OF_A_DISTRIBUTION, {"ownerReferences": [{**OWNER, "controller": True}]})],
    ids=["marks", "owner"],
)
def test_a_request_that_somebody_added_to_a_copy_is_reported(
    copy: dict[str, Any], owners: dict[str, Any], tmp_path: Path
) -> None:
    settings = parse(json.dumps(SETTINGS), "settings")
    annotations = {**copy["annotations"], **ASKS["annotations"]}
    written = managed_by("samara", copy) + managed_by("kubectl-edit", ASKS)
    text = observed({**copy, **owners, "namespace": "shop", "annotations": annotations, "managedFields": written})
    (finding,) = findings_in(tmp_path, text, settings)
    assert (finding.key, finding.found) == ("openkruise.io/sync-to", "on a copy")
    assert "openkruise.io/sync-to:" in text.splitlines()[finding.line - 1]


def test_a_pause_that_somebody_added_to_a_copy_is_reported(tmp_path: Path) -> None:
    paused = {"annotations": {"samara.dev/paused": "true"}}
    written = managed_by("samara", COPY) + managed_by("kubectl-edit", paused)
    annotations = {**COPY["annotations"], **paused["annotations"]}
    text = observed({**COPY, "namespace": "shop", "annotations": annotations, "managedFields": written})
    (finding,) = findings_in(tmp_path, text)
    assert (finding.key, finding.found) == ("samara.dev/paused", "on a copy")
    assert findings_in(tmp_path, observed({**paused, "namespace": "shop"})) == []


def test_a_request_beside_marks_that_nobody_proves_is_no_request_on_a_copy(tmp_path: Path) -> None:
    text = observed({**COPY, "annotations": {**COPY["annotations"], **ASKS["annotations"]}})
    assert findings_in(tmp_path, text, parse(json.dumps(SETTINGS), "settings")) == []


def test_managed_fields_that_are_older_than_their_object_prove_nothing(tmp_path: Path) -> None:
    text = observed({**COPY, "managedFields": managed_by("samara", COPY, OLD)})
    assert sorted(keys_of(text, tmp_path)) == ["secret-copy/from", "secret-copy/origin"]


@pytest.mark.parametrize("fields", ["text", [1], [{"manager": "samara", "fieldsV1": []}], {"manager": "samara"}])
def test_managed_fields_of_another_form_prove_nothing(fields: object, tmp_path: Path) -> None:
    text = observed({**COPY, "managedFields": fields})
    assert sorted(keys_of(text, tmp_path)) == ["secret-copy/from", "secret-copy/origin"]


def test_marks_are_counted_and_not_reported_if_kubectl_hides_who_wrote_them(tmp_path: Path) -> None:
    done = samara_inside("lint", "-", "--config=/dev/null", stdin=observed(COPY))
    assert (done.code, done.out) == (0, "")
    assert "samara: marks on 1 object are not checked" in done.err
    assert "--show-managed-fields" in done.err
    done = samara_inside("lint", "-", "--config=/dev/null", stdin=observed(SOURCE))
    assert (done.code, done.err) == (0, "Nothing found.\n")


def test_a_mark_in_a_file_of_a_person_is_reported(tmp_path: Path) -> None:
    text = observed(COPY).replace("uid:", "x:")
    assert sorted(keys_of(text, tmp_path)) == ["secret-copy/from", "secret-copy/origin"]


def test_events_of_a_cluster_are_not_checked(tmp_path: Path) -> None:
    about = {"annotations": {"samara.dev/key": "secret-copy/Secret/admin/db"}}
    assert keys_of(observed(about, kind="Event"), tmp_path) == []
    assert keys_of(observed(about, kind="ConfigMap"), tmp_path) == ["samara.dev/key"]


# a real cluster

EXAMPLES = Path(__file__).parents[3] / "examples"
SETTINGS = {
    "vocabularies": {
        "secret-copy": {},
        "resource-distribution": {},
        "accurate": {"watches": [{"version": "v1", "kind": "Secret"}], "subNamespaceLabelKeys": ["example.com/stage"]},
        "sync-to": {},
        "replicator": {},
    }
}
NOT_APPLIED = frozenset({"namespaces.yaml", "settings.yaml", "stages.yaml", "config-reader.yaml"})
"""Namespaces are applied first. The settings here watch no Roles, and the stages need a namespace that Samara makes."""
KINDS = "namespaces,secrets,configmaps,resourcedistributions,subnamespaces,events"


@pytest.mark.cluster
def test_the_objects_of_a_cluster_that_samara_serves_have_only_the_mistakes_of_people(
    cluster: Devcluster, stage: Stage, shell: Shell, tmp_path: Path
) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text(json.dumps(SETTINGS))

    def linted(*flags: str) -> list[dict[str, Any]]:
        text = cluster.kubectl("get", KINDS, "-A", "-o", "yaml", *flags)
        findings = shell("lint", "-", f"--config={config}", "-o", "json", stdin=text).json["findings"]
        assert isinstance(findings, list)
        return findings

    with ExitStack() as stack:
        for name in crds.shipped():
            stack.enter_context(definitions.defined(cluster, crds.text(name)))
        for file in applied_examples():
            cluster.kubectl("apply", "-f", str(file))
        stage.operator(config=SETTINGS, kubeconfig=cluster.kubeconfig)
        eventually(lambda: len(_with_marks(cluster)) > 10)
        assert linted() == []
        assert linted("--show-managed-fields") == []
        mistake = {"metadata": {"name": "x", "annotations": {"secret-copy/origin": "a/b"}}, "data": encoded({"n": "1"})}
        stage.api.create("/api/v1/namespaces/default/secrets", mistake)
        assert [finding["key"] for finding in linted("--show-managed-fields")] == ["secret-copy/origin"]


def applied_examples() -> list[Path]:
    """The manifests of every vocabulary in the settings, their namespaces first."""
    folders = [EXAMPLES / vocabulary for vocabulary in SETTINGS["vocabularies"]]
    namespaces = [folder / "namespaces.yaml" for folder in folders]
    objects = [file for folder in folders for file in sorted(folder.glob("*.yaml")) if file.name not in NOT_APPLIED]
    return [*namespaces, *objects]


def _with_marks(cluster: Devcluster) -> list[str]:
    return cluster.kubectl("get", "secrets", "-A", "-l", "secret-copy/from", "-o", "name").split()
