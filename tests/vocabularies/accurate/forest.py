"""Worlds of namespace trees, and helpers to build them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from tests.support.settle import every_key, plan_of, settle
from tests.support.toys import COPYABLE
from tests.support.world import World, at, content, secret

from samara.core.desired import Adopt, Fault
from samara.core.kinds import ROLE_BINDING, SERVICE_ACCOUNT
from samara.core.model import CONFIG_MAP, FIELD_MANAGER, SECRET, Key, Object, Ref, namespace_ref
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.core.writes import Blocked, Write
from samara.vocabularies import accurate
from samara.vocabularies.accurate import config
from samara.vocabularies.accurate.labels import (
    FINALIZER,
    FROM,
    IS_TEMPLATE,
    PARENT,
    PROPAGATE,
    ROOT,
    SUB_NAMESPACE,
    TEMPLATE,
    TYPE,
)

KINDS = (SECRET, CONFIG_MAP, ROLE_BINDING, SERVICE_ACCOUNT)
KEYS = {"labelKeys": ["team", "*.glob/*"], "annotationKeys": ["note"]}
SUB_KEYS = {"subNamespaceLabelKeys": ["team", "size"], "subNamespaceAnnotationKeys": ["story"]}
RULES = ClusterPolicy()
RESERVED = ("default", "kube-system", "operator")


def a_registry(
    adopt: Adopt = Adopt.IDENTICAL,
    cascading: bool = False,
    managers: frozenset[str] | None = None,
    generated: bool = False,
    **keys: Any,
) -> Registry:
    """The three source types of Accurate alone, configured as a user would."""

    trusted = managers or frozenset({accurate.ACCURATE_MANAGER})
    options = accurate.Options(RESERVED.__contains__, adopt, cascading, trusted, generated)
    read = config.read({**KEYS, **SUB_KEYS, **keys})
    return Registry(accurate.source_types(read, KINDS, COPYABLE.of_source, options))


def a_world(**terms: Any) -> World:
    return World(a_registry(**terms))


def root(world: World, name: str = "r", extra: Mapping[str, str] | None = None, **more: Any) -> Object:
    return world.namespace(name, {TYPE: ROOT, **(extra or {})}, **more)


def sub(world: World, name: str, parent: str, extra: Mapping[str, str] | None = None) -> Object:
    return world.namespace(name, {PARENT: parent, **(extra or {})})


def template(world: World, name: str, extra: Mapping[str, str] | None = None) -> Object:
    return world.namespace(name, {TYPE: IS_TEMPLATE, **(extra or {})})


def instance(world: World, name: str, of: str, extra: Mapping[str, str] | None = None) -> Object:
    return world.namespace(name, {TEMPLATE: of, **(extra or {})})


def chain(world: World, *names: str) -> None:
    """A root, and below it namespaces of which each is the parent of the next."""
    root(world, names[0])
    for above, name in pairwise(names):
        sub(world, name, above)


def set_roles(world: World, name: str, **roles: str) -> Object:
    """Replaces the parent, template and type labels of a namespace by the given ones."""
    keys = {"parent": PARENT, "template": TEMPLATE, "type": TYPE}
    have = world.objects[namespace_ref(name)]
    kept = {key: value for key, value in have.labels.items() if key not in keys.values()}
    return world.edit(have.ref, labels=kept | {keys[role]: value for role, value in roles.items()})


def relabel(world: World, name: str, **labels: str | None) -> None:
    have = world.objects[namespace_ref(name)]
    merged = {**have.labels, **labels}
    world.edit(have.ref, labels={key: value for key, value in merged.items() if value is not None})


def namespace(world: World, name: str) -> Object:
    return world.objects[namespace_ref(name)]


def labels(world: World, name: str) -> dict[str, str]:
    return dict(namespace(world, name).labels)


def source(world: World, ref: Ref, mode: str, value: str = "one", **annotations: str) -> Object:
    return world.put(ref, secret(value), annotations={PROPAGATE: mode, **annotations})


def a_copy(world: World, ref: Ref, of: str, mode: str, value: str = "one", by: str = FIELD_MANAGER) -> Object:
    """A copy that we, or another field manager, created earlier."""
    return world.put(ref, secret(value), by, annotations={PROPAGATE: mode, FROM: of})


def values(world: World, name: str = "x") -> dict[str, str | None]:
    """The name of the value that the object has, by namespace."""
    known = {secret(value): value for value in ("one", "two", "three", "drift", "theirs")}
    return {ref.namespace: known.get(obj.content) for ref, obj in world.objects.items() if ref == at(ref[1], name)}


def set_mode(world: World, ref: Ref, mode: str | None) -> None:
    have = world.objects[ref]
    kept = {key: value for key, value in have.annotations.items() if key != PROPAGATE}
    world.edit(ref, annotations=kept if mode is None else {**kept, PROPAGATE: mode})


def a_sub(world: World, name: str, holder: str, guard: bool = True, **spec: Any) -> Object:
    """A SubNamespace as the webhook stores it, with the finalizer."""
    has = content(spec=spec) if spec else None
    guards = (FINALIZER,) if guard else ()
    return world.put(Ref(SUB_NAMESPACE, holder, name), has, generation=1, finalizers=guards)


def faults(world: World) -> list[Fault]:
    return [fault for key in every_key(world) for fault in plan_of(key, world, RULES).faults]


def blocked(world: World, key: Key) -> list[Blocked]:
    return list(plan_of(key, world, RULES).blocked)


def settled(world: World) -> list[Write]:
    """All writes until nothing is left to write."""
    return settle(world, RULES)
