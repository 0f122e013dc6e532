"""Nothing that lint finds is lost or moves to another line."""

from pathlib import Path

import pytest
from tests.cli.lint import golden

CASES = golden.cases()


def test_the_file_has_manifests_with_and_without_findings() -> None:
    assert sum(len(case.findings) for case in CASES) > 250
    assert any(not case.findings for case in CASES)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_findings_are_those_of_the_golden_file(number: int, tmp_path: Path) -> None:
    assert golden.found(CASES[number], tmp_path) == CASES[number].findings
