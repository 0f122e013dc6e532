"""Long commands show on a terminal how far they are, on stderr and only there."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress

import pytest
from tests.cli.program import environment
from tests.cluster.support.stage import Stage

pytestmark = pytest.mark.cluster


def on_terminal(stage: Stage, *args: str) -> tuple[str, str]:
    """The output of a command, and what a terminal gets that is connected to its stderr."""
    terminal, ours = pty.openpty()
    command = [sys.executable, "-m", "samara.cli.main", *args, f"--kubeconfig={stage.cluster.kubeconfig}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=ours, env=environment(), text=True) as process:
        os.close(ours)
        shown = b""
        with suppress(OSError):  # the other end of a terminal was closed
            while chunk := os.read(terminal, 4096):
                shown += chunk
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(terminal)
    assert process.returncode == 0, shown
    return out, shown.decode()


@pytest.mark.parametrize(
    ("command", "steps"),
    [
        (("plan",), ["reading v1/Secret: ", "planning source 1 of 1"]),
        (("status",), ["reading v1/Secret: ", "planning source 1 of 1"]),
        (("orphans",), ["reading v1/Secret: ", "looking for copies in v1/Service: ", "planning source 1 of 1"]),
        (("uninstall", "--copies", "--yes", "-n", "default"), ["reading v1/Secret: ", "looking for copies in v1/"]),
    ],
    ids=lambda value: value[0],
)
def test_a_long_command_shows_how_far_it_is(command: tuple[str, ...], steps: list[str], stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    out, shown = on_terminal(stage, *command)
    for step in steps:
        assert step in shown
    assert " …" not in shown.rpartition("\x1b[2K")[2], "the line is cleared at the end"
    assert "reading" not in out
