"""Computes the object that the API server would store for a write. Nothing is read and nothing is sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, assert_never

from samara.core.desired import UNAVAILABLE, Overlay, Template
from samara.core.metadata import (
    merged,
    metadata_after_apply,
    owners_after,
    released,
    split_foreign_metadata,
    stamped,
)
from samara.core.metadata_keys import RELEASED
from samara.core.model import ANNOTATIONS, FIELD_MANAGER, LABELS, NAMESPACE, Field, ManagedKey, Object, Ref
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

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label with its name that the API server gives to every Namespace."""

Keys = Mapping[str, str]


def simulate_write(write: Write, source_type: SourceType, now: str) -> Object | None:  # noqa: C901 - one branch per kind of write
    """The object after a write. None if it is gone.

    This assumes that the write succeeds and that admission changes nothing. `now` becomes the creation time of a new
    object, and the time in stamps. A new object has an invented uid, and its generation is 0.
    """
    match write:
        case Create():
            return _created(write.ref, stamped(write.copy.template, now), 1, now)
        case Recreate(live=live):
            return _recreated(write, live, source_type.ownership, now)
        case Update(live=live):
            return _updated(stamped(write.copy.template, now), live, source_type.ownership)
        case Delete(live=live):  # a Namespace is not gone before it is empty
            stays = live.finalizers or live.ref.kind == NAMESPACE
            return _next_version(live, deleting=True) if stays else None
        case Release(live=live):
            return _with_our_metadata(live, *released(live, source_type.ownership, source_type.source.metadata_keys))
        case KeepAsOrphan(live=live):
            return _with_our_metadata(live, live.labels, {**live.annotations, RELEASED: "true"})
        case Apply(live=live):
            return _applied(write.overlay, live)
        case SetFinalizer(live=live):
            return _with_finalizer(write, live)
        case WriteStatus(live=live):
            return _next_version(live, status=_status(write.status, live, source_type.status))
        case _:
            assert_never(write)


def invented_uid(ref: Ref) -> str:
    """The uid of an object that exists only in a simulation. No API server gives such a uid."""
    return f"what-if-{ref}"


def _next_version(live: Object, **changes: Any) -> Object:
    return replace(live, resource_version=live.resource_version + 1, **changes)


def _created(ref: Ref, template: Template, version: int, now: str) -> Object:
    assert template.content is not UNAVAILABLE
    is_namespace = ref.kind == NAMESPACE
    return Object(
        ref,
        invented_uid(ref),
        version,
        template.content,
        {NAME_LABEL: ref.name, **template.labels} if is_namespace else template.labels,
        template.annotations,
        created=now,
        owner_references=() if template.owner is None else (template.owner,),
        managed_keys=_ours(tuple(template.labels), tuple(template.annotations)),
        written=True,
        known_copy=True,
    )


@lru_cache(maxsize=64)
def _ours(labels: tuple[str, ...], annotations: tuple[str, ...]) -> frozenset[ManagedKey]:
    """What managedFields say of an object that we created. Cached, since all copies of a source have the same keys."""
    fields = ((LABELS, labels), (ANNOTATIONS, annotations))
    return frozenset(ManagedKey(FIELD_MANAGER, where, key) for where, keys in fields for key in keys)


def _recreated(write: Recreate, live: Object, ownership: Ownership, now: str) -> Object:
    template, foreign = split_foreign_metadata(stamped(write.copy.template, now), live, ownership)
    new = _created(write.ref, template, live.resource_version + 1, now)
    return _with_metadata(new, {**new.labels, **foreign[LABELS]}, {**new.annotations, **foreign[ANNOTATIONS]})


def _updated(template: Template, live: Object, ownership: Ownership) -> Object:
    labels, annotations = (merged(where, template, live, ownership) for where in (LABELS, ANNOTATIONS))
    return replace(
        _with_our_metadata(live, labels, annotations),
        content=live.content if template.content is UNAVAILABLE else template.content,
        owner_references=owners_after(template, live),
        written=True,
        known_copy=True,
    )


def _with_our_metadata(live: Object, labels: Keys, annotations: Keys) -> Object:
    """The object after we set its metadata: managedFields attribute the keys that changed to us."""
    new = _items(labels, annotations) - _items(live.labels, live.annotations)
    changed = _with_metadata(live, labels, annotations)
    ours = {ManagedKey(FIELD_MANAGER, where, key) for where, key, _ in new}
    return replace(changed, managed_keys=changed.managed_keys | ours)


def _with_metadata(live: Object, labels: Keys, annotations: Keys) -> Object:
    """The object with other metadata. A key keeps its manager for as long as its value stays."""
    unchanged = {(where, key) for where, key, _ in _items(live.labels, live.annotations) & _items(labels, annotations)}
    managed, applied = (
        frozenset(owned for owned in keys if (owned.where, owned.key) in unchanged)
        for keys in (live.managed_keys, live.applied_keys)
    )
    return _next_version(live, labels=labels, annotations=annotations, managed_keys=managed, applied_keys=applied)


def _items(labels: Keys, annotations: Keys) -> set[tuple[str, str, str]]:
    metadata = ((LABELS, labels), (ANNOTATIONS, annotations))
    return {(where, key, value) for where, keys in metadata for key, value in keys.items()}


def _applied(overlay: Overlay, live: Object) -> Object:
    """After a forced server-side apply, the manager owns exactly the keys of the overlay."""
    before = {owned for owned in live.applied_keys if owned.manager == overlay.manager}
    owned = {ManagedKey(overlay.manager, where, key) for where, key, _ in _items(overlay.labels, overlay.annotations)}
    after = _with_metadata(live, *metadata_after_apply(overlay, live))
    return replace(
        after, managed_keys=(after.managed_keys - before) | owned, applied_keys=(after.applied_keys - before) | owned
    )


def _with_finalizer(write: SetFinalizer, live: Object) -> Object | None:
    """A terminating object is gone when its last finalizer is removed."""
    others = tuple(finalizer for finalizer in live.finalizers if finalizer != write.finalizer)
    finalizers = (*others, write.finalizer) if write.add else others
    return None if live.deleting and not finalizers else _next_version(live, finalizers=finalizers)


def _status(wanted: Mapping[str, object], live: Object, status: Status | None) -> Field:
    """A patch keeps the fields that it leaves out. An apply keeps only the conditions that are not Samara's."""
    before = status_of(live)
    after: dict[str, object] = {**before, **wanted}
    if status is not None and status.field_manager:
        ours = wanted.get("conditions")
        others = [other for other in before.get("conditions") or () if other.get("type") not in status.conditions]
        conditions = [*others, *(ours if isinstance(ours, list) else ())]
        after = {**wanted, **({"conditions": conditions} if conditions else {})}
    raw = json.dumps(after, sort_keys=True).encode()
    return Field("status", hashlib.blake2b(raw, digest_size=16).digest(), raw)
