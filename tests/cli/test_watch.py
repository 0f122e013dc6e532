"""`--watch` prints an answer whenever it changes, until Ctrl-C. Progress is shown on terminals only."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.program import Terminal, environment, samara_inside
from tests.cluster.support.stage import Stage
from tests.cluster.support.waiting import eventually

from samara.cli.output import progress
from samara.cli.watch import MIN_PAUSE, PAUSE_FACTOR, show_changes
from samara.kube.errors import SamaraError, Unreachable


class Ended(Exception):  # noqa: N818 - it ends the script and is not an error
    pass


class Script:
    """Returns scripted answers, one for each look."""

    def __init__(self, *answers: Any) -> None:
        self._answers: Iterator[Any] = iter(answers)
        self.shown: list[Any] = []
        self.pauses: list[float] = []

    async def look(self) -> Any:
        answer = next(self._answers, None)
        if answer is None:
            raise Ended
        if isinstance(answer, SamaraError):
            raise answer
        return answer

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def run(self, form: str = "table", ends: type[Exception] = Ended) -> Script:
        with pytest.raises(ends):
            asyncio.run(show_changes(self.look, self.shown.append, lambda answer: answer, form, self.pause))
        return self


def test_watch_shows_only_changes() -> None:
    assert Script("a", "a", "b", "b", "a").run().shown == ["a", "b", "a"]


def test_watch_waits_for_an_unreachable_server_and_notes_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    away = Unreachable("no answer")
    assert Script("a", away, away, "a", "b").run().shown == ["a", "b"]
    assert capsys.readouterr().err == "samara: no answer; trying again\n"


def test_error_in_the_first_round_ends_the_watch() -> None:
    assert Script(Unreachable("no answer"), "a").run(ends=Unreachable).shown == []


@pytest.mark.parametrize(("form", "between"), [("table", "\n"), ("json", "\n"), ("yaml", "---\n")])
def test_answers_in_a_pipe_are_separated(form: str, between: str, capsys: pytest.CaptureFixture[str]) -> None:
    Script("a", "b", "c").run(form)
    assert capsys.readouterr().out == between * 2


def test_reading_takes_a_small_part_of_the_time() -> None:
    assert Script("a").run().pauses == [MIN_PAUSE]
    assert PAUSE_FACTOR >= 9


def test_watch_with_exit_code_is_wrong_usage() -> None:
    assert samara_inside("plan", "--watch", "--exit-code").code == 2


@pytest.mark.parametrize(("stream", "shown"), [(Terminal(), True), (io.StringIO(), False)])
def test_progress_is_shown_on_terminals_only_and_cleared(
    stream: io.StringIO, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    with progress() as show_progress:
        show_progress("reading v1/Secret")
    assert ("reading v1/Secret" in stream.getvalue()) is shown
    assert stream.getvalue().endswith("\r\x1b[2K") is shown


def test_watch_shows_progress_in_the_first_round_only(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, looks = Terminal(), []

    async def look() -> str:
        before = screen.getvalue()
        with progress() as show_progress:
            show_progress("reading")
        looks.append(screen.getvalue() != before)
        if len(looks) == 3:
            raise Ended
        return "a"

    script = Script()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(Ended):
        asyncio.run(show_changes(look, script.shown.append, lambda answer: answer, "table", script.pause))
    assert looks == [True, False, False]


@pytest.mark.cluster
@pytest.mark.parametrize("command", ["status", "plan"])
def test_watch_prints_every_change_and_an_interrupt_exits_0(command: str, stage: Stage, tmp_path: Path) -> None:
    stage.namespace("a")
    out, err = tmp_path / "out", tmp_path / "err"
    program = (sys.executable, "-m", "samara.cli.main", command, "--watch", "-o", "json")
    with out.open("wb") as to, err.open("wb") as besides:
        running = subprocess.Popen(
            [*program, f"--kubeconfig={stage.cluster.kubeconfig}"], stdout=to, stderr=besides, env=environment()
        )
    try:
        eventually(lambda: len(blocks(out)) == 1)
        stage.source("db", "a")
        eventually(lambda: len(blocks(out)) == 2)
        running.send_signal(signal.SIGINT)
        assert running.wait(10) == 0
    finally:
        running.kill()
        running.wait()
    first, second = blocks(out)
    assert "db" not in json.dumps(first)
    assert "db" in json.dumps(second)
    assert err.read_text().count("settings: ") == 1
    assert "Traceback" not in err.read_text()


def blocks(file: Path) -> list[Any]:
    """The complete JSON documents of a stream."""
    text, documents, decoder = file.read_text().lstrip(), [], json.JSONDecoder()
    while text:
        try:
            document, end = decoder.raw_decode(text)
        except ValueError:
            break
        documents.append(document)
        text = text[end:].lstrip()
    return documents
