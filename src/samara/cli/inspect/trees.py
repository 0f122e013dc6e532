"""Builds trees and templates of namespaces with the objects that are propagated in them. Finds faults. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from samara.cli.inspect.namespaces import Namespace, Object
from samara.core.label_selectors import Selector
from samara.core.model import Kind
from samara.vocabularies.accurate.labels import (
    CREATE,
    CREATED_BY,
    FROM,
    IS_TEMPLATE,
    PARENT,
    PROPAGATE,
    ROLES,
    ROOT,
    TEMPLATE,
    TYPE,
    UPDATE,
)

_NOT_INHERITED = frozenset({PARENT, CREATED_BY})
"""The operator applies these to every sub-namespace itself."""


class Propagation(NamedTuple):
    """One object in one namespace that is a copy, or is propagated, or both."""

    kind: Kind
    name: str
    mode: str
    origin: str
    """The namespace that it was copied from, or empty."""
    is_stale: bool = False
    """True if the namespace does not inherit from `origin`, or not any more."""
    present: int = 0
    """The number of namespaces below that have their copy."""
    missing: tuple[str, ...] = ()
    """Namespaces below without a copy."""
    occupied: tuple[str, ...] = ()
    """Namespaces below in which another object has the name."""

    @property
    def is_passed_on(self) -> bool:
        return self.mode in (CREATE, UPDATE)

    @property
    def is_wrong(self) -> bool:
        """True if a person has to do something about this object or about one of its copies."""
        return bool(self.is_stale or self.missing or self.occupied or (self.mode and not self.is_passed_on))

    def as_json(self) -> dict[str, Any]:
        copies = {"there": self.present, "missing": list(self.missing), "others": list(self.occupied)}
        return {
            "kind": str(self.kind),
            "name": self.name,
            "mode": self.mode or None,
            "from": self.origin or None,
            "stale": self.is_stale,
            "copies": copies if self.is_passed_on else None,
        }


@dataclass(frozen=True, slots=True)
class Node:
    """One namespace in its tree."""

    namespace: Namespace
    faults: list[str] = field(default_factory=list)
    propagations: list[Propagation] = field(default_factory=list)

    @property
    def role(self) -> str:
        labels = self.namespace.labels
        type_ = labels.get(TYPE)
        roles = [type_] if type_ in (ROOT, IS_TEMPLATE) else []
        if labels.get(PARENT):
            roles = ["sub-namespace"]
        elif labels.get(TEMPLATE):
            roles.append(f"instance of {labels[TEMPLATE]}")
        return ", ".join(roles) or "plain"

    @property
    def labels(self) -> list[str]:
        return [key for key in self.namespace.inherited_labels if key not in _NOT_INHERITED]

    @property
    def annotations(self) -> list[str]:
        return list(self.namespace.inherited_annotations)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.namespace.name,
            "role": self.role,
            "deleting": self.namespace.is_terminating,
            "faults": self.faults,
            "labels": self.labels,
            "annotations": self.annotations,
            "objects": [propagation.as_json() for propagation in self.propagations],
            "children": [],
        }


class Forest(NamedTuple):
    """All namespaces that belong to a tree or to a template."""

    nodes: dict[str, Node]
    children: dict[str, list[str]]
    tops: list[str]

    def top_names(self, top: str | None = None) -> list[str]:
        """The given namespace, or the tops of all trees. Empty if there is nothing to show."""
        if top is None:
            return self.tops
        return [top] if top in self.nodes else []

    def names(self, top: str | None = None) -> list[str]:
        """Every namespace from the tops down, each once. Not recursive: a chain may be longer than the stack."""
        names: dict[str, None] = {}
        waiting = sorted(self.top_names(top), reverse=True)
        while waiting:
            name = waiting.pop()
            if name not in names:
                names[name] = None
                waiting += sorted(self.children.get(name, ()), reverse=True)
        return list(names)

    def as_json(self, top: str | None = None) -> list[dict[str, Any]]:
        """Nested nodes. A loop is cut where it closes."""
        tops = self.top_names(top)
        nodes = {name: self.nodes[name].as_json() for name in self.names(top)}
        linked = set(tops)
        for name, node in nodes.items():
            children = [child for child in self.children.get(name, ()) if child not in linked]
            linked.update(children)
            node["children"] = [nodes[child] for child in sorted(children)]
        return [nodes[name] for name in sorted(tops)]


def with_labels(forest: Forest, selector: Selector) -> Forest:
    """The namespaces that have the labels, and those above them, without which they would be in no tree."""
    kept: set[str] = set()
    for name, node in forest.nodes.items():
        above = name if selector.matches(node.namespace.labels) else ""
        while above in forest.nodes and above not in kept:
            kept.add(above)
            above = parent_or_template(forest.nodes[above].namespace)
    nodes = {name: node for name, node in forest.nodes.items() if name in kept}
    children = {
        name: below for name in kept if (below := [child for child in forest.children.get(name, ()) if child in kept])
    }
    return Forest(nodes, children, [name for name in forest.tops if name in kept])


def parent_or_template(namespace: Namespace) -> str:
    """The namespace that this one inherits from: its parent, else its template, else nothing."""
    return namespace.labels.get(PARENT) or namespace.labels.get(TEMPLATE) or ""


def build_forest(namespaces: Iterable[Namespace], root: str = "") -> Forest:
    """The trees and templates, with the faults of each namespace. `root` is included even outside of any tree."""
    by_name = {namespace.name: namespace for namespace in namespaces}
    children: dict[str, list[str]] = {}
    for namespace in by_name.values():
        if above := parent_or_template(namespace):
            children.setdefault(above, []).append(namespace.name)
    nodes = {
        name: Node(namespace)
        for name, namespace in by_name.items()
        if name == root or name in children or any(key in namespace.labels for key in ROLES)
    }
    for node in nodes.values():
        node.faults.extend(_find_faults(node.namespace, by_name))
    tops = [name for name, node in nodes.items() if parent_or_template(node.namespace) not in by_name]
    for loop in loops(by_name):
        tops.append(min(loop))
        for name in loop:
            nodes[name].faults.append(f"a loop: {' → '.join((*loop, loop[0]))}")
    return Forest(nodes, children, tops)


def loops(namespaces: Mapping[str, Namespace]) -> Iterator[list[str]]:
    """Every loop of namespaces that inherit from one another, from each namespace to the one above it."""
    visited: set[str] = set()
    for start in sorted(namespaces):
        path: dict[str, None] = {}
        name = start
        while name in namespaces and name not in visited and name not in path:
            path[name] = None
            name = parent_or_template(namespaces[name])
        if name in path:
            names = list(path)
            yield names[names.index(name) :]
        visited.update(path)


def _find_faults(namespace: Namespace, namespaces: Mapping[str, Namespace]) -> Iterator[str]:
    labels = namespace.labels
    parent = labels.get(PARENT)
    for key in (PARENT, TEMPLATE):
        if labels.get(key) == "":
            yield f"the label {key} is empty: it names no namespace"
    if labels.get(TYPE, ROOT) not in (ROOT, IS_TEMPLATE):
        yield f"the label {TYPE} is {labels[TYPE]!r}; expected {ROOT} or {IS_TEMPLATE}"
    if parent:
        yield from (f"a sub-namespace, so the label {key} is ignored" for key in (TYPE, TEMPLATE) if key in labels)
        yield from _upstream_faults("parent", namespaces.get(parent), parent, ROOT)
    elif template := labels.get(TEMPLATE):
        yield from _upstream_faults("template", namespaces.get(template), template, IS_TEMPLATE)


def _upstream_faults(relation: str, above: Namespace | None, name: str, type_: str) -> Iterator[str]:
    if above is None:
        yield f"its {relation} {name} does not exist"
    elif type_ == ROOT and above.labels.get(TYPE) != ROOT and not above.labels.get(PARENT):
        yield f"its parent {name} is neither a root nor a sub-namespace"
    elif type_ == IS_TEMPLATE and above.labels.get(TYPE) != IS_TEMPLATE:
        yield f"its template {name} is not of the type {IS_TEMPLATE}"


def add_propagations(forest: Forest, kind: Kind, objects: Iterable[Object]) -> None:
    """Adds to every namespace its objects of a kind that are copies or are propagated, and how many copies exist."""
    by_namespace: dict[str, dict[str, Object]] = {}
    for obj in objects:
        if obj.namespace in forest.nodes:
            by_namespace.setdefault(obj.namespace, {})[obj.name] = obj
    for namespace, named in by_namespace.items():
        node = forest.nodes[namespace]
        below = sorted(
            child for child in forest.children.get(namespace, ()) if not forest.nodes[child].namespace.is_terminating
        )
        node.propagations.extend(
            _propagation(kind, named[name], parent_or_template(node.namespace), below, by_namespace)
            for name in sorted(named)
            if named[name].annotations.get(PROPAGATE) or named[name].annotations.get(FROM)
        )


def _propagation(
    kind: Kind, obj: Object, above: str, below: list[str], by_namespace: Mapping[str, Mapping[str, Object]]
) -> Propagation:
    origin, mode = obj.annotations.get(FROM, ""), obj.annotations.get(PROPAGATE, "")
    propagation = Propagation(kind, obj.name, mode, origin, is_stale=bool(origin) and origin != above)
    if not propagation.is_passed_on:
        return propagation
    candidates = {child: by_namespace.get(child, {}).get(obj.name) for child in below}
    present = {
        child
        for child, candidate in candidates.items()
        if candidate is not None and candidate.annotations.get(FROM) == obj.namespace
    }
    missing = tuple(child for child, candidate in candidates.items() if candidate is None)
    occupied = tuple(child for child, candidate in candidates.items() if candidate is not None and child not in present)
    return propagation._replace(present=len(present), missing=missing, occupied=occupied)


class Branch(NamedTuple):
    """One line of a drawn tree."""

    prefix: str
    """The lines and spaces in front of the name."""
    details_prefix: str
    """The lines and spaces in front of details about this node, on the lines below its name."""
    name: str
    closes_loop: bool = False
    """True if the node is its own ancestor. The loop is not followed further."""


_FORK, _LAST, _BAR, _GAP = "├── ", "└── ", "│   ", "    "


def draw_branches(tops: Iterable[str], children: Callable[[str], Sequence[str]]) -> Iterator[Branch]:
    """Every node below the tops, depth first. Not recursive: a chain may be longer than the stack."""
    above: set[str] = set()
    waiting: list[tuple[str, str, bool] | None] = [*_siblings(sorted(tops), "")]
    path: list[str] = []
    while waiting:
        step = waiting.pop()
        if step is None:  # everything below the last node of the path is drawn
            above.discard(path.pop())
            continue
        name, indent, is_last = step
        inner = indent + (_GAP if is_last else _BAR)
        if name in above:
            yield Branch(indent + (_LAST if is_last else _FORK), inner, name, closes_loop=True)
            continue
        below = sorted(children(name))
        yield Branch(indent + (_LAST if is_last else _FORK), inner + (_BAR if below else _GAP), name)
        above.add(name)
        path.append(name)
        waiting += [None, *_siblings(below, inner)]


def _siblings(names: Sequence[str], indent: str) -> Iterator[tuple[str, str, bool]]:
    """In reverse, since the caller pops from the end."""
    return ((name, indent, number == 0) for number, name in enumerate(reversed(names)))


_AFTER_EVERY_NAME = "\uffff"
"""The start of a name that sorts behind every name of a namespace."""


class Folding:
    """Limits how many children of a namespace are shown: those with faults first."""

    def __init__(self, forest: Forest, most: int) -> None:
        self._forest = forest
        self._most = most
        self.summaries: dict[str, str] = {}
        """What to print in place of the children that are left out, by the name that stands for them."""

    def shown(self, above: str, names: Sequence[str]) -> Sequence[str]:
        """The names to draw below a namespace. The last one stands for those that are left out."""
        if len(names) <= self._most:
            return names
        ordered = sorted(names, key=lambda name: (name not in self._faulty, name))
        left_out = ordered[self._most :]
        faulty = sum(name in self._faulty for name in left_out)
        about = f", {faulty:,} of them with problems" if faulty else ""
        placeholder = f"{_AFTER_EVERY_NAME}{above}"
        self.summaries[placeholder] = f"… and {len(left_out):,} more{about}; --all shows them"
        return [*ordered[: self._most], placeholder]

    @cached_property
    def _faulty(self) -> set[str]:
        """The namespaces with a fault in them or below them."""
        parents = {child: name for name, children in self._forest.children.items() for child in children}
        faulty: set[str] = set()
        for name, node in self._forest.nodes.items():
            has_fault = node.faults or any(propagation.is_wrong for propagation in node.propagations)
            ancestor: str | None = name if has_fault else None
            while ancestor is not None and ancestor not in faulty:
                faulty.add(ancestor)
                ancestor = parents.get(ancestor)
        return faulty
