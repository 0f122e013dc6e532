"""The holds as a ConfigMap: `samara status` and `samara release` work from anywhere, and a restart does not forget."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Any

from samara import log
from samara.core.model import Key, Kind, Ref
from samara.engine.holds import Hold, Holds
from samara.kube.client import AS_US, Client, address, collection
from samara.kube.codec import decode, encode
from samara.kube.errors import AlreadyExists, Conflict, NotFound, SamaraError

CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
NAME = "samara-holds"


@dataclass(frozen=True, slots=True)
class Entry:
    """One hold as it is written down: names, counts and times only."""

    key: str
    count: int
    since: str
    until: str
    set: str
    answer: str = ""
    """What somebody has said of this set: `release` or `discard`, and the set it was said of."""


def entry_name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def entries(config_map: dict[str, Any]) -> dict[str, Entry]:
    """The holds in a ConfigMap by key; what cannot be read is left out."""
    found = {}
    for text in (config_map.get("data") or {}).values():
        try:
            entry = Entry(**json.loads(text))
        except (ValueError, TypeError):
            continue
        found[entry.key] = entry
    return found


class HoldBook:
    """Keeps the ConfigMap equal to the holds, and the holds informed of what people say about them."""

    def __init__(self, client: Client, namespace: str, holds: Holds) -> None:
        self._client = client
        self._ref = Ref(CONFIG_MAP, namespace, NAME)
        self._holds = holds
        self._written: dict[str, str] | None = None

    async def load(self) -> None:
        """At the start: what was held before is held again, with its whole time."""
        try:
            config_map = decode(await self._client.get(address(self._ref)))
        except NotFound:
            self._written = {}
            return
        self._written = config_map.get("data") or {}
        self._holds.remembered = {entry.key for entry in entries(config_map).values()}

    async def run(self, answered: Callable[[Key, str], None]) -> None:
        """Once a second, and only while something is held or has to be written down."""
        while True:
            await asyncio.sleep(1.0)
            try:
                if self._holds.held:
                    for key, word in await self._answers():
                        answered(key, word)
                await self._write()
            except SamaraError as fault:
                log.warning("holds.failed", fault=fault)

    async def _answers(self) -> list[tuple[Key, str]]:
        """Held sets that somebody has released or discarded."""
        try:
            told = entries(decode(await self._client.get(address(self._ref))))
        except NotFound:
            self._written = None
            return []
        found = []
        for key, hold in self._holds.held.items():
            word, _, of = (told[str(key)].answer if str(key) in told else "").partition(" ")
            if word and of == hold.digest:
                found.append((key, word))
        return found

    async def _write(self) -> None:
        """Writes only where something differs; an answer that is being followed goes with its hold."""
        wanted = {entry_name(str(key)): hold for key, hold in self._holds.held.items()}
        wanted_texts = {name: self._text(hold) for name, hold in wanted.items()}
        waiting = {entry_name(key) for key in self._holds.remembered}
        before = self._written or {}
        kept = {name: text for name, text in before.items() if name in waiting and name not in wanted_texts}
        texts = {**kept, **{name: _same(before.get(name), text) for name, text in wanted_texts.items()}}
        if texts == before:
            return
        await self._send(texts)
        self._written = texts

    def _text(self, hold: Hold) -> str:
        return json.dumps(
            asdict(Entry(hold.key, hold.count, self._stamp(hold.since), self._stamp(hold.until), hold.digest)),
            sort_keys=True,
        )

    def _stamp(self, moment: float) -> str:
        if moment == inf:
            return "forever"
        return datetime.fromtimestamp(time.time() + self._holds.left(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def _send(self, texts: dict[str, str]) -> None:
        meta = {"name": NAME, "namespace": self._ref.namespace, "labels": {"app.kubernetes.io/name": "samara-holds"}}
        sent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": texts}
        try:
            await self._client.request("PUT", address(self._ref), encode(sent), params=AS_US)
        except NotFound:
            await self._client.request("POST", collection(CONFIG_MAP, self._ref.namespace), encode(sent), params=AS_US)


def _same(before: str | None, now: str) -> str:
    """The text as it was, where the set and the count are the same: times that only jitter are no news."""
    if before is None:
        return now
    try:
        old, new = json.loads(before), json.loads(now)
    except ValueError:
        return now
    return before if (old.get("set"), old.get("key")) == (new["set"], new["key"]) else now


async def answer(client: Client, namespace: str, key: str, word: str) -> Entry | None:
    """Says `release` or `discard` of a held set; None where nothing of that key is held."""
    ref = Ref(CONFIG_MAP, namespace, NAME)
    while True:
        try:
            config_map = decode(await client.get(address(ref)))
        except NotFound:
            return None
        entry = entries(config_map).get(key)
        if entry is None:
            return None
        said = replace(entry, answer=f"{word} {entry.set}")
        config_map["data"][entry_name(key)] = json.dumps(asdict(said), sort_keys=True)
        try:
            await client.request("PUT", address(ref), encode(config_map), params=AS_US)
        except (Conflict, AlreadyExists):
            continue
        return said
