"""Tables on a terminal."""

from __future__ import annotations

import sys

import pytest
from tests.cli.program import Terminal

from samara.cli.formats import DEFAULT_LAYOUT, JSONPATH, NAME, Form, Layout
from samara.cli.jsonpath import parse_template
from samara.cli.output import emit, table


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


def on_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: int, rows: list[list[str]], layout: Layout = DEFAULT_LAYOUT
) -> list[str]:
    screen = a_terminal(monkeypatch, columns)
    table(["NAME", "WHY"], rows, layout)
    return screen.getvalue().splitlines()


def a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> Terminal:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    return screen


def test_no_row_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["a", "the quick brown fox jumps over the lazy dog"], ["bb", "short"]]
    assert on_terminal(monkeypatch, 30, rows) == [
        "NAME  WHY",
        "a     the quick brown fox jum…",
        "bb    short",
    ]


def test_messages_are_cut_first_and_names_last(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ["k" * 12, "n" * 20, "v" * 16, "m" * 40]
    widths = {}
    for columns in (94, 90, 66, 60, 52, 10):
        screen = a_terminal(monkeypatch, columns)
        table(["KIND", "NAME", "VERB", "WHY"], [row], names="NAME")
        widths[columns] = [len(cell) for cell in screen.getvalue().splitlines()[1].split("  ")]
    assert widths == {
        94: [12, 20, 16, 40],
        90: [12, 20, 16, 36],
        66: [12, 20, 16, 12],
        60: [12, 20, 12, 10],
        52: [10, 16, 10, 10],
        10: [10, 10, 10, 10],
    }


def test_a_column_keeps_a_readable_width_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_terminal(monkeypatch, 5, [["a" * 10, "b" * 30]])[1] == f"{'a' * 10}  {'b' * 9}…"


def test_a_wide_table_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = on_terminal(monkeypatch, 30, [["a", "b" * 50]], Layout(is_wide=True))
    assert lines == ["NAME  WHY", f"a     {'b' * 50}"]


def test_rows_without_headers_are_no_wider_than_their_cells(capsys: pytest.CaptureFixture[str]) -> None:
    table(["NAME", "WHY"], [["a", "b"], ["cc", "d"]], Layout(has_headers=False))
    assert capsys.readouterr().out == "a   b\ncc  d\n"
    table(["NAME", "WHY"], [], Layout(has_headers=False))
    assert capsys.readouterr().out == ""


def test_nothing_is_cut_in_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    table(["NAME", "WHY"], [["a", "x" * 300]])
    assert capsys.readouterr().out == f"NAME  WHY\na     {'x' * 300}\n"


def test_control_characters_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    table(["NAME"], [["a\x1b[2Jb"]])
    assert capsys.readouterr().out == "NAME\na·[2Jb\n"


def emitted(capsys: pytest.CaptureFixture[str], form: Form) -> str:
    addresses = [
        {"kind": "v1/Secret", "namespace": "a", "name": "db"},
        {"kind": "v1/Secret", "namespace": "a", "name": "db"},
        {"kind": "v1/Secret", "namespace": "b", "name": "db"},
        {"kind": "accurate.cybozu.com/v2/SubNamespace", "namespace": "a", "name": "shop"},
    ]
    emit(lambda: {"objects": addresses}, form, lambda: None, lambda: addresses)
    return capsys.readouterr().out


def test_names_are_those_of_kubectl_and_each_object_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert emitted(capsys, Form(NAME)).splitlines() == [
        "secret/db",
        "secret/db",
        "subnamespace.accurate.cybozu.com/shop",
    ]


def test_a_template_prints_no_newline_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert emitted(capsys, Form(JSONPATH, parse_template("{.objects[*].name}"))) == "db db db shop"
