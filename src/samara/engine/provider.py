"""Follows the Secret that says which secret manager there is, and opens it for those who read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping

from samara import log
from samara.backends.base import (
    Absent,
    ConfigFault,
    Denied,
    KubeSecret,
    ReadSecret,
    Store,
    Unauthenticated,
    Unavailable,
    Unfit,
)
from samara.backends.open import open_store
from samara.core.model import SECRET, Key, Ref
from samara.core.reads import Reading, SecretPath, Unreadable
from samara.engine.meter import Meter
from samara.engine.stores import DEADLINE, Stores, Times
from samara.kube.client import Client, address
from samara.kube.codec import MALFORMED
from samara.kube.errors import Forbidden, NotFound, SamaraError, Unauthorized
from samara.kube.object_watch import Bytes, ObjectWatcher, secret_data

_OPEN_AGAIN = 60.0
"""What made a store impossible may be elsewhere than in its configuration, in seconds."""

Open = Callable[[Mapping[str, bytes], ReadSecret, Collection[tuple[str, str]]], Awaitable[Store]]


_WHICH = ("url", "namespace", "access-key-id")
"""What says in a configuration which store it is: the same address can be another tenant's, or another account's."""


class Provider:
    """One per process that leads. As long as nobody asks for a path, nothing is followed and nothing opened."""

    def __init__(self, client: Client, config: Ref, stores: Stores, opening: Open = open_store) -> None:
        self._ref = config
        self._stores = stores
        self._opener = _Opener(client, config, opening)
        self._watcher = ObjectWatcher(client, config, self._taken, self._failed)
        self._config: Mapping[str, bytes] | None = None
        self._seen = False
        """True once the server has told whether the Secret is there."""
        self._which: tuple[bytes, ...] | None = None
        """The last store: what was read from another one counts no more."""
        self._failure = ""
        self._unread: Unreadable | None = None
        self._trouble: Unreadable | None = None
        self._news = asyncio.Event()

    async def run(self) -> None:
        await self._stores.wanted.wait()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._stores.run())
                group.create_task(self._watcher.run())
                group.create_task(self._open())
        finally:
            await self._stores.let_go()

    def _taken(self, raw: Bytes | None) -> None:
        config = None if raw is None else secret_data(raw)[1]
        self._failure = ""
        if not self._seen or config != self._config:
            self._seen, self._config, self._unread = True, config, None
            self._news.set()

    def _failed(self, fault: Exception) -> None:
        if _told(fault) == self._failure:
            return  # it is tried every second, and told once
        self._failure = _told(fault)
        log.warning("store.config-unread", secret=self._ref.path, fault=self._failure)
        if not self._seen:
            self._unread = unread(self._ref, fault)
            self._news.set()

    async def _open(self) -> None:
        wait: float | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._news.wait()
            self._news.clear()
            wait = None if await self._opened() else _OPEN_AGAIN

    async def _opened(self) -> bool:
        """Opens the store of the newest configuration; False where there is none to be had."""
        config = self._config
        await self._stores.let_go()
        store = self._unread or await self._opener.open(config)
        before, self._trouble = self._trouble, store if isinstance(store, Unreadable) else None
        if isinstance(store, Unreadable):
            if store != before:
                log.warning("store.unusable", reason=store.reason, fault=store.message)
            await self._stores.fail(store)
            return False
        which = tuple((config or {}).get(name, b"").strip() for name in _WHICH)
        await self._stores.use(store, keep=self._which in (None, which))
        self._which = which
        log.info("store.opened", store=store.scheme)
        return True


class _Opener:
    """From a configuration to a store, or to what a condition says where that does not go."""

    def __init__(self, client: Client, config: Ref, opening: Open) -> None:
        self._ref = config
        self._opening = opening
        self._read_secret = secrets_of(client)

    async def open(self, config: Mapping[str, bytes] | None) -> Store | Unreadable:
        where = f"Secret {self._ref.path}"
        if config is None:
            return Unreadable("TokenError", f"{where} is not there; create it with the keys url and token")
        try:
            async with asyncio.timeout(DEADLINE):
                own = ((self._ref.namespace, self._ref.name),)
                return await self._opening(config, self._read_secret, own)
        except ConfigFault as fault:
            return Unreadable(fault.reason, f"{where}: {fault}")
        except Exception as fault:  # noqa: BLE001 - of whichever package: it must end nothing, and its text may say all
            return Unreadable("ConnectionError", f"{where}: opening the store failed with {type(fault).__name__}")


def unread(config: Ref, fault: Exception) -> Unreadable:
    """What is told of every path where the configuration cannot be read."""
    return Unreadable("TokenError", f"Secret {config.path} cannot be read: {_told(fault)}")


def _told(fault: Exception) -> str:
    return str(fault) if isinstance(fault, SamaraError) else f"it is odd ({type(fault).__name__})"


def secrets_of(client: Client) -> ReadSecret:
    """Reads Secrets of this cluster as a store does, with its faults."""

    async def read(namespace: str, name: str) -> KubeSecret:
        what = f"Secret {namespace}/{name}"
        try:
            return KubeSecret(*secret_data(await client.get(address(Ref(SECRET, namespace, name)))))
        except NotFound:
            raise Absent(f"there is no {what}") from None
        except Forbidden:
            raise Denied(f"{what} may not be read; give the operator that right in namespace {namespace}") from None
        except Unauthorized:
            raise Unauthenticated("the API server does not know us any more") from None
        except SamaraError as fault:
            raise Unavailable(f"{what} could not be read: {fault}", getattr(fault, "retry_after", None)) from None
        except MALFORMED:
            raise Unfit(f"{what} is odd") from None

    return read


async def read_once(client: Client, config: Ref, paths: Collection[SecretPath]) -> dict[str, Reading]:
    """What is at these paths now, with the rights of whoever asks; a path that cannot be read says why."""
    stores = Stores(frozenset(), Meter(), Times(asyncio.get_running_loop().time))
    stores.asks(Key("", config), paths)
    store = await _glanced(client, config)
    if isinstance(store, Unreadable):
        await stores.fail(store)
        return stores.book.known
    await stores.use(store, keep=True)
    try:
        await stores.read_all()
    finally:
        await stores.let_go()
    return stores.book.known


async def _glanced(client: Client, config: Ref) -> Store | Unreadable:
    """The store as it is configured at this moment."""
    opener = _Opener(client, config, open_store)
    try:
        return await opener.open(secret_data(await client.get(address(config)))[1])
    except NotFound:
        return await opener.open(None)
    except (SamaraError, *MALFORMED) as fault:
        return unread(config, fault)
