"""Sends planned writes: when each is sent, which requests it takes, what its answer changes, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, assert_never

from samara import log
from samara.core.desired import UNAVAILABLE, Copy, Template
from samara.core.kinds import rules_for
from samara.core.metadata import merged, owners_after, released, split_foreign_metadata, stamped, with_stamps_of
from samara.core.metadata_keys import RELEASED
from samara.core.model import ANNOTATIONS, LABELS, Content, Object, Ref
from samara.core.registry import Registry
from samara.core.writes import (
    Apply,
    Create,
    Delete,
    KeepAsOrphan,
    Recreate,
    Release,
    SetFinalizer,
    Update,
    Write,
    WriteStatus,
)
from samara.engine.limiter import ConcurrencyLimiter
from samara.engine.outbox import Outbox
from samara.engine.process import FaultPoints, utc_timestamp
from samara.kube.cache import Cache, Change
from samara.kube.client import (
    APPLY_PATCH,
    MERGE_PATCH,
    OUR_WRITES,
    PRESERVED_WRITES,
    Client,
    Params,
    address,
    collection,
)
from samara.kube.codec import MALFORMED, Codec, body, decode, encode, owner_references, restore_own_fields, version_of
from samara.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    SamaraError,
    ServerFault,
    TooMany,
    Unreachable,
)
from samara.kube.queries import DRY_RUN

OUR_DRY_RUNS: Params = {**OUR_WRITES, **DRY_RUN}


class Ending(Enum):
    """How a write ended, in one word."""

    DONE = "done"
    STALE = "stale"
    """The object was not as planned. It is read, and its source is planned again."""
    REFUSED = "refused"
    """The API server does not accept the write until a person changes something. Retried seldom."""
    FAILED = "failed"
    """The API server failed, was overloaded, or its answer was lost. Retried soon."""


class Result(NamedTuple):
    """How a write ended, and what its answer says."""

    ending: Ending
    message: str = ""
    retry_after: float | None = None
    """Seconds that the API server asks to wait; None if it names none."""
    overloaded: bool = False
    """True if the API server refused the write for load, or could not be reached."""
    known_state: bool = True
    """False if it is not known what the API server stored. The object is read before its source is planned again."""
    server_fault: bool = False
    """True if the API server reported a fault of its own, such as a webhook that fails."""
    storage_full: bool = False
    """True if the API server's storage is full. That concerns all writes, not this one."""
    version: int | None = None
    """The resource version that the write made; None for a delete."""
    already_right: bool = False
    """True if a dry run showed that nothing has to be written."""
    changes: tuple[Change, ...] = ()
    """What the answers changed in the cache, in order: a recreate has two."""


def classify(error: SamaraError) -> Result:
    """The result of a write that ended with an error."""
    match error:
        case ApiError(denied=True):  # by admission, with any status
            return Result(Ending.REFUSED, str(error))
        case Conflict() | AlreadyExists() | NotFound() | Forbidden(terminating=True):
            return Result(Ending.STALE, str(error), known_state=False)
        case Forbidden() | Invalid() | ApiError(status=400 | 405 | 406 | 413 | 415):
            return Result(Ending.REFUSED, str(error))
        case TooMany(retry_after=seconds):
            return Result(Ending.FAILED, str(error), seconds, overloaded=True)
        case ServerFault(full=True):  # the server refused the write as a whole, so nothing has changed
            return Result(Ending.FAILED, str(error), overloaded=True, storage_full=True)
        case ServerFault(status=status, retry_after=seconds):  # a 500 may come from the webhook of one namespace
            is_overload = status in (503, 504)
            return Result(
                Ending.FAILED, str(error), seconds, overloaded=is_overload, known_state=False, server_fault=True
            )
        case _:
            is_overload = isinstance(error, Unreachable)
            return Result(Ending.FAILED, str(error), overloaded=is_overload, known_state=False)


class WriteDone(NamedTuple):
    """A write ended. Its address stays locked until the controller has handled this."""

    write: Write
    result: Result
    seconds: float


class WriteDropped(NamedTuple):
    """A write was not sent, because its object changed after planning. Its address stays locked as well."""

    write: Write


STORAGE_FULL = (
    "the API server's store is full (etcd: database space exceeded): nothing can be written until it is compacted and "
    "defragmented, or has a larger quota, and its alarm is disarmed"
)
FULL_FOR = 60.0
"""Seconds for which the storage counts as full after a failed write. No later write may show that it has room."""


class Writer:
    """Decides when a write is sent, but not whether. The controller calls `send_waiting` after each turn.

    An address stays locked until the result of its write has been handled.
    """

    def __init__(  # noqa: PLR0913 - the components that carry out a write
        self,
        outbox: Outbox,
        limiter: ConcurrencyLimiter,
        cache: Cache,
        applier: Applier,
        may_write: Callable[[], bool],
        post: Callable[[WriteDone | WriteDropped], None],
        clock: Callable[[], float],
    ) -> None:
        self.pause = 0.0
        """Seconds that the limiter made the last write wait.

        Cached: asking again could return 0, and the controller would sleep while the limiter is open.
        """
        self._outbox = outbox
        self._limiter = limiter
        self._cache = cache
        self._applier = applier
        self._may_write = may_write
        self._post = post
        self._clock = clock
        self._running = 0
        """Requests under way. Fewer than locked addresses, because results wait in the inbox."""
        self._verify = True
        self._stopped = False
        self._full_until = float("-inf")

    def stop(self) -> None:
        """Sends nothing more; requests under way end by themselves."""
        self._stopped = True

    def stop_verifying(self) -> None:
        """From now on updates are sent without the dry run that a restart needs (see `Applier.perform`)."""
        self._verify = False
        self._applier.forget_verified()

    @property
    def obstacle(self) -> str | None:
        """Why no write can succeed now; None if writes can."""
        return STORAGE_FULL if self._clock() < self._full_until else None

    def send_waiting(self, group: asyncio.TaskGroup) -> None:
        """Starts as many requests as the limiter and the outbox allow, as tasks of this group."""
        while (write := self._take_sendable()) is not None:
            group.create_task(self._send_all(write, group))

    async def _send_all(self, write: Write | None, group: asyncio.TaskGroup) -> None:
        """Sends this write and then others, one after another: a task for each would cost more than its decoding."""
        while write is not None:
            await self._send(write)
            write = self._take_sendable()
            self.send_waiting(group)  # the limit may have grown

    async def _send(self, write: Write) -> None:
        started = self._clock()
        try:
            result = await self._applier.perform(write, verify=self._verify)
        finally:
            self._running -= 1
        seconds = self._clock() - started
        self.adapt(write, result, seconds)
        self._post(WriteDone(write, result, seconds))

    def adapt(self, write: Write, result: Result, seconds: float) -> None:
        """Adjusts the concurrency limit to a result, and notes whether the store is full."""
        if result.overloaded:
            self._limiter.note_overload(write.ref.namespace, result.retry_after)
        else:
            self._limiter.note_answer(seconds)
        was_full = self.obstacle is not None
        if result.storage_full:
            self._full_until = self._clock() + FULL_FOR
            if not was_full:
                log.warning("writes.paused", why=STORAGE_FULL)
        elif was_full and _took_space(write, result):
            self._full_until = float("-inf")
            log.info("writes.resumed")

    def _take_sendable(self) -> Write | None:
        """Takes the next write that may be sent, which then counts as under way; None if there is none."""
        self.pause = 0.0
        while self._running < self._limiter.limit and self._may_write() and not self._stopped:
            self.pause = self._limiter.wait()
            write = None if self.pause else self._outbox.take()
            if write is None:
                return None
            if self._is_current(write):
                self._running += 1
                self._limiter.note_sent(self._running)
                return write
            self._post(WriteDropped(write))
        return None

    def _is_current(self, write: Write) -> bool:
        """False if the object changed after the write was planned."""
        planned_for = None if isinstance(write, Create) else write.live
        return self._cache.get(write.ref) is planned_for


def _took_space(write: Write, result: Result) -> bool:
    """True if a result proves that the storage has room. A delete needs none, and a copy that was right stored none."""
    return result.ending is Ending.DONE and not result.already_right and not isinstance(write, Delete)


@dataclass(slots=True)
class Applier:
    """Carries out one write at a time for the writer. It updates the cache, but decides nothing and retries nothing."""

    client: Client
    codec: Codec
    cache: Cache
    registry: Registry
    fault_points: FaultPoints
    now: Callable[[], str] = utc_timestamp
    """The time of a write, which stamps record."""
    _stored_as_sent: set[Content] = field(default_factory=set)
    """Contents that admission does not change, as a dry run showed."""

    async def perform(self, write: Write, *, verify: bool) -> Result:
        """Sends one write.

        `verify`: an update of a copy that we wrote last is sent as a dry run first. Only admission can have made the
        difference, and after a restart the cache does not know how admission changes our writes. If the dry run yields
        the stored object, nothing is written.
        """
        attempt = _Attempt(self, self._stored_as_sent, verify)
        result = await attempt.perform(write)
        return result._replace(changes=tuple(attempt.changes)) if attempt.changes else result

    def forget_verified(self) -> None:
        """Frees the memory that only verified writes need."""
        self._stored_as_sent.clear()


class _Attempt:
    """One write under way. A recreate and a verified update send several requests."""

    def __init__(self, applier: Applier, stored_as_sent: set[Content], verify: bool) -> None:
        self.client, self.codec, self.cache = applier.client, applier.codec, applier.cache
        self.registry, self.fault_points, self.now = applier.registry, applier.fault_points, applier.now
        self.changes: list[Change] = []
        """What the answers changed in the cache."""
        self._verify = verify
        self._stored_as_sent = stored_as_sent

    async def perform(self, write: Write) -> Result:
        self.fault_points.reached("before-write")
        try:
            if isinstance(write, Update) and self._verify and await self._is_already_right(write):
                return Result(Ending.DONE, version=write.live.resource_version, already_right=True)
            version = await self._send(write)
        except SamaraError as error:
            return classify(error)
        except MALFORMED:  # nested too deeply, or not an object: the write may have been carried out
            return Result(Ending.FAILED, "the server's answer to the write cannot be read", known_state=False)
        finally:
            self.fault_points.reached("after-write")
        return Result(Ending.DONE, version=version)

    def _note(self, change: Change | None) -> None:
        if change is not None:
            self.changes.append(change)

    async def _send(self, write: Write) -> int | None:  # noqa: C901 - one branch per kind of write
        match write:
            case Create():
                answer = await self._create(write.ref, stamped(write.copy.template, self.now()))
                return self._record_admitted(write.copy, self._store_answer(write.ref, answer))
            case Update():
                return await self._update(write)
            case Recreate():
                return await self._recreate(write)
            case Delete():
                return await self._delete(write.live)
            case Release():
                return await self._release(write)
            case KeepAsOrphan():
                return await self._relabel(write.live, write.live.labels, {**write.live.annotations, RELEASED: "true"})
            case Apply():
                return await self._apply(write)
            case SetFinalizer():
                return await self._set_finalizer(write)
            case WriteStatus():
                return await self._write_status(write)
            case _:
                assert_never(write)

    def _store_answer(self, ref: Ref, raw: bytes) -> int:
        """Stores an answer in the cache, unless the watch has passed its version. Returns that version."""
        version = version_of(raw)
        if not self.cache.watch_passed(ref.kind, version):
            self._note(self.cache.put(self.codec.object(ref.kind, raw)))
        return version

    def _record_admitted(self, copy: Copy, version: int) -> int:
        """Records how admission changed a copy. Otherwise the copy would look wrong and be written forever.

        Returns the version.
        """
        stored = self.cache.get(copy.ref)
        if stored is not None and stored.resource_version == version and copy.template.content is not UNAVAILABLE:
            self.cache.answers.record_admitted(copy.ref.kind, copy.template.content, stored.content)
        return version

    async def _update(self, write: Update) -> int:
        answer = await self._replace(write.live, *self._replacement(write, stamped(write.copy.template, self.now())))
        return self._record_admitted(write.copy, self._store_answer(write.ref, answer))

    async def _is_already_right(self, write: Update) -> bool:
        """True if a dry run yields the stored object: only admission made it differ from the desired one."""
        live = write.live
        template = stamped(with_stamps_of(write.copy.template, live), self.now())  # a stamp is no reason to write
        content, meta = self._replacement(write, template)
        if live.last_manager or not live.known_copy or content in self._stored_as_sent:
            return False
        dry_run = self.codec.object(write.ref.kind, await self._replace(live, content, meta, OUR_DRY_RUNS))
        if dry_run.content == content:
            self._stored_as_sent.add(content)
        self.cache.answers.record_admitted(write.ref.kind, content, dry_run.content)
        return (
            dry_run.labels.items() == live.labels.items()
            and dry_run.annotations.items() == live.annotations.items()
            and dry_run.content == live.content
            and owners_after(write.copy.template, live) == live.owner_references
        )

    async def _create(self, ref: Ref, template: Template, params: Params = OUR_WRITES) -> bytes:
        assert template.content is not UNAVAILABLE
        meta: dict[str, Any] = {LABELS: template.labels, ANNOTATIONS: template.annotations}
        if template.owner is not None:
            meta["ownerReferences"] = owner_references((template.owner,))
        payload = body(ref, template.content, meta)
        return await self.client.request("POST", collection(ref.kind, ref.namespace), payload, params=params)

    def _replacement(self, write: Update, template: Template) -> tuple[Content, dict[str, Any]]:
        """The content and the metadata that an update sends."""
        ownership, live = self.registry[write.key.source_type].ownership, write.live
        assert template.content is not UNAVAILABLE
        metadata = {name: merged(name, template, live, ownership) for name in (LABELS, ANNOTATIONS)}
        owners = owners_after(template, live)
        return template.content, {
            **metadata,
            **_kept_metadata(live),
            **({"ownerReferences": owner_references(owners)} if owners else {}),
        }

    async def _replace(
        self, live: Object, content: Content, meta: dict[str, Any], params: Params = OUR_WRITES
    ) -> bytes:
        payload = body(live.ref, content, {**meta, **_preconditions(live)})
        if rules_for(live.ref.kind).restore_own_fields:  # the cache does not hold these fields
            payload = restore_own_fields(live.ref.kind, payload, await self.client.get(address(live.ref)))
        return await self.client.request("PUT", address(live.ref), payload, params=params)

    async def _release(self, write: Release) -> int:
        source_type = self.registry[write.key.source_type]
        metadata = released(write.live, source_type.ownership, source_type.source.metadata_keys)
        return await self._relabel(write.live, *metadata)

    async def _relabel(self, live: Object, labels: Mapping[str, str], annotations: Mapping[str, str]) -> int:
        """Changes labels and annotations only. Of a copy, the cache holds no content that a PUT could send."""
        patch = {LABELS: _merge_patch(live.labels, labels), ANNOTATIONS: _merge_patch(live.annotations, annotations)}
        return await self._patch(live.ref, {"metadata": {**patch, **_preconditions(live)}})

    async def _delete(self, live: Object) -> int | None:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": _preconditions(live)}
        try:
            raw = await self.client.request("DELETE", address(live.ref), encode(options))
        except NotFound:
            self._remove_deleted(live)
            return None
        if decode(raw).get("kind") != "Status":  # the object: a finalizer delays its deletion
            return self._store_answer(live.ref, raw)
        self._remove_deleted(live)
        return None

    def _remove_deleted(self, live: Object) -> None:
        """Adds the change even if the watch reported it first: the controller must learn that we deleted this object.

        Otherwise the copies of an object that is itself a source would wait for the grace period of a vanished source.
        """
        self.changes.append(self.cache.remove_deleted(live) or Change(live.ref, live, None))

    async def _recreate(self, write: Recreate) -> int:
        """Deletes the old copy only if a dry run accepts the new one. Labels and annotations of others are kept."""
        ownership = self.registry[write.key.source_type].ownership
        template = stamped(write.copy.template, self.now())
        template, foreign = split_foreign_metadata(template, write.live, ownership)
        with suppress(AlreadyExists):
            await self._create(write.ref, template, OUR_DRY_RUNS)
        await self._delete(write.live)
        self.fault_points.reached("within-recreate")
        answer = await self._create(write.ref, template)
        version = self._record_admitted(write.copy, self._store_answer(write.ref, answer))
        if any(foreign.values()):
            created = self.codec.object(write.ref.kind, answer)
            patch = {"metadata": {**foreign, **_preconditions(created)}}
            with suppress(SamaraError):  # the copy is right without them
                return await self._patch(write.ref, patch, params=PRESERVED_WRITES)
        return version

    async def _apply(self, write: Apply) -> int:
        overlay = write.overlay
        meta = {LABELS: overlay.labels, ANNOTATIONS: overlay.annotations, **_preconditions(write.live)}
        return await self._server_side_apply(write.ref, body(write.ref, Content(), meta), overlay.manager)

    async def _server_side_apply(self, ref: Ref, payload: bytes, manager: str, subresource: str = "") -> int:
        params = {**OUR_WRITES, "fieldManager": manager, "force": "true"}
        path = address(ref, subresource)
        raw = await self.client.request("PATCH", path, payload, params=params, content_type=APPLY_PATCH)
        return self._store_answer(ref, raw)

    async def _set_finalizer(self, write: SetFinalizer) -> int | None:
        others = [finalizer for finalizer in write.live.finalizers if finalizer != write.finalizer]
        finalizers = [*others, write.finalizer] if write.add else others
        patch = {"metadata": {"finalizers": finalizers, **_preconditions(write.live)}}
        if finalizers or not write.live.deleting:
            return await self._patch(write.ref, patch)
        await self._send_patch(write.ref, patch)
        self._note(self.cache.remove_deleted(write.live))  # the patch removed its last finalizer
        return None

    async def _write_status(self, write: WriteStatus) -> int:
        status = self.registry[write.key.source_type].status
        manager = status.field_manager if status is not None else ""
        if not manager:
            return await self._patch(
                write.ref, {"metadata": _preconditions(write.live), "status": write.status}, "status"
            )
        payload = body(write.ref, Content(), _preconditions(write.live), status=write.status)
        return await self._server_side_apply(write.ref, payload, manager, "status")

    async def _patch(self, ref: Ref, patch: dict[str, Any], subresource: str = "", params: Params = OUR_WRITES) -> int:
        return self._store_answer(ref, await self._send_patch(ref, patch, subresource, params))

    async def _send_patch(
        self, ref: Ref, patch: dict[str, Any], subresource: str = "", params: Params = OUR_WRITES
    ) -> bytes:
        path, payload = address(ref, subresource), encode(patch)
        return await self.client.request("PATCH", path, payload, params=params, content_type=MERGE_PATCH)


def _preconditions(live: Object) -> dict[str, str]:
    """Metadata with which the API server refuses a write if the object was changed or created again meanwhile."""
    return {"uid": live.uid, "resourceVersion": str(live.resource_version)}


def _merge_patch(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """A merge patch from one mapping to another: removed keys are null."""
    removed: dict[str, str | None] = dict.fromkeys(before.keys() - after.keys())
    return removed | {key: value for key, value in after.items() if before.get(key) != value}


def _kept_metadata(live: Object) -> dict[str, Any]:
    """Finalizers and owner references. A PUT without them would remove them."""
    kept: dict[str, Any] = {}
    if live.finalizers:
        kept["finalizers"] = list(live.finalizers)
    if live.owner_references:
        kept["ownerReferences"] = owner_references(live.owner_references)
    return kept
