"""The labels and annotations of namespace trees, and how namespaces are related by them."""

from __future__ import annotations

from collections.abc import Iterator

from samara.core import metadata_keys
from samara.core.model import Kind, Object, namespace_ref
from samara.core.view import View

NAME = "accurate"
GROUP = "accurate.cybozu.com"
SUB_NAMESPACE = Kind(GROUP, "v2", "SubNamespace", "subnamespaces")
FINALIZER = f"{GROUP}/finalizer"
ACCURATE_MANAGER = "accurate-controller"
"""The original's field manager. Samara applies labels under the same name, so taking over writes nothing."""

TYPE = f"{GROUP}/type"
TEMPLATE = f"{GROUP}/template"
PARENT = f"{GROUP}/parent"
CREATED_BY = metadata_keys.CREATED_BY
ROLES = (TYPE, TEMPLATE, PARENT)
ROOT = "root"
"""The value of `TYPE` on the top of a tree."""
IS_TEMPLATE = "template"

PROPAGATE = f"{GROUP}/propagate"
FROM = f"{GROUP}/from"
PROPAGATE_GENERATED = f"{GROUP}/propagate-generated"
GENERATED = f"{GROUP}/generated"
CREATE, UPDATE = "create", "update"


def parent_of(namespace: Object) -> str:
    """The name of the parent namespace. Empty if there is none; an empty label counts as none."""
    return namespace.labels.get(PARENT, "")


def template_of(namespace: Object) -> str:
    """The name of the template. Empty if there is none. The template label of a sub-namespace is ignored."""
    return "" if parent_of(namespace) else namespace.labels.get(TEMPLATE, "")


def parent_or_template(namespace: Object) -> str:
    """The name of the namespace from which this one inherits: its parent, else its template, else empty."""
    return parent_of(namespace) or template_of(namespace)


def is_root(namespace: Object) -> bool:
    return namespace.labels.get(TYPE) == ROOT


def is_template(namespace: Object) -> bool:
    return namespace.labels.get(TYPE) == IS_TEMPLATE


def children_of(name: str, view: View) -> Iterator[Object]:
    """The sub-namespaces in view whose parent is this namespace."""
    return iter(view.namespaces_with_label(PARENT, name))


def has_children(name: str, view: View) -> bool:
    """True if another namespace names this one as its parent. A namespace that names itself is not its own child."""
    return any(child.ref.name != name for child in children_of(name, view))


def instances_of(name: str, view: View) -> Iterator[Object]:
    """The namespaces in view whose template label names this one, including sub-namespaces."""
    return iter(view.namespaces_with_label(TEMPLATE, name))


def downstream_of(name: str, view: View) -> Iterator[Object]:
    """The namespaces in view that inherit from this one."""
    yield from children_of(name, view)
    yield from (instance for instance in instances_of(name, view) if not parent_of(instance))


def ancestors(namespace: Object, view: View) -> Iterator[str]:
    """The names of its parent or template, of that one's parent or template, and so on. Ends when a name repeats."""
    seen = {namespace.ref.name}
    above = parent_or_template(namespace)
    while above:
        yield above
        if above in seen:
            return
        seen.add(above)
        upstream = view.get(namespace_ref(above))
        above = parent_or_template(upstream) if upstream is not None else ""


def root_of(name: str, view: View) -> str:
    """The namespace at the top of the tree of this one: the last that a chain of parents names. Ends in a loop, too."""
    seen = {name}
    while (namespace := view.get(namespace_ref(name))) is not None and parent_of(namespace):
        name = parent_of(namespace)
        if name in seen:
            break
        seen.add(name)
    return name


def is_in_loop(namespace: Object, view: View) -> bool:
    """True if a namespace is in a loop of parents and templates, or below one."""
    names = [namespace.ref.name, *ancestors(namespace, view)]
    return len(set(names)) < len(names)


def affected_namespaces(namespace: Object, view: View) -> Iterator[Object]:
    """The namespaces to reconcile when this one changes: those directly below, and in a loop also all below them."""
    level = tuple(downstream_of(namespace.ref.name, view))
    seen = {member.ref for member in level}
    yield from level
    while level and is_in_loop(namespace, view):
        below = (child for member in level for child in downstream_of(member.ref.name, view))
        level = tuple({child.ref: child for child in below if child.ref not in seen}.values())
        seen.update(child.ref for child in level)
        yield from level
