"""Creation, renewal and rotation of the authority and the serving certificate."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from samara.admission.certificates import Certificates, Lifetimes, is_servable, names_of, renew

NOW = datetime.now(UTC).replace(microsecond=0)
LIFETIMES = Lifetimes()
NAMES = ("samara-webhook.samara.svc", "127.0.0.1")
DAY = timedelta(days=1)


def made(names: tuple[str, ...] = NAMES, now: datetime = NOW) -> Certificates:
    return renew(None, names, now, LIFETIMES)


def shown(certificates: Certificates) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificates.serving)


def authorities(certificates: Certificates) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(certificates.bundle)


def trusts(bundle: bytes, certificates: Certificates) -> bool:
    """True if an authority of the bundle has signed the serving certificate."""
    for authority in x509.load_pem_x509_certificates(bundle):
        try:
            shown(certificates).verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


def shakes_hands(certificates: Certificates, name: str) -> bool:
    """A real handshake in memory, as strict as Python can be."""
    there, here = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ssl.create_default_context(cadata=certificates.bundle.decode()),
    )
    here.verify_flags |= ssl.VERIFY_X509_STRICT
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(certificates.serving + certificates.key)
        there.load_cert_chain(file.name)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = here.wrap_bio(down, up, server_hostname=name), there.wrap_bio(up, down, server_side=True)
    for end in (*ends, *ends, ends[0]):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLError:
            return False
    return True


@pytest.mark.parametrize("name", NAMES)
def test_a_new_certificate_is_valid_for_its_names_and_no_others(name: str) -> None:
    certificates = made()

    assert shakes_hands(certificates, name)
    assert not shakes_hands(certificates, "somebody.else.svc")


def test_nothing_is_renewed_before_two_thirds_of_a_lifetime() -> None:
    certificates = made()

    assert renew(certificates, NAMES, NOW + 59 * DAY, LIFETIMES) == certificates


def test_the_same_authority_renews_the_serving_certificate_after_two_thirds_of_its_lifetime() -> None:
    certificates = made()
    after = renew(certificates, NAMES, NOW + 60 * DAY, LIFETIMES)

    assert after.serving != certificates.serving
    assert after.key != certificates.key
    assert (after.bundle, after.authority_key) == (certificates.bundle, certificates.authority_key)
    assert shown(after).not_valid_after_utc == NOW + 150 * DAY


def test_a_new_authority_joins_the_bundle_before_it_signs_and_the_old_key_is_dropped() -> None:
    then = NOW + timedelta(days=730) * 2 / 3 + DAY
    young = renew(made(), NAMES, then - 2 * DAY, LIFETIMES)
    joined = renew(young, NAMES, then, LIFETIMES)

    assert authorities(joined)[1:] == authorities(young)
    assert joined.serving == young.serving
    assert joined.authority_key not in (b"", young.authority_key)
    assert renew(joined, NAMES, then + timedelta(minutes=59), LIFETIMES) == joined

    signed = renew(joined, NAMES, then + timedelta(minutes=61), LIFETIMES)
    assert signed.bundle == joined.bundle
    assert trusts(joined.bundle, signed)
    assert not trusts(young.bundle, signed)


@pytest.mark.parametrize("off", [timedelta(hours=1), -timedelta(hours=1)])
def test_fault_36_a_client_whose_clock_is_an_hour_off_accepts_the_certificate(off: timedelta) -> None:
    certificates = made()
    assert renew(certificates, NAMES, NOW + off, LIFETIMES) == certificates
    for certificate in (shown(certificates), *authorities(certificates)):
        assert certificate.not_valid_before_utc <= NOW + off < certificate.not_valid_after_utc


def test_an_expired_authority_leaves_the_bundle() -> None:
    certificates = made()
    for days in (0, 490, 491, 731):
        certificates = renew(certificates, NAMES, NOW + days * DAY, LIFETIMES)

    assert [authority.not_valid_after_utc for authority in authorities(certificates)] == [NOW + (490 + 730) * DAY]


@settings(max_examples=8)
@given(st.lists(st.integers(2, 40 * 24), min_size=60, max_size=90))
def test_every_step_of_a_rotation_is_trusted_by_clients_one_step_behind(hours: list[int]) -> None:
    certificates, now = made(), NOW
    for hour in hours:
        before, now = certificates, now + timedelta(hours=hour)
        certificates = renew(before, NAMES, now, LIFETIMES)
        lived = shown(before).not_valid_after_utc > now
        assert trusts(before.bundle, certificates) or not lived, "a server that has not seen the new bundle"
        assert trusts(certificates.bundle, before) or not lived, "a replica that still shows the old certificate"
        assert shown(certificates).not_valid_after_utc > now
        assert len(authorities(certificates)) <= 3


def test_missing_names_are_added_to_the_existing_ones() -> None:
    both = renew(made(("one.svc",)), ("two.svc",), NOW, LIFETIMES)

    assert names_of(shown(both)) == {"one.svc", "two.svc"}
    assert renew(both, ("one.svc",), NOW, LIFETIMES) == both
    assert names_of(shown(renew(both, ("one.svc",), NOW + 61 * DAY, LIFETIMES))) == {"one.svc"}


ODD = [b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", made().authority_key]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("field", ["serving", "key", "bundle", "authority_key"])
def test_unusable_certificates_are_replaced(field: str, text: bytes) -> None:
    odd = replace(made(), **{field: text})
    mended = renew(odd, NAMES, NOW, LIFETIMES)

    assert shakes_hands(mended, NAMES[0])
    assert renew(mended, NAMES, NOW, LIFETIMES) == mended


def test_a_broken_serving_key_does_not_replace_the_authority() -> None:
    certificates = made()
    mended = renew(replace(certificates, key=b"x"), NAMES, NOW, LIFETIMES)

    assert mended.bundle == certificates.bundle
    assert mended.serving != certificates.serving


def test_a_lost_authority_key_adds_an_authority_and_keeps_the_serving_certificate() -> None:
    certificates = made()
    mended = renew(replace(certificates, authority_key=b""), NAMES, NOW, LIFETIMES)

    assert mended.serving == certificates.serving
    assert trusts(mended.bundle, certificates)
    assert len(authorities(mended)) == 2


def test_a_certificate_from_the_future_is_replaced() -> None:
    future = made(now=NOW + 10 * DAY)

    assert shown(renew(future, NAMES, NOW, LIFETIMES)).not_valid_before_utc < NOW


def test_a_foreign_certificate_can_be_served_with_its_own_key_only() -> None:
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "other")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    signed = builder.serial_number(1).not_valid_before(NOW).not_valid_after(NOW + DAY).sign(key, hashes.SHA256())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    other = Certificates(signed.public_bytes(serialization.Encoding.PEM), pem)

    assert is_servable(other)
    assert not is_servable(replace(other, key=made().key))


def test_no_repr_shows_a_key() -> None:
    certificates = made()

    assert "PRIVATE" not in repr(certificates)
