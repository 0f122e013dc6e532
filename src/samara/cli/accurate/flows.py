"""What flows along trees and templates: who inherits from whom, which objects travel, where they are missing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from samara.cli.accurate.space import Space, Thing
from samara.core.model import Kind
from samara.dialects.accurate.words import (
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

_OWN = frozenset({PARENT, CREATED_BY})
"""Applied to every sub-namespace, and inherited from nobody."""


class Flow(NamedTuple):
    """One object in one namespace that is a copy, or is passed on, or both."""

    kind: Kind
    name: str
    mode: str
    origin: str
    """The namespace that it was copied from, or nothing."""
    is_stale: bool = False
    """True where that namespace is not the one that this one inherits from."""
    there: int = 0
    missing: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Namespaces below in whose place there is an object that is no copy of this one."""

    @property
    def is_passed_on(self) -> bool:
        return self.mode in (CREATE, UPDATE)

    def shape(self) -> dict[str, Any]:
        copies = {"there": self.there, "missing": list(self.missing), "others": list(self.others)}
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

    space: Space
    faults: list[str] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)

    @property
    def role(self) -> str:
        labels = self.space.labels
        kind = labels.get(TYPE)
        said = [kind] if kind in (ROOT, IS_TEMPLATE) else []
        if labels.get(PARENT):
            said = ["sub-namespace"]
        elif labels.get(TEMPLATE):
            said.append(f"instance of {labels[TEMPLATE]}")
        return ", ".join(said) or "plain"

    @property
    def labels(self) -> list[str]:
        return [key for key in self.space.inherited_labels if key not in _OWN]

    @property
    def annotations(self) -> list[str]:
        return list(self.space.inherited_annotations)

    def shape(self) -> dict[str, Any]:
        return {
            "name": self.space.name,
            "role": self.role,
            "deleting": self.space.deleting,
            "faults": self.faults,
            "labels": self.labels,
            "annotations": self.annotations,
            "objects": [flow.shape() for flow in self.flows],
            "children": [],
        }


class Landscape(NamedTuple):
    """All namespaces that have to do with a tree or a template."""

    nodes: dict[str, Node]
    children: dict[str, list[str]]
    tops: list[str]

    def shape(self, top: str | None = None) -> list[dict[str, Any]]:
        """Nested, with a loop cut where it closes. Built without recursion: chains may be long."""
        tops = self.tops if top is None else [top]
        made: dict[str, dict[str, Any]] = {}
        waiting = list(tops)
        while waiting:
            name = waiting.pop()
            made[name] = self.nodes[name].shape()
            waiting += [child for child in self.children.get(name, ()) if child not in made]
        linked = set(tops)
        for name, shape in made.items():
            below = [child for child in self.children.get(name, ()) if child not in linked]
            linked.update(below)
            shape["children"] = [made[child] for child in sorted(below)]
        return [made[name] for name in sorted(tops)]


def upstream(space: Space) -> str:
    """The namespace that one inherits from: its parent, else its template, else nothing."""
    return space.labels.get(PARENT) or space.labels.get(TEMPLATE) or ""


def landscape(spaces: Iterable[Space], also: str = "") -> Landscape:
    """The trees and templates, each fault where it is; `also` is shown whatever it is."""
    all_ = {each.name: each for each in spaces}
    children: dict[str, list[str]] = {}
    for each in all_.values():
        if above := upstream(each):
            children.setdefault(above, []).append(each.name)
    shown = {
        name: Node(each)
        for name, each in all_.items()
        if name == also or name in children or any(key in each.labels for key in ROLES)
    }
    for node in shown.values():
        node.faults.extend(_faults(node.space, all_))
    tops = [name for name, node in shown.items() if upstream(node.space) not in all_]
    for loop in loops(all_):
        tops.append(min(loop))
        for name in loop:
            shown[name].faults.append(f"a loop: {' → '.join((*loop, loop[0]))}")
    return Landscape(shown, children, tops)


def loops(spaces: Mapping[str, Space]) -> Iterator[list[str]]:
    """Every circle of namespaces that inherit from one another, upwards."""
    done: set[str] = set()
    for start in sorted(spaces):
        path: dict[str, None] = {}
        name = start
        while name in spaces and name not in done and name not in path:
            path[name] = None
            name = upstream(spaces[name])
        if name in path:
            names = list(path)
            yield names[names.index(name) :]
        done.update(path)


def _faults(space: Space, spaces: Mapping[str, Space]) -> Iterator[str]:
    labels = space.labels
    parent = labels.get(PARENT)
    for key in (PARENT, TEMPLATE):
        if labels.get(key) == "":
            yield f"the label {key} is empty: it names no namespace"
    if labels.get(TYPE, ROOT) not in (ROOT, IS_TEMPLATE):
        yield f"the label {TYPE} says {labels[TYPE]!r}, which means nothing; expected {ROOT} or {IS_TEMPLATE}"
    if parent:
        yield from (f"a sub-namespace, so the label {key} is ignored" for key in (TYPE, TEMPLATE) if key in labels)
        yield from _upstream_faults("parent", spaces.get(parent), parent, ROOT)
    elif template := labels.get(TEMPLATE):
        yield from _upstream_faults("template", spaces.get(template), template, IS_TEMPLATE)


def _upstream_faults(what: str, above: Space | None, name: str, wanted: str) -> Iterator[str]:
    if above is None:
        yield f"its {what} {name} does not exist"
    elif wanted == ROOT and above.labels.get(TYPE) != ROOT and not above.labels.get(PARENT):
        yield f"its parent {name} is neither a root nor a sub-namespace"
    elif wanted == IS_TEMPLATE and above.labels.get(TYPE) != IS_TEMPLATE:
        yield f"its template {name} is not of the type {IS_TEMPLATE}"


def add_flows(land: Landscape, kind: Kind, things: Iterable[Thing]) -> None:
    """Notes at every namespace the objects of a kind that are copies or are passed on, and where they have arrived."""
    places: dict[str, dict[str, Thing]] = {}
    for each in things:
        if each.namespace in land.nodes:
            places.setdefault(each.namespace, {})[each.name] = each
    for namespace, objects in places.items():
        below = [name for name in land.children.get(namespace, ()) if not land.nodes[name].space.deleting]
        land.nodes[namespace].flows.extend(
            _flow(kind, objects[name], upstream(land.nodes[namespace].space), sorted(below), places)
            for name in sorted(objects)
            if objects[name].annotations.get(PROPAGATE) or objects[name].annotations.get(FROM)
        )


def _flow(kind: Kind, thing: Thing, above: str, below: list[str], places: Mapping[str, Mapping[str, Thing]]) -> Flow:
    origin = thing.annotations.get(FROM, "")
    flow = Flow(kind, thing.name, thing.annotations.get(PROPAGATE, ""), origin, bool(origin) and origin != above)
    if not flow.is_passed_on:
        return flow
    found = {name: places.get(name, {}).get(thing.name) for name in below}
    copies = {
        name for name, each in found.items() if each is not None and each.annotations.get(FROM) == thing.namespace
    }
    missing = tuple(name for name, each in found.items() if each is None)
    others = tuple(name for name, each in found.items() if each is not None and name not in copies)
    return flow._replace(there=len(copies), missing=missing, others=others)
