"""AnnotatedObjects: what all vocabularies whose sources are annotated objects have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from samara.core.admission import Request
from samara.core.desired import Copy, Desired, Fault, Template
from samara.core.model import FIELD_MANAGER, NAMESPACE, Kind, Object, Ref
from samara.core.names import matches_any_glob
from samara.core.ownership import ByMark
from samara.core.selectors import NamespaceSelection
from samara.core.source_type import LISTS_NONE, Admission, Annotated, Lint, ListedNames, Names, Policy, SourceType
from samara.core.view import View


class CopyRequest(NamedTuple):
    """The namespaces that the annotations of a source request, and the faults of the annotations."""

    targets: NamespaceSelection
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class AnnotatedObjects:
    """Builds the SourceType of a vocabulary from the few things in which such vocabularies differ."""

    name: str
    kinds: tuple[Kind, ...]
    annotations: frozenset[str]
    """The annotations that request copies."""
    marks: frozenset[str]
    """The labels and annotations that name the source of a copy."""
    proofs: frozenset[str] = field(default=frozenset(), kw_only=True)
    """Those of the marks whose field manager proves who made a copy. Empty: all of them."""
    is_source: Callable[[Object], bool]
    source_of: Callable[[Object], Ref | None]
    """The source that a copy names."""
    request: Callable[[Object], CopyRequest]
    """Parses the annotations of a source."""
    template: Callable[[Object], Template]
    """What the copies of a source hold, marks included."""
    request_in: Callable[[Object, str], CopyRequest] | None = None
    """The same as `request` for one namespace only. It may leave out the other names, which is cheaper."""
    counted: Callable[[Object], ListedNames] | None = None
    """What a source lists, if that must be known before `request` parses it. None: what `request` says."""
    excluded: tuple[str, ...] = ()
    """Globs of namespaces that get no copy, whatever a source requests."""
    pull_keys: frozenset[str] = frozenset()
    """The annotations by which an object requests its own content from another one."""
    managers: frozenset[str] = frozenset()
    policy: Policy = field(default_factory=Policy)
    is_discreet: bool = False
    """True: messages to the author of a source name only namespaces that the source lists by name."""
    ineffective: Lint = lambda obj: ()
    """Why an object of a served kind with one of the annotations is not a source."""
    lint: Lint = lambda obj: ()
    """The mistakes that are not faults of `request`: keys without effect on a source, and each name that a fault only
    counts."""

    def source_type(self) -> SourceType:
        return SourceType(
            name=self.name,
            kinds=self.kinds,
            source=Annotated(
                self.annotations,
                lambda obj, view: self._requests_copies(obj),
                kinds=dict.fromkeys(self.annotations, self.kinds),
                pull_keys=self.pull_keys,
                ineffective=self.ineffective,
                lint=self.lint,
            ),
            ownership=ByMark(
                self.marks,
                lambda obj, view: self.source_of(obj),
                self.managers | {FIELD_MANAGER},
                proofs=self.proofs,
            ),
            desired=self.desired,
            affected_by=self.affected_by,
            policy=self.policy,
            admission=Admission(self.kinds, self.validate),
            names=Names(self.listed, self.is_discreet, self._names),
        )

    def _requests_copies(self, obj: Object) -> bool:
        return obj.ref.kind in self.kinds and self.is_source(obj)

    def desired(self, source: Ref, view: View) -> Desired:
        """A source with a mistake in its annotations deletes nothing. The end of a source deletes its copies."""
        obj = view.get(source)
        if obj is None or obj.deleting or not self._requests_copies(obj):
            return Desired()
        targets, faults = self._request(obj, view.only_namespace)
        template = self.template(obj)
        copies = tuple(
            Copy(
                Ref(source.kind, namespace, source.name),
                template,
                by_name,
                targets.deciding_selectors(namespace, by_name),
            )
            for namespace, by_name in targets.namespaces(view)
            if self._may_be_in(namespace, source)
        )
        return Desired(copies, prune=not faults, faults=faults)

    def _may_be_in(self, namespace: str, source: Ref) -> bool:
        is_excluded = bool(self.excluded) and matches_any_glob(self.excluded, namespace)
        return namespace != source.namespace and not is_excluded

    def listed(self, obj: Object) -> ListedNames:
        """The names in the annotations of a source. So many that they matter are in the longest annotation."""
        if not self._requests_copies(obj):
            return LISTS_NONE
        if self.counted is not None:
            return self.counted(obj)
        targets, keys = self._request(obj).targets, self._keys(obj)
        field = max(sorted(keys), key=lambda key: len(keys[key]), default="")
        names = targets.names
        return ListedNames(names.members, len(names.legal) + len(names.illegal), targets.is_open, field)

    def affected_by(self, obj: Object, view: View) -> Iterable[Ref]:
        if obj.ref.kind != NAMESPACE:
            return ()
        sources = view.sources_naming(self.name, obj.ref.name)
        return tuple(source for source in sources if self._selects(view.get(source), obj))

    def _selects(self, source: Object | None, namespace: Object) -> bool:
        name = namespace.ref.name
        if source is None or not self._may_be_in(name, source.ref):
            return False
        return self._request(source, name).targets.selects(name, namespace.labels)

    def _names(self, source: Object, namespace: str) -> bool:
        if not self._requests_copies(source) or not self._may_be_in(namespace, source.ref):
            return False
        return self._request(source, namespace).targets.names_namespace(namespace)

    def validate(self, request: Request, view: View) -> tuple[str, ...]:
        """The mistakes in the annotations. Empty if the change does not touch the annotations."""
        new, old = request.new, request.old
        if new is None or not self._requests_copies(new) or (old is not None and self._keys(old) == self._keys(new)):
            return ()
        return tuple(fault.message for fault in self._request(new).faults)

    def _request(self, source: Object, namespace: str | None = None) -> CopyRequest:
        if namespace is None or self.request_in is None:
            return self.request(source)
        return self.request_in(source, namespace)

    def _keys(self, obj: Object) -> Mapping[str, str]:
        return {key: obj.annotations[key] for key in self.annotations if key in obj.annotations}
