"""The authority and the serving certificate over the years."""

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

from samara.admission.certificates import Material, Terms, is_servable, names_of, renewed

NOW = datetime.now(UTC).replace(microsecond=0)
TERMS = Terms()
NAMES = ("samara-webhook.samara.svc", "127.0.0.1")
DAY = timedelta(days=1)


def made(names: tuple[str, ...] = NAMES, now: datetime = NOW) -> Material:
    return renewed(None, names, now, TERMS)


def shown(material: Material) -> x509.Certificate:
    return x509.load_pem_x509_certificate(material.serving)


def authorities(material: Material) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(material.bundle)


def trusts(bundle: bytes, material: Material) -> bool:
    """True where one of the bundle has signed what the server shows."""
    for authority in x509.load_pem_x509_certificates(bundle):
        try:
            shown(material).verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


def shakes_hands(material: Material, name: str) -> bool:
    """A real handshake in memory, as strict as Python can be."""
    there, here = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cadata=material.bundle.decode())
    here.verify_flags |= ssl.VERIFY_X509_STRICT
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(material.serving + material.key)
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
def test_what_is_made_serves_its_names_and_no_others(name: str) -> None:
    material = made()

    assert shakes_hands(material, name)
    assert not shakes_hands(material, "somebody.else.svc")


def test_nothing_changes_before_two_thirds_of_a_life_are_over() -> None:
    material = made()

    assert renewed(material, NAMES, NOW + 59 * DAY, TERMS) == material


def test_the_serving_certificate_is_replaced_after_two_thirds_of_its_life_by_the_same_authority() -> None:
    material = made()
    after = renewed(material, NAMES, NOW + 60 * DAY, TERMS)

    assert after.serving != material.serving
    assert after.key != material.key
    assert (after.bundle, after.authority_key) == (material.bundle, material.authority_key)
    assert shown(after).not_valid_after_utc == NOW + 150 * DAY


def test_a_new_authority_joins_the_bundle_before_it_signs_and_the_old_key_is_forgotten() -> None:
    then = NOW + timedelta(days=730) * 2 / 3 + DAY
    young = renewed(made(), NAMES, then - 2 * DAY, TERMS)
    joined = renewed(young, NAMES, then, TERMS)

    assert authorities(joined)[1:] == authorities(young)
    assert joined.serving == young.serving
    assert joined.authority_key not in (b"", young.authority_key)
    assert renewed(joined, NAMES, then + timedelta(minutes=59), TERMS) == joined

    signed = renewed(joined, NAMES, then + timedelta(minutes=61), TERMS)
    assert signed.bundle == joined.bundle
    assert trusts(joined.bundle, signed)
    assert not trusts(young.bundle, signed)


@pytest.mark.parametrize("off", [timedelta(hours=1), -timedelta(hours=1)])
def test_fault_36_whoever_has_a_clock_that_is_an_hour_off_takes_the_certificate_all_the_same(off: timedelta) -> None:
    material = made()
    assert renewed(material, NAMES, NOW + off, TERMS) == material
    for certificate in (shown(material), *authorities(material)):
        assert certificate.not_valid_before_utc <= NOW + off < certificate.not_valid_after_utc


def test_an_old_authority_leaves_the_bundle_when_it_has_expired() -> None:
    material = made()
    for days in (0, 490, 491, 731):
        material = renewed(material, NAMES, NOW + days * DAY, TERMS)

    assert [each.not_valid_after_utc for each in authorities(material)] == [NOW + (490 + 730) * DAY]


@settings(max_examples=8)
@given(st.lists(st.integers(2, 40 * 24), min_size=60, max_size=90))
def test_no_step_of_any_rotation_is_distrusted_by_those_who_are_one_step_behind(hours: list[int]) -> None:
    material, now = made(), NOW
    for each in hours:
        before, now = material, now + timedelta(hours=each)
        material = renewed(before, NAMES, now, TERMS)
        lived = shown(before).not_valid_after_utc > now
        assert trusts(before.bundle, material) or not lived, "a server that has not seen the new bundle"
        assert trusts(material.bundle, before) or not lived, "a replica that still shows the old certificate"
        assert shown(material).not_valid_after_utc > now
        assert len(authorities(material)) <= 3


def test_names_that_are_missing_join_those_that_are_there() -> None:
    both = renewed(made(("one.svc",)), ("two.svc",), NOW, TERMS)

    assert names_of(shown(both)) == {"one.svc", "two.svc"}
    assert renewed(both, ("one.svc",), NOW, TERMS) == both
    assert names_of(shown(renewed(both, ("one.svc",), NOW + 61 * DAY, TERMS))) == {"one.svc"}


ODD = [b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", made().authority_key]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("field", ["serving", "key", "bundle", "authority_key"])
def test_whatever_is_odd_is_replaced(field: str, text: bytes) -> None:
    odd = replace(made(), **{field: text})
    mended = renewed(odd, NAMES, NOW, TERMS)

    assert shakes_hands(mended, NAMES[0])
    assert renewed(mended, NAMES, NOW, TERMS) == mended


def test_a_broken_serving_key_leaves_the_authority_alone() -> None:
    material = made()
    mended = renewed(replace(material, key=b"x"), NAMES, NOW, TERMS)

    assert mended.bundle == material.bundle
    assert mended.serving != material.serving


def test_a_lost_authority_key_makes_a_new_authority_and_breaks_nothing() -> None:
    material = made()
    mended = renewed(replace(material, authority_key=b""), NAMES, NOW, TERMS)

    assert mended.serving == material.serving
    assert trusts(mended.bundle, material)
    assert len(authorities(mended)) == 2


def test_a_certificate_from_the_future_is_replaced() -> None:
    future = made(now=NOW + 10 * DAY)

    assert shown(renewed(future, NAMES, NOW, TERMS)).not_valid_before_utc < NOW


def test_a_pair_of_another_maker_can_be_served_and_a_mismatched_one_cannot() -> None:
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "other")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    signed = builder.serial_number(1).not_valid_before(NOW).not_valid_after(NOW + DAY).sign(key, hashes.SHA256())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    other = Material(signed.public_bytes(serialization.Encoding.PEM), pem)

    assert is_servable(other)
    assert not is_servable(replace(other, key=made().key))


def test_keys_are_in_no_repr() -> None:
    material = made()

    assert "PRIVATE" not in repr(material)
