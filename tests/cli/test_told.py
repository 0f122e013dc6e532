"""What the commands say of a source whose values cannot be read."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args, get_type_hints

import pytest
from tests.engine.parts import a_key
from tests.world import at

from samara.cli.outcome import _FAULTS
from samara.cli.session import Picture
from samara.cli.status import fault_word
from samara.cli.why import _stop
from samara.core.model import SECRET
from samara.core.table import Table
from samara.core.want import Adopt, Fault
from samara.core.write import Blocked
from samara.dialects import sync_to
from samara.kube.snapshot import Snapshot

KEY = a_key()
PLACE = at("a", "db")
UNKNOWN = Blocked(KEY, PLACE, "invalid", "what should be here is not known")
CONFLICT = Blocked(KEY, PLACE, "conflict", "somebody else's")
DIALECT = sync_to.dialect((SECRET,), lambda where, words: dict(words), Adopt.NEVER)
PICTURES = {
    whole: Picture(Snapshot.__new__(Snapshot), Table((replace(DIALECT, name=KEY.dialect, whole=whole),)), {})
    for whole in (True, False)
}
FAULT = Blocked(KEY, KEY.source, "invalid", "path /app/db of vault: forbidden")


@pytest.mark.parametrize(
    ("blocked", "whole", "expected"),
    [
        ((), False, None),
        ((UNKNOWN,), False, UNKNOWN),
        ((UNKNOWN, FAULT), False, FAULT),
        ((FAULT, CONFLICT), True, CONFLICT),
        ((FAULT,), False, None),
        ((FAULT,), True, FAULT),
    ],
)
def test_why_names_the_path_where_a_place_is_empty_because_of_it(
    blocked: tuple[Blocked, ...], whole: bool, expected: Blocked | None
) -> None:
    assert _stop(blocked, KEY, PLACE, PICTURES[whole]) == expected


def test_every_fault_has_its_word_in_a_plan() -> None:
    assert {*_FAULTS, "NoNamespace"} == set(get_args(get_type_hints(Fault)["reason"]))


@pytest.mark.parametrize(("reason", "word"), [("Invalid", "invalid"), ("FetchError", "fetch-error")])
def test_status_writes_reasons_as_all_reasons_are_written(reason: str, word: str) -> None:
    assert fault_word(Fault(reason, "")) == word  # type: ignore[arg-type]
