"""The pages present every vocabulary: people find it, its rules, its example, and who can make it write where."""

from __future__ import annotations

import re
from typing import Any

import pytest
from scripts import reference
from tests.support.pages import EXAMPLES, ROOT

from samara.core.vocabulary import Vocabulary
from samara.vocabularies import VOCABULARIES

DOCS = ROOT / "docs"
every_vocabulary = pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=lambda vocabulary: vocabulary.name)


def rules_of(vocabulary: Vocabulary[Any]) -> str:
    return f"reference/{vocabulary.name}.md"


@every_vocabulary
def test_a_vocabulary_has_a_page_with_every_rule_and_an_example(vocabulary: Vocabulary[Any]) -> None:
    assert f"\n- [{reference.title_of(vocabulary)}]({rules_of(vocabulary)})" in (DOCS / "index.md").read_text()
    assert re.search(r"^1\. ", (DOCS / rules_of(vocabulary)).read_text(), re.MULTILINE)
    assert (EXAMPLES / vocabulary.name / "README.md").exists()


@every_vocabulary
def test_the_page_has_the_rows_for_readme_start_and_the_security_page(vocabulary: Vocabulary[Any]) -> None:
    [in_short] = reference.table_of(vocabulary, "you want")
    guide = re.fullmatch(r"\[.+\]\(\.\./(guides/[-\w]+\.md)\)", in_short["guide"])
    assert guide is not None
    assert (DOCS / guide[1]).exists()
    with_settings = [row["with"] for row in reference.table_of(vocabulary, "with")]
    assert with_settings
    assert all(text == "always" or text.startswith("`tenancy: ") for text in with_settings)


@every_vocabulary
def test_people_read_that_a_vocabulary_is_off_until_the_settings_name_it(vocabulary: Vocabulary[Any]) -> None:
    for rows in (reference.vocabularies_in_short(), reference.vocabularies_by_purpose()):
        (row,) = (row for row in rows.splitlines() if f"reference/{vocabulary.name}.md)" in row)
        assert ("off until" in row) == vocabulary.is_off_until_named


@every_vocabulary
def test_the_docstring_of_a_vocabulary_says_what_users_do_and_what_samara_does(vocabulary: Vocabulary[Any]) -> None:
    assert re.fullmatch(r"users [^;]+; Samara [^;.]+", reference.summary_of(vocabulary))
