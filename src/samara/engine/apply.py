"""Sends one write, takes the answer into the cache, and says how it went."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, assert_never

from samara.core.desired import UNAVAILABLE, Copy, Template
from samara.core.kinds import rules_for
from samara.core.metadata import merged, owners_after, released, split_foreign_metadata
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
from samara.engine.outcome import Outcome, Result, classify
from samara.engine.process import FaultPoints
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
from samara.kube.codec import MALFORMED, Codec, body, decode, encode, owner_references, version_of, with_kept
from samara.kube.errors import AlreadyExists, NotFound, SamaraError
from samara.kube.queries import DRY_RUN

VERBS: dict[type[Write], str] = {
    Create: "create",
    Update: "update",
    Recreate: "recreate",
    Delete: "delete",
    Release: "update",
    KeepAsOrphan: "update",
    Apply: "overlay",
    SetFinalizer: "guard",
    WriteStatus: "report",
}


def verb(write: Write) -> str:
    return VERBS[type(write)]


@dataclass(slots=True)
class Applier:
    """Performs writes; decides nothing."""

    client: Client
    codec: Codec
    cache: Cache
    registry: Registry
    fault_points: FaultPoints
    _stored_as_sent: set[Content] = field(default_factory=set)
    """Contents that admission left as they were, according to a dry run."""

    async def perform(self, write: Write, *, verify: bool) -> Result:
        """Sends one write.

        `verify`: an update of a copy that we wrote last is tried as a dry run first. Only admission can have made the
        difference, and after a restart we no longer know what admission makes of our writes. If the dry run yields what
        is stored already, nothing is written.
        """
        if not verify:
            self._stored_as_sent.clear()
        attempt = _Attempt(self, verify)
        result = await attempt.perform(write)
        return result._replace(changes=tuple(attempt.changes)) if attempt.changes else result


class _Attempt:
    """One write under way."""

    def __init__(self, applier: Applier, verify: bool) -> None:
        self.client, self.codec, self.cache = applier.client, applier.codec, applier.cache
        self.registry, self.fault_points = applier.registry, applier.fault_points
        self.changes: list[Change] = []
        """What the answers changed in the cache."""
        self._verify = verify
        self._stored_as_sent = applier._stored_as_sent

    async def perform(self, write: Write) -> Result:
        self.fault_points.reached("before-write")
        try:
            if isinstance(write, Update) and self._verify and await self._is_stored_so(write):
                return Result(Outcome.DONE, version=write.live.resource_version, already_right=True)
            version = await self._send(write)
        except SamaraError as fault:
            return classify(fault)
        except MALFORMED:  # nested deeper than we read, or not an object: the state at the address is unknown
            return Result(Outcome.FAILED, "the server's answer to the write cannot be read", known_state=False)
        finally:
            self.fault_points.reached("after-write")
        return Result(Outcome.DONE, version=version)

    def _note(self, change: Change | None) -> None:
        if change is not None:
            self.changes.append(change)

    async def _send(self, write: Write) -> int | None:  # noqa: C901 - one branch per kind of write
        match write:
            case Create():
                answer = await self._create(write.ref, write.copy.template)
                return self._stored(write.copy, self._answered(write.ref, answer))
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
                return await self._guard(write)
            case WriteStatus():
                return await self._report(write)
            case _:
                assert_never(write)

    def _answered(self, ref: Ref, raw: bytes) -> int:
        """Takes an answer into the cache, unless the watch has already told of it."""
        version = version_of(raw)
        if not self.cache.watch_passed(ref.kind, version):
            self._note(self.cache.put(self.codec.object(ref.kind, raw)))
        return version

    def _stored(self, copy: Copy, version: int) -> int:
        """Remembers what admission has made of a copy: it is right as it is stored, and not written for ever."""
        now = self.cache.get(copy.ref)
        if now is not None and now.resource_version == version and copy.template.content is not UNAVAILABLE:
            self.cache.answers.record_admitted(copy.ref.kind, copy.template.content, now.content)
        return version

    async def _update(self, write: Update) -> int:
        content, meta = self._corrected(write)
        return self._stored(write.copy, self._answered(write.ref, await self._replace(write.live, content, meta)))

    async def _is_stored_so(self, write: Update) -> bool:
        """True if a dry run yields what is stored already: only admission made the difference to what is desired."""
        have = write.live
        content, meta = self._corrected(write)
        if have.last_manager or not have.known_copy or content in self._stored_as_sent:
            return False
        tried = self.codec.object(write.ref.kind, await self._replace(have, content, meta, DRY_RUN))
        if tried.content == content:
            self._stored_as_sent.add(content)
        self.cache.answers.record_admitted(write.ref.kind, content, tried.content)
        words = tried.labels.items() == have.labels.items() and tried.annotations.items() == have.annotations.items()
        return (
            words and tried.content == have.content and owners_after(write.copy.template, have) == have.owner_references
        )

    async def _create(self, ref: Ref, template: Template, params: dict[str, str] = OUR_WRITES) -> bytes:
        assert template.content is not UNAVAILABLE
        meta: dict[str, Any] = {LABELS: template.labels, ANNOTATIONS: template.annotations}
        if template.owner is not None:
            meta["ownerReferences"] = owner_references((template.owner,))
        sent = body(ref, template.content, meta)
        return await self.client.request("POST", collection(ref.kind, ref.namespace), sent, params=params)

    def _corrected(self, write: Update) -> tuple[Content, dict[str, Any]]:
        ownership = self.registry[write.key.source_type].ownership
        template, live = write.copy.template, write.live
        assert template.content is not UNAVAILABLE
        metadata = {where: merged(where, template, live, ownership) for where in (LABELS, ANNOTATIONS)}
        owners = owners_after(template, live)
        return template.content, {
            **metadata,
            **_owned_by(live),
            **({"ownerReferences": owner_references(owners)} if owners else {}),
        }

    async def _replace(
        self, have: Object, content: Content, meta: dict[str, Any], more: Mapping[str, str] | None = None
    ) -> bytes:
        sent = body(have.ref, content, {**meta, **_version(have)})
        if rules_for(have.ref.kind).restore_own_fields:  # of which the cache knows nothing
            sent = with_kept(have.ref.kind, sent, await self.client.get(address(have.ref)))
        return await self.client.request("PUT", address(have.ref), sent, params={**OUR_WRITES, **(more or {})})

    async def _release(self, write: Release) -> int:
        source_type = self.registry[write.key.source_type]
        metadata = released(write.live, source_type.ownership, source_type.source.metadata_keys)
        return await self._relabel(write.live, *metadata)

    async def _relabel(self, have: Object, labels: Mapping[str, str], annotations: Mapping[str, str]) -> int:
        """Changes labels and annotations only: the cache does not hold the bytes of what is no source."""
        words = {LABELS: _patch_of(have.labels, labels), ANNOTATIONS: _patch_of(have.annotations, annotations)}
        return await self._patch(have.ref, {"metadata": {**words, **_version(have)}})

    async def _delete(self, have: Object) -> int | None:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": _version(have)}
        try:
            raw = await self.client.request("DELETE", address(have.ref), encode(options))
        except NotFound:
            self._gone(have)
            return None
        if decode(raw).get("kind") != "Status":  # a finalizer holds it: it is there, and on its way out
            return self._answered(have.ref, raw)
        self._gone(have)
        return None

    def _gone(self, have: Object) -> None:
        """Noted even if the watch was faster: what was copied from it goes because we intended that."""
        self.changes.append(self.cache.remove_deleted(have) or Change(have.ref, have, None))

    async def _recreate(self, write: Recreate) -> int:
        """The old copy goes only when the server would take the new one; what others wrote on it is handed on."""
        ownership = self.registry[write.key.source_type].ownership
        template, foreign = split_foreign_metadata(write.copy.template, write.live, ownership)
        with suppress(AlreadyExists):
            await self._create(write.ref, template, {**OUR_WRITES, **DRY_RUN})
        await self._delete(write.live)
        self.fault_points.reached("within-recreate")
        version = self._stored(write.copy, self._answered(write.ref, raw := await self._create(write.ref, template)))
        if any(foreign.values()):
            now = _version(self.codec.object(write.ref.kind, raw))
            with suppress(SamaraError):  # the copy itself is right
                return await self._patch(write.ref, {"metadata": {**foreign, **now}}, params=PRESERVED_WRITES)
        return version

    async def _apply(self, write: Apply) -> int:
        overlay = write.overlay
        meta = {LABELS: overlay.labels, ANNOTATIONS: overlay.annotations, **_version(write.live)}
        return await self._applied(write.ref, body(write.ref, Content(), meta), overlay.manager)

    async def _applied(self, ref: Ref, sent: bytes, manager: str, subresource: str = "") -> int:
        params = {**OUR_WRITES, "fieldManager": manager, "force": "true"}
        raw = await self.client.request(
            "PATCH", address(ref, subresource), sent, params=params, content_type=APPLY_PATCH
        )
        return self._answered(ref, raw)

    async def _guard(self, write: SetFinalizer) -> int | None:
        others = [each for each in write.live.finalizers if each != write.finalizer]
        finalizers = [*others, write.finalizer] if write.add else others
        patch = {"metadata": {"finalizers": finalizers, **_version(write.live)}}
        if finalizers or not write.live.deleting:
            return await self._patch(write.ref, patch)
        await self._patched(write.ref, patch)
        self._note(self.cache.remove_deleted(write.live))  # its last finalizer went with this patch
        return None

    async def _report(self, write: WriteStatus) -> int:
        status = self.registry[write.key.source_type].status
        manager = status.field_manager if status is not None else ""
        if not manager:
            return await self._patch(write.ref, {"metadata": _version(write.live), "status": write.status}, "status")
        sent = body(write.ref, Content(), _version(write.live), status=write.status)
        return await self._applied(write.ref, sent, manager, "status")

    async def _patch(self, ref: Ref, patch: dict[str, Any], subresource: str = "", params: Params = OUR_WRITES) -> int:
        return self._answered(ref, await self._patched(ref, patch, subresource, params))

    async def _patched(
        self, ref: Ref, patch: dict[str, Any], subresource: str = "", params: Params = OUR_WRITES
    ) -> bytes:
        where, sent = address(ref, subresource), encode(patch)
        return await self.client.request("PATCH", where, sent, params=params, content_type=MERGE_PATCH)


def _version(have: Object) -> dict[str, str]:
    return {"uid": have.uid, "resourceVersion": str(have.resource_version)}


def _patch_of(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """A merge patch from one mapping to another: what goes is null."""
    gone: dict[str, str | None] = dict.fromkeys(before.keys() - after.keys())
    return gone | {key: value for key, value in after.items() if before.get(key) != value}


def _owned_by(have: Object) -> dict[str, Any]:
    """What others keep on an object and a replacement must not take away."""
    kept: dict[str, Any] = {}
    if have.finalizers:
        kept["finalizers"] = list(have.finalizers)
    if have.owner_references:
        kept["ownerReferences"] = owner_references(have.owner_references)
    return kept
