"""ResourceDistribution: users embed an object in a cluster-scoped resource; Samara copies it to namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from samara.core.admission import Request
from samara.core.copy_counts import CopyCounts
from samara.core.desired import UNAVAILABLE, Adopt, Copy, Desired, Fault, Mistake, Template, Unavailable
from samara.core.metadata_keys import NAMED
from samara.core.model import ANNOTATIONS, FIELD_MANAGER, NAMESPACE, Content, Field, Kind, Object, OwnerReference, Ref
from samara.core.ownership import ByOwnerReference
from samara.core.queries import Rejected
from samara.core.source_type import (
    Addresses,
    Admission,
    Copyable,
    CustomResource,
    Names,
    Policy,
    Protected,
    SourceType,
    Status,
)
from samara.core.view import View
from samara.core.vocabulary import BuildContext, Conflicts, CrossNamespace, Vocabulary
from samara.setting_types import SECRETS_AND_CONFIG_MAPS, CopiedKind, Managers, Struct, Takeover, about
from samara.vocabularies.resource_distribution.spec import RESOURCE, TARGETS, convert, load
from samara.vocabularies.resource_distribution.spec_cache import FROM as FROM
from samara.vocabularies.resource_distribution.spec_cache import HASHCODE as HASHCODE
from samara.vocabularies.resource_distribution.spec_cache import NAME as NAME
from samara.vocabularies.resource_distribution.spec_cache import EmbeddedObject, ParsedSpec, SpecCache
from samara.vocabularies.resource_distribution.status import TYPES, status
from samara.vocabularies.resource_distribution.validation import mistakes, refusals

RESOURCE_DISTRIBUTION = Kind(
    "apps.kruise.io", "v1beta1", "ResourceDistribution", "resourcedistributions", namespaced=False
)
MARKS = frozenset({FROM, HASHCODE})
GC_GRACE = 30.0
"""Seconds that the garbage collector has to delete the copies of a distribution that is gone."""
_NO_SPEC = Field("spec", b"", None)
_UNKNOWN = Kind("", "v1", "Unknown", "unknown")
"""The kind of an embedded object that cannot be read."""


class ResourceDistributionSettings(Struct, frozen=True):
    kinds: Annotated[tuple[CopiedKind, ...], about("the kinds that may be distributed", min_length=1)] = (
        SECRETS_AND_CONFIG_MAPS
    )
    takeover: Takeover = False
    managers: Managers = ()
    conflicts: ClassVar[Conflicts | None] = "refuse"
    cross_namespace: ClassVar[CrossNamespace | None] = None


def build(settings: ResourceDistributionSettings, context: BuildContext) -> tuple[SourceType, ...]:
    copyable, is_protected = context.copyable_as_written, context.is_protected
    return (source_type(context.kinds, copyable, is_protected, context.managers, is_strict=context.is_strict),)


def source_type(
    kinds: tuple[Kind, ...],
    copyable: Copyable,
    is_protected: Callable[[str], bool],
    managers: frozenset[str] = frozenset(),
    *,
    is_strict: bool = False,
) -> SourceType:
    return ResourceDistributions(kinds, SpecCache(kinds, copyable), is_protected, managers, is_strict).source_type()


@dataclass(frozen=True, slots=True)
class ResourceDistributions:
    """The source type of ResourceDistributions."""

    kinds: tuple[Kind, ...]
    specs: SpecCache
    is_protected: Callable[[str], bool]
    """True for namespaces that a distribution reaches only by listing them."""
    managers: frozenset[str] = frozenset()
    is_strict: bool = False

    def source_type(self) -> SourceType:
        return SourceType(
            NAME,
            (*self.kinds, RESOURCE_DISTRIBUTION),
            source=CustomResource(RESOURCE_DISTRIBUTION, explicit_deletion=True, gone_after=GC_GRACE, lint=self.lint),
            ownership=ByOwnerReference(
                RESOURCE_DISTRIBUTION,
                frozenset(self.kinds),
                MARKS,
                self.managers | {FIELD_MANAGER},
            ),
            desired=self.desired,
            addresses=self.addresses,
            affected_by=self.affected_by,
            policy=Policy(Protected.BY_NAME),
            names=Names(trusts=self._trusts),
            selected_labels=self._selected_labels,
            status=Status(self.report, frozenset(TYPES)),
            admission=Admission((RESOURCE_DISTRIBUTION,), self.validate),
        )

    def addresses(self, source: Ref, view: View) -> Addresses | None:
        spec = self._spec(source, view)
        if spec is None or spec.embedded is None or spec.faults:
            return None
        return Addresses(spec.embedded.kind, spec.embedded.resource.name)

    def desired(self, source: Ref, view: View) -> Desired:
        obj = view.get(source)

        # Gone: copies that the garbage collector has not deleted are deleted, `GC_GRACE` seconds later.
        if obj is None:
            return Desired()

        # Terminating: the garbage collector deletes the copies, or orphans them if the client asked for that.
        if obj.deleting:
            return Desired(prune=False)

        # Faults in the spec: nothing is written or deleted. The copies are listed for the counts in the status.
        spec = self.specs.parse(_raw(obj))
        if spec.embedded is None or spec.faults:
            return Desired(tuple(_unservable(obj, spec, view)), prune=False, faults=spec.faults)

        # A copy in every target namespace. No copy is deleted while the content is unavailable or a name is illegal.
        stored = self.specs.content(_raw(obj), spec.embedded, view)
        content = stored if isinstance(stored, Content) else UNAVAILABLE
        return Desired(
            tuple(self._copies(obj, spec, spec.embedded, content, view)),
            prune=content is not UNAVAILABLE and not spec.targets.is_mistyped,
            faults=(*_rejected(stored), *spec.warnings),
            reads=spec.embedded.reads,
        )

    def affected_by(self, obj: Object, view: View) -> Iterable[Ref]:
        if obj.ref.kind != NAMESPACE:
            return ()
        distributions = ((source, self._spec(source, view)) for source in view.sources(NAME))
        return tuple(
            source for source, spec in distributions if spec and spec.targets.selector.selects(obj.ref.name, obj.labels)
        )

    def report(self, obj: Object, view: View, counts: CopyCounts) -> Mapping[str, object]:
        if obj.deleting:
            return {}
        spec = self.specs.parse(_raw(obj))
        faults = spec.faults or _rejected(spec.embedded and self.specs.content(_raw(obj), spec.embedded, view))
        return status(obj.generation, counts, faults, lambda ref: view.get(ref) is not None or view.exists_unread(ref))

    def validate(self, request: Request, view: View) -> tuple[str, ...]:
        """Only a change of the spec is validated, so that a faulty distribution can still be labelled and deleted."""
        new, old = request.new, request.old
        if new is None or new.deleting or (old is not None and _raw(old) == _raw(new)):
            return ()
        spec = self.specs.parse_anew(_raw(new))
        old_spec = self.specs.parse_anew(_raw(old)) if old is not None else None
        content = spec.embedded and self.specs.content(_raw(new), spec.embedded, view)
        return refusals(new.ref.name, spec, old_spec, content, view.answer, is_strict=self.is_strict)

    def lint(self, obj: Object) -> Iterable[Mistake]:
        raw = _raw(obj)
        spec = load(raw.raw)
        return mistakes(spec if isinstance(spec, Mapping) else {}, self.specs.parse(raw), self.specs)

    def _trusts(self, obj: Object, name: str) -> bool:
        return self.specs.parse(_raw(obj)).targets.selector.names_namespace(name)

    def _selected_labels(self, obj: Object) -> Iterable[tuple[str, str]]:
        keys = (selector.keys for selector in self.specs.parse(_raw(obj)).targets.selectors)
        return ((TARGETS, key) for key in sorted(frozenset().union(*keys)))

    def _copies(
        self, obj: Object, spec: ParsedSpec, embedded: EmbeddedObject, content: Content | Unavailable, view: View
    ) -> Iterable[Copy]:
        """A copy in each target namespace.

        In a protected one it is deleted when the distribution no longer lists the namespace. A copy that is older than
        the protection stays while the distribution selects the namespace.
        """
        marks = {**embedded.annotations, FROM: obj.ref.name}
        template = Template(content, embedded.labels, marks, adopt=Adopt.NEVER, owner=_owner(obj))
        named = template._replace(annotations={**marks, NAMED: "true"})
        for namespace, by_name in spec.targets.selector.namespaces(view):
            ref = Ref(embedded.kind, namespace, embedded.resource.name)
            selectors = spec.targets.selector.deciding_selectors(namespace, by_name)
            if not self.is_protected(namespace):
                yield Copy(ref, template, by_name, selectors)
            elif by_name:
                yield Copy(ref, named, by_name)
            elif not self._was_named(view.get(ref)):
                yield Copy(ref, template, selectors=selectors)

    def _was_named(self, live: Object | None) -> bool:
        return live is not None and live.manages(ANNOTATIONS, NAMED, self.managers | {FIELD_MANAGER})

    def _spec(self, source: Ref, view: View) -> ParsedSpec | None:
        obj = view.get(source)
        return None if obj is None or obj.deleting else self.specs.parse(_raw(obj))


def _unservable(obj: Object, spec: ParsedSpec, view: View) -> Iterable[Copy]:
    """The copies of an embedded object that cannot be served. They have no content, so none of them is written."""
    kind, name = _UNKNOWN, obj.ref.name
    if spec.resource is not None:
        group, _, version = spec.resource.api_version.rpartition("/")
        kind, name = Kind(group, version, spec.resource.kind, ""), spec.resource.name or name
    template = Template(UNAVAILABLE, adopt=Adopt.NEVER)
    for namespace, by_name in spec.targets.selector.namespaces(view) if spec.has_valid_targets else ():
        yield Copy(Ref(kind, namespace, name), template, by_name)


def _owner(obj: Object) -> OwnerReference:
    kind = RESOURCE_DISTRIBUTION
    return OwnerReference(
        kind.api_version, kind.name, obj.ref.name, obj.uid, controller=True, block_owner_deletion=True
    )


def _raw(obj: Object) -> Field:
    return obj.content.get("spec") or _NO_SPEC


def _rejected(content: object) -> tuple[Fault, ...]:
    return (Fault("Invalid", f"{RESOURCE}: {content.message}", RESOURCE),) if isinstance(content, Rejected) else ()


VOCABULARY = Vocabulary(
    NAME,
    ResourceDistributionSettings,
    build,
    MARKS,
    custom_resources=(RESOURCE_DISTRIBUTION,),
    convert=convert,
    shared_prefixes=frozenset({"kruise.io"}),
    original_lease="kruise-manager",
)
