"""What a namespace inherits: labels and annotations of its parent or template, and what its SubNamespace adds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from samara.core.desired import Desired, Fault, Mistake, Overlay
from samara.core.model import LABELS, NAMESPACE, ManagedKey, Object, Ref, namespace_ref
from samara.core.names import is_namespace_name, quoted
from samara.core.ownership import ByMark
from samara.core.queries import CrdExists, IsGone
from samara.core.selectors import NAMESPACE_NAME
from samara.core.source_type import Annotated, Hierarchy, SourceType
from samara.core.view import View
from samara.vocabularies.accurate.config import Config
from samara.vocabularies.accurate.labels import (
    ACCURATE_MANAGER,
    CREATED_BY,
    IS_TEMPLATE,
    NAME,
    PARENT,
    ROLES,
    ROOT,
    SUB_NAMESPACE,
    TEMPLATE,
    TYPE,
    affected_namespaces,
    ancestors,
    is_in_loop,
    parent_of,
    parent_or_template,
)

TREE = f"{NAME}:tree"
CIRCULAR = "circular reference is not permitted"


@dataclass(frozen=True, slots=True)
class NamespaceTree:
    """Each namespace with a parent or a template is a source: it pulls what it inherits."""

    config: Config
    managers: frozenset[str]

    def source_type(self) -> SourceType:
        return SourceType(
            TREE,
            (NAMESPACE, SUB_NAMESPACE),
            source=Annotated(
                frozenset(ROLES),
                lambda obj, view: obj.ref.kind == NAMESPACE and bool(parent_or_template(obj)),
                labels=frozenset(ROLES),
                kinds=dict.fromkeys(ROLES, (NAMESPACE,)),
                lint=lint,
            ),
            ownership=ByMark(frozenset(), lambda obj, view: None, self.managers),
            desired=self.desired,
            addresses=lambda source, view: None,
            affected_by=affected_by,
            hierarchy=Hierarchy(frozenset(ROLES[1:])),
            per_namespace=False,
        )

    def desired(self, source: Ref, view: View) -> Desired:
        namespace = view.get(source)
        if namespace is None or namespace.deleting or not parent_or_template(namespace):
            return Desired()  # a namespace that leaves its tree keeps what it inherited
        if is_in_loop(namespace, view):
            path = " → ".join((namespace.ref.name, *ancestors(namespace, view)))
            return Desired(faults=(Fault("Invalid", f"{CIRCULAR}: {path}"),))
        above = view.get(namespace_ref(parent_or_template(namespace)))
        if above is None:
            return Desired(
                faults=(Fault("Invalid", f"parent namespace does not exist: {parent_or_template(namespace)}"),)
            )
        overlay = self._overlay(namespace, above, view)
        reads = self._reads(namespace, above, overlay, view)
        if not all(view.answer(each) is True for each in reads):
            return Desired(reads=reads)  # the SubNamespace may only be missing in the cache: remove nothing
        return Desired(overlays=(overlay,), reads=reads)

    def _reads(self, namespace: Object, above: Object, overlay: Overlay, view: View) -> tuple[CrdExists | IsGone, ...]:
        """Before removing labels that a SubNamespace may have set: is it really gone, and is its CRD still there?"""
        sub = Ref(SUB_NAMESPACE, above.ref.name, namespace.ref.name)
        if not parent_of(namespace) or view.get(sub) is not None:
            return ()
        brought = [
            each
            for each in namespace.applied_keys
            if each.manager == ACCURATE_MANAGER and self._may_come_from_sub(each)
        ]
        if all(each.key in (overlay.labels if each.where == LABELS else overlay.annotations) for each in brought):
            return ()
        return CrdExists(SUB_NAMESPACE), IsGone(sub)

    def _may_come_from_sub(self, owned: ManagedKey) -> bool:
        keys = self.config.sub_label_keys if owned.where == LABELS else self.config.sub_annotation_keys
        return keys.admits(owned.key)

    def _overlay(self, namespace: Object, above: Object, view: View) -> Overlay:
        labels = self.config.label_keys.admitted(above.labels)
        annotations = self.config.annotation_keys.admitted(above.annotations)
        if parent_of(namespace):
            spec = _spec(view.get(Ref(SUB_NAMESPACE, above.ref.name, namespace.ref.name)))
            labels |= self.config.sub_label_keys.admitted(_strings(spec.get("labels")))
            labels |= {CREATED_BY: NAME, PARENT: above.ref.name}
            annotations |= self.config.sub_annotation_keys.admitted(_strings(spec.get("annotations")))
        return Overlay(namespace.ref, labels, annotations, ACCURATE_MANAGER)


def affected_by(obj: Object, view: View) -> Iterable[Ref]:
    if obj.ref.kind == SUB_NAMESPACE:
        return (namespace_ref(obj.ref.name),)
    return tuple(each.ref for each in affected_namespaces(obj, view)) if obj.ref.kind == NAMESPACE else ()


def role_faults(namespace: Object) -> Iterator[Fault]:
    """What is wrong with the labels that place a namespace in a tree, whatever other namespaces there are."""
    name = namespace.ref.name
    for key in (PARENT, TEMPLATE):
        if name and namespace.labels.get(key) == name == parent_or_template(namespace):
            expected = f"the name of another namespace: {CIRCULAR}"
            yield Fault("Refused", CIRCULAR, key, (Mistake(key, expected, f"{quoted(name)}, its own name"),))
    if not parent_of(namespace):
        return
    beside = ((TEMPLATE, "cannot have a template"), (TYPE, "cannot be a root or a template"))
    for key, refused in beside:
        if key in namespace.labels:
            message = f"a sub-namespace {refused}"
            yield Fault("Refused", message, key, (Mistake(key, f"one of the two: {message}", f"beside {PARENT}"),))


def lint(namespace: Object) -> Iterator[Mistake]:
    yield from (mistake for fault in role_faults(namespace) for mistake in fault.mistakes)
    labels = namespace.labels
    if labels.get(TYPE, ROOT) not in (ROOT, IS_TEMPLATE):
        yield Mistake(TYPE, f'"{ROOT}" or "{IS_TEMPLATE}": any other value means nothing')
    for key in (PARENT, TEMPLATE):
        if labels.get(key) == "":
            yield Mistake(key, "the name of a namespace, or no such label")
        elif key in labels and not is_namespace_name(labels[key]):
            yield Mistake(key, NAMESPACE_NAME)


def _spec(sub: Object | None) -> Mapping[str, object]:
    """A SubNamespace that is being deleted counts until it is gone: its namespace may still be in use."""
    field = sub.content.get("spec") if sub is not None else None
    found = json.loads(field.raw) if field is not None and field.raw is not None else None
    return found if isinstance(found, dict) else {}


def _strings(found: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}
