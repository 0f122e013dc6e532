"""The holds as a ConfigMap: `samara status` and `samara release` work from anywhere, and a restart does not forget."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from samara import log
from samara.core.metadata_keys import APP
from samara.core.model import CONFIG_MAP, Key, Ref
from samara.engine.mass_delete import HeldSet, MassDeleteGuard
from samara.engine.messages import Answer, HoldAnswered, HoldsStored
from samara.kube.client import OUR_WRITES, Client, address, collection
from samara.kube.codec import decode, encode
from samara.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound, SamaraError

NAME = "samara-holds"
ENDED = "namespaces"
"""Beside the holds: the Namespaces that were deleted lately, and when. Their brake counts over a restart, too."""
EVERY = 1.0
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_FOREVER = 100 * 365 * 86400.0
"""Seconds after which nobody asks for a date any more, nor has the calendar one for long."""


@dataclass(frozen=True, slots=True)
class HoldRecord:
    """One hold as it is written down: names, counts and times only."""

    key: str
    count: int
    since: str
    until: str
    set: str
    answer: str = ""
    """What somebody has said of this set: `release` or `discard`, and the set it was said of."""


def record_name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def records(config_map: dict[str, Any]) -> dict[str, HoldRecord]:
    """The holds in a ConfigMap by key; what cannot be read is left out."""
    found = {}
    for text in (config_map.get("data") or {}).values():
        with suppress(msgspec.DecodeError):
            entry = msgspec.json.decode(text, type=HoldRecord)
            found[entry.key] = entry
    return found


def unknown(config_map: dict[str, Any]) -> dict[str, str]:
    """What another version of ours may have written down beside the holds: it stays as it is."""
    known = {ENDED, *map(record_name, records(config_map))}
    return {name: text for name, text in (config_map.get("data") or {}).items() if name not in known}


def deleted_namespaces(config_map: dict[str, Any]) -> dict[str, datetime]:
    """When each Namespace was let go that is written down; what cannot be read is left out."""
    text, found = (config_map.get("data") or {}).get(ENDED, "{}"), {}
    with suppress(msgspec.DecodeError):
        for name, when in msgspec.json.decode(text, type=dict[str, str]).items():
            with suppress(ValueError):
                found[name] = datetime.strptime(when, _TIME).replace(tzinfo=UTC)
    return found


class HoldStore:
    """Keeps the ConfigMap equal to the holds, and the holds informed of what people say about them."""

    def __init__(
        self, client: Client, namespace: str, holds: MassDeleteGuard, post: Callable[[HoldAnswered | HoldsStored], None]
    ) -> None:
        self._client = client
        self._post = post
        self._ref = Ref(CONFIG_MAP, namespace, NAME)
        self._holds = holds
        self._found: dict[str, str] = {}
        """What is written down, as we last read it: also of keys that this process has not planned yet."""
        self._unknown: dict[str, str] = {}
        self._texts: dict[str, tuple[str, str]] = {}
        """What this process has written of each hold: the digest of its set, and the text."""
        self._written: dict[str, str] = {}
        self._shown: dict[str, HeldSet] = {}
        """The holds as they are written down: what people answer to."""
        self._stamps: dict[str, tuple[float, str]] = {}
        """When each Namespace was let go, by our clock, and as it is written down."""
        self._due = asyncio.Event()
        self._fault = ""
        """Why they could not be written down or read the last time."""
        self._version = ""
        """Of the ConfigMap as we last saw it: what somebody says meanwhile is not written over."""

    async def load(self) -> None:
        """At the start: what was held before is held again, with its whole time. Without it nothing may be deleted."""
        while True:
            try:
                return self._take(decode(await self._client.get(address(self._ref))))
            except NotFound:
                return None
            except Forbidden:
                raise  # waiting does not help: a right is missing
            except SamaraError as fault:
                self._fails(fault)
                await asyncio.sleep(EVERY)

    def _take(self, config_map: dict[str, Any]) -> None:
        self._found = self._written = config_map.get("data") or {}
        self._unknown, self._version = unknown(config_map), config_map["metadata"]["resourceVersion"]
        self._holds.remembered = {entry.key for entry in records(config_map).values()}
        told = deleted_namespaces(config_map)
        self._holds.restore({name: time.time() - when.timestamp() for name, when in told.items()})
        self._stamps = {
            name: (when, told[name].strftime(_TIME)) for name, when in self._holds.deleted_namespaces().items()
        }

    def save_soon(self) -> None:
        """Writes as soon as possible: a deletion of a Namespace waits until it is recorded."""
        self._due.set()

    async def run(self) -> None:
        """Reads answers and writes once a second, but only while something is held or must be recorded."""
        while True:
            await self._pause()
            try:
                if self._holds.held:
                    await self._read_answers()
                await self._write()
                self._fault = ""
            except (Conflict, AlreadyExists, NotFound):
                await self._reread()  # somebody said something meanwhile, or removed it
            except SamaraError as fault:
                self._fails(fault)

    def _fails(self, fault: SamaraError) -> None:
        """Once per fault: it is tried again every second, and that is no news."""
        if self._fault != str(fault):
            self._fault = str(fault)
            log.warning("holds.failed", fault=fault)

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(EVERY):
                await self._due.wait()
        self._due.clear()

    async def _reread(self) -> None:
        with suppress(SamaraError):
            await self._read_answers()

    async def _read_answers(self) -> None:
        for key, word in await self._answers():
            self._post(HoldAnswered(key, word))

    async def _answers(self) -> list[tuple[Key, Answer]]:
        """Held sets that somebody has released or discarded."""
        try:
            config_map = decode(await self._client.get(address(self._ref)))
        except NotFound:
            self._written, self._unknown, self._version = {}, {}, ""
            return []
        told, self._version = records(config_map), config_map["metadata"]["resourceVersion"]
        self._found, self._unknown = config_map.get("data") or {}, unknown(config_map)
        found: list[tuple[Key, Answer]] = []
        for key, hold in self._holds.held.items():
            word, _, of = (told[str(key)].answer if str(key) in told else "").partition(" ")
            if word and self._is_said_of(hold, of):
                found.append((key, "discard" if word == "discard" else "release"))
        return found

    def _is_said_of(self, hold: HeldSet, digest: str) -> bool:
        """A word is for the set that was written down when it was said, and for what is left of that by now."""
        shown = self._shown.get(hold.key, hold)
        return digest == hold.digest or (digest == shown.digest and hold.refs <= shown.refs)

    async def _write(self) -> None:
        """Writes only where a set came, changed or went."""
        shown = {hold.key: hold for hold in self._holds.held.values()}
        self._texts = {key: text for key, text in self._texts.items() if key in shown}
        held = {record_name(hold.key): self._text(hold) for hold in self._holds.held.values()}
        waiting = {record_name(key) for key in self._holds.remembered}
        ended = self._holds.deleted_namespaces()
        texts = {**self._unknown, **{name: text for name, text in self._found.items() if name in waiting}}
        texts |= {**held, **self._ended(ended)}
        if texts != self._written:
            await self._send(texts)
            self._written, self._shown = texts, shown
        if keys := self._holds.mark_recorded(ended):
            self._post(HoldsStored(keys))

    def _ended(self, ended: dict[str, float]) -> dict[str, str]:
        known = {name: each for name, each in self._stamps.items() if ended.get(name) == each[0]}
        self._stamps = {name: known.get(name) or (when, self._stamp(when)) for name, when in ended.items()}
        stamps = {name: stamp for name, (_, stamp) in self._stamps.items()}
        return {ENDED: json.dumps(stamps, sort_keys=True)} if stamps else {}

    def _text(self, hold: HeldSet) -> str:
        """The same text for the same set: times that only jitter are no news."""
        digest, text = self._texts.get(hold.key, ("", ""))
        if digest != hold.digest:
            entry = HoldRecord(hold.key, hold.count, self._stamp(hold.since), self._stamp(hold.until), hold.digest)
            text = json.dumps(asdict(entry), sort_keys=True)
            self._texts[hold.key] = (hold.digest, text)
        return text

    def _stamp(self, moment: float) -> str:
        left = self._holds.seconds_until(moment)
        if left > _FOREVER:
            return "forever"
        return datetime.fromtimestamp(time.time() + left, UTC).strftime(_TIME)

    async def _send(self, texts: dict[str, str]) -> None:
        meta = {"name": NAME, "namespace": self._ref.namespace, "labels": {APP: NAME}}
        sent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": texts}
        if self._version:
            meta["resourceVersion"] = self._version
            raw = await self._client.request("PUT", address(self._ref), encode(sent), params=OUR_WRITES)
        else:
            raw = await self._client.request(
                "POST", collection(CONFIG_MAP, self._ref.namespace), encode(sent), params=OUR_WRITES
            )
        self._version = decode(raw)["metadata"]["resourceVersion"]


async def post_answer(client: Client, namespace: str, key: str, word: str) -> HoldRecord | None:
    """Says `release` or `discard` of a held set; None where nothing of that key is held."""
    ref = Ref(CONFIG_MAP, namespace, NAME)
    while True:
        try:
            config_map = decode(await client.get(address(ref)))
        except NotFound:
            return None
        entry = records(config_map).get(key)
        if entry is None:
            return None
        said = replace(entry, answer=f"{word} {entry.set}")
        config_map["data"][record_name(key)] = json.dumps(asdict(said), sort_keys=True)
        try:
            await client.request("PUT", address(ref), encode(config_map), params=OUR_WRITES)
        except (Conflict, AlreadyExists):
            continue
        return said
