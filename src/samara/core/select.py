"""Label selectors as Kubernetes has them: equalities and expressions, all of which must hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from samara.core.desired import Fault, Mistake, mismatch
from samara.core.match import is_label_value, shown

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST = 253

LABELS, EXPRESSIONS = "matchLabels", "matchExpressions"
WITH_VALUES = ("In", "NotIn")
WITHOUT_VALUES = ("Exists", "DoesNotExist")
OPERATORS = (*WITH_VALUES, *WITHOUT_VALUES)


def is_dns_subdomain(text: str) -> bool:
    """True for what can be the name of most objects, and the part of a key before its slash."""
    return len(text) <= _LONGEST and _SUBDOMAIN.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    return is_label_value(name) and (is_dns_subdomain(prefix) if slash else True)


class Requirement(NamedTuple):
    """One demand on the labels of an object."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """`NotIn` holds as well where the key is absent, as it does everywhere in Kubernetes."""
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
    """All requirements together. One without any matches everything; who means nothing by it must say so."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(each.holds(labels) for each in self.requirements)


class Parsed(NamedTuple):
    """A selector, and everything that is wrong with what somebody wrote; where something is, it must not be used."""

    selector: Selector
    faults: tuple[Fault, ...]


def parse(found: object) -> Parsed:
    """Reads a selector from the values of its JSON; the faults name the field below the selector."""
    if found is None:
        return Parsed(Selector(), ())
    if not isinstance(found, Mapping):
        return Parsed(Selector(), (mismatch("", "a mapping", _kind(found)),))
    taken: list[Requirement] = []
    faults = [_unknown(key) for key in found if key not in (LABELS, EXPRESSIONS)]
    for each in (*_labels(found.get(LABELS)), *_expressions(found.get(EXPRESSIONS))):
        if isinstance(each, Requirement):
            taken.append(each)
        else:
            faults.append(each)
    return Parsed(Selector(tuple(taken)), tuple(faults))


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
    for number, each in enumerate(found or ()):
        at = f"{EXPRESSIONS}[{number}]"
        if isinstance(each, Mapping):
            yield from _expression(each, at)
        else:
            yield mismatch(at, "a mapping", _kind(each))


def _expression(found: Mapping[str, Any], at: str) -> Iterator[Requirement | Fault]:
    key, operator, values = found.get("key"), found.get("operator"), found.get("values") or []
    wrong = [*_wrong_key(key, f"{at}.key"), *_wrong_operator(operator, values, at)]
    if isinstance(values, list):
        wrong += [fault for each in values for fault in _wrong_value(each, f"{at}.values")]
    yield from wrong or (Requirement(str(key), str(operator), frozenset(values)),)


def _wrong_key(key: object, at: str) -> Iterator[Fault]:
    if not isinstance(key, str) or not is_label_key(key):
        yield mismatch(at, "a label key", _told(key))


def _wrong_value(value: object, at: str) -> Iterator[Fault]:
    if not isinstance(value, str) or (value and not is_label_value(value)):
        yield mismatch(at, "a label value", _told(value))


def _wrong_operator(operator: object, values: object, at: str) -> Iterator[Fault]:
    if operator not in OPERATORS:
        yield mismatch(f"{at}.operator", f"one of {', '.join(OPERATORS)}", _told(operator))
    if not isinstance(values, list):
        yield mismatch(f"{at}.values", "a list", _kind(values))
    elif operator in WITH_VALUES and not values:
        yield _many(f"{at}.values", "at least one value", operator, 0)
    elif operator in WITHOUT_VALUES and values:
        yield _many(f"{at}.values", "no value", operator, len(values))


def _many(at: str, expected: str, operator: object, count: int) -> Fault:
    message = f"{at}: {expected} was expected with {operator}, found {count or 'none'}"
    return Fault("Invalid", message, at, (Mistake(at, f"{expected} with {operator}", str(count or "nothing")),))


def _told(found: object) -> str:
    return shown(found) if isinstance(found, str) else _kind(found)


def _kind(found: object) -> str:
    """What a JSON value is, without saying it."""
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
