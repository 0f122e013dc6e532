"""The workflows call make targets that exist, test every promised Python, and hold no more rights than needed."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.pages import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_make_target_exists(path: Path) -> None:
    defined = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    runs = [match for step in steps(path) for match in re.findall(r"^make ([a-z -]+)", step.get("run", ""))]
    used = {word for run in runs for word in run.split()}
    assert {"test", "site", "sbom"} <= used <= defined


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_read_and_its_jobs_say_what_more_they_need(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


def test_every_promised_python_is_tested() -> None:
    [job] = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]


def test_the_change_log_speaks_of_this_version() -> None:
    from samara import __version__

    assert re.search(rf"^## {re.escape(__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
