"""Reads that plans wait for: single objects, and queries to the API server. Keys share equal reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial

from samara import log
from samara.core.model import Key, Ref
from samara.core.queries import (
    CrdExists,
    DryRunCreate,
    IsGone,
    NamespaceIsActive,
    OwnerAnnotation,
    Query,
    Rejected,
    SecretPath,
)
from samara.engine.messages import Fetched
from samara.kube.cache import Cache, Change
from samara.kube.client import Client, address
from samara.kube.codec import MALFORMED, Codec
from samara.kube.errors import NotFound, SamaraError
from samara.kube.queries import crd_established, dry_run_create, namespace_alive, owner_annotation, read_object

_PARALLEL = 8
"""Objects read at a time."""
_RETRY = 5.0
"""Seconds until a failed read is repeated."""
_WATCH_LAG = 0.1
"""Seconds. An object newer than our watch may be a copy of a newer source: let the watch report that source first."""
_REJECTED_FOR = 60.0
"""Seconds for which a refused dry run counts: a quota or an admission rule may change."""
_VALID_FOR = 2.0
"""Seconds for which a short-lived answer counts. Shorter than the default grace period of a vanished source."""


class Fetcher:
    """Owns the reads under way. It stores each result in the cache, then posts `Fetched` for the keys that waited.

    Controller and planner ask for the reads, and the controller calls `start_waiting` after each turn. It plans nothing
    itself.
    """

    def __init__(
        self, client: Client, codec: Codec, cache: Cache, namespace: str, post: Callable[[Fetched], None]
    ) -> None:
        self._client = client
        self._codec = codec
        self._cache = cache
        self._namespace = namespace
        """The operator's own: dry runs create objects there."""
        self._post = post
        self._objects: dict[Ref, set[Key]] = {}
        self._queries: dict[Query, set[Key]] = {}
        self._waiting: list[Callable[[], Coroutine[None, None, None]]] = []
        """Reads that were asked for and are not started yet."""
        self._slots = asyncio.Semaphore(_PARALLEL)

    def start_waiting(self, group: asyncio.TaskGroup) -> None:
        """Starts the reads that were asked for, as tasks of this group."""
        waiting, self._waiting = self._waiting, []
        for read in waiting:
            group.create_task(read())

    @property
    def pending(self) -> int:
        """How many reads wait or are under way. Delayed ones do not count."""
        return len(self._objects) + len(self._queries)

    # single objects

    def fetch(self, ref: Ref, key: Key, delay: float = 0.0) -> None:
        """Reads an object whose content the cache lacks, or whose state is unknown after a write. Its key is planned
        afterwards."""
        if delay:
            self._waiting.append(partial(self._fetch_later, ref, key, delay))
        elif self._join(ref, key):
            self._waiting.append(partial(self._fetch, ref))

    def _join(self, ref: Ref, key: Key) -> bool:
        """Adds a key to those that wait for an object. True if it is the first, so that the object must be read."""
        is_first = ref not in self._objects
        self._objects.setdefault(ref, set()).add(key)
        return is_first

    async def _fetch_later(self, ref: Ref, key: Key, delay: float) -> None:
        """One task for each key: another key that needs the same object must not wait for the backoff of this one."""
        await asyncio.sleep(delay)
        if self._join(ref, key):
            await self._fetch(ref)

    async def _fetch(self, ref: Ref) -> None:
        change, delay = None, 0.0
        async with self._slots:
            try:
                change, delay = await self._read(ref)
            except (SamaraError, *MALFORMED) as fault:
                log.debug("look.failed", at=ref, fault=type(fault).__name__)
                delay = _RETRY
        self._post(Fetched(self._objects.pop(ref), delay, change))

    async def _read(self, ref: Ref) -> tuple[Change | None, float]:
        """Reads an object into the cache. Returns what that changed, and the seconds after which to plan with it."""
        cache, before = self._cache, self._cache.get(ref)
        try:
            raw = await self._client.get(address(ref))
        except NotFound:
            cache.note_absent(ref)
            return (cache.remove_deleted(before) if before is not None else None), 0.0
        obj = self._codec.object(ref.kind, raw)
        is_ahead = not cache.watch_passed(ref.kind, obj.resource_version)
        delay = _WATCH_LAG if is_ahead else 0.0
        if cache.get(ref) is not None or cache.exists_unread(ref) or is_ahead:
            return cache.put(obj), delay
        return None, delay  # the watch reported its deletion while we read it

    # queries

    def ask(self, queries: Iterable[Query], key: Key) -> None:
        """Answers the queries of a plan, except paths of a secret manager: those are the secret poller's."""
        for query in queries:
            if isinstance(query, SecretPath):
                continue
            if query not in self._queries:
                self._waiting.append(partial(self._ask, query))
            self._queries.setdefault(query, set()).add(key)

    async def _ask(self, query: Query) -> None:
        delay = 0.0
        try:
            self._store_answer(query, await self._answer(query))
        except (SamaraError, *MALFORMED) as fault:
            log.warning("read.failed", what=_described(query), fault=fault, again_in=f"{_RETRY:g}s")
            delay = _RETRY
        self._post(Fetched(self._queries.pop(query), delay))

    def _store_answer(self, query: Query, answer: object) -> None:
        """Stores an answer in the cache, and starts the timers with which it expires."""
        self._cache.answers.keep(query, answer)
        loop = asyncio.get_running_loop()
        expires_in = _REJECTED_FOR if isinstance(answer, Rejected) else self._unproven_for(query)
        if expires_in:
            loop.call_later(expires_in, self._expire, query, tuple(self._queries[query]))
        if _is_short_lived(query):
            loop.call_later(_VALID_FOR, self._cache.answers.forget, query)

    def _expire(self, query: Query, keys: tuple[Key, ...]) -> None:
        self._cache.answers.forget(query)
        self._post(Fetched(keys))

    def _unproven_for(self, query: Query) -> float:
        """Seconds for which a missing object proves nothing yet, because its kind was listed a moment ago."""
        if not isinstance(query, IsGone):
            return 0.0
        until = self._cache.stores[query.ref.kind].absence_unproven_until
        return max(0.0, until - asyncio.get_running_loop().time())

    async def _answer(self, query: Query) -> object:
        match query:
            case CrdExists():
                return await crd_established(self._client, query)
            case IsGone():
                obj = await read_object(self._client, self._codec, query.ref)
                if obj is not None:
                    self._cache.put_unlisted(obj)
                return obj is None and not self._unproven_for(query)
            case NamespaceIsActive():
                return await namespace_alive(self._client, query)
            case OwnerAnnotation():
                return await owner_annotation(self._client, query)
            case DryRunCreate():
                return await dry_run_create(self._client, self._codec, self._namespace, query)
            case _:
                raise TypeError(f"expected a question to the API server, found {type(query).__name__}")


def _is_short_lived(query: Query) -> bool:
    """True if the answer may soon change. Another object of the same name may have another owner."""
    return isinstance(query, CrdExists | IsGone | NamespaceIsActive) or (
        isinstance(query, OwnerAnnotation) and isinstance(query.owner, Ref)
    )


def _described(query: Query) -> str:
    match query:
        case SecretPath():
            return "a path of the secret manager"
        case CrdExists(kind=kind):
            return f"the CRD of {kind}"
        case IsGone(ref=ref):
            return str(ref)
        case NamespaceIsActive(name=name):
            return f"Namespace {name}"
        case OwnerAnnotation(owner=owner, namespace=namespace):
            return f"{owner.kind} {namespace}/{owner.name}"
        case DryRunCreate(kind=kind):
            return f"a dry run of {kind}"
