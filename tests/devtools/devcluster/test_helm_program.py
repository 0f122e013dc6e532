"""Where helm comes from, with a stand-in for the Go command."""

from pathlib import Path

import pytest
from tests.devtools.devcluster.test_binaries import calls, install, machine

from samara_devtools.devcluster import DevclusterError
from samara_devtools.devcluster.helm_program import MINUTES, cached_helm, find_helm, helm_version

__all__ = ["machine"]
# Writes what `go build -o DIR/ …` would write, after noting that it ran.
BUILDS = """
echo "$@" >> "$NOTES/calls"
for each in "$@"; do case "$each" in */bin/) out="$each";; esac; done
echo '#!/bin/sh' > "${out}helm"
chmod +x "${out}helm"
"""


def test_a_build_is_kept_and_not_repeated(machine: Path) -> None:
    install(machine / "path" / "go", BUILDS)
    lines: list[str] = []
    program = find_helm(lines.append)
    assert program == find_helm(lines.append) == cached_helm()
    assert len(calls(machine)) == 1
    assert "helm.sh/helm/v4/cmd/helm" in calls(machine)[0]
    assert f"about {MINUTES} minutes" in lines[0]
    assert helm_version() in lines[0]


def test_a_named_helm_comes_first(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM", "/opt/helm")
    assert find_helm(lambda line: None) == Path("/opt/helm")


def test_a_failed_build_is_one_line_with_its_reason_and_leaves_nothing(machine: Path) -> None:
    install(machine / "path" / "go", "echo 'go: no network here' >&2; exit 1\n")
    with pytest.raises(DevclusterError, match="no network here"):
        find_helm(lambda line: None)
    assert [path.suffix for path in cached_helm().parent.parent.iterdir()] == [".lock"]


def test_without_go_one_line_gives_advice(machine: Path) -> None:
    with pytest.raises(DevclusterError, match="the variable HELM"):
        find_helm(lambda line: None)
