"""A SubNamespace makes a namespace of its name below its own, and takes it away again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from samara.core.copy_counts import CopyCounts
from samara.core.desired import UNAVAILABLE, Adopt, BlockedTarget, Copy, Desired, Fault, Mistake, Template
from samara.core.metadata_keys import PAUSED
from samara.core.model import ANNOTATIONS, LABELS, NAMESPACE, Content, Key, Object, Ref, namespace_ref
from samara.core.names import LABEL_VALUE, is_label_value, is_namespace_name, quoted
from samara.core.ownership import ByMark
from samara.core.policy import is_paused
from samara.core.queries import NamespaceIsActive
from samara.core.selectors import NAMESPACE_NAME, is_label_key
from samara.core.source_type import Addresses, CustomResource, Hierarchy, Policy, Protected, SourceType, Status
from samara.core.status import condition, status_of
from samara.core.view import View
from samara.vocabularies.accurate.config import Config
from samara.vocabularies.accurate.globs import OWN
from samara.vocabularies.accurate.labels import (
    ACCURATE_MANAGER,
    CREATED_BY,
    FINALIZER,
    NAME,
    PARENT,
    SUB_NAMESPACE,
    has_children,
    is_in_loop,
    is_root,
    parent_of,
)

SUB = f"{NAME}:sub"
STALLED = "Stalled"
CONFLICT = "Conflicting namespace already exists"
CHILDREN = "child namespaces exist"
MOST_ANNOTATIONS = 256 * 1024
"""Bytes of all annotations of one object together, as Kubernetes has it."""
MOST_QUOTED = 80
WAITS = ("ChildrenExist", "Held", "Refused")
"""The reasons for which one under deletion is still there."""


@dataclass(frozen=True, slots=True)
class SubNamespaces:
    """What they want and what is told of them, as the settings have it."""

    cascading: bool
    is_reserved: Callable[[str], bool]
    config: Config = field(default_factory=Config)

    def source_type(self, managers: frozenset[str]) -> SourceType:
        return SourceType(
            SUB,
            (SUB_NAMESPACE, NAMESPACE),
            source=CustomResource(SUB_NAMESPACE, FINALIZER, gone_after=0.0, lint=self.lint),
            ownership=ByMark(frozenset({PARENT}), origin, managers, trusted=True),
            desired=self.desired,
            addresses=lambda source, view: Addresses(NAMESPACE, source.name),
            affected_by=also,
            policy=Policy(Protected.BY_NAME),
            status=Status(self.report, frozenset({STALLED}), field_manager=ACCURATE_MANAGER),
            hierarchy=Hierarchy(frozenset({PARENT})),
            per_namespace=False,
        )

    def lint(self, obj: Object) -> Iterator[Mistake]:
        name, spec = obj.ref.name, spec_of(obj)
        if name and not is_namespace_name(name):
            yield Mistake("metadata.name", NAMESPACE_NAME, quoted(name))
        elif self.is_reserved(name):
            expected = "another name: this one is reserved, and no namespace is made of it"
            yield Mistake("metadata.name", expected, quoted(name))
        faulty = [mistake for fault in spec_faults(spec) for mistake in fault.mistakes]
        yield from faulty
        fields = {mistake.field for mistake in faulty}
        yield from (mistake for mistake in self._dropped(spec) if mistake.field not in fields)

    def _dropped(self, spec: Mapping[str, object]) -> Iterator[Mistake]:
        """The keys that the namespace never gets. Without a configuration it is not known which ones it may get."""
        config = self.config
        admitted = {LABELS: config.sub_label_keys, ANNOTATIONS: config.sub_annotation_keys}
        settings = {LABELS: "subNamespaceLabelKeys", ANNOTATIONS: "subNamespaceAnnotationKeys"}
        for where, keys in admitted.items():
            for key in (key for key, value in _words(spec, where).items() if isinstance(value, str)):
                if key.startswith(OWN):
                    expected = f"another key: those under {' and '.join(OWN)} never reach a namespace this way"
                elif config != Config() and not keys.admits(key):
                    setting = f"vocabularies.{NAME}.{settings[where]}"
                    expected = f"a key that the setting {setting} lets through; any other is ignored"
                else:
                    continue
                yield Mistake(f"spec.{where}.{key}", expected, "a key that is not let through")

    def desired(self, source: Ref, view: View) -> Desired:
        return replace(self.want(source, view), reads=self.reads(source, view))

    def reads(self, source: Ref, view: View) -> tuple[NamespaceIsActive, ...]:
        """Before a namespace goes with its SubNamespace: is it only that which somebody has deleted?

        The Namespaces come by another watch. Were that one behind, whoever deletes a namespace would seem to have asked
        for those below it.
        """
        obj, there = view.get(source), view.get(namespace_ref(source.name))
        at_stake = obj is not None and obj.deleting and self._may_take_along(source, there, view)
        return (NamespaceIsActive(source.namespace),) if at_stake and not self.cascading else ()

    def want(self, source: Ref, view: View) -> Desired:
        obj, there = view.get(source), view.get(namespace_ref(source.name))
        if obj is None:
            return Desired(prune=False)  # a sub-namespace without its SubNamespace stays, and so does all below it
        if obj.deleting:
            return self._ending(source, there, view)
        asked = replace(self._living(source, there, view), prune=False)
        return replace(asked, finalizer=FINALIZER) if _is_new(obj) or FINALIZER in obj.finalizers else asked

    def _living(self, source: Ref, there: Object | None, view: View) -> Desired:
        ref = namespace_ref(source.name)
        if there is not None and _is_below(there, source):
            return Desired(
                () if there.deleting else (Copy(ref, Template(UNAVAILABLE)),)
            )  # it comes back when it is gone
        if self.is_reserved(source.name):
            return Desired(blocked=(BlockedTarget(ref, "refused", _reserved(source.name)),))
        if there is not None:
            return Desired(blocked=(BlockedTarget(ref, "conflict", CONFLICT),))
        holder = view.get(namespace_ref(source.namespace))
        if holder is None or holder.deleting or not (is_root(holder) or parent_of(holder)):
            message = f"namespace {source.namespace} is neither a root nor a sub namespace"
            return Desired(blocked=(BlockedTarget(ref, "refused", message),))
        labels = {CREATED_BY: NAME, PARENT: source.namespace}
        return Desired((Copy(ref, Template(Content(), labels, adopt=Adopt.NEVER), by_name=True),))

    def _ending(self, source: Ref, there: Object | None, view: View) -> Desired:
        """The namespace goes if it hangs where the SubNamespace is, and nothing hangs on it.

        Who deletes a namespace has not asked for those below it, unless that is allowed: then the SubNamespaces in it
        just end. What has a reserved name was not made here, and is not deleted here.
        """
        meant = all(view.answer(each) is True for each in self.reads(source, view))
        if not meant or not self._may_take_along(source, there, view):
            return Desired(prune=False, finalizer=FINALIZER)
        if not self.cascading and has_children(source.name, view):
            barred = BlockedTarget(namespace_ref(source.name), "refused", CHILDREN)
            return Desired(prune=False, finalizer=FINALIZER, blocked=(barred,))
        return Desired(finalizer=FINALIZER)

    def _may_take_along(self, source: Ref, there: Object | None, view: View) -> bool:
        """True where the end of a SubNamespace is meant for its namespace, too, as far as the watches tell."""
        if there is None or there.deleting or not _is_below(there, source) or self.is_reserved(source.name):
            return False
        if is_in_loop(there, view):
            return False  # what hangs on itself hangs nowhere, and nobody can say whose end this is
        holder = view.get(namespace_ref(source.namespace))
        return self.cascading or (holder is not None and not holder.deleting)

    def report(self, obj: Object, view: View, tally: CopyCounts) -> Mapping[str, object]:
        there, name = view.get(namespace_ref(obj.ref.name)), obj.ref.name
        if obj.deleting:
            return self._waiting(obj, there, view, tally)
        if there is None and not self.is_reserved(name):
            return {}  # nothing has come of it yet
        if _is_new(obj) and FINALIZER not in obj.finalizers:
            return {}  # once a status is there the finalizer is not added any more
        if _is_below(there, obj.ref):
            return {"observedGeneration": obj.generation}
        if self.is_reserved(name):
            return _stalled(obj, "Reserved", _reserved(name))
        return _stalled(obj, "Conflict", CONFLICT)

    def _waiting(self, obj: Object, there: Object | None, view: View, tally: CopyCounts) -> Mapping[str, object]:
        """Why one under deletion is still there, and what to do; nothing new where it is about to go."""
        name = obj.ref.name
        if FINALIZER in obj.finalizers and there is not None and self._may_take_along(obj.ref, there, view):
            stays = tally.removals.get(there.ref)
            if not self.cascading and has_children(name, view):
                return _stalled(obj, "ChildrenExist", f"{CHILDREN} below {name}: delete them or move them elsewhere")
            if is_paused(there):
                return _stalled(obj, "Held", f"namespace {name} is paused: remove {PAUSED} from it")
            if stays is not None and stays.reason == "held":
                return _stalled(obj, "Held", f"{stays.message}: `samara release {Key(SUB, obj.ref)}` lets it go on")
            if stays is not None:
                return _stalled(obj, "Refused", stays.shown(there.ref))
        told = {each.get("reason") for each in status_of(obj).get("conditions") or ()}
        return {} if told.isdisjoint(WAITS) else {"observedGeneration": obj.generation}


def is_source(obj: Object, view: View) -> bool:
    return obj.ref.kind == SUB_NAMESPACE


def origin(obj: Object, view: View) -> Ref | None:
    """Every sub-namespace has one place where its SubNamespace is, or would be."""
    parent = parent_of(obj) if obj.ref.kind == NAMESPACE else ""
    return Ref(SUB_NAMESPACE, parent, obj.ref.name) if parent else None


def also(obj: Object, view: View) -> Iterable[Ref]:
    """What waits for a Namespace: the SubNamespaces in it, and its parent's, which may not go while it is there."""
    if obj.ref.kind != NAMESPACE:
        return ()
    parent = view.get(namespace_ref(parent_of(obj))) if parent_of(obj) else None
    above = origin(parent, view) if parent is not None else None
    return (*view.sources(SUB, obj.ref.name), *((above,) if above is not None else ()))


def _is_below(there: Object | None, source: Ref) -> bool:
    """True where the namespace hangs where its SubNamespace is."""
    return there is not None and parent_of(there) == source.namespace


def _is_new(obj: Object) -> bool:
    return "observedGeneration" not in status_of(obj)


def _reserved(name: str) -> str:
    return f"The name {name} is reserved"


def _stalled(obj: Object, reason: str, message: str) -> Mapping[str, object]:
    generation = obj.generation
    return {
        "observedGeneration": generation,
        "conditions": [condition(STALLED, True, reason, message, generation)],
    }


def spec_of(sub: Object) -> Mapping[str, object]:
    held = sub.content.get("spec")
    try:
        found = json.loads((held.raw if held is not None else None) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}


def spec_faults(spec: Mapping[str, object]) -> Iterator[Fault]:
    """All that is wrong with the labels and annotations that the namespace shall get, as the server would say it."""
    labels, annotations = _words(spec, LABELS), _words(spec, ANNOTATIONS)
    for key, value in labels.items():
        if not is_label_key(key):
            yield _invalid(LABELS, key, key, "the key of a label")
        if not isinstance(value, str) or (value and not is_label_value(value)):
            yield _invalid(LABELS, key, value, "the value of a label", LABEL_VALUE)
    for key in annotations:
        if not is_label_key(key.lower()):
            yield _invalid(ANNOTATIONS, key, key, "the key of an annotation")
    size = sum(len(word.encode(errors="replace")) for each in annotations.items() for word in map(str, each))
    if size > MOST_ANNOTATIONS:
        message = f"spec.annotations: Too long: at most {MOST_ANNOTATIONS} bytes were expected, found {size}"
        mistake = Mistake("spec.annotations", f"at most {MOST_ANNOTATIONS} bytes", str(size))
        yield Fault("Invalid", message, "spec.annotations", (mistake,))


def _invalid(where: str, key: str, value: object, expected: str, form: str = "") -> Fault:
    """`form` says more of what was expected than the server does."""
    message = f"spec.{where}: Invalid value: {_quoted(str(value))}: {expected} was expected"
    at = f"spec.{where}.{key}"
    # The definition says that a value is a text.
    mistakes = (Mistake(at, form or expected, quoted(value)),) if isinstance(value, str) else ()
    return Fault("Invalid", message, at, mistakes)


def _quoted(word: str) -> str:
    """As the server quotes in its own refusals: whoever shows no rejected value sees by that where it ends."""
    return json.dumps(word if len(word) <= MOST_QUOTED else f"{word[:MOST_QUOTED]}...")


def _words(spec: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = spec.get(name)
    return found if isinstance(found, Mapping) else {}
