"""Confirmation prompts, and the message if there is no answer."""

from __future__ import annotations

from unittest.mock import patch

import click
from tests.cli.program import Done, inside

from samara.cli.main import run
from samara.cli.options import Command, wait_for


async def _asks() -> None:
    click.confirm("Remove 2 orphans?", abort=True, err=True)
    click.echo("Removed.")


@click.command("orphans", cls=Command)
def orphans() -> None:
    wait_for(_asks())


def answered(text: str) -> Done:
    return Done(*inside(lambda: run(orphans, "samara"), stdin=text))


def test_y_continues() -> None:
    assert (answered("y\n").code, answered("y\n").out) == (0, "Removed.\n")


def test_n_aborts_without_a_message() -> None:
    done = answered("n\n")
    assert (done.code, done.out) == (1, "")
    assert "expected" not in done.err


def test_missing_answer_is_exit_1_and_one_line() -> None:
    done = answered("")
    assert (done.code, done.out) == (1, "")
    question, message = done.err.splitlines()
    assert question.startswith("Remove 2 orphans?")
    assert message == "samara: expected an answer, or --yes, found the end of the input; nothing was changed"


def test_interrupted_question_is_exit_130() -> None:
    with patch("click.termui.visible_prompt_func", side_effect=KeyboardInterrupt):
        done = answered("")
    assert (done.code, "expected" in done.err) == (130, False)
