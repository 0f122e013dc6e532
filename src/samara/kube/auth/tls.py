"""TLS contexts for the API server. They accept and refuse the same certificates as Go's clients."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from ssl import SSLContext

from samara.kube.errors import ConfigError

Pem = bytes | Path
"""Certificates or a key: the PEM text, or a file that holds it."""


def client_context(ca: Pem | None, insecure: bool) -> SSLContext:
    """Trusts the given certificate authority, or the system's if none is given."""
    context = ssl.create_default_context() if ca is None else _trusting(ca)
    # Python 3.13 sets STRICT, which refuses the authorities of many clusters because they have no key identifier.
    # Go accepts those, and accepts an intermediate as a root. The same kubeconfig must work here.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def reload_ca(context: SSLContext, ca: Path) -> None:
    """Also trusts what the file holds now. If it cannot be read, nothing changes."""
    with suppress(ssl.SSLError, ConfigError):
        context.load_verify_locations(cadata=_certificates(ca))


def load_client_certificate(context: SSLContext, certificate: Pem, key: Pem, origin: str) -> None:
    """Makes a context present this certificate on every new connection. Errors begin with `origin`."""
    try:
        with pem_file(certificate) as certificate_file, pem_file(key) as key_file:
            context.load_cert_chain(certificate_file, key_file, password=_no_password)
    except ssl.SSLError as error:
        raise ConfigError(
            f"{origin}: expected a client certificate in PEM and the key that belongs to it,"
            f" found something else ({error.reason or 'not PEM'}); renew the pair"
        ) from error
    except OSError as error:
        raise ConfigError(f"{origin}: the client certificate or key cannot be read: {_reason(error)}") from error


@contextmanager
def pem_file(pem: Pem) -> Iterator[Path]:
    """A file with the PEM, because OpenSSL loads certificates with their keys from files only.

    It is in memory if the system can do that, and otherwise in a folder that only this user can read.
    """
    if isinstance(pem, Path):
        yield pem
    elif hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("samara"), "wb") as file:
            file.write(pem)
            file.flush()
            yield Path(f"/proc/self/fd/{file.fileno()}")
    else:
        with tempfile.TemporaryDirectory(prefix="samara-") as folder:
            path = Path(folder, "pem")
            path.write_bytes(pem)
            yield path


def read(pem: Pem, name: str) -> bytes:
    """The PEM text. An error begins with `name`."""
    if isinstance(pem, bytes):
        return pem
    try:
        return pem.read_bytes()
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {_reason(error)}") from error


def _trusting(ca: Pem) -> SSLContext:
    try:
        return ssl.create_default_context(cadata=_certificates(ca))
    except ssl.SSLError as error:
        origin = str(ca) if isinstance(ca, Path) else "certificate-authority-data"
        raise ConfigError(f"{origin}: expected certificates in PEM, found none that can be read") from error


def _certificates(ca: Pem) -> str:
    """The PEM text, never empty: for an empty text Python loads the system's authorities, or raises a ValueError."""
    # Python refuses comments that are not ASCII.
    return read(ca, "the certificate authority").decode("ascii", "ignore") or "empty"


def _no_password() -> str:
    # OpenSSL calls this for an encrypted key only. Without it, it would ask on the terminal and block the operator.
    raise ConfigError("the client key is encrypted; expected a key without a password, as kubectl does")


def _reason(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
