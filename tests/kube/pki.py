"""Generates certificates, and performs TLS handshakes in memory to test what a context accepts and presents."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Pair:
    certificate: bytes
    key: bytes
    private: ec.EllipticCurvePrivateKey
    parsed: x509.Certificate


def authority(name: str = "test CA", issuer: Pair | None = None) -> Pair:
    """A CA without key identifiers, as many clusters have."""
    return _make(name, issuer, x509.BasicConstraints(ca=True, path_length=None), critical=True)


def server(issuer: Pair, *names: str) -> Pair:
    kinds = [x509.IPAddress(ip_address(n)) if n[0].isdigit() else x509.DNSName(n) for n in names]
    return _make(names[0], issuer, x509.SubjectAlternativeName(kinds))


def client(issuer: Pair, name: str) -> Pair:
    return _make(name, issuer, x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]))


def encrypted(pair: Pair) -> bytes:
    return _pem_key(pair.private, serialization.BestAvailableEncryption(b"hunter2"))


def handshake(context: ssl.SSLContext, issuer: Pair, serving: Pair, name: str) -> str | None:
    """Performs a handshake in memory, and returns the common name of the client certificate, if any."""
    ours = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = _server_context(issuer, serving).wrap_bio(ours[1], ours[0], server_side=True)
    here = context.wrap_bio(ours[0], ours[1], server_hostname=name)
    for end in (here, there, here, there, here):
        _step(end)
    if context.verify_mode != ssl.CERT_NONE:
        assert here.getpeercert()
    return _common_name(there.getpeercert())


def _step(end: ssl.SSLObject) -> None:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return


def _common_name(peer: Any) -> str | None:
    return dict(pair for part in peer["subject"] for pair in part)["commonName"] if peer else None


def _server_context(issuer: Pair, serving: Pair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(cadata=issuer.certificate.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(serving.certificate + serving.key)
        context.load_cert_chain(file.name)
    return context


def _make(name: str, issuer: Pair | None, extension: x509.ExtensionType, critical: bool = False) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.parsed.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(extension, critical=critical)
    )
    parsed = builder.sign(issuer.private if issuer else key, hashes.SHA256())
    return Pair(parsed.public_bytes(serialization.Encoding.PEM), _pem_key(key), key, parsed)


def _pem_key(
    key: ec.EllipticCurvePrivateKey,
    how: serialization.KeySerializationEncryption | None = None,
) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        how or serialization.NoEncryption(),
    )
