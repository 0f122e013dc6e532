"""The faults to seed fit the code as it is: whoever changes a line that one of them quotes is told in seconds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.contract.seeds import FAULTS

TESTS = Path(__file__).resolve().parents[1]
CODE = TESTS.parent / "src" / "samara"


def test_what_a_fault_replaces_is_in_its_file_exactly_once() -> None:
    found = {fault.title: (CODE / fault.path).read_text().count(fault.good) for fault in FAULTS}
    assert {title: times for title, times in found.items() if times != 1} == {}


def test_every_fault_has_a_name_of_its_own_and_changes_something() -> None:
    assert [title for title, times in Counter(fault.title for fault in FAULTS).items() if times > 1] == []
    assert [fault.title for fault in FAULTS if fault.good == fault.bad] == []


def test_the_test_that_catches_a_fault_is_there() -> None:
    def is_there(by: str) -> bool:
        file, _, name = by.partition("::")
        return f"def {name.rpartition('::')[2]}(" in (TESTS / file).read_text()

    assert [fault.title for fault in FAULTS if not is_there(fault.by)] == []
