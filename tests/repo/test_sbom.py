"""The SBOM and the licence list match the lock file, and every package has a licence."""

import json
import re
import tomllib
from email.message import Message
from importlib.metadata import PackageMetadata
from pathlib import Path
from typing import cast

import pytest
from scripts import sbom
from tests.support.pages import ROOT

LOCK = sbom.LOCK.read_text()


def test_a_lock_entry_is_read_completely() -> None:
    first = "a-b==1.2 ; sys_platform != 'win32' \\\n    --hash=sha256:11 \\\n    --hash=sha256:22\n"
    text = f"{first}c==3 \\\n    --hash=sha256:33\n"
    assert sbom.packages(text) == [
        sbom.Package("a-b", "1.2", "sys_platform != 'win32'", ("11", "22")),
        sbom.Package("c", "3", "", ("33",)),
    ]


def test_every_pinned_package_is_in_the_sbom_with_all_of_its_hashes() -> None:
    components = sbom.bom(LOCK)["components"]
    assert [component["name"] for component in components] == re.findall(r"^([a-z0-9._-]+)==", LOCK, re.MULTILINE)
    assert sum(len(component["hashes"]) for component in components) == LOCK.count("--hash=sha256:")
    assert len({component["bom-ref"] for component in components}) == len(components) > 20


def test_every_direct_dependency_is_in_the_sbom() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["aws"], *extras["fishykeys"]]
    names = {re.split(r"[<>=;\[ ]", requirement)[0].lower() for requirement in wanted}
    assert names <= {package.name for package in sbom.packages(LOCK)}


def test_the_page_on_security_states_the_number_of_dependencies() -> None:
    direct = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    locked = [sbom.packages((ROOT / "requirements" / f"{name}.txt").read_text()) for name in ("run", "all")]
    bare, with_clients = (len({package.name for package in parts}) for parts in locked)
    page = (ROOT / "docs" / "concepts" / "security.md").read_text()
    page = " ".join(page.split())
    assert f"has {len(direct)} direct dependencies, and {bare} with theirs." in page
    assert f"which the image has and `pip install .` leaves out, there are {with_clients}." in page


def test_every_package_has_a_known_licence_other_than_gpl() -> None:
    licences = dict(line.split(": ", 1) for line in sbom.licences(LOCK).splitlines())
    assert [name for name, licence in licences.items() if licence == sbom.UNKNOWN] == []
    assert [name for name, licence in licences.items() if re.search(r"\bA?GPL|General Public", licence)] == []


def test_every_licence_is_an_expression_that_spdx_knows() -> None:
    shown = {package.name: sbom.licence(package.name) for package in sbom.packages(LOCK)}
    assert [name for name, licence in shown.items() if not licence.is_spdx] == []
    words = {word for licence in shown.values() for word in re.split(r" AND | OR | WITH |[()]", licence.text) if word}
    assert words <= set(sbom.IDS)
    assert all("expression" in component["licenses"][0] for component in sbom.bom(LOCK)["components"])


BSD = "Redistributions in binary form must reproduce the above copyright notice."
SAYS: dict[str, tuple[dict[str, tuple[str, ...]], str, sbom.Licence]] = {
    "an expression": ({"License-Expression": ("MIT OR X",), "License": ("GPL",)}, "", sbom.Licence("MIT OR X", True)),
    "an identifier": ({"License": ("Apache-2.0",)}, "", sbom.Licence("Apache-2.0", True)),
    "a usual name": ({"License": ("MIT License",)}, "", sbom.Licence("MIT", True)),
    "two classifiers": (
        {
            "License": ("Dual License",),
            "Classifier": (
                "License :: OSI Approved :: MIT License",
                "License :: OSI Approved :: Apache Software License",
            ),
        },
        "",
        sbom.Licence("Apache-2.0 AND MIT", True),
    ),
    "some clauses of BSD": (
        {"Classifier": ("License :: OSI Approved :: BSD License",)},
        f"{BSD} Neither the name of the holder",
        sbom.Licence("BSD-3-Clause", True),
    ),
    "fewer clauses of BSD": (
        {"Classifier": ("License :: OSI Approved :: BSD License",)},
        BSD,
        sbom.Licence("BSD-2-Clause", True),
    ),
    "BSD without a text": (
        {"Classifier": ("License :: OSI Approved :: BSD License",)},
        "",
        sbom.Licence("BSD License", False),
    ),
    "a licence of its own": ({"License": ("As you like",)}, "", sbom.Licence("As you like", False)),
    "a whole text": ({"License": ("Permission is\nhereby granted",)}, "", sbom.Licence(sbom.UNKNOWN, False)),
    "nothing": ({}, "", sbom.Licence(sbom.UNKNOWN, False)),
}


@pytest.mark.parametrize("case", SAYS)
def test_the_licence_of_a_package_is_converted_to_spdx_if_possible(case: str) -> None:
    fields, texts, expected = SAYS[case]
    about = Message()
    for key, values in fields.items():
        for value in values:
            about[key] = value
    assert sbom.licence_of(cast(PackageMetadata, about), texts) == expected


def test_the_files_are_reproducible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path / "one", tmp_path / "two"):
        assert sbom.main(folder) == 0
    one, two = ((tmp_path / name / "samara.cdx.json").read_text() for name in ("one", "two"))
    assert one == two
    assert json.loads(one)["bomFormat"] == "CycloneDX"
    assert "licences.txt" in capsys.readouterr().out
