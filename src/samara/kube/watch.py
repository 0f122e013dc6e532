"""Keeps one kind of the cache up to date: list, watch, and everything that goes wrong with a watch."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from samara import log
from samara.core.model import Kind, Ref
from samara.kube.cache import Cache, Change
from samara.kube.client import Client, collection
from samara.kube.codec import Codec, RawEvent, raw_event
from samara.kube.discovery import explained
from samara.kube.errors import MOST_WAIT, ApiError, Forbidden, Gone, NotFound, SamaraError, Unreachable, from_status
from samara.kube.intake import ODD, Intake, Place, pages
from samara.kube.lines import Silent, answered_in_time, whole_lines
from samara.kube.store import trace

SHORT = 0.2
"""A watch that ends sooner than this is not opened again at once."""
_LIST_END = b'"k8s.io/initial-events-end":"true"'


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of a watch, in seconds."""

    silence: float = 75.0
    """A watch without a byte for this long is reopened."""
    doubt: float = 30.0
    """A list that is suddenly empty is believed after this long, and so is what a kind lacks that is listed anew."""
    longest: float = 300.0
    """The server is asked to end a watch after this long."""
    backoff_most: float = 30.0
    unservable: float = 5.0
    """A kind that the server does not know is asked for this often: it may be installed at any time."""


class _NotStreamedError(SamaraError):
    """A server that does not know `sendInitialEvents` may pass over it: then it says nowhere where its list ends."""


class Sink(Protocol):
    """Who is told of what a watch sees."""

    def changed(self, changes: list[Change]) -> None: ...

    def passed(self, ref: Ref) -> None:
        """An object that is nothing to us came or changed."""

    def listed(self, kind: Kind) -> None:
        """A kind has been listed, for the first time or anew."""


class Watch:
    """One kind, watched for ever."""

    def __init__(self, kind: Kind, client: Client, cache: Cache, codec: Codec, sink: Sink, pace: Pace) -> None:
        self.kind = kind
        self.pace = pace
        self.waiting: str | None = "not listed yet"
        """Why this kind is not being served, in words; None where it is."""
        self.progress = 0.0
        """When, by the loop's clock, the server was last heard."""
        self.restarts: dict[str, int] = {}
        self._client = client
        self._cache = cache
        self._store = cache.stores[kind]
        self._intake = Intake(kind, cache, codec)
        self._sink = sink
        self._version = ""
        """Where to go on; empty: list first."""
        self._present: set[int] | None = None
        """While a list is read: the traces of all that it has named."""
        self._doubted = False
        self._streams_lists = True
        self._failures = 0
        self._forgotten = 0
        """How often in a row the server no longer knew our version."""

    @property
    def unservable(self) -> bool:
        """True where the server does not know the kind, or will not let us list it."""
        return self._store.unservable

    async def run(self) -> None:
        self._heard()
        while True:
            try:
                if self._store.suspect:
                    self._version, self._store.suspect = "", False
                if not self._version and not self._streams_lists:
                    await self._list()
                began = self._now()
                await self._follow()
                await self._ended(self._now() - began)
            except Silent:  # that was wait enough; and a kind without events is always silent
                self._is_well()
                self._restarted("silent")
                if self._present is not None:
                    self._go_through_pages()
            except Gone as fault:
                await self._begin_again(fault)
            except SamaraError as fault:
                await self._recover(fault)

    async def _ended(self, lasted: float) -> None:
        self._restarted("ended")
        if self._present is not None and lasted > self.pace.longest / 2:  # a list that does not end as it should
            self._go_through_pages()
        if lasted < SHORT:  # a server or proxy that ends every watch at once
            await asyncio.sleep(SHORT)
        else:
            self._is_well()

    async def _follow(self) -> None:
        """Reads one watch to its end."""
        params = self._params()
        if not self._version:
            self._present = set()
        opening = asyncio.timeout(self.pace.silence)
        async with answered_in_time(opening, self.kind), self._client.stream(collection(self.kind), params) as content:
            opening.reschedule(None)
            self._heard()
            async for lines in whole_lines(content, self.pace.silence, self.kind):
                self._heard()
                self._take(lines)

    def _params(self) -> dict[str, str]:
        params = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(int(self.pace.longest))}
        if self._version:
            return {**params, "resourceVersion": self._version}
        return {**params, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

    def _take(self, lines: list[bytes]) -> None:
        listing = self._present is not None
        changes: list[Change] = []
        try:
            for line in filter(None, lines):
                changes.extend(self._event(line))
        finally:  # what came before an error has changed the cache, and must be told
            if changes:
                self._sink.changed(changes)
        if not listing:
            self._is_well()

    def _event(self, line: bytes) -> Iterable[Change]:
        try:
            event, place = self._intake.event(line)
        except ODD:
            raise self._in_stream(line) from None
        if event.type == "ERROR" or not place.version.isdecimal():
            raise self._in_stream(line)
        if event.type == "BOOKMARK":
            return self._bookmark(line, place.version)
        change = self._observed(event, place)
        self._advance(place.version)
        return () if change is None else (change,)

    def _observed(self, event: RawEvent, place: Place) -> Change | None:
        if event.type == "DELETED":
            if self._present is not None:
                self._present.discard(trace(place.ref))  # it came and went while the list was on its way
            return self._cache.drop(place.ref, int(place.version))
        if event.type in ("ADDED", "MODIFIED"):
            return self._saw(event.object, place)
        log.warning("watch.unknown-event", kind=self.kind, type=event.type)
        return None

    def _saw(self, raw: msgspec.Raw, place: Place) -> Change | None:
        if self._present is not None:
            self._present.add(trace(place.ref))
        seen = self._intake.take(raw, place)
        if seen is None:
            self._sink.passed(place.ref)
            return None
        return seen.change

    def _advance(self, version: str) -> None:
        self._store.version = max(self._store.version, int(version))
        if self._present is None:
            self._version = version

    def _bookmark(self, line: bytes, version: str) -> Iterable[Change]:
        if self._present is not None:
            if _LIST_END not in line:  # a server that streams lists sends no other bookmark before their end
                raise _NotStreamedError(f"the list of {self.kind} is not streamed: asking for it in pages")
            return self._listed(version)
        self._advance(version)
        return ()

    def _listed(self, version: str) -> list[Change]:
        """The end of a list: it is believed, unless it is empty and was not before."""
        present, self._present = self._present or set(), None
        if not present and self._store.objects and not self._doubted:
            self._doubted = True
            raise Unreachable(f"the list of {self.kind} is empty and was not before: asking again")
        self._doubted = False
        if self._store.listed or self.unservable:  # perhaps its definition was gone, and its objects are coming back
            self._store.doubted_until = self._now() + self.pace.doubt
        changes = self._cache.relisted(self.kind, present, int(version))
        self._advance(version)
        if not self.unservable:  # else it may be listed and not watched, and must not be listed again and again
            self._failures = 0
        self.waiting, self._store.unservable = None, False
        self._sink.listed(self.kind)
        log.info("watch.listed", kind=self.kind, held=len(self._store.objects), passed=len(self._store.traces))
        return changes

    async def _list(self) -> None:
        """The list in pages, for a server that does not stream it."""
        self._present = set()
        async for page in pages(self._client, self.kind):
            self._heard()
            seen = [self._saw(raw, self._intake.place(raw)) for raw in page.items or ()]
            self._sink.changed([change for change in seen if change is not None])
        self._sink.changed(self._listed(page.version))

    def _go_through_pages(self) -> None:
        self._streams_lists = False
        log.info("watch.in-pages", kind=self.kind, why="this server does not stream lists")

    def _in_stream(self, line: bytes) -> SamaraError:
        """The error that the server put into the stream in place of an event, or what a cut line means."""
        try:
            status = bytes(raw_event(line).object)
            return from_status(_code(status).code, status)
        except ODD:
            return Unreachable(f"the watch of {self.kind} was cut in the middle of an event")

    async def _begin_again(self, fault: Gone) -> None:
        """Lists anew: at once, unless the last list has led nowhere either."""
        self._version = ""
        self._restarted("gone")
        self._forgotten += 1
        if self._forgotten > 1:
            await self._pause(fault, self._forgotten)

    async def _recover(self, fault: SamaraError) -> None:
        """Waits as the fault demands; what is cached stays as it was."""
        self._present = None
        if not self._version and self._streams_lists and _is_of_older_server(fault):
            self._go_through_pages()
            return
        said, told = self.waiting, str(fault)
        if isinstance(fault, Forbidden | NotFound):
            # At once: nothing is deleted for a kind that is not served. What is planned meanwhile comes to nothing, so
            # it is listed anew when it is back, and the list queues everything.
            self.waiting, self._store.unservable, self._version = told, True, ""
            self.waiting = told = await explained(self._client, self.kind, fault)
            self._sink.changed([])  # it may have been the last kind that everything waited for
        self._failures += 1
        self._restarted("error")
        await self._pause(fault, self._failures, told, quietly=self.unservable and said == self.waiting)

    async def _pause(self, fault: SamaraError, times: int, told: str = "", *, quietly: bool = False) -> None:
        """Longer each time, and not shorter than the server says, up to a minute, or than an empty list is doubted."""
        least = self.pace.doubt if self._doubted else 0.0
        if isinstance(fault, ApiError) and fault.retry_after is not None:
            least = min(fault.retry_after, MOST_WAIT)
        most = min(self.pace.backoff_most, self.pace.unservable) if self.unservable else self.pace.backoff_most
        wait = min(0.1 * 2.0 ** min(times, 20), most)
        wait = max(least, wait * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not a secret
        tell = log.debug if quietly else log.warning  # a kind that is not there is told of once
        tell("watch.failed", kind=self.kind, fault=told or fault, again_in=f"{wait:.1f}s")
        await asyncio.sleep(wait)

    def _is_well(self) -> None:
        self._failures = self._forgotten = 0

    def _restarted(self, reason: str) -> None:
        self.restarts[reason] = self.restarts.get(reason, 0) + 1

    def _heard(self) -> None:
        self.progress = self._now()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _is_of_older_server(fault: SamaraError) -> bool:
    """True where the server refuses to stream a list, or does not know how: lists come in pages."""
    return isinstance(fault, _NotStreamedError) or (isinstance(fault, ApiError) and fault.status in (400, 422))


class _Code(msgspec.Struct):
    code: int = 500


_code = msgspec.json.Decoder(_Code).decode
