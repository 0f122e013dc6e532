"""Parses the spec of a ResourceDistribution: embedded object, targets, and every fault that its author must fix."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from samara.core.desired import Fault, Mistake, mismatch
from samara.core.label_selectors import Selector
from samara.core.names import NO_NAMES, NamespaceNames, is_dns_subdomain, quoted, sample
from samara.core.selectors import NamespaceSelector, parse_selector_json

RESOURCE, TARGETS = "spec.resource", "spec.targets"
INCLUDED, EXCLUDED = "includedNamespaces", "excludedNamespaces"
SELECTORS = ("namespaceLabelSelector", "namespaceSelector")
"""The second is the name in the original's newest v1beta1. Samara accepts both names in both versions."""
MAX_DEPTH = 200
"""Levels of a spec that are accepted. The JSON decoder of every supported Python reads more."""
_FAILED_FIELD = {"v1alpha1": "failedNamespace", "v1beta1": "failedNamespaces"}
"""By version: the field of a condition that lists namespaces."""
_OUTSIDE_CONTENT = ("apiVersion", "kind", "metadata", "status")
_SERVER_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


class Targets(NamedTuple):
    """Which namespaces get a copy."""

    everywhere: bool = False
    included: NamespaceNames = NO_NAMES
    excluded: NamespaceNames = NO_NAMES
    selectors: tuple[Selector, ...] = ()
    """Without empty selectors, because an empty one selects nothing here."""

    @property
    def is_mistyped(self) -> bool:
        """True if a name is illegal. Then no copy is deleted, because the author may mean a namespace that has one."""
        return bool(self.included.illegal or self.excluded.illegal)

    @property
    def selects_some(self) -> bool:
        """False if no namespace can ever match. An illegal name counts as a match, because its author meant one."""
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
        """What may not change after the creation."""
        return self.api_version, self.kind, self.name


@dataclass(frozen=True, slots=True)
class Spec:
    """One spec, as its author wrote it."""

    resource: Resource | None
    targets: Targets
    faults: tuple[Fault, ...] = ()
    """With one of these, nothing is written or deleted for the distribution."""
    warnings: tuple[Fault, ...] = ()
    """The webhook refuses these. A plan reports them and serves the rest."""


def read(raw: bytes | None) -> Spec:
    """Parses a spec, and collects all of its faults instead of stopping at the first."""
    faults: list[Fault] = []
    spec = _mapping(load(raw), "spec", faults)
    resource = _resource(spec["resource"], faults) if spec.get("resource") else None
    if resource is None and not faults:
        faults.append(mismatch(RESOURCE, "the complete object that is to be copied", "nothing"))
    targets = _targets(_mapping(spec.get("targets"), TARGETS, faults), faults)
    return Spec(resource, targets, tuple(faults), tuple(_target_warnings(targets)))


def load(raw: bytes | None) -> object:
    """The JSON of a spec. A text if the spec cannot be read or is nested too deeply."""
    try:
        spec: object = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        return "no JSON, or nested without end"
    return spec if _is_shallow(spec) else "nested too deep"


def _is_shallow(value: object) -> bool:
    """True if the value has at most `MAX_DEPTH` levels. The JSON encoder is recursive, so it could fail on more."""
    level = [value]
    for _ in range(MAX_DEPTH):
        containers = [
            item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)
        ]
        level = [item for container in containers for item in container]
        if not level:
            return True
    return False


def _mapping(value: object, field: str, faults: list[Fault]) -> Mapping[str, Any]:
    """The mapping itself, or an empty one if there is none or the value is wrong."""
    if isinstance(value, Mapping | None):
        return value or {}
    depth = f", nested at most {MAX_DEPTH} deep," if field == "spec" else ""
    faults.append(mismatch(field, f"a mapping{depth}"))
    return {}


def _resource(value: object, faults: list[Fault]) -> Resource | None:
    """The embedded object, or None if a part of it is missing or wrong. A wrong name alone is reported only, so that
    the other checks go on."""
    before = len(faults)
    body = _mapping(value, RESOURCE, faults)
    metadata = _mapping(body.get("metadata"), f"{RESOURCE}.metadata", faults)
    name_faults = tuple(_name_faults(metadata)) if len(faults) == before else ()
    if len(faults) == before:
        faults += _type_faults(body)
    labels, annotations = (_texts(metadata, where, faults) for where in ("labels", "annotations"))
    is_complete = len(faults) == before
    faults += name_faults
    if not is_complete:
        return None
    name = str(metadata.get("name") or "")
    return Resource(body["apiVersion"], body["kind"], name, labels, annotations, content_fields(body), hashcode(body))


def content_fields(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in body.items() if name not in _OUTSIDE_CONTENT}


def _type_faults(body: Mapping[str, Any]) -> Iterator[Fault]:
    for part in ("apiVersion", "kind"):
        if not isinstance(body.get(part), str) or not body[part]:
            field = f"{RESOURCE}.{part}"
            expected = f"the {part} of the object that is to be copied"
            yield Fault("Invalid", f"{field}: expected, and missing", field, (Mistake(field, expected, "nothing"),))


def _name_faults(metadata: Mapping[str, Any]) -> Iterator[Fault]:
    name = metadata.get("name")
    if not isinstance(name, str) or not is_dns_subdomain(name):
        yield mismatch(
            f"{RESOURCE}.metadata.name", "a DNS subdomain", quoted(name) if isinstance(name, str) else "none"
        )


def _texts(metadata: Mapping[str, Any], where: str, faults: list[Fault]) -> Mapping[str, str]:
    """The labels or annotations."""
    field = f"{RESOURCE}.metadata.{where}"
    texts = _mapping(metadata.get(where), field, faults)
    wrong = [key for key, value in texts.items() if not isinstance(value, str)]
    if wrong:
        message = f"{field}: texts were expected as values of {sample(wrong)}"
        faults.append(Fault("Invalid", message, field, (Mistake(field, f"texts as values of {sample(wrong)}"),)))
    return texts


def _targets(targets: Mapping[str, Any], faults: list[Fault]) -> Targets:
    everywhere = targets.get("allNamespaces") or False
    if not isinstance(everywhere, bool):
        faults.append(mismatch(f"{TARGETS}.allNamespaces", "true or false"))
    selectors = [_selector(targets.get(name), f"{TARGETS}.{name}", faults) for name in SELECTORS]
    included, excluded = (_names(targets.get(name), f"{TARGETS}.{name}", faults) for name in (INCLUDED, EXCLUDED))
    return Targets(
        everywhere is True, included, excluded, tuple(selector for selector in selectors if selector.requirements)
    )


def _selector(value: object, field: str, faults: list[Fault]) -> Selector:
    selector, selector_faults = parse_selector_json(value)
    faults += [fault.below(field) for fault in selector_faults]
    return selector


def _names(value: object, field: str, faults: list[Fault]) -> NamespaceNames:
    items = _mapping(value, field, faults).get("list") or []
    if not isinstance(items, list):
        faults.append(mismatch(f"{field}.list", "a list"))
        items = []
    entries = [_mapping(item, f"{field}.list[{number}]", faults) for number, item in enumerate(items)]
    return NamespaceNames.of(str(entry.get("name") or "") for entry in entries)


def _target_warnings(targets: Targets) -> Iterator[Fault]:
    for name, names in ((INCLUDED, targets.included), (EXCLUDED, targets.excluded)):
        if names.illegal:
            found = sample(map(quoted, names.illegal))
            field = f"{TARGETS}.{name}"
            yield Fault("Invalid", f"{field}: names of namespaces were expected, found {found}", field)
    both = targets.included.members & targets.excluded.members
    if both:
        message = f"{TARGETS}: in {INCLUDED} and in {EXCLUDED}, where the latter counts: {sample(both)}"
        yield Fault("Invalid", message, TARGETS)


def hashcode(resource: Mapping[str, Any]) -> str:
    """SHA-256 over the embedded object's compact JSON with sorted keys, in UTF-8, as the API server itself writes it.

    The API server escapes `<`, `>`, `&` and two line separators. The original's annotation holds the same hash, so
    taking over from it writes nothing.
    """
    return hashlib.sha256(compact(resource).translate(_SERVER_ESCAPES).encode()).hexdigest()


def compact(body: Mapping[str, Any]) -> str:
    """JSON without white space and with sorted keys."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def convert(obj: Mapping[str, Any], desired: str) -> dict[str, Any]:
    """The object in the desired apiVersion. The versions differ in the name of one field of the conditions.

    Fields and versions that are not known stay as they are.
    """
    converted = {**obj, "apiVersion": desired}
    status = obj.get("status")
    name = _FAILED_FIELD.get(desired.rpartition("/")[2])
    if name is None or not isinstance(status, Mapping) or not isinstance(status.get("conditions"), list):
        return converted
    conditions = [_renamed(condition, name) for condition in status["conditions"]]
    return {**converted, "status": {**status, "conditions": conditions}}


def _renamed(condition: object, name: str) -> object:
    if not isinstance(condition, Mapping):
        return condition
    return {name if key in _FAILED_FIELD.values() else key: value for key, value in condition.items()}
