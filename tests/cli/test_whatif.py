"""`samara plan -f`: what if these manifests were applied?"""

from __future__ import annotations

import pytest
from tests.cli.conftest import Shell
from tests.cluster.stage import Stage

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


def test_manifests_are_laid_over_the_cluster(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    found = shell("plan", "-f", "-", "-o", "json", stdin=manifest(FRESH)).json
    assert [(each["verb"], each["namespace"]) for each in found["writes"]] == [("create", "a"), ("create", "new")]
    assert stage.secret("admin", "fresh") is None
    assert stage.api.find("/api/v1/namespaces/new") is None


def test_string_data_and_a_missing_type_are_what_the_server_would_store(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    text = manifest('SOURCE\n  name: db\n  annotations: {secret-copy/namespaces: "a"}\nstringData: {b: two, a: one}\n')
    stage.cluster.kubectl("apply", "-f", "-", input=text)
    stage.operator()
    stage.until_copied("db", "a")
    assert shell("plan", "-f", "-", "--exit-code", stdin=text).out == "Nothing to write.\n"


def test_a_key_taken_out_of_an_applied_manifest_is_taken_out_of_the_copies(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    text = manifest('SOURCE\n  name: db\n  annotations: {secret-copy/namespaces: "a"}\ndata: {b: dHdv, a: b25l}\n')
    stage.cluster.kubectl("apply", "-f", "-", input=text)
    stage.operator()
    stage.until_copied("db", "a")
    out = shell("plan", "-f", "-", "--diff", stdin=text.replace("b: dHdv, ", "")).out
    assert [line.strip() for line in out.splitlines()][1:2] == ["- data b: 3 bytes"]


def test_a_stranger_in_the_manifests_stands_in_the_way(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stranger = "apiVersion: v1\nkind: Secret\nmetadata: {name: fresh, namespace: a}\ndata: {x: eQ==}\n---\n"
    found = shell("plan", "-f", "-", "-o", "json", stdin=stranger + manifest(FRESH)).json
    assert [(each["namespace"], each["reason"]) for each in found["blocked"]] == [("a", "conflict")]


def test_a_manifest_without_a_namespace_gets_that_of_the_flag(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    text = 'apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\n  annotations: {secret-copy/namespaces: "a"}\n'
    assert shell("plan", "-f", "-", "-n", "admin", "--exit-code", stdin=text).code == 3
    assert shell("plan", "-f", "-", "--exit-code", stdin=text).code == 0


def test_other_kinds_and_impossible_places_are_ignored_with_a_note(stage: Stage, shell: Shell) -> None:
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
def test_a_bad_manifest_is_one_line_without_values(text: str, shell: Shell) -> None:
    assert "CANARY" not in shell("plan", "-f", "-", stdin=text).fault
