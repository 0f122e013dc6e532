"""Saves 1.5 MB and 70 ms when aiohttp is imported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_AUTHORITIES = "SSL_CERT_FILE"


@contextmanager
def without_public_authorities() -> Iterator[None]:
    """Import aiohttp, or anything that imports it, inside this context.

    aiohttp creates a TLS context at import that trusts every public authority of the system, for requests without a
    context of their own. Ours always pass one. If OpenSSL finds an empty file instead, the context trusts no server.
    Replacing the context after the import does not help: its memory is not returned.
    """
    before = os.environ.get(_AUTHORITIES)
    os.environ[_AUTHORITIES] = os.devnull
    try:
        yield
    finally:
        if before is None:
            del os.environ[_AUTHORITIES]
        else:
            os.environ[_AUTHORITIES] = before
