"""The original's configuration: which keys are inherited, which kinds are propagated, what names are allowed.

The messages are the original's, because people search for them. As in the original, only the first fault is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from samara.core.model import NAMESPACE, Kind
from samara.core.vocabulary import SettingError
from samara.regular_expressions import RegexpError
from samara.vocabularies.accurate.globs import Globs, Keys, malformed
from samara.vocabularies.accurate.labels import GROUP, SUB_NAMESPACE
from samara.vocabularies.accurate.naming import Policies

VERBS = ("get", "list", "watch", "create", "update", "delete")
"""The verbs that the operator needs on every watched kind, in every namespace."""
UNREADABLE = "unable to load the configuration file: "
INVALID = "invalid configurations: "

KEYS = (
    "labelKeys",
    "annotationKeys",
    "subNamespaceLabelKeys",
    "subNamespaceAnnotationKeys",
    "watches",
    "propagateLabelKeyExcludes",
    "propagateAnnotationKeyExcludes",
    "namingPolicies",
)
_PATTERNS = f"a list of patterns of keys, none under {GROUP}/"
HINTS = {
    **dict.fromkeys(KEYS[:4], _PATTERNS),
    "watches": "a list of {group, version, kind}, of kinds that have a namespace",
    **dict.fromkeys(KEYS[5:7], "a list of patterns of keys"),
    "namingPolicies": "a list of {root, match}, each root a regular expression of RE2",
}
_ITEMS = {"watches": ("group", "version", "kind"), "namingPolicies": ("root", "match")}

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_WATCHABLE = re.compile(
    rf"(?:{_LABEL}(?:\.{_LABEL})*)?/[a-z](?:[-a-z0-9]{{0,61}}[a-z0-9])?/[A-Za-z][-A-Za-z0-9]{{0,62}}"
)
_TEXT = "text (in quotes, if it looks like something else)"
_NO_SCOPE = "is not namespace-scoped"
_A_WATCH = "expected a group such as apps (none for the core group), a version such as v1 and a kind such as Secret"


class Watch(NamedTuple):
    """A kind whose objects are propagated. The core group is an empty text."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


@dataclass(frozen=True, slots=True)
class Config:
    label_keys: Keys = field(default_factory=Keys)
    annotation_keys: Keys = field(default_factory=Keys)
    sub_label_keys: Keys = field(default_factory=Keys)
    sub_annotation_keys: Keys = field(default_factory=Keys)
    watches: tuple[Watch, ...] = ()
    label_excludes: Globs = field(default_factory=Globs)
    annotation_excludes: Globs = field(default_factory=Globs)
    naming: Policies = field(default_factory=Policies)


def read(raw: Mapping[str, object]) -> Config:
    """Reads the configuration. Every key is optional. Raises SettingError."""
    fault = next(_shape_faults(raw), None)
    if fault is not None:
        raise SettingError(f"{UNREADABLE}{fault}")
    return Config(
        label_keys=_keys(raw, "labelKeys"),
        annotation_keys=_keys(raw, "annotationKeys"),
        sub_label_keys=_keys(raw, "subNamespaceLabelKeys"),
        sub_annotation_keys=_keys(raw, "subNamespaceAnnotationKeys"),
        watches=_watches(raw),
        label_excludes=Globs(_patterns(raw, "propagateLabelKeyExcludes")),
        annotation_excludes=Globs(_patterns(raw, "propagateAnnotationKeyExcludes")),
        naming=_naming(raw),
    )


def cluster_scoped_fault(kinds: Iterable[Kind]) -> str | None:
    """The message about the first kind that has no namespace and so cannot be propagated. None if there is none."""
    kind = next((kind for kind in kinds if not kind.namespaced), None)
    return None if kind is None else f"{INVALID}{Watch(kind.group, kind.version, kind.name)} {_NO_SCOPE}"


def missing_rights_fault(missing: Iterable[tuple[str, Kind]]) -> str | None:
    """The message about missing rights, each a verb and a kind. None if none is missing."""
    messages = dict.fromkeys(
        f"missing permission to {verb} {kind.group}/{kind.version}, Resource={kind.plural}" for verb, kind in missing
    )
    if not messages:
        return None
    joined = ", ".join(messages)
    return f"when validating RBAC to support configuration: {f'[{joined}]' if len(messages) > 1 else joined}"


def _keys(raw: Mapping[str, object], name: str) -> Keys:
    return Keys(_patterns(raw, name, f"{GROUP}/"))


def _patterns(raw: Mapping[str, object], name: str, forbidden_prefix: str | None = None) -> tuple[str, ...]:
    patterns = tuple(map(str, _list(raw, name)))
    for pattern in patterns:
        if malformed(pattern):
            raise SettingError(f"{INVALID}malformed pattern for {name} {pattern}: syntax error in pattern")
        if forbidden_prefix is not None and pattern.startswith(forbidden_prefix):
            raise SettingError(f"{INVALID}misconfigured {name.removesuffix('s')}: {pattern} is not allowed")
    return tuple(dict.fromkeys(patterns))


def _watches(raw: Mapping[str, object]) -> tuple[Watch, ...]:
    """A kind is identified by its group and name, and may be named only in one version. Duplicates are merged."""
    watches: dict[tuple[str, str], Watch] = {}
    for fields in _records(raw, "watches"):
        watch = Watch(fields.get("group", ""), fields.get("version", ""), fields.get("kind", ""))
        first = watches.setdefault((watch.group, watch.kind), watch)
        fault = _watch_fault(watch) or _version_fault(watch, first)
        if fault is not None:
            raise SettingError(f"{INVALID}{fault}")
    return tuple(watches.values())


def _watch_fault(watch: Watch) -> str | None:
    if not _WATCHABLE.fullmatch("/".join(watch)):
        return f"invalid gvk {watch}: {_A_WATCH}"
    if (watch.group, watch.kind) == (NAMESPACE.group, NAMESPACE.name):
        return f"{watch} {_NO_SCOPE}"
    if (watch.group, watch.kind) == (SUB_NAMESPACE.group, SUB_NAMESPACE.name):
        return f"invalid gvk {watch}: SubNamespaces define the tree, so they are not propagated along it"
    return None


def _version_fault(watch: Watch, first: Watch) -> str | None:
    if watch == first:
        return None
    return f"invalid gvk {watch}: expected one version of a kind, found {first} as well; leave one of them out"


def _naming(raw: Mapping[str, object]) -> Policies:
    try:
        return Policies.of(_records(raw, "namingPolicies"))
    except RegexpError as fault:
        raise SettingError(f"{INVALID}invalid naming policy: {fault}") from fault


def _list(raw: Mapping[str, object], name: str) -> list[object]:
    value = raw.get(name)
    return value if isinstance(value, list) else []


def _records(raw: Mapping[str, object], name: str) -> list[dict[str, str]]:
    """Mappings of text to text. A field that is null counts as missing."""
    records = [item for item in _list(raw, name) if isinstance(item, dict)]
    return [{key: value for key, value in record.items() if value is not None} for record in records]


def _shape_faults(raw: Mapping[str, object]) -> Iterator[str]:
    for key, value in raw.items():
        if key not in KEYS:
            yield _unknown(key)
        elif isinstance(value, list):
            for number, item in enumerate(value):
                yield from _item_faults(key, f"{key}[{number}]", item)
        elif value is not None:
            yield _mismatch(key, value, "a list")


def _item_faults(key: str, path: str, item: object) -> Iterator[str]:
    fields = _ITEMS.get(key)
    if fields is None:
        if not isinstance(item, str):
            yield _mismatch(path, item, _TEXT)
    elif not isinstance(item, dict):
        yield _mismatch(path, item, f"a mapping with {', '.join(fields)}")
    else:
        for name, value in item.items():
            if name not in fields:
                yield _unknown(name)
            elif not isinstance(value, str | None):
                yield _mismatch(f"{path}.{name}", value, _TEXT)


def _unknown(key: object) -> str:
    return f'error unmarshaling JSON: while decoding JSON: json: unknown field "{key}"'


def _mismatch(path: str, value: object, expected: str) -> str:
    types = {bool: "true or false", str: "text", list: "a list", dict: "a mapping", type(None): "null"}
    return f"{path}: expected {expected}, found {types.get(type(value), 'a number')}"
