"""The HTTP client of a store. It carries no credentials of the cluster and limits the size of answers."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NoReturn

import aiohttp
from yarl import URL

from samara import __version__
from samara.secretstores.base import Unavailable, Unusable, bad_ca

MAX_BODY = 8 * 1024 * 1024
"""Bytes. Enough for the largest value with every character escaped."""
TIMEOUT = 10.0
"""Seconds, for requests in the background. Reads have a shorter deadline of their own."""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes = field(repr=False)
    retry_after: float | None = None


class HttpClient:
    """Talks to one server. It uses no proxy of the environment and no cookies, and does not follow redirects."""

    def __init__(self, base: str, tls: ssl.SSLContext | None, headers: Mapping[str, str]) -> None:
        self.base = base
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls or True),
            headers={"User-Agent": f"samara/{__version__}", "Accept-Encoding": "identity", **headers},
            timeout=aiohttp.ClientTimeout(total=TIMEOUT),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )

    async def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> Response:
        """Sends one request; the path must be quoted already. Raises `Unavailable` if there is no answer, and
        `Unusable` if the answer is too long."""
        url = URL(self.base + path, encoded=True)
        try:
            async with self._session.request(
                method, url, headers=headers, data=body, allow_redirects=False
            ) as response:
                content = await _limited_body(response)
                return Response(response.status, content, _retry_after(response.headers.get("Retry-After", "")))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # A timeout is an OSError. A malformed host name is a ValueError.
            _raise_unavailable(error, self.base)

    async def close(self) -> None:
        await self._session.close()


def tls_context(ca: bytes) -> ssl.SSLContext:
    """Trusts these certificate authorities only, or the system's if none are given."""
    try:
        # For an empty text, Python would load the system's authorities. A text that is not a certificate is refused.
        text = (ca.decode("ascii", "ignore") or "empty") if ca else None
        context = ssl.create_default_context(cadata=text)
    except ssl.SSLError:
        raise bad_ca() from None
    # Python 3.13 sets STRICT, which refuses private authorities without a key identifier. Other clients accept them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


async def _limited_body(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_chunked(65536):
        content += chunk
        if len(content) > MAX_BODY:
            response.close()
            raise Unusable(f"an answer of at most {MAX_BODY} bytes was expected, found more")
    return bytes(content)


def _retry_after(text: str) -> float | None:
    """Seconds from now. The header holds a number or a date."""
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _raise_unavailable(error: Exception, base: str) -> NoReturn:
    """Raises `Unavailable` with a text of ours or of the system. Text from the server is never shown."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            verdict = getattr(error.certificate_error, "verify_message", "not accepted")
            why = f"its certificate is refused ({verdict}); renew it, or put the authority that signed it into ca.crt"
        case aiohttp.ClientConnectorDNSError():
            why = "its name cannot be resolved"
        case aiohttp.ClientSSLError() | ssl.SSLError():
            why = "the TLS handshake failed: does the server use TLS?"
        case TimeoutError():
            why = f"no answer came within {TIMEOUT:g} s"
        case aiohttp.ClientConnectorError():
            code = error.os_error.errno
            why = os.strerror(code).lower() if code and code > 0 else "no connection can be made"
        case ValueError():
            why = "that is not an address to which one can connect"
        case _:
            why = "the connection broke"
    raise Unavailable(f"{base}: {why}") from None
