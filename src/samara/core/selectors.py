"""Which namespaces a source selects: by label selector as in Kubernetes, by name, or by pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from samara.core.desired import Fault, Mistake, mismatch
from samara.core.label_selectors import GREATER, INTEGER, LESS, Requirement, Selector
from samara.core.model import NAMESPACE, NO_METADATA
from samara.core.names import NAMESPACE_NAME_FORM, NO_NAMES, NamespaceNames, is_label_key, is_label_value, quoted
from samara.core.view import View

MATCH_LABELS, MATCH_EXPRESSIONS = "matchLabels", "matchExpressions"
WITH_VALUES = ("In", "NotIn")
WITHOUT_VALUES = ("Exists", "DoesNotExist")
OPERATORS = (*WITH_VALUES, *WITHOUT_VALUES)


class ParsedSelector(NamedTuple):
    """A selector and its faults. If there is a fault, the selector must not be used."""

    selector: Selector
    faults: tuple[Fault, ...]


def parse_selector_json(selector: object) -> ParsedSelector:
    """Parses a selector in its JSON form. The message of a fault begins with the field below the selector."""
    if selector is None:
        return ParsedSelector(Selector(), ())
    if not isinstance(selector, Mapping):
        return ParsedSelector(Selector(), (mismatch("", "a mapping", _type(selector)),))
    requirements: list[Requirement] = []
    faults = [_unknown(key) for key in selector if key not in (MATCH_LABELS, MATCH_EXPRESSIONS)]
    for parsed in (*_labels(selector.get(MATCH_LABELS)), *_expressions(selector.get(MATCH_EXPRESSIONS))):
        if isinstance(parsed, Requirement):
            requirements.append(parsed)
        else:
            faults.append(parsed)
    return ParsedSelector(Selector(tuple(requirements)), tuple(faults))


def _unknown(key: str) -> Fault:
    unknown = "not a part of a selector"
    expected = f"a part of a selector: {MATCH_LABELS} or {MATCH_EXPRESSIONS}"
    return Fault("Invalid", f"{key}: {unknown}", key, (Mistake(key, expected, unknown),))


def _labels(labels: object) -> Iterator[Requirement | Fault]:
    if not isinstance(labels, Mapping | None):
        yield mismatch(MATCH_LABELS, "a mapping", _type(labels))
        return
    for key, value in (labels or {}).items():
        field = f"{MATCH_LABELS}[{key}]"
        faults = (*_key_faults(key, field), *_value_faults(value, field))
        yield from faults or (Requirement(key, "In", frozenset({value})),)


def _expressions(expressions: object) -> Iterator[Requirement | Fault]:
    if not isinstance(expressions, list | None):
        yield mismatch(MATCH_EXPRESSIONS, "a list", _type(expressions))
        return
    for number, expression in enumerate(expressions or ()):
        field = f"{MATCH_EXPRESSIONS}[{number}]"
        if isinstance(expression, Mapping):
            yield from _expression(expression, field)
        else:
            yield mismatch(field, "a mapping", _type(expression))


def _expression(expression: Mapping[str, Any], field: str) -> Iterator[Requirement | Fault]:
    key, operator, values = expression.get("key"), expression.get("operator"), expression.get("values") or []
    faults = [*_key_faults(key, f"{field}.key"), *_operator_faults(operator, values, field)]
    if isinstance(values, list):
        faults += [fault for value in values for fault in _value_faults(value, f"{field}.values")]
    yield from faults or (Requirement(str(key), str(operator), frozenset(values)),)


def _key_faults(key: object, field: str) -> Iterator[Fault]:
    if not isinstance(key, str) or not is_label_key(key):
        yield mismatch(field, "a label key", _described(key))


def _value_faults(value: object, field: str) -> Iterator[Fault]:
    if not isinstance(value, str) or (value and not is_label_value(value)):
        yield mismatch(field, "a label value", _described(value))


def _operator_faults(operator: object, values: object, field: str) -> Iterator[Fault]:
    if operator not in OPERATORS:
        yield mismatch(f"{field}.operator", f"one of {', '.join(OPERATORS)}", _described(operator))
    if not isinstance(values, list):
        yield mismatch(f"{field}.values", "a list", _type(values))
    elif operator in WITH_VALUES and not values:
        yield _wrong_count(f"{field}.values", "at least one value", operator, 0)
    elif operator in WITHOUT_VALUES and values:
        yield _wrong_count(f"{field}.values", "no value", operator, len(values))


def _wrong_count(field: str, expected: str, operator: object, count: int) -> Fault:
    message = f"{field}: {expected} was expected with {operator}, found {count or 'none'}"
    return Fault("Invalid", message, field, (Mistake(field, f"{expected} with {operator}", str(count or "nothing")),))


def _described(value: object) -> str:
    return quoted(value) if isinstance(value, str) else _type(value)


def _type(value: object) -> str:
    """The type of a JSON value in words, without the value."""
    match value:
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


class NamespaceSelection(Protocol):
    """What `AnnotatedObjects` asks of the namespaces that a source requests."""

    @property
    def names(self) -> NamespaceNames:
        """Those that are listed by name."""

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """Those of labels."""

    @property
    def is_open(self) -> bool:
        """True if it may select namespaces that are not listed by name."""

    def selects(self, name: str, labels: Mapping[str, str]) -> bool: ...

    def names_namespace(self, name: str) -> bool:
        """True if a namespace is selected because of its name."""

    def deciding_selectors(self, name: str, by_name: bool) -> tuple[Selector, ...]:
        """The label selectors, if nothing else selects a namespace of this name."""

    def namespaces(self, view: View) -> Iterator[tuple[str, bool]]:
        """The selected namespaces in view, each with whether it is listed by name."""


@dataclass(frozen=True, slots=True)
class NamespaceSelector:
    """Selects namespaces by name, by pattern, by labels, or all; and then leaves out the excluded ones."""

    names: NamespaceNames = NO_NAMES
    """A namespace that is listed by name is a target even while it does not exist."""
    everywhere: bool = False
    patterns: tuple[Pattern, ...] = ()
    selectors: tuple[Selector, ...] = ()
    excluded: frozenset[str] = frozenset()
    terminating: bool = False
    """True if a terminating namespace is a target, so that it is reported. One that is listed by name always is."""

    @property
    def is_open(self) -> bool:
        """True if it may select namespaces that are not listed by name."""
        return self.everywhere or bool(self.patterns or self.selectors)

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        return name not in self.excluded and (name in self.names.members or self._matches(name, labels))

    def _matches(self, name: str, labels: Mapping[str, str]) -> bool:
        return (
            self.everywhere
            or any(pattern.fullmatch(name) for pattern in self.patterns)
            or any(selector.matches(labels) for selector in self.selectors)
        )

    def names_namespace(self, name: str) -> bool:
        """True if this name is listed or matches a pattern: a tenant who may choose the name then gets the copies."""
        is_named = name in self.names.members or any(pattern.fullmatch(name) for pattern in self.patterns)
        return is_named and name not in self.excluded

    def deciding_selectors(self, name: str, by_name: bool) -> tuple[Selector, ...]:
        """The label selectors, if nothing else selects a namespace of this name."""
        is_selected = by_name or self.everywhere or any(pattern.fullmatch(name) for pattern in self.patterns)
        return () if is_selected else self.selectors

    def namespaces(self, view: View) -> Iterator[tuple[str, bool]]:
        """The selected namespaces in view, each with whether it is listed by name."""
        if self.names.members:
            for name in view.namespaces(self.names):
                if name not in self.excluded:
                    yield name, True
        if not self.is_open:
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

_MEANT_AS_ALL = frozenset({"*", "all", "ALL", "All"})


def illegal_names(
    field: str, names: NamespaceNames, for_all: str, positions: Mapping[str, str] = NO_METADATA
) -> Iterator[Mistake]:
    """One mistake for every listed name that no namespace can have.

    `for_all`: what selects every namespace. `positions`: by name, the path of the list item that holds it.
    """
    for name in names.illegal:
        hint = f"; for every namespace write {for_all}" if name in _MEANT_AS_ALL else ""
        yield Mistake(field, NAMESPACE_NAME_FORM + hint, quoted(name), positions.get(name, ""))


_IN_SET = re.compile(r"(?P<key>[^\s=!,()]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_SIGN = re.compile("!=|==?|[<>]")
_SIGNS = {"!=": "NotIn", "=": "In", "==": "In", ">": GREATER, "<": LESS}
_ITEM = re.compile(r"(?:\([^()]*\)|[^,])+")


def parse_selector(text: str) -> ParsedSelector:
    """Parses a label selector as kubectl writes it: `a=b,c!=d,e,!f,g in (h,i),j>1`.

    Its faults name no field: `Fault.below` puts the annotation in front.
    """
    requirements: list[Requirement] = []
    items = [item.strip() for item in _ITEM.findall(text)]
    is_whole = not text.strip() or (all(items) and len(items) == len(_ITEM.sub("", text)) + 1)
    faults = [] if is_whole else [mismatch("", "a condition before and after every comma", quoted(text))]
    for requirement in map(_requirement, filter(None, items)):
        key, operator, values = requirement
        wrong = [*_key_faults(key, ""), *(fault for value in values for fault in _value_faults(value, ""))]
        if operator in (GREATER, LESS) and not wrong:
            wrong = [mismatch("", "an integer", quoted(value)) for value in values if not INTEGER.fullmatch(value)]
        faults += wrong
        requirements += () if wrong else (requirement,)
    return ParsedSelector(Selector(tuple(requirements)), tuple(faults))


def _requirement(item: str) -> Requirement:
    """One condition of a selector, whose key and values may be illegal. A text of neither form counts as a key."""
    in_set, sign = _IN_SET.fullmatch(item), _SIGN.search(item)
    if in_set is not None:
        values = frozenset(value.strip() for value in in_set["values"].split(","))
        return Requirement(in_set["key"], "In" if in_set["operator"] == "in" else "NotIn", values)
    if sign is not None:
        key, value = item[: sign.start()].strip(), item[sign.end() :].strip()
        return Requirement(key, _SIGNS[sign[0]], frozenset({value}))
    return Requirement(item.removeprefix("!").strip(), "DoesNotExist" if item.startswith("!") else "Exists")
