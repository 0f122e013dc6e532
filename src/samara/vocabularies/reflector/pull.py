"""Mirrors that a person made: an annotation names the object that fills them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from samara.core.desired import BlockedTarget, Copy, Desired, Fault, Stamp, Template, mismatch
from samara.core.kinds import rules_for
from samara.core.model import CONFIG_MAP, NAMESPACE, SECRET, Content, Kind, Object, Ref, namespace_ref
from samara.core.names import quoted
from samara.core.ownership import ByItself
from samara.core.source_type import Addresses, Annotated, ListedNames, Names, SourceType
from samara.core.view import View
from samara.vocabularies.reflector.annotations import (
    ALLOWED,
    AT,
    AUTO_REFLECTS,
    REFLECTS,
    VERSION,
    allowed_by,
    is_auto_mirror,
    is_true,
    reflected,
    value_of,
)

FILLED: dict[Kind, tuple[str, ...]] = {SECRET: ("data",), CONFIG_MAP: ("data", "binaryData")}
"""The fields that come from the source. All others belong to the person who made the mirror."""
_MAX_HOPS = 1000


@dataclass(frozen=True, slots=True)
class PullMirrors:
    """The source type of objects that ask to be filled."""

    name: str
    kinds: tuple[Kind, ...]
    is_excluded: Callable[[Ref], bool]
    """True in namespaces that the settings exclude."""
    is_never_reflected: Callable[[Object], bool]
    """True for types of Secrets that are neither sources nor mirrors."""

    def source_type(self) -> SourceType:
        return SourceType(
            name=self.name,
            kinds=self.kinds,
            source=Annotated(
                frozenset({REFLECTS}),
                lambda obj, view: self.is_mirror(obj),
                kinds={REFLECTS: self.kinds},
                pull_keys=frozenset({REFLECTS}),
                inputs=self.inputs,
            ),
            ownership=ByItself(frozenset({AUTO_REFLECTS, VERSION, AT})),
            desired=self.desired,
            affected_by=self.affected_by,
            addresses=lambda source, view: Addresses(source.kind, source.name, within=source.namespace),
            names=Names(lambda mirror: ListedNames({mirror.ref.namespace}, 1, field=REFLECTS)),
            per_namespace=False,
        )

    def is_mirror(self, obj: Object) -> bool:
        asks = obj.ref.kind in self.kinds and bool(value_of(obj, REFLECTS)) and not is_auto_mirror(obj)
        return asks and not self.is_excluded(obj.ref) and not self.is_never_reflected(obj)

    def inputs(self, mirror: Object) -> Iterable[Ref]:
        source = reflected(mirror)
        return () if source is None else (source,)

    def affected_by(self, obj: Object, view: View) -> Iterable[Ref]:
        """The labels of a namespace decide whether its mirrors are allowed."""
        return tuple(view.sources_targeting(self.name, obj.ref.name)) if obj.ref.kind == NAMESPACE else ()

    def desired(self, ref: Ref, view: View) -> Desired:
        mirror = view.get(ref)
        if mirror is None or mirror.deleting or not self.is_mirror(mirror):
            return Desired(prune=False)
        if fault := self._fault(mirror, view):
            return Desired(prune=False, faults=(fault,), blocked=(BlockedTarget(ref, "invalid", fault.message),))
        source = reflected(mirror)
        assert source is not None
        blocked = self._blocked(mirror, source, view)
        if blocked is not None:
            return Desired(prune=False, blocked=(blocked,))
        return Desired((self._copy(mirror, source, view),), prune=False)

    def _fault(self, mirror: Object, view: View) -> Fault | None:
        source, found = reflected(mirror), quoted(value_of(mirror, REFLECTS))
        if source is None:
            return mismatch(REFLECTS, "<namespace>/<name> of another object", found)
        if source == mirror.ref:
            return mismatch(REFLECTS, "another object than this one", found)
        if self._is_in_circle(mirror.ref, source, view):
            return mismatch(REFLECTS, "a source that is not filled from this object again", found)
        return None

    def _is_in_circle(self, mirror: Ref, source: Ref, view: View) -> bool:
        for _ in range(_MAX_HOPS):
            obj = view.get(source)
            following = reflected(obj) if obj is not None and self.is_mirror(obj) else None
            if following is None or following == source:
                return False
            if following == mirror:
                return True
            source = following
        return False

    def _blocked(self, mirror: Object, ref: Ref, view: View) -> BlockedTarget | None:
        source = view.get(ref)
        if source is None:
            return BlockedTarget(
                mirror.ref, "invalid", f"{ref} does not exist: this object stays as it is until it does"
            )
        refused = "its type is never reflected" if self.is_never_reflected(source) else ""
        refused = refused or rules_for(ref.kind).refusal(source.content) or ""
        if refused:
            return BlockedTarget(mirror.ref, "refused", f"{ref}: {refused}")
        namespace = view.get(namespace_ref(mirror.ref.namespace))
        is_allowed = is_true(source, ALLOWED) and not self.is_excluded(ref)
        if is_allowed and namespace is not None and allowed_by(source).selects(namespace.ref.name, namespace.labels):
            return None
        return BlockedTarget(
            mirror.ref, "not-accepted", f"{ref} does not allow this namespace: {ALLOWED} and the lists beside it decide"
        )

    def _copy(self, mirror: Object, ref: Ref, view: View) -> Copy:
        source = view.get(ref)
        assert source is not None
        filled = FILLED[ref.kind]
        fields = (*mirror.content.without(*filled).fields, *source.content.pick(*filled).fields)
        template = Template(
            Content(tuple(sorted(fields, key=lambda field: field.name))),
            stamps={AUTO_REFLECTS: Stamp("False"), VERSION: Stamp(str(source.resource_version)), AT: Stamp(str)},
        )
        allowed, name = allowed_by(source), mirror.ref.namespace
        return Copy(mirror.ref, template, by_name=True, selectors=allowed.deciding_selectors(name, by_name=False))
