"""SubNamespaces: users create one in their namespace; Samara creates a namespace of that name below it.

It deletes that namespace when the SubNamespace is deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from samara.core.admission import Refused, Undecidable
from samara.core.copy_counts import CopyCounts
from samara.core.desired import UNAVAILABLE, Adopt, BlockedTarget, Copy, Desired, Fault, Mistake, Template
from samara.core.metadata_keys import PAUSED
from samara.core.model import ANNOTATIONS, LABELS, NAMESPACE, Content, Key, Object, Ref, namespace_ref
from samara.core.names import (
    LABEL_VALUE_FORM,
    NAMESPACE_NAME_FORM,
    is_label_key,
    is_label_value,
    is_namespace_name,
    quoted,
)
from samara.core.ownership import ByMark
from samara.core.policy import is_paused
from samara.core.queries import NamespaceIsActive
from samara.core.source_type import Addresses, CustomResource, Hierarchy, Policy, Protected, SourceType, Status
from samara.core.status import condition, status_of
from samara.core.trust import Trust
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
    root_of,
)
from samara.vocabularies.accurate.tree import CIRCULAR

SUB = f"{NAME}:sub"
READY, STALLED = "Ready", "Stalled"
CONDITIONS = frozenset({READY, STALLED})
NamingRefusal = Callable[[str, str], tuple[str, str] | None]
"""The `root` and `match` of the first naming policy that denies a name under a root. Raises for a bad expansion."""
NameReservation = Callable[[str, str, Iterable[str]], bool]
"""True if the naming policies give a name to a root, and to none of these other roots."""
NAME_IS_TAKEN = "Conflicting namespace already exists"
CHILDREN_EXIST = "child namespaces exist"
MAX_ANNOTATION_BYTES = 256 * 1024
"""Bytes of all annotations of one object together: the limit of the API server."""
MAX_QUOTED = 80
DELETION_REASONS = ("ChildrenExist", "Held", "Refused")
"""The reasons of the condition on a terminating SubNamespace whose namespace cannot be deleted yet."""


@dataclass(frozen=True, slots=True)
class SubNamespaces:
    """The source type of SubNamespaces. A SubNamespace has one copy, its namespace."""

    cascading: bool
    is_reserved: Callable[[str], bool]
    config: Config = field(default_factory=Config)
    is_strict: bool = False
    """True if messages must not show tenants the names of namespaces that they did not name themselves."""

    def source_type(self, managers: frozenset[str]) -> SourceType:
        return SourceType(
            SUB,
            (SUB_NAMESPACE, NAMESPACE),
            source=CustomResource(
                SUB_NAMESPACE,
                FINALIZER,
                gone_after=0.0,
                lint=self.lint,
            ),
            ownership=ByMark(frozenset({PARENT}), origin, managers, trusted=True),
            desired=self.desired,
            addresses=lambda source, view: Addresses(NAMESPACE, source.name),
            affected_by=affected_by,
            policy=Policy(Protected.BY_NAME),
            status=Status(self.report, CONDITIONS, field_manager=ACCURATE_MANAGER),
            hierarchy=Hierarchy(
                frozenset({PARENT}), tree=lambda source, view: root_of(source.namespace, view), above=parent_of
            ),
            per_namespace=False,
        )

    def lint(self, obj: Object) -> Iterator[Mistake]:
        name, spec = obj.ref.name, spec_of(obj)
        if name and not is_namespace_name(name):
            yield Mistake("metadata.name", NAMESPACE_NAME_FORM, quoted(name))
        elif self.is_reserved(name):
            expected = "another name: this one is reserved, and no namespace is made of it"
            yield Mistake("metadata.name", expected, quoted(name))
        faulty = [mistake for fault in spec_faults(spec) for mistake in fault.mistakes]
        yield from faulty
        fields = {mistake.field for mistake in faulty}
        yield from (mistake for mistake in self._ignored_keys(spec) if mistake.field not in fields)

    def _ignored_keys(self, spec: Mapping[str, object]) -> Iterator[Mistake]:
        """The keys that the namespace never gets. Without a configuration, only the keys under `OWN` are known."""
        config = self.config
        admitted = {LABELS: config.sub_label_keys, ANNOTATIONS: config.sub_annotation_keys}
        settings = {LABELS: "subNamespaceLabelKeys", ANNOTATIONS: "subNamespaceAnnotationKeys"}
        for where, keys in admitted.items():
            for key in (key for key, value in _metadata(spec, where).items() if isinstance(value, str)):
                if key.startswith(OWN):
                    expected = f"another key: those under {' and '.join(OWN)} never reach a namespace this way"
                elif config != Config() and not keys.admits(key):
                    setting = f"vocabularies.{NAME}.{settings[where]}"
                    expected = f"a key that the setting {setting} lets through; any other is ignored"
                else:
                    continue
                yield Mistake(f"spec.{where}.{key}", expected, "a key that is not let through")

    def desired(self, source: Ref, view: View) -> Desired:
        """The namespace of one SubNamespace. Pruning deletes it."""
        obj, namespace = view.get(source), view.get(namespace_ref(source.name))

        # Without its SubNamespace a namespace stays, and so do all namespaces below it.
        if obj is None:
            return Desired(prune=False)
        if obj.deleting:
            return self._desired_while_deleting(source, namespace, view)

        # The finalizer is added only until the status is written for the first time.
        has_finalizer = _is_new(obj) or FINALIZER in obj.finalizers
        desired = self._desired_namespace(source, namespace, view)
        return replace(desired, prune=False, finalizer=FINALIZER if has_finalizer else None)

    def _desired_namespace(self, source: Ref, namespace: Object | None, view: View) -> Desired:
        ref = namespace_ref(source.name)

        # The namespace exists below this one. A terminating one is created again when it is gone.
        if namespace is not None and _is_child(namespace, source):
            return Desired() if namespace.deleting else Desired((Copy(ref, Template(UNAVAILABLE)),))

        # The name is reserved.
        if self.is_reserved(source.name):
            return Desired(blocked=(BlockedTarget(ref, "refused", _reserved(source.name)),))

        # Another namespace has the name.
        if namespace is not None:
            return Desired(blocked=(BlockedTarget(ref, "conflict", NAME_IS_TAKEN),))

        # The namespace does not exist. It is created if this one is in a tree.
        parent = view.get(namespace_ref(source.namespace))
        if parent is None or parent.deleting or not (is_root(parent) or parent_of(parent)):
            message = f"namespace {source.namespace} is neither a root nor a sub namespace"
            return Desired(blocked=(BlockedTarget(ref, "refused", message),))

        # It is not known yet what trusts its name. It is planned again when the missing kind has been listed.
        obj = view.get(source)
        if not view.is_trust_known() and not (obj is not None and _had_namespace(obj)):
            return Desired()

        # Its name is allowed. Admission has checked that, unless the webhook was down when this one was created.
        fault = self._name_fault(source, view)
        if fault is not None:
            return Desired(blocked=(BlockedTarget(ref, "refused", fault),))
        labels = {CREATED_BY: NAME, PARENT: source.namespace}
        return Desired((Copy(ref, Template(Content(), labels, adopt=Adopt.NEVER), by_name=True),))

    def _name_fault(self, source: Ref, view: View) -> str | None:
        """Why no namespace of this name is created, or None."""
        naming, obj = self.config.naming, view.get(source)
        fault = naming_fault(source, view, naming.refusal, self.is_strict) if naming.policies else None
        if fault is None and view.is_trust_known() and (obj is None or not _had_namespace(obj)):
            fault = trust_fault(source, view, naming.reserves, self.is_strict)
        return None if fault is None else str(fault)

    def _desired_while_deleting(self, source: Ref, namespace: Object | None, view: View) -> Desired:
        """The namespace is deleted if it is below this one, has no children, and this one is not being deleted.

        Deleting a parent namespace also deletes the SubNamespaces in it. That is not a request to delete the
        namespaces below it, so they stay unless cascading deletion is allowed.
        """
        reads = self._reads(source, namespace, view)
        is_confirmed = all(view.answer(query) is True for query in reads)
        if not is_confirmed or not self._deletes_namespace(source, namespace, view):
            return Desired(prune=False, finalizer=FINALIZER, reads=reads)
        if not self.cascading and has_children(source.name, view):
            blocked = BlockedTarget(namespace_ref(source.name), "refused", CHILDREN_EXIST)
            return Desired(prune=False, finalizer=FINALIZER, blocked=(blocked,), reads=reads)
        return Desired(finalizer=FINALIZER, reads=reads)

    def _reads(self, source: Ref, namespace: Object | None, view: View) -> tuple[NamespaceIsActive, ...]:
        """The query before a namespace is deleted with its SubNamespace: does the parent namespace stay?

        Namespaces and SubNamespaces arrive by different watches. If the watch of Namespaces is behind, the deletion of
        a parent looks like a deletion of the SubNamespaces in it.
        """
        if self.cascading or not self._deletes_namespace(source, namespace, view):
            return ()
        return (NamespaceIsActive(source.namespace),)

    def _deletes_namespace(self, source: Ref, namespace: Object | None, view: View) -> bool:
        """True if deleting the SubNamespace means deleting its namespace, as far as the cache knows."""
        if namespace is None or namespace.deleting or not _is_child(namespace, source):
            return False
        if self.is_reserved(source.name):
            return False  # the SubNamespace did not create it
        if is_in_loop(namespace, view):
            return False  # each namespace of a loop is below every other, so there is no parent to judge by
        parent = view.get(namespace_ref(source.namespace))
        return self.cascading or (parent is not None and not parent.deleting)

    def report(self, obj: Object, view: View, counts: CopyCounts) -> Mapping[str, object]:
        """The status of a SubNamespace. An empty one leaves the stored status as it is."""
        wanted = self._status(obj, view, counts)
        return {} if _is_as_original_reports(obj, wanted) else wanted

    def _status(self, obj: Object, view: View, counts: CopyCounts) -> Mapping[str, object]:
        namespace, name = view.get(namespace_ref(obj.ref.name)), obj.ref.name
        if obj.deleting:
            return self._status_while_deleting(obj, namespace, view, counts)
        fault = self._name_fault(obj.ref, view) if namespace is None else None
        if _is_new(obj) and FINALIZER not in obj.finalizers:
            return {}  # the finalizer comes first: once there is a status, it is not added any more
        if namespace is None and fault is None and not self.is_reserved(name):
            return _status_without_namespace(obj, counts)
        if namespace is not None and _is_child(namespace, obj.ref):
            # The status of a new SubNamespace must not say that a namespace was created that is going away.
            is_seen = not (namespace.deleting and _is_new(obj))
            observed = {"observedGeneration": obj.generation} if is_seen else {}
            return {**observed, "conditions": [_ready(obj, namespace)]}
        if self.is_reserved(name):
            return _stalled(obj, "Reserved", _reserved(name))
        if fault is not None:
            return _stalled(obj, "Refused", fault)
        return _stalled(obj, "Conflict", NAME_IS_TAKEN)

    def _status_while_deleting(
        self, obj: Object, namespace: Object | None, view: View, counts: CopyCounts
    ) -> Mapping[str, object]:
        """Says why the namespace is not deleted yet, and what to do. Removes such a condition if it no longer holds."""
        name = obj.ref.name
        is_pending = FINALIZER in obj.finalizers and self._deletes_namespace(obj.ref, namespace, view)
        if namespace is not None and is_pending:
            problem = counts.removals.get(namespace.ref)
            if not self.cascading and has_children(name, view):
                return _stalled(
                    obj, "ChildrenExist", f"{CHILDREN_EXIST} below {name}: delete them or move them elsewhere"
                )
            if is_paused(namespace):
                return _stalled(obj, "Held", f"namespace {name} is paused: remove {PAUSED} from it")
            if problem is not None and problem.reason == "held":
                return _stalled(
                    obj, "Held", f"{problem.message}: `samara release {Key(SUB, obj.ref)}` lets it continue"
                )
            if problem is not None:
                return _stalled(obj, "Refused", problem.shown(namespace.ref))
        reasons = {stored.get("reason") for stored in status_of(obj).get("conditions") or ()}
        return {} if reasons.isdisjoint(DELETION_REASONS) else {"observedGeneration": obj.generation}


def origin(obj: Object, view: View) -> Ref | None:
    """The SubNamespace of a namespace with a parent, whether it exists or not."""
    parent = parent_of(obj) if obj.ref.kind == NAMESPACE else ""
    return Ref(SUB_NAMESPACE, parent, obj.ref.name) if parent else None


def affected_by(obj: Object, view: View) -> Iterable[Ref]:
    """For a Namespace: the SubNamespaces in it, and that of its parent, which waits until its last child is gone."""
    if obj.ref.kind != NAMESPACE:
        return ()
    parent = view.get(namespace_ref(parent_of(obj))) if parent_of(obj) else None
    sub_of_parent = origin(parent, view) if parent is not None else None
    return (*view.sources(SUB, obj.ref.name), *((sub_of_parent,) if sub_of_parent is not None else ()))


def _is_child(namespace: Object, source: Ref) -> bool:
    """True if the parent of the namespace is the namespace that holds the SubNamespace."""
    return parent_of(namespace) == source.namespace


def _is_new(obj: Object) -> bool:
    return "observedGeneration" not in status_of(obj)


def _had_namespace(obj: Object) -> bool:
    """True if the status says that this SubNamespace has, or had, its namespace. It may be created again then."""
    is_stalled = any(stored.get("type") == STALLED for stored in status_of(obj).get("conditions") or ())
    return not _is_new(obj) and not is_stalled


def _is_as_original_reports(obj: Object, wanted: Mapping[str, object]) -> bool:
    """True if the stored status lacks only the condition Ready, which the original controller does not know.

    It stays as it is, so that taking over writes nothing.
    """
    stored, conditions = status_of(obj), wanted.get("conditions")
    if not isinstance(conditions, list) or stored.get("observedGeneration") != wanted.get("observedGeneration"):
        return False
    known = [entry for entry in conditions if entry["type"] != READY]
    is_well = all(entry["status"] == "True" for entry in conditions)
    reported = [entry for entry in stored.get("conditions") or () if entry.get("type") in CONDITIONS]
    without_times = [{key: entry[key] for key in entry if key != "lastTransitionTime"} for entry in reported]
    return (is_well or bool(known)) and without_times == known


def _reserved(name: str) -> str:
    return f"The name {name} is reserved"


def _ready(obj: Object, namespace: Object) -> Mapping[str, object]:
    name, generation = namespace.ref.name, obj.generation
    if namespace.deleting:
        message = f"namespace {name} is being deleted; it is created again once it is gone"
        return condition(READY, False, "Terminating", message, generation)
    return condition(READY, True, "Created", f"namespace {name} exists below {obj.ref.namespace}", generation)


def _status_without_namespace(obj: Object, counts: CopyCounts) -> Mapping[str, object]:
    """Why the namespace cannot be created. The generation counts as observed only once it has been created."""
    observed = {key: value for key, value in status_of(obj).items() if key == "observedGeneration"}
    for reason, problems in counts.by_reason().items():
        for ref, problem in problems.items():
            message = f"namespace {ref.name} cannot be created: {problem.shown(ref)}"
            shown = reason.title().replace("-", "")
            return {**observed, "conditions": [condition(READY, False, shown, message, obj.generation)]}
    return {}


def _stalled(obj: Object, reason: str, message: str) -> Mapping[str, object]:
    generation = obj.generation
    return {
        "observedGeneration": generation,
        "conditions": [
            condition(READY, False, reason, message, generation),
            condition(STALLED, True, reason, message, generation),
        ],
    }


def naming_fault(sub: Ref, view: View, refusal: NamingRefusal, is_strict: bool = False) -> Refused | Undecidable | None:
    """Why the naming policies forbid the name of a SubNamespace. None if they do not.

    Under `tenancy: strict` the message names neither the root nor the policy, which show how others are named.
    """
    root = root_above(sub.namespace, view, is_strict)
    if isinstance(root, Refused):
        return root
    try:
        policy = refusal(sub.name, root)
    except ValueError as fault:
        return Undecidable("the naming policies cannot be applied" + ("" if is_strict else f": {fault}"))
    if policy is None:
        return None
    reason = "" if is_strict else f" root={root} denied policy - root={policy[0]} match={policy[1]}"
    details = f"target={sub.name}{reason}"
    return Refused(f"namespace {sub.namespace} is not match naming policies: namespace - {details}")


def trust_fault(
    sub: Ref, view: View, is_reserved_for: NameReservation, is_strict: bool = False
) -> Refused | Undecidable | None:
    """Why the name of a SubNamespace must not be used: its namespace would get what others mean for another one.

    None if nothing trusts the name, or if the naming policies reserve it for the root of this tree.
    """
    if not view.is_trust_known():
        return Undecidable(f"it is not known yet what trusts the name {sub.name}: not every source has been listed")
    trust = next((trust for trust in view.trust_in(sub.name) if _holds(trust, view)), None)
    if trust is None:
        return None
    root = root_above(sub.namespace, view)
    roots = (namespace.ref.name for namespace in view.objects_of(NAMESPACE) if is_root(namespace))
    if not isinstance(root, Refused) and is_reserved_for(sub.name, root, roots):
        return None
    advice = "choose another name, or let an administrator reserve it for this tree (setting namingPolicies)"
    return Refused(f"the name {sub.name} is trusted already: {trust.shown(sub.namespace, is_strict)}; {advice}")


def _holds(trust: Trust, view: View) -> bool:
    """The first answer is from the cache. Admission asks again about the object that it has read live since."""
    return isinstance(trust.by, str) or trust.holds(view.get(trust.by))


def root_above(name: str, view: View, is_strict: bool = False) -> str | Refused:
    """The name of the nearest ancestor that is a root. A `Refused` if there is none.

    Under `tenancy: strict` it names only the namespace below, which its readers know.
    """
    root = _root_above(name, view)
    if isinstance(root, Refused) and is_strict:
        return Refused(f"namespace {name} is not found to be below a root")
    return root


def _root_above(name: str, view: View) -> str | Refused:
    seen: set[str] = set()
    while name not in seen:
        seen.add(name)
        namespace = view.get(namespace_ref(name))
        if namespace is None:
            return Refused(f"namespace {name} is not found")
        if is_root(namespace):
            return name
        if not parent_of(namespace):
            return Refused(f"namespace {name} is not found to be a root or a sub namespace")
        name = parent_of(namespace)
    return Refused(CIRCULAR)


def spec_of(sub: Object) -> Mapping[str, object]:
    """The spec of a SubNamespace. One that cannot be read counts as empty."""
    content = sub.content.get("spec")
    try:
        spec = json.loads((content.raw if content is not None else None) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return spec if isinstance(spec, Mapping) else {}


def spec_faults(spec: Mapping[str, object]) -> Iterator[Fault]:
    """Every fault of the labels and annotations for the namespace, with the messages of the API server."""
    labels, annotations = _metadata(spec, LABELS), _metadata(spec, ANNOTATIONS)
    for key, value in labels.items():
        if not is_label_key(key):
            yield _invalid(LABELS, key, key, "the key of a label")
        if not isinstance(value, str) or (value and not is_label_value(value)):
            yield _invalid(LABELS, key, value, "the value of a label", LABEL_VALUE_FORM)
    for key in annotations:
        if not is_label_key(key.lower()):
            yield _invalid(ANNOTATIONS, key, key, "the key of an annotation")
    size = sum(len(text.encode(errors="replace")) for item in annotations.items() for text in map(str, item))
    if size > MAX_ANNOTATION_BYTES:
        message = f"spec.annotations: Too long: at most {MAX_ANNOTATION_BYTES} bytes were expected, found {size}"
        mistake = Mistake("spec.annotations", f"at most {MAX_ANNOTATION_BYTES} bytes", str(size))
        yield Fault("Invalid", message, "spec.annotations", (mistake,))


def _invalid(where: str, key: str, value: object, expected: str, form: str = "") -> Fault:
    """`form` describes the expected value in more detail than the message of the API server."""
    message = f"spec.{where}: Invalid value: {_quoted(str(value))}: {expected} was expected"
    path = f"spec.{where}.{key}"
    # The schema of the CRD reports a value that is not a string.
    mistakes = (Mistake(path, form or expected, quoted(value)),) if isinstance(value, str) else ()
    return Fault("Invalid", message, path, mistakes)


def _quoted(text: str) -> str:
    """Quotes like the API server, so that `redact` can cut the rejected value out of a message."""
    return json.dumps(text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}...")


def _metadata(spec: Mapping[str, object], name: str) -> Mapping[str, object]:
    metadata = spec.get(name)
    return metadata if isinstance(metadata, Mapping) else {}
