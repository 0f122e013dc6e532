"""Faults: a message for users, and its parts for tools. Reasons, and the two forms in which they are shown."""

from __future__ import annotations

from typing import get_args

import pytest

from samara.core.desired import REASONS, Mistake, Reason, in_camel_case, in_lower_case, mismatch, not_copied


@pytest.mark.parametrize(
    ("field", "found", "message"),
    [
        ("spec.name", "'x'", "spec.name: a name was expected, found 'x'"),
        ("spec.name", "", "spec.name: a name was expected"),
        ("", "'x'", "a name was expected, found 'x'"),
    ],
)
def test_a_mismatch_names_the_field_the_expected_value_and_the_actual_one(field: str, found: str, message: str) -> None:
    fault = mismatch(field, "a name", found)
    assert (fault.message, fault.field) == (message, field)
    assert fault.mistakes == (Mistake(field, "a name", found),)


def test_a_trailing_comma_appears_only_in_the_message() -> None:
    fault = mismatch("a", "letters, digits,", "'!'")
    assert fault.message == "a: letters, digits, was expected, found '!'"
    assert fault.mistakes[0].expected == "letters, digits"


def test_a_fault_of_a_nested_value_has_the_complete_path() -> None:
    inner = mismatch("matchLabels[a]", "a label value", "'!'").below("spec.selector")
    assert inner.message == "spec.selector.matchLabels[a]: a label value was expected, found '!'"
    assert inner.field == inner.mistakes[0].field == "spec.selector.matchLabels[a]"
    outer = mismatch("", "a mapping").below("spec.selector")
    assert outer.message == "spec.selector: a mapping was expected"
    assert outer.field == outer.mistakes[0].field == "spec.selector"


def test_a_key_that_is_not_copied_is_reported_with_its_field_path() -> None:
    assert not_copied("labels", "example.com/a").at == "metadata.labels.example.com/a"
    assert not_copied("annotations", "a").found == "an annotation that does not travel"


@pytest.mark.parametrize(("shown", "command"), [("NoNamespace", "no-namespace"), ("FetchError", "fetch-error")])
def test_a_reason_has_one_form_in_conditions_and_one_in_commands(shown: str, command: str) -> None:
    assert (in_camel_case(command), in_lower_case(shown)) == (shown, command)


def test_every_reason_has_a_meaning_and_advice() -> None:
    assert tuple(REASONS) == get_args(Reason)
    assert all(text.meaning and text.advice for text in REASONS.values())
