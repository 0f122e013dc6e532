"""The published schemas of `-o json` have the promised shapes, and the examples on the pages follow them."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from tests.cli.conftest import Shell
from tests.cli.program import samara_inside
from tests.cluster.support.stage import Stage
from tests.support.json_schema import FOLDER, OF_LISTS, check, commands, faults_of, schema
from tests.support.pages import ROOT, fences
from tests.support.trees import namespace, obj

from samara.cli.advice import ADVICE
from samara.cli.inspect.forecast import VERBS
from samara.cli.inspect.trees import add_propagations, build_forest
from samara.core.desired import Reason
from samara.core.model import SECRET
from samara.core.rules import OVERLAY_RULES, RULES, UNWANTED_RULES
from samara.core.vocabulary import declared_reasons
from samara.vocabularies import VOCABULARIES

PAGE = ROOT / "docs" / "reference" / "commands.md"
WHERE = ["kind", "namespace", "name"]
PROMISED: dict[str, dict[tuple[str, ...], list[str]]] = {
    "plan": {
        (): ["writes", "blocked", "summary"],
        ("writes",): ["verb", *WHERE, "vocabulary", "source", "why", "rule"],
        ("blocked",): [*WHERE, "vocabulary", "source", "reason", "message", "rule"],
        ("summary",): ["create", "update", "recreate", "delete", "overlay", "guard", "report", "blocked"],
    },
    "status": {
        (): ["sources", "held", "waiting"],
        ("sources",): ["vocabulary", *WHERE, "wanted", "right", "pending", "blocked", "reasons"],
        ("sources", "reasons"): ["reason", "count", "sample"],
        ("held",): ["key", "count", "since", "until"],
        ("waiting",): ["vocabulary", "kind", "message"],
    },
    "why": {
        (): ["object", "present", "wanted", "answers"],
        ("object",): WHERE,
        ("answers",): ["vocabulary", "source", "wanted", "rule", "decision", "blocked"],
    },
    "orphans": {(): ["orphans"], ("orphans",): [*WHERE, "vocabulary", "origin", "ours", "reason"]},
    "lint": {(): ["findings"], ("findings",): ["file", "line", "key", "found", "expected"]},
    "rbac": {(): ["rules"], ("rules",): ["role", "apiGroups", "resources", "verbs", "why"]},
}
"""The promised fields of the commands, by path."""


def at(command: str, way: tuple[str, ...]) -> dict[str, Any]:
    rule = schema(command)
    for name in way:
        rule = rule["properties"][name]
        rule = rule.get("items", rule)
    return rule


@pytest.mark.parametrize(("command", "way"), [(name, way) for name, ways in PROMISED.items() for way in ways])
def test_a_schema_requires_exactly_what_is_promised(command: str, way: tuple[str, ...]) -> None:
    assert at(command, way)["required"] == PROMISED[command][way]


def test_verbs_and_reasons_are_those_of_the_program() -> None:
    assert at("plan", ("writes",))["properties"]["verb"]["enum"] == list(VERBS)
    assert at("plan", ("blocked",))["properties"]["reason"]["enum"] == list(get_args(Reason))
    assert at("why", ("answers",))["properties"]["blocked"]["properties"]["reason"]["enum"] == list(get_args(Reason))


def test_rules_are_those_of_the_program() -> None:
    ruled = (
        [rule.name for rule in RULES] + [rule.name for rule in UNWANTED_RULES] + [rule.name for rule in OVERLAY_RULES]
    )
    names = [*dict.fromkeys(ruled), "blocked", "finalizer", "fault", "status"]
    for way in ("writes", "blocked"):
        assert at("plan", (way,))["properties"]["rule"]["enum"] == names
    assert at("why", ("answers",))["properties"]["decision"]["enum"] == [*names, None]


def test_status_has_reasons_of_faults_besides_those_of_blocked_copies() -> None:
    declared = {"PathNotAllowed", "NoNamespace", "TokenError", "ConnectionError", "FetchError", "LimitExceeded"}
    assert declared == declared_reasons(VOCABULARIES).keys()
    of_faults = {"path-not-allowed", "token-error", "connection-error", "fetch-error", "limit-exceeded"}
    reasons = at("status", ("sources", "reasons"))["properties"]["reason"]["enum"]
    assert set(reasons) == {*get_args(Reason), *of_faults}
    assert set(ADVICE) == set(reasons)


def test_every_command_that_prints_json_has_a_schema_on_the_page() -> None:
    page = PAGE.read_text()
    names = {*commands(), *OF_LISTS}
    assert [name for name in sorted(names) if f"(schemas/{name}.json)" not in page] == []
    assert {path.stem for path in FOLDER.iterdir()} == names


def test_every_reason_is_explained_on_the_page() -> None:
    page = PAGE.read_text()
    assert [reason for reason in ADVICE if f"| `{reason}` |" not in page] == []


def test_the_examples_on_the_page_are_of_their_schemas() -> None:
    shown = [json.loads(fence.text) for fence in fences() if fence.page == PAGE and fence.language == "json"]
    by_first = {tuple(schema(name)["required"]): name for name in PROMISED}
    assert [by_first[tuple(example)] for example in shown] == list(PROMISED)
    for example in shown:
        check(by_first[tuple(example)], example)


def test_trees_and_the_version_are_of_their_schemas() -> None:
    forest = build_forest([namespace("r", type="root"), namespace("a", parent="r"), namespace("b", parent="gone")])
    add_propagations(forest, SECRET, [obj("r", "db", "update"), obj("a", "db", "update", "r"), obj("a", "x", "odd")])
    check("tree", {"trees": forest.as_json()})
    check("version", samara_inside("version", "-o", "json").json)


def test_explained_rights_are_of_their_schema() -> None:
    check("rbac", samara_inside("rbac", "--explain", "-o", "json").json)


def test_findings_are_of_their_schema() -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: x, annotations: {secret-copy/namespaces: Bad_Name}}\n"
    answer = samara_inside("lint", "-", "-o", "json", stdin=text).json
    assert answer["findings"] != []
    check("lint", answer)


@pytest.mark.cluster
def test_the_answers_of_a_cluster_are_of_their_schemas(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b", "c")
    stage.source("db", "a,b,later,Bad_Name")
    stage.source("old", "c")
    stage.foreign("b", "db")
    operator = stage.operator()
    stage.until_copied("db", "a")
    stage.until_copied("old", "c")
    operator.stop()
    stage.bump("db")
    stage.api.delete(stage.path("admin", "old"))
    commands_to_check = {
        "plan": ("plan", "--diff"),
        "status": ("status",),
        "why": ("why", "secret/db", "-n", "b"),
        "why-list": ("why", "secret", "db", "old", "-n", "b"),
        "orphans": ("orphans",),
        "tree": ("tree",),
        "version": ("version",),
    }
    answers = {name: shell(*args, "-o", "json").json for name, args in commands_to_check.items()}
    for name, answer in answers.items():
        check(name, answer)
    assert answers["plan"]["writes"][0]["diff"] != []
    assert len(answers["plan"]["blocked"]) == 3
    assert answers["status"]["sources"][0]["reasons"] != []
    assert answers["why"]["answers"][0]["blocked"]["reason"] == "conflict"
    assert len(answers["orphans"]["orphans"]) == 1
    check("why", Shell(stage.kubeconfig("nobody"))("why", "secret/db", "-n", "a", "-o", "json").json)


GOOD = {"sources": [], "held": [{"key": "k", "count": 1, "since": "", "until": "forever"}], "waiting": []}


@pytest.mark.parametrize(
    "bad",
    [
        {"sources": []},
        {**GOOD, "more": 1},
        {**GOOD, "held": [{"key": "k", "count": -1, "since": "", "until": ""}]},
        {**GOOD, "held": [{"key": "k", "count": True, "since": "", "until": ""}]},
        {**GOOD, "held": {}},
    ],
)
def test_schema_checker_rejects_wrong_answers(bad: dict[str, Any]) -> None:
    assert list(faults_of(schema("status"), GOOD)) == []
    assert list(faults_of(schema("status"), bad)) != []
