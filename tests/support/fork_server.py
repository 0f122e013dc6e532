"""Loads the program once, and forks a process of it for each connection: the server behind `forks.py`.

`python -P fork_server.py SOCKET`. A client sends a line of JSON with three file descriptors, and reads two lines: the
pid, and the exit code once there is one. If it closes the connection the run is killed, so that nothing outlives the
tests; the server ends with its standard input.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

PROGRAMS = {
    "samara": "samara.cli.main",
    "kubectl-samara": "samara.cli.main",
    "kubectl_complete-samara": "samara.cli.kubectl_completion",
    "kubectl-accurate": "kubectl_accurate.program",
}
"""The module of each program. Its `main` reads `sys.argv` and ends the process."""
OPTIONAL = ("aws", "fishykeys", "_pb2", "__main__")
"""Modules whose names contain one of these are loaded by the run that needs them, if any does."""
PR_SET_PDEATHSIG = 1
STREAMS = 3


class Server:
    """Forks a process for each connection, and remembers the connection by pid."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._selector = selectors.DefaultSelector()
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._running: dict[int, socket.socket] = {}

    def serve(self) -> dict[str, Any]:
        """Returns the request, in the process that is forked for it."""
        signal.set_wakeup_fd(self._wakes)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for source, what in ((self._listener, "begin"), (self._woken, "reap"), (0, "end")):
            self._selector.register(source, selectors.EVENT_READ, what)
        os.write(1, b"ready\n")
        while True:
            for key, _ in self._selector.select():
                match key.data:
                    case "begin":
                        if (request := self._begin()) is not None:
                            return request
                    case "reap":
                        os.read(self._woken, 1024)
                        self._reap()
                    case "end":
                        os._exit(0)
                    case pid:
                        self._abandon(pid)

    def _begin(self) -> dict[str, Any] | None:
        connection = self._listener.accept()[0]
        _, streams, _, _ = socket.recv_fds(connection, 1, STREAMS)
        with connection.makefile("rb") as lines:
            request: dict[str, Any] = json.loads(lines.readline())
        pid = os.fork()
        if pid == 0:
            self._close(connection)
            become(request, streams)
            return request
        os.setpgid(pid, pid)  # before the client gets the pid
        for number in streams:
            os.close(number)
        connection.sendall(b"%d\n" % pid)
        self._running[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ, pid)
        return None

    def _close(self, connection: socket.socket) -> None:
        """Closes everything that only the server needs."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for number in (self._woken, self._wakes):
            os.close(number)
        for open_socket in (self._listener, connection, *self._running.values()):
            open_socket.close()

    def _reap(self) -> None:
        with suppress(ChildProcessError):  # no child is left
            while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
                connection = self._running.pop(ended[0])
                with suppress(KeyError):
                    self._selector.unregister(connection)
                with suppress(OSError):
                    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(ended[1]))
                connection.close()

    def _abandon(self, pid: int) -> None:
        """Kills a run whose client has disconnected."""
        if pid in self._running:
            os.kill(pid, signal.SIGKILL)
            self._selector.unregister(self._running[pid])


def load() -> None:
    """Imports what a run may need. It opens nothing and starts no thread, or the forks would share it."""
    import pkgutil

    import kubectl_accurate
    import samara

    for package in (samara, kubectl_accurate):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not any(part in module.name for part in OPTIONAL):
                import_module(module.name)
    import uvloop  # noqa: F401 - `samara run` uses it

    # Without this the first garbage collection in each fork would touch, and so copy, all of this memory.
    gc.freeze()


def become(request: dict[str, Any], streams: list[int]) -> None:
    """Makes the fork look like a process that was started: streams, signals, folder, environment."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = [request["program"], *request["arguments"]]


def main() -> None:
    load()
    request = Server(sys.argv[1]).serve()
    import_module(PROGRAMS[request["program"]]).main()


if __name__ == "__main__":
    main()
