"""The keys of namespace trees, and the relations between namespaces that they make."""

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
"""The original's field manager: ownership of a key is per field manager, so taking over writes nothing."""

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
    """The name of the parent, or nothing; an empty label is none."""
    return namespace.labels.get(PARENT, "")


def template_of(namespace: Object) -> str:
    """The name of the template that counts: a sub-namespace has none, whatever its label says."""
    return "" if parent_of(namespace) else namespace.labels.get(TEMPLATE, "")


def parent_or_template(namespace: Object) -> str:
    """The namespace from which this one inherits: its parent, else its template, else nothing."""
    return parent_of(namespace) or template_of(namespace)


def is_root(namespace: Object) -> bool:
    return namespace.labels.get(TYPE) == ROOT


def is_template(namespace: Object) -> bool:
    return namespace.labels.get(TYPE) == IS_TEMPLATE


def children_of(name: str, view: View) -> Iterator[Object]:
    """The sub-namespaces in sight whose parent is this namespace."""
    return iter(view.namespaces_with_label(PARENT, name))


def has_children(name: str, view: View) -> bool:
    """One that names itself, since nobody stopped it, is not its own child."""
    return any(each.ref.name != name for each in children_of(name, view))


def instances_of(name: str, view: View) -> Iterator[Object]:
    """The namespaces in sight whose template label names this one, sub-namespaces among them."""
    return iter(view.namespaces_with_label(TEMPLATE, name))


def downstream_of(name: str, view: View) -> Iterator[Object]:
    """The namespaces in sight that inherit from this one."""
    yield from children_of(name, view)
    yield from (each for each in instances_of(name, view) if not parent_of(each))


def ancestors(namespace: Object, view: View) -> Iterator[str]:
    """The names upwards from a namespace: of its upstream, of that one's, and so on; a loop ends where it closes."""
    seen = {namespace.ref.name}
    above = parent_or_template(namespace)
    while above:
        yield above
        if above in seen:
            return
        seen.add(above)
        found = view.get(namespace_ref(above))
        above = parent_or_template(found) if found is not None else ""


def is_in_loop(namespace: Object, view: View) -> bool:
    """True where going upwards from a namespace never ends."""
    names = [namespace.ref.name, *ancestors(namespace, view)]
    return len(set(names)) < len(names)


def affected_namespaces(namespace: Object, view: View) -> Iterator[Object]:
    """The namespaces in sight whose place changes with this one's: the next below, and all where a loop is or was."""
    near = tuple(downstream_of(namespace.ref.name, view))
    seen = {each.ref for each in near}
    yield from near
    while near and is_in_loop(namespace, view):
        below = (each for above in near for each in downstream_of(above.ref.name, view))
        near = tuple({each.ref: each for each in below if each.ref not in seen}.values())
        seen.update(each.ref for each in near)
        yield from near
