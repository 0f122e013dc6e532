"""Runs the program in processes that are forked from one that has loaded it already.

Starting an interpreter and importing the program takes half a second of CPU time, and the cluster tests do it more than
a thousand times; a fork takes some milliseconds. Each run is a process of its own all the same, with its own pid,
signals, environment, streams and exit code. Tests of loading, starting or memory start an interpreter instead.
"""

from __future__ import annotations

import atexit
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

from tests.support import fork_client, fork_server


class Fork:
    """One run, with the part of Popen's interface that the tests use."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answers = connection.makefile("rb")
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative after a signal; None while it runs."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._connection, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired("a fork", timeout or 0.0)
            self.returncode = int(self._answers.readline())
            self._answers.close()
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    program: str,
    arguments: Sequence[str],
    env: Mapping[str, str],
    streams: Sequence[IO[bytes] | int],
    folder: Path | None = None,
) -> Fork:
    """Begins a run with these three streams, in a process group of its own."""
    numbers = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
    return Fork(fork_client.request(str(server()), program, arguments, env, numbers, str(folder or Path.cwd())))


def on_path(folder: Path) -> None:
    """Puts every program into a folder that is to come first in a PATH."""
    for program in fork_server.PROGRAMS:
        file = folder / program
        file.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -I -S "{fork_client.__file__}" "{server()}" {program} "$@"\n'
        )
        file.chmod(0o755)


def run(
    program: str,
    arguments: Sequence[str],
    env: Mapping[str, str],
    stdin: str = "",
    timeout: float = 60.0,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end. The streams are files, so no reader is needed while it writes."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        made = start(program, arguments, env, (given, out, err), folder)
        try:
            code = made.wait(timeout)
        except subprocess.TimeoutExpired:
            made.kill()
            made.wait()
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess([program, *arguments], code, out.read().decode(), err.read().decode())


@cache
def server() -> Path:
    """The socket of the server of this process, which the first call starts."""
    folder = Path(tempfile.mkdtemp(prefix="samara-forks-"))
    path = folder / "socket"
    process = subprocess.Popen(
        [sys.executable, "-P", fork_server.__file__, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n", "the server of forks has ended"
    atexit.register(_end, process, folder)
    return path


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    process.kill()
    process.communicate()
    shutil.rmtree(folder, ignore_errors=True)
