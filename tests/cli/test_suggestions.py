"""A mistyped command, flag or value is wrong usage, and the message names what was probably meant."""

from __future__ import annotations

import click
import pytest
from tests.cli.program import samara_inside
from tests.support.toys import full_registry

from samara.cli.commands.release import check_names, not_held
from samara.cli.inspect.namespaces import not_found
from samara.cli.suggestions import did_you_mean


def test_the_most_similar_words_are_named_first() -> None:
    assert did_you_mean("statsu", ["plan", "state", "status"]) == "; did you mean 'status' or 'state'?"


def test_nothing_is_said_if_no_word_is_similar() -> None:
    assert did_you_mean("frobnicate", ["plan", "status"]) == ""


def test_a_word_that_differs_in_upper_and_lower_case_only_is_named_alone() -> None:
    assert did_you_mean("secret", ["FishySecret", "Secret", "Secrets"]) == "; did you mean 'Secret'?"


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


@pytest.mark.parametrize(
    ("key", "meant"),
    [("secret-cpoy/Secret/admin/db", "did you mean 'secret-copy'?"), ("secret-copy/secret/admin/db", "'Secret'?")],
)
def test_a_mistyped_key_of_a_held_deletion_is_wrong_usage(key: str, meant: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        check_names(key, full_registry())
    assert caught.value.message.endswith(meant)


def test_a_key_that_is_not_held_is_answered_with_the_one_that_was_meant() -> None:
    held = ["secret-copy/Secret/admin/db", "sync-to/ConfigMap/team/ca"]
    assert not_held("secret-copy/Secret/admin/bd", "samara", held).endswith(
        "did you mean 'secret-copy/Secret/admin/db'?"
    )
    assert not_held("fishysecret/FishySecret/x/y", "samara", held).endswith(f"; held are: {', '.join(held)}")
    assert not_held("secret-copy/Secret/admin/db", "samara", []).endswith("; nothing is held")


def test_a_mistyped_root_of_a_tree_is_reported_with_similar_namespaces() -> None:
    assert str(not_found("amce", ["acme", "shop"])).endswith("; did you mean 'acme'?")
    assert str(not_found("amce")).endswith("a namespace that exists")
