"""What a namespace inherits: labels and annotations of its parent or template, and what its SubNamespace adds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from samara.core.model import LABELS, NAMESPACE, Object, Owned, Ref, namespace_ref
from samara.core.reads import Absence, Definition
from samara.core.view import View
from samara.core.want import Dialect, Fault, Overlay, Want
from samara.dialects.accurate.config import Config
from samara.dialects.accurate.words import (
    APPLIER,
    CREATED_BY,
    NAME,
    PARENT,
    ROLES,
    SUB_NAMESPACE,
    concerned_by,
    is_in_loop,
    lineage,
    parent_of,
    upstream_of,
)

TREE = f"{NAME}:tree"


def dialect(config: Config, managers: frozenset[str]) -> Dialect:
    """One source per namespace that hangs on another: it pulls, so each is a unit of work of its own."""

    def is_source(obj: Object, view: View) -> bool:
        return obj.ref.kind == NAMESPACE and bool(upstream_of(obj))

    def want(source: Ref, view: View) -> Want:
        namespace = view.get(source)
        if namespace is None or namespace.deleting or not upstream_of(namespace):
            return Want()  # what was inherited stays on a namespace that was cut off
        if is_in_loop(namespace, view):
            return Want(faults=(Fault("Invalid", f"circular reference is not permitted: {_path(namespace, view)}"),))
        above = view.get(namespace_ref(upstream_of(namespace)))
        if above is None:
            return Want(faults=(Fault("Invalid", f"parent namespace does not exist: {upstream_of(namespace)}"),))
        if not all(view.value(each) is True for each in reads(source, view)):
            return Want()  # nobody has said that what its SubNamespace brought shall go
        return Want(overlays=(_overlay(namespace, above, view),))

    def reads(source: Ref, view: View) -> tuple[Definition | Absence, ...]:
        """Before words go that a SubNamespace may have brought: is it gone, and was that meant?"""
        namespace = view.get(source)
        parent = parent_of(namespace) if namespace is not None else ""
        above = view.get(namespace_ref(parent)) if parent else None
        sub = Ref(SUB_NAMESPACE, parent, source.name)
        if namespace is None or namespace.deleting or above is None or view.get(sub) is not None:
            return ()
        brought = [each for each in namespace.applied if each.manager == APPLIER and _may_bring(each)]
        overlay = _overlay(namespace, above, view) if brought else None
        if overlay is None or all(each.key in _words(overlay, each.where) for each in brought):
            return ()
        return Definition(SUB_NAMESPACE), Absence(sub)

    def _may_bring(owned: Owned) -> bool:
        """True for a word that can come from a SubNamespace."""
        return (config.sub_label_keys if owned.where == LABELS else config.sub_annotation_keys).admits(owned.key)

    def _overlay(namespace: Object, above: Object, view: View) -> Overlay:
        labels = config.label_keys.admitted(above.labels)
        annotations = config.annotation_keys.admitted(above.annotations)
        if parent_of(namespace):
            spec = _spec(view.get(Ref(SUB_NAMESPACE, above.ref.name, namespace.ref.name)))
            labels |= config.sub_label_keys.admitted(_texts(spec.get("labels")))
            labels |= {CREATED_BY: NAME, PARENT: above.ref.name}
            annotations |= config.sub_annotation_keys.admitted(_texts(spec.get("annotations")))
        return Overlay(namespace.ref, labels, annotations, APPLIER)

    def also(obj: Object, view: View) -> Iterable[Ref]:
        if obj.ref.kind == SUB_NAMESPACE:
            return (namespace_ref(obj.ref.name),)
        return tuple(each.ref for each in concerned_by(obj, view)) if obj.ref.kind == NAMESPACE else ()

    return Dialect(
        TREE,
        (NAMESPACE, SUB_NAMESPACE),
        is_source,
        origin=lambda obj, view: None,
        places=lambda source, view: None,
        want=want,
        marks=frozenset(),
        asks=frozenset(ROLES),
        also=also,
        reads=reads,
        managers=managers,
        rank=2,
        relations=frozenset(ROLES[1:]),
        whole=True,
    )


def _words(overlay: Overlay, where: str) -> Mapping[str, str]:
    return overlay.labels if where == LABELS else overlay.annotations


def _spec(sub: Object | None) -> Mapping[str, object]:
    """A SubNamespace that ends counts until it is gone: its namespace may have to wait, and is in use meanwhile."""
    field = sub.content.get("spec") if sub is not None else None
    found = json.loads(field.raw) if field is not None and field.raw is not None else None
    return found if isinstance(found, dict) else {}


def _texts(found: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _path(namespace: Object, view: View) -> str:
    return " → ".join((namespace.ref.name, *lineage(namespace, view)))
