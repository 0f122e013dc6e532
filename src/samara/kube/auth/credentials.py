"""Credentials as HTTP headers, which the client asks for before every request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from samara.kube.errors import ConfigError

REREAD_AFTER = 60.0
"""Seconds after which a token file is read again."""

Headers = list[tuple[str, str]]


class Credentials(Protocol):
    """Proves to the API server which user sends a request."""

    async def headers(self) -> Headers: ...

    def forget(self) -> None:
        """After a 401: obtain new ones for the next request."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Headers that never change: a token, a password, or none at all."""

    _headers: tuple[tuple[str, str], ...] = field(repr=False, default=())

    async def headers(self) -> Headers:
        return list(self._headers)

    def forget(self) -> None:
        """Does nothing: there are no newer ones."""


class TokenFile:
    """A token in a file that another program rotates."""

    __slots__ = ("_clock", "_path", "_read_at", "_token")

    def __init__(self, path: Path, token: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._token = token
        self._clock = clock
        self._read_at: float | None = None

    async def headers(self) -> Headers:
        if self._read_at is None or self._clock() - self._read_at >= REREAD_AFTER:
            await self._refresh()
        return [bearer(self._token, str(self._path))]

    def forget(self) -> None:
        self._token = ""
        self._read_at = None

    async def _refresh(self) -> None:
        now = self._clock()
        try:
            # In a thread, since the file may be on a slow network disk.
            self._token = await asyncio.to_thread(read_token, self._path)
        except ConfigError:
            # The rotation may be half done, and the old token may still be valid.
            if not self._token:
                raise
        self._read_at = now


@dataclass(frozen=True, slots=True)
class Impersonating:
    """Acts as another user: the credentials of the caller, and headers that name the other user."""

    _caller: Credentials
    _impersonation: tuple[tuple[str, str], ...] = field(repr=False)

    async def headers(self) -> Headers:
        return [*await self._caller.headers(), *self._impersonation]

    def forget(self) -> None:
        self._caller.forget()


def bearer(token: str, source: str) -> tuple[str, str]:
    """The Authorization header for a token. Raises if the token cannot be in a header."""
    if not (token and token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError(f"{source}: expected a token (printable characters, no spaces), found something else")
    return "Authorization", f"Bearer {token}"


def read_token(path: Path) -> str:
    """The token in a file, without surrounding whitespace."""
    try:
        # `bearer` refuses a token that is not ASCII, without quoting it.
        token = path.read_bytes().decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigError(f"{path}: expected a file with a token, found: {error.strerror}; is it mounted?") from error
    if not token:
        raise ConfigError(f"{path}: expected a token, found an empty file")
    return token
