"""The workflows call make targets that exist, test every promised Python, and hold no more rights than needed."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.pages import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_make_target_exists(path: Path) -> None:
    defined = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    runs = [match for step in steps(path) for match in re.findall(r"^make ([a-z -]+)", step.get("run", ""))]
    used = {word for run in runs for word in run.split()}
    assert {"test", "verify", "site", "sbom"} <= used <= defined


NEEDS = {
    "$(INSTALLED)": "actions/setup-python@",
    "control-plane": "actions/setup-go@",
    "helm": "actions/setup-go@",
    "rusty-vault": "rustup toolchain install",
}
"""The step that installs the tools for a prerequisite of a make target."""


def needs(target: str) -> set[str]:
    """All prerequisites of a target, those of its prerequisites included."""
    rules = dict(re.findall(r"^([a-z$()A-Z-]+):([^=#\n]*)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    own = rules.get(target, "").split()
    return {target, *own}.union(*(needs(prerequisite) for prerequisite in own))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_prerequisites_of_a_make_target_are_set_up_before_it(path: Path) -> None:
    assert needs("test") | needs("verify") >= set(NEEDS)
    ready = ""
    for step in steps(path):
        for run in re.findall(r"^make ([a-z -]+)", step.get("run", "")):
            wanted = {NEEDS[need] for target in run.split() for need in needs(target) if need in NEEDS}
            assert [prerequisite for prerequisite in wanted if prerequisite not in ready] == [], run
        ready += f"{step.get('uses', '')} {step.get('run', '')}\n"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_and_its_jobs_declare_further_rights(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


def test_every_supported_python_version_is_tested() -> None:
    [job] = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]


def test_the_change_log_has_an_entry_for_this_version() -> None:
    from samara import __version__

    assert re.search(rf"^## {re.escape(__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
