"""What one spec asks for, made ready once: ten thousand slices must not parse the same megabyte ten thousand times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from samara.core.desired import Fault, Mistake
from samara.core.kinds import rules_for
from samara.core.model import ANNOTATIONS, LABELS, Content, Field, Kind
from samara.core.names import quoted, sample
from samara.core.queries import UNREAD, DryRunCreate, Rejected, Unread
from samara.core.selectors import is_dns_subdomain
from samara.core.source_type import Copyable
from samara.core.view import View
from samara.vocabularies.resource_distribution.spec import RESOURCE, TARGETS, Resource, Targets, compact, read

NAME = "resource-distribution"
FROM = "kruise.io/resourcedistribution.resource.from"
HASHCODE = "kruise.io/resourcedistribution.resource.hashcode"


@dataclass(frozen=True, slots=True)
class EmbeddedObject:
    """A resource of a kind that may be distributed, ready to be copied."""

    kind: Kind
    resource: Resource
    labels: Mapping[str, str] = field(repr=False)
    annotations: Mapping[str, str] = field(repr=False)
    """Without the name of the distribution, which the spec does not know."""
    trial: DryRunCreate

    @property
    def reads(self) -> tuple[DryRunCreate, ...]:
        """A kind whose stored form we cannot write down ourselves is asked about."""
        return (self.trial,) if rules_for(self.kind).canonical is None else ()


@dataclass(frozen=True, slots=True)
class ParsedSpec:
    """A whole spec: what to copy, where to, and what is wrong with it."""

    resource: Resource | None
    order: EmbeddedObject | None
    """None where nothing can be done."""
    targets: Targets
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]

    @property
    def is_aimed(self) -> bool:
        """True if the targets are right, whatever is wrong with the resource."""
        return not any(fault.field.startswith(TARGETS) for fault in self.faults)


class SpecCache:
    """Makes specs ready and remembers them for as long as somebody holds them.

    They are known by their digests, which no two codecs share. A cache of the latest ones would keep what a source of
    a megabyte was at each of its last hundreds of changes.
    """

    def __init__(self, kinds: tuple[Kind, ...], copyable: Copyable) -> None:
        self._kinds = {(kind.api_version, kind.name): kind for kind in kinds}
        self.copyable = copyable
        self._asked: WeakKeyDictionary[Field, ParsedSpec] = WeakKeyDictionary()
        self._built: WeakKeyDictionary[Field, Content | None] = WeakKeyDictionary()

    def asked(self, spec: Field) -> ParsedSpec:
        found = self._asked.get(spec)
        if found is None:
            found = self._asked[spec] = self._ready(spec)
        return found

    def _ready(self, spec: Field) -> ParsedSpec:
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
        """What the copies hold, in the form in which the server stores it."""
        if not order.reads:
            built = self._normal(spec, order, view)
            return Rejected(invalid_content_message(order.kind)) if built is None else built
        found = view.answer(order.trial)
        return found if isinstance(found, Content | Rejected) else UNREAD

    def _normal(self, spec: Field, order: EmbeddedObject, view: View) -> Content | None:
        if spec not in self._built:
            self._built[spec] = view.canonical(order.kind, order.resource.fields)
        return self._built[spec]


def invalid_content_message(kind: Kind) -> str:
    """What a kind of which the server takes no such object would have to hold."""
    return f"the server takes no {kind.name} with such fields: texts in data of a ConfigMap, base64 in data of a Secret"
