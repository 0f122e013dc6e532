r"""Naming policies: what a SubNamespace may be called, by the name of the root above it.

Regular expressions are RE2's, which take a time linear in the name, whoever wrote them. Go reads the same language,
with these exceptions: only here `\C` is legal, and so are letters beyond ASCII in the name of a group; where two groups
share a name, `$name` is the first of them here, and in Go the first that took part in the match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from samara.regular_expressions import Match, Regexp, RegexpError, compile_regexp

_DIGITS = frozenset("0123456789")
_LONGEST_NUMBER = 9


class BadExpansion(ValueError):  # noqa: N818 - as the API's own faults, it is named after what was found
    """The `match` of a policy, filled in for a root, is no regular expression."""


class Policy(NamedTuple):
    root: str
    match: str

    def denies(self, name: str, root: str) -> bool:
        """True where the policy speaks about this root and the name is not as it says."""
        expanded = self.expanded(root)
        return expanded is not None and _expansion(self, expanded).search(name) is None

    def expanded(self, root: str) -> str | None:
        """`match`, filled in for each place where the root's name matches and joined; None where it does nowhere."""
        parts = [expand(self.match, found) for found in _every(compile_regexp(self.root), root)]
        return "".join(parts) if parts else None


@dataclass(frozen=True, slots=True)
class Policies:
    policies: tuple[Policy, ...] = ()

    @classmethod
    def of(cls, raw: Iterable[Mapping[str, str]]) -> Policies:
        """Reads a list of {root, match}; raises RegexpError for the first `root` that is none."""
        made = tuple(Policy(each.get("root", ""), each.get("match", "")) for each in raw)
        for each in made:
            compile_regexp(each.root)
        return cls(made)

    def refusal(self, name: str, root: str) -> Policy | None:
        """The first policy that forbids the name under this root, or none; raises BadExpansion."""
        return next((each for each in self.policies if each.denies(name, root)), None)


def expand(template: str, found: Match) -> str:
    """The template with what its groups matched: `$name`, `${name}`, `$1`; `$$` is a dollar, and so is a stray one.

    A name is as long as it can be, so `$1x` is `${1x}`; one that is unknown, or matched nothing, gives nothing.
    """
    text = ""
    before, dollar, rest = template.partition("$")
    while dollar:
        text += before
        name, after = _name(rest)
        if name:
            text += _group(name, found)
        else:
            text += "$"
            after = rest.removeprefix("$")
        before, dollar, rest = after.partition("$")
    return text + before


def _name(text: str) -> tuple[str, str]:
    """The name with which a text begins, in braces or not, and what follows; no name where it is malformed."""
    braced = text.startswith("{")
    start = end = int(braced)
    while end < len(text) and (text[end].isalpha() or text[end].isdecimal() or text[end] == "_"):
        end += 1
    if braced and not text.startswith("}", end):
        return "", text
    return text[start:end], text[end + braced :]


def _group(name: str, found: Match) -> str:
    index = _number(name)
    if index is None:
        index = found.re.groupindex.get(name, -1)
    return found[index] or "" if 0 <= index <= found.re.groups else ""


def _number(name: str) -> int | None:
    """A name that is a number, without zeros before it, counts groups; any other is looked up."""
    if not _DIGITS.issuperset(name) or (name[0] == "0" and len(name) > 1):
        return None
    return int(name) if len(name) <= _LONGEST_NUMBER else None


def _every(regexp: Regexp, text: str) -> Iterator[Match]:
    """The matches from left to right, none over another; an empty one at the end of another does not count."""
    at, last = 0, -1
    while at <= len(text):
        found = regexp.search(text, at)
        if found is None:
            return
        empty_here = found.end() == at
        if not (empty_here and found.start() == last):
            yield found
        at, last = found.end() + empty_here, found.end()


def _expansion(policy: Policy, expanded: str) -> Regexp:
    try:
        return compile_regexp(expanded)
    except RegexpError as fault:
        raise BadExpansion(
            f"naming policy root={policy.root} match={policy.match} gives {expanded}, "
            f"expected a regular expression: {fault}"
        ) from fault
