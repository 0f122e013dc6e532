"""Parses the spec of a ResourceDistribution: embedded object, targets, and every fault that its author must fix."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from samara.core.desired import Fault, Mistake, mismatch
from samara.core.names import NO_NAMES, NamespaceNames, is_dns_subdomain, quoted, sample
from samara.core.selectors import NamespaceSelector, Selector, parse_selector_json

RESOURCE, TARGETS = "spec.resource", "spec.targets"
INCLUDED, EXCLUDED = "includedNamespaces", "excludedNamespaces"
SELECTORS = ("namespaceLabelSelector", "namespaceSelector")
"""The second is the original's newest name for the first, in its v1beta1. Here both count in both versions."""
DEEPEST = 200
"""Levels of a spec; the decoders of every interpreter go deeper."""
_OUTSIDE_CONTENT = ("apiVersion", "kind", "metadata", "status")
_AS_THE_SERVER = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


class Targets(NamedTuple):
    """Which namespaces get a copy."""

    everywhere: bool = False
    included: NamespaceNames = NO_NAMES
    excluded: NamespaceNames = NO_NAMES
    selectors: tuple[Selector, ...] = ()
    """Those that are not empty: an empty one selects nothing."""

    @property
    def is_mistyped(self) -> bool:
        """With a mistyped name no copy is deleted, because the author did not ask for that."""
        return bool(self.included.illegal or self.excluded.illegal)

    @property
    def selects_some(self) -> bool:
        """False if no namespace can ever match. An illegal name counts: its author meant one."""
        return bool(self.everywhere or self.included.legal or self.included.illegal or self.selectors)

    @property
    def selector(self) -> NamespaceSelector:
        """Terminating namespaces are targets too: the status names them."""
        return NamespaceSelector(
            self.included, self.everywhere, (), self.selectors, self.excluded.members, terminating=True
        )


@dataclass(frozen=True, slots=True)
class Resource:
    """The embedded object. Its namespace is ignored. Copies get no metadata except the labels and annotations here."""

    api_version: str
    kind: str
    name: str
    labels: Mapping[str, str] = field(repr=False)
    annotations: Mapping[str, str] = field(repr=False)
    fields: Mapping[str, object] = field(repr=False)
    hashcode: str

    @property
    def identity(self) -> tuple[str, str, str]:
        """What may not change."""
        return self.api_version, self.kind, self.name


@dataclass(frozen=True, slots=True)
class Spec:
    """All that one spec says."""

    resource: Resource | None
    targets: Targets
    faults: tuple[Fault, ...] = ()
    """With one of these nothing can be done for the distribution."""
    slips: tuple[Fault, ...] = ()
    """Admission refuses these; a plan passes them over and serves the rest."""


def read(raw: bytes | None) -> Spec:
    """Reads a spec as the server wrote it; all faults are listed, not the first one."""
    faults: list[Fault] = []
    found = _mapping(load(raw), "spec", faults)
    resource = _resource(found["resource"], faults) if found.get("resource") else None
    if resource is None and not faults:
        faults.append(mismatch(RESOURCE, "the complete object that is to be copied", "nothing"))
    targets = _targets(_mapping(found.get("targets"), TARGETS, faults), faults)
    return Spec(resource, targets, tuple(faults), tuple(_slips(targets)))


def load(raw: bytes | None) -> object:
    """The JSON of a spec. A text if the spec cannot be read."""
    try:
        found: object = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        return "no JSON, or nested without end"
    return found if _is_shallow(found) else "nested too deep"


def _is_shallow(found: object) -> bool:
    """True where it can be written again, too, by an encoder that goes down as deep as the interpreter lets it."""
    level = [found]
    for _ in range(DEEPEST):
        below = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [each for several in below for each in several]
        if not level:
            return True
    return False


def _mapping(found: object, at: str, faults: list[Fault]) -> Mapping[str, Any]:
    """The mapping itself; nothing counts as an empty one."""
    if isinstance(found, Mapping | None):
        return found or {}
    deepest = f", nested at most {DEEPEST} deep," if at == "spec" else ""
    faults.append(mismatch(at, f"a mapping{deepest}"))
    return {}


def _resource(found: object, faults: list[Fault]) -> Resource | None:
    """The resource also where only its name is at fault: of what else it says all faults are to be told."""
    before = len(faults)
    body = _mapping(found, RESOURCE, faults)
    meta = _mapping(body.get("metadata"), f"{RESOURCE}.metadata", faults)
    misnamed = tuple(_misnamed(meta)) if len(faults) == before else ()
    if len(faults) == before:
        faults += _incomplete(body)
    words = [_words(meta, where, faults) for where in ("labels", "annotations")]
    is_whole = len(faults) == before
    faults += misnamed
    if not is_whole:
        return None
    name = str(meta.get("name") or "")
    return Resource(body["apiVersion"], body["kind"], name, words[0], words[1], content_fields(body), hashcode(body))


def content_fields(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in body.items() if name not in _OUTSIDE_CONTENT}


def _incomplete(body: Mapping[str, Any]) -> Iterator[Fault]:
    for part in ("apiVersion", "kind"):
        if not isinstance(body.get(part), str) or not body[part]:
            at = f"{RESOURCE}.{part}"
            expected = f"the {part} of the object that is to be copied"
            yield Fault("Invalid", f"{at}: expected, and missing", at, (Mistake(at, expected, "nothing"),))


def _misnamed(meta: Mapping[str, Any]) -> Iterator[Fault]:
    name = meta.get("name")
    if not isinstance(name, str) or not is_dns_subdomain(name):
        yield mismatch(
            f"{RESOURCE}.metadata.name", "a DNS subdomain", quoted(name) if isinstance(name, str) else "none"
        )


def _words(meta: Mapping[str, Any], where: str, faults: list[Fault]) -> Mapping[str, str]:
    at = f"{RESOURCE}.metadata.{where}"
    found = _mapping(meta.get(where), at, faults)
    odd = [key for key, value in found.items() if not isinstance(value, str)]
    if odd:
        message = f"{at}: texts were expected as values of {sample(odd)}"
        faults.append(Fault("Invalid", message, at, (Mistake(at, f"texts as values of {sample(odd)}"),)))
    return found


def _targets(found: Mapping[str, Any], faults: list[Fault]) -> Targets:
    everywhere = found.get("allNamespaces") or False
    if not isinstance(everywhere, bool):
        faults.append(mismatch(f"{TARGETS}.allNamespaces", "true or false"))
    selectors = [_selector(found.get(which), f"{TARGETS}.{which}", faults) for which in SELECTORS]
    lists = [_names(found.get(which), f"{TARGETS}.{which}", faults) for which in (INCLUDED, EXCLUDED)]
    return Targets(everywhere is True, lists[0], lists[1], tuple(each for each in selectors if each.requirements))


def _selector(found: object, at: str, faults: list[Fault]) -> Selector:
    selector, wrong = parse_selector_json(found)
    faults += [fault.below(at) for fault in wrong]
    return selector


def _names(found: object, at: str, faults: list[Fault]) -> NamespaceNames:
    listed = _mapping(found, at, faults).get("list") or []
    if not isinstance(listed, list):
        faults.append(mismatch(f"{at}.list", "a list"))
        listed = []
    entries = [_mapping(each, f"{at}.list[{number}]", faults) for number, each in enumerate(listed)]
    return NamespaceNames.of(str(each.get("name") or "") for each in entries)


def _slips(targets: Targets) -> Iterator[Fault]:
    for which, names in ((INCLUDED, targets.included), (EXCLUDED, targets.excluded)):
        if names.illegal:
            found = sample(map(quoted, names.illegal))
            at = f"{TARGETS}.{which}"
            yield Fault("Invalid", f"{at}: names of namespaces were expected, found {found}", at)
    both = targets.included.members & targets.excluded.members
    if both:
        message = f"{TARGETS}: in {INCLUDED} and in {EXCLUDED}, where the latter counts: {sample(both)}"
        yield Fault("Invalid", message, TARGETS)


def hashcode(resource: Mapping[str, Any]) -> str:
    """SHA-256 over the embedded object's compact JSON with sorted keys, in UTF-8, as the API server itself writes it.

    It writes `<`, `>`, `&` and two line separators by their numbers. So this is what the original's annotation holds,
    and taking over from it writes nothing.
    """
    return hashlib.sha256(compact(resource).translate(_AS_THE_SERVER).encode()).hexdigest()


def compact(found: Mapping[str, Any]) -> str:
    return json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
