r"""Naming policies: which names a SubNamespace may have, depending on the name of its root.

Regular expressions are RE2's, so that a match takes linear time. Go accepts the same language with three exceptions.
Only RE2 allows `\C`. Only RE2 allows letters outside ASCII in the name of a group. If two groups share a name, `$name`
is the first group here; in Go it is the first group that took part in the match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from samara.regular_expressions import Match, Regexp, RegexpError, compile_regexp

_DIGITS = frozenset("0123456789")
_LONGEST_NUMBER = 9
_ANY_ROOT = "any-other-root"
"""Stands for a root that does not exist yet."""


class BadExpansion(ValueError):  # noqa: N818 - named after the fault, as in `kube.errors`
    """The `match` of a policy, expanded for a root, is not a regular expression."""


class NamingPolicy(NamedTuple):
    root: str
    match: str

    def denies(self, name: str, root: str) -> bool:
        """True if the policy applies to this root and the name does not match it."""
        expanded = self.expanded(root)
        return expanded is not None and _expansion(self, expanded).search(name) is None

    def expanded(self, root: str) -> str | None:
        """`match`, expanded for each match of `root` in the root's name, and joined. None if there is no match."""
        parts = [expand(self.match, match) for match in _all_matches(compile_regexp(self.root), root)]
        return "".join(parts) if parts else None


@dataclass(frozen=True, slots=True)
class Policies:
    policies: tuple[NamingPolicy, ...] = ()

    @classmethod
    def of(cls, raw: Iterable[Mapping[str, str]]) -> Policies:
        """Reads a list of {root, match}. Raises RegexpError if a `root` is not a regular expression."""
        policies = tuple(NamingPolicy(fields.get("root", ""), fields.get("match", "")) for fields in raw)
        for policy in policies:
            compile_regexp(policy.root)
        return cls(policies)

    def refusal(self, name: str, root: str) -> NamingPolicy | None:
        """The first policy that denies the name under this root. None if all allow it. Raises BadExpansion."""
        return next((policy for policy in self.policies if policy.denies(name, root)), None)

    def reserves(self, name: str, root: str, roots: Iterable[str]) -> bool:
        """True if the policies give a name to this root alone: one applies to it, all allow the name, and that is so
        under no other of these roots, nor under one of any name. A policy for every root reserves nothing."""
        return self._gives(name, root) and not any(
            self._gives(name, other) for other in (*roots, _ANY_ROOT) if other != root
        )

    def _gives(self, name: str, root: str) -> bool:
        """True if a policy applies to this root and all of them allow the name."""
        try:
            is_denied = self.refusal(name, root) is not None
        except BadExpansion:
            return False
        return not is_denied and any(policy.expanded(root) is not None for policy in self.policies)


def expand(template: str, match: Match) -> str:
    """Replaces `$name`, `${name}` and `$1` by the groups of a match. `$$` and a stray `$` become a dollar.

    A name is as long as possible, so `$1x` is `${1x}`. A group that is unknown or matched nothing becomes empty.
    """
    text = ""
    before, dollar, rest = template.partition("$")
    while dollar:
        text += before
        name, after = _name(rest)
        if name:
            text += _group(name, match)
        else:
            text += "$"
            after = rest.removeprefix("$")
        before, dollar, rest = after.partition("$")
    return text + before


def _name(text: str) -> tuple[str, str]:
    """The name at the start of a text, with or without braces, and the rest. An empty name if it is malformed."""
    braced = text.startswith("{")
    start = end = int(braced)
    while end < len(text) and (text[end].isalpha() or text[end].isdecimal() or text[end] == "_"):
        end += 1
    if braced and not text.startswith("}", end):
        return "", text
    return text[start:end], text[end + braced :]


def _group(name: str, match: Match) -> str:
    index = _number(name)
    if index is None:
        index = match.re.groupindex.get(name, -1)
    return match[index] or "" if 0 <= index <= match.re.groups else ""


def _number(name: str) -> int | None:
    """The number of a group, without leading zeros. None for any other text, which is the name of a group."""
    if not _DIGITS.issuperset(name) or (name[0] == "0" and len(name) > 1):
        return None
    return int(name) if len(name) <= _LONGEST_NUMBER else None


def _all_matches(regexp: Regexp, text: str) -> Iterator[Match]:
    """The matches from left to right, without overlaps. An empty match at the end of another one does not count."""
    at, last = 0, -1
    while at <= len(text):
        match = regexp.search(text, at)
        if match is None:
            return
        is_empty = match.end() == at
        if not (is_empty and match.start() == last):
            yield match
        at, last = match.end() + is_empty, match.end()


def _expansion(policy: NamingPolicy, expanded: str) -> Regexp:
    try:
        return compile_regexp(expanded)
    except RegexpError as fault:
        raise BadExpansion(
            f"naming policy root={policy.root} match={policy.match} gives {expanded}, "
            f"expected a regular expression: {fault}"
        ) from fault
