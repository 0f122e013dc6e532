"""The annotations of Reflector: which namespaces a source allows, and which get a mirror without asking."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from samara.core.desired import Fault, Mistake, mismatch
from samara.core.label_selectors import GREATER, LESS, Requirement, Selector
from samara.core.model import NAMESPACE, Object, Ref
from samara.core.names import NamespaceNames, is_namespace_name, quoted
from samara.core.selectors import parse_selector
from samara.core.view import View
from samara.dotnet_expressions import MAX_STEPS, DotNetPattern, PatternError, Steps, TooManySteps
from samara.dotnet_expressions import parse as parse_pattern

PREFIX = "reflector.v1.k8s.emberstack.com/"
ALLOWED = f"{PREFIX}reflection-allowed"
ALLOWED_NAMES, ALLOWED_SELECTOR = f"{ALLOWED}-namespaces", f"{ALLOWED}-namespaces-selector"
AUTO = f"{PREFIX}reflection-auto-enabled"
AUTO_NAMES, AUTO_SELECTOR = f"{PREFIX}reflection-auto-namespaces", f"{PREFIX}reflection-auto-namespaces-selector"
REFLECTS = f"{PREFIX}reflects"
"""On a mirror: its source. A person writes it on an object that is to be filled, Samara on an automatic mirror."""
AUTO_REFLECTS = f"{PREFIX}auto-reflects"
VERSION, AT = f"{PREFIX}reflected-version", f"{PREFIX}reflected-at"
SOURCE_KEYS = frozenset({ALLOWED, ALLOWED_NAMES, ALLOWED_SELECTOR, AUTO, AUTO_NAMES, AUTO_SELECTOR})
MARKS = frozenset({REFLECTS, AUTO_REFLECTS, VERSION, AT})

MAX_PATTERNS = 200
"""Patterns in one list that are no names. Every new namespace is compared with each of them."""
_GLOB = re.compile(r"(?:^|[^.)\]\\])\*")
_EMPTY_SET = re.compile(r"\s(?:in|notin)\s*\([\s,]*\)")


def value_of(obj: Object, key: str) -> str:
    return obj.annotations.get(key, "").strip()


def is_true(obj: Object, key: str) -> bool:
    return value_of(obj, key).lower() == "true"


def is_auto_mirror(obj: Object) -> bool:
    """True for a mirror that was made, and not filled."""
    return bool(value_of(obj, REFLECTS)) and is_true(obj, AUTO_REFLECTS)


def reflected(obj: Object) -> Ref | None:
    """The source that a mirror names. None if the value is not valid."""
    namespace, slash, name = value_of(obj, REFLECTS).partition("/")
    is_valid = slash and is_namespace_name(namespace) and name and "/" not in name and name == name.strip()
    return Ref(obj.ref.kind, namespace, name) if is_valid else None


@dataclass(slots=True)
class Rules:
    """One list of patterns and one label selector: either lets a namespace in. Both empty let in every one."""

    everywhere: bool
    names: NamespaceNames
    patterns: tuple[tuple[str, DotNetPattern], ...]
    """Each with the annotation that holds it."""
    selectors: tuple[Selector, ...]
    faults: tuple[Fault, ...]


@dataclass(slots=True)
class Namespaces:
    """The namespaces that all of these rules let in. It is a `NamespaceSelection`.

    A pattern that takes too many steps for one name, or most of those for all names together, matches nothing from then
    on. One plan takes no more steps than `Steps` allows; the next one goes on without the slow patterns.
    """

    rules: tuple[Rules, ...]
    slow: dict[str, str] = field(default_factory=dict)
    """The patterns that took too many steps, each with its annotation."""
    is_unfinished: bool = False
    """True if the last search ended early or found a slow pattern, so that it may have missed namespaces."""
    _steps: Steps = field(default_factory=Steps)
    _spent: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By pattern and annotation: the steps of this search."""

    @property
    def names(self) -> NamespaceNames:
        return self.rules[-1].names

    @property
    def selectors(self) -> tuple[Selector, ...]:
        return tuple(selector for rules in self.rules for selector in rules.selectors)

    @property
    def is_open(self) -> bool:
        return True

    @property
    def faults(self) -> tuple[Fault, ...]:
        expected = "a pattern that takes fewer steps"
        slow = (mismatch(key, expected, quoted(text)) for text, key in self.slow.items())
        return (*(fault for rules in self.rules for fault in rules.faults), *slow)

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        self._restart()
        return self._selects(name, labels)

    def _selects(self, name: str, labels: Mapping[str, str]) -> bool:
        return all(self._let_in(rules, name, labels) for rules in self.rules)

    def _let_in(self, rules: Rules, name: str, labels: Mapping[str, str]) -> bool:
        return self._by_name(rules, name) or any(selector.matches(labels) for selector in rules.selectors)

    def _by_name(self, rules: Rules, name: str) -> bool:
        return rules.everywhere or self._names(rules, name)

    def _names(self, rules: Rules, name: str) -> bool:
        return name in rules.names.members or any(self._covers(key, one, name) for key, one in rules.patterns)

    def _covers(self, key: str, pattern: DotNetPattern, name: str) -> bool:
        if pattern.text in self.slow:
            return False
        before = self._steps.left
        try:
            return pattern.covers(name, self._steps)
        except TooManySteps:
            self.is_unfinished = True
            if before >= MAX_STEPS:  # otherwise other patterns have taken the steps
                self.slow[pattern.text] = key
            return False
        finally:
            if self._steps.left != before:
                self._spent[pattern.text, key] += before - self._steps.left

    def names_namespace(self, name: str) -> bool:
        self._restart()
        return any(self._names(rules, name) for rules in self.rules)

    def deciding_selectors(self, name: str, by_name: bool) -> tuple[Selector, ...]:
        deciding = [rules.selectors for rules in self.rules if not self._by_name(rules, name)]
        together = [Selector()] if deciding else []
        for selectors in deciding:
            together = [Selector(one.requirements + other.requirements) for one in together for other in selectors]
        return tuple(together)

    def namespaces(self, view: View) -> Iterator[tuple[str, bool]]:
        known = len(self.slow)
        self._restart()
        for namespace in view.objects_of(NAMESPACE):
            name = namespace.ref.name
            if not namespace.deleting and self._selects(name, namespace.labels):
                yield name, name in self.names.members
        if self.is_unfinished and len(self.slow) == known:
            ((slowest, key), _), *_ = self._spent.most_common(1)
            self.slow[slowest] = key

    def _restart(self) -> None:
        self._steps.restart()
        self._spent.clear()
        self.is_unfinished = False


def allowed_by(source: Object) -> Namespaces:
    """The namespaces whose mirrors may have the content of a source that allows reflection."""
    return _allowed(value_of(source, ALLOWED_NAMES), value_of(source, ALLOWED_SELECTOR))


def auto_by(source: Object) -> Namespaces:
    """The namespaces that get an automatic mirror of a source."""
    keys = ALLOWED_NAMES, ALLOWED_SELECTOR, AUTO_NAMES, AUTO_SELECTOR
    return _auto(*(value_of(source, key) for key in keys))


# The caches are small because a tenant's list can be long. Patterns that were too slow are remembered in them.


@lru_cache(maxsize=64)
def _allowed(names: str, selector: str) -> Namespaces:
    return Namespaces((_rules(ALLOWED_NAMES, names, ALLOWED_SELECTOR, selector),))


@lru_cache(maxsize=64)
def _auto(allowed: str, allowed_selector: str, auto: str, auto_selector: str) -> Namespaces:
    return Namespaces(
        (
            _rules(ALLOWED_NAMES, allowed, ALLOWED_SELECTOR, allowed_selector),
            _rules(AUTO_NAMES, auto, AUTO_SELECTOR, auto_selector),
        )
    )


def _rules(names_key: str, names: str, selector_key: str, selector: str) -> Rules:
    literal, patterns, faults = _patterns(names_key, names)
    selectors, wrong = _selectors(selector_key, selector)
    return Rules(not names and not selector, literal, patterns, selectors, (*faults, *wrong))


class _Patterns(NamedTuple):
    names: NamespaceNames
    patterns: tuple[tuple[str, DotNetPattern], ...]
    faults: tuple[Fault, ...]


def items_of(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _patterns(key: str, text: str) -> _Patterns:
    items = list(dict.fromkeys(items_of(text)))
    names = [item for item in items if is_namespace_name(item)]
    others = [item for item in items if not is_namespace_name(item)]
    patterns: list[tuple[str, DotNetPattern]] = []
    faults: list[Fault] = []
    for item in others[:MAX_PATTERNS]:
        try:
            patterns.append((key, parse_pattern(item)))
        except PatternError as fault:
            shown = item if len(item) <= 60 else f"{item[:60]}…"
            faults.append(mismatch(key, "a regular expression as .NET knows it", f"{quoted(shown)} ({fault})"))
    if len(others) > MAX_PATTERNS:
        faults.append(mismatch(key, f"at most {MAX_PATTERNS} patterns", str(len(others))))
    return _Patterns(NamespaceNames.of(names), tuple(patterns), tuple(faults))


def _selectors(key: str, text: str) -> tuple[tuple[Selector, ...], tuple[Fault, ...]]:
    """A selector with any fault matches nothing. Reflector drops empty values in sets, and knows no `>` and `<`."""
    if not text:
        return (), ()
    selector, wrong = parse_selector(text)
    faults = [fault.below(key) for fault in wrong]
    if any(requirement.operator in (GREATER, LESS) for requirement in selector.requirements):
        faults.append(mismatch(key, "no > and no <", quoted(text)))
    if _EMPTY_SET.search(text):
        faults.append(mismatch(key, "at least one value in parentheses", quoted(text)))
    if not faults and not selector.requirements:
        faults.append(mismatch(key, "a label selector such as stage=live", quoted(text)))
    return ((Selector(tuple(map(_without_empty, selector.requirements))),) if not faults else ()), tuple(faults)


def _without_empty(requirement: Requirement) -> Requirement:
    values = requirement.values
    return requirement._replace(values=values - {""}) if len(values) > 1 else requirement


def pitfalls(obj: Object) -> Iterator[Mistake]:
    """Patterns that are valid, and hardly mean what they say."""
    for key in (ALLOWED_NAMES, AUTO_NAMES):
        for item in items_of(value_of(obj, key)):
            if _GLOB.search(item) and _is_valid(item):
                expected = "a regular expression, no glob: * repeats what is before it, .* is any text"
                yield Mistake(key, expected, quoted(item))


def _is_valid(item: str) -> bool:
    try:
        parse_pattern(item)
    except PatternError:
        return False
    return True
