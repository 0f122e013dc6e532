"""Replaces a program on a PATH: requests a run from the server of `forks.py`, and ends with its exit code.

`python -I -S fork_client.py SOCKET PROGRAM ARGUMENTS…`. It imports little, because its purpose is to start fast.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence


def request(
    path: str, program: str, arguments: Sequence[str], env: Mapping[str, str], streams: Sequence[int], folder: str
) -> socket.socket:
    """Begins a run. The connection answers with its pid, then with its exit code; closing it kills the run."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    description = {"program": program, "arguments": list(arguments), "env": dict(env), "folder": folder}
    socket.send_fds(connection, [b"\n"], list(streams))
    connection.sendall(json.dumps(description).encode() + b"\n")
    return connection


def main() -> int:
    _, path, program, *arguments = sys.argv
    connection = request(path, program, arguments, os.environ, (0, 1, 2), os.getcwd())
    with connection, connection.makefile("rb") as answers:
        pid = int(answers.readline())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _: os.kill(pid, number))
        code = int(answers.readline())
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
