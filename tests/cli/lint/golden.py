"""Every manifest that a test of lint reads, under the settings of that test, with all that lint finds.

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


class Case(NamedTuple):
    settings: dict[str, Any]
    namespace: str
    files: dict[str, str]
    findings: list[list[Any]]


def cases() -> list[Case]:
    return [Case(**case) for case in json.loads(FILE.read_text())]


def found(case: Case, folder: Path) -> list[list[Any]]:
    """The findings, with names of files as in the case."""
    for name, text in case.files.items():
        (folder / name).write_text(text)
    paths = tuple(str(folder / name) for name in case.files)
    found = lint_files(paths, _settings(case.settings), case.namespace)
    return [[Path(finding.file).name, *finding[1:]] for finding in found]


def _settings(raw: dict[str, Any]) -> Settings:
    # A file cannot name no vocabulary at all, but a test can.
    return Settings(vocabularies={}) if raw == {"vocabularies": {}} else parse(json.dumps(raw), "settings")


def write() -> None:
    renewed = []
    for case in cases():
        with tempfile.TemporaryDirectory() as folder:
            renewed.append(case._replace(findings=found(case, Path(folder)))._asdict())
    FILE.write_text(json.dumps(renewed, indent=1) + "\n")


if __name__ == "__main__":
    write()
