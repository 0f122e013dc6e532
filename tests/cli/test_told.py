"""What the commands say of a source whose values cannot be read."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest
from tests.engine.parts import a_key
from tests.world import at

from samara.cli.outcome import _FAULTS
from samara.cli.status import fault_word
from samara.cli.why import _stop
from samara.core.want import Fault
from samara.core.write import Blocked

KEY = a_key()
PLACE = at("a", "db")
UNKNOWN = Blocked(KEY, PLACE, "invalid", "what should be here is not known")
CONFLICT = Blocked(KEY, PLACE, "conflict", "somebody else's")
FAULT = Blocked(KEY, KEY.source, "invalid", "path /app/db of vault: forbidden")


@pytest.mark.parametrize(
    ("blocked", "expected"),
    [
        ((), None),
        ((UNKNOWN,), UNKNOWN),
        ((UNKNOWN, FAULT), FAULT),
        ((FAULT, CONFLICT), CONFLICT),
        ((FAULT,), None),
    ],
)
def test_why_names_the_path_where_a_place_is_empty_because_of_it(
    blocked: tuple[Blocked, ...], expected: Blocked | None
) -> None:
    assert _stop(blocked, KEY, PLACE) == expected


def test_every_fault_has_its_word_in_a_plan() -> None:
    assert {*_FAULTS, "NoNamespace"} == set(get_args(get_type_hints(Fault)["reason"]))


@pytest.mark.parametrize(("reason", "word"), [("Invalid", "invalid"), ("FetchError", "fetch-error")])
def test_status_writes_reasons_as_all_reasons_are_written(reason: str, word: str) -> None:
    assert fault_word(Fault(reason, "")) == word  # type: ignore[arg-type]
