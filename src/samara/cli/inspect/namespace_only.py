"""Explains an object from its marks and from the Events of its namespace, for users who may not read its sources."""

from __future__ import annotations

from typing import Any, NamedTuple

from samara.core.model import EVENT, Object, Ref
from samara.core.near_misses import NearMiss, NearMissRules
from samara.core.ownership import is_recorded
from samara.core.registry import Registry
from samara.core.source_type import SourceType
from samara.core.view import View
from samara.kube.answers import NO_READINGS
from samara.kube.cache import Cache
from samara.kube.client import Client, address, collection
from samara.kube.codec import Codec, decode
from samara.kube.errors import Forbidden, NotFound

_MAX_EVENTS = 20


class Mark(NamedTuple):
    """What a mark on an object says, and whether it makes the object a copy."""

    vocabulary: str
    origin: str
    rule: str


class LocalAnswer(NamedTuple):
    """What the marks of an object and the Events of its namespace say about it."""

    is_present: bool | None
    """None if the object could not be read."""
    marks: tuple[Mark, ...]
    events: tuple[str, ...]
    unread: tuple[str, ...]
    """What could not be read, and why."""
    near_misses: tuple[NearMiss, ...] = ()
    """The labels and annotations of the object that have no effect."""


async def read_local_answer(client: Client, registry: Registry, ref: Ref, fault: str) -> LocalAnswer:
    """Reads the object and its Events. `fault` is why the sources, or some of them, could not be read."""
    answer = await read_object_alone(client, registry, ref)
    unread = [f"the sources, and which source wants this address ({fault})", *answer.unread]
    events: tuple[str, ...] = ()
    try:
        events = await _events(client, ref)
    except Forbidden as refused:
        unread.append(f"the Events of the namespace ({refused})")
    return answer._replace(events=events, unread=tuple(unread))


async def read_object_alone(client: Client, registry: Registry, ref: Ref) -> LocalAnswer:
    """Reads the object only."""
    try:
        live = await _read(client, registry, ref)
    except Forbidden as refused:
        return LocalAnswer(None, (), (), (f"the object itself ({refused})",))
    near_misses = () if live is None else NearMissRules(registry).of_object(live, _empty_view(registry))
    return LocalAnswer(live is not None, _marks(live, registry), (), (), near_misses)


async def _read(client: Client, registry: Registry, ref: Ref) -> Object | None:
    try:
        return Codec(registry.managers).object(ref.kind, await client.get(address(ref)))
    except NotFound:
        return None


def _empty_view(registry: Registry) -> View:
    return Cache(registry, build_content=Codec(registry.managers).content, readings=NO_READINGS)


def _marks(live: Object | None, registry: Registry) -> tuple[Mark, ...]:
    if live is None:
        return ()
    owner = registry.owner(live, _empty_view(registry))
    marks = []
    for source_type in registry.source_types:
        origin = marked_origin(live, source_type)
        if origin is None:
            continue
        if owner is not None and owner.source_type == source_type.name:
            origin = owner.source.path
            by = "Samara set them" if is_recorded(live, source_type.ownership) else "another client set them"
            rule = f"its marks name {owner.source} as its source; {by}"
        else:
            rule = "it carries marks that do not make it a copy under these settings"
        marks.append(Mark(source_type.vocabulary, origin, rule))
    return tuple(marks)


def marked_origin(live: Object, source_type: SourceType) -> str | None:
    """The value of the first mark of a source type on an object. None if it has no such mark."""
    marks = sorted(source_type.ownership.marks)
    values = [metadata[mark] for metadata in (live.annotations, live.labels) for mark in marks if mark in metadata]
    return values[0] if values else None


async def _events(client: Client, ref: Ref) -> tuple[str, ...]:
    """The last Events of ours about an object. Empty for an object without a namespace."""
    if not ref.namespace:
        return ()
    selector = f"involvedObject.name={ref.name},involvedObject.kind={ref.kind.name}"
    items: list[dict[str, Any]] = decode(
        await client.get(collection(EVENT, ref.namespace), {"fieldSelector": selector, "limit": "500"})
    )["items"]
    ours = [item for item in items if (item.get("source") or {}).get("component") == "samara"]
    ours.sort(key=lambda item: item.get("lastTimestamp") or "")
    return tuple(f"{item.get('reason', '')}: {item.get('message', '')}" for item in ours[-_MAX_EVENTS:])
