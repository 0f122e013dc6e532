"""`samara lint` reports these mistakes in a distribution, besides the faults of its spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from samara.core.desired import Mistake
from samara.core.kinds import NEVER_COPIED_TYPES, is_refused, rules_for
from samara.core.model import ANNOTATIONS, LABELS
from samara.core.names import quoted
from samara.core.selectors import illegal_names
from samara.vocabularies.resource_distribution.spec import (
    EXCLUDED,
    INCLUDED,
    RESOURCE,
    TARGETS,
    Targets,
    content_fields,
)
from samara.vocabularies.resource_distribution.spec_cache import ParsedSpec, SpecCache, invalid_content_message

Json = Mapping[str, Any]


def mistakes(spec: Json, parsed: ParsedSpec, specs: SpecCache) -> Iterator[Mistake]:
    """The mistakes in `spec`, the JSON from which `parsed` was read. One mistake does not hide those in other parts."""
    listed = _mapping(spec.get("targets"))
    lines = {which: _lines(which, listed) for which in (INCLUDED, EXCLUDED)}
    yield from _names(parsed.targets, lines)
    is_meant = spec.get("targets") == {}  # an explicit empty mapping selects nothing on purpose
    if not is_meant and parsed.is_aimed and not parsed.targets.selects_some:
        expected = "allNamespaces: true, names in includedNamespaces, or a namespaceLabelSelector that is not empty"
        yield Mistake(TARGETS, expected, "targets that select nothing")
    resource = _mapping(spec.get("resource"))
    yield from _metadata(_mapping(resource.get("metadata")), specs)
    yield from _content(resource, specs)


def _mapping(found: object) -> Json:
    return found if isinstance(found, Mapping) else {}


def _lines(which: str, targets: Json) -> Mapping[str, str]:
    """The first position of each name in a list. An entry that is not a mapping has a fault of its own."""
    entries = _mapping(targets.get(which)).get("list")
    found: dict[str, str] = {}
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, Mapping):
            found.setdefault(str(entry.get("name") or ""), f"{TARGETS}.{which}.list[{number}].name")
    return found


def _names(targets: Targets, lines: Mapping[str, Mapping[str, str]]) -> Iterator[Mistake]:
    for which, names in ((INCLUDED, targets.included), (EXCLUDED, targets.excluded)):
        illegal = illegal_names(f"{TARGETS}.{which}", names, "allNamespaces: true", lines[which])
        yield from (mistake for mistake in illegal if mistake.at)
    for name in targets.included.members & targets.excluded.members:
        expected = "the name in one of the lists: what is excluded gets no copy"
        twice = f"{quoted(name)}, which is in {INCLUDED}, too"
        yield Mistake(f"{TARGETS}.{EXCLUDED}", expected, twice, lines[EXCLUDED][name])


def _metadata(metadata: Json, specs: SpecCache) -> Iterator[Mistake]:
    namespace = metadata.get("namespace")
    if namespace:
        expected = f"no namespace: {TARGETS} says where copies go"
        yield Mistake(f"{RESOURCE}.metadata.namespace", expected, quoted(str(namespace)))
    for where, a in ((LABELS, "a label"), (ANNOTATIONS, "an annotation")):
        for key in _mapping(metadata.get(where)):
            if not specs.copyable(where, {key: ""}):
                at = f"{RESOURCE}.metadata.{where}.{key}"
                yield Mistake(key, "no such key here: copies lack it", f"{a} that does not travel", at)


def _content(resource: Json, specs: SpecCache) -> Iterator[Mistake]:
    api_version, name = resource.get("apiVersion"), resource.get("kind")
    if not (isinstance(api_version, str) and api_version and isinstance(name, str) and name):
        return
    kind = specs.kind(api_version, name)
    if kind is None or is_refused(kind):
        yield from specs.not_served(api_version, name).mistakes
        return
    type_ = resource.get("type")
    if isinstance(type_, str) and type_ in NEVER_COPIED_TYPES:
        yield Mistake(f"{RESOURCE}.type", "another type: Secrets of this type are never copied", quoted(type_))
    normal = rules_for(kind).canonical
    if normal is not None and normal(content_fields(resource)) is None:
        yield Mistake(RESOURCE, invalid_content_message(kind), "fields that the server does not take")
