"""Reads and watches one object, such as the Secret with the webhook certificate."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from typing import Any

import msgspec

from samara.core.model import Ref
from samara.kube.client import Client, address, collection
from samara.kube.codec import MALFORMED, raw_event
from samara.kube.errors import NotFound, SamaraError, Unreachable
from samara.kube.reflector import opened_watch

_WATCH_SECONDS = 60
"""The API server is asked to end a watch after this long."""
_SILENCE = 75.0
"""A watch that receives no byte for this many seconds is reopened: the API server would have ended it by now."""

RawObject = bytes | msgspec.Raw
"""An object in JSON, as the API server sent it."""


class _Meta(msgspec.Struct):
    uid: str
    resourceVersion: str


class _Object(msgspec.Struct):
    metadata: _Meta


class _Secret(msgspec.Struct):
    type: str = ""
    data: dict[str, Any] | None = None


_object = msgspec.json.Decoder(_Object).decode
_secret = msgspec.json.Decoder(_Secret).decode


class ObjectWatcher:
    """Reads and watches one object until cancelled.

    `on_object` gets every version of the object, and None if it does not exist. It may raise `MALFORMED` for an object
    that it cannot parse. `on_error` gets every error that ends a read or a watch.
    """

    def __init__(
        self,
        client: Client,
        ref: Ref,
        on_object: Callable[[RawObject | None], None],
        on_error: Callable[[Exception], None],
        pause: float = 1.0,
    ) -> None:
        self._client = client
        self._ref = ref
        self._on_object = on_object
        self._on_error = on_error
        self._pause = pause
        self._uid = ""
        self._version = 0

    async def run(self) -> None:
        while True:
            try:
                await self.read()
                await self._watch()
            except (SamaraError, *MALFORMED) as fault:
                self._on_error(fault)
            await asyncio.sleep(self._pause)  # also after success: a server may end every watch at once

    async def read(self) -> None:
        """Reads the object once."""
        try:
            self.take(await self._client.get(address(self._ref)))
        except NotFound:
            self.take(None)

    async def _watch(self) -> None:
        """Watches without a resource version: the API server then starts with the current state, so a change between
        the read and the watch is not missed."""
        kind, selector = self._ref.kind, f"metadata.name={self._ref.name}"
        params = {"watch": "1", "fieldSelector": selector, "timeoutSeconds": str(_WATCH_SECONDS)}
        path = collection(kind, self._ref.namespace)
        async with opened_watch(self._client, kind, path, params, _SILENCE) as watch:
            async for lines in watch:
                for line in filter(None, lines):
                    self._event(line)

    def _event(self, line: bytes) -> None:
        event = raw_event(line)
        if event.type == "ERROR":
            raise Unreachable("the watch ended with an error")
        if event.type == "BOOKMARK":
            return
        if event.type != "DELETED":
            self.take(event.object)
        elif _object(event.object).metadata.uid == self._uid:
            self.take(None)

    def take(self, raw: RawObject | None) -> None:
        """Takes a version of the object that the API server sent, as an event or as the answer to our own write. Drops
        a version that is older than the last one."""
        meta = _object(raw).metadata if raw is not None else _Meta("", "0")
        version = int(meta.resourceVersion)
        if raw is not None and meta.uid == self._uid and version < self._version:
            return
        self._on_object(raw)
        self._uid, self._version = meta.uid, version


def secret_data(raw: RawObject) -> tuple[str, dict[str, bytes]]:
    """A Secret's type and values. A value that is not base64 becomes empty."""
    secret = _secret(raw)
    return secret.type, {key: _decoded(value) for key, value in (secret.data or {}).items()}


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""
