"""From the bytes of objects to the cache: what matters is parsed, and of the rest only the address is kept."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

import msgspec

from samara import log
from samara.core.model import MANAGER, Kind, Object, Ref
from samara.core.travel import PAUSED
from samara.kube.cache import Cache, Change
from samara.kube.client import Client, collection
from samara.kube.codec import Codec, slim
from samara.kube.errors import Unreachable

PAGE = 500
ODD = (msgspec.DecodeError, ValueError, RecursionError)
"""What bytes raise that are no JSON, no UTF-8, nested without end or not of the form that is expected."""


def words_pattern(words: Iterable[str]) -> re.Pattern[bytes]:
    """Matches the bytes of an object that is worth parsing: one of our words, or our field manager."""
    spelled = [re.escape(word.encode()) for word in sorted(words)]
    return re.compile(b"|".join((*spelled, re.escape(f'"manager":"{MANAGER}"'.encode()))))


class Place(NamedTuple):
    """The least that is read of every object; bookmarks have no name."""

    ref: Ref
    version: str


class Seen(NamedTuple):
    """What became of one object that was parsed: what it changed, and the object itself."""

    change: Change | None
    obj: Object


class Intake:
    """The way into the cache for the objects of one kind, from a watch as from a list."""

    def __init__(self, kind: Kind, cache: Cache, codec: Codec) -> None:
        self.kind = kind
        self._cache = cache
        self._codec = codec
        self._pattern = words_pattern(cache.table.words | {PAUSED})  # also on a source that asks no more

    def place(self, raw: msgspec.Raw) -> Place:
        meta = slim(raw).metadata
        return Place(Ref(self.kind, meta.namespace, meta.name), meta.resourceVersion)

    def take(self, raw: msgspec.Raw, place: Place) -> Seen | None:
        """Takes the sight of an object; None where it is nothing to us, or tells nothing new."""
        ref, version = place
        if not self._cache.is_news(ref, int(version)):
            return None
        if self._cache.matters(ref) or self._pattern.search(raw):
            try:
                obj = self._codec.object(self.kind, raw)
                return Seen(self._cache.put(obj), obj)
            except ODD as fault:  # one odd object must not stop the others
                log.warning("watch.odd-object", ref=ref, fault=type(fault).__name__)
        self._cache.pass_by(ref)
        return None


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


async def pages(client: Client, kind: Kind) -> AsyncIterator[Page]:
    """A consistent list in pages: never `resourceVersion=0`, which may answer from a server that lags behind."""
    token = ""
    while True:
        params = {"limit": str(PAGE), **({"continue": token} if token else {})}
        try:
            page = _page(await client.get(collection(kind), params))
            int(page.version)
        except ODD:
            raise Unreachable(f"the list of {kind} was answered with something that is no list") from None
        yield page
        token = page.metadata.continue_
        if not token:
            return
