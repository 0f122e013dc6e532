"""SpecCache: parses the spec of a distribution once, because a plan of each of ten thousand namespaces needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from samara.core.desired import Fault, Mistake
from samara.core.kinds import rules_for
from samara.core.model import ANNOTATIONS, LABELS, Content, Field, Kind
from samara.core.names import is_dns_subdomain, quoted, sample
from samara.core.queries import UNREAD, DryRunCreate, Rejected, Unread
from samara.core.source_type import Copyable
from samara.core.view import View
from samara.vocabularies.resource_distribution.spec import RESOURCE, TARGETS, Resource, Targets, compact, read

NAME = "resource-distribution"
FROM = "kruise.io/resourcedistribution.resource.from"
HASHCODE = "kruise.io/resourcedistribution.resource.hashcode"


@dataclass(frozen=True, slots=True)
class EmbeddedObject:
    """The embedded object, if its kind may be distributed, with the labels and annotations of its copies."""

    kind: Kind
    resource: Resource
    labels: Mapping[str, str] = field(repr=False)
    annotations: Mapping[str, str] = field(repr=False)
    """Without the annotation that names the distribution: specs do not contain its name."""
    dry_run: DryRunCreate

    @property
    def reads(self) -> tuple[DryRunCreate, ...]:
        """The dry run, if only the API server knows in which form it stores this kind."""
        return (self.dry_run,) if rules_for(self.kind).canonical is None else ()


@dataclass(frozen=True, slots=True)
class ParsedSpec:
    """A spec after all checks: what is copied, to which namespaces, and its faults."""

    resource: Resource | None
    embedded: EmbeddedObject | None
    """None if there is no embedded object, or if its kind may not be distributed."""
    targets: Targets
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]

    @property
    def has_valid_targets(self) -> bool:
        """True if the targets have no fault, whatever is wrong with the embedded object."""
        return not any(fault.field.startswith(TARGETS) for fault in self.faults)


class SpecCache:
    """Parses each spec once. A parsed spec is dropped with the object that holds the spec.

    A cache of a fixed size would keep hundreds of earlier specs of one source, of up to a megabyte each.
    """

    def __init__(self, kinds: tuple[Kind, ...], copyable: Copyable) -> None:
        self._kinds = {(kind.api_version, kind.name): kind for kind in kinds}
        self.copyable = copyable
        self._parsed: WeakKeyDictionary[Field, ParsedSpec] = WeakKeyDictionary()
        self._canonical: WeakKeyDictionary[Field, Content | None] = WeakKeyDictionary()

    def parse(self, spec: Field) -> ParsedSpec:
        parsed = self._parsed.get(spec)
        if parsed is None:
            parsed = self._parsed[spec] = self.parse_anew(spec)
        return parsed

    def parse_anew(self, spec: Field) -> ParsedSpec:
        """The same, but keeps nothing. For reviews: the values of a spec take many times the memory of its bytes, and
        many reviews may wait for the API server at once."""
        parsed = read(spec.raw)
        resource, embedded, refused = parsed.resource, None, tuple[Fault, ...]()
        if resource is not None:
            embedded = self._embedded(resource)
            refused = () if embedded else (self.not_served(resource.api_version, resource.kind),)
        return ParsedSpec(resource, embedded, parsed.targets, (*parsed.faults, *refused), parsed.warnings)

    def _embedded(self, resource: Resource) -> EmbeddedObject | None:
        kind = self.kind(resource.api_version, resource.kind)
        if kind is None:
            return None
        labels = self.copyable(LABELS, resource.labels)
        annotations = self.copyable(ANNOTATIONS, resource.annotations)
        type_ = {"apiVersion": resource.api_version, "kind": resource.kind}
        name = {"name": resource.name} if is_dns_subdomain(resource.name) else {}  # an illegal name has its own fault
        body = {**resource.fields, **type_, "metadata": {**name, LABELS: labels, ANNOTATIONS: annotations}}
        dry_run = DryRunCreate(kind, compact(body).encode())
        return EmbeddedObject(kind, resource, labels, {**annotations, HASHCODE: resource.hashcode}, dry_run)

    def kind(self, api_version: str, name: str) -> Kind | None:
        return self._kinds.get((api_version, name))

    def not_served(self, api_version: str, name: str) -> Fault:
        """The fault of an embedded object whose kind may not be distributed."""
        found = quoted(f"{api_version}/{name}")
        served = sample(map(str, self._kinds.values()), most=20)
        message = f"{RESOURCE}: a kind that may be distributed was expected ({served}), found {found}"
        expected = f"one of {served}: no other kind is distributed (setting vocabularies.{NAME}.kinds)"
        return Fault("Refused", message, RESOURCE, (Mistake(f"{RESOURCE}.kind", expected, found),))

    def content(self, spec: Field, embedded: EmbeddedObject, view: View) -> Content | Rejected | Unread:
        """The content of the copies in the form that the API server stores."""
        if not embedded.reads:
            content = self._canonical_content(spec, embedded, view)
            return Rejected(invalid_content_message(embedded.kind)) if content is None else content
        answer = view.answer(embedded.dry_run)
        return answer if isinstance(answer, Content | Rejected) else UNREAD

    def _canonical_content(self, spec: Field, embedded: EmbeddedObject, view: View) -> Content | None:
        if spec not in self._canonical:
            self._canonical[spec] = view.canonical(embedded.kind, embedded.resource.fields)
        return self._canonical[spec]


def invalid_content_message(kind: Kind) -> str:
    """The message for fields that the API server would refuse."""
    return f"the server takes no {kind.name} with such fields: texts in data of a ConfigMap, base64 in data of a Secret"
