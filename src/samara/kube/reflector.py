"""Keeps one kind of the cache up to date: it lists, watches, and recovers when a watch or a list fails.

`Ingest.take` decides which objects the cache holds, by their metadata keys; of the others it keeps the address.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from types import MappingProxyType
from typing import NamedTuple, Protocol

import aiohttp
import msgspec

from samara import log
from samara.core.metadata_keys import PAUSED
from samara.core.model import ANNOTATIONS, FIELD_MANAGER, LABELS, QUOTA, Kind, Object, Ref
from samara.kube.cache import Cache, Change, address_hash
from samara.kube.client import Client, collection
from samara.kube.codec import (
    MALFORMED,
    Codec,
    RawEvent,
    decode_address,
    is_truncated,
    keys_of,
    raw_event,
    truncate_deep_json,
)
from samara.kube.discovery import explain
from samara.kube.errors import MAX_WAIT, ApiError, Forbidden, Gone, NotFound, SamaraError, Unreachable, from_status

SHORT_WATCH = 0.2
"""Seconds. After a watch that was shorter than this, the reflector waits as long before the next one."""
_SLICE = 0.01
"""Seconds after which other tasks run while a list or many events are taken."""
_LIST_END = b'"k8s.io/initial-events-end":"true"'
_READ_SIZE = 2**16
"""Bytes that are read at a time. Without a limit, aiohttp returns pieces of a third of a megabyte from a long list."""


@dataclass(frozen=True, slots=True)
class ReflectorTimings:
    """All are in seconds."""

    silence: float = 75.0
    """A watch that receives no byte for this long is reopened."""
    recheck_absence: float = 30.0
    """How long a suddenly empty list waits before it is fetched again. Also how long after a relist a missing object
    proves nothing, since its CRD may just have been deleted and restored."""
    watch_length: float = 300.0
    """The API server is asked to end a watch after this long."""
    max_backoff: float = 30.0
    not_served: float = 5.0
    """The longest backoff for a kind that the API server does not serve: its CRD may be installed at any time."""


class WatchTimeout(Unreachable):
    """A watch was open and received nothing for too long."""


class _NotStreamedError(SamaraError):
    """The API server ignored `sendInitialEvents`, so the stream does not say where the list ends."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A watch or a list reported changes. The cache holds them already."""

    changes: list[Change]
    first_list: bool = False
    """True for the first list of a kind: these objects are older than the watch."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A kind was listed, for the first time or again."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class QuotaChanged:
    """A ResourceQuota was added or changed. The cache keeps nothing of it."""

    ref: Ref


class MessageQueue(Protocol):
    """Where a reflector posts its messages."""

    def post(self, message: Observed | Listed | QuotaChanged) -> None: ...

    async def wait_for_room(self) -> None:
        """Returns when there is room for more messages. The reflector reads nothing until then: its backpressure."""


class Reflector:
    """Lists and watches one kind until cancelled. It alone writes the kind's `resourceVersion` and list state."""

    def __init__(
        self, kind: Kind, client: Client, cache: Cache, codec: Codec, messages: MessageQueue, timings: ReflectorTimings
    ) -> None:
        self.kind = kind
        self.timings = timings
        self.not_ready_reason: str | None = "not listed yet"
        """Why this kind is not ready; None if it is."""
        self.last_received = 0.0
        """When the API server last sent anything, by the loop's clock."""
        self.restarts: dict[str, int] = {}
        """How often the watch was reopened, by reason."""
        self._client = client
        self._cache = cache
        self._store = cache.stores[kind]
        self._ingest = Ingest(kind, cache, codec)
        self._messages = messages
        self._version = ""
        """The resource version to watch from; empty if the kind must be listed first."""
        self._present: set[int] | None = None
        """While a list is being read: the address hashes of all objects in it so far. Otherwise None."""
        self._confirming_empty = False
        """True if the last list was suddenly empty and is being fetched again."""
        self._streams_lists = True
        self._failures = 0
        self._expired = 0
        """How often in a row the API server answered 410."""

    @property
    def not_served(self) -> bool:
        """True if the API server does not know the kind, or does not let us list it."""
        return self._store.not_served

    async def run(self) -> None:
        self._note_received()
        while True:
            try:
                if self._store.needs_relist:
                    self._version = ""
                    self._cache.begin_relist(self.kind)
                if not self._version and not self._streams_lists:
                    await self._list_pages()
                began = self._now()
                await self._watch()
                await self._handle_end(self._now() - began)
            except WatchTimeout:  # no further pause: a kind without events is silent all the time
                self._reset_backoff()
                self._count_restart("silent")
                if self._present is not None:
                    self._use_pages()
            except Gone as fault:
                await self._relist(fault)
            except SamaraError as fault:
                await self._back_off(fault)

    async def _handle_end(self, lasted: float) -> None:
        """Called when the API server has ended the watch, which is normal."""
        self._count_restart("ended")
        if self._present is not None and lasted > self.timings.watch_length / 2:  # the streamed list has no end
            self._use_pages()
        if lasted < SHORT_WATCH:  # a server or proxy that ends every watch at once
            await asyncio.sleep(SHORT_WATCH)
        else:
            self._reset_backoff()

    async def _watch(self) -> None:
        """Reads one watch to its end. Without a version to watch from, the watch starts with a streamed list."""
        if not self._version:
            self._present = set()
        path, params = collection(self.kind), self._params()
        async with opened_watch(self._client, self.kind, path, params, self.timings.silence) as watch:
            self._note_received()
            async for lines in watch:
                self._note_received()
                await self._take(lines)
                await self._messages.wait_for_room()

    def _params(self) -> dict[str, str]:
        params = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(int(self.timings.watch_length))}
        if self._version:
            return {**params, "resourceVersion": self._version}
        return {**params, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

    async def _take(self, lines: list[bytes]) -> None:
        is_list = self._present is not None
        await self._post(self._event(line) for line in lines if line)
        if not is_list:
            self._reset_backoff()

    async def _post(self, observed: Iterable[Iterable[Change]]) -> None:
        """Posts changes, and lets other tasks run after each `_SLICE` seconds.

        It posts first, since the cache holds these changes already: otherwise the result of one of our own writes could
        be handled before a change that was seen earlier.
        """
        changes, is_first, resumed = list[Change](), not self._store.listed, monotonic()
        try:
            for more in observed:
                changes.extend(more)
                if monotonic() - resumed > _SLICE:
                    if changes:
                        self._messages.post(Observed(changes, is_first))
                        changes = []
                    await asyncio.sleep(0)
                    resumed = monotonic()
        finally:  # events before an error are in the cache already, and the watch will not repeat them
            if changes:
                self._messages.post(Observed(changes, is_first))

    def _event(self, line: bytes) -> Iterable[Change]:
        try:
            event, envelope = self._ingest.event(line)
        except MALFORMED:
            raise self._stream_error(line) from None
        if event.type == "ERROR" or not envelope.version.isdecimal():
            raise self._stream_error(line)
        if event.type == "BOOKMARK":
            return self._bookmark(line, envelope.version)
        changes = self._object_event(event, envelope)
        self._advance(envelope.version)
        return changes

    def _object_event(self, event: RawEvent, envelope: Envelope) -> Iterable[Change]:
        if event.type == "DELETED":
            if self._present is not None:
                # Created and deleted while the list was being streamed.
                self._present.discard(address_hash(envelope.ref))
            change = self._cache.remove(envelope.ref, int(envelope.version))
            return () if change is None else (change,)
        if event.type in ("ADDED", "MODIFIED"):
            return self._observe(event.object, envelope)
        log.warning("watch.unknown-event", kind=self.kind, type=event.type)
        return ()

    def _observe(self, raw: msgspec.Raw, envelope: Envelope) -> Iterable[Change]:
        if self._present is not None:
            self._present.add(address_hash(envelope.ref))
        match self._ingest.take(raw, envelope):
            case Changed(change):
                return () if change is None else (change,)
            case Ignored() if self.kind == QUOTA:
                self._messages.post(QuotaChanged(envelope.ref))
            case Ignored() | Stale():
                pass
        return ()

    def _advance(self, version: str) -> None:
        self._cache.advance(self.kind, int(version))
        if self._present is None:
            self._version = version

    def _bookmark(self, line: bytes, version: str) -> Iterable[Change]:
        if self._present is not None:
            if _LIST_END not in line:  # a server that streams lists sends no other bookmark before their end
                raise _NotStreamedError(f"the list of {self.kind} is not streamed: asking for it in pages")
            return self._finish_list(version)
        self._advance(version)
        return ()

    def _finish_list(self, version: str) -> list[Change]:
        """Takes a complete list into the cache. Raises for a list that is suddenly empty, so that it is fetched again:
        otherwise one wrong answer of a broken server would delete every copy."""
        present, self._present = self._present or set(), None
        if not present and self._store.objects and not self._confirming_empty:
            self._confirming_empty = True
            raise Unreachable(f"the list of {self.kind} is empty and was not before: asking again")
        self._confirming_empty = False
        if self._store.listed or self.not_served:  # the CRD may have been gone, and its objects are being restored
            self._cache.distrust_absence(self.kind, self._now() + self.timings.recheck_absence)
        changes = self._cache.finish_list(self.kind, present, int(version))
        self._advance(version)
        if not self.not_served:  # if only the watch of the kind is refused, its lists must back off too
            self._failures = 0
        self.not_ready_reason = None
        self._cache.set_served(self.kind, True)
        self._messages.post(Listed(self.kind))
        log.info("watch.listed", kind=self.kind, held=len(self._store.objects), passed=len(self._store.address_hashes))
        return changes

    async def _list_pages(self) -> None:
        """Lists in pages, for an API server that does not stream lists."""
        self._present = set()
        async for page in pages(self._client, self.kind):
            self._note_received()
            await self._post(self._observe(raw, self._ingest.envelope(raw)) for raw in page.items or ())
            await self._messages.wait_for_room()
        self._messages.post(Observed(self._finish_list(page.version)))

    def _use_pages(self) -> None:
        self._streams_lists = False
        log.info("watch.in-pages", kind=self.kind, why="this server does not stream lists")

    def _stream_error(self, line: bytes) -> SamaraError:
        """The Status that the API server sent in place of an event, or the error for a line that was cut off."""
        try:
            status = bytes(raw_event(line).object)
            return from_status(_code(status).code, status)
        except MALFORMED:
            return Unreachable(f"the watch of {self.kind} was cut in the middle of an event")

    async def _relist(self, fault: Gone) -> None:
        """Lists again, at once if this is the first 410 since the last successful watch."""
        self._version = ""
        self._count_restart("gone")
        self._expired += 1
        if self._expired > 1:
            await self._pause(fault, self._expired)

    async def _back_off(self, fault: SamaraError) -> None:
        """Waits as long as the fault requires. The cache stays as it was."""
        self._present = None
        if not self._version and self._streams_lists and _is_of_older_server(fault):
            self._use_pages()
            return
        previous_reason, message = self.not_ready_reason, str(fault)
        if isinstance(fault, Forbidden | NotFound):
            # Set before the await, because a plan that is made meanwhile must delete nothing. Such a plan does nothing
            # at all, so the kind is listed again once it is served, and that list queues every source.
            self._cache.set_served(self.kind, False)
            self.not_ready_reason, self._version = message, ""
            self.not_ready_reason = message = await explain(self._client, self.kind, fault)
            self._messages.post(Observed([]))  # wakes the controller, which may have waited for this kind only
        self._failures += 1
        self._count_restart("error")
        quietly = self.not_served and previous_reason == self.not_ready_reason  # warn once about such a kind
        await self._pause(fault, self._failures, message, quietly=quietly)

    async def _pause(self, fault: SamaraError, failures: int, message: str = "", *, quietly: bool = False) -> None:
        """Sleeps longer after each failure: at least as long as Retry-After says, up to a minute, and after a suddenly
        empty list at least `recheck_absence`."""
        least = self.timings.recheck_absence if self._confirming_empty else 0.0
        if isinstance(fault, ApiError) and fault.retry_after is not None:
            least = min(fault.retry_after, MAX_WAIT)
        most = self.timings.max_backoff
        if self.not_served:
            most = min(most, self.timings.not_served)
        wait = min(0.1 * 2.0 ** min(failures, 20), most)
        wait = max(least, wait * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not a secret
        report = log.debug if quietly else log.warning
        report("watch.failed", kind=self.kind, fault=message or fault, again_in=f"{wait:.1f}s")
        await asyncio.sleep(wait)

    def _reset_backoff(self) -> None:
        self._failures = self._expired = 0

    def _count_restart(self, reason: str) -> None:
        self.restarts[reason] = self.restarts.get(reason, 0) + 1

    def _note_received(self) -> None:
        self.last_received = self._now()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _is_of_older_server(fault: SamaraError) -> bool:
    """True if the API server refuses to stream a list, or does not know how."""
    return isinstance(fault, _NotStreamedError) or (isinstance(fault, ApiError) and fault.status in (400, 422))


@asynccontextmanager
async def opened_watch(
    client: Client, kind: Kind, path: str, params: dict[str, str], silence: float
) -> AsyncIterator[AsyncIterator[list[bytes]]]:
    """Opens a watch, and yields an iterator over lists of its lines. Raises if there is no answer for `silence`
    seconds, or later no byte."""
    opening = asyncio.timeout(silence)
    try:
        async with opening, client.stream(path, params) as content:
            opening.reschedule(None)  # from now on only silence ends the watch
            yield _complete_lines(content, silence, kind)
    except TimeoutError:
        raise Unreachable(f"the watch of {kind} was not answered in time") from None


async def _complete_lines(content: aiohttp.StreamReader, silence: float, kind: Kind) -> AsyncIterator[list[bytes]]:
    """Yields lists of complete lines, and drops a last line without an end. It empties a list before it reads on, so
    the caller must not keep it."""
    tail = b""
    while True:
        try:
            async with asyncio.timeout(silence):
                piece = await content.read(_READ_SIZE)
        except TimeoutError:
            raise WatchTimeout(f"the watch of {kind} was silent for {silence:g} s") from None
        if not piece:
            return
        *lines, tail = (tail + piece).split(b"\n")
        del piece  # free the buffer before waiting: the next event may be an hour away
        if lines:
            yield lines
            lines.clear()


class _Code(msgspec.Struct):
    code: int = 500


_code = msgspec.json.Decoder(_Code).decode


PAGE_SIZE = 500


class Envelope(NamedTuple):
    """The fields that are decoded of every object. A bookmark has no name."""

    ref: Ref
    version: str
    labels: msgspec.Raw
    annotations: msgspec.Raw


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
        texts = {key for key in keys if key.startswith('"')}
        self._keys = keys - texts
        self._texts = tuple(text.encode() for text in (*texts, f'"manager":"{FIELD_MANAGER}"'))
        """JSON of objects that must be parsed whatever their labels and annotations."""

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
        return Envelope(Ref(self.kind, meta.namespace, meta.name), meta.resourceVersion, meta.labels, meta.annotations)

    def take(self, raw: msgspec.Raw, envelope: Envelope) -> Stale | Ignored | Changed:
        """Updates the cache with one object, if it is newer than the cached one.

        This decides whether an object enters the cache: it must have one of our metadata keys, one that may be a
        misspelt one, or our field manager, or its address must matter. No plan ever sees the others.
        """
        ref = envelope.ref
        if not self._cache.is_newer(ref, int(envelope.version)):
            return STALE
        try:
            if self._cache.must_parse(ref) or self._is_relevant(envelope, raw):
                obj = self._parse(raw)
                return Changed(self._cache.put(obj), obj)
        except MALFORMED as fault:  # one malformed object must not stop the watch
            log.warning("watch.odd-object", ref=ref, fault=type(fault).__name__)
        self._cache.note_ignored(ref)
        return IGNORED

    def _is_relevant(self, envelope: Envelope, raw: msgspec.Raw) -> bool:
        may_miss = self._cache.near_miss_rules.may_miss
        for where, metadata in ((LABELS, envelope.labels), (ANNOTATIONS, envelope.annotations)):
            keys = keys_of(metadata) or {}
            if not self._keys.isdisjoint(keys) or may_miss(where, keys):
                return True
        data = bytes(raw)
        return any(text in data for text in self._texts)

    def _truncated(self, raw: bytes) -> bytes:
        if not self._warned:
            self._warned = True
            log.warning("watch.deep-object", kind=self.kind, then="such objects are skipped; this is logged once")
        return truncate_deep_json(raw)

    def _parse(self, raw: msgspec.Raw) -> Object:
        if is_truncated(raw):
            raise RecursionError("the object is nested too deeply to be read")
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
