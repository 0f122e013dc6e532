"""The admission webhook refuses a change of a Namespace or SubNamespace that breaks a rule of the trees.

Messages are the original's, because people and scripts search for them. A rule that only Samara has is not applied to
a value that the change leaves as it is: the original may have accepted that value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from samara.core.admission import PatchOperation, Refused, Request, Undecidable
from samara.core.model import Field, Object, namespace_ref
from samara.core.view import View
from samara.vocabularies.accurate.labels import (
    FINALIZER,
    IS_TEMPLATE,
    PARENT,
    ROOT,
    TEMPLATE,
    TYPE,
    ancestors,
    has_children,
    instances_of,
    is_root,
    is_template,
    parent_of,
    template_of,
)
from samara.vocabularies.accurate.sub import (
    CHILDREN_EXIST,
    NameReservation,
    NamingRefusal,
    naming_fault,
    root_above,
    spec_faults,
    spec_of,
    trust_fault,
)
from samara.vocabularies.accurate.tree import CIRCULAR, role_faults

LOOP = Refused(CIRCULAR)
CHILDREN = Refused(CHILDREN_EXIST)
Faults = Iterator[str]


@dataclass(frozen=True, slots=True)
class AdmitRules:
    """The settings that admission depends on."""

    naming_refusal: NamingRefusal
    is_reserved_for: NameReservation
    is_reserved: Callable[[str], bool]
    """True for names that never become a sub-namespace."""
    allow_cascading: bool = False
    is_strict: bool = False
    """True if messages must not show tenants the names of namespaces that they did not name themselves."""


def admit_namespace(request: Request, view: View, rules: AdmitRules) -> tuple[str, ...]:
    """The first rule that the change of a Namespace breaks."""
    new, old = request.new, request.old
    if new is None:
        return () if old is None or old.deleting else _first(_namespace_deletion_faults(old, view, rules))
    if new.deleting:
        return ()
    update_faults = _update_faults(old, new, view, rules) if old is not None else iter(())
    return _first(chain(update_faults, _label_faults(old, new, view)))


def admit_sub_namespace(request: Request, view: View, rules: AdmitRules) -> tuple[str, ...]:
    """The first rule that the change of a SubNamespace breaks, or every fault of its spec."""
    new, old = request.new, request.old
    if new is None:
        return () if old is None or old.deleting else _first(_sub_deletion_faults(old, view, rules))
    if new.deleting or (old is not None and _spec(old) == _spec(new)):
        return ()  # an unchanged spec is not validated again
    return (
        _first(_location_faults(new, view))
        or tuple(Refused(fault.message) for fault in spec_faults(spec_of(new)))
        or _first(_name_faults(old, new, view, rules))
    )


def add_finalizer(request: Request) -> tuple[PatchOperation, ...]:
    """Adds our finalizer to those that a new SubNamespace has."""
    new = request.new
    if request.operation != "CREATE" or new is None or FINALIZER in new.finalizers:
        return ()
    return (PatchOperation("add", "/metadata/finalizers", [*new.finalizers, FINALIZER]),)


def _first(faults: Iterable[str]) -> tuple[str, ...]:
    return tuple(islice(faults, 1))


# Namespaces


def _update_faults(old: Object, new: Object, view: View, rules: AdmitRules) -> Faults:
    """In an update, every ancestor exists, and no child or instance loses its parent or template."""
    yield from _ancestor_faults(new, view, rules)
    name, orphans = new.ref.name, Refused(f"there are sub-namespaces under {new.ref.name}")
    if old.labels.get(TYPE) != new.labels.get(TYPE):
        if is_root(old) and has_children(old.ref.name, view):
            yield orphans
        if is_template(old) and _has_instances(old, view):
            yield Refused(f"there are namespaces referencing {name}")
    if parent_of(old) and not parent_of(new) and not is_root(new) and has_children(old.ref.name, view):
        yield orphans


def _ancestor_faults(new: Object, view: View, rules: AdmitRules) -> Faults:
    above = list(ancestors(new, view))
    if above and above[-1] in (new.ref.name, *above[:-1]):
        yield LOOP
    elif above and view.get(namespace_ref(above[-1])) is None:
        is_named = not rules.is_strict or len(above) == 1
        yield Refused(f"parent namespace does not exist{f': {above[-1]}' if is_named else ', further up in its tree'}")


def _label_faults(old: Object | None, new: Object, view: View) -> Faults:
    """The labels must agree with each other and with the namespaces that they name."""
    yield from (Refused(fault.message) for fault in role_faults(new))
    if parent_of(new):
        yield from _parent_faults(new, view)
    elif template_of(new):
        yield from _template_faults(old, new, view)
    old_labels = old.labels if old is not None else {}
    for label in (PARENT, TEMPLATE):
        if new.labels.get(label) == "" and old_labels.get(label) != "":
            yield Refused(f"{label} is empty: name a namespace or remove the label")


def _parent_faults(new: Object, view: View) -> Faults:
    name = parent_of(new)
    parent = view.get(namespace_ref(name))
    if parent is None:
        yield _missing(name)
    elif not is_root(parent) and not parent_of(parent):
        yield _invalid(name, ROOT)


def _template_faults(old: Object | None, new: Object, view: View) -> Faults:
    name = template_of(new)
    template = view.get(namespace_ref(name))
    if template is None:
        yield _missing(name)
    elif parent_of(template):
        if old is None or template_of(old) != name:
            yield _invalid(name, IS_TEMPLATE)
    elif not is_template(template):
        yield _invalid(name, IS_TEMPLATE)


def _missing(name: str) -> Refused:
    return Refused(f"namespace does not exist: {name}")


def _invalid(name: str, role: str) -> Refused:
    return Refused(f"{name} is not a valid {role} namespace")


def _namespace_deletion_faults(old: Object, view: View, rules: AdmitRules) -> Faults:
    """A template with instances stays, also with cascading deletion, which does not delete the instances."""
    if is_template(old) and _has_instances(old, view):
        yield CHILDREN
    if (is_root(old) or parent_of(old)) and not rules.allow_cascading and has_children(old.ref.name, view):
        yield CHILDREN


def _has_instances(namespace: Object, view: View) -> bool:
    return any(instance.ref != namespace.ref for instance in instances_of(namespace.ref.name, view))


# SubNamespaces


def _location_faults(new: Object, view: View) -> Faults:
    """A SubNamespace must be in a namespace of a tree."""
    namespace = view.get(namespace_ref(new.ref.namespace))
    if namespace is None:
        yield Undecidable(f"namespace {new.ref.namespace} cannot be read")
    elif not is_root(namespace) and not parent_of(namespace):
        yield Refused(f"namespace {new.ref.namespace} is neither a root nor a sub namespace")


def _name_faults(old: Object | None, new: Object, view: View, rules: AdmitRules) -> Faults:
    """The name is validated on creation only, so that a later change of the spec is not refused for its name."""
    if old is not None:
        root = root_above(new.ref.namespace, view, rules.is_strict)
        if isinstance(root, Refused):
            yield root
        return
    fault = naming_fault(new.ref, view, rules.naming_refusal, rules.is_strict)
    if fault is not None:
        yield fault
    if rules.is_reserved(new.ref.name):
        yield Refused(f"namespace {new.ref.name} is reserved: a sub-namespace cannot have this name")
    namespace = view.get(namespace_ref(new.ref.name))
    if namespace is None or namespace.deleting or parent_of(namespace) != new.ref.namespace:
        trusted = trust_fault(new.ref, view, rules.is_reserved_for, rules.is_strict)
        if trusted is not None:
            yield trusted


def _sub_deletion_faults(old: Object, view: View, rules: AdmitRules) -> Faults:
    namespace = view.get(namespace_ref(old.ref.name))
    is_child = namespace is not None and parent_of(namespace) == old.ref.namespace
    if is_child and not rules.allow_cascading and has_children(old.ref.name, view):
        yield CHILDREN


def _spec(obj: Object) -> Field | None:
    return obj.content.get("spec")
