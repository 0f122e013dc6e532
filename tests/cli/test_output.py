"""Tables on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from samara.cli.output import table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("variables", "bold"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, False)])
def test_a_header_stands_out_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], bold: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in ({"TERM": "xterm-256color"} | variables).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    table(["NAME"], [["a"]])
    assert ("\x1b[" in screen.getvalue()) is bold
