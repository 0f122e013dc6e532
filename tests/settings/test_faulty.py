"""The exact messages for several hundred faulty settings."""

import json

import pytest
from tests.settings import faulty

EXPECTED: dict[str, list[str]] = json.loads(faulty.FILE.read_text())


def test_the_file_has_every_text_and_most_are_faulty() -> None:
    assert list(EXPECTED) == list(dict.fromkeys(faulty.texts()))
    assert sum(map(bool, EXPECTED.values())) > 400


@pytest.mark.parametrize("text", EXPECTED)
def test_the_messages_for_faulty_settings_are_those_of_the_file(text: str) -> None:
    assert faulty.messages(text) == EXPECTED[text]
