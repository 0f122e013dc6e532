"""Lists of namespace names, globs, and texts that fit into a label."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

LABEL_LENGTH = 63
LABEL_VALUE = "a label value: up to 63 letters, digits, - _ ., no slash"
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SHOWN = 80


def is_namespace_name(text: str) -> bool:
    return _DNS_LABEL.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    return _LABEL_VALUE.fullmatch(text) is not None


def to_label_value(text: str) -> str:
    """The text if a label may hold it; otherwise a shortened form that ends in a digest of the text."""
    if is_label_value(text):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    legal = re.sub(r"[^-A-Za-z0-9_.]", "-", text).strip("-_.")
    return f"{legal[: LABEL_LENGTH - len(digest) - 1].rstrip('-_.')}-{digest}".lstrip("-")


class NamespaceNames(NamedTuple):
    """A list of namespace names from an annotation or a spec: the legal ones in order, and the others."""

    legal: tuple[str, ...]
    illegal: tuple[str, ...]
    members: frozenset[str]

    @classmethod
    def of(cls, items: Iterable[str]) -> NamespaceNames:
        """Duplicates are merged."""
        names = list(dict.fromkeys(items))
        legal = tuple(name for name in names if is_namespace_name(name))
        return cls(legal, tuple(name for name in names if not is_namespace_name(name)), frozenset(legal))


NO_NAMES = NamespaceNames.of(())


@lru_cache(maxsize=4096)
def parse_csv_names(text: str) -> NamespaceNames:
    """Parses one CSV record: trims spaces, drops empty items, merges duplicates, accepts quoted items."""
    try:
        items = next(csv.reader([" ".join(text.splitlines())], skipinitialspace=True), [])
    except csv.Error:  # an item is longer than the csv module accepts; the other items may still be names
        items = text.split(",")
    return NamespaceNames.of(item.strip() for item in items if item.strip())


def quoted(text: str) -> str:
    """A text from a manifest, quoted and shortened for a message."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


@lru_cache(maxsize=1024)
def _glob(patterns: tuple[str, ...]) -> re.Pattern[str]:
    def literal(text: str) -> str:
        return "".join("." if char == "?" else re.escape(char) for char in text)

    def one(pattern: str) -> str:
        """Atomic groups: a text between two stars matches only at its first occurrence, so nothing backtracks."""
        first, *rest = pattern.split("*")
        if not rest:
            return literal(first)
        between = "".join(f"(?>.*?{literal(part)})" for part in rest[:-1] if part)
        return f"{literal(first)}{between}.*{literal(rest[-1])}"

    return re.compile("|".join(f"(?:{one(pattern)})" for pattern in patterns) or r"(?!)", re.DOTALL)


def matches_any_glob(patterns: Iterable[str], text: str) -> bool:
    """True if one of the patterns matches the whole text. `*` matches any characters, `?` matches one."""
    return _glob(tuple(patterns)).fullmatch(text) is not None


def without_globs(words: Mapping[str, str], patterns: tuple[str, ...]) -> dict[str, str]:
    match = _glob(patterns).fullmatch
    return {key: value for key, value in words.items() if match(key) is None}


def sample(names: Iterable[str], most: int = 3) -> str:
    """The first names in alphabetical order, and how many more there are: `a, b, c and 7 more`."""
    ordered = sorted(names)
    rest = len(ordered) - most
    return ", ".join(ordered[:most]) + (f" and {rest} more" if rest > 0 else "")
