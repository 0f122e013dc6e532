"""What can be said of a copy whose sources may not be read: its marks, and the Events of its namespace."""

from __future__ import annotations

from typing import Any, NamedTuple

from samara.core.model import EVENT, Object, Ref
from samara.core.ownership import is_recorded
from samara.core.registry import Registry
from samara.core.source_type import SourceType
from samara.kube.answers import NO_READINGS
from samara.kube.cache import Cache
from samara.kube.client import Client, address, collection
from samara.kube.codec import Codec, decode
from samara.kube.errors import Forbidden, NotFound

_MOST = 20


class Mark(NamedTuple):
    vocabulary: str
    origin: str
    rule: str


class Local(NamedTuple):
    """None where something could not be read."""

    present: bool | None
    marks: tuple[Mark, ...]
    events: tuple[str, ...]
    unread: tuple[str, ...]


async def local_answer(client: Client, registry: Registry, ref: Ref, fault: str) -> Local:
    """`fault` says why the sources, or some of them, could not be read."""
    unread = [f"the sources, and who wants this place ({fault})"]
    present: bool | None = None
    marks: tuple[Mark, ...] = ()
    try:
        live = await _read(client, registry, ref)
        present, marks = live is not None, _marks(live, registry)
    except Forbidden as refused:
        unread.append(f"the object itself ({refused})")
    events: tuple[str, ...] = ()
    try:
        events = await _events(client, ref)
    except Forbidden as refused:
        unread.append(f"the Events of the namespace ({refused})")
    return Local(present, marks, events, tuple(unread))


async def _read(client: Client, registry: Registry, ref: Ref) -> Object | None:
    try:
        return Codec(registry.managers).object(ref.kind, await client.get(address(ref)))
    except NotFound:
        return None


def _marks(live: Object | None, registry: Registry) -> tuple[Mark, ...]:
    if live is None:
        return ()
    owner = registry.owner(live, Cache(registry, built=Codec(registry.managers).content, readings=NO_READINGS))
    found = []
    for source_type in registry.source_types:
        origin = marked_origin(live, source_type)
        if origin is None:
            continue
        if owner is not None and owner.source_type == source_type.name:
            by = "we set them" if is_recorded(live, source_type.ownership) else "somebody else set them"
            found.append(
                Mark(source_type.vocabulary, owner.source.path, f"its marks name {owner.source} as its source; {by}")
            )
        else:
            found.append(
                Mark(source_type.vocabulary, origin, "it carries marks that do not make it a copy under these settings")
            )
    return tuple(found)


def marked_origin(live: Object, source_type: SourceType) -> str | None:
    """What the marks on an object say, in their own words; None where it carries none of this vocabulary."""
    marks = sorted(source_type.ownership.marks)
    told = [words[mark] for words in (live.annotations, live.labels) for mark in marks if mark in words]
    return told[0] if told else None


async def _events(client: Client, ref: Ref) -> tuple[str, ...]:
    if not ref.namespace:
        return ()
    chosen = f"involvedObject.name={ref.name},involvedObject.kind={ref.kind.name}"
    items: list[dict[str, Any]] = decode(
        await client.get(collection(EVENT, ref.namespace), {"fieldSelector": chosen, "limit": "500"})
    )["items"]
    ours = [item for item in items if (item.get("source") or {}).get("component") == "samara"]
    ours.sort(key=lambda item: item.get("lastTimestamp") or "")
    return tuple(f"{item.get('reason', '')}: {item.get('message', '')}" for item in ours[-_MOST:])
