"""What is wrong with a distribution: the answer of the admission webhook, and the findings of `samara lint`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from samara.core.desired import Mistake
from samara.core.kinds import NEVER_COPIED_TYPES, is_refused, rules_for
from samara.core.model import ANNOTATIONS, LABELS, Content
from samara.core.names import is_dns_subdomain, quoted
from samara.core.queries import DryRunCreate, Rejected
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
Answer = Callable[[DryRunCreate], object]
_HIDDEN = "a policy or a quota refuses it (the operator's namespace has the details: try it there)"


def refusals(
    name: str, new: ParsedSpec, old: ParsedSpec | None, content: object, answer: Answer, *, is_strict: bool
) -> tuple[str, ...]:
    """The messages of the webhook about a new or changed distribution. One answer lists all faults.

    `content`: that of the copies, if it is known. `answer`: the answer to a dry run, if there is one. `is_strict`: any
    pod that reaches the webhook may read the messages, so they quote no quota and no policy.
    """
    return (
        *_name_faults(name),
        *(fault.message for fault in (*new.faults, *new.warnings)),
        *_identity_faults(new, old),
        *_content_faults(new, content),
        *_dry_run_faults(new, answer, is_strict),
    )


def _name_faults(name: str) -> Iterator[str]:
    """The name may be empty: the API server generates one then."""
    if name and not is_dns_subdomain(name):
        yield f"metadata.name: a DNS subdomain was expected, found {quoted(name)}"


def _identity_faults(new: ParsedSpec, old: ParsedSpec | None) -> Iterator[str]:
    if old is None or old.resource is None or new.resource is None or not is_dns_subdomain(old.resource.name):
        return  # an object that cannot have been copied may be corrected
    values = zip(("apiVersion", "kind", "metadata.name"), old.resource.identity, new.resource.identity, strict=True)
    for field, before, after in values:
        if before != after:
            yield f"{RESOURCE}.{field} cannot be changed: {quoted(before)} was expected, found {quoted(after)}"


def _content_faults(new: ParsedSpec, content: object) -> Iterator[str]:
    if new.embedded is not None and isinstance(content, Content):
        why = rules_for(new.embedded.kind).refusal(content)
        if why is not None:
            yield f"{RESOURCE}: {why}"


def _dry_run_faults(new: ParsedSpec, answer: Answer, is_strict: bool) -> Iterator[str]:
    """None if the dry run has no answer yet: the webhook performs it and asks again."""
    stored = answer(new.embedded.dry_run) if new.embedded is not None else None
    if isinstance(stored, Rejected):
        is_hidden = is_strict and not stored.is_about_object
        yield f"{RESOURCE}: the API server refuses it: {_HIDDEN if is_hidden else stored.message}"


def mistakes(spec: Json, parsed: ParsedSpec, specs: SpecCache) -> Iterator[Mistake]:
    """The mistakes for `samara lint` besides the faults of the spec. One mistake does not hide those in other parts.

    `spec` is the JSON from which `parsed` was read.
    """
    targets = _mapping(spec.get("targets"))
    positions = {name: _positions(name, targets) for name in (INCLUDED, EXCLUDED)}
    yield from _name_mistakes(parsed.targets, positions)
    selects_nothing_on_purpose = spec.get("targets") == {}
    if not selects_nothing_on_purpose and parsed.has_valid_targets and not parsed.targets.selects_some:
        expected = "allNamespaces: true, names in includedNamespaces, or a namespaceLabelSelector that is not empty"
        yield Mistake(TARGETS, expected, "targets that select nothing")
    resource = _mapping(spec.get("resource"))
    yield from _metadata_mistakes(_mapping(resource.get("metadata")), specs)
    yield from _content_mistakes(resource, specs)


def _mapping(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}


def _positions(list_name: str, targets: Json) -> Mapping[str, str]:
    """By name: the path of its first item in a list. An item that is not a mapping has a fault of its own."""
    items = _mapping(targets.get(list_name)).get("list")
    positions: dict[str, str] = {}
    for number, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, Mapping):
            positions.setdefault(str(item.get("name") or ""), f"{TARGETS}.{list_name}.list[{number}].name")
    return positions


def _name_mistakes(targets: Targets, positions: Mapping[str, Mapping[str, str]]) -> Iterator[Mistake]:
    for list_name, names in ((INCLUDED, targets.included), (EXCLUDED, targets.excluded)):
        illegal = illegal_names(f"{TARGETS}.{list_name}", names, "allNamespaces: true", positions[list_name])
        yield from (mistake for mistake in illegal if mistake.at)
    for name in targets.included.members & targets.excluded.members:
        expected = "the name in one of the lists: what is excluded gets no copy"
        twice = f"{quoted(name)}, which is in {INCLUDED}, too"
        yield Mistake(f"{TARGETS}.{EXCLUDED}", expected, twice, positions[EXCLUDED][name])


def _metadata_mistakes(metadata: Json, specs: SpecCache) -> Iterator[Mistake]:
    namespace = metadata.get("namespace")
    if namespace:
        expected = f"no namespace: {TARGETS} says where copies go"
        yield Mistake(f"{RESOURCE}.metadata.namespace", expected, quoted(str(namespace)))
    for where, a in ((LABELS, "a label"), (ANNOTATIONS, "an annotation")):
        for key in _mapping(metadata.get(where)):
            if not specs.copyable(where, {key: ""}):
                at = f"{RESOURCE}.metadata.{where}.{key}"
                yield Mistake(key, "no such key here: copies lack it", f"{a} that is not copied", at)


def _content_mistakes(resource: Json, specs: SpecCache) -> Iterator[Mistake]:
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
    canonical = rules_for(kind).canonical
    if canonical is not None and canonical(content_fields(resource)) is None:
        yield Mistake(RESOURCE, invalid_content_message(kind), "fields that the server does not take")
