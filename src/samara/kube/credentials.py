"""Who we are, as headers fresh for every request: a fixed secret, a file that rotates, or somebody else's name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from samara.kube.errors import ConfigError

REREAD_AFTER = 60.0

Headers = list[tuple[str, str]]


class Credentials(Protocol):
    """What proves who we are."""

    async def headers(self) -> Headers: ...

    def forget(self) -> None:
        """After a 401: get new ones before the next request."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Headers that never change: a token, a password, or none at all."""

    _headers: tuple[tuple[str, str], ...] = field(repr=False, default=())

    async def headers(self) -> Headers:
        return list(self._headers)

    def forget(self) -> None:
        """There is nothing newer to be had."""


class TokenFile:
    """A token that something else rotates on disk."""

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
            # In a thread: a home folder may be on a slow network disk.
            self._token = await asyncio.to_thread(read_token, self._path)
        except ConfigError:
            # A rotation may be half done, and the token we have may be good for long.
            if not self._token:
                raise
        self._read_at = now


@dataclass(frozen=True, slots=True)
class Impersonating:
    """Somebody's credentials, acting as somebody else."""

    _own: Credentials
    _as: tuple[tuple[str, str], ...] = field(repr=False)

    async def headers(self) -> Headers:
        return [*await self._own.headers(), *self._as]

    def forget(self) -> None:
        self._own.forget()


def bearer(token: str, source: str) -> tuple[str, str]:
    """The Authorization header for a token, which must fit into one."""
    if not (token and token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError(f"{source}: expected a token (printable characters, no spaces), found something else")
    return "Authorization", f"Bearer {token}"


def read_token(path: Path) -> str:
    """What the file holds, without the newline at its end."""
    try:
        # What is not ASCII is refused where the header is made, without quoting it.
        token = path.read_bytes().decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigError(f"{path}: expected a file with a token, found: {error.strerror}; is it mounted?") from error
    if not token:
        raise ConfigError(f"{path}: expected a token, found an empty file")
    return token
