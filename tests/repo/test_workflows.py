"""The workflows call make targets that exist, test every promised Python, and hold no more rights than needed."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.pages import ROOT

RELEASE, TEST = (ROOT / ".github" / "workflows" / f"{name}.yml" for name in ("release", "test"))
KIND = ROOT / "docs" / "guides" / "kind.md"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    named: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text())["jobs"]
    return named


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_make_target_exists(path: Path) -> None:
    defined = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    runs = [match for step in steps(path) for match in re.findall(r"^make ([a-z -]+)", step.get("run", ""))]
    used = {word for run in runs for word in run.split()}
    assert {"test", "verify", "site", "sbom", "wheels"} <= used <= defined


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
    for job in jobs(path).values():
        ready = ""
        for step in job["steps"]:
            for run in re.findall(r"^make ([a-z -]+)", step.get("run", "")):
                wanted = {NEEDS[need] for target in run.split() for need in needs(target) if need in NEEDS}
                assert [prerequisite for prerequisite in wanted if prerequisite not in ready] == [], run
            ready += f"{step.get('uses', '')} {step.get('run', '')}\n"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_and_its_jobs_declare_further_rights(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


def test_every_supported_python_version_is_tested() -> None:
    job = jobs(TEST)["test"]
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]


def test_a_release_pushes_and_signs_the_image_for_both_architectures_after_the_tests() -> None:
    image = jobs(RELEASE)["image"]
    builds = [step["with"] for step in image["steps"] if step.get("uses", "").startswith("docker/build-push-action@")]
    assert {build["platforms"] for build in builds} == {"linux/amd64,linux/arm64"}
    assert [build.get("push") for build in builds] == [True, None]
    runs = "\n".join(step.get("run", "") for step in image["steps"])
    assert 'cosign sign --yes --recursive "$IMAGE"' in runs
    assert image["needs"] == "test"
    assert "make wheels" in "\n".join(step.get("run", "") for step in jobs(RELEASE)["test"]["steps"])


def test_a_release_pushes_and_signs_the_chart_with_the_image_that_it_has_built() -> None:
    chart, outputs = jobs(RELEASE)["chart"], jobs(RELEASE)["image"]["outputs"]
    [step] = [step for step in chart["steps"] if "push" in step.get("run", "")]
    assert step["env"]["DIGEST"] == "${{ needs.image.outputs.digest }}"
    assert step["env"]["REPOSITORY"] == "${{ needs.image.outputs.name }}"
    assert outputs.keys() == {"name", "digest"}
    assert chart["needs"] == "image"
    assert "scripts/package_chart.py" in step["run"]
    assert "cosign sign" in step["run"]


def test_every_script_that_a_workflow_runs_exists() -> None:
    runs = "\n".join(step.get("run", "") for path in WORKFLOWS for step in steps(path))
    scripts = set(re.findall(r"\bscripts/\w+\.py", runs))
    assert scripts == {"scripts/package_chart.py", "scripts/plugin.py"}
    assert [script for script in scripts if not (ROOT / script).exists()] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_the_commands_of_a_workflow_are_valid_bash(path: Path) -> None:
    for step in steps(path):
        checked = subprocess.run(["bash", "-n"], input=step.get("run", ""), text=True, capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, ""), step


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_jobs_wait_only_for_jobs_that_exist(path: Path) -> None:
    for job in jobs(path).values():
        needed = job.get("needs", [])
        assert ({needed} if isinstance(needed, str) else set(needed)) <= jobs(path).keys()


def blocks(path: Path) -> list[list[str]]:
    """The commands of each block on a page."""
    return [
        block.splitlines() for block in re.findall(r"^```sh\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
    ]


def test_the_workflow_and_the_readme_run_what_the_page_on_kind_shows() -> None:
    shown = [command for block in blocks(KIND) for command in block]
    workflow = [step["run"].partition(" --timeout=")[0] for step in jobs(TEST)["kind"]["steps"] if "run" in step]
    [readme] = [block for block in blocks(ROOT / "README.md") if "kind create cluster" in block]
    assert [command for command in (*workflow, *readme) if command not in shown] == []
    assert workflow == readme[: len(workflow)]


def test_the_change_log_has_an_entry_for_this_version() -> None:
    from samara import __version__

    assert re.search(rf"^## {re.escape(__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
