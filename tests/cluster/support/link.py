"""A TCP proxy that can be stalled: no byte passes, and no connection breaks."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit

_CHUNK = 65_536


class Link:
    """A proxy between a server and its etcd. Used as a context manager; `url` replaces the target URL."""

    def __init__(self, to: str) -> None:
        parts = urlsplit(to)
        self._to = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._passing = threading.Event()
        self._passing.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{parts.scheme}://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Link:
        threading.Thread(target=self._accept, name="link", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._passing.set()
        for open_socket in (self._listener, *self._sockets):
            _closed(open_socket)

    def stall(self) -> None:
        self._passing.clear()

    def flow(self) -> None:
        self._passing.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._to)
            except OSError:
                return
            self._sockets += [near, far]
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=ends, name="link", daemon=True).start()

    def _pump(self, from_: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := from_.recv(_CHUNK):
                self._passing.wait()
                to.sendall(chunk)
        for end in (from_, to):
            _closed(end)


def _closed(open_socket: socket.socket) -> None:
    with contextlib.suppress(OSError):
        open_socket.shutdown(socket.SHUT_RDWR)
    open_socket.close()
