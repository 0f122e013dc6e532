"""Tests faults of a Vault: outages, limits, certificates and hostile answers. No message shows a value."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
import ssl
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from tests.kube import pki
from tests.secretstores.vault_admin import administering, value
from tests.secretstores.vault_server import Reply, VaultServer, vault_server

from samara.secretstores import http
from samara.secretstores.base import NotFound, StoreError, Unauthenticated, Unavailable, Unusable
from samara.secretstores.schedule import MAX_RETRY_AFTER
from samara.secretstores.vault import Vault, open_vault

CANARY = "canary-value-4711"
TOKEN = "canary-token-4711"


def with_store(scenario: Callable[[Vault, VaultServer], Awaitable[None]]) -> None:
    """A store that has read once, so that it knows its token."""

    async def run() -> None:
        async with vault_server() as server, administering(server.base, server.root) as admin:
            server.mounts["kv"] = "2"
            await admin.write("kv", "2", "db", {"user": CANARY})
            server.tokens[TOKEN] = server.tokens[server.root]
            store = admin.opened("kv", {"token": TOKEN.encode()})
            assert await value(store, "db#user") == CANARY.encode()
            await scenario(store, server)
            server.instead.clear()
            assert await value(store, "db#user") == CANARY.encode()  # the store still works

    asyncio.run(run())


async def met(store: Vault, server: VaultServer, reply: Reply, path: str = "db#user") -> StoreError:
    server.instead.append(reply)
    with pytest.raises(StoreError) as caught:
        await value(store, path)
    trace = "".join(traceback.format_exception(caught.value))
    assert "canary" not in trace
    return caught.value


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 472, 473, 412, 301, 307])
def test_a_status_of_an_unavailable_server_is_an_outage(status: int) -> None:
    async def scenario(store: Vault, server: VaultServer) -> None:
        echo = {"errors": [CANARY, TOKEN]}
        for headers, seconds in (({}, None), ({"Retry-After": "7"}, 7.0), ({"Retry-After": "soon"}, None)):
            fault = await met(store, server, Reply(status, echo, {**headers, "Location": "http://127.0.0.1:1/"}))
            assert isinstance(fault, Unavailable)
            assert str(status) in str(fault)
            assert fault.retry_after == seconds

    with_store(scenario)


def test_retry_after_can_be_a_number_or_a_date() -> None:
    later = datetime.now(UTC) + timedelta(seconds=60)

    async def scenario(store: Vault, server: VaultServer) -> None:
        async def waited(text: str) -> float | None:
            fault = await met(store, server, Reply(429, b"", {"Retry-After": text}))
            assert isinstance(fault, Unavailable)
            return fault.retry_after

        assert 50 <= (await waited(format_datetime(later, usegmt=True)) or 0) <= 60
        assert await waited("Thu, 01 Jan 1970 00:00:00 GMT") == 0
        assert await waited("600") == 600
        assert (await waited("9" * 40) or 0) > MAX_RETRY_AFTER, "the schedule limits it"
        assert await waited("-5") is None

    with_store(scenario)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(400, {"errors": [CANARY]}), Unusable),
        (Reply(405, {"errors": [CANARY]}), Unusable),
        (Reply(401, {"errors": [CANARY]}), Unauthenticated),
        (Reply(404, {"errors": []}), NotFound),
        (Reply(404, b""), NotFound),
        (Reply(404, {"errors": [CANARY]}), Unusable),
        (Reply(404, {"errors": [], "warnings": [CANARY]}), Unusable),
        (Reply(404, b"<html>canary</html>"), Unusable),
        (Reply(404, {}), Unusable),
        (Reply(404, {"data": {"data": None, "metadata": {"destroyed": True}}}), NotFound),
        (Reply(404, {"data": {"data": {"user": CANARY}, "metadata": {}}}), Unusable),
        (Reply(200, {"data": {"data": None, "metadata": {}}}), NotFound),
        (Reply(200, {"data": {"data": {}}}), NotFound),
        (Reply(200, {"data": {"user": CANARY}}), Unusable),
        (Reply(200, {"data": {"data": [CANARY]}}), Unusable),
        (Reply(200, b'{"data": {"data": {"user": "canary'), Unusable),
        (Reply(200, b'{"data": {"data": {"user": "\xff"}}}'), Unusable),
        (Reply(200, b'{"data": {"data": {"user": ["\xff"]}}}'), Unusable),
        (Reply(200, b'{"data": {"data": {"user": "\\ud800"}}}'), Unusable),
        (Reply(200, b'{"data": {"data": {"user": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}}"), Unusable),
        (Reply(200, b""), Unusable),
        (Reply(200, b"<html>canary</html>"), Unusable),
        (Reply(200, gzip.compress(b'{"data": {"data": {"user": "x"}}}'), {"Content-Encoding": "gzip"}), Unusable),
    ],
)
def test_each_answer_has_one_error(reply: Reply, kind: type[StoreError]) -> None:
    async def scenario(store: Vault, server: VaultServer) -> None:
        assert type(await met(store, server, reply)) is kind

    with_store(scenario)


def test_an_outage_during_the_look_up_of_a_token_is_an_outage() -> None:
    async def scenario(store: Vault, server: VaultServer) -> None:
        server.instead.append(Reply(403, {"errors": ["permission denied"]}))
        assert isinstance(await met(store, server, Reply(503, b"{}")), Unavailable)

    with_store(scenario)


def test_numbers_keep_their_spelling() -> None:
    async def scenario(store: Vault, server: VaultServer) -> None:
        for text in (b"1.0", b"12345678901234567890123", b"1e400", b"-0"):
            server.instead.append(Reply(200, b'{"data": {"data": {"n": ' + text + b"}}}"))
            assert await value(store, "db#n") == text

    with_store(scenario)


def test_an_endless_answer_is_cut() -> None:
    async def scenario(store: Vault, server: VaultServer) -> None:
        fault = await met(store, server, Reply(200, b"x" * (http.MAX_BODY + 1)))
        assert isinstance(fault, Unusable)
        assert str(http.MAX_BODY) in str(fault)

    with_store(scenario)


def test_a_server_that_does_not_answer_is_an_outage_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(port: int) -> None:
        store = open_vault(urlsplit(f"vault+http://127.0.0.1:{port}/kv"), {"token": b"t"})
        try:
            async with asyncio.timeout(0.2):
                await store.read("db")
        finally:
            await store.close()

    with socket.create_server(("127.0.0.1", 0)) as silent:  # no program accepts its connections
        port = silent.getsockname()[1]
        with pytest.raises(TimeoutError):
            asyncio.run(read(port))
        monkeypatch.setattr(http, "TIMEOUT", 0.05)
        with pytest.raises(Unavailable, match="no answer"):
            asyncio.run(read(port))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("vault+http://127.0.0.1:1/kv", "refused"),
        ("vault+https://vault.invalid/kv", "resolved"),
        ("vault+https://1.2.3.4.5/kv", "not an address"),
    ],
)
def test_a_server_that_cannot_be_reached_is_an_outage(url: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*arguments: object, **more: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    async def run() -> None:
        store = open_vault(urlsplit(url), {"token": TOKEN.encode()})
        with pytest.raises(Unavailable, match=words) as caught:
            await store.read("db")
        assert "canary" not in str(caught.value)
        await store.close()

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    asyncio.run(run())


def serving(pair: pki.Pair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(file.name)
    return context


def expired(pair: pki.Pair, issuer: pki.Pair) -> pki.Pair:
    """The same certificate, expired yesterday."""
    old = pair.parsed
    builder = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        .issuer_name(old.issuer)
        .public_key(old.public_key())
        .serial_number(old.serial_number)
        .not_valid_before(datetime.now(UTC) - timedelta(days=2))
        .not_valid_after(datetime.now(UTC) - timedelta(days=1))
    )
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    signed = builder.sign(issuer.private, hashes.SHA256())
    return pki.Pair(signed.public_bytes(serialization.Encoding.PEM), pair.key, pair.private, signed)


def test_only_a_valid_certificate_of_the_given_authority_for_the_host_is_accepted() -> None:
    ca, other = pki.authority(), pki.authority("other CA")
    here = pki.server(ca, "127.0.0.1")

    async def read(pair: pki.Pair, trusted: bytes) -> bytes:
        async with vault_server(serving(pair)) as server:
            server.mounts["kv"] = "1"
            server.kv1["kv/db"] = {"user": "x"}
            config = {"token": server.root.encode(), "ca.crt": trusted}
            store = open_vault(urlsplit(f"vault+{server.base}/kv?kv=1"), config)
            try:
                return await value(store, "db#user")
            finally:
                await store.close()

    assert asyncio.run(read(here, ca.certificate)) == b"x"
    refused = [
        (here, other.certificate, "certificate"),
        (here, b"", "certificate"),
        (pki.server(ca, "vault.example.com"), ca.certificate, "certificate"),
        (expired(here, ca), ca.certificate, "expired"),
    ]
    for pair, trusted, words in refused:
        with pytest.raises(Unavailable, match=words):
            asyncio.run(read(pair, trusted))


def test_tls_to_a_server_without_tls_is_an_outage() -> None:
    async def scenario(store: Vault, server: VaultServer) -> None:
        wrong = open_vault(urlsplit(f"vault+https{server.base.removeprefix('http')}/kv"), {"token": b"t"})
        with pytest.raises(Unavailable, match="TLS"):
            await wrong.read("db")
        await wrong.close()

    with_store(scenario)


def test_neither_the_environments_proxy_nor_its_passwords_are_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password canary\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def scenario(store: Vault, server: VaultServer) -> None:
        await value(store, "db#user")
        headers = server.seen[-1].headers
        assert "Authorization" not in headers
        assert headers["X-Vault-Request"] == "true"
        assert headers["User-Agent"].startswith("samara/")

    with_store(scenario)


def test_no_cookie_is_kept() -> None:
    async def scenario(store: Vault, server: VaultServer) -> None:
        await met(store, server, Reply(500, b"", {"Set-Cookie": "token=canary; Path=/"}))
        await value(store, "db#user")
        assert "Cookie" not in server.seen[-1].headers

    with_store(scenario)


def test_credentials_changed_between_two_reads_of_one_document_do_no_harm() -> None:
    async def scenario(store: Vault, server: VaultServer) -> None:
        token = server.tokens.pop(TOKEN)
        with pytest.raises(Unauthenticated):
            await value(store, "db#user")
        server.tokens[TOKEN] = token

    with_store(scenario)


def test_fields_of_one_document_are_of_one_version() -> None:
    async def run() -> None:
        async with vault_server() as server, administering(server.base, server.root) as admin:
            mount = await admin.mount("2")
            await admin.write(mount, "2", "db", {"user": "a", "password": "a"})
            store = admin.opened(mount, {"token": server.root.encode()})
            document = await store.read("db")
            await admin.write(mount, "2", "db", {"user": "b", "password": "b"})
            assert (document.value("user"), document.value("password")) == (b"a", b"a")

    asyncio.run(run())


def test_no_value_and_no_token_is_logged_or_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario(store: Vault, server: VaultServer) -> None:
        document = await store.read("db")
        shown = [repr(store), repr(document), repr(store.session._token), repr(store.session._login)]
        assert "canary" not in json.dumps(shown)

    with_store(scenario)
    assert "canary" not in caplog.text
