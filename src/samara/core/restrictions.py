"""Wrappers around a source type: what the settings forbid the sources of every vocabulary.

They replace `desired`, `validate` and `lint` of the source type, so what a vocabulary returns is not always what a plan
gets. `registry_of` in `assembly.py` applies them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from samara.core import kinds
from samara.core.admission import Request
from samara.core.desired import Desired, Fault, Mistake, mismatch
from samara.core.model import Key, Kind, Object, ObjectName, Ref
from samara.core.policy import kept_by_cluster_message
from samara.core.source_limits import LIMIT_EXCEEDED, SourceLimits
from samara.core.source_type import SourceType
from samara.core.view import View


def limited(source_type: SourceType, limits: SourceLimits) -> SourceType:
    """Wraps a source type: a source over its limits keeps its copies and gets no new ones.

    The webhook refuses a source that lists too many names, and lint reports nothing else about its list.
    """

    def desired(source: Ref, view: View) -> Desired:
        message = view.excess(Key(source_type.name, source))
        if not message:
            return source_type.desired(source, view)
        obj = view.get(source)
        fault = None if obj is None else too_many_names(obj, source_type, limits)
        return Desired(prune=False, faults=(fault or Fault(LIMIT_EXCEEDED, message),))

    def validate(request: Request, view: View) -> tuple[str, ...]:
        new, old = request.new, request.old
        if new is not None and (old is None or source_type.names.listed_by(old) != source_type.names.listed_by(new)):
            fault = too_many_names(new, source_type, limits)
            if fault is not None:
                return (fault.message,)
        return () if admission is None else admission.validate(request, view)

    def lint(obj: Object) -> Iterable[Mistake]:
        return source_type.source.lint(obj) if too_many_names(obj, source_type, limits) is None else ()

    admission = source_type.admission
    return replace(
        source_type,
        source=replace(source_type.source, lint=lint),
        desired=desired,
        admission=None if admission is None else replace(admission, validate=validate),
        policy=source_type.policy._replace(limits=limits),
    )


def too_many_names(obj: Object, source_type: SourceType, limits: SourceLimits) -> Fault | None:
    """The fault of a source that lists more names than one source may. None if it does not."""
    listed = source_type.names.listed_by(obj)
    if limits.allow_source(listed.total):
        return None
    note = f"; {listed.note}" if listed.note else ""
    expected = f"a list of at most {limits.listed_names:,} names (setting limits.listedNames{note})"
    return mismatch(listed.field, expected, f"{listed.total:,} names")._replace(reason=LIMIT_EXCEEDED)


def without_cluster_objects(source_type: SourceType, kept: tuple[ObjectName, ...]) -> SourceType:
    """Wraps a source type so that no cluster-owned object is a source.

    The source gets a fault; existing copies stay, because a change of settings deletes nothing.
    """

    def fault_of(obj: Object | None, view: View) -> Fault | None:
        if obj is None or obj.deleting or not kinds.is_kept_by_cluster(obj.ref.kind, obj.ref.name, kept):
            return None
        if not source_type.is_source(obj, view):
            return None
        keys = sorted(source_type.source.metadata_keys & {*obj.labels, *obj.annotations})[:1]
        message = kept_by_cluster_message(obj.ref)
        return Fault("Refused", message, mistakes=tuple(Mistake(key, f"no {key} on it", message) for key in keys))

    def desired(source: Ref, view: View) -> Desired:
        fault = fault_of(view.get(source), view)
        return source_type.desired(source, view) if fault is None else Desired(prune=False, faults=(fault,))

    def validate(request: Request, view: View) -> tuple[str, ...]:
        """Only a change that makes the object a source is refused, so that the cluster can still update it."""
        fault = None if fault_of(request.old, view) else fault_of(request.new, view)
        if fault is not None:
            return (fault.message,)
        return () if admission is None else admission.validate(request, view)

    admission = source_type.admission
    return replace(
        source_type,
        desired=desired,
        admission=None if admission is None else replace(admission, validate=validate),
    )


def disabled(source_type: SourceType, watched: Collection[Kind]) -> SourceType:
    """Wraps a source type so that it recognises its copies and wants none. So a change of settings deletes no copy."""
    return replace(
        source_type,
        kinds=tuple(kind for kind in source_type.kinds if kind in watched),
        desired=lambda source, view: Desired(prune=False),
        affected_by=lambda obj, view: (),
        status=None,
        admission=None,
        enabled=False,
    )
