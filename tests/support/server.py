"""Performs our writes on a `World` as the API server would: with preconditions, validation and admission."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.support.world import World, a_field

from samara.core.desired import UNAVAILABLE, Copy, Template
from samara.core.metadata import owners_after
from samara.core.model import CONFIG_MAP, SECRET, Content, Kind, Object, Ref, namespace_ref
from samara.core.simulate import NAME_LABEL, simulate_write
from samara.core.writes import Create, Delete, Recreate, Update, Write

CREATED = "2026"


def perform(world: World, write: Write) -> bool:
    """Performs a write. False if the server refuses it: the address is taken, or the object has changed."""
    if not isinstance(write, Create) and not _is_current(world, write.live):
        return False
    if isinstance(write, Delete | Recreate):
        world.delete(write.ref)
    if isinstance(write, Delete):
        return True
    if isinstance(write, Create | Recreate) and not _may_create(world, write.ref):
        return False
    if isinstance(write, Create | Recreate | Update):
        if write.copy.template.content is UNAVAILABLE or (isinstance(write, Update) and _is_invalid(write)):
            return False
        write = replace(write, copy=_admitted(world, write.copy.ref.kind, write.copy))
    after = simulate_write(write, world.registry[write.key.source_type], CREATED)
    _store(world, write.ref, after)
    return True


def _is_current(world: World, planned: Object) -> bool:
    stored = world.objects.get(planned.ref)
    return stored is not None and (stored.uid, stored.resource_version) == (planned.uid, planned.resource_version)


def _may_create(world: World, ref: Ref) -> bool:
    namespace = world.objects.get(namespace_ref(ref.namespace))
    has_no_namespace = ref.kind.namespaced and (namespace is None or namespace.deleting)
    return ref not in world.objects and not has_no_namespace


def _is_invalid(write: Update) -> bool:
    """True if the server would reject the update: an immutable field changes, or there are two controllers."""
    sent, live = write.copy.template.content, write.live
    assert isinstance(sent, Content)
    if sum(bool(owner.controller) for owner in owners_after(write.copy.template, live)) > 1:
        return True
    if live.ref.kind not in (SECRET, CONFIG_MAP):
        return live.content.get("roleRef") != sent.get("roleRef")
    is_frozen = live.content.get("immutable") == a_field("immutable", True) and live.content != sent
    return is_frozen or live.content.get("type") != sent.get("type")


def _admitted(world: World, kind: Kind, copy: Copy) -> Copy:
    """The copy as admission changes it. The world records this content as the stored form of what was sent."""
    template: Template = copy.template
    sent = template.content
    assert isinstance(sent, Content)
    data = sent.get("data")
    if not world.mutated or data is None or data.raw is None or world.mutated.encode() not in data.raw:
        return copy
    changed = a_field("data", {**json.loads(data.raw), "injected": "by admission"})
    stored = Content(tuple(changed if field == data else field for field in sent.fields))
    world.stored[kind, sent] = stored
    return copy._replace(template=template._replace(content=stored))


def _store(world: World, ref: Ref, after: Object | None) -> None:
    """Stores the object with a version and, if it is new, with a uid of this world. None removes it.

    Namespaces of a world have no name label, so that tests can compare labels as people wrote them.
    """
    if after is None:
        world.store(replace(world.objects[ref], finalizers=(), deleting=True))
        return
    world.version += 1
    uid = after.uid if ref in world.objects else f"u{world.version}"
    labels = {key: value for key, value in after.labels.items() if key != NAME_LABEL}
    world.store(replace(after, uid=uid, resource_version=world.version, labels=labels))
