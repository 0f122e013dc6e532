"""Our own authority and the certificate that the webhook server shows: values and `now` in, values out.

A rotation never breaks a connection. A new authority joins the bundle first; it signs only when it has been there for
long enough to have reached every API server, and the old one stays in the bundle until it has expired.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SKEW = timedelta(days=1)
"""Certificates begin well before now: the API server's clock is not ours, and either may be hours off."""
_MOST_AUTHORITIES = 3
_ODD = (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm)
"""What bytes raise that are no PEM, not of a kind that we can use, or not signed by whom they say."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How long certificates live. Each is replaced when two thirds of its life are over."""

    authority: timedelta = timedelta(days=730)
    serving: timedelta = timedelta(days=90)
    overlap: timedelta = timedelta(hours=1)
    """How long a new authority must have been in the bundle before it signs."""


@dataclass(frozen=True, slots=True)
class Material:
    """What the server shows and what its clients trust, as PEM."""

    serving: bytes
    key: bytes = field(repr=False)
    bundle: bytes = b""
    """The authorities, newest first."""
    authority_key: bytes = field(default=b"", repr=False)
    """The key of the newest authority; the keys of older ones are forgotten."""


@dataclass(frozen=True, slots=True)
class _Issuer:
    authorities: tuple[x509.Certificate, ...]
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def newest(self) -> x509.Certificate:
        return self.authorities[0]

    def has_signed(self, certificate: x509.Certificate) -> bool:
        return _is_signed_by(certificate, self.newest)


def renewed(have: Material | None, names: Iterable[str], now: datetime, terms: Terms) -> Material:
    """The material as it should be now: equal to what there is where nothing is due, and new where that is odd."""
    given = have or Material(b"", b"")
    issuer = _issuer(given, now, terms)
    serving = _serving(given, issuer, now)
    asked = _names_due(serving, issuer, frozenset(names), now, terms)
    shown, key = (given.serving, given.key) if asked is None else _issued(issuer, asked, now, terms)
    return Material(shown, key, b"".join(map(_pem, issuer.authorities)), _private_pem(issuer.key))


def is_servable(material: Material) -> bool:
    """True for a certificate and the key that belongs to it, whoever signed it."""
    certificates, key = _certificates(material.serving), _private(material.key)
    return bool(certificates) and key is not None and key.public_key() == certificates[0].public_key()


def names_of(certificate: x509.Certificate) -> frozenset[str]:
    """The host names and addresses that a certificate is for."""
    try:
        held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    addresses = held.get_values_for_type(x509.IPAddress)
    return frozenset((*held.get_values_for_type(x509.DNSName), *map(str, addresses)))


# what is there


def _issuer(given: Material, now: datetime, terms: Terms) -> _Issuer:
    """The authority of what is given, or a new one before it where that is due or cannot sign any more."""
    held = tuple(each for each in _certificates(given.bundle) if _is_valid(each, now))
    key = _private(given.authority_key)
    old = not held or _is_due(held[0], terms.authority, now)
    if not old and isinstance(key, ec.EllipticCurvePrivateKey) and key.public_key() == held[0].public_key():
        return _Issuer(held, key)
    new = ec.generate_private_key(ec.SECP256R1())
    return _Issuer((_authority(new, now, terms), *held)[:_MOST_AUTHORITIES], new)


def _serving(given: Material, issuer: _Issuer, now: datetime) -> x509.Certificate | None:
    """The certificate of what is given, where it can be shown now and the bundle vouches for it."""
    if not is_servable(given):
        return None
    shown = _certificates(given.serving)[0]
    trusted = any(_is_signed_by(shown, authority) for authority in issuer.authorities)
    return shown if trusted and _is_valid(shown, now) else None


def _names_due(
    serving: x509.Certificate | None, issuer: _Issuer, names: frozenset[str], now: datetime, terms: Terms
) -> frozenset[str] | None:
    """The names for which a certificate must be issued now; None where the one that is there will do."""
    if serving is None:
        return names
    if not names <= names_of(serving):
        return names | names_of(serving)  # two operators with different names must not take turns
    known = now >= issuer.newest.not_valid_before_utc + SKEW + terms.overlap
    old = _is_due(serving, terms.serving, now) or not issuer.has_signed(serving)
    return names if known and old else None


def _is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def _is_due(certificate: x509.Certificate, life: timedelta, now: datetime) -> bool:
    return now >= certificate.not_valid_after_utc - life / 3


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except _ODD:
        return False
    return True


# what is made


def _authority(key: ec.EllipticCurvePrivateKey, now: datetime, terms: Terms) -> x509.Certificate:
    # The serial in the name: of two authorities with one name a client might try the wrong one only.
    name = _name(f"samara-webhook-ca-{x509.random_serial_number():x}"[:40])
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    return (
        _builder(name, name, key.public_key(), now, terms.authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )


def _issued(issuer: _Issuer, names: frozenset[str], now: datetime, terms: Terms) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key())
    certificate = (
        _builder(_name("samara-webhook"), issuer.newest.subject, key.public_key(), now, terms.serving)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(each) for each in sorted(names)]), critical=False)
        .add_extension(signer, critical=False)  # Python 3.13 verifies strictly and refuses one without
        .sign(issuer.key, hashes.SHA256())
    )
    return _pem(certificate), _private_pem(key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem) if pem else []
    except _ODD:
        return []


def _private(pem: bytes) -> PrivateKeyTypes | None:
    try:
        return load_pem_private_key(pem, password=None) if pem else None
    except _ODD:
        return None
