"""Takes raw objects from lists and watches into the cache. Relevant objects are parsed, and of others only the address
is kept."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from samara import log
from samara.core.metadata_keys import PAUSED
from samara.core.model import FIELD_MANAGER, Kind, Object, Ref
from samara.kube.cache import Cache, Change
from samara.kube.client import Client, collection
from samara.kube.codec import (
    MALFORMED,
    Codec,
    RawEvent,
    decode_address,
    is_truncated,
    raw_event,
    truncate_deep_json,
)
from samara.kube.errors import Unreachable

PAGE_SIZE = 500


def relevance_pattern(metadata_keys: Iterable[str], prefixes: Iterable[str] = ()) -> re.Pattern[bytes]:
    """Matches the bytes of every object that must be parsed: it has one of these keys, a key with one of these
    prefixes, or our field manager.

    Every alternative begins with a quotation mark, which is rare in the base64 of a Secret, so the search is fast.
    """
    begins = tuple(prefixes)
    keys = [key if key.startswith('"') else f'"{key}' for key in metadata_keys if not key.startswith(begins)]
    texts = {*(f'"{prefix}' for prefix in begins), *keys, f'"manager":"{FIELD_MANAGER}"'}
    return re.compile(b"|".join(re.escape(text.encode()) for text in sorted(texts)))


class Envelope(NamedTuple):
    """The fields that are decoded of every object. A bookmark has no name."""

    ref: Ref
    version: str


@dataclass(frozen=True, slots=True)
class Stale:
    """The cache holds this version of the object or a newer one."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """The object is irrelevant or malformed. The cache keeps its address only."""


class Changed(NamedTuple):
    """The object was parsed, and the cache holds it if it is relevant."""

    change: Change | None
    """None if nothing changed that a plan depends on."""
    obj: Object


STALE, IGNORED = Stale(), Ignored()


class Ingest:
    """The way into the cache for the objects of one kind."""

    def __init__(self, kind: Kind, cache: Cache, codec: Codec) -> None:
        self.kind = kind
        self._cache = cache
        self._codec = codec
        self._warned = False
        keys = cache.registry.metadata_keys | {PAUSED}  # a former source may be paused
        self._relevant = relevance_pattern(keys, cache.near_miss_rules.prefixes)

    def event(self, line: bytes) -> tuple[RawEvent, Envelope]:
        """Decodes one event of a watch. An object that is nested too deep is truncated first."""
        try:
            event = raw_event(line)
        except RecursionError:
            event = raw_event(self._truncated(line))
        return event, self.envelope(event.object)

    def envelope(self, raw: msgspec.Raw) -> Envelope:
        try:
            meta = decode_address(raw).metadata
        except RecursionError:
            meta = decode_address(self._truncated(bytes(raw))).metadata
        return Envelope(Ref(self.kind, meta.namespace, meta.name), meta.resourceVersion)

    def take(self, raw: msgspec.Raw, envelope: Envelope) -> Stale | Ignored | Changed:
        """Updates the cache with one object, if it is newer than the cached one.

        This decides whether an object enters the cache: its bytes must contain one of our metadata keys, or one that
        begins like them and may be misspelt, or its address must matter. No plan ever sees the others.
        """
        ref, version = envelope
        if not self._cache.is_newer(ref, int(version)):
            return STALE
        if self._cache.must_parse(ref) or self._relevant.search(raw):
            try:
                obj = self._parse(raw)
                return Changed(self._cache.put(obj), obj)
            except MALFORMED as fault:  # one malformed object must not stop the watch
                log.warning("watch.odd-object", ref=ref, fault=type(fault).__name__)
        self._cache.note_ignored(ref)
        return IGNORED

    def _truncated(self, raw: bytes) -> bytes:
        if not self._warned:
            self._warned = True
            log.warning("watch.deep-object", kind=self.kind, then="such objects are skipped; this is logged once")
        return truncate_deep_json(raw)

    def _parse(self, raw: msgspec.Raw) -> Object:
        if is_truncated(raw):
            raise RecursionError("a part of this object lies too deep to be read")
        return self._codec.object(self.kind, raw)


class _ListMeta(msgspec.Struct):
    resourceVersion: str
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct):
    """A part of a list."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None

    @property
    def version(self) -> str:
        return self.metadata.resourceVersion


_page = msgspec.json.Decoder(Page).decode


def _decode_page(raw: bytes, kind: Kind) -> Page:
    try:
        return _page(raw)
    except RecursionError:  # one object that is nested too deep must not hide the others
        log.warning("list.deep-object", kind=kind, then="such objects are skipped")
        return _page(truncate_deep_json(raw))


async def pages(
    client: Client, kind: Kind, accept: str = "", query: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[Page]:
    """Reads a consistent list in pages. `query` has more parameters, such as a selector or another `limit`.

    It never sends `resourceVersion=0`, since a server that lags behind may answer that from its own cache.
    """
    token = ""
    while True:
        params = {"limit": str(PAGE_SIZE), **query, **({"continue": token} if token else {})}
        try:
            page = _decode_page(await client.get(collection(kind), params, accept), kind)
            int(page.version)
        except MALFORMED:
            raise Unreachable(f"the list of {kind} was answered with something that is no list") from None
        yield page
        token = page.metadata.continue_
        if not token:
            return
