"""Which namespaces a source selects: label selectors as Kubernetes has them, and NamespaceSelector, which adds names
and patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from samara.core.desired import Fault, Mistake, mismatch
from samara.core.model import NAMESPACE, NO_METADATA
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
    faults: tuple[Fault, ...]


def parse_selector_json(found: object) -> ParsedSelector:
    """Parses a selector in its JSON form. Each fault begins with the field below the selector."""
    if found is None:
        return ParsedSelector(Selector(), ())
    if not isinstance(found, Mapping):
        return ParsedSelector(Selector(), (mismatch("", "a mapping", _kind(found)),))
    requirements: list[Requirement] = []
    faults = [_unknown(key) for key in found if key not in (LABELS, EXPRESSIONS)]
    for parsed in (*_labels(found.get(LABELS)), *_expressions(found.get(EXPRESSIONS))):
        if isinstance(parsed, Requirement):
            requirements.append(parsed)
        else:
            faults.append(parsed)
    return ParsedSelector(Selector(tuple(requirements)), tuple(faults))


def _unknown(key: str) -> Fault:
    unknown = "not a part of a selector"
    expected = f"a part of a selector: {LABELS} or {EXPRESSIONS}"
    return Fault("Invalid", f"{key}: {unknown}", key, (Mistake(key, expected, unknown),))


def _labels(found: object) -> Iterator[Requirement | Fault]:
    if not isinstance(found, Mapping | None):
        yield mismatch(LABELS, "a mapping", _kind(found))
        return
    for key, value in (found or {}).items():
        at = f"{LABELS}[{key}]"
        wrong = (*_wrong_key(key, at), *_wrong_value(value, at))
        yield from wrong or (Requirement(key, "In", frozenset({value})),)


def _expressions(found: object) -> Iterator[Requirement | Fault]:
    if not isinstance(found, list | None):
        yield mismatch(EXPRESSIONS, "a list", _kind(found))
        return
    for number, expression in enumerate(found or ()):
        at = f"{EXPRESSIONS}[{number}]"
        if isinstance(expression, Mapping):
            yield from _expression(expression, at)
        else:
            yield mismatch(at, "a mapping", _kind(expression))


def _expression(found: Mapping[str, Any], at: str) -> Iterator[Requirement | Fault]:
    key, operator, values = found.get("key"), found.get("operator"), found.get("values") or []
    wrong = [*_wrong_key(key, f"{at}.key"), *_wrong_operator(operator, values, at)]
    if isinstance(values, list):
        wrong += [fault for value in values for fault in _wrong_value(value, f"{at}.values")]
    yield from wrong or (Requirement(str(key), str(operator), frozenset(values)),)


def _wrong_key(key: object, at: str) -> Iterator[Fault]:
    if not isinstance(key, str) or not is_label_key(key):
        yield mismatch(at, "a label key", _described(key))


def _wrong_value(value: object, at: str) -> Iterator[Fault]:
    if not isinstance(value, str) or (value and not is_label_value(value)):
        yield mismatch(at, "a label value", _described(value))


def _wrong_operator(operator: object, values: object, at: str) -> Iterator[Fault]:
    if operator not in OPERATORS:
        yield mismatch(f"{at}.operator", f"one of {', '.join(OPERATORS)}", _described(operator))
    if not isinstance(values, list):
        yield mismatch(f"{at}.values", "a list", _kind(values))
    elif operator in WITH_VALUES and not values:
        yield _many(f"{at}.values", "at least one value", operator, 0)
    elif operator in WITHOUT_VALUES and values:
        yield _many(f"{at}.values", "no value", operator, len(values))


def _many(at: str, expected: str, operator: object, count: int) -> Fault:
    message = f"{at}: {expected} was expected with {operator}, found {count or 'none'}"
    return Fault("Invalid", message, at, (Mistake(at, f"{expected} with {operator}", str(count or "nothing")),))


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

NAMESPACE_NAME = "a namespace name: up to 63 lower-case letters, digits and -"
_MEANS_ALL = frozenset({"*", "all", "ALL", "All"})


def illegal_names(
    field: str, names: NamespaceNames, for_all: str, lines: Mapping[str, str] = NO_METADATA
) -> Iterator[Mistake]:
    """One mistake for every listed name that no namespace can have. `for_all` is how every namespace is asked for."""
    for name in names.illegal:
        hint = f"; for every namespace write {for_all}" if name in _MEANS_ALL else ""
        yield Mistake(field, NAMESPACE_NAME + hint, quoted(name), lines.get(name, ""))


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
