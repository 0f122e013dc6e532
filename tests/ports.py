"""Ports for what tests start themselves: nobody else takes one between the choice and the moment it is listened on.

The system gives outgoing connections and listeners without a wish any port of its own range; a program that has to be
started first comes to a port chosen there too late now and then. Those here are below that range, and each worker of a
test run has some for itself.
"""

from __future__ import annotations

import itertools
import os
import socket

FIRST = 10_000
EACH = 2_000
WORKERS = 10
_numbers = itertools.count(os.getpid() * 199)
"""Runs beside each other begin at different places."""


def free_port() -> int:
    """A port that nobody listens on, and another one each time."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    own = range(FIRST + worker * EACH, FIRST + (worker + 1) * EACH)
    return next(port for port in (own[next(_numbers) % EACH] for _ in own) if _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
