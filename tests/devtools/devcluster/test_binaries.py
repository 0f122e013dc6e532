"""Where the programs of the control plane come from, with a stand-in for the Go command."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from samara_devtools.devcluster import DevclusterError, find
from samara_devtools.devcluster.binaries import MINUTES, cache_folder, read_recipe

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
# Writes what `go build -o DIR/ …` would write, after noting that it ran.
BUILDS = """
echo "$@" >> "$NOTES/calls"
for each in "$@"; do case "$each" in */bin/) out="$each";; esac; done
for name in server kube-apiserver kube-controller-manager kubectl; do
  echo '#!/bin/sh' > "$out$name"
  chmod +x "$out$name"
done
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache and only a shell on its PATH."""
    (tmp_path / "path").mkdir()
    for name in ("sh", "chmod", "sleep"):
        (tmp_path / "path" / name).symlink_to(f"/bin/{name}")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("HELM", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("NOTES", str(tmp_path))
    return tmp_path


def install(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def calls(machine: Path) -> list[str]:
    return (machine / "calls").read_text().splitlines()


def test_a_build_leaves_four_programs_in_the_cache_and_is_not_repeated(machine: Path) -> None:
    install(machine / "path" / "go", BUILDS)
    lines: list[str] = []
    binaries = find(lines.append)
    assert find(lines.append) == binaries
    assert len(calls(machine)) == 1
    assert sorted(path.name for path in binaries.etcd.parent.iterdir()) == sorted(PROGRAMS)
    assert binaries.etcd.parent == cache_folder() / read_recipe().key
    assert f"about {MINUTES} minutes" in lines[0]


def test_the_version_in_the_flags_is_that_of_go_mod(machine: Path) -> None:
    install(machine / "path" / "go", BUILDS)
    find(lambda line: None)
    recipe = read_recipe()
    assert f"version.gitVersion={recipe.kubernetes} " in calls(machine)[0]
    assert f"version.gitMinor={recipe.kubernetes.split('.')[1]} " in calls(machine)[0]


def test_another_go_sum_gives_another_cache_key(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module a\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/kubernetes v1.36.3\n)\n")
    (tmp_path / "go.sum").write_text("one")
    first = read_recipe(tmp_path)
    (tmp_path / "go.sum").write_text("two")
    assert read_recipe(tmp_path).key != first.key
    assert (first.go, first.kubernetes) == ("1.26", "v1.36.3")


def test_two_concurrent_processes_build_once(machine: Path) -> None:
    # The build ends only when the other caller has said that it waits.
    install(machine / "path" / "go", 'until [ -e "$NOTES/waits" ]; do sleep 0.01; done\n' + BUILDS)

    def progress(line: str) -> None:
        if line.startswith("Another process"):
            (machine / "waits").touch()

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(find, [progress, progress])
    assert first == second
    assert len(calls(machine)) == 1


def test_a_long_build_reports_progress(machine: Path) -> None:
    install(machine / "path" / "go", 'until [ -e "$NOTES/heard" ]; do sleep 0.01; done\n' + BUILDS)

    def progress(line: str) -> None:
        if line.startswith("Still building"):
            (machine / "heard").touch()

    find(progress, heartbeat=0.02)
    assert (machine / "heard").exists()


def test_without_go_one_line_gives_advice(machine: Path) -> None:
    with pytest.raises(DevclusterError) as failure:
        find(lambda line: None)
    message = str(failure.value)
    assert "\n" not in message
    for part in (f"install Go {read_recipe().go} or newer", "KUBEBUILDER_ASSETS", "--kubeconfig"):
        assert part in message


def test_a_failed_build_is_one_line_with_its_reason_and_leaves_nothing(machine: Path) -> None:
    install(machine / "path" / "go", "echo first >&2; echo 'go: no network here' >&2; exit 1\n")
    with pytest.raises(DevclusterError, match=r"failed \(go: no network here\): install Go") as failure:
        find(lambda line: None)
    assert "\n" not in str(failure.value)
    assert [path.suffix for path in cache_folder().iterdir()] == [".lock"]


def test_a_build_that_lacks_a_program_is_not_kept(machine: Path) -> None:
    install(machine / "path" / "go", BUILDS + 'rm "${out}kubectl"\n')
    (machine / "path" / "rm").symlink_to("/bin/rm")
    with pytest.raises(DevclusterError, match="no kubectl came out"):
        find(lambda line: None)
    assert not (cache_folder() / read_recipe().key).exists()


def test_kubebuilder_assets_comes_first(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = machine / "assets"
    assets.mkdir()
    for name in PROGRAMS:
        install(assets / name, "")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert find(lambda line: None).controller_manager == assets / "kube-controller-manager"
    assert not cache_folder().exists()


def test_kubebuilder_assets_without_a_program_names_it(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "assets"))
    (machine / "assets").mkdir()
    for name in PROGRAMS:
        install(machine / "assets" / name, "")
    os.remove(machine / "assets" / "kube-controller-manager")
    with pytest.raises(DevclusterError, match="lacks kube-controller-manager"):
        find(lambda line: None)
