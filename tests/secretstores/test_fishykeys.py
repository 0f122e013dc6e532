"""Tests the requests to FishyKeys and the error for each of its answers."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import pytest
import uvloop
from tests.kube import pki
from tests.secretstores.contexts import CONTEXT
from tests.secretstores.fishykeys_server import FishyKeysServer

from samara.secretstores.base import (
    MAX_VALUE,
    Forbidden,
    Location,
    NotFound,
    StoreConfigError,
    StoreError,
    Unauthenticated,
    Unavailable,
    Unusable,
)
from samara.secretstores.fishykeys import FishyKeys, open_fishykeys
from samara.secretstores.registry import open_store

ROOT = Path(__file__).resolve().parents[2]
PATH, VALUE = "/app/db/password", "click me!"
CANARY = "canary-5d1c"
Scenario = Callable[[FishyKeys], Awaitable[object]]


@pytest.fixture
def server() -> Iterator[FishyKeysServer]:
    with FishyKeysServer() as made:
        made.put(PATH, VALUE)
        yield made


@pytest.fixture
def address(server: FishyKeysServer) -> str:
    return server.start()


def run(url: str, config: Mapping[str, bytes], scenario: Scenario) -> object:
    """Runs a test on the event loop that the program uses."""

    async def main() -> object:
        store = open_fishykeys(urlsplit(url), config)
        try:
            async with asyncio.timeout(10):
                return await scenario(store)
        finally:
            await store.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def read(address: str, token: str, path: str = PATH) -> object:
    return read_by("fishykeys", address, path, {"token": token.encode()})


def read_by(scheme: str, address: str, path: str, config: Mapping[str, bytes]) -> object:
    async def scenario(store: FishyKeys) -> bytes:
        location = store.locate(path)
        return (await store.read(location.document)).value(location.field)

    return run(f"{scheme}://{address}", config, scenario)


def refused(kind: type[StoreError], address: str, token: str, path: str = PATH) -> str:
    with pytest.raises(kind) as caught:
        read(address, token, path)
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return str(caught.value)


# requests


def test_a_path_is_requested_with_its_slash(server: FishyKeysServer, address: str) -> None:
    assert read(address, server.token()) == VALUE.encode()
    assert server.requested == [PATH]


@pytest.mark.parametrize("path", ["/a", "/ab", "/abc", "/größe/ключ", "/~~~/>>>", "/with a/blank#and-more"])
def test_the_encoding_keeps_paths_of_every_length_and_letter(server: FishyKeysServer, address: str, path: str) -> None:
    server.put(path, VALUE)
    assert read(address, server.token(), path) == VALUE.encode()


def test_a_path_without_a_slash_is_never_requested() -> None:
    """The key that signs all tokens is stored under such a path."""
    store = FishyKeys.__new__(FishyKeys)
    assert store.locate(PATH) == Location(PATH)
    for path in ("internal/jwt_signing_key", "app", "", "/", "/a/../b", "/a//b", "/a%2fb"):
        with pytest.raises(Unusable):
            store.locate(path)


def test_a_token_may_have_a_prefix_and_a_line_end(server: FishyKeysServer, address: str) -> None:
    assert read(address, f"Bearer {server.token()}\n") == VALUE.encode()


@pytest.mark.parametrize("value", ["", "a\0b", "{{ .Values.x }} ${HOME} `id`", "ü" * 1000, "x" * MAX_VALUE])
def test_a_value_is_not_changed(server: FishyKeysServer, address: str, value: str) -> None:
    server.put(PATH, value)
    assert read(address, server.token()) == value.encode()


def test_concurrent_reads_share_one_connection(server: FishyKeysServer, address: str) -> None:
    for number in range(20):
        server.put(f"/n/{number}", str(number))

    async def scenario(store: FishyKeys) -> list[bytes]:
        return [content.value("") for content in await asyncio.gather(*(store.read(f"/n/{n}") for n in range(20)))]

    assert run(f"fishykeys://{address}", {"token": server.token().encode()}, scenario) == [b"%d" % n for n in range(20)]


# answers


def test_an_expired_token_is_unauthenticated(server: FishyKeysServer, address: str) -> None:
    assert "expired" in refused(Unauthenticated, address, server.token(lives=-1))


def test_a_locked_server_is_an_outage_with_a_message_about_the_lock(server: FishyKeysServer, address: str) -> None:
    server.locked = True
    assert "locked" in refused(Unavailable, address, server.token())


def test_forbidden_never_counts_as_absent(server: FishyKeysServer, address: str) -> None:
    assert "does not exist, or" in refused(Forbidden, address, server.token(), "/nothing/here")
    server.put(PATH, VALUE, "somebody-else")
    refused(Forbidden, address, server.token())


STATUSES: Mapping[grpc.StatusCode, type[StoreError]] = {
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: Forbidden,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.INVALID_ARGUMENT: Unusable,
    grpc.StatusCode.INTERNAL: Unusable,
    grpc.StatusCode.UNKNOWN: Unusable,
    grpc.StatusCode.FAILED_PRECONDITION: Unavailable,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: Unavailable,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Unavailable,
    grpc.StatusCode.UNIMPLEMENTED: Unavailable,
    grpc.StatusCode.ABORTED: Unavailable,
    grpc.StatusCode.ALREADY_EXISTS: Unavailable,
    grpc.StatusCode.CANCELLED: Unavailable,
    grpc.StatusCode.DATA_LOSS: Unavailable,
    grpc.StatusCode.OUT_OF_RANGE: Unavailable,
}


def test_every_status_but_ok_is_in_the_table() -> None:
    assert STATUSES.keys() == set(grpc.StatusCode) - {grpc.StatusCode.OK}


@pytest.mark.parametrize("status", STATUSES, ids=lambda status: status.name)
def test_each_status_has_one_error_without_its_details(
    server: FishyKeysServer, address: str, status: grpc.StatusCode
) -> None:
    server.failing[PATH] = status, CANARY
    refused(STATUSES[status], address, server.token())


def test_an_answer_without_a_value_is_unusable_and_not_absent(server: FishyKeysServer, address: str) -> None:
    server.put(PATH, None)
    refused(Unusable, address, server.token())


@pytest.mark.parametrize("sent", [b"\n\x06ab\xff" + CANARY[:3].encode(), b"\n\x7f" + CANARY.encode(), b"\xff" * 50])
def test_a_malformed_answer_is_unusable(
    server: FishyKeysServer, address: str, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server.garbled[PATH] = sent
    refused(Unusable, address, server.token())
    assert CANARY not in caplog.text


@pytest.mark.parametrize("size", [MAX_VALUE + 1, 5 * MAX_VALUE])
def test_a_value_that_is_too_large_is_unusable(server: FishyKeysServer, address: str, size: int) -> None:
    server.put(PATH, "x" * size)
    assert str(MAX_VALUE) in refused(Unusable, address, server.token())


# outages


def test_a_refused_connection_is_an_outage(server: FishyKeysServer, address: str) -> None:
    server.stop()
    refused(Unavailable, address, server.token())


def test_an_unknown_host_name_is_an_outage() -> None:
    refused(Unavailable, "nobody.invalid:8090", "t")


def test_the_same_store_reads_again_after_a_restart_of_the_server(server: FishyKeysServer, address: str) -> None:
    async def scenario(store: FishyKeys) -> bytes:
        server.stop()
        with pytest.raises(Unavailable):
            await store.read(PATH)
        server.start(int(address.split(":")[1]))
        while True:  # until the deadline of `run`
            try:
                return (await store.read(PATH)).value("")
            except Unavailable:
                await asyncio.sleep(0.05)

    assert run(f"fishykeys://{address}", {"token": server.token().encode()}, scenario) == VALUE.encode()


def test_a_slow_read_ends_at_the_callers_deadline_and_the_next_one_succeeds(
    server: FishyKeysServer, address: str
) -> None:
    async def scenario(store: FishyKeys) -> bytes:
        server.gate.clear()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await store.read(PATH)
        server.gate.set()
        return (await store.read(PATH)).value("")

    assert run(f"fishykeys://{address}", {"token": server.token().encode()}, scenario) == VALUE.encode()


def test_closing_the_store_during_a_read_is_an_outage_and_cancels_no_task(
    server: FishyKeysServer, address: str
) -> None:
    async def scenario(store: FishyKeys) -> None:
        server.gate.clear()
        reading = asyncio.ensure_future(store.read(PATH))
        await asyncio.to_thread(server.reached.wait)
        await store.close()
        for read in (reading, store.read(PATH)):
            with pytest.raises(Unavailable):
                await read

    run(f"fishykeys://{address}", {"token": server.token().encode()}, scenario)


def test_a_process_can_be_started_while_a_channel_is_open(server: FishyKeysServer, address: str) -> None:
    async def scenario(store: FishyKeys) -> bytes:
        await store.read(PATH)
        started = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
        assert await started.wait() == 0
        return (await store.read(PATH)).value("")

    assert run(f"fishykeys://{address}", {"token": server.token().encode()}, scenario) == VALUE.encode()


# connections


def test_proxies_of_the_environment_never_see_the_token(
    server: FishyKeysServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert read(address, server.token()) == VALUE.encode()


@pytest.fixture(scope="module")
def authority() -> pki.Pair:
    return pki.authority()


@pytest.fixture
def safe(server: FishyKeysServer, authority: pki.Pair) -> str:
    """The address of a server with TLS, as a proxy in front of FishyKeys has it."""
    pair = pki.server(authority, "localhost", "127.0.0.1")
    server.start(credentials=grpc.ssl_server_credentials([(pair.key, pair.certificate)]))
    return server.address


def read_safely(server: FishyKeysServer, address: str, authority: pki.Pair | None) -> object:
    trusted = {} if authority is None else {"ca.crt": authority.certificate}
    return read_by("fishykeys+tls", address, PATH, {"token": server.token().encode(), **trusted})


def test_tls_trusts_the_authority_of_the_configuration(server: FishyKeysServer, safe: str, authority: pki.Pair) -> None:
    assert read_safely(server, safe, authority) == VALUE.encode()
    assert read_safely(server, safe.replace("127.0.0.1", "localhost"), authority) == VALUE.encode()


def test_tls_trusts_no_other_authority(server: FishyKeysServer, safe: str) -> None:
    for other in (pki.authority("another CA"), None):
        with pytest.raises(Unavailable, match="TLS"):
            read_safely(server, safe, other)
    assert server.requested == []


def test_a_certificate_for_another_name_is_not_trusted(server: FishyKeysServer, authority: pki.Pair) -> None:
    pair = pki.server(authority, "elsewhere.example")
    address = server.start(credentials=grpc.ssl_server_credentials([(pair.key, pair.certificate)]))
    with pytest.raises(Unavailable):
        read_safely(server, address, authority)
    assert server.requested == []


# the configuration


def fault(url: str, **config: bytes) -> StoreConfigError:
    async def main() -> None:
        await open_store({"url": url.encode(), **config}, CONTEXT)

    with pytest.raises(StoreConfigError) as caught:
        asyncio.run(main())
    assert CANARY not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("prefix", ["", "fishykeys://"])
def test_plain_text_leaves_this_machine_only_with_insecure_true(prefix: str) -> None:
    error = fault(f"{prefix}fishykeys.example:8090", token=b"t")
    assert error.reason == "ConnectionError"
    assert "insecure=true" in str(error)

    async def main() -> None:
        for url in (f"{prefix}fishykeys.example:8090?insecure=true", f"{prefix}localhost:8090", f"{prefix}[::1]:8090"):
            store = await open_store({"url": url.encode(), "token": b"t"}, CONTEXT)
            assert store.scheme == "fishykeys"
            await store.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "url",
    [
        "localhost",
        "fishykeys://localhost",
        "fishykeys://:8090",
        "localhost:8090/path",
        "localhost:8090?timeout=5",
        "fishykeys+tls://host.example",
    ],
)
def test_a_url_that_is_not_exactly_an_address_is_refused(url: str) -> None:
    assert fault(url, token=b"t").reason == "ConnectionError"


@pytest.mark.parametrize("token", [None, b"", b"\n", f"{CANARY} two".encode(), f"{CANARY}\nb".encode(), b"\xff\xfe"])
def test_a_missing_or_invalid_token_is_refused_without_showing_it(token: bytes | None) -> None:
    assert fault("localhost:8090", **({} if token is None else {"token": token})).reason == "TokenError"


@pytest.mark.parametrize(
    "ca", [b"", CANARY.encode(), b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_an_authority_that_is_no_certificate_is_refused(ca: bytes) -> None:
    error = fault("fishykeys+tls://localhost:8090", token=b"t", **{"ca.crt": ca})
    assert error.reason == "ConnectionError"
    assert str(error).startswith("the configuration's key ca.crt: ")


# what is told


def test_no_log_or_repr_shows_a_value_or_token(
    server: FishyKeysServer, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.put(PATH, CANARY)

    async def scenario(store: FishyKeys) -> str:
        return repr((store, await store.read(PATH)))

    token = server.token()
    shown = str(run(f"fishykeys://{address}", {"token": token.encode()}, scenario)) + caplog.text
    assert CANARY not in shown
    assert token not in shown


def test_grpc_writes_no_lines_of_its_own(tmp_path: Path) -> None:
    """Runs in its own process, because gRPC reads the variable once."""
    program = tmp_path / "program.py"
    program.write_text(
        "import asyncio\n"
        "from urllib.parse import urlsplit\n"
        "from samara.secretstores.base import Unavailable\n"
        "from samara.secretstores.fishykeys import open_fishykeys\n"
        "async def main():\n"
        "    async def answer(reader, writer):\n"
        "        writer.write(b'this is no TLS')\n"
        "        writer.close()\n"
        "    there = await asyncio.start_server(answer, '127.0.0.1')\n"
        "    port = there.sockets[0].getsockname()[1]\n"
        "    store = open_fishykeys(urlsplit(f'fishykeys+tls://127.0.0.1:{port}'), {'token': b't'})\n"
        "    try:\n"
        "        await store.read('/a')\n"
        "    except Unavailable:\n"
        "        print('outage')\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    done = subprocess.run(
        [sys.executable, str(program)],
        env={**clean, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("outage\n", "")


# the messages


def test_the_message_classes_are_those_of_the_proto_file(tmp_path: Path) -> None:
    from scripts.protos import SOURCES, generate

    made = generate(tmp_path)
    assert len(made) == 2
    for path in made:
        assert path.read_text() == (SOURCES / path.relative_to(tmp_path)).read_text()
