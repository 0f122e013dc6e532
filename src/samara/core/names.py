"""The forms of names and labels in Kubernetes, lists of namespace names, and globs."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

LABEL_LENGTH = 63
LABEL_VALUE_FORM = "a label value: up to 63 letters, digits, - _ ., no slash"
NAMESPACE_NAME_FORM = "a namespace name: up to 63 lower-case letters, digits and -"
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_MAX_SUBDOMAIN = 253
_MAX_QUOTED = 80


def is_namespace_name(text: str) -> bool:
    return _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """True for a name that most kinds accept. The prefix of a label key has the same form."""
    return len(text) <= _MAX_SUBDOMAIN and _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_path_segment(text: str) -> bool:
    """True for what any kind accepts as a name: a text that stays one segment of a path after it is decoded."""
    return text not in ("", ".", "..") and "/" not in text and "%" not in text and text.isprintable()


def is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    return is_label_value(name) and (is_dns_subdomain(prefix) if slash else True)


def is_label_value(text: str) -> bool:
    return _LABEL_VALUE.fullmatch(text) is not None


def to_label_value(text: str) -> str:
    """The text itself if it is a label value, otherwise a shortened form that ends in a digest of the text."""
    if is_label_value(text):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    legal = re.sub(r"[^-A-Za-z0-9_.]", "-", text).strip("-_.")
    return f"{legal[: LABEL_LENGTH - len(digest) - 1].rstrip('-_.')}-{digest}".lstrip("-")


class NamespaceNames(NamedTuple):
    """A list of namespace names from an annotation or a spec, without duplicates: the legal ones, and the others."""

    legal: tuple[str, ...]
    illegal: tuple[str, ...]
    members: frozenset[str]
    """The legal names again, to look one up."""

    @classmethod
    def of(cls, items: Iterable[str]) -> NamespaceNames:
        names = list(dict.fromkeys(items))
        legal = tuple(name for name in names if is_namespace_name(name))
        return cls(legal, tuple(name for name in names if not is_namespace_name(name)), frozenset(legal))


class PackedNames:
    """A set of namespace names in one text, for lists that may be long: a name costs its length plus one byte.

    A question or a change searches through the text. Before many of them, `unpack` turns the text into a dictionary,
    and `pack` back.
    """

    __slots__ = ("_count", "_text", "_unpacked")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._unpacked: dict[str, None] | None = dict.fromkeys(names)
        self.pack()

    def pack(self) -> None:
        if self._unpacked is not None:
            self._count, self._text = len(self._unpacked), "\n".join(("", *self._unpacked, ""))
            self._unpacked = None

    def unpack(self) -> None:
        if self._unpacked is None:
            self._count, self._text, self._unpacked = 0, "", dict.fromkeys(self._text.split())

    def __len__(self) -> int:
        return self._count if self._unpacked is None else len(self._unpacked)

    def __iter__(self) -> Iterator[str]:
        return iter(self._text.split() if self._unpacked is None else tuple(self._unpacked))

    def __contains__(self, name: str) -> bool:
        return f"\n{name}\n" in self._text if self._unpacked is None else name in self._unpacked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedNames) and set(self) == set(other)

    __hash__ = None  # type: ignore[assignment]

    def add(self, name: str) -> None:
        if self._unpacked is not None:
            self._unpacked[name] = None
        elif name not in self:
            self._count, self._text = self._count + 1, f"{self._text}{name}\n"

    def discard(self, name: str) -> None:
        if self._unpacked is not None:
            self._unpacked.pop(name, None)
        elif name in self:
            self._count, self._text = self._count - 1, self._text.replace(f"\n{name}\n", "\n", 1)


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
    return repr(text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…")


def matches_any_glob(patterns: Iterable[str], text: str) -> bool:
    """True if one of the patterns matches the whole text. `*` matches any characters, `?` matches one."""
    return _regexp(tuple(patterns)).fullmatch(text) is not None


def without_globs(metadata: Mapping[str, str], patterns: tuple[str, ...]) -> dict[str, str]:
    """The labels or annotations whose keys match none of the patterns."""
    match = _regexp(patterns).fullmatch
    return {key: value for key, value in metadata.items() if match(key) is None}


@lru_cache(maxsize=1024)
def _regexp(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """A regular expression for texts that match one of these globs, or nothing if there is none."""

    def literal(text: str) -> str:
        return "".join("." if char == "?" else re.escape(char) for char in text)

    def translate(pattern: str) -> str:
        """In an atomic group, a text between two stars matches only at its first occurrence, so nothing backtracks."""
        first, *rest = pattern.split("*")
        if not rest:
            return literal(first)
        between = "".join(f"(?>.*?{literal(part)})" for part in rest[:-1] if part)
        return f"{literal(first)}{between}.*{literal(rest[-1])}"

    return re.compile("|".join(f"(?:{translate(pattern)})" for pattern in patterns) or r"(?!)", re.DOTALL)


def sample(names: Iterable[str], most: int = 3, hidden: int = 0) -> str:
    """The first names in alphabetical order, and how many more there are: `a, b, c and 7 more`.

    `hidden` is how many there are besides the names.
    """
    ordered = sorted(names)
    rest = max(0, len(ordered) - most) + hidden
    return ", ".join(ordered[:most]) + (f" and {rest} more" if rest > 0 else "")
