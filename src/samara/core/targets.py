"""NamespaceSelector: the namespaces that a source is copied to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from samara.core.desired import Mistake
from samara.core.match import NOWHERE, Names, shown
from samara.core.model import EMPTY, NAMESPACE
from samara.core.select import Parsed, Selector, parse
from samara.core.view import View


class Pattern(Protocol):
    def fullmatch(self, text: str, /) -> object: ...


@dataclass(frozen=True, slots=True)
class NamespaceSelector:
    """All namespaces, those listed by name, those whose name or labels match; minus the excluded ones."""

    names: Names = NOWHERE
    """Listed by name: a namespace that does not exist yet is waited for."""
    everywhere: bool = False
    patterns: tuple[Pattern, ...] = ()
    selectors: tuple[Selector, ...] = ()
    excluded: frozenset[str] = frozenset()
    terminating: bool = False
    """True if a terminating namespace is a target too, so that it is reported; by name it always is."""

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        return name not in self.excluded and (name in self.names.members or self._matches(name, labels))

    def _matches(self, name: str, labels: Mapping[str, str]) -> bool:
        return (
            self.everywhere
            or any(each.fullmatch(name) for each in self.patterns)
            or any(each.matches(labels) for each in self.selectors)
        )

    def namespaces(self, view: View) -> Iterator[tuple[str, bool]]:
        """The selected namespaces in view, each with whether it is listed by name."""
        if self.names.members:
            for name in view.namespaces(self.names):
                if name not in self.excluded:
                    yield name, True
        if not (self.everywhere or self.patterns or self.selectors):
            return
        skipped = self.excluded | self.names.members
        for each in view.all(NAMESPACE):
            name = each.ref.name
            if name in skipped or (each.deleting and not self.terminating):
                continue
            if self._matches(name, each.labels):
                yield name, False


NO_NAMESPACES = NamespaceSelector()
EVERY_NAMESPACE = NamespaceSelector(everywhere=True)

NAMESPACE_NAME = "a namespace name: up to 63 lower-case letters, digits and -"
_MEANS_ALL = frozenset({"*", "all", "ALL", "All"})


def illegal_names(field: str, names: Names, for_all: str, lines: Mapping[str, str] = EMPTY) -> Iterator[Mistake]:
    """One mistake for every listed name that no namespace can have. `for_all` is how every namespace is asked for."""
    for name in names.illegal:
        hint = f"; for every namespace write {for_all}" if name in _MEANS_ALL else ""
        yield Mistake(field, NAMESPACE_NAME + hint, shown(name), lines.get(name, ""))


_SET = re.compile(r"(?P<key>[^\s=!,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)")
_ITEM = re.compile(r"(?:\([^()]*\)|[^,])+")


def parse_selector(text: str) -> Parsed:
    """A label selector as kubectl writes it: `a=b,c!=d,e,!f,g in (h,i)`."""
    expressions: list[dict[str, object]] = []
    for item in (each.strip() for each in _ITEM.findall(text)):
        found = _SET.fullmatch(item)
        if found is not None:
            values = [each.strip() for each in found["values"].split(",")]
            operator = "In" if found["op"] == "in" else "NotIn"
            expressions.append({"key": found["key"], "operator": operator, "values": values})
        elif "!=" in item:
            key, _, value = item.partition("!=")
            expressions.append({"key": key.strip(), "operator": "NotIn", "values": [value.strip()]})
        elif "=" in item:
            key, _, value = item.partition("=")
            expressions.append({"key": key.strip(), "operator": "In", "values": [value.removeprefix("=").strip()]})
        elif item:
            operator = "DoesNotExist" if item.startswith("!") else "Exists"
            expressions.append({"key": item.removeprefix("!").strip(), "operator": operator})
    return parse({"matchExpressions": expressions})
