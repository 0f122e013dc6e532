"""What would be there after a write, as the server would store it. Pure: nothing is asked and nothing is sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, assert_never

from samara.core.compare import merged, overlaid, owners_with, parted, released
from samara.core.model import ANNOTATIONS, LABELS, MANAGER, NAMESPACE, Content, Field, Key, Object, Owned, Ref
from samara.core.status import status_of
from samara.core.travel import RELEASED
from samara.core.want import KEEP, Copy, Dialect, Overlay
from samara.core.write import Apply, Create, Delete, Guard, Recreate, Release, Report, Spare, Update, Write
from samara.kube.cache import Cache, Change

NAMED = "kubernetes.io/metadata.name"
"""The label that the server gives to every Namespace."""

Words = Mapping[str, str]


def lay(cache: Cache, write: Write, now: str) -> Iterator[Key]:
    """Puts what a write leaves behind into a cache; returns the keys that have to be planned again for it."""
    after = left_by(write, cache.table[write.key.dialect], now)
    if after is None or isinstance(write, Recreate):
        yield from _woken(cache.remove(write.ref), cache)
    if after is not None:
        yield from _woken(cache.put(after), cache)


def _woken(change: Change | None, cache: Cache) -> Iterator[Key]:
    if change is None:
        return
    yield from (key.whole for key in change.rivals)
    for obj in (change.old, change.new):
        if obj is not None:
            yield from (key.whole for key in cache.table.keys(obj, cache))


def left_by(write: Write, dialect: Dialect, now: str) -> Object | None:  # noqa: C901 - one branch per kind of write
    """The object after a write; None where it is gone."""
    match write:
        case Create():
            return _made(write.copy, 1, now)
        case Recreate(have=have):
            copy, theirs = parted(write.copy, have, dialect)
            new = _made(copy, have.version + 1, now)
            return _worded(new, {**new.labels, **theirs[LABELS]}, {**new.annotations, **theirs[ANNOTATIONS]})
        case Update(have=have):
            return _updated(write.copy, have, dialect)
        case Delete(have=have):
            stays = have.finalizers or have.ref.kind == NAMESPACE
            return _next(have, deleting=True) if stays else None
        case Release(have=have):
            return _said(have, *released(have, dialect))
        case Spare(have=have):
            return _said(have, have.labels, {**have.annotations, RELEASED: "true"})
        case Apply(have=have):
            return _applied(write.overlay, have)
        case Guard(have=have):
            return _guarded(write, have)
        case Report(have=have):
            return _next(have, status=_status(write.status, have, dialect))
        case _:
            assert_never(write)


def _next(have: Object, **changes: Any) -> Object:
    return replace(have, version=have.version + 1, **changes)


def invented_uid(ref: Ref) -> str:
    """Of an object that is not there: no server gives such a one."""
    return f"what-if-{ref}"


def _made(copy: Copy, version: int, now: str) -> Object:
    assert copy.content is not KEEP
    named = {NAMED: copy.ref.name} if copy.ref.kind == NAMESPACE else {}
    owners = () if copy.owner is None else (copy.owner,)
    bare = Object(copy.ref, invented_uid(copy.ref), version - 1, copy.content, created=now, owners=owners)
    return replace(_said(bare, copy.labels, copy.annotations), labels={**named, **copy.labels}, made=True)


def _updated(copy: Copy, have: Object, dialect: Dialect) -> Object:
    content: Content = have.content if copy.content is KEEP else copy.content
    labels, annotations = (merged(where, copy, have, dialect) for where in (LABELS, ANNOTATIONS))
    return replace(_said(have, labels, annotations), content=content, owners=owners_with(copy, have), made=True)


def _said(have: Object, labels: Words, annotations: Words) -> Object:
    """With other words on it: by the server's record those that we changed are ours."""
    new = _words(labels, annotations) - _words(have.labels, have.annotations)
    changed = _worded(have, labels, annotations)
    return replace(changed, ours=changed.ours | {Owned(MANAGER, where, key) for where, key, _ in new})


def _worded(have: Object, labels: Words, annotations: Words) -> Object:
    """The same, changed by nobody of ours: whoever set a word owns it for as long as it stays."""
    same = {(where, key) for where, key, _ in _words(have.labels, have.annotations) & _words(labels, annotations)}
    ours, applied = (
        frozenset(each for each in owned if (each.where, each.key) in same) for owned in (have.ours, have.applied)
    )
    return _next(have, labels=labels, annotations=annotations, ours=ours, applied=applied)


def _words(labels: Words, annotations: Words) -> set[tuple[str, str, str]]:
    found = ((LABELS, labels), (ANNOTATIONS, annotations))
    return {(where, key, value) for where, words in found for key, value in words.items()}


def _applied(overlay: Overlay, have: Object) -> Object:
    before = {each for each in have.applied if each.manager == overlay.manager}
    now = {Owned(overlay.manager, where, key) for where, key, _ in _words(overlay.labels, overlay.annotations)}
    laid = _worded(have, *overlaid(overlay, have))
    return replace(laid, ours=(laid.ours - before) | now, applied=(laid.applied - before) | now)


def _guarded(write: Guard, have: Object) -> Object | None:
    """Whatever waited for its last finalizer goes with it."""
    others = tuple(each for each in have.finalizers if each != write.finalizer)
    finalizers = (*others, write.finalizer) if write.add else others
    return None if have.deleting and not finalizers else _next(have, finalizers=finalizers)


def _status(wanted: Mapping[str, object], have: Object, dialect: Dialect) -> Field:
    """Patched, what is not said stays; applied, only the conditions of others do."""
    before = status_of(have)
    told: dict[str, object] = {**before, **wanted}
    if dialect.reporter:
        others = [each for each in before.get("conditions") or () if each.get("type") not in dialect.conditions]
        ours = wanted.get("conditions")
        conditions = [*others, *(ours if isinstance(ours, list) else ())]
        told = {**wanted, **({"conditions": conditions} if conditions else {})}
    raw = json.dumps(told).encode()
    return Field("status", hashlib.blake2b(raw, digest_size=16).digest(), raw)
