"""Every manifest that a test of lint reads, under the settings of that test, with all findings.

`python -m tests.cli.lint.golden` writes the findings anew after a change that users should see: read its diff. The
number of findings and their lines should stay as they are.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from samara.cli.lint import lint_files
from samara.settings import Settings, parse

FILE = Path(__file__).with_name("golden.json")


class Example(NamedTuple):
    settings: dict[str, Any]
    namespace: str
    files: dict[str, str]
    findings: list[list[Any]]


def examples() -> list[Example]:
    return [Example(**fields) for fields in json.loads(FILE.read_text())]


def findings_of(example: Example, folder: Path) -> list[list[Any]]:
    """The findings, with the file names of the example."""
    for name, text in example.files.items():
        (folder / name).write_text(text)
    paths = tuple(str(folder / name) for name in example.files)
    reported = lint_files(paths, _settings(example.settings), example.namespace).findings
    return [[Path(finding.file).name, *finding[1:]] for finding in reported]


def _settings(raw: dict[str, Any]) -> Settings:
    # A settings file must serve a vocabulary; a test can build settings without one.
    return Settings(vocabularies={}) if raw == {"vocabularies": {}} else parse(json.dumps(raw), "settings")


def write() -> None:
    renewed = []
    for example in examples():
        with tempfile.TemporaryDirectory() as folder:
            renewed.append(example._replace(findings=findings_of(example, Path(folder)))._asdict())
    FILE.write_text(json.dumps(renewed, indent=1) + "\n")


if __name__ == "__main__":
    write()
