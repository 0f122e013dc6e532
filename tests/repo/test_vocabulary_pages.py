"""The pages present every vocabulary: people find it, its rules, its example, and who can make it write where."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scripts import reference
from tests.support.pages import EXAMPLES, ROOT

from samara.core.vocabulary import Vocabulary
from samara.vocabularies import VOCABULARIES

DOCS = ROOT / "docs"
every_vocabulary = pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=lambda vocabulary: vocabulary.name)


def rows_of(page: Path, section: str) -> list[str]:
    """The rows of the tables in a section of a page."""
    text = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    (found,) = (part for part in text if part.startswith(f"{section}\n"))
    return [line for line in found.splitlines() if line.startswith("| ")]


def rules_of(vocabulary: Vocabulary[Any]) -> str:
    return f"reference/{vocabulary.name}.md"


@every_vocabulary
def test_a_vocabulary_has_a_page_with_every_rule_and_an_example(vocabulary: Vocabulary[Any]) -> None:
    assert f"\n- [{reference.title_of(vocabulary)}]({rules_of(vocabulary)})" in (DOCS / "index.md").read_text()
    assert re.search(r"^1\. ", (DOCS / rules_of(vocabulary)).read_text(), re.MULTILINE)
    assert (EXAMPLES / vocabulary.name / "README.md").exists()


@every_vocabulary
def test_people_who_choose_a_vocabulary_find_it(vocabulary: Vocabulary[Any]) -> None:
    for rows, link in (
        (rows_of(ROOT / "README.md", "Vocabularies"), f"(docs/{rules_of(vocabulary)})"),
        (rows_of(DOCS / "start.md", "Choose a vocabulary"), f"({rules_of(vocabulary)})"),
    ):
        (row,) = (row for row in rows if link in row)
        assert ("off until" in row) == vocabulary.is_off_until_named


@every_vocabulary
def test_the_security_page_says_who_can_make_a_vocabulary_write(vocabulary: Vocabulary[Any]) -> None:
    first, second = (f"| {reference.title_of(vocabulary)}{end}" for end in (" |", ", `tenancy: "))
    rows = rows_of(DOCS / "concepts" / "security.md", "Who can make it write where")
    assert [row for row in rows if row.startswith((first, second)) and row.count(" | ") == 4]


@every_vocabulary
def test_the_docstring_of_a_vocabulary_says_what_users_do_and_what_samara_does(vocabulary: Vocabulary[Any]) -> None:
    assert re.fullmatch(r"users [^;]+; Samara [^;.]+", reference.summary_of(vocabulary))
