"""Follows one object: looks at it, watches it, and believes nothing that is older than what it has seen."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from typing import Any

import msgspec

from samara.core.model import Ref
from samara.kube.client import Client, address, collection
from samara.kube.codec import raw_event
from samara.kube.errors import NotFound, SamaraError, Unreachable
from samara.kube.intake import ODD
from samara.kube.lines import answered_in_time, whole_lines

_LONGEST = 60
"""The server is asked to end a watch after so many seconds; a connection that died unseen costs no more than that."""
_SILENCE = 75.0

Bytes = bytes | msgspec.Raw
"""An object in JSON, as the server sent it."""


class _Meta(msgspec.Struct):
    uid: str
    resourceVersion: str


class _Head(msgspec.Struct):
    metadata: _Meta


class _Data(msgspec.Struct):
    type: str = ""
    data: dict[str, Any] | None = None


_head = msgspec.json.Decoder(_Head).decode
_data = msgspec.json.Decoder(_Data).decode


class Follower:
    """`taken` is told of every sight of the object, None where it is not there; what it cannot read it may raise."""

    def __init__(
        self,
        client: Client,
        ref: Ref,
        taken: Callable[[Bytes | None], None],
        failed: Callable[[Exception], None],
        turn: float = 1.0,
    ) -> None:
        self._client = client
        self._ref = ref
        self._taken = taken
        self._failed = failed
        self._turn = turn
        self._uid = ""
        self._version = 0

    async def run(self) -> None:
        """For ever; `failed` is told why the object cannot be read."""
        while True:
            try:
                await self.look()
                await self._watch()
            except (SamaraError, *ODD) as fault:
                self._failed(fault)
            await asyncio.sleep(self._turn)  # a server that ends every watch at once is not asked without a pause

    async def look(self) -> None:
        try:
            self.take(await self._client.get(address(self._ref)))
        except NotFound:
            self.take(None)

    async def _watch(self) -> None:
        """Without a version: the server first tells what is there now, so nothing is missed and nothing too old."""
        kind, one = self._ref.kind, f"metadata.name={self._ref.name}"
        params = {"watch": "1", "fieldSelector": one, "timeoutSeconds": str(_LONGEST)}
        opening = asyncio.timeout(_SILENCE)
        path = collection(kind, self._ref.namespace)
        async with answered_in_time(opening, kind), self._client.stream(path, params) as content:
            opening.reschedule(None)
            async for lines in whole_lines(content, _SILENCE, kind):
                for line in filter(None, lines):
                    self._told(line)

    def _told(self, line: bytes) -> None:
        event = raw_event(line)
        if event.type == "ERROR":
            raise Unreachable("the watch ended with an error")
        if event.type == "BOOKMARK":
            return
        if event.type != "DELETED":
            self.take(event.object)
        elif _head(event.object).metadata.uid == self._uid:
            self.take(None)

    def take(self, raw: Bytes | None) -> None:
        """Takes a sight of the object, or the answer to a write of ours; an older one is not believed."""
        meta = _head(raw).metadata if raw is not None else _Meta("", "0")
        version = int(meta.resourceVersion)
        if raw is not None and meta.uid == self._uid and version < self._version:
            return
        self._taken(raw)
        self._uid, self._version = meta.uid, version


def secret_data(raw: Bytes) -> tuple[str, dict[str, bytes]]:
    """A Secret's type and what its keys hold; one that holds no base64 is empty."""
    found = _data(raw)
    return found.type, {key: _decoded(value) for key, value in (found.data or {}).items()}


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""
