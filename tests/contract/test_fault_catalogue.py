"""Every row of the fault catalogue has a test that carries its number in its name."""

from __future__ import annotations

import re
from pathlib import Path

ROWS = range(1, 51)
_NAMED = re.compile(r"def test_fault_(\d\d)(?:_(\d\d))?_")


def test_every_row_of_the_fault_catalogue_has_a_test_named_after_it() -> None:
    texts = [file.read_text(encoding="utf-8") for file in Path(__file__).parents[1].rglob("test_*.py")]
    matches = {int(row) for text in texts for rows in _NAMED.findall(text) for row in rows if row}
    assert [row for row in ROWS if row not in matches] == []
