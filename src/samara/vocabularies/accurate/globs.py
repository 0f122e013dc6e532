r"""Patterns of label and annotation keys, with the meaning of Go's `path.Match`, and which keys they may admit.

`*` is any run of characters but `/`, `?` one character but `/`, `[a-z]` and `[^a-z]` one character of a class or
outside it, `/` included; `\` takes the next character literally. A pattern matches whole keys, case by case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from samara.vocabularies.accurate.labels import GROUP

OWN = (f"{GROUP}/", "samara.dev/", "kubectl.kubernetes.io/")
"""No pattern admits keys under these: they make the tree, and whoever inherits or asks for them would reshape it.

What kubectl keeps about one object is wrong on every other.
"""
_META = frozenset("*?[\\")
_STAR = ""
_NOTHING, _ANYTHING, _NO_SLASH = "(?!)", r"[\s\S]", "[^/]"


def malformed(pattern: str) -> bool:
    """True where the pattern breaks the rules anywhere, whether or not a match would get there."""
    return _translated(pattern) is None


def matches(pattern: str, key: str) -> bool:
    """True where the pattern matches the whole key; a malformed one matches nothing."""
    return _any_of((pattern,)).fullmatch(key) is not None


@dataclass(frozen=True, slots=True)
class Globs:
    """A list of patterns, each with its plain meaning."""

    patterns: tuple[str, ...] = ()

    def match(self, key: str) -> bool:
        return _any_of(self.patterns).fullmatch(key) is not None

    def without(self, words: Mapping[str, str]) -> dict[str, str]:
        """The words whose keys match no pattern. What a copy gets of its own is added afterwards, and so stays."""
        match = _any_of(self.patterns).fullmatch
        return {key: value for key, value in words.items() if match(key) is None}


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that namespaces may inherit or be given: a list of patterns, less what would give power."""

    patterns: tuple[str, ...] = ()

    def admits(self, key: str) -> bool:
        """Our own keys never, keys that guard a namespace only where they are spelled out, others as they match."""
        if key.startswith(OWN):
            return False
        if _guards(key):
            return key in self.patterns and not _META & set(key)
        return _any_of(self.patterns).fullmatch(key) is not None

    def admitted(self, words: Mapping[str, str]) -> dict[str, str]:
        return {key: value for key, value in words.items() if self.admits(key)}


def _guards(key: str) -> bool:
    """True for keys that decide what may run in a namespace, or by which others find it."""
    return key.startswith("pod-security.kubernetes.io/") or key == "kubernetes.io/metadata.name"


class _MalformedError(ValueError):
    """The pattern breaks the rules."""


@lru_cache(maxsize=1024)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    legal = [each for each in map(_translated, patterns) if each is not None]
    return re.compile("|".join(f"(?:{each})" for each in legal) or _NOTHING)


@lru_cache(maxsize=1024)
def _translated(pattern: str) -> str | None:
    """The pattern as a regular expression for the whole key, None where it is malformed.

    What follows a star is taken at the first place where it fits, for good (an atomic group), except at the end: so
    does Go, and so no pattern costs more than its length times the key's.
    """
    try:
        first, *others = _chunks(_tokens(pattern))
    except _MalformedError:
        return None
    if not others:
        return first
    held = "".join(f"(?>{_NO_SLASH}*?{chunk})" for chunk in others[:-1])
    return f"{first}{held}{_NO_SLASH}*?{others[-1]}" if others[-1] else f"{first}{held}{_NO_SLASH}*"


def _chunks(tokens: Iterator[str]) -> list[str]:
    """What stands before, between and after the stars; several stars in a row are one."""
    chunks = [""]
    starred = False
    for token in tokens:
        if token != _STAR:
            chunks[-1] += token
        elif not starred:
            chunks.append("")
        starred = token == _STAR
    return chunks


def _tokens(pattern: str) -> Iterator[str]:
    """Each element as a regular expression for one character, or a star."""
    at = 0
    while at < len(pattern):
        match pattern[at]:
            case "*":
                yield _STAR
                at += 1
            case "?":
                yield _NO_SLASH
                at += 1
            case "[":
                token, at = _class(pattern, at + 1)
                yield token
            case _:
                char, at = _char(pattern, at)
                yield re.escape(char)


def _class(pattern: str, at: int) -> tuple[str, int]:
    """A class from behind its `[`, and where it ends; it has a member, and `-` stands only within a range."""
    outside = pattern.startswith("^", at)
    at += outside
    members: list[str] = []
    seen = 0
    while not (seen and pattern.startswith("]", at)):
        low, at = _member(pattern, at)
        high = low
        if pattern.startswith("-", at):
            high, at = _member(pattern, at + 1)
        seen += 1
        if low <= high:  # a range that runs backwards is legal, and empty
            members.append(f"{_coded(low)}-{_coded(high)}")
    if members:
        return f"[{'^' if outside else ''}{''.join(members)}]", at + 1
    return _ANYTHING if outside else _NOTHING, at + 1


def _member(pattern: str, at: int) -> tuple[str, int]:
    if pattern.startswith(("-", "]"), at):
        raise _MalformedError
    return _char(pattern, at)


def _char(pattern: str, at: int) -> tuple[str, int]:
    """One literal character, escaped or not, and where it ends."""
    at += pattern.startswith("\\", at)
    if at >= len(pattern):
        raise _MalformedError
    return pattern[at], at + 1


def _coded(char: str) -> str:
    return f"\\U{ord(char):08x}"
