r"""The patterns of label and annotation keys in the configuration. They match as Go's `path.Match` does.

`*` matches any run of characters except `/`, `?` one character except `/`, `[a-z]` one character of a class and
`[^a-z]` one outside it, both including `/`. `\` makes the next character literal. A pattern matches the whole key and
is case-sensitive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from samara.vocabularies.accurate.labels import GROUP

OWN = (f"{GROUP}/", "samara.dev/", "kubectl.kubernetes.io/")
"""No pattern admits keys under these prefixes.

Keys of Accurate and Samara define the tree and the rights in it, so a namespace that inherits one would change its
place. Keys of kubectl describe one object and would be wrong on another.
"""
_META = frozenset("*?[\\")
_STAR = ""
_NOTHING, _ANYTHING, _NO_SLASH = "(?!)", r"[\s\S]", "[^/]"


def malformed(pattern: str) -> bool:
    """True if any part of the pattern is invalid, even a part that no key reaches."""
    return _translated(pattern) is None


def matches(pattern: str, key: str) -> bool:
    """True if the pattern matches the whole key. A malformed pattern matches nothing."""
    return _any_of((pattern,)).fullmatch(key) is not None


@dataclass(frozen=True, slots=True)
class Globs:
    """A list of patterns that excludes keys from copies."""

    patterns: tuple[str, ...] = ()

    def match(self, key: str) -> bool:
        return _any_of(self.patterns).fullmatch(key) is not None

    def without(self, metadata: Mapping[str, str]) -> dict[str, str]:
        """The labels or annotations whose keys match no pattern."""
        match = _any_of(self.patterns).fullmatch
        return {key: value for key, value in metadata.items() if match(key) is None}


@dataclass(frozen=True, slots=True)
class Keys:
    """The patterns of keys that a namespace may inherit, or get from its SubNamespace."""

    patterns: tuple[str, ...] = ()

    def admits(self, key: str) -> bool:
        """True if a pattern matches, but never for keys under `OWN`. Security keys must be listed literally."""
        if key.startswith(OWN):
            return False
        if _is_security_key(key):
            return key in self.patterns and not _META & set(key)
        return _any_of(self.patterns).fullmatch(key) is not None

    def admits_by_pattern(self, key: str) -> bool:
        """True if a pattern matches and the key itself is not listed."""
        return key not in self.patterns and self.admits(key)

    @property
    def wildcards(self) -> tuple[str, ...]:
        """The patterns that may match several keys."""
        return tuple(pattern for pattern in self.patterns if _META & set(pattern))

    def admitted(self, metadata: Mapping[str, str]) -> dict[str, str]:
        return {key: value for key, value in metadata.items() if self.admits(key)}


def _is_security_key(key: str) -> bool:
    """True for keys that decide which pods may run in a namespace, and for the name that network policies select."""
    return key.startswith("pod-security.kubernetes.io/") or key == "kubernetes.io/metadata.name"


class _MalformedError(ValueError):
    """The pattern is invalid."""


@lru_cache(maxsize=1024)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    legal = [regexp for regexp in map(_translated, patterns) if regexp is not None]
    return re.compile("|".join(f"(?:{regexp})" for regexp in legal) or _NOTHING)


@lru_cache(maxsize=1024)
def _translated(pattern: str) -> str | None:
    """The pattern as a regular expression for the whole key. None if the pattern is malformed.

    The text after a star matches at the first possible position and the engine does not try another one (an atomic
    group), except at the end. Go does the same. So the cost of a match is at most pattern length times key length.
    """
    try:
        first, *others = _chunks(_tokens(pattern))
    except _MalformedError:
        return None
    if not others:
        return first
    middle = "".join(f"(?>{_NO_SLASH}*?{chunk})" for chunk in others[:-1])
    return f"{first}{middle}{_NO_SLASH}*?{others[-1]}" if others[-1] else f"{first}{middle}{_NO_SLASH}*"


def _chunks(tokens: Iterator[str]) -> list[str]:
    """The regular expressions before, between and after the stars. Several stars in a row count as one."""
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
    """The pattern's elements: each is a regular expression for one character, or a star."""
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
    """Reads a class that starts after its `[`. Returns its regular expression and the position after it.

    A class has at least one member. A `-` is allowed only between the two ends of a range.
    """
    is_negated = pattern.startswith("^", at)
    at += is_negated
    members: list[str] = []
    has_member = False
    while not (has_member and pattern.startswith("]", at)):
        low, at = _member(pattern, at)
        high = low
        if pattern.startswith("-", at):
            high, at = _member(pattern, at + 1)
        has_member = True
        if low <= high:  # a reversed range is legal and empty
            members.append(f"{_coded(low)}-{_coded(high)}")
    if members:
        return f"[{'^' if is_negated else ''}{''.join(members)}]", at + 1
    return _ANYTHING if is_negated else _NOTHING, at + 1


def _member(pattern: str, at: int) -> tuple[str, int]:
    if pattern.startswith(("-", "]"), at):
        raise _MalformedError
    return _char(pattern, at)


def _char(pattern: str, at: int) -> tuple[str, int]:
    """Reads one literal character, escaped or not, and returns the position after it."""
    at += pattern.startswith("\\", at)
    if at >= len(pattern):
        raise _MalformedError
    return pattern[at], at + 1


def _coded(char: str) -> str:
    return f"\\U{ord(char):08x}"
