"""Alerts and dashboard use metrics and labels that exist, and every alert is explained."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts import reference
from tests.support.pages import ROOT

from samara.cli.main import COMMANDS
from samara.core.copy_counts import count_by_state
from samara.engine.writer import Ending
from samara.secretstores.base import StoreError

RULES = ROOT / "deploy" / "alerts" / "samara.rules.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "samara.json"
GUIDE = ROOT / "docs" / "guides" / "alerts.md"
FOREIGN = {"cluster", "job", "instance", "le"}
"""Labels that Prometheus, its administrators and histograms add."""


def alerts() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def panels() -> list[dict[str, Any]]:
    return list(json.loads(DASHBOARD.read_text())["panels"])


def expressions(path: Path) -> list[str]:
    if path == RULES:
        return [alert["expr"] for alert in alerts()]
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def served() -> dict[str, set[str]]:
    """Every series that the program serves, with its own labels."""
    labels_by_metric: dict[str, set[str]] = {}
    for name, kind, labels, _ in reference._families():
        ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        labels_by_metric |= {f"{name}{end}": set(re.findall(r"\w+", labels)) for end in ends}
    return labels_by_metric


def labels_in(expression: str) -> set[str]:
    grouped = {
        word for names in re.findall(r"\b(?:by|on|without) \(([^)]*)\)", expression) for word in names.split(", ")
    }
    return grouped | {word for inside in re.findall(r"{([^}]*)}", expression) for word in re.findall(r"(\w+)=", inside)}


@pytest.mark.parametrize("path", [RULES, DASHBOARD], ids=lambda path: path.name)
def test_every_metric_and_label_exists(path: Path) -> None:
    real = served()
    for expression in expressions(path):
        used = set(re.findall(r"\bsamara_\w+", expression))
        assert used, expression
        assert used <= set(real), expression
        assert labels_in(expression) <= FOREIGN.union(*(real[name] for name in used)), expression


def test_every_metric_is_on_the_dashboard() -> None:
    shown = set(re.findall(r"\bsamara_\w+", " ".join(expressions(DASHBOARD))))
    assert {name.removesuffix("_bucket") for name in shown} == {family[0] for family in reference._families()}


@pytest.mark.parametrize("path", [RULES, DASHBOARD], ids=lambda path: path.name)
def test_every_expression_closes_its_brackets(path: Path) -> None:
    for expression in expressions(path):
        assert [expression.count(sign) for sign in "([{"] == [expression.count(sign) for sign in ")]}"], expression


def test_every_alert_has_a_severity_and_a_section_in_the_guide() -> None:
    explained = re.findall(r"^## (Samara\w+)$", GUIDE.read_text(), re.MULTILINE)
    assert [alert["alert"] for alert in alerts()] == explained
    assert {alert["labels"]["severity"] for alert in alerts()} <= {"critical", "warning", "info"}
    assert all(alert["annotations"]["summary"].endswith(".") for alert in alerts())


def test_the_alert_for_held_deletions_names_the_command_that_releases_them() -> None:
    [alert] = [alert for alert in alerts() if "samara_mass_delete_held" in alert["expr"]]
    assert "`samara release KEY`" in alert["annotations"]["description"]
    [section] = re.findall(rf"^## {alert['alert']}$(.*?)(?=^## |\Z)", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert "samara release " in section


def test_every_command_in_an_alert_exists() -> None:
    texts = [text for alert in alerts() for text in alert["annotations"].values()]
    named = set(re.findall(r"`samara (\w+)", " ".join(texts)))
    assert "release" in named
    assert named <= COMMANDS.keys()


def test_the_chart_and_a_plain_prometheus_read_one_file() -> None:
    assert RULES.resolve() == ROOT / "deploy" / "chart" / "files" / "alerts.yaml"


def test_every_label_value_in_an_expression_is_possible() -> None:
    faults = {error.result for error in StoreError.__subclasses__()}
    known = {
        "samara_copies": set(count_by_state([])),
        "samara_writes_total": {ending.value for ending in Ending},
        "samara_provider_calls_total": {"ok", "timeout", *faults},
        "samara_admission_requests_total": {"allowed", "refused", "failed"},
    }
    matchers = re.findall(r'(samara_\w+){\w+=~?"([^"]+)"', " ".join(expressions(RULES)))
    assert {metric for metric, _ in matchers} == set(known)
    assert [matcher for matcher in matchers if not set(matcher[1].split("|")) <= known[matcher[0]]] == []


@pytest.mark.parametrize("path", [RULES, DASHBOARD], ids=lambda path: path.name)
def test_every_aggregation_keeps_the_label_of_the_cluster(path: Path) -> None:
    for expression in expressions(path):
        aggregations = re.findall(r"\b(?:sum|max|min|avg|count)\b *(?:by \(([^)]*)\))?", expression)
        assert [labels for labels in aggregations if "cluster" not in labels.split(", ")] == [], expression


def test_the_dashboard_shows_the_chosen_clusters() -> None:
    chosen = {variable["name"]: variable for variable in json.loads(DASHBOARD.read_text())["templating"]["list"]}
    assert chosen["cluster"]["query"] == "label_values(samara_leader, cluster)"
    for expression in expressions(DASHBOARD):
        selectors = re.findall(r"samara_\w+{([^}]*)}", expression)
        assert selectors, expression
        assert [selector for selector in selectors if 'cluster=~"$cluster"' not in selector] == []


def test_labels_in_a_summary_are_kept_by_its_expression() -> None:
    for alert in alerts():
        named = set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"]))
        assert named <= labels_in(alert["expr"]), alert["alert"]


def test_panels_do_not_overlap_and_use_the_chosen_data_source() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        spot = panel["gridPos"]
        here = {(spot["x"] + x, spot["y"] + y) for x in range(spot["w"]) for y in range(spot["h"])}
        assert not here & taken, panel["title"]
        assert spot["x"] + spot["w"] <= 24
        taken |= here
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
    assert len({panel["id"] for panel in panels()}) == len(panels())
