"""The settings of Accurate and the output of the commands for its objects, on the real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.stage import Stage, encoded
from tests.cluster.support.trees import CONFIG, CREATED_BY, FINALIZER, GROUP, PARENT, TEMPLATE, Trees
from tests.cluster.support.waiting import eventually

pytestmark = pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only; trees have a judge of theirs")

Json = dict[str, Any]
CHART = """# as the original's chart renders it
labelKeys:
- team
annotationKeys:
- note
watches:
- group: rbac.authorization.k8s.io
  version: v1
  kind: Role
- group: rbac.authorization.k8s.io
  version: v1
  kind: RoleBinding
- version: v1
  kind: Secret
- version: v1
  kind: ResourceQuota
propagateLabelKeyExcludes:
- "*kubernetes.io/*"
propagateAnnotationKeyExcludes:
- "*kubernetes.io/*"
"""


def written(stage: Stage, text: str, name: str = "config.yaml") -> Path:
    file = stage.folder / name
    file.write_text(text)
    return file


# Settings


def test_the_configuration_file_of_the_original_is_accepted_unchanged(trees: Trees, stage: Stage) -> None:
    trees.root(team="a")
    trees.hang("web", "root")
    trees.put("root", "db", labels={"app.kubernetes.io/name": "x", "l": "1"})
    trees.put("root", "settings", plural="configmaps")
    trees.not_ours.add(("web", "settings"))  # the file does not watch ConfigMaps
    stage.operator(config={"vocabularies": {"accurate": {"configFile": str(written(stage, CHART))}}})
    trees.until_copied("db", "root", "web")
    assert metadata_of(trees.get("secrets", "web", "db") or {}, "labels") == {"l": "1", CREATED_BY: "accurate"}
    eventually(lambda: trees.labels("web").get("team") == "a")
    assert trees.get("configmaps", "web", "settings") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("labelKey: [a]", 'unknown field "labelKey"'),
        ("labelKeys: ['[']", "invalid configurations: malformed pattern for labelKeys [: syntax error in pattern"),
        (
            f"annotationKeys: ['{GROUP}/x']",
            f"invalid configurations: misconfigured annotationKey: {GROUP}/x is not allowed",
        ),
        ("watches: [{version: v1, kind: Node}]", "invalid configurations: /v1, Kind=Node is not namespace-scoped"),
        (
            "watches: [{version: v1, kind: Service}, {group: apps, version: v1, kind: Deployment}]",
            "when validating RBAC to support configuration: [missing permission to get /v1, Resource=services, "
            "missing permission to list /v1, Resource=services",
        ),
    ],
)
def test_an_invalid_configuration_stops_the_start_with_the_message_of_the_original(
    trees: Trees, stage: Stage, text: str, message: str
) -> None:
    config = {"vocabularies": {"accurate": {"configFile": str(written(stage, text))}}}
    operator = stage.operator(config=config, wait="started")
    assert operator.wait() == 1
    (line,) = [line for line in operator.log.splitlines() if message in line]
    assert "Traceback" not in operator.log
    if "missing" in message:
        assert "missing permission to delete apps/v1, Resource=deployments" in line
        assert "patch" not in line


def test_two_kinds_of_the_same_name_are_distinguished_by_their_group(trees: Trees, stage: Stage) -> None:
    watches = [*CONFIG["watches"], {"group": "toys.dev", "version": "v1", "kind": "Secret"}]
    trees.root()
    trees.hang("web", "root")
    trees.put("root", "db")
    operator = trees.serve(accurate={"watches": watches})
    trees.until_copied("db", "root", "web")
    assert "toys.dev/v1/Secret" in json.dumps(json.loads(operator.answer("/readyz")[1])["waiting"])


# Commands


def planted(trees: Trees) -> None:
    """A tree that no operator has seen."""
    trees.root(team="a")
    trees.hang("web", "root")
    trees.put("root", "db", data=encoded({"k": "hunter2"}))


def test_plan_shows_the_writes_and_writes_nothing(trees: Trees, stage: Stage) -> None:
    planted(trees)
    trees.ask("new", "root", finalizers=[FINALIZER])
    done = trees.samara("plan", f"--config={trees.settings()}", "-o", "json")
    answer = {
        (write["verb"], write["kind"], write["namespace"], write["name"], write["vocabulary"])
        for write in done.json["writes"]
    }
    assert answer >= {
        ("create", "v1/Secret", "web", "db", "accurate"),
        ("overlay", "v1/Namespace", "", "web", "accurate"),
        ("create", "v1/Namespace", "", "new", "accurate"),
    }
    assert done.json["summary"]["delete"] == 0
    table = trees.samara("plan", f"--config={trees.settings()}", "--diff").out
    assert "hunter2" not in table
    assert [event for event in stage.audit.events() if event.ours and event.mutating and not event.dry_run] == []


def test_plan_with_a_file_shows_the_writes_that_it_would_cause(trees: Trees, stage: Stage) -> None:
    planted(trees)
    trees.serve()
    trees.until_copied("db", "root", "web")
    eventually(lambda: trees.labels("web").get("team") == "a")
    trees.root("other")
    meta = {"name": "web", "labels": {PARENT: "other"}}
    moved = written(stage, json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": meta}), "moved.yaml")
    mark = stage.audit.mark()
    done = trees.samara("plan", f"--config={trees.settings()}", "-f", str(moved), "-o", "json")
    answer = [(write["verb"], write["kind"], write["namespace"], write["name"]) for write in done.json["writes"]]
    assert sorted(answer) == [("delete", "v1/Secret", "web", "db"), ("overlay", "v1/Namespace", "", "web")], done.err
    assert trees.sent(mark) == []


def test_why_names_the_source_and_the_rule(trees: Trees) -> None:
    planted(trees)
    trees.serve()
    trees.until_copied("db", "root", "web")
    inspected = trees.samara("why", "secret/db", "-n", "web", f"--config={trees.settings()}", "-o", "json").json
    assert (inspected["present"], inspected["wanted"]) == (True, True)
    answers = {(answer["vocabulary"], answer["source"], answer["wanted"]) for answer in inspected["answers"]}
    assert ("accurate", "root/db", True) in answers
    shown = trees.samara("why", "secret/db", "-n", "web", f"--config={trees.settings()}").out
    assert f"{GROUP}/propagate on Secret root/db" in shown
    inspected = trees.samara("why", "secret/none", "-n", "web", f"--config={trees.settings()}", "-o", "json").json
    assert (inspected["present"], inspected["wanted"], inspected["answers"]) == (False, False, [])


def test_why_answers_for_a_namespace(trees: Trees) -> None:
    planted(trees)
    trees.ask("sub", "root")
    trees.serve()
    trees.until_well("sub", "root")
    inspected = trees.samara("why", "namespace/sub", f"--config={trees.settings()}", "-o", "json").json
    assert (inspected["present"], inspected["wanted"]) == (True, True)
    assert ("accurate", "root/sub") in {(answer["vocabulary"], answer["source"]) for answer in inspected["answers"]}


def test_status_counts_each_source_and_reports_what_blocks_it(trees: Trees, stage: Stage) -> None:
    planted(trees)
    trees.hang("full", "root")
    trees.hang("lost", "nowhere")
    trees.space("taken")
    trees.ask("taken", "root")
    trees.ask("default", "root")
    stage.foreign("full", "db")
    trees.not_ours.add(("full", "db"))
    trees.serve()
    trees.until_copied("db", "root", "web")
    eventually(lambda: trees.reason("taken", "root") == "Conflict")
    sources = trees.samara("status", f"--config={trees.settings()}", "-o", "json").json["sources"]
    by_name = {(source["kind"], source["namespace"], source["name"]): source for source in sources}
    db = by_name["v1/Secret", "root", "db"]
    assert (db["vocabulary"], db["wanted"], db["right"], db["blocked"]) == ("accurate", 2, 1, 1)
    assert db["reasons"] == [{"reason": "conflict", "count": 1, "sample": ["full"]}]
    taken = by_name[f"{GROUP}/v2/SubNamespace", "root", "taken"]
    assert taken["reasons"] == [{"reason": "conflict", "count": 1, "sample": ["taken"]}]
    refused = by_name[f"{GROUP}/v2/SubNamespace", "root", "default"]
    assert [reason["reason"] for reason in refused["reasons"]] == ["refused"]
    lost = by_name["v1/Namespace", "", "lost"]
    assert lost["reasons"][0]["sample"] == ["parent namespace does not exist: nowhere"]


def test_orphans_lists_orphaned_copies_and_deletes_ours(trees: Trees, stage: Stage) -> None:
    planted(trees)
    trees.put("root", "seed", "create")
    operator = trees.serve()
    for name in ("db", "seed"):
        trees.until_copied(name, "root", "web")
    operator.stop()
    trees.api.delete(trees.path("secrets", "root", "db"))
    settings = f"--config={trees.settings()}"
    (orphan,) = trees.samara("orphans", settings, "-o", "json").json["orphans"]
    assert (orphan["namespace"], orphan["name"], orphan["origin"], orphan["ours"]) == ("web", "db", "root/db", True)
    assert trees.samara("orphans", settings, "--delete", "--yes").code == 0
    trees.until_gone("db", "web")
    assert trees.get("secrets", "web", "seed") is not None


@pytest.mark.parametrize("without", ["the vocabulary", "the kind"])
def test_a_copy_created_once_is_no_orphan_in_any_configuration(trees: Trees, without: str) -> None:
    planted(trees)
    for name, mode in (("kept", "update"), ("seed", "create")):
        trees.put("root", name, mode, "resourcequotas", spec={"hard": {"pods": "1"}})
    operator = trees.serve()
    eventually(lambda: all(trees.get("resourcequotas", "web", name) is not None for name in ("kept", "seed")))
    operator.stop()
    fewer = (
        {"accurate": {"watches": [{"version": "v1", "kind": "Secret"}]}} if without == "the kind" else {"sync-to": {}}
    )
    file = trees.stage.folder / "fewer.yaml"
    file.write_text(yaml.safe_dump({"vocabularies": fewer}))
    orphans = trees.samara("orphans", f"--config={file}", "-o", "json").json["orphans"]
    assert [orphan["name"] for orphan in orphans if orphan["kind"] == "v1/ResourceQuota"] == ["kept"]
    assert trees.samara("orphans", f"--config={file}", "--delete", "--yes").code == 0
    assert trees.get("resourcequotas", "web", "kept") is None
    assert trees.get("resourcequotas", "web", "seed") is not None


def test_rbac_prints_no_rights_to_grant_rights(trees: Trees) -> None:
    printed = list(yaml.safe_load_all(trees.samara("rbac", f"--config={trees.settings()}").out))
    rules = [rule for document in printed for rule in document.get("rules", ())]
    assert not {verb for rule in rules for verb in rule["verbs"]} & {"bind", "escalate", "*", "impersonate"}
    granted = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    assert granted >= {("namespaces", verb) for verb in ("list", "watch", "create", "patch", "delete")}
    assert granted >= {("subnamespaces", verb) for verb in ("get", "list", "watch", "patch")}
    assert not granted & {("subnamespaces", verb) for verb in ("create", "update", "delete")}
    assert ("namespaces", "update") not in granted
    assert granted >= {("subnamespaces/status", "patch"), ("roles", "create"), ("resourcequotas", "update")}


def test_crds_prints_the_definition(trees: Trees) -> None:
    printed = list(yaml.safe_load_all(trees.samara("crds", f"--config={trees.settings()}").out))
    assert [document["metadata"]["name"] for document in printed] == [f"subnamespaces.{GROUP}"]
    trees.kubectl("apply", "--dry-run=server", "-f", "-", input=yaml.safe_dump(printed[0]))


def test_lint_reports_invalid_labels_and_annotations_of_trees(trees: Trees, stage: Stage) -> None:
    manifests = f"""
apiVersion: v1
kind: Secret
metadata: {{name: a, namespace: x, annotations: {{{GROUP}/propagate: always}}}}
---
apiVersion: v1
kind: Namespace
metadata: {{name: a, labels: {{{PARENT}: a, {TEMPLATE}: b}}}}
"""
    done = trees.samara(
        "lint", str(written(stage, manifests, "bad.yaml")), f"--config={trees.settings()}", "-o", "json"
    )
    assert done.code == 1
    assert {finding["key"] for finding in done.json["findings"]} >= {f"{GROUP}/propagate", PARENT}
    good = f"""
apiVersion: v1
kind: Secret
metadata: {{name: a, namespace: x, annotations: {{{GROUP}/propagate: update}}}}
---
apiVersion: {GROUP}/v2
kind: SubNamespace
metadata: {{name: a, namespace: x}}
spec: {{labels: {{app: web}}}}
"""
    assert trees.samara("lint", str(written(stage, good, "good.yaml")), f"--config={trees.settings()}").code == 0


def test_tree_shows_what_is_propagated(trees: Trees) -> None:
    planted(trees)
    trees.serve()
    trees.until_copied("db", "root", "web")
    drawn = trees.samara("tree", f"--config={trees.settings()}").out
    assert "root" in drawn
    assert "web" in drawn
    assert "db" in drawn


def test_metrics_count_the_three_parts_of_the_vocabulary_together(trees: Trees) -> None:
    planted(trees)
    trees.ask("sub", "root")
    operator = trees.serve()
    trees.until_well("sub", "root")
    trees.until_copied("db", "root", "web")
    trees.until_copied("db", "root", "sub")

    def metric(name: str) -> float | None:
        return operator.metrics().get(name)

    # the copies of db in web and sub, and the namespace sub
    eventually(lambda: metric('samara_copies{state="right",vocabulary="accurate"}') == 3)
    assert metric('samara_copies{state="blocked",vocabulary="accurate"}') == 0
    assert metric('samara_copies{state="pending",vocabulary="accurate"}') == 0
    assert metric('samara_orphans{vocabulary="accurate"}') == 0
