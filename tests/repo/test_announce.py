"""`make test` announces what it will build and how long that takes, with the figures of the build scripts."""

import os
import subprocess
import sys
from pathlib import Path

from scripts import announce
from tests.support.pages import ROOT

from samara_devtools.devcluster import binaries, helm_program


def announced(cache: Path, **more: str) -> str:
    """Runs the script with a Python that has no installed packages."""
    kept = {key: value for key, value in os.environ.items() if key not in ("KUBEBUILDER_ASSETS", "HELM", "PYTHONPATH")}
    command = (sys.executable, "-S", str(ROOT / "scripts" / "announce.py"))
    env = {**kept, "XDG_CACHE_HOME": str(cache), **more}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def test_on_a_bare_machine_every_build_is_announced_with_its_duration(tmp_path: Path) -> None:
    announcement = announced(tmp_path)
    for minutes in (binaries.MINUTES, helm_program.MINUTES):
        assert f"about {minutes} minutes, once per version" in announcement
    assert f"all tests: about {announce.SUITE_MINUTES} minutes." in announcement
    assert announcement.count("nothing to build") == 0


def test_an_existing_build_is_not_announced_as_work(tmp_path: Path) -> None:
    program = tmp_path / "samara" / "devcluster" / binaries.read_recipe().key / "kube-apiserver"
    program.parent.mkdir(parents=True)
    program.touch()
    assert f"the control plane is there, in {program.parent}: nothing to build" in announced(tmp_path)


def test_programs_from_the_environment_are_used(tmp_path: Path) -> None:
    announcement = announced(tmp_path, KUBEBUILDER_ASSETS="/opt/assets", HELM="/opt/helm")
    assert "the control plane of KUBEBUILDER_ASSETS (/opt/assets) is used" in announcement
    assert "the helm of HELM (/opt/helm) is used" in announcement
