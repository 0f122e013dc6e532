"""Being known to Vault: a token, how it is got, and its care until it can no longer be had."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from samara.backends.base import StoreError, Unauthenticated, Unavailable
from samara.backends.http import Answer, Wire

TOKEN = "X-Vault-Token"  # noqa: S105 - the header's name
LOOKUP = "/v1/auth/token/lookup-self"
RENEWAL = "/v1/auth/token/renew-self"
LEAST = 1.0
"""Seconds. A life shorter than this is not worth a renewal."""
DEADLINE = 5.0

UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""How decoding ends where the JSON is none, or not of the expected shape."""

_INVALID = b"invalid token"
_BUSY = frozenset({HTTPStatus.PRECONDITION_FAILED, HTTPStatus.TOO_MANY_REQUESTS, 472, 473})
_T = TypeVar("_T")

Sleep = Callable[[float], Awaitable[object]]


@dataclass(slots=True)
class Held:
    """A token that the server has given, or been shown."""

    token: str = field(repr=False)
    ttl: float
    """In seconds from when it was got; 0 where it has no end."""
    renewable: bool
    blind: bool = False
    """True where the token may not look itself up."""
    proven: bool = False
    """True where a refused look-up does not mean that the token is dead."""


class Login(Protocol):
    @property
    def again(self) -> bool:
        """Whether entering again can help where a token is dead."""

    async def enter(self, wire: Wire) -> Held:
        """Raises `Unauthenticated` or `Unavailable`."""


@dataclass(frozen=True, slots=True)
class Given:
    """A token that a person has put into the configuration."""

    token: str = field(repr=False)
    again: bool = False

    async def enter(self, wire: Wire) -> Held:
        answer = await wire.ask("GET", LOOKUP, {TOKEN: self.token})
        if answer.status == HTTPStatus.OK:
            facts = _decoded(answer, _LookedUp, wire).data
            return Held(self.token, facts.ttl, facts.renewable)
        busy(answer, wire)
        if _INVALID in answer.body or answer.status == HTTPStatus.UNAUTHORIZED:
            raise Unauthenticated(f"{wire.base}: the token is not valid; put a new one into the configuration")
        # A token without the policy `default` may read what it is for, and not look itself up.
        return Held(self.token, 0.0, False, blind=True)


@dataclass(frozen=True, slots=True)
class AppRole:
    mount: str
    role_id: str
    secret_id: str = field(repr=False)
    again: bool = True

    async def enter(self, wire: Wire) -> Held:
        return await _enter(wire, self.mount, {"role_id": self.role_id, "secret_id": self.secret_id})


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """Shows the pod's own token, as the file holds it at that moment: the kubelet writes it anew."""

    mount: str
    role: str
    file: Path
    again: bool = True

    async def enter(self, wire: Wire) -> Held:
        try:
            jwt = (await asyncio.to_thread(self.file.read_text, "ascii")).strip()
        except (OSError, ValueError):
            raise Unauthenticated(f"the pod's token cannot be read from {self.file}: is this a pod?") from None
        return await _enter(wire, self.mount, {"role": self.role, "jwt": jwt})


class Session:
    """One token for all reads; renewed at two thirds of its life, and replaced where that does not help."""

    def __init__(self, wire: Wire, login: Login, sleep: Sleep = asyncio.sleep) -> None:
        self._wire = wire
        self._login = login
        self._sleep = sleep
        self._entering = asyncio.Lock()
        self._held: Held | None = None
        self._care: asyncio.Task[None] | None = None

    async def get(self, path: str) -> Answer:
        """The answer to a token that is alive. A dead one is replaced once; then it is `Unauthenticated`."""
        for _ in range(2 if self._login.again else 1):
            held = await self._hold()
            answer = await self._wire.ask("GET", path, {TOKEN: held.token})
            if answer.status == HTTPStatus.OK:
                held.proven = held.blind
            if answer.status != HTTPStatus.FORBIDDEN or not await self._is_dead(held, answer):
                return answer
            self._forget(held)
        raise Unauthenticated(f"{self._wire.base}: the token is no longer valid; put a new one into the configuration")

    async def close(self) -> None:
        if self._care is not None:
            self._care.cancel()
            with suppress(asyncio.CancelledError):
                await self._care
        await self._wire.close()

    async def _hold(self) -> Held:
        async with self._entering:
            if self._held is None:
                held = self._held = await self._login.enter(self._wire)
                if self._care is not None:
                    self._care.cancel()
                self._care = asyncio.create_task(self._keep(held)) if held.ttl > 0 else None
            return self._held

    def _forget(self, held: Held) -> None:
        if self._held is held:
            self._held = None

    async def _is_dead(self, held: Held, refused: Answer) -> bool:
        """Forbidden is said of documents and of tokens: where the answer does not tell, the token looks itself up."""
        if _INVALID in refused.body:
            return True
        answer = await self._wire.ask("GET", LOOKUP, {TOKEN: held.token})
        busy(answer, self._wire)
        if answer.status != HTTPStatus.FORBIDDEN or _INVALID in answer.body:
            return answer.status == HTTPStatus.FORBIDDEN
        held.blind = held.blind or held.proven  # it lives, and may not look itself up: that is learnt once
        return not held.proven

    async def _keep(self, held: Held) -> None:
        """Renews as long as that helps. Afterwards the next read enters again, before the token is dead."""
        ttl = held.ttl
        while ttl >= LEAST:
            await self._sleep(ttl * 2 / 3)
            ttl = await self._renewed(held, ttl / 3)
        self._forget(held)

    async def _renewed(self, held: Held, left: float) -> float:
        """Seconds that the token has now: what was left where the server is away, 0 where it will not have more."""
        if not held.renewable:
            return 0.0
        try:
            async with asyncio.timeout(DEADLINE):
                answer = await self._wire.ask("POST", RENEWAL, {TOKEN: held.token}, b"{}")
                busy(answer, self._wire)
                fresh = _decoded(answer, _Entered, self._wire).auth if answer.status == HTTPStatus.OK else None
        except (StoreError, TimeoutError):
            return left
        return fresh.lease_duration if fresh is not None and fresh.lease_duration > left + LEAST else 0.0


def busy(answer: Answer, wire: Wire) -> None:
    """Raises `Unavailable` for an answer that says nothing of what was asked."""
    if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
        raise Unavailable(f"{wire.base}: it is sealed or under maintenance (503); unseal it", answer.retry_after)
    if answer.status in _BUSY or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Unavailable(f"{wire.base}: it cannot answer now ({answer.status})", answer.retry_after)
    if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        raise Unavailable(
            f"{wire.base}: it sends its callers elsewhere ({answer.status}), which is not followed; "
            "put the address of the active server into the url",
            answer.retry_after,
        )


def _decoded(answer: Answer, shape: type[_T], wire: Wire) -> _T:
    try:
        return msgspec.json.decode(answer.body, type=shape)
    except UNREADABLE:
        raise Unavailable(f"{wire.base}: the answer is not one of Vault's: is something in between?") from None


async def _enter(wire: Wire, mount: str, proof: dict[str, str]) -> Held:
    answer = await wire.ask("POST", f"/v1/auth/{mount}/login", {}, msgspec.json.encode(proof))
    busy(answer, wire)
    if answer.status != HTTPStatus.OK:
        raise Unauthenticated(
            f"{wire.base}: the login at auth/{mount} was refused ({answer.status}); "
            "put the right role, or a new secret-id, into the configuration"
        )
    auth = _decoded(answer, _Entered, wire).auth
    return Held(auth.client_token, auth.lease_duration, auth.renewable, proven=True)


class _Auth(msgspec.Struct):
    client_token: str
    lease_duration: float = 0.0
    renewable: bool = False


class _Entered(msgspec.Struct):
    auth: _Auth


class _Facts(msgspec.Struct):
    ttl: float = 0.0
    renewable: bool = False


class _LookedUp(msgspec.Struct):
    data: _Facts
