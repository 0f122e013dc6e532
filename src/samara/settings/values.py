"""The scalar types of the settings: what each accepts and how it says so."""

import math
import re
from typing import NamedTuple

from samara.core.kinds import is_denied
from samara.core.match import is_namespace_name
from samara.core.model import Kind
from samara.dialects.accurate.words import SUB_NAMESPACE
from samara.dialects.fishysecret.words import FISHY_SECRET
from samara.dialects.resource_distribution import RESOURCE_DISTRIBUTION
from samara.settings.durations import FOREVER, FORM, PATTERN, format_duration, parse_duration
from samara.settings.schema import Leaf, UnfitError

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_KEY = r"[-A-Za-z0-9_.*?]"
_KIND = re.compile(rf"(?:({_LABEL}(?:\.{_LABEL})*)/)?([a-z](?:[-a-z0-9]{{0,61}}[a-z0-9])?)/([A-Z][A-Za-z0-9]{{0,62}})")


OURS = frozenset((kind.group, kind.name) for kind in (RESOURCE_DISTRIBUTION, SUB_NAMESPACE, FISHY_SECRET))
"""Whoever could have these copied could have anything made elsewhere."""


class KindName(NamedTuple):
    """A kind as settings name it; the core group is empty."""

    group: str
    version: str
    kind: str


def one_of(*words: str) -> Leaf:
    return Leaf(" | ".join(words), " or ".join(words), lambda raw: _accept(raw, isinstance(raw, str) and raw in words))


def matching(pattern: str, form: str, expects: str) -> Leaf:
    legal = re.compile(pattern)
    return Leaf(form, expects, lambda raw: _accept(raw, isinstance(raw, str) and legal.fullmatch(raw) is not None))


def whole(least: int, most: int | None = None) -> Leaf:
    def read(raw: object) -> object:
        is_whole = isinstance(raw, int) and not isinstance(raw, bool)
        return _accept(raw, is_whole and _within(raw, least, most))

    return Leaf(_range(least, most), f"a whole number {_limits(least, most)}", read)


def number(least: int, most: int) -> Leaf:
    def read(raw: object) -> float:
        # Compared before it is converted: an integer beyond the range of floats would raise.
        if not isinstance(raw, int | float) or isinstance(raw, bool) or not _within(raw, least, most):
            raise UnfitError
        return float(raw)

    return Leaf(_range(least, most), f"a number {_limits(least, most)}", read, lambda value: f"{value:g}")


def duration(*, zero: bool = False, forever: bool = False) -> Leaf:
    def read(raw: object) -> float:
        if forever and raw == FOREVER:
            return math.inf
        seconds = _seconds(raw)
        if seconds == 0 and not zero:
            raise UnfitError
        return seconds

    others = (["0"] if zero else []) + ([FOREVER] if forever else [])
    expects = FORM + ("" if zero else ", more than 0") + "".join(f", or {word}" for word in others)
    return Leaf(" | ".join(["duration", *others]), expects, read, format_duration, PATTERN)


def _seconds(raw: object) -> float:
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        if raw != 0:
            raise UnfitError("a number needs its unit")
        return 0.0
    seconds = parse_duration(raw) if isinstance(raw, str) else None
    if seconds is None:
        raise UnfitError
    return seconds


def _kind(raw: object) -> KindName:
    match = _KIND.fullmatch(raw) if isinstance(raw, str) else None
    if match is None:
        raise UnfitError
    found = KindName(*match.groups(default=""))
    if is_denied(Kind(*found, plural="")) or (found.group, found.kind) in OURS:
        raise UnfitError(
            "kinds that give rights, that keep the cluster's books or that ask for copies are never copied"
        )
    return found


def _accept(raw: object, right: bool) -> object:
    if not right:
        raise UnfitError
    return raw


def _within(raw: object, least: int, most: int | None) -> bool:
    assert isinstance(raw, int | float)
    return raw >= least and (most is None or raw <= most)


def _limits(least: int, most: int | None) -> str:
    return f"of at least {least}" if most is None else f"from {least} to {most}"


def _range(least: int, most: int | None) -> str:
    return f">= {least}" if most is None else f"{least}..{most}"


FLAG = Leaf("true | false", "true or false", lambda raw: _accept(raw, isinstance(raw, bool)))
NAMESPACE = Leaf(
    "name",
    "a namespace name (at most 63 of a-z, 0-9 and '-', no '-' at the ends)",
    lambda raw: _accept(raw, isinstance(raw, str) and is_namespace_name(raw)),
)
NAMESPACE_GLOB = matching(r"[-a-z0-9*?]{1,63}", "glob", "a namespace name or glob (a-z, 0-9, '-', '*' and '?')")
KEY_GLOB = matching(f"{_KEY}{{1,253}}(?:/{_KEY}{{1,63}})?", "glob", "a key such as example.com/team, or a glob of keys")
PATH_GLOB = matching(r"[!-~]{1,1024}", "glob", "a path or glob without spaces")
FILE = matching(r"[^\0]+", "file", "the path of a file")
MANAGER = matching(r"[ -~]{1,128}", "name", "the name of a field manager (1 to 128 printable characters)")
KIND = Leaf(
    "kind",
    "a kind such as v1/Secret or apps/v1/Deployment",
    _kind,
    lambda kind: "/".join(filter(None, kind)),
    _KIND.pattern,
)
