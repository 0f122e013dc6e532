"""The HTTP client of a store: its own, without credentials of the cluster, and bounded in what it takes."""

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
from samara.backends.base import Unavailable, Unfit, wrong_authorities

MOST_BODY = 8 * 1024 * 1024
"""A value of the largest size, and every character of it escaped, is less."""
PATIENCE = 10.0
"""Seconds. Whoever reads sets a shorter deadline; this one is for a call that nobody waits for."""
MOST_WAIT = 3600.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = field(repr=False)
    retry_after: float | None = None


class Wire:
    """One server, by its address alone: no proxy of the environment, no redirect, no cookie, nothing inflated."""

    def __init__(self, base: str, tls: ssl.SSLContext | None, headers: Mapping[str, str]) -> None:
        self.base = base
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls or True),
            headers={"User-Agent": f"samara/{__version__}", "Accept-Encoding": "identity", **headers},
            timeout=aiohttp.ClientTimeout(total=PATIENCE),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )

    async def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        """One request, its path as it is. Raises `Unavailable` without an answer, `Unfit` for one that is too long."""
        url = URL(self.base + path, encoded=True)
        try:
            async with self._session.request(
                method, url, headers=headers, data=body, allow_redirects=False
            ) as response:
                content = await _bounded(response)
                return Answer(response.status, content, _retry_after(response.headers.get("Retry-After", "")))
        except (aiohttp.ClientError, OSError, ValueError) as error:  # a timeout is an OSError, an odd name a ValueError
            _explain(error, self.base)

    async def close(self) -> None:
        await self._session.close()


def trusting(ca: bytes) -> ssl.SSLContext:
    """Trusts these authorities alone, or the system's where there are none."""
    try:
        # Never an empty text where one was given: of that Python would make the system's authorities.
        text = (ca.decode("ascii", "ignore") or "empty") if ca else None
        context = ssl.create_default_context(cadata=text)
    except ssl.SSLError:
        raise wrong_authorities() from None
    # Python 3.13 turns on STRICT, which refuses private authorities that every other client takes.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_chunked(65536):
        content += chunk
        if len(content) > MOST_BODY:
            response.close()
            raise Unfit(f"an answer of at most {MOST_BODY} bytes was expected, found more")
    return bytes(content)


def _retry_after(text: str) -> float | None:
    """Seconds from now, whichever of its two forms the header has."""
    if text.isascii() and text.isdigit():
        return min(float(text[:6]), MOST_WAIT)
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    seconds = (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), MOST_WAIT)


def _explain(error: Exception, base: str) -> NoReturn:
    """Says what was in the way, in words of the system or our own: what a server says is never passed on."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            verdict = getattr(error.certificate_error, "verify_message", "not accepted")
            why = f"its certificate is refused ({verdict}); renew it, or put the authority that signed it into ca.crt"
        case aiohttp.ClientConnectorDNSError():
            why = "its name cannot be resolved"
        case aiohttp.ClientSSLError() | ssl.SSLError():
            why = "the TLS handshake failed: does it speak TLS there?"
        case TimeoutError():
            why = f"no answer came within {PATIENCE:g} s"
        case aiohttp.ClientConnectorError():
            code = error.os_error.errno
            why = os.strerror(code).lower() if code and code > 0 else "no connection can be made"
        case ValueError():
            why = "that is no address one can connect to"
        case _:
            why = "the connection broke"
    raise Unavailable(f"{base}: {why}") from None
