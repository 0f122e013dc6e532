"""Which namespaces a source selects: label selectors as Kubernetes has them, and NamespaceSelector, which adds names
and patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from samara.core.model import NAMESPACE
from samara.core.names import NO_NAMES, NamespaceNames, is_label_value, quoted
from samara.core.view import View

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST = 253

LABELS, EXPRESSIONS = "matchLabels", "matchExpressions"
WITH_VALUES = ("In", "NotIn")
WITHOUT_VALUES = ("Exists", "DoesNotExist")
OPERATORS = (*WITH_VALUES, *WITHOUT_VALUES)


def is_dns_subdomain(text: str) -> bool:
    """True for a name that most kinds accept. The prefix of a label key has the same form."""
    return len(text) <= _LONGEST and _SUBDOMAIN.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    return is_label_value(name) and (is_dns_subdomain(prefix) if slash else True)


class Requirement(NamedTuple):
    """One condition on the labels of an object."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """`NotIn` also holds if the key is absent, as in Kubernetes."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


class Selector(NamedTuple):
    """Matches if all requirements hold. A selector without requirements matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.holds(labels) for requirement in self.requirements)


class ParsedSelector(NamedTuple):
    """A selector and its mistakes. If there is a mistake, the selector must not be used."""

    selector: Selector
    faults: tuple[str, ...]


def parse_selector_json(found: object) -> ParsedSelector:
    """Parses a selector in its JSON form. Each fault begins with the field below the selector."""
    if found is None:
        return ParsedSelector(Selector(), ())
    if not isinstance(found, Mapping):
        return ParsedSelector(Selector(), (f"a mapping was expected, found {_kind(found)}",))
    requirements: list[Requirement] = []
    faults = [f"{key}: not a part of a selector" for key in found if key not in (LABELS, EXPRESSIONS)]
    for parsed in (*_labels(found.get(LABELS)), *_expressions(found.get(EXPRESSIONS))):
        if isinstance(parsed, Requirement):
            requirements.append(parsed)
        else:
            faults.append(parsed)
    return ParsedSelector(Selector(tuple(requirements)), tuple(faults))


def _labels(found: object) -> Iterator[Requirement | str]:
    if not isinstance(found, Mapping | None):
        yield f"{LABELS}: a mapping was expected, found {_kind(found)}"
        return
    for key, value in (found or {}).items():
        at = f"{LABELS}[{key}]"
        wrong = (*_wrong_key(key, at), *_wrong_value(value, at))
        yield from wrong or (Requirement(key, "In", frozenset({value})),)


def _expressions(found: object) -> Iterator[Requirement | str]:
    if not isinstance(found, list | None):
        yield f"{EXPRESSIONS}: a list was expected, found {_kind(found)}"
        return
    for number, expression in enumerate(found or ()):
        at = f"{EXPRESSIONS}[{number}]"
        if isinstance(expression, Mapping):
            yield from _expression(expression, at)
        else:
            yield f"{at}: a mapping was expected, found {_kind(expression)}"


def _expression(found: Mapping[str, Any], at: str) -> Iterator[Requirement | str]:
    key, operator, values = found.get("key"), found.get("operator"), found.get("values") or []
    wrong = [*_wrong_key(key, f"{at}.key"), *_wrong_operator(operator, values, at)]
    if isinstance(values, list):
        wrong += [fault for value in values for fault in _wrong_value(value, f"{at}.values")]
    yield from wrong or (Requirement(str(key), str(operator), frozenset(values)),)


def _wrong_key(key: object, at: str) -> Iterator[str]:
    if not isinstance(key, str) or not is_label_key(key):
        yield f"{at}: a label key was expected, found {_described(key)}"


def _wrong_value(value: object, at: str) -> Iterator[str]:
    if not isinstance(value, str) or (value and not is_label_value(value)):
        yield f"{at}: a label value was expected, found {_described(value)}"


def _wrong_operator(operator: object, values: object, at: str) -> Iterator[str]:
    if operator not in OPERATORS:
        yield f"{at}.operator: one of {', '.join(OPERATORS)} was expected, found {_described(operator)}"
    if not isinstance(values, list):
        yield f"{at}.values: a list was expected, found {_kind(values)}"
    elif operator in WITH_VALUES and not values:
        yield f"{at}.values: at least one value was expected with {operator}, found none"
    elif operator in WITHOUT_VALUES and values:
        yield f"{at}.values: no value was expected with {operator}, found {len(values)}"


def _described(found: object) -> str:
    return quoted(found) if isinstance(found, str) else _kind(found)


def _kind(found: object) -> str:
    """The type of a JSON value in words, without the value."""
    match found:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "a mapping"


class Pattern(Protocol):
    def fullmatch(self, text: str, /) -> object: ...


@dataclass(frozen=True, slots=True)
class NamespaceSelector:
    """All namespaces, those listed by name, those whose name or labels match; minus the excluded ones."""

    names: NamespaceNames = NO_NAMES
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
            or any(pattern.fullmatch(name) for pattern in self.patterns)
            or any(selector.matches(labels) for selector in self.selectors)
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
        for namespace in view.objects_of(NAMESPACE):
            name = namespace.ref.name
            if name in skipped or (namespace.deleting and not self.terminating):
                continue
            if self._matches(name, namespace.labels):
                yield name, False


NO_NAMESPACES = NamespaceSelector()
EVERY_NAMESPACE = NamespaceSelector(everywhere=True)


_SET = re.compile(r"(?P<key>[^\s=!,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)")
_ITEM = re.compile(r"(?:\([^()]*\)|[^,])+")


def parse_selector(text: str) -> ParsedSelector:
    """A label selector as kubectl writes it: `a=b,c!=d,e,!f,g in (h,i)`."""
    expressions: list[dict[str, object]] = []
    for item in (part.strip() for part in _ITEM.findall(text)):
        found = _SET.fullmatch(item)
        if found is not None:
            values = [value.strip() for value in found["values"].split(",")]
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
    return parse_selector_json({"matchExpressions": expressions})
