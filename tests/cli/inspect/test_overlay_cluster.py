"""`samara plan -f` on a real cluster: what would the operator write if these manifests were applied?"""

from __future__ import annotations

import pytest
from tests.cli.conftest import Shell
from tests.cluster.support.stage import Stage

pytestmark = pytest.mark.cluster


def manifest(text: str) -> str:
    return text.replace("SOURCE", "apiVersion: v1\nkind: Secret\nmetadata:\n  namespace: admin")


FRESH = """SOURCE
  name: fresh
  annotations: {secret-copy/namespaces: "a,new"}
stringData: {password: one}
---
apiVersion: v1
kind: Namespace
metadata: {name: new}
"""


def test_manifests_are_planned_and_not_applied(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    plan = shell("plan", "-f", "-", "-o", "json", stdin=manifest(FRESH)).json
    assert [(write["verb"], write["namespace"]) for write in plan["writes"]] == [("create", "a"), ("create", "new")]
    assert stage.secret("admin", "fresh") is None
    assert stage.api.find("/api/v1/namespaces/new") is None


def test_only_what_the_manifests_change_is_shown_with_a_line_for_the_rest(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b")
    stage.source("other", "a,b,later")
    done = shell("plan", "-f", "-", stdin=manifest(FRESH))
    assert "admin/fresh" in done.out
    assert "admin/other" not in done.out
    lines = done.out.splitlines()
    assert lines[:2] == [
        "2 to create.",
        "Without these manifests too: 2 to write, 1 blocked (`samara plan` shows them).",
    ]
    plan = shell("plan", "-f", "-", "-o", "json", stdin=manifest(FRESH)).json
    assert plan["anyway"] == {"writes": 2, "blocked": 1, "prevented": 0}
    assert {write["source"] for write in plan["writes"]} == {"admin/fresh"}


def test_manifests_that_change_nothing_say_so_while_something_is_to_be_written(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    text = manifest('SOURCE\n  name: db\n  annotations: {secret-copy/namespaces: "a"}\nstringData: {b: two}\n')
    stage.cluster.kubectl("apply", "-f", "-", input=text)
    done = shell("plan", "-f", "-", "--exit-code", stdin=text)
    assert done.code == 0
    assert done.out.splitlines()[0] == "Nothing to write."
    assert "Without these manifests too: 1 to write" in done.out


def test_a_write_that_the_manifests_prevent_is_counted(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b")
    text = manifest('SOURCE\n  name: db\n  annotations: {secret-copy/namespaces: "a,b"}\nstringData: {b: two}\n')
    stage.cluster.kubectl("apply", "-f", "-", input=text)
    done = shell("plan", "-f", "-", stdin=text.replace("a,b", "a"))
    assert "only without them: 1 object to write" in done.out


def test_string_data_and_a_missing_type_become_what_the_server_would_store(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    text = manifest('SOURCE\n  name: db\n  annotations: {secret-copy/namespaces: "a"}\nstringData: {b: two, a: one}\n')
    stage.cluster.kubectl("apply", "-f", "-", input=text)
    stage.operator()
    stage.until_copied("db", "a")
    assert shell("plan", "-f", "-", "--exit-code", stdin=text).out == "Nothing to write.\n"


def test_key_removed_from_an_applied_manifest_disappears_from_the_copies(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    text = manifest('SOURCE\n  name: db\n  annotations: {secret-copy/namespaces: "a"}\ndata: {b: dHdv, a: b25l}\n')
    stage.cluster.kubectl("apply", "-f", "-", input=text)
    stage.operator()
    stage.until_copied("db", "a")
    out = shell("plan", "-f", "-", "--diff", stdin=text.replace("b: dHdv, ", "")).out
    assert [line.strip() for line in out.splitlines()][2:3] == ["- data b: 3 bytes"]


def test_foreign_object_in_the_manifests_blocks_a_copy(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stranger = "apiVersion: v1\nkind: Secret\nmetadata: {name: fresh, namespace: a}\ndata: {x: eQ==}\n---\n"
    plan = shell("plan", "-f", "-", "-o", "json", stdin=stranger + manifest(FRESH)).json
    assert [(blocked["namespace"], blocked["reason"]) for blocked in plan["blocked"]] == [("a", "conflict")]


def test_manifest_without_a_namespace_gets_that_of_the_flag(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    text = 'apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\n  annotations: {secret-copy/namespaces: "a"}\n'
    assert shell("plan", "-f", "-", "-n", "admin", "--exit-code", stdin=text).code == 3
    assert shell("plan", "-f", "-", "--exit-code", stdin=text).code == 0


def test_other_kinds_and_missing_namespaces_are_ignored_with_a_note(stage: Stage, shell: Shell) -> None:
    text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n---\n"
    text += "apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: nowhere}\n"
    done = shell("plan", "-f", "-", stdin=text)
    assert done.code == 0
    assert "apps/v1/Deployment is ignored" in done.err
    assert "namespace nowhere does not exist" in done.err


@pytest.mark.parametrize(
    "text",
    [
        "a: [\n",
        "just text\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {}\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {a: CANARY*}\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData: {a: 12}\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData: CANARY\n",
    ],
)
def test_bad_manifest_is_refused_in_one_line_without_values(text: str, shell: Shell) -> None:
    assert "CANARY" not in shell("plan", "-f", "-", stdin=text).fault


DISTRIBUTED = """
apiVersion: apps.kruise.io/v1alpha1
kind: ResourceDistribution
metadata: {name: held}
spec:
  resource: {apiVersion: v1, kind: Secret, metadata: {name: held}, stringData: {password: one}}
  targets: {includedNamespaces: {list: [{name: a}]}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: bundle
  namespace: admin
  annotations: {openkruise.io/sync-to: namespaces, openkruise.io/sync-to-namespaces: a}
data: {ca.crt: text}
"""


def test_distributions_of_any_version_and_config_maps_are_planned_too(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.cluster.kubectl("apply", "-f", "-", input=shell("crds").out)
    stage.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    try:
        plan = shell("plan", "-f", "-", "--diff", "-o", "json", stdin=DISTRIBUTED).json
        writes = [(write["kind"], write["namespace"], write["name"], write["vocabulary"]) for write in plan["writes"]]
        assert writes == [
            ("v1/Secret", "a", "held", "resource-distribution"),
            ("apps.kruise.io/v1beta1/ResourceDistribution", "", "held", "resource-distribution"),
            ("v1/ConfigMap", "a", "bundle", "sync-to"),
        ]
        added = [
            (line["field"], line["key"], line["after"])
            for write in plan["writes"]
            for line in write["diff"][:1]
            if "key" in line
        ]
        assert added == [("data", "password", 3), ("data", "ca.crt", 4)]
    finally:
        stage.cluster.kubectl("delete", "crd", "--all")
