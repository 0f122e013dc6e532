"""What a real API server does with a write of ours: conditional, with finalizers and a record of field managers."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.support.world import World, a_field

from samara.core.desired import UNAVAILABLE, Copy, Overlay
from samara.core.metadata import merged, owners_after, released
from samara.core.metadata_keys import ADOPTED, RELEASED
from samara.core.model import (
    ANNOTATIONS,
    CONFIG_MAP,
    FIELD_MANAGER,
    LABELS,
    SECRET,
    Content,
    Kind,
    ManagedKey,
    Object,
    namespace_ref,
)
from samara.core.writes import (
    Apply,
    Create,
    Delete,
    KeepAsOrphan,
    Recreate,
    Release,
    Removal,
    SetFinalizer,
    Update,
    Write,
    WriteStatus,
)


def perform(world: World, write: Write) -> bool:
    """Performs a write; False where the server refuses it: the place is taken, or what was planned on has changed."""
    if isinstance(write, Create):
        return _create(world, write.copy)
    have = world.objects.get(write.ref)
    if have is None or (have.uid, have.resource_version) != (write.live.uid, write.live.resource_version):
        return False
    if isinstance(write, Update):
        return _replace(world, write, have)
    if isinstance(write, Recreate):
        world.delete(have.ref)
        return _create(world, write.copy) and _hand_on(world, have)
    _change(world, write, have)
    return True


def _create(world: World, copy: Copy) -> bool:
    template, namespace = copy.template, world.objects.get(namespace_ref(copy.ref.namespace))
    lost = copy.ref.kind.namespaced and (namespace is None or namespace.deleting)
    if copy.ref in world.objects or lost or template.content is UNAVAILABLE:
        return False
    owners = () if template.owner is None else (template.owner,)
    has = _admitted(world, copy.ref.kind, template.content)
    world.put(
        copy.ref, has, FIELD_MANAGER, labels=template.labels, annotations=template.annotations, owner_references=owners
    )
    return True


def _hand_on(world: World, had: Object) -> bool:
    """What others wrote on a copy is on the new one, too, and still not ours."""
    now = world.objects[had.ref]
    theirs = []
    for where, old, new in ((LABELS, had.labels, now.labels), (ANNOTATIONS, had.annotations, now.annotations)):
        foreign = {
            key: old[key] for key in old if key not in {each.key for each in had.managed_keys if each.where == where}
        }
        theirs.append({**foreign, **new})
    if ADOPTED in had.annotations:
        world.edit(had.ref, by=FIELD_MANAGER, annotations={**now.annotations, ADOPTED: "true"})
    world.edit(had.ref, labels=theirs[0], annotations={**theirs[1], **world.objects[had.ref].annotations})
    return True


def _admitted(world: World, kind: Kind, sent: Content) -> Content:
    """What admission makes of a copy; the answer tells, and is remembered as right."""
    data = sent.get("data")
    if not world.meddled or data is None or data.raw is None or world.meddled.encode() not in data.raw:
        return sent
    meddled = a_field("data", {**json.loads(data.raw), "injected": "by admission"})
    found = Content(tuple(meddled if each == data else each for each in sent.fields))
    world.stored[kind, sent] = found
    return found


def _replace(world: World, write: Update, have: Object) -> bool:
    """An object has at most one controller."""
    template, ownership = write.copy.template, world.registry[write.key.source_type].ownership
    owners = owners_after(template, have)
    controllers = sum(bool(each.controller) for each in owners)
    if template.content is UNAVAILABLE or _is_refused(have, template.content) or controllers > 1:
        return False
    labels, annotations = (merged(where, template, have, ownership) for where in (LABELS, ANNOTATIONS))
    changes = {
        "content": _admitted(world, have.ref.kind, template.content),
        "known_copy": True,
        "owner_references": owners,
    }
    world.edit(have.ref, by=FIELD_MANAGER, labels=labels, annotations=annotations, **changes)
    return True


def _is_refused(have: Object, sent: Content) -> bool:
    """A Secret's type and a binding's role never change, and nothing does once it is immutable."""
    if have.ref.kind not in (SECRET, CONFIG_MAP):
        return have.content.get("roleRef") != sent.get("roleRef")
    frozen = have.content.get("immutable") == a_field("immutable", True) and have.content != sent
    return frozen or have.content.get("type") != sent.get("type")


def _change(world: World, write: Removal | Apply | SetFinalizer | WriteStatus, have: Object) -> None:
    match write:
        case Delete():
            world.delete(have.ref)
        case Release():
            source_type = world.registry[write.key.source_type]
            labels, annotations = released(have, source_type.ownership, source_type.source.metadata_keys)
            world.edit(have.ref, by=FIELD_MANAGER, labels=labels, annotations=annotations)
        case KeepAsOrphan():
            world.edit(have.ref, by=FIELD_MANAGER, annotations={**have.annotations, RELEASED: "true"})
        case Apply(overlay=overlay):
            _apply(world, have, overlay)
        case SetFinalizer(finalizer=ours, add=add):
            rest = tuple(each for each in have.finalizers if each != ours)
            world.edit(have.ref, finalizers=(*rest, ours) if add else rest)
        case WriteStatus(status=status):
            world.edit(have.ref, status=a_field("status", status))


def _apply(world: World, have: Object, overlay: Overlay) -> None:
    """Server-side apply with force: what this manager applied before and does not now, goes."""
    before = {owned for owned in have.applied_keys if owned.manager == overlay.manager}
    labels, annotations = dict(have.labels), dict(have.annotations)
    for owned in before:
        (labels if owned.where == LABELS else annotations).pop(owned.key, None)
    now = world.edit(
        have.ref, labels=labels | dict(overlay.labels), annotations=annotations | dict(overlay.annotations)
    )
    keys = [(LABELS, key) for key in overlay.labels] + [(ANNOTATIONS, key) for key in overlay.annotations]
    applied = {ManagedKey(overlay.manager, where, key) for where, key in keys}
    world.store(
        replace(
            now, managed_keys=(now.managed_keys - before) | applied, applied_keys=(now.applied_keys - before) | applied
        )
    )
