"""No output of any command contains a value of a Secret."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from tests.cli.conftest import Shell
from tests.cluster.support.stage import Stage

pytestmark = pytest.mark.cluster

CANARY = "CANARY-4f1d2ab9"
CODED = base64.b64encode(CANARY.encode()).decode()
MANIFEST = f"""apiVersion: v1
kind: Secret
metadata:
  name: db
  namespace: admin
  annotations: {{secret-copy/namespaces: "a,b,c", note: {CANARY}}}
stringData: {{new: {CANARY}more, password: {CANARY}other}}
"""


@pytest.fixture
def full(stage: Stage) -> Stage:
    """Copies in sync, drifted, missing, foreign and orphaned, each with the canary as its value."""
    stage.namespace("a", "b", "c", "d")
    stage.source("db", "a,b,c", {"password": CANARY}, annotations={"note": CANARY})
    stage.source("gone", "a,d", {"password": CANARY})
    stage.foreign("b", "db", {"password": CANARY, "theirs": f"{CANARY}!"})
    operator = stage.operator()
    stage.until_copied("db", "a", "c")
    stage.until_copied("gone", "a", "d")
    operator.stop()
    stage.api.patch(stage.path("a", "db"), {"data": {"password": CODED[::-1][:8]}})
    stage.api.delete(stage.path("admin", "gone"))
    return stage


def commands(folder: Path) -> list[tuple[str, ...]]:
    overwrite = folder / "overwrite.yaml"
    overwrite.write_text("conflicts: overwrite\nvocabularies: {secret-copy: {onSourceGone: delete}}\n")
    listed = [
        ("plan",),
        ("plan", "--all"),
        ("plan", "--diff"),
        ("plan", "--diff", f"--config={overwrite}"),
        ("plan", "--diff", "-f", "-"),
        ("why", "secret/db", "-n", "a"),
        ("why", "secret/db", "-n", "b"),
        ("why", "secret/gone", "-n", "d"),
        ("status",),
        ("orphans",),
        ("lint", "-"),
    ]
    every = [(*command, "-o", form) for command in listed for form in ("table", "json", "yaml")]
    return [*every, ("plan", "--debug"), ("orphans", "--delete", "--yes"), ("rbac",), ("version",)]


def test_no_command_shows_a_value(full: Stage, shell: Shell) -> None:
    for command in commands(full.folder):
        done = shell(*command, stdin=MANIFEST)
        assert done.code in (0, 1), (command, done.err)
        for text in (CANARY, CODED, CODED[:-2]):
            assert text not in done.out, command
            assert text not in done.err, command


def test_no_fault_shows_a_value(full: Stage, shell: Shell) -> None:
    for broken in (
        MANIFEST.replace("stringData: {", "stringData: {{"),
        MANIFEST.replace("stringData:", "data:"),
        MANIFEST.replace(f"{CANARY}more", f"*{CANARY}"),
        MANIFEST.replace(f"{CANARY}more", f"[{CANARY}]"),
        MANIFEST.replace("kind: Secret", f"kind: {CANARY}: x"),
    ):
        for command in (("plan", "-f", "-"), ("plan", "--debug", "-f", "-"), ("lint", "-")):
            done = shell(*command, stdin=broken)
            assert done.code == 1 or command[0] == "lint", done.out
            assert CANARY not in done.out + done.err, command
