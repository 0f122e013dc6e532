"""Parses the spec of a FishySecret: its target, the path of each key, and every fault that its author must fix."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from samara.core.desired import Fault, Mistake, mismatch
from samara.core.kinds import NEVER_COPIED_TYPES
from samara.core.model import SECRET, Ref
from samara.core.names import is_dns_subdomain, is_namespace_name, quoted, sample
from samara.core.queries import path_fault
from samara.core.source_limits import LIMIT_EXCEEDED

MAX_ITEMS = 500
"""Keys of one Secret. Bounds the memory that a tenant's spec can use."""
MAX_PATHS = 100
"""Different paths of one FishySecret that are read. The CRD accepts more, as that of the original does."""
MAX_PATH_LENGTH = 1024
OPAQUE = "Opaque"
NAME_FORM = "the name of a Secret, up to 253 lower-case letters, digits, - and .,"
NAMESPACE_FORM = "the name of a namespace, up to 63 lower-case letters, digits and -,"
TYPE_FORM = "a type of Secrets such as kubernetes.io/tls"
KEY_FORM = "a key of a Secret: up to 253 letters, digits, - _ and ., not . itself and not beginning with ..,"
PATH_FORM = "a path such as /app/db/password: no empty segment, no . or .. as one, at most one #, and no % ? or \\"
INTERVAL_FORM = "a duration of at least 1s, such as 90s, 5m or 1h30m,"
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_TYPE = re.compile(r"[-._a-zA-Z0-9/]{1,253}")
_INTERVAL = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?")


class Item(NamedTuple):
    """One key of the Secret, and the path from which its value is read."""

    path: str
    key: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Spec:
    """One spec. If it has faults, nothing is read or written for it."""

    target: Ref | None = None
    """None if the spec does not name a possible Secret."""
    type: str = OPAQUE
    items: tuple[Item, ...] = ()
    refresh_interval: float | None = None
    """Seconds. None: as the settings say."""
    suspended: bool = False
    faults: tuple[Fault, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item.path for item in self.items))


def read(raw: bytes | None) -> Spec:
    """Parses a spec, and collects all of its faults instead of stopping at the first."""
    reader = _Reader([])
    spec = reader.mapping(_json(raw), "spec")
    if spec is None:
        return Spec(faults=tuple(reader.faults))
    target = reader.mapping(spec.get("target"), "spec.target")
    return Spec(
        _target(target, reader) if target is not None else None,
        _type(target.get("type"), reader) if target is not None else OPAQUE,
        _items(spec.get("data"), reader),
        _interval(spec.get("refreshInterval"), reader),
        reader.flag(spec.get("suspend"), "spec.suspend"),
        tuple(reader.faults),
    )


def _json(raw: bytes | None) -> object:
    try:
        return json.loads(raw or b"null")
    except (ValueError, RecursionError):
        return None


class _Reader(NamedTuple):
    """Checks the types of values, and collects a fault for each wrong one. `field` is the path of a value."""

    faults: list[Fault]

    def reject(self, field: str, expected: str, value: object) -> None:
        self.faults.append(mismatch(field, expected, quoted(value) if isinstance(value, str) else _described(value)))

    def mapping(self, value: object, field: str) -> Mapping[str, Any] | None:
        if isinstance(value, Mapping):
            return value
        self.reject(field, "a mapping", value)
        return None

    def text(self, value: object, field: str, expected: str, is_legal: Callable[[str], bool]) -> str:
        """The text itself, or an empty text if it is not legal."""
        if isinstance(value, str) and is_legal(value):
            return value
        self.reject(field, expected, value)
        return ""

    def flag(self, value: object, field: str) -> bool:
        if not isinstance(value, bool | None):
            self.reject(field, "true or false", value)
        return value is True


def _described(value: object) -> str:
    return "nothing" if value is None else "something else"


def _target(target: Mapping[str, Any], reader: _Reader) -> Ref | None:
    name = reader.text(target.get("name"), "spec.target.name", NAME_FORM, is_dns_subdomain)
    namespace = reader.text(target.get("namespace"), "spec.target.namespace", NAMESPACE_FORM, is_namespace_name)
    return Ref(SECRET, namespace, name) if name and namespace else None


def _type(value: object, reader: _Reader) -> str:
    if value is None:
        return OPAQUE
    field = "spec.target.type"
    type_ = reader.text(value, field, TYPE_FORM, lambda text: _TYPE.fullmatch(text) is not None)
    if type_ in NEVER_COPIED_TYPES:
        refused = f"Secrets of type {type_} are never written"
        mistake = Mistake(field, "another type", refused)
        reader.faults.append(Fault("Refused", f"{field}: {refused}; choose another type", field, (mistake,)))
    return type_ or OPAQUE


def _items(data: object, reader: _Reader) -> tuple[Item, ...]:
    if not isinstance(data, list) or not 0 < len(data) <= MAX_ITEMS:
        found = f"a list of {len(data)}" if isinstance(data, list) else _described(data)
        reader.faults.append(mismatch("spec.data", f"a list of 1 to {MAX_ITEMS} items", found))
        return ()
    items = tuple(_item(item, f"spec.data[{number}]", reader) for number, item in enumerate(data))
    paths = len({item.path for item in items})
    if paths > MAX_PATHS:
        fault = mismatch("spec.data", f"a list with at most {MAX_PATHS} different paths", f"{paths}")
        reader.faults.append(fault._replace(reason=LIMIT_EXCEEDED))
    duplicates = [key for key, count in Counter(item.key for item in items).items() if key and count > 1]
    if duplicates:
        found = f"several of {sample(map(quoted, duplicates))}"
        reader.faults.append(mismatch("spec.data", "every secretKeyName once", found))
    return items


def _item(value: object, field: str, reader: _Reader) -> Item:
    item = reader.mapping(value, field)
    if item is None:
        return Item("", "")
    key = reader.text(item.get("secretKeyName"), f"{field}.secretKeyName", KEY_FORM, is_key)
    path_field = f"{field}.secretPath"
    path = reader.text(item.get("secretPath"), path_field, "a path in the secret manager", bool)
    fault = "is too long" if len(path) > MAX_PATH_LENGTH else path_fault(path) if path else None
    if fault is not None:
        found = f"{quoted(path)} {fault}"
        mistake = Mistake(path_field, PATH_FORM, found)
        reader.faults.append(Fault("Invalid", f"{path_field}: {found}", path_field, (mistake,)))
    return Item(path, key, reader.flag(item.get("optional"), f"{field}.optional"))


def _interval(value: object, reader: _Reader) -> float | None:
    match = _INTERVAL.fullmatch(value) if isinstance(value, str) else None
    hours, minutes, seconds = map(int, match.groups(default="0")) if match else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + seconds
    if value is not None and not total:
        reader.reject("spec.refreshInterval", INTERVAL_FORM, value)
    return float(total) or None


def is_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None and text != "." and not text.startswith("..")
