"""Clients that send large conversions and do not read the answers. The server is a process of its own, because a
process never gives its peak back."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from tests.admission.scene import _scene

from samara.admission.webhooks import CONVERT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a second loopback address")
MOST_MEMORY = 150
"""MiB. The operator of the chart may take 512."""
SILENT_CLIENTS = 24
LARGE_THING = b'{"apiVersion":"toys.dev/v2","kind":"Thing","spec":{"title":"%b"}}' % (b"x" * int(2.6 * 2**20))
SMALL_THING = LARGE_THING[:1000] + b'"}}'


def answers_until_asked() -> None:
    """What the other process runs: writes its port, and after a line of input by how many MiB it grew."""

    async def run() -> None:
        async with _scene() as scene:
            running = await scene.server()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            sys.stdout.write(f"{running.port}\n")
            sys.stdout.flush()
            await asyncio.get_running_loop().run_in_executor(None, input)
            sys.stdout.write(f"{(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024}\n")
            sys.stdout.flush()
            os._exit(0)

    asyncio.run(run())


@contextmanager
def a_server() -> Iterator[subprocess.Popen[str]]:
    program = "from tests.admission.test_unread_answers import *; answers_until_asked()"
    same_sources = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=same_sources, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            yield server
        finally:
            server.kill()


def connected(port: int, client: str) -> ssl.SSLSocket:
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(20.0)
    plain.bind((client, 0))
    plain.connect(("127.0.0.1", port))
    return trust.wrap_socket(plain)


def send(connection: ssl.SSLSocket, thing: bytes, number: int) -> None:
    objects = b",".join([thing] * number)
    body = (
        b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u",'
        b'"desiredAPIVersion":"toys.dev/v2","objects":[%b]}}' % objects
    )
    head = "POST {} HTTP/1.1\r\nHost: samara\r\nConnection: close\r\nContent-Length: {}\r\n\r\n"
    connection.sendall(head.format(CONVERT, len(body)).encode() + body)


def status_and_length(connection: ssl.SSLSocket) -> tuple[bytes, int]:
    """Reads the answer to its end."""
    received = b""
    while chunk := connection.recv(2**16):
        received += chunk
    return received[9:12], len(received)


def test_answers_that_no_client_reads_are_bounded_and_other_clients_get_theirs() -> None:
    with a_server() as server, ExitStack() as open_connections:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        for _ in range(SILENT_CLIENTS):
            silent = open_connections.enter_context(closing(connected(port, "127.0.0.1")))
            try:
                send(silent, LARGE_THING, 6)
            except OSError:  # refused, or cut in favour of another client
                continue
        started = time.monotonic()
        for number in (1, 1000, 10_000):  # 1 kB, 1 MB, 10 MB
            with closing(connected(port, "127.0.0.2")) as honest:
                send(honest, SMALL_THING, number)
                status, length = status_and_length(honest)
                assert (status, length > 1000 * number) == (b"200", True)
        assert time.monotonic() - started < 10.0
        grown, _ = server.communicate("\n", timeout=10.0)

    assert int(grown) < MOST_MEMORY
