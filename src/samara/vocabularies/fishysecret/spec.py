"""A FishySecret's spec as values: which Secret, which keys from which paths, and all that is wrong with it."""

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
from samara.vocabularies.fishysecret.paths import path_fault

MOST = 500
"""Keys of one Secret: a spec must not fill our memory."""
LONGEST_PATH = 1024
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
    """One key of the Secret and where its value comes from."""

    path: str
    key: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Spec:
    """All that one spec says; with a fault it asks for nothing."""

    target: Ref | None = None
    """None where it cannot be the name of a Secret."""
    type: str = OPAQUE
    items: tuple[Item, ...] = ()
    every: float | None = None
    """Seconds; None: as the settings say."""
    suspended: bool = False
    faults: tuple[Fault, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item.path for item in self.items))


def read(raw: bytes | None) -> Spec:
    """Reads a spec as the server wrote it; all faults are listed, not the first one."""
    faults = _Faults([])
    found = faults.mapping(_json(raw), "spec")
    if found is None:
        return Spec(faults=tuple(faults.told))
    target = faults.mapping(found.get("target"), "spec.target")
    return Spec(
        _target(target, faults) if target is not None else None,
        _type(target.get("type"), faults) if target is not None else OPAQUE,
        _items(found.get("data"), faults),
        _interval(found.get("refreshInterval"), faults),
        faults.flag(found.get("suspend"), "spec.suspend"),
        tuple(faults.told),
    )


def _json(raw: bytes | None) -> object:
    try:
        return json.loads(raw or b"null")
    except (ValueError, RecursionError):
        return None


class _Faults(NamedTuple):
    """What has been found wrong so far."""

    told: list[Fault]

    def wrong(self, at: str, expected: str, found: object) -> None:
        told = quoted(found) if isinstance(found, str) else "nothing" if found is None else "something else"
        self.told.append(mismatch(at, expected, told))

    def mapping(self, found: object, at: str) -> Mapping[str, Any] | None:
        if isinstance(found, Mapping):
            return found
        self.wrong(at, "a mapping", found)
        return None

    def text(self, found: object, at: str, expected: str, is_legal: Callable[[str], bool]) -> str:
        """The text itself, or nothing where it is not legal."""
        if isinstance(found, str) and is_legal(found):
            return found
        self.wrong(at, expected, found)
        return ""

    def flag(self, found: object, at: str) -> bool:
        if not isinstance(found, bool | None):
            self.wrong(at, "true or false", found)
        return found is True


def _target(found: Mapping[str, Any], faults: _Faults) -> Ref | None:
    name = faults.text(found.get("name"), "spec.target.name", NAME_FORM, is_dns_subdomain)
    namespace = faults.text(found.get("namespace"), "spec.target.namespace", NAMESPACE_FORM, is_namespace_name)
    return Ref(SECRET, namespace, name) if name and namespace else None


def _type(found: object, faults: _Faults) -> str:
    if found is None:
        return OPAQUE
    kind = faults.text(found, "spec.target.type", TYPE_FORM, lambda text: _TYPE.fullmatch(text) is not None)
    if kind in NEVER_COPIED_TYPES:
        at, refused = "spec.target.type", f"Secrets of type {kind} are never written"
        mistake = Mistake(at, "another type", refused)
        faults.told.append(Fault("Refused", f"{at}: {refused}; choose another type", at, (mistake,)))
    return kind or OPAQUE


def _items(found: object, faults: _Faults) -> tuple[Item, ...]:
    if not isinstance(found, list) or not 0 < len(found) <= MOST:
        told = (
            f"a list of {len(found)}" if isinstance(found, list) else "nothing" if found is None else "something else"
        )
        faults.told.append(mismatch("spec.data", f"a list of 1 to {MOST} items", told))
        return ()
    items = tuple(_item(each, f"spec.data[{number}]", faults) for number, each in enumerate(found))
    twice = [key for key, count in Counter(item.key for item in items).items() if key and count > 1]
    if twice:
        told = f"several of {sample(map(quoted, twice))}"
        faults.told.append(mismatch("spec.data", "every secretKeyName once", told))
    return items


def _item(found: object, at: str, faults: _Faults) -> Item:
    each = faults.mapping(found, at)
    if each is None:
        return Item("", "")
    key = faults.text(each.get("secretKeyName"), f"{at}.secretKeyName", KEY_FORM, is_key)
    path = faults.text(each.get("secretPath"), f"{at}.secretPath", "a path in the secret manager", bool)
    told = "is too long" if len(path) > LONGEST_PATH else path_fault(path) if path else None
    if told:
        at_path, wrong = f"{at}.secretPath", f"{quoted(path)} {told}"
        faults.told.append(Fault("Invalid", f"{at_path}: {wrong}", at_path, (Mistake(at_path, PATH_FORM, wrong),)))
    return Item(path, key, faults.flag(each.get("optional"), f"{at}.optional"))


def _interval(found: object, faults: _Faults) -> float | None:
    match = _INTERVAL.fullmatch(found) if isinstance(found, str) else None
    hours, minutes, seconds = map(int, match.groups(default="0")) if match else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + seconds
    if found is not None and not total:
        faults.wrong("spec.refreshInterval", INTERVAL_FORM, found)
    return float(total) or None


def is_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None and text != "." and not text.startswith("..")
