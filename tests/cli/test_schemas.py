"""The published schemas of `-o json` have the promised shapes, and the examples on the pages follow them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from scripts import reference
from tests.cli.conftest import Shell
from tests.cli.program import samara_inside
from tests.cluster.support.stage import Stage
from tests.support.json_schema import FOLDER, OF_LISTS, check, commands, faults_of, schema
from tests.support.pages import ROOT, fences
from tests.support.trees import namespace, obj

from samara.cli.advice import ADVICE
from samara.cli.inspect.forecast import VERBS
from samara.cli.inspect.trees import add_propagations, build_forest
from samara.core.desired import Reason, in_lower_case
from samara.core.model import SECRET
from samara.core.rules import TABLES
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


@pytest.mark.parametrize("path", reference.SCHEMAS, ids=lambda path: path.stem)
def test_the_lists_of_names_in_a_schema_are_those_of_the_program(path: Path) -> None:
    assert reference.renewed_schema(path) == path.read_text(), "run make docs"


def names_at(command: str, way: tuple[str, ...], field: str) -> set[str]:
    return set(at(command, way)["properties"][field]["enum"])


def test_a_plan_may_have_every_rule_verb_and_reason() -> None:
    rules = {rule.name for table in TABLES for rule in table}
    for command, way, field in (
        ("plan", ("writes",), "rule"),
        ("plan", ("blocked",), "rule"),
        ("why", ("answers",), "decision"),
    ):
        assert rules <= names_at(command, way, field)
    assert set(VERBS) == names_at("plan", ("writes",), "verb")
    assert set(get_args(Reason)) == names_at("plan", ("blocked",), "reason")
    assert set(get_args(Reason)) == names_at("why", ("answers", "blocked"), "reason")


def test_a_source_may_have_the_reason_of_each_fault_besides_those_of_blocked_copies() -> None:
    faults = [reason for reason, about in declared_reasons(VOCABULARIES).items() if about.advice]
    for command, way in (("status", ("sources", "reasons")), ("why", ("makes", "reasons"))):
        assert {*get_args(Reason), *map(in_lower_case, faults)} == names_at(command, way, "reason")


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
