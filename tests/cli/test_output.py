"""Tables on a terminal."""

from __future__ import annotations

import sys

import pytest
from tests.cli.program import Terminal

from samara.cli.output import table


@pytest.mark.parametrize(("variables", "bold"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, False)])
def test_header_is_bold_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], bold: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in ({"TERM": "xterm-256color"} | variables).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    table(["NAME"], [["a"]])
    assert ("\x1b[" in screen.getvalue()) is bold


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int, rows: list[list[str]]) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    table(["NAME", "WHY"], rows)
    return screen.getvalue().splitlines()


def test_the_last_column_is_folded_below_itself_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["a", "the quick brown fox jumps over the lazy dog"], ["bb", "short"]]
    assert on_terminal(monkeypatch, 30, rows) == [
        "NAME  WHY",
        "a     the quick brown fox",
        "      jumps over the lazy dog",
        "bb    short",
    ]


def test_a_word_that_is_longer_than_the_column_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = on_terminal(monkeypatch, 30, [["a", "x" * 30], ["b", ""]])
    assert lines == ["NAME  WHY", f"a     {'x' * 24}", f"      {'x' * 6}", "b"]


def test_no_column_is_folded_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "the quick brown fox jumps over the lazy dog"
    assert on_terminal(monkeypatch, 25, [["a", long]]) == ["NAME  WHY", f"a     {long}"]


def test_no_line_is_folded_in_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    table(["NAME", "WHY"], [["a", "x" * 300]])
    assert capsys.readouterr().out == f"NAME  WHY\na     {'x' * 300}\n"


def test_control_characters_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    table(["NAME"], [["a\x1b[2Jb"]])
    assert capsys.readouterr().out == "NAME\na·[2Jb\n"
