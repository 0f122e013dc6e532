"""A fork of the program behaves as a process that was started."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.program import environment
from tests.support import fork_client, forks

WRONG = "apiVersion: v1\nkind: Secret\nmetadata: {name: db, annotations: {secret-copy/namespaces: No_Name}}\n"
WAITS = ("lint", "-", "--config=/dev/null")
"""Waits for the end of its input, which these tests never send."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


@pytest.fixture
def nothing() -> Iterator[int]:
    number = os.open(os.devnull, os.O_WRONLY)
    yield number
    os.close(number)


def test_a_fork_has_the_given_streams_folder_and_environment(tmp_path: Path) -> None:
    (tmp_path / "db.yaml").write_text(WRONG)
    done = forks.run("samara", ["lint", "db.yaml", "--config=/dev/null"], environment(), folder=tmp_path)
    assert (done.returncode, done.stderr) == (1, "2 findings\n")
    assert done.stdout.startswith("db.yaml:")
    failed = forks.run("samara", ["rbac"], environment({"SAMARA_CONFIG": str(tmp_path / "none")}))
    assert failed.returncode == 1
    assert str(tmp_path / "none") in failed.stderr
    read = forks.run("samara", WAITS, environment(), stdin=WRONG)
    assert read.stdout == done.stdout.replace("db.yaml", "<stdin>")


def test_every_fork_is_a_process_of_its_own(pipe: tuple[int, int], nothing: int) -> None:
    made = [forks.start("samara", WAITS, environment(), (pipe[0], nothing, nothing)) for _ in range(2)]
    assert len({os.getpid(), *(fork.pid for fork in made), *(os.getpgid(fork.pid) for fork in made)}) == 3
    made[0].kill()
    assert made[0].wait(20) == -signal.SIGKILL
    assert made[1].poll() is None
    made[1].terminate()
    assert made[1].wait(20) == -signal.SIGTERM


def test_a_fork_ends_with_its_client(pipe: tuple[int, int], nothing: int) -> None:
    """No fork survives the tests, even if they are killed."""
    connection = fork_client.request(
        str(forks.server()), "samara", WAITS, environment(), (pipe[0], nothing, nothing), os.getcwd()
    )
    made = forks.Fork(connection)
    watched = os.pidfd_open(made.pid)
    connection.shutdown(socket.SHUT_WR)
    with selectors.DefaultSelector() as selector:
        selector.register(watched, selectors.EVENT_READ)
        assert selector.select(20)
    os.close(watched)
    assert made.wait(20) == -signal.SIGKILL


def test_a_fork_on_the_path_has_the_exit_code_of_the_program(tmp_path: Path) -> None:
    forks.on_path(tmp_path)
    env = environment({"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    for program in ("samara", "kubectl-samara", "kubectl-accurate"):
        command = ["bash", "-c", f"{program} nothing 2>&1"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == (1 if program == "kubectl-accurate" else 2)
        assert "'nothing'" in done.stdout
