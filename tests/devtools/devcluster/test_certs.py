"""Tests that certificates name users and groups as the API server reads them."""

from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from samara_devtools.devcluster.certs import Authority, write_private


def test_a_client_certificate_names_user_and_groups_and_is_signed_by_the_authority() -> None:
    authority = Authority()
    certificate = x509.load_pem_x509_certificate(authority.client("jane", ["team-a", "team-b"]).certificate)
    subject = certificate.subject
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["jane"]
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["team-a", "team-b"]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))


def test_the_server_certificate_covers_loopback_and_the_service_address() -> None:
    certificate = x509.load_pem_x509_certificate(Authority().server("10.96.0.1").certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert {"127.0.0.1", "10.96.0.1"} <= addresses
    assert "localhost" in names.get_values_for_type(x509.DNSName)


def test_a_key_file_is_for_its_owner_only(tmp_path: Path) -> None:
    assert write_private(tmp_path / "key", b"secret").stat().st_mode & 0o777 == 0o600
