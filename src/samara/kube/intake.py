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
from samara.kube.codec import Codec, RawEvent, raw_event, slim
from samara.kube.errors import Unreachable
from samara.kube.shallow import is_cut, shallow

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
        self._warned = False
        self._pattern = words_pattern(cache.table.words | {PAUSED})  # also on a source that asks no more

    def event(self, line: bytes) -> tuple[RawEvent, Place]:
        """One event of a watch; of an object that is nested too deep what is left when its depths are cut out."""
        try:
            event = raw_event(line)
        except RecursionError:
            event = raw_event(self._shallow(line))
        return event, self.place(event.object)

    def place(self, raw: msgspec.Raw) -> Place:
        try:
            meta = slim(raw).metadata
        except RecursionError:
            meta = slim(self._shallow(bytes(raw))).metadata
        return Place(Ref(self.kind, meta.namespace, meta.name), meta.resourceVersion)

    def take(self, raw: msgspec.Raw, place: Place) -> Seen | None:
        """Takes the sight of an object; None where it is nothing to us, or tells nothing new."""
        ref, version = place
        if not self._cache.is_news(ref, int(version)):
            return None
        if self._cache.matters(ref) or self._pattern.search(raw):
            try:
                obj = self._whole(raw)
                return Seen(self._cache.put(obj), obj)
            except ODD as fault:  # one odd object must not stop the others
                log.warning("watch.odd-object", ref=ref, fault=type(fault).__name__)
        self._cache.pass_by(ref)
        return None

    def _shallow(self, raw: bytes) -> bytes:
        if not self._warned:
            self._warned = True
            log.warning("watch.deep-object", kind=self.kind, then="such objects are passed by; this is told once")
        return shallow(raw)

    def _whole(self, raw: msgspec.Raw) -> Object:
        if is_cut(raw):
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


def _read(raw: bytes, kind: Kind) -> Page:
    try:
        return _page(raw)
    except RecursionError:  # one object that is nested too deep must not hide the others
        log.warning("list.deep-object", kind=kind, then="such objects are passed by")
        return _page(shallow(raw))


async def pages(client: Client, kind: Kind, accept: str = "") -> AsyncIterator[Page]:
    """A consistent list in pages: never `resourceVersion=0`, which may answer from a server that lags behind."""
    token = ""
    while True:
        params = {"limit": str(PAGE), **({"continue": token} if token else {})}
        try:
            page = _read(await client.get(collection(kind), params, accept), kind)
            int(page.version)
        except ODD:
            raise Unreachable(f"the list of {kind} was answered with something that is no list") from None
        yield page
        token = page.metadata.continue_
        if not token:
            return
