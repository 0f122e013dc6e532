"""No finding of lint is lost or moves to another line."""

from pathlib import Path

import pytest
from tests.cli.lint import golden

EXAMPLES = golden.examples()


def test_the_file_has_manifests_with_and_without_findings() -> None:
    assert sum(len(example.findings) for example in EXAMPLES) > 250
    assert any(not example.findings for example in EXAMPLES)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_findings_are_those_of_the_golden_file(number: int, tmp_path: Path) -> None:
    assert golden.findings_of(EXAMPLES[number], tmp_path) == EXAMPLES[number].findings
