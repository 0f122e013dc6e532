"""What would be there after a write, as the server would store it. Pure: nothing is asked and nothing is sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, assert_never

from samara.core.desired import UNAVAILABLE, Overlay, Template
from samara.core.metadata import merged, metadata_after_apply, owners_after, released, split_foreign_metadata
from samara.core.metadata_keys import RELEASED
from samara.core.model import (
    ANNOTATIONS,
    FIELD_MANAGER,
    LABELS,
    NAMESPACE,
    Content,
    Field,
    Key,
    ManagedKey,
    Object,
    Ref,
)
from samara.core.ownership import Ownership
from samara.core.source_type import SourceType, Status
from samara.core.status import status_of
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
from samara.kube.cache import Cache, Change

NAMED = "kubernetes.io/metadata.name"
"""The label that the server gives to every Namespace."""

Words = Mapping[str, str]


def lay(cache: Cache, write: Write, now: str) -> Iterator[Key]:
    """Puts what a write leaves behind into a cache; returns the keys that have to be planned again for it."""
    after = left_by(write, cache.registry[write.key.source_type], now)
    if after is None or isinstance(write, Recreate):
        yield from _woken(cache.remove(write.ref), cache)
    if after is not None:
        yield from _woken(cache.put(after), cache)


def _woken(change: Change | None, cache: Cache) -> Iterator[Key]:
    if change is None:
        return
    yield from (key.all_namespaces for key in change.rivals)
    for obj in (change.old, change.new):
        if obj is not None:
            yield from (key.all_namespaces for key in cache.registry.keys_to_reconcile(obj, cache))


def left_by(write: Write, source_type: SourceType, now: str) -> Object | None:  # noqa: C901 - one branch per kind of write
    """The object after a write; None where it is gone."""
    match write:
        case Create():
            return _made(write.ref, write.copy.template, 1, now)
        case Recreate(live=live):
            template, theirs = split_foreign_metadata(write.copy.template, live, source_type.ownership)
            new = _made(write.ref, template, live.resource_version + 1, now)
            return _worded(new, {**new.labels, **theirs[LABELS]}, {**new.annotations, **theirs[ANNOTATIONS]})
        case Update(live=live):
            return _updated(write.copy.template, live, source_type.ownership)
        case Delete(live=live):
            stays = live.finalizers or live.ref.kind == NAMESPACE
            return _next(live, deleting=True) if stays else None
        case Release(live=live):
            return _said(live, *released(live, source_type.ownership, source_type.source.metadata_keys))
        case KeepAsOrphan(live=live):
            return _said(live, live.labels, {**live.annotations, RELEASED: "true"})
        case Apply(live=live):
            return _applied(write.overlay, live)
        case SetFinalizer(live=live):
            return _guarded(write, live)
        case WriteStatus(live=live):
            return _next(live, status=_status(write.status, live, source_type.status))
        case _:
            assert_never(write)


def _next(live: Object, **changes: Any) -> Object:
    return replace(live, resource_version=live.resource_version + 1, **changes)


def invented_uid(ref: Ref) -> str:
    """Of an object that is not there: no server gives such a one."""
    return f"what-if-{ref}"


def _made(ref: Ref, template: Template, version: int, now: str) -> Object:
    assert template.content is not UNAVAILABLE
    named = {NAMED: ref.name} if ref.kind == NAMESPACE else {}
    owners = () if template.owner is None else (template.owner,)
    bare = Object(ref, invented_uid(ref), version - 1, template.content, created=now, owner_references=owners)
    return replace(
        _said(bare, template.labels, template.annotations), labels={**named, **template.labels}, known_copy=True
    )


def _updated(template: Template, live: Object, ownership: Ownership) -> Object:
    content: Content = live.content if template.content is UNAVAILABLE else template.content
    labels, annotations = (merged(where, template, live, ownership) for where in (LABELS, ANNOTATIONS))
    return replace(
        _said(live, labels, annotations),
        content=content,
        owner_references=owners_after(template, live),
        known_copy=True,
    )


def _said(live: Object, labels: Words, annotations: Words) -> Object:
    """With other words on it: by the server's record those that we changed are ours."""
    new = _words(labels, annotations) - _words(live.labels, live.annotations)
    changed = _worded(live, labels, annotations)
    return replace(
        changed, managed_keys=changed.managed_keys | {ManagedKey(FIELD_MANAGER, where, key) for where, key, _ in new}
    )


def _worded(live: Object, labels: Words, annotations: Words) -> Object:
    """The same, changed by nobody of ours: whoever set a word owns it for as long as it stays."""
    same = {(where, key) for where, key, _ in _words(live.labels, live.annotations) & _words(labels, annotations)}
    ours, applied = (
        frozenset(each for each in owned if (each.where, each.key) in same)
        for owned in (live.managed_keys, live.applied_keys)
    )
    return _next(live, labels=labels, annotations=annotations, managed_keys=ours, applied_keys=applied)


def _words(labels: Words, annotations: Words) -> set[tuple[str, str, str]]:
    found = ((LABELS, labels), (ANNOTATIONS, annotations))
    return {(where, key, value) for where, words in found for key, value in words.items()}


def _applied(overlay: Overlay, live: Object) -> Object:
    before = {each for each in live.applied_keys if each.manager == overlay.manager}
    now = {ManagedKey(overlay.manager, where, key) for where, key, _ in _words(overlay.labels, overlay.annotations)}
    laid = _worded(live, *metadata_after_apply(overlay, live))
    return replace(
        laid, managed_keys=(laid.managed_keys - before) | now, applied_keys=(laid.applied_keys - before) | now
    )


def _guarded(write: SetFinalizer, live: Object) -> Object | None:
    """Whatever waited for its last finalizer goes with it."""
    others = tuple(each for each in live.finalizers if each != write.finalizer)
    finalizers = (*others, write.finalizer) if write.add else others
    return None if live.deleting and not finalizers else _next(live, finalizers=finalizers)


def _status(wanted: Mapping[str, object], live: Object, status: Status | None) -> Field:
    """Patched, what is not said stays; applied, only the conditions of others do."""
    before = status_of(live)
    told: dict[str, object] = {**before, **wanted}
    if status is not None and status.field_manager:
        others = [each for each in before.get("conditions") or () if each.get("type") not in status.conditions]
        ours = wanted.get("conditions")
        conditions = [*others, *(ours if isinstance(ours, list) else ())]
        told = {**wanted, **({"conditions": conditions} if conditions else {})}
    raw = json.dumps(told).encode()
    return Field("status", hashlib.blake2b(raw, digest_size=16).digest(), raw)
