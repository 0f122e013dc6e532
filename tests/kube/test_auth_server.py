"""The cluster part of a kubeconfig: its address, its proxy, and TLS as Go's clients do it."""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kube import pki
from tests.kube.files import CANARY, access, b64, headers, refusal


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://s:6443/", "https://s:6443"),
        ("https://s/k8s/clusters/c-1//", "https://s/k8s/clusters/c-1"),
        ("https://[fd00::1]:6443", "https://[fd00::1]:6443"),
    ],
)
def test_a_trailing_slash_of_the_server_is_removed(tmp_path: Path, url: str, server: str) -> None:
    assert access(tmp_path, cluster={"server": url}).server == server


def test_plain_http_needs_no_tls(tmp_path: Path) -> None:
    loaded = access(tmp_path, cluster={"server": "http://localhost:8001", "tls-server-name": "x"})

    assert (loaded.ssl, loaded.server_hostname) == (None, None)


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        ({"server": ""}, "cluster 'c' in .*config: server: expected a URL like https://host:port, found no URL"),
        ({"server": "server:6443"}, "expected a URL like https://host:port, found no URL"),
        ({"server": "ftp://server"}, "found ftp; only http and https are supported"),
        ({"server": "https://:6443"}, "found one without a host"),
        ({"server": "https://s:99999"}, "found one that cannot be read"),
        ({"server": "https://[x"}, "found one that cannot be read"),
        ({"server": f"https://ann:{CANARY}@s"}, "found a password in it"),
        ({"proxy-url": f"socks5://ann:{CANARY}@p:1080"}, "proxy-url: .*found socks5; only http and https"),
        ({"proxy-url": CANARY}, "proxy-url: expected a URL like http://host:port, found no URL"),
        ({"certificate-authority": "gone"}, "certificate authority cannot be read: .*folder/gone: No such file"),
        ({"certificate-authority-data": "%%%"}, "expected base64 in certificate-authority-data"),
        ({"certificate-authority-data": b64(b"x")}, "certificate-authority-data: expected certificates in PEM"),
        (
            {"certificate-authority-data": b64(b"x"), "insecure-skip-tls-verify": True},
            "certificate-authority and insecure-skip-tls-verify exclude each other",
        ),
    ],
)
def test_an_unusable_cluster_is_refused(tmp_path: Path, cluster: dict[str, Any], says: str) -> None:
    assert re.search(says, refusal(tmp_path, None, cluster))


def test_an_empty_authority_does_not_trust_the_systems_authorities(tmp_path: Path) -> None:
    (tmp_path / "empty.crt").write_text("")

    assert "expected certificates in PEM" in refusal(tmp_path, None, {"certificate-authority": "../empty.crt"})


@pytest.mark.parametrize("meanwhile", [b"", "Zürich".encode()[1:3], b"-----BEGIN CERTIFICATE-----\nMII", None])
def test_the_old_authority_stays_trusted_while_its_file_is_replaced(tmp_path: Path, meanwhile: bytes | None) -> None:
    old, new, file = pki.authority(), pki.authority("new"), tmp_path / "ca.crt"
    file.write_bytes(old.certificate)
    loaded = access(tmp_path, cluster={"certificate-authority": "../ca.crt"})
    assert loaded.ssl

    file.unlink() if meanwhile is None else file.write_bytes(meanwhile)
    loaded.reload_ca()
    pki.handshake(loaded.ssl, old, pki.server(old, "server"), "server")

    file.write_bytes(new.certificate)
    loaded.reload_ca()
    pki.handshake(loaded.ssl, new, pki.server(new, "server"), "server")


def test_the_proxy_of_the_kubeconfig_is_used(tmp_path: Path) -> None:
    assert access(tmp_path, cluster={"proxy-url": "http://u:p@proxy:3128"}).proxy == "http://u:p@proxy:3128"
    assert access(tmp_path).proxy is None


def test_the_authority_in_the_file_and_the_one_inline_are_trusted(tmp_path: Path) -> None:
    ca = pki.authority()
    (tmp_path / "ca.crt").write_bytes("# Zürich\n".encode() + ca.certificate)

    for cluster in ({"certificate-authority": "../ca.crt"}, {"certificate-authority-data": b64(ca.certificate)}):
        context = access(tmp_path, cluster=cluster).ssl
        assert context
        pki.handshake(context, ca, pki.server(ca, "server"), "server")


def test_inline_data_wins_over_a_file(tmp_path: Path) -> None:
    ca = pki.authority()

    loaded = access(
        tmp_path, cluster={"certificate-authority": "missing", "certificate-authority-data": b64(ca.certificate)}
    )

    assert loaded.ssl


def test_a_server_of_another_name_is_refused_unless_tls_server_name_says_so(tmp_path: Path) -> None:
    ca = pki.authority()
    loaded = access(tmp_path, cluster={"certificate-authority-data": b64(ca.certificate), "tls-server-name": "inner"})

    assert loaded.ssl
    assert loaded.server_hostname == "inner"
    pki.handshake(loaded.ssl, ca, pki.server(ca, "inner"), "inner")
    with pytest.raises(ssl.SSLCertVerificationError):
        pki.handshake(loaded.ssl, ca, pki.server(ca, "inner"), "server")


def test_an_intermediate_certificate_can_be_the_trusted_authority(tmp_path: Path) -> None:
    middle = pki.authority("middle", pki.authority("root"))
    loaded = access(tmp_path, cluster={"certificate-authority-data": b64(middle.certificate)})

    assert loaded.ssl
    pki.handshake(loaded.ssl, middle, pki.server(middle, "server"), "server")


def test_skipping_verification_accepts_any_server(tmp_path: Path) -> None:
    loaded = access(tmp_path, cluster={"insecure-skip-tls-verify": True})
    ca = pki.authority()

    assert loaded.ssl
    pki.handshake(loaded.ssl, ca, pki.server(ca, "whoever"), "server")


@pytest.fixture
def private_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def test_a_client_certificate_is_presented_and_leaves_no_file(tmp_path: Path, private_tmp: Path) -> None:
    ca = pki.authority()
    ann, serving = pki.client(ca, "ann"), pki.server(ca, "server")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "ann.crt").write_bytes(ann.certificate)
    (tmp_path / "folder" / "ann.key").write_bytes(ann.key)
    data = {"client-certificate-data": b64(ann.certificate), "client-key-data": b64(ann.key)}
    files = {"client-certificate": "ann.crt", "client-key": "ann.key"}
    mixed = {"client-certificate": "ann.crt", "client-key-data": b64(ann.key), "client-key": "missing"}

    for user in (data, files, mixed):
        loaded = access(tmp_path, user, {"certificate-authority-data": b64(ca.certificate)})
        assert loaded.ssl
        assert pki.handshake(loaded.ssl, ca, serving, "server") == "ann"
        assert headers(loaded) == []


def test_a_key_of_another_certificate_is_refused_and_leaves_no_file(tmp_path: Path, private_tmp: Path) -> None:
    ca = pki.authority()
    ann, bob = pki.client(ca, "ann"), pki.client(ca, "bob")

    says = refusal(tmp_path, {"client-certificate-data": b64(ann.certificate), "client-key-data": b64(bob.key)})

    assert "KEY_VALUES_MISMATCH" in says


def test_an_encrypted_key_is_refused_without_asking_for_a_password(tmp_path: Path, private_tmp: Path) -> None:
    ann = pki.client(pki.authority(), "ann")

    says = refusal(
        tmp_path, {"client-certificate-data": b64(ann.certificate), "client-key-data": b64(pki.encrypted(ann))}
    )

    assert "the client key is encrypted" in says
