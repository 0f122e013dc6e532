"""Keeps held deletions in a ConfigMap: `samara status` and `samara release` use it, and a restart reads it back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import chain, zip_longest
from typing import Any

from samara import log
from samara.assembly import HOLDS
from samara.core.metadata_keys import APP
from samara.core.model import CONFIG_MAP, Key, Ref
from samara.engine.hold_records import (
    DELETED,
    TIME_FORMAT,
    Answer,
    HoldRecord,
    deleted_namespaces,
    record_name,
    records,
    unknown_entries,
)
from samara.engine.mass_delete import HeldSet, MassDeleteGuard
from samara.engine.messages import HoldAnswered, HoldsStored
from samara.kube.client import OUR_WRITES, Client, address, collection
from samara.kube.codec import decode, encode
from samara.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound, SamaraError

INTERVAL = 1.0
"""Seconds between two reads or writes."""
MAX_BYTES = 900 * 1024
"""Bytes of all entries. The API server refuses a ConfigMap of more than 1 MiB, and with it every other record."""
_FOREVER = 100 * 365 * 86400.0
"""An end that is more than this many seconds away is written as "forever". `datetime` cannot represent it."""


class HoldStore:
    """Owns the ConfigMap. It writes what the guard holds, and posts answers and finished records to the inbox.

    It never releases a held set itself: the controller does that when it handles the answer.
    """

    def __init__(
        self, client: Client, namespace: str, guard: MassDeleteGuard, post: Callable[[HoldAnswered | HoldsStored], None]
    ) -> None:
        self._client = client
        self._post = post
        self._ref = Ref(CONFIG_MAP, namespace, HOLDS)
        self._guard = guard
        self._read: dict[str, str] = {}
        """The entries as last read, also those of keys that this process has not planned yet."""
        self._unknown: dict[str, str] = {}
        """The entries that this version cannot read. They are written back as they are."""
        self._texts: dict[str, tuple[str, str]] = {}
        """By key: the digest of its held set, and the record of it."""
        self._written: dict[str, str] = {}
        """The entries as last written."""
        self._recorded: dict[str, HeldSet] = {}
        """The held sets as last written. Users answer to these."""
        self._stamps: dict[str, tuple[float, str]] = {}
        """By Namespace: when it was deleted, by the guard's clock and as the record shows it."""
        self._due = asyncio.Event()
        self._error = ""
        """The last error, so that it is logged once; empty after a success."""
        self._has_unrecorded = False
        """True if the last write left out records because there was no room."""
        self._version = ""
        """The resource version last seen. A write that names it does not overwrite a newer answer."""

    async def load(self) -> None:
        """Restores the state of an earlier process. Its sets are held again for the full time.

        Must end before anything is deleted, so it retries until the ConfigMap is read. Raises `Forbidden` if a right is
        missing, because waiting does not help then.
        """
        while True:
            try:
                return self._restore(decode(await self._client.get(address(self._ref))))
            except NotFound:
                return None
            except Forbidden:
                raise
            except SamaraError as error:
                self._log(error)
                await asyncio.sleep(INTERVAL)

    def _restore(self, config_map: dict[str, Any]) -> None:
        self._read = self._written = config_map.get("data") or {}
        self._unknown, self._version = unknown_entries(config_map), config_map["metadata"]["resourceVersion"]
        deleted = deleted_namespaces(config_map)
        ages = {name: time.time() - entry.when.timestamp() for name, entry in deleted.items()}
        trees = {name: entry.tree for name, entry in deleted.items()}
        self._guard.restore((record.key for record in records(config_map).values()), ages, trees)
        times = self._guard.deleted_namespaces()
        self._stamps = {name: (when, deleted[name].when.strftime(TIME_FORMAT)) for name, when in times.items()}

    def save_soon(self) -> None:
        """Writes as soon as possible: a deletion of a Namespace waits until it is recorded."""
        self._due.set()

    async def run(self) -> None:
        """Runs until cancelled. Each second it reads answers if something is held, and writes if something changed."""
        while True:
            await self._pause()
            try:
                if self._guard.held:
                    await self._read_answers()
                await self._write()
                self._error = ""
            except (Conflict, AlreadyExists, NotFound):  # a user answered in between, or deleted the ConfigMap
                with suppress(SamaraError):
                    await self._read_answers()
            except SamaraError as error:
                self._log(error)

    def _log(self, error: SamaraError) -> None:
        """Logs an error once. It is retried every second and would fill the log."""
        if self._error != str(error):
            self._error = str(error)
            log.warning("holds.failed", fault=error)

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(INTERVAL):
                await self._due.wait()
        self._due.clear()

    async def _read_answers(self) -> None:
        for key, answer in await self._answers():
            self._post(HoldAnswered(key, answer))

    async def _answers(self) -> list[tuple[Key, Answer]]:
        """Reads the ConfigMap. Returns the answers that apply to the sets held now."""
        try:
            config_map = decode(await self._client.get(address(self._ref)))
        except NotFound:
            self._written, self._unknown, self._version = {}, {}, ""
            return []
        by_key, self._version = records(config_map), config_map["metadata"]["resourceVersion"]
        self._read, self._unknown = config_map.get("data") or {}, unknown_entries(config_map)
        answers: list[tuple[Key, Answer]] = []
        for key, held in self._guard.held.items():
            answer, _, digest = (by_key[str(key)].answer if str(key) in by_key else "").partition(" ")
            if answer and self._applies_to(held, digest):
                answers.append((key, "discard" if answer == "discard" else "release"))
        return answers

    def _applies_to(self, held: HeldSet, digest: str) -> bool:
        """True if an answer was given for this set, or for a recorded set, and this one is the rest of it."""
        recorded = self._recorded.get(held.key, held)
        return digest == held.digest or (digest == recorded.digest and held.refs <= recorded.refs)

    async def _write(self) -> None:
        """Writes the ConfigMap if a set is new, has changed or has ended, or if a Namespace was deleted."""
        held = {held.key: held for held in self._guard.held.values()}
        self._texts = {key: text for key, text in self._texts.items() if key in held}
        remembered = {record_name(key) for key in self._guard.remembered}
        deleted = self._guard.deleted_namespaces()
        texts = {**self._unknown, **{name: text for name, text in self._read.items() if name in remembered}}
        texts |= self._deleted_entry(deleted)
        recorded = take_turns({key: self._text(held_set) for key, held_set in held.items()}, MAX_BYTES - _size(texts))
        self._note_unrecorded(len(held) - len(recorded))
        texts |= {record_name(key): text for key, text in recorded.items()}
        if texts != self._written:
            await self._send(texts)
            self._written, self._recorded = texts, {key: held[key] for key in recorded}
        if keys := self._guard.mark_recorded(deleted):
            self._post(HoldsStored(keys))

    def _note_unrecorded(self, number: int) -> None:
        """Logs once that records are left out, until there is room for all of them."""
        if number and not self._has_unrecorded:
            log.warning("holds.full", unrecorded=number)
        self._has_unrecorded = number > 0

    def _deleted_entry(self, deleted: dict[str, float]) -> dict[str, str]:
        """The entry about deleted Namespaces, if there are any. Each keeps the time that was first written for it."""
        known = {name: stamp for name, stamp in self._stamps.items() if deleted.get(name) == stamp[0]}
        self._stamps = {name: known.get(name) or (when, self._stamp(when)) for name, when in deleted.items()}
        stamps = {name: f"{stamp} {self._guard.tree_of(name)}".rstrip() for name, (_, stamp) in self._stamps.items()}
        return {DELETED: json.dumps(stamps, sort_keys=True)} if stamps else {}

    def _text(self, held: HeldSet) -> str:
        """The record of a set, computed once. Its times would differ each second, and cause a write each second."""
        digest, text = self._texts.get(held.key, ("", ""))
        if digest != held.digest:
            record = HoldRecord(held.key, held.count, self._stamp(held.since), self._stamp(held.until), held.digest)
            text = json.dumps(asdict(record), sort_keys=True)
            self._texts[held.key] = (held.digest, text)
        return text

    def _stamp(self, when: float) -> str:
        """A time of the guard's clock as the time of day."""
        remaining = self._guard.seconds_until(when)
        if remaining > _FOREVER:
            return "forever"
        return datetime.fromtimestamp(time.time() + remaining, UTC).strftime(TIME_FORMAT)

    async def _send(self, texts: dict[str, str]) -> None:
        metadata = {"name": HOLDS, "namespace": self._ref.namespace, "labels": {APP: HOLDS}}
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": texts}
        if self._version:
            metadata["resourceVersion"] = self._version
            raw = await self._client.request("PUT", address(self._ref), encode(config_map), params=OUR_WRITES)
        else:
            path = collection(CONFIG_MAP, self._ref.namespace)
            raw = await self._client.request("POST", path, encode(config_map), params=OUR_WRITES)
        self._version = decode(raw)["metadata"]["resourceVersion"]


def take_turns(texts: Mapping[str, str], room: int) -> dict[str, str]:
    """The records that fit into this many bytes, by key. The namespaces of the sources take turns, oldest record first.

    Otherwise a tenant who deletes thousands of sources would leave no room for the records of all others.
    """
    by_namespace: dict[str, list[str]] = {}
    for key in texts:
        by_namespace.setdefault("/".join(key.split("/")[2:3]), []).append(key)
    turns = chain.from_iterable(zip_longest(*by_namespace.values()))
    taken: dict[str, str] = {}
    for key in filter(None, turns):
        room -= _size({record_name(key): texts[key]})
        if room < 0:
            break
        taken[key] = texts[key]
    return taken


def _size(texts: Mapping[str, str]) -> int:
    return sum(len(name) + len(text.encode()) for name, text in texts.items())
