"""Saves 3 MB when aiohttp is imported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLES = {
    # aiohttp creates a TLS context at import, for requests without a context of their own. All of ours have one. It
    # trusts every public authority of the system, or no server at all if OpenSSL finds an empty file. Replacing it
    # after the import does not help, because its memory is not returned.
    "SSL_CERT_FILE": os.devnull,
    # The C++ version of frozenlist loads libstdc++, which nothing else here needs. aiohttp uses such lists for the
    # callbacks of a web application only.
    "FROZENLIST_NO_EXTENSIONS": "1",
}


@contextmanager
def small_aiohttp() -> Iterator[None]:
    """Import aiohttp, or anything that imports it, inside this context."""
    before = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ.update(_VARIABLES)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
