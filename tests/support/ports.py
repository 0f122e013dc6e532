"""Ports for programs that tests start. No other process takes a port before the program listens on it.

The system assigns ports of its ephemeral range to outgoing connections, so a port chosen there may be taken before a
program has started. The ports here are below that range. Every process that runs tests reserves its own block, even
beside other test runs on the same machine: with the same port twice, the operator of another run would answer.
"""

from __future__ import annotations

import fcntl
import itertools
import socket
import tempfile
from functools import cache
from pathlib import Path
from typing import IO

FIRST = 10_000
SIZE = 1_000
BLOCKS = 22
_numbers = itertools.count()


def free_port() -> int:
    """A free port, a different one each time."""
    own, _ = _own_block()
    return next(port for port in (own[next(_numbers) % SIZE] for _ in own) if _is_free(port))


@cache
def _own_block() -> tuple[range, IO[str]]:
    """The ports of this process and the lock that reserves them until it ends."""
    return reserved(Path(tempfile.gettempdir()))


def reserved(folder: Path) -> tuple[range, IO[str]]:
    """A free block of ports and its lock. The system releases the lock when the process ends."""
    for block in range(BLOCKS):
        try:
            lock = (folder / f"samara-test-ports-{block}.lock").open("a")
        except PermissionError:  # the lock of another user
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        return range(FIRST + block * SIZE, FIRST + (block + 1) * SIZE), lock
    raise RuntimeError(f"{BLOCKS} processes that run tests have reserved all ports: end some of them")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
