"""The certificate of the webhook server: an authority of our own signs it, and a Secret shares it between replicas.

A rotation breaks no connection. A new authority joins the bundle first. It signs only after it has been there for long
enough to have reached every API server, and the old one stays in the bundle until it expires.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from samara import log
from samara.assembly import CERTIFICATE
from samara.core.metadata_keys import APP
from samara.core.model import SECRET, Ref
from samara.kube.client import OUR_WRITES, Client, address, collection
from samara.kube.codec import MALFORMED, encode
from samara.kube.errors import AlreadyExists, Conflict, Invalid, NotFound, SamaraError
from samara.kube.object_watch import ObjectWatcher, RawObject, secret_data

SKEW = timedelta(days=1)
"""Certificates become valid this long before now: the clocks of the API server and of this machine may differ."""
TYPE = "kubernetes.io/tls"
KEYS = {"serving": "tls.crt", "key": "tls.key", "bundle": "ca.crt", "authority_key": "ca.key"}
"""By field of `Certificates`: its key in the Secret."""
CERT_MANAGER = "cert-manager.io/certificate-name"
"""cert-manager annotates the Secrets that it keeps. The operator does not write those."""
_INTERVALS_AFTER_FAILURE = 10
"""After this many intervals a failed write is tried again."""
_MAX_AUTHORITIES = 3
_UNUSABLE = (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm)
"""Raised for bytes that are not PEM, for unsupported keys and for wrong signatures."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long certificates are valid. Each is replaced after two thirds of its life."""

    authority: timedelta = timedelta(days=730)
    serving: timedelta = timedelta(days=90)
    overlap: timedelta = timedelta(hours=1)
    """How long a new authority must have been in the bundle before it signs."""


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Timings:
    """Lifetimes and intervals of the tasks of admission. Intervals are in seconds."""

    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    now: Callable[[], datetime] = utc_now
    interval: float = 1.0
    """Between two checks of the loaded certificate and of who leads. They send no request."""
    recheck_interval: float = 10.0
    """Between two reads of the webhook configurations and CRDs."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The certificate and key of the server, and the authorities that its clients trust, as PEM."""

    serving: bytes
    key: bytes = field(repr=False)
    bundle: bytes = b""
    """The authorities, newest first."""
    authority_key: bytes = field(default=b"", repr=False)
    """The key of the newest authority. Keys of older ones are not kept."""


def renew(current: Certificates | None, names: Iterable[str], now: datetime, lifetimes: Lifetimes) -> Certificates:
    """The certificates as they should be now. It keeps what is valid and not due, and issues the rest again."""
    given = current or Certificates(b"", b"")
    issuer = _issuer(given, now, lifetimes)
    serving = _serving(given, issuer, now)
    names_to_issue = _names_due(serving, issuer, frozenset(names), now, lifetimes)
    if names_to_issue is None:
        pem, key = given.serving, given.key
    else:
        pem, key = _issue(issuer, names_to_issue, now, lifetimes)
    return Certificates(pem, key, b"".join(map(_pem, issuer.authorities)), _private_pem(issuer.key))


def is_servable(certificates: Certificates) -> bool:
    """True if there is a certificate with its key. The signer does not matter."""
    serving, key = _parse_certificates(certificates.serving), _parse_key(certificates.key)
    return bool(serving) and key is not None and key.public_key() == serving[0].public_key()


def names_of(certificate: x509.Certificate) -> frozenset[str]:
    """The host names and addresses that a certificate is for."""
    try:
        alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    addresses = alternative.get_values_for_type(x509.IPAddress)
    return frozenset((*alternative.get_values_for_type(x509.DNSName), *map(str, addresses)))


# the Secret


class TlsSecret:
    """Writes the Secret with the certificates while this process leads, and watches it in every replica.

    `load` gets every certificate that can be served, the first and each new one.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        names: tuple[str, ...],
        is_leading: Callable[[], bool],
        load: Callable[[Certificates], None],
        timings: Timings,
    ) -> None:
        self._client = client
        self._ref = Ref(SECRET, namespace, CERTIFICATE)
        self._names = names
        self._is_leading = is_leading
        self._load = load
        self._timings = timings
        self._watcher = ObjectWatcher(
            client, self._ref, self._on_object, lambda fault: self._report_failure("read", fault), timings.interval
        )
        self._was_read = False
        """True if the API server has answered whether the Secret exists."""
        self._stored: StoredSecret | None = None
        self._loaded: Certificates | None = None
        """The last ones that could be served. They stay in use if the Secret is deleted or broken."""
        self.not_ready_reason: str | None = "no certificate yet"

    @property
    def bundle(self) -> bytes:
        """The authorities that the API server must trust. Empty if there are none yet, or others distribute them."""
        return self._loaded.bundle if self._loaded is not None else b""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watcher.run())
            group.create_task(self._keep_correct())

    def _on_object(self, raw: RawObject | None) -> None:
        stored = None if raw is None else StoredSecret.of(raw)
        self._was_read, self._stored = True, stored
        if stored is None or stored.certificates == self._loaded:
            return
        if not is_servable(stored.certificates):
            log.warning("webhook-certificate.odd", secret=self._ref.path)
            return
        self._load(stored.certificates)
        self._loaded, self.not_ready_reason = stored.certificates, None
        log.info("webhook-certificate.loaded", secret=self._ref.path)

    async def _keep_correct(self) -> None:
        while True:
            await asyncio.sleep(self._timings.interval)
            if self._was_read and self._is_leading():
                try:
                    await self._correct()
                except (SamaraError, *MALFORMED) as fault:
                    self._report_failure("write", fault)
                    await asyncio.sleep(_INTERVALS_AFTER_FAILURE * self._timings.interval)

    async def _correct(self) -> None:
        stored = self._stored
        if stored is not None and stored.is_cert_managers:
            return
        wanted = renew(self._current(), self._names, self._timings.now(), self._timings.lifetimes)
        if stored is not None and stored.certificates == wanted:
            return
        try:
            await self._write(stored, wanted)
        except (Conflict, AlreadyExists, NotFound):
            await self._watcher.read()  # another client was faster
        except Invalid:
            if stored is not None:  # immutable, or of another type: delete it, and create it at the next interval
                await self._delete(stored)

    def _current(self) -> Certificates | None:
        """The certificates in the Secret, or the loaded ones if those cannot be served or are gone."""
        stored = self._stored.certificates if self._stored is not None else None
        if self._loaded is None or (stored is not None and is_servable(stored)):
            return stored
        return self._loaded

    async def _write(self, stored: StoredSecret | None, wanted: Certificates) -> None:
        metadata = {"name": CERTIFICATE, "namespace": self._ref.namespace, "labels": {APP: "samara"}}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": TYPE, "data": to_data(wanted)}
        if stored is None:
            path = collection(SECRET, self._ref.namespace)
            raw = await self._client.request("POST", path, encode(secret), params=OUR_WRITES)
        else:
            metadata["resourceVersion"], secret["type"] = str(stored.version), stored.type
            raw = await self._client.request("PUT", address(self._ref), encode(secret), params=OUR_WRITES)
        log.info("webhook-certificate.written", secret=self._ref.path)
        self._watcher.take(raw)

    async def _delete(self, stored: StoredSecret) -> None:
        options = {"preconditions": {"uid": stored.uid, "resourceVersion": str(stored.version)}}
        await self._client.request("DELETE", address(self._ref), encode(options))
        self._watcher.take(None)

    def _report_failure(self, verb: str, fault: Exception) -> None:
        reason = str(fault) if isinstance(fault, SamaraError) else type(fault).__name__
        if self._loaded is None:
            self.not_ready_reason = f"cannot {verb} Secret {self._ref.path}: {reason}"
        log.warning("webhook-certificate.failed", what=verb, secret=self._ref.path, fault=reason)


class _Metadata(msgspec.Struct):
    uid: str
    resourceVersion: str
    annotations: dict[str, str] | None = None


class _Secret(msgspec.Struct):
    metadata: _Metadata


_secret = msgspec.json.Decoder(_Secret).decode


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """The Secret as it was last read."""

    uid: str
    version: int
    type: str
    certificates: Certificates
    is_cert_managers: bool

    @classmethod
    def of(cls, raw: RawObject) -> StoredSecret:
        metadata, (secret_type, data) = _secret(raw).metadata, secret_data(raw)
        is_cert_managers = CERT_MANAGER in (metadata.annotations or {})
        return cls(metadata.uid, int(metadata.resourceVersion), secret_type or TYPE, from_data(data), is_cert_managers)


def from_data(data: Mapping[str, bytes]) -> Certificates:
    """The certificates in a Secret's data. A missing key is empty."""
    return Certificates(**{name: data.get(key, b"") for name, key in KEYS.items()})


def to_data(certificates: Certificates) -> dict[str, str]:
    """The data of a Secret with these certificates."""
    return {key: base64.b64encode(getattr(certificates, name)).decode() for name, key in KEYS.items()}


# which certificates are due


@dataclass(frozen=True, slots=True)
class _Issuer:
    authorities: tuple[x509.Certificate, ...]
    """Newest first."""
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def newest(self) -> x509.Certificate:
        return self.authorities[0]


def _issuer(given: Certificates, now: datetime, lifetimes: Lifetimes) -> _Issuer:
    """The given authorities, preceded by a new one if that is due or if the newest cannot sign any more."""
    valid = tuple(authority for authority in _parse_certificates(given.bundle) if _is_valid(authority, now))
    key = _parse_key(given.authority_key)
    due = not valid or _is_due(valid[0], lifetimes.authority, now)
    if not due and isinstance(key, ec.EllipticCurvePrivateKey) and key.public_key() == valid[0].public_key():
        return _Issuer(valid, key)
    new = ec.generate_private_key(ec.SECP256R1())
    return _Issuer((_authority(new, now, lifetimes), *valid)[:_MAX_AUTHORITIES], new)


def _serving(given: Certificates, issuer: _Issuer, now: datetime) -> x509.Certificate | None:
    """The given certificate. None if it cannot be served, is not valid now, or no authority of the bundle signed it."""
    if not is_servable(given):
        return None
    serving = _parse_certificates(given.serving)[0]
    trusted = any(_is_signed_by(serving, authority) for authority in issuer.authorities)
    return serving if trusted and _is_valid(serving, now) else None


def _names_due(
    serving: x509.Certificate | None, issuer: _Issuer, names: frozenset[str], now: datetime, lifetimes: Lifetimes
) -> frozenset[str] | None:
    """The names to issue a certificate for now. None if the current one will do."""
    if serving is None:
        return names
    if not names <= names_of(serving):
        return names | names_of(serving)  # otherwise two operators with different names would replace it in turns
    if not _is_due(serving, lifetimes.serving, now) and _is_signed_by(serving, issuer.newest):
        return None
    is_distributed = now >= issuer.newest.not_valid_before_utc + SKEW + lifetimes.overlap
    return names if is_distributed else None


def _is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def _is_due(certificate: x509.Certificate, life: timedelta, now: datetime) -> bool:
    return now >= certificate.not_valid_after_utc - life / 3


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except _UNUSABLE:
        return False
    return True


# issuing and parsing


def _authority(key: ec.EllipticCurvePrivateKey, now: datetime, lifetimes: Lifetimes) -> x509.Certificate:
    # The name has a random part: if two authorities had one name, a client might only try the wrong one.
    name = _name(f"samara-webhook-ca-{x509.random_serial_number():x}"[:40])
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    return (
        _builder(name, name, key.public_key(), now, lifetimes.authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )


def _issue(issuer: _Issuer, names: frozenset[str], now: datetime, lifetimes: Lifetimes) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key())
    certificate = (
        _builder(_name("samara-webhook"), issuer.newest.subject, key.public_key(), now, lifetimes.serving)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in sorted(names)]), critical=False)
        .add_extension(signer, critical=False)  # clients with Python 3.13 refuse a certificate without it
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


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _parse_certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem) if pem else []
    except _UNUSABLE:
        return []


def _parse_key(pem: bytes) -> PrivateKeyTypes | None:
    try:
        return load_pem_private_key(pem, password=None) if pem else None
    except _UNUSABLE:
        return None
