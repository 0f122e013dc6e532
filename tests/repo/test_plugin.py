"""The plugin of kubectl runs from its archive, and its manifest names archives that exist."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from scripts import image_tree, plugin

from samara import __version__

URL = "https://images.example.com/releases/v1"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    image_tree.lay_out(folder / "tree")
    made = folder / "kubectl-samara_linux_amd64.tar.gz"
    plugin.archive(folder / "tree", made)
    plugin.archive(folder / "tree", folder / "again.tar.gz")
    assert made.read_bytes() == (folder / "again.tar.gz").read_bytes()
    return made


@pytest.fixture(scope="module")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("krew") / "a folder"
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


def run(program: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """With nothing of this environment, but for a shell and its commands."""
    env = {"PATH": os.defpath, "HOME": "/nonexistent"}
    return subprocess.run([program, *args], env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.heavy
def test_the_plugin_runs_from_its_archive_without_a_python_on_the_machine(unpacked: Path) -> None:
    done = run(unpacked / plugin.PROGRAM, "version")
    assert done.returncode == 0, done.stderr
    assert __version__ in done.stdout
    assert "kind: Deployment" in run(unpacked / plugin.PROGRAM, "manifests").stdout


@pytest.mark.heavy
def test_the_plugin_runs_through_the_link_that_krew_makes(unpacked: Path, tmp_path: Path) -> None:
    link = tmp_path / "kubectl-samara"
    link.symlink_to(unpacked / plugin.PROGRAM)
    assert __version__ in run(link, "version").stdout


@pytest.mark.heavy
def test_the_archive_has_a_license_and_no_file_outside_its_folder(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        names = tar.getnames()
    assert {"LICENSE", plugin.PROGRAM} <= set(names)
    assert [name for name in names if name.startswith("/") or ".." in name.split("/")] == []


def test_the_manifest_is_what_krew_accepts(tmp_path: Path) -> None:
    archives = [tmp_path / f"kubectl-samara_linux_{architecture}.tar.gz" for architecture in ("amd64", "arm64")]
    for number, path in enumerate(archives):
        path.write_bytes(bytes([number]))
    made = plugin.manifest(__version__, f"{URL}/", archives)
    assert (made["apiVersion"], made["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert made["metadata"] == {"name": "samara"}
    spec = made["spec"]
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert len(spec["shortDescription"]) <= 50
    assert [platform["selector"]["matchLabels"] for platform in spec["platforms"]] == [
        {"os": "linux", "arch": "amd64"},
        {"os": "linux", "arch": "arm64"},
    ]
    for path, platform in zip(archives, spec["platforms"], strict=True):
        assert platform["uri"] == f"{URL}/{path.name}"
        assert platform["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert platform["bin"] == plugin.PROGRAM


def test_the_script_prints_the_manifest_and_refuses_other_archives(tmp_path: Path) -> None:
    good, bad = tmp_path / "kubectl-samara_linux_arm64.tar.gz", tmp_path / "samara.zip"
    for path in (good, bad):
        path.write_bytes(b"")
    script = (sys.executable, plugin.__file__, "manifest", URL)
    printed = subprocess.run([*script, good], capture_output=True, text=True, check=True).stdout
    assert yaml.safe_load(printed) == plugin.manifest(__version__, URL, [good])
    refused = subprocess.run([*script, bad], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "found samara.zip" in refused.stderr
