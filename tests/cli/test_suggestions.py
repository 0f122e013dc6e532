"""A mistyped command, flag or value is wrong usage, and the message names what was probably meant."""

from __future__ import annotations

import pytest
from tests.cli.program import samara_inside

from samara.cli.suggestions import did_you_mean


def test_the_most_similar_words_are_named_first() -> None:
    assert did_you_mean("statsu", ["plan", "state", "status"]) == "; did you mean 'status' or 'state'?"


def test_nothing_is_said_if_no_word_is_similar() -> None:
    assert did_you_mean("frobnicate", ["plan", "status"]) == ""


def test_upper_and_lower_case_make_no_difference() -> None:
    assert did_you_mean("SYNC-TO", ["secret-copy", "sync-to"]) == "; did you mean 'sync-to'?"


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (("statsu",), "expected a command, found 'statsu'; did you mean 'status'?"),
        (("status", "--vocabluary=sync-to"), "'--vocabulary'"),
        (("--verison",), "'--version'"),
        (("status", "--vocabulary", "syncto"), "; did you mean 'sync-to'?"),
        (("run", "--vocabulary", "syncto"), "; did you mean 'sync-to'?"),
        (("orphans", "--reason", "source-goen"), "; did you mean 'source-gone'?"),
        (("completion", "bahs"), "; did you mean 'bash'?"),
    ],
)
def test_a_mistyped_word_is_wrong_usage_and_the_message_names_what_was_meant(args: tuple[str, ...], meant: str) -> None:
    done = samara_inside(*args)
    assert (done.code, done.out) == (2, "")
    assert meant in done.err.splitlines()[-1]


def test_an_unknown_command_that_resembles_none_is_wrong_usage() -> None:
    done = samara_inside("frobnicate")
    assert (done.code, done.err.splitlines()[-1]) == (2, "Error: expected a command, found 'frobnicate'")
