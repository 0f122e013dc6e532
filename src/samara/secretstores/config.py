"""Watches the Secret that configures the secret manager, and opens the store that it names."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping

from samara import log
from samara.core.model import SECRET, Key, Ref
from samara.core.queries import ReadError, SecretPath, SecretReading
from samara.kube import errors as kube
from samara.kube.client import Client, address
from samara.kube.codec import MALFORMED
from samara.kube.object_watch import ObjectWatcher, RawObject, secret_data
from samara.secretstores.base import (
    Forbidden,
    KubeSecret,
    NotFound,
    ReadSecret,
    Store,
    StoreConfigError,
    StoreContext,
    Unauthenticated,
    Unavailable,
    Unusable,
)
from samara.secretstores.poller import READ_DEADLINE, PollTimings, SecretPoller, SecretValues
from samara.secretstores.readings import Readings
from samara.secretstores.registry import open_store

_REOPEN_AFTER = 60.0
"""Seconds. A store that could not be opened is tried again, because the cause may lie outside its configuration."""
_IDENTITY = ("url", "namespace", "access-key-id")
"""The keys that identify a store: the same url may serve another tenant or another account."""

OpenStore = Callable[[Mapping[str, bytes], StoreContext], Awaitable[Store]]


class StoreConfigWatcher:
    """Runs the poller on the leader. Until a source subscribes to a path, it watches nothing and opens nothing."""

    def __init__(
        self, client: Client, config: Ref, own_namespace: str, poller: SecretPoller, open_: OpenStore = open_store
    ) -> None:
        self._ref = config
        self._poller = poller
        self._opener = _Opener(StoreContext(secret_reader(client), config, own_namespace), open_)
        self._watcher = ObjectWatcher(client, config, self._on_object, self._on_error)
        self._config: Mapping[str, bytes] | None = None
        self._seen = False
        """True once the API server has answered whether the Secret exists."""
        self._identity: tuple[bytes, ...] | None = None
        """The identity of the last store. Values are dropped when the configuration names another one."""
        self._reported = ""
        """The last error that was logged. The read is retried every second, and logs it once."""
        self._unread: ReadError | None = None
        self._problem: ReadError | None = None
        self._changed = asyncio.Event()

    async def run(self) -> None:
        await self._poller.subscribed.wait()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._poller.run())
                group.create_task(self._watcher.run())
                group.create_task(self._reopen_on_change())
        finally:
            await self._poller.close_store()

    def _on_object(self, raw: RawObject | None) -> None:
        config = None if raw is None else secret_data(raw)[1]
        self._reported = ""
        if not self._seen or config != self._config:
            self._seen, self._config, self._unread = True, config, None
            self._changed.set()

    def _on_error(self, fault: Exception) -> None:
        if _message(fault) == self._reported:
            return
        self._reported = _message(fault)
        log.warning("store.config-unread", secret=self._ref.path, fault=self._reported)
        if not self._seen:
            self._unread = config_unreadable(self._ref, fault)
            self._changed.set()

    async def _reopen_on_change(self) -> None:
        wait: float | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            self._changed.clear()
            wait = None if await self._reopen() else _REOPEN_AFTER

    async def _reopen(self) -> bool:
        """Opens the store of the newest configuration. False if there is none."""
        config = self._config
        await self._poller.close_store()
        store = self._unread or await self._opener.open(config)
        before, self._problem = self._problem, store if isinstance(store, ReadError) else None
        if isinstance(store, ReadError):
            if store != before:
                log.warning("store.unusable", reason=store.reason, fault=store.message)
            await self._poller.fail(store)
            return False
        identity = tuple((config or {}).get(name, b"").strip() for name in _IDENTITY)
        await self._poller.use_store(store, keep=self._identity in (None, identity))
        self._identity = identity
        log.info("store.opened", store=store.scheme)
        return True


class _Opener:
    """Opens the store of a configuration, or returns the reason for a condition if that fails."""

    def __init__(self, context: StoreContext, open_: OpenStore) -> None:
        self._context = context
        self._open = open_

    async def open(self, config: Mapping[str, bytes] | None) -> Store | ReadError:
        where = f"Secret {self._context.config.path}"
        if config is None:
            return ReadError("TokenError", f"{where} is not there; create it with the keys url and token")
        try:
            async with asyncio.timeout(READ_DEADLINE):
                return await self._open(config, self._context)
        except StoreConfigError as fault:
            return ReadError(fault.reason, f"{where}: {fault}")
        except Exception as fault:  # noqa: BLE001 - an error of a library must not end the operator; its text may hold a value
            return ReadError("ConnectionError", f"{where}: opening the store failed with {type(fault).__name__}")


def config_unreadable(config: Ref, fault: Exception) -> ReadError:
    """The fault of every path if the configuration cannot be read."""
    return ReadError("TokenError", f"Secret {config.path} cannot be read: {_message(fault)}")


def _message(fault: Exception) -> str:
    return str(fault) if isinstance(fault, kube.SamaraError) else f"it cannot be decoded ({type(fault).__name__})"


def secret_reader(client: Client) -> ReadSecret:
    """A function that reads Secrets of this cluster and raises the errors of a store."""

    async def read(namespace: str, name: str) -> KubeSecret:
        secret = f"Secret {namespace}/{name}"
        try:
            return KubeSecret(*secret_data(await client.get(address(Ref(SECRET, namespace, name)))))
        except kube.NotFound:
            raise NotFound(f"there is no {secret}") from None
        except kube.Forbidden:
            message = f"{secret} may not be read; give the operator that right in namespace {namespace}"
            raise Forbidden(message) from None
        except kube.Unauthorized:
            raise Unauthenticated("the API server no longer accepts our credentials") from None
        except kube.SamaraError as fault:
            raise Unavailable(f"{secret} could not be read: {fault}", getattr(fault, "retry_after", None)) from None
        except MALFORMED:
            raise Unusable(f"{secret} cannot be decoded") from None

    return read


async def read_once(
    client: Client, config: Ref, own_namespace: str, paths: Collection[SecretPath], now: Callable[[], str]
) -> dict[str, SecretReading]:
    """Reads these paths once, with the rights of the caller. The reading of a path that cannot be read has a fault."""
    clock = asyncio.get_running_loop().time
    readings = Readings(clock, limit=None)  # the paths are not those of one source or namespace
    timings = PollTimings(clock, now)
    poller = SecretPoller(readings, frozenset(), timings, post=_ignore_values, count_call=_ignore_call)
    poller.subscribe(Key("", config), paths)
    store = await _open_once(client, config, own_namespace)
    if isinstance(store, ReadError):
        await poller.fail(store)
        return readings.known
    await poller.use_store(store, keep=True)
    try:
        await poller.read_all()
    finally:
        await poller.close_store()
    return readings.known


async def _open_once(client: Client, config: Ref, own_namespace: str) -> Store | ReadError:
    opener = _Opener(StoreContext(secret_reader(client), config, own_namespace), open_store)
    try:
        return await opener.open(secret_data(await client.get(address(config)))[1])
    except kube.NotFound:
        return await opener.open(None)
    except (kube.SamaraError, *MALFORMED) as fault:
        return config_unreadable(config, fault)


def _ignore_values(message: SecretValues) -> None:
    """A command reads `readings.known` when all reads have ended."""


def _ignore_call(store: str, result: str) -> None:
    """A command exports no metrics."""
