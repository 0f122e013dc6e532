"""-n, -A and -l select what kubectl would, in every command that lists something."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests.cli.conftest import Shell
from tests.cluster.support.stage import Stage

pytestmark = pytest.mark.cluster

SYNC = "openkruise.io/sync-to"
SELECTORS = (
    "",
    "team=pay",
    "team==pay",
    "team!=pay",
    "team",
    "!team",
    "team in (pay, ship)",
    "team notin (pay),tier",
    "team=pay,tier!=db",
    "tier in (db),!team",
    "rank>1",
    "rank<10",
    "samara.dev/x=",
)


def secret(stage: Stage, namespace: str, name: str, labels: dict[str, str]) -> None:
    """A Secret that asks for a copy in namespace c."""
    metadata = {"name": name, "labels": labels, "annotations": {SYNC: "namespaces", f"{SYNC}-namespaces": "c"}}
    stage.api.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": metadata})


@pytest.fixture
def sources(stage: Stage) -> Stage:
    stage.namespace("a", "b", "c")
    secret(stage, "a", "one", {"team": "pay", "tier": "db"})
    secret(stage, "a", "two", {"team": "pay", "tier": "web", "rank": "2"})
    secret(stage, "b", "three", {"tier": "db", "rank": "10", "samara.dev/x": ""})
    secret(stage, "b", "four", {"team": "ship"})
    secret(stage, "b", "five", {})
    return stage


def rows(lines: str) -> list[str]:
    return sorted(lines.splitlines())


def test_label_selectors_choose_the_sources_that_kubectl_chooses(sources: Stage, shell: Shell) -> None:
    for selector in SELECTORS:
        listed = sources.cluster.kubectl("get", "secrets", "-A", "-o", "name", "-l", selector)
        assert rows(shell("status", "-o", "name", "-l", selector).out) == rows(listed), selector


def test_all_namespaces_and_one_namespace_list_what_kubectl_lists(sources: Stage, shell: Shell) -> None:
    for flags in (("-A",), ("-n", "a"), ("-A", "-n", "a"), ("-n=b",), ("-n", "none")):
        listed = sources.cluster.kubectl("get", "secrets", "-o", "name", *flags)
        assert rows(shell("status", "-o", "name", *flags).out) == rows(listed), flags


def written(answer: dict[str, Any]) -> set[tuple[str, str]]:
    return {(write["namespace"], write["name"]) for write in answer["writes"]}


def every(names: Iterable[str]) -> set[tuple[str, str]]:
    return {("c", name) for name in names}


def test_plan_selects_by_the_object_and_by_the_labels_of_its_source(sources: Stage, shell: Shell) -> None:
    def plan(*flags: str) -> dict[str, Any]:
        return shell("plan", "-o", "json", *flags).json

    assert written(plan()) == written(plan("-A")) == written(plan("-n", "c"))
    assert written(plan("-n", "c")) == every(["one", "two", "three", "four", "five"])
    assert written(plan("-l", "team=pay")) == every(["one", "two"])
    assert plan("-l", "team=pay")["summary"]["create"] == 2
    assert plan("-n", "a") == plan("--vocabulary", "secret-copy") == plan("--reason", "conflict")
    assert plan("-n", "a")["writes"] == []
    assert shell("plan", "--exit-code", "-n", "a").code == 0
    assert shell("plan", "--exit-code", "-n", "c").code == 3


def test_plan_of_manifests_takes_the_namespace_for_them_and_shows_the_others_too(sources: Stage, shell: Shell) -> None:
    text = f"""
apiVersion: v1
kind: Secret
metadata: {{name: new, annotations: {{{SYNC}: namespaces, {SYNC}-namespaces: c}}}}
"""
    answer = shell("plan", "-f", "-", "-n", "a", "-o", "json", stdin=text).json
    assert written(answer) == every(["new"])
    assert answer["writes"][0]["source"] == "a/new"


def test_orphans_are_selected_by_their_own_namespace_and_labels(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    stage.operator().stop()
    stage.api.patch(stage.path("a", "db"), {"metadata": {"labels": {"kept": "yes"}}})
    stage.api.delete(stage.path("admin", "db"))

    def orphans(*flags: str) -> list[str]:
        return [orphan["namespace"] for orphan in shell("orphans", "-o", "json", *flags).json["orphans"]]

    assert orphans() == orphans("-A", "-n", "a") == ["a", "b"]
    assert orphans("-n", "a") == orphans("-l", "kept") == ["a"]
    assert orphans("-l", "kept!=yes") == ["b"]
    assert shell("orphans", "--no-headers", "-l", "kept").out.split()[2] == "a/db"


def test_a_misspelt_namespace_is_noted_with_the_one_that_was_meant(sources: Stage, shell: Shell) -> None:
    sources.namespace("billing")
    meant = "samara: there is no namespace 'biling'; did you mean 'billing'?"
    for command in ("status", "plan", "orphans"):
        done = shell(command, "-n", "biling")
        assert (done.code, done.err.splitlines().count(meant)) == (0, 1), command
        assert "there is no namespace" not in shell(command, "-n", "billing").err
        assert "there is no namespace" not in shell(command, "-A", "-n", "biling").err


def test_a_namespace_names_the_root_of_a_tree(stage: Stage, shell: Shell) -> None:
    key = "accurate.cybozu.com"
    stage.api.create("/api/v1/namespaces", {"metadata": {"name": "r", "labels": {f"{key}/type": "root"}}})
    for name, team in (("r-a", "pay"), ("r-b", "ship")):
        labels = {f"{key}/parent": "r", "team": team}
        stage.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})

    def tree(*flags: str) -> list[str]:
        return shell("tree", "-o", "name", *flags).out.splitlines()

    assert tree() == tree("-A", "-n", "r-a") == tree("r") == ["namespace/r", "namespace/r-a", "namespace/r-b"]
    assert tree("-n", "r-a") == tree("-l", "team=pay") == ["namespace/r-a"]
    assert tree("r-b", "-n", "r-a") == ["namespace/r-b"]
    assert "r-a" not in shell("tree", "-l", "team=ship").out
    assert "no-such" in shell("tree", "-n", "no-such").fault


def test_answers_are_printed_by_templates(sources: Stage, shell: Shell) -> None:
    template = 'jsonpath={range .sources[?(@.namespace=="a")]}{.kind}{" "}{.name}{"\\n"}{end}'
    assert shell("status", "-o", template).out == "v1/Secret one\nv1/Secret two\n"
    assert shell("plan", "-o", "jsonpath={.summary.create}").out == "5"
    assert shell("why", "secret/one", "-n", "c", "-o=jsonpath={.answers[*].source}").out == "a/one"
    done = shell("status", "-o", "jsonpath={.sources[9]}")
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith("samara: [9]: expected a longer list, found one of 5\n")
