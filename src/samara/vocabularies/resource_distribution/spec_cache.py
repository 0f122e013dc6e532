"""Parses the spec of a distribution once, because a plan for each of ten thousand namespaces needs it."""

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
    trial: DryRunCreate

    @property
    def reads(self) -> tuple[DryRunCreate, ...]:
        """A dry run, if only the API server knows in which form it stores this kind."""
        return (self.trial,) if rules_for(self.kind).canonical is None else ()


@dataclass(frozen=True, slots=True)
class ParsedSpec:
    """A spec after all checks: what to copy, where to, and its faults."""

    resource: Resource | None
    order: EmbeddedObject | None
    """None if there is no embedded object, or if its kind may not be distributed."""
    targets: Targets
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]

    @property
    def is_aimed(self) -> bool:
        """True if the targets are right, whatever is wrong with the resource."""
        return not any(fault.field.startswith(TARGETS) for fault in self.faults)


class SpecCache:
    """Parses each spec once. A parsed spec is dropped with the object that holds the spec.

    A cache of a fixed size would keep hundreds of earlier specs of one source, of up to a megabyte each.
    """

    def __init__(self, kinds: tuple[Kind, ...], copyable: Copyable) -> None:
        self._kinds = {(kind.api_version, kind.name): kind for kind in kinds}
        self.copyable = copyable
        self._parsed: WeakKeyDictionary[Field, ParsedSpec] = WeakKeyDictionary()
        self._built: WeakKeyDictionary[Field, Content | None] = WeakKeyDictionary()

    def parse(self, spec: Field) -> ParsedSpec:
        parsed = self._parsed.get(spec)
        if parsed is None:
            parsed = self._parsed[spec] = self._parse(spec)
        return parsed

    def _parse(self, spec: Field) -> ParsedSpec:
        found = read(spec.raw)
        order, refused = None, tuple[Fault, ...]()
        if found.resource is not None:
            order = self._order(found.resource)
            refused = () if order else (self.not_served(found.resource.api_version, found.resource.kind),)
        return ParsedSpec(found.resource, order, found.targets, (*found.faults, *refused), found.slips)

    def _order(self, resource: Resource) -> EmbeddedObject | None:
        kind = self.kind(resource.api_version, resource.kind)
        if kind is None:
            return None
        labels, own = self.copyable(LABELS, resource.labels), self.copyable(ANNOTATIONS, resource.annotations)
        annotations = {**own, HASHCODE: resource.hashcode}
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        name = {"name": resource.name} if is_dns_subdomain(resource.name) else {}  # else it is a fault of its own
        body = {**resource.fields, **head, "metadata": {**name, LABELS: labels, ANNOTATIONS: own}}
        return EmbeddedObject(kind, resource, labels, annotations, DryRunCreate(kind, compact(body).encode()))

    def kind(self, api_version: str, name: str) -> Kind | None:
        return self._kinds.get((api_version, name))

    def not_served(self, api_version: str, name: str) -> Fault:
        found = quoted(f"{api_version}/{name}")
        served = sample(map(str, self._kinds.values()), most=20)
        message = f"{RESOURCE}: a kind that may be distributed was expected ({served}), found {found}"
        expected = f"one of {served}: no other kind is distributed (setting vocabularies.{NAME}.kinds)"
        return Fault("Refused", message, RESOURCE, (Mistake(f"{RESOURCE}.kind", expected, found),))

    def content(self, spec: Field, order: EmbeddedObject, view: View) -> Content | Rejected | Unread:
        """The content of the copies in the form that the API server stores."""
        if not order.reads:
            built = self._canonical(spec, order, view)
            return Rejected(invalid_content_message(order.kind)) if built is None else built
        found = view.answer(order.trial)
        return found if isinstance(found, Content | Rejected) else UNREAD

    def _canonical(self, spec: Field, order: EmbeddedObject, view: View) -> Content | None:
        if spec not in self._built:
            self._built[spec] = view.canonical(order.kind, order.resource.fields)
        return self._built[spec]


def invalid_content_message(kind: Kind) -> str:
    """The message for fields that the API server would refuse."""
    return f"the server takes no {kind.name} with such fields: texts in data of a ConfigMap, base64 in data of a Secret"
