"""TLS towards the API server. It accepts and refuses the same certificates as Go's clients."""

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import ExitStack, suppress
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


def load_client_certificate(context: SSLContext, certificate: Pem, key: Pem, whose: str) -> None:
    """Presents this certificate on every new connection."""
    try:
        with ExitStack() as stack:
            files = _on_disk(certificate, stack), _on_disk(key, stack)
            context.load_cert_chain(*files, password=_no_password)
    except ssl.SSLError as error:
        raise ConfigError(
            f"{whose}: expected a client certificate in PEM and the key that belongs to it,"
            f" found something else ({error.reason or 'not PEM'}); renew the pair"
        ) from error
    except OSError as error:
        raise ConfigError(f"{whose}: the client certificate or key cannot be read: {_why(error)}") from error


def read(pem: Pem, what: str) -> bytes:
    """The PEM text."""
    if isinstance(pem, bytes):
        return pem
    try:
        return pem.read_bytes()
    except OSError as error:
        raise ConfigError(f"{what} cannot be read: {_why(error)}") from error


def _trusting(ca: Pem) -> SSLContext:
    where = str(ca) if isinstance(ca, Path) else "certificate-authority-data"
    try:
        return ssl.create_default_context(cadata=_certificates(ca))
    except ssl.SSLError as error:
        raise ConfigError(f"{where}: expected certificates in PEM, found none that can be read") from error


def _certificates(ca: Pem) -> str:
    """The PEM text, never empty: for an empty text Python loads the system's authorities, or raises a ValueError."""
    # Python refuses comments that are not ASCII.
    return read(ca, "the certificate authority").decode("ascii", "ignore") or "empty"


def _on_disk(pem: Pem, stack: ExitStack) -> Path:
    """A file with the PEM, since OpenSSL loads client certificates from files only. The stack removes it."""
    if isinstance(pem, Path):
        return pem
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="samara-"))
    path = Path(directory, "pem")
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
    return path


def _no_password() -> str:
    # Without a callback OpenSSL asks on the terminal, and the operator would hang.
    raise ConfigError("the client key is encrypted; expected a key without a password, as kubectl does")


def _why(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
