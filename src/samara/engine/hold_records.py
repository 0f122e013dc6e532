"""The records of held deletions in a ConfigMap: how they are read, and how `samara release` answers one."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from samara.assembly import HOLDS
from samara.core.model import CONFIG_MAP, Ref
from samara.kube.client import OUR_WRITES, Client, address
from samara.kube.codec import decode, encode
from samara.kube.errors import AlreadyExists, Conflict, NotFound

DELETED = "namespaces"
"""The entry with the recently deleted Namespaces: when, and of which tree. They count after a restart too."""
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"

Answer = Literal["release", "discard"]
"""What a person says about held deletions: let them continue, or keep the copies."""


@dataclass(frozen=True, slots=True)
class HoldRecord:
    """One held set as the ConfigMap stores it: names, counts and times only."""

    key: str
    count: int
    since: str
    until: str
    set: str
    answer: str = ""
    """`release` or `discard`, and the digest of the set that it applies to; empty if there is no answer."""


def record_name(key: str) -> str:
    """The name of a record in the ConfigMap, which does not allow the characters of a key."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def records(config_map: dict[str, Any]) -> dict[str, HoldRecord]:
    """The records of a ConfigMap by key. Unreadable ones are left out."""
    by_key = {}
    for text in (config_map.get("data") or {}).values():
        with suppress(msgspec.DecodeError):
            record = msgspec.json.decode(text, type=HoldRecord)
            by_key[record.key] = record
    return by_key


def unknown_entries(config_map: dict[str, Any]) -> dict[str, str]:
    """Entries that this version cannot read. Another version may have written them, so they are kept as they are."""
    known = {DELETED, *map(record_name, records(config_map))}
    return {name: text for name, text in (config_map.get("data") or {}).items() if name not in known}


class DeletedNamespace(NamedTuple):
    """When a Namespace was deleted, and the root of its tree; empty if an earlier version recorded it."""

    when: datetime
    tree: str


def deleted_namespaces(config_map: dict[str, Any]) -> dict[str, DeletedNamespace]:
    """The recorded deletions of Namespaces, each as a time and a tree. Unreadable times are left out."""
    text, times = (config_map.get("data") or {}).get(DELETED, "{}"), {}
    with suppress(msgspec.DecodeError):
        for name, entry in msgspec.json.decode(text, type=dict[str, str]).items():
            when, _, tree = entry.partition(" ")
            with suppress(ValueError):
                times[name] = DeletedNamespace(datetime.strptime(when, TIME_FORMAT).replace(tzinfo=UTC), tree)
    return times


async def post_answer(client: Client, namespace: str, key: str, answer: Answer) -> HoldRecord | None:
    """Records an answer for the held set of a key. Returns its record; None if no deletion of that key is held."""
    ref = Ref(CONFIG_MAP, namespace, HOLDS)
    while True:
        try:
            config_map = decode(await client.get(address(ref)))
        except NotFound:
            return None
        record = records(config_map).get(key)
        if record is None:
            return None
        answered = replace(record, answer=f"{answer} {record.set}")
        config_map["data"][record_name(key)] = json.dumps(asdict(answered), sort_keys=True)
        try:
            await client.request("PUT", address(ref), encode(config_map), params=OUR_WRITES)
        except (Conflict, AlreadyExists):
            continue
        return answered
