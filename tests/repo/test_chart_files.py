"""The generated files of the chart, checked without helm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from scripts import chart

from samara import __version__
from samara.settings import STRUCTS

BY_HAND = [*sorted((chart.FOLDER / "templates").iterdir()), Path(chart.__file__)]


def test_the_generated_files_are_up_to_date() -> None:
    assert chart.stale_files() == [], "run make chart"


def test_the_chart_has_the_version_of_the_program() -> None:
    described = yaml.safe_load((chart.FOLDER / "Chart.yaml").read_text())
    assert described["version"] == described["appVersion"] == __version__


def test_every_value_of_the_chart_has_a_comment_and_a_schema() -> None:
    schema = json.loads((chart.FOLDER / "values.schema.json").read_text())
    for value in chart.values():
        assert value.about.endswith((".", "host:port", "…")), value
        known = schema
        for key in value.path.split("."):
            known = known["properties"][key]


def test_the_schema_names_no_value_that_the_chart_does_not_have() -> None:
    schema = json.loads((chart.FOLDER / "values.schema.json").read_text())["properties"]
    given = yaml.safe_load((chart.FOLDER / "values.yaml").read_text())
    assert schema.keys() - given.keys() == {"global"}


@pytest.mark.parametrize("path", BY_HAND, ids=lambda path: path.name)
def test_no_template_and_no_script_names_a_vocabulary(path: Path) -> None:
    text = path.read_text()
    assert [name for name in STRUCTS if name in text] == []
