"""Ports for what tests start themselves: nobody else takes one between the choice and the moment it is listened on.

The system gives outgoing connections and listeners without a wish any port of its own range; a program that has to be
started first comes to a port chosen there too late now and then. Those here are below that range, and each process that
runs tests has some for itself, also beside other runs on the same machine: were one port chosen by two, the operator
of the other run would answer in place of one that could not listen.
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
EACH = 1_000
BLOCKS = 22
_numbers = itertools.count()


def free_port() -> int:
    """A port that nobody listens on, and another one each time."""
    own, _ = _own_block()
    return next(port for port in (own[next(_numbers) % EACH] for _ in own) if _is_free(port))


@cache
def _own_block() -> tuple[range, IO[str]]:
    """The ports of this process, and what keeps others away from them until it ends."""
    return claimed(Path(tempfile.gettempdir()))


def claimed(folder: Path) -> tuple[range, IO[str]]:
    """A block of ports that nobody has claimed, with the lock on it: whoever ends, however that is, lets it go."""
    for block in range(BLOCKS):
        try:
            lock = (folder / f"samara-test-ports-{block}.lock").open("a")
        except PermissionError:  # another user's
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        return range(FIRST + block * EACH, FIRST + (block + 1) * EACH), lock
    raise RuntimeError(f"{BLOCKS} processes that run tests have all ports between them: end some of them")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
