"""The SBOM and the licence list say what the lock file says, and name a licence for everything."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from scripts import sbom
from tests.pages import ROOT

LOCK = sbom.LOCK.read_text()


def test_a_lock_entry_is_read_whole() -> None:
    first = "a-b==1.2 ; sys_platform != 'win32' \\\n    --hash=sha256:11 \\\n    --hash=sha256:22\n"
    text = f"{first}c==3 \\\n    --hash=sha256:33\n"
    assert sbom.parts(text) == [
        sbom.Part("a-b", "1.2", "sys_platform != 'win32'", ("11", "22")),
        sbom.Part("c", "3", "", ("33",)),
    ]


def test_every_pinned_package_is_in_the_sbom_with_all_of_its_hashes() -> None:
    components = sbom.bom(LOCK)["components"]
    assert [each["name"] for each in components] == re.findall(r"^([a-z0-9._-]+)==", LOCK, re.MULTILINE)
    assert sum(len(each["hashes"]) for each in components) == LOCK.count("--hash=sha256:")
    assert len({each["bom-ref"] for each in components}) == len(components) > 20


def test_every_direct_dependency_is_in_the_sbom() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["aws"], *extras["fishykeys"]]
    names = {re.split(r"[<>=;\[ ]", each)[0].lower() for each in wanted}
    assert names <= {part.name for part in sbom.parts(LOCK)}


def test_every_package_has_a_licence_and_none_binds_our_users() -> None:
    said = dict(line.split(": ", 1) for line in sbom.licences(LOCK).splitlines())
    assert [name for name, licence in said.items() if licence == sbom.UNKNOWN] == []
    assert [name for name, licence in said.items() if re.search(r"\bA?GPL|General Public", licence)] == []


def test_the_files_are_the_same_each_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path / "one", tmp_path / "two"):
        assert sbom.main(folder) == 0
    one, two = ((tmp_path / name / "samara.cdx.json").read_text() for name in ("one", "two"))
    assert one == two
    assert json.loads(one)["bomFormat"] == "CycloneDX"
    assert "licences.txt" in capsys.readouterr().out
