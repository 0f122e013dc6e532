"""Namespace trees: users label a namespace with its parent or template, and it inherits labels and annotations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from json import loads as parse_json

from samara.core.desired import Desired, Fault, Mistake, Overlay
from samara.core.model import LABELS, NAMESPACE, ManagedKey, Object, Ref, namespace_ref
from samara.core.names import NAMESPACE_NAME_FORM, is_namespace_name, quoted
from samara.core.ownership import ByMark
from samara.core.queries import CrdExists, IsGone
from samara.core.source_type import Annotated, ChosenLabels, Hierarchy, SourceType
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
    """The source type of namespaces with a parent or template. Each is the source of an overlay on itself."""

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
                ineffective=ineffective,
                lint=lint,
            ),
            ownership=ByMark(frozenset(), lambda obj, view: None, self.managers),
            desired=self.desired,
            addresses=lambda source, view: None,
            affected_by=affected_by,
            hierarchy=Hierarchy(frozenset(ROLES[1:]), chosen_labels=self._chosen_labels()),
            per_namespace=False,
        )

    def _chosen_labels(self) -> ChosenLabels:
        keys = self.config.sub_label_keys
        setting = f"vocabularies.{NAME}.subNamespaceLabelKeys"
        return ChosenLabels(setting, keys.wildcards, keys.admits_by_pattern, self.chosen_labels)

    def chosen_labels(self, namespace: Object, keys: Iterable[str], view: View) -> Mapping[str, str | None]:
        """Those of the keys that a SubNamespace set, here or further up, and that only a pattern let through; each with
        the value that the label would have without any SubNamespace."""
        possible = [
            key for key in keys if key in namespace.labels and self.config.sub_label_keys.admits_by_pattern(key)
        ]
        asked: dict[str, Mapping[str, str]] = {}  # by namespace: a spec is parsed once for all keys
        values = {key: self._trusted_value(key, namespace, asked, view) for key in possible}
        return {key: value for key, value in values.items() if value != namespace.labels[key]}

    def _trusted_value(
        self, key: str, namespace: Object, asked: dict[str, Mapping[str, str]], view: View
    ) -> str | None:
        """Follows a label up to the namespace that has it of its own. In a loop no value is trusted."""
        seen: set[str] = set()
        while namespace.ref.name not in seen:
            value = namespace.labels[key]
            if not self._is_from_tree(key, namespace, asked, view):
                return value  # set on the Namespace itself
            seen.add(namespace.ref.name)
            above = view.get(namespace_ref(parent_or_template(namespace)))
            inherited = above.labels.get(key) if above is not None and self.config.label_keys.admits(key) else None
            if inherited != value and not parent_of(namespace):
                return value  # of an earlier template
            if above is None or inherited is None:
                return None
            namespace = above
        return None

    def _is_from_tree(self, key: str, namespace: Object, asked: dict[str, Mapping[str, str]], view: View) -> bool:
        """True if we applied a label, as managedFields show, or if the SubNamespace asks for it."""
        name = namespace.ref.name
        if not parent_or_template(namespace):
            return False
        if ManagedKey(ACCURATE_MANAGER, LABELS, key) in namespace.applied_keys:
            return True
        if name not in asked:
            asked[name] = _strings(_spec(view.get(Ref(SUB_NAMESPACE, parent_of(namespace), name))).get("labels"))
        return asked[name].get(key) == namespace.labels[key]

    def desired(self, source: Ref, view: View) -> Desired:
        """The labels and annotations that one namespace inherits."""
        namespace = view.get(source)

        # A namespace that leaves its tree keeps the labels and annotations that it inherited.
        if namespace is None or namespace.deleting or not parent_or_template(namespace):
            return Desired()

        # A loop or a missing parent is reported, and nothing is written.
        if is_in_loop(namespace, view):
            path = " → ".join((namespace.ref.name, *ancestors(namespace, view)))
            return Desired(faults=(Fault("Invalid", f"{CIRCULAR}: {path}"),))
        above = view.get(namespace_ref(parent_or_template(namespace)))
        if above is None:
            return Desired(
                faults=(Fault("Invalid", f"parent namespace does not exist: {parent_or_template(namespace)}"),)
            )

        # The overlay. The API server must confirm that a SubNamespace is gone before its keys are removed.
        overlay = self._overlay(namespace, above, view)
        reads = self._reads(namespace, above, overlay, view)
        if not all(view.answer(query) is True for query in reads):
            return Desired(reads=reads)
        return Desired(overlays=(overlay,), reads=reads)

    def _reads(self, namespace: Object, above: Object, overlay: Overlay, view: View) -> tuple[CrdExists | IsGone, ...]:
        """The queries before a key is removed that a SubNamespace may have set: is it gone, and does its CRD exist?

        A list can miss an object, and deleting the CRD deletes all SubNamespaces. Neither may remove keys.
        """
        sub = Ref(SUB_NAMESPACE, above.ref.name, namespace.ref.name)
        if not parent_of(namespace) or view.get(sub) is not None:
            return ()
        from_sub = [
            applied
            for applied in namespace.applied_keys
            if applied.manager == ACCURATE_MANAGER and self._may_come_from_sub(applied)
        ]
        if all(key.key in (overlay.labels if key.where == LABELS else overlay.annotations) for key in from_sub):
            return ()
        return CrdExists(SUB_NAMESPACE), IsGone(sub)

    def _may_come_from_sub(self, applied: ManagedKey) -> bool:
        keys = self.config.sub_label_keys if applied.where == LABELS else self.config.sub_annotation_keys
        return keys.admits(applied.key)

    def _overlay(self, namespace: Object, above: Object, view: View) -> Overlay:
        """The inherited keys. Those of the SubNamespace override those of the parent."""
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
    if obj.ref.kind != NAMESPACE:
        return ()
    return tuple(namespace.ref for namespace in affected_namespaces(obj, view))


def role_faults(namespace: Object) -> Iterator[Fault]:
    """The faults of the labels that place a namespace in a tree. Only this namespace is read."""
    name = namespace.ref.name
    for key in (PARENT, TEMPLATE):
        if name and namespace.labels.get(key) == name == parent_or_template(namespace):
            expected = f"the name of another namespace: {CIRCULAR}"
            yield Fault("Refused", CIRCULAR, key, (Mistake(key, expected, f"{quoted(name)}, its own name"),))
    if not parent_of(namespace):
        return
    excluded = ((TEMPLATE, "cannot have a template"), (TYPE, "cannot be a root or a template"))
    for key, reason in excluded:
        if key in namespace.labels:
            message = f"a sub-namespace {reason}"
            yield Fault("Refused", message, key, (Mistake(key, f"one of the two: {message}", f"beside {PARENT}"),))


def ineffective(namespace: Object) -> Iterator[Mistake]:
    labels = namespace.labels
    if labels.get(TYPE, ROOT) not in (ROOT, IS_TEMPLATE):
        yield Mistake(TYPE, f'"{ROOT}" or "{IS_TEMPLATE}": any other value means nothing')
    for key in (PARENT, TEMPLATE):
        if labels.get(key) == "":
            yield Mistake(key, "the name of a namespace, or no such label")


def lint(namespace: Object) -> Iterator[Mistake]:
    yield from (mistake for fault in role_faults(namespace) for mistake in fault.mistakes)
    for key in (PARENT, TEMPLATE):
        if namespace.labels.get(key) and not is_namespace_name(namespace.labels[key]):
            yield Mistake(key, NAMESPACE_NAME_FORM)


def _spec(sub: Object | None) -> Mapping[str, object]:
    """The spec of a SubNamespace, also of a terminating one: its namespace may stay in use for a while."""
    field = sub.content.get("spec") if sub is not None else None
    spec = parse_json(field.raw) if field is not None and field.raw is not None else None
    return spec if isinstance(spec, dict) else {}


def _strings(metadata: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in metadata.items()} if isinstance(metadata, dict) else {}
