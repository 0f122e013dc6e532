"""Every seeded fault fits the present code and names an existing test. It takes a second to check this."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.contract.seeds import FAULTS

TESTS = Path(__file__).resolve().parents[1]
CODE = TESTS.parent / "src" / "samara"


def test_every_fault_replaces_a_text_that_is_once_in_its_file() -> None:
    occurrences = {fault.title: (CODE / fault.path).read_text().count(fault.good) for fault in FAULTS}
    assert {title: times for title, times in occurrences.items() if times != 1} == {}


def test_every_fault_has_its_own_title_and_changes_something() -> None:
    assert [title for title, times in Counter(fault.title for fault in FAULTS).items() if times > 1] == []
    assert [fault.title for fault in FAULTS if fault.good == fault.bad] == []


def test_every_fault_names_an_existing_test() -> None:
    def exists(by: str) -> bool:
        file, _, name = by.partition("::")
        return f"def {name.rpartition('::')[2]}(" in (TESTS / file).read_text()

    assert [fault.title for fault in FAULTS if not exists(fault.by)] == []
