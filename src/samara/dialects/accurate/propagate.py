"""Objects that say `propagate` are copied to the namespaces below theirs, and from each of those to the next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from samara.core.compare import is_right
from samara.core.model import ANNOTATIONS, LABELS, NAMESPACE, Kind, Object, Ref, namespace_ref
from samara.core.travel import RELEASED
from samara.core.view import View
from samara.core.want import KEEP, Adopt, Bare, Copy, Dialect, Mode, Places, Reach, Want
from samara.dialects.accurate.config import Config
from samara.dialects.accurate.words import (
    CREATE,
    CREATED_BY,
    FROM,
    GENERATED,
    NAME,
    PARENT,
    PROPAGATE,
    PROPAGATE_GENERATED,
    TEMPLATE,
    UPDATE,
    concerned_by,
    downstream_of,
    is_in_loop,
    upstream_of,
)

PROPAGATION = NAME
MODES = (CREATE, UPDATE)


def dialect(
    config: Config, kinds: tuple[Kind, ...], bare: Bare, adopt: Adopt, managers: frozenset[str] = frozenset()
) -> Dialect:
    served = frozenset(kinds)

    def is_source(obj: Object, view: View) -> bool:
        return obj.ref.kind in served and obj.annotations.get(PROPAGATE) in MODES

    def origin(obj: Object, view: View) -> Ref | None:
        """A copy that is only created is its namespace's own from then on, whatever `from` says."""
        above = obj.annotations.get(FROM) if obj.ref.kind in served else None
        return Ref(obj.ref.kind, above, obj.ref.name) if above and obj.annotations.get(PROPAGATE) == UPDATE else None

    def want(source: Ref, view: View) -> Want:
        have, namespace = view.get(source), view.get(namespace_ref(source.namespace))
        if namespace is not None and is_in_loop(namespace, view):
            return Want(prune=False)
        if have is None or have.deleting or not is_source(have, view):
            return Want(prune=not _comes_back(source, view))
        if namespace is None:
            return Want(prune=False)
        content = KEEP if _is_astray(have, view) else have.content
        below = (Ref(source.kind, each.ref.name, source.name) for each in downstream_of(source.namespace, view))
        return Want(tuple(replace(_copy(have, ref, view), content=content) for ref in below))

    def _copy(source: Object, ref: Ref, view: View) -> Copy:
        labels = config.label_excludes.without(bare(LABELS, source.labels)) | {CREATED_BY: NAME}
        annotations = config.annotation_excludes.without(bare(ANNOTATIONS, source.annotations))
        annotations |= {FROM: source.ref.namespace, PROPAGATE: source.annotations[PROPAGATE]}
        return Copy(ref, source.content, labels, annotations, _mode(source, ref, view), adopt, named=True)

    def _mode(source: Object, ref: Ref, view: View) -> Mode:
        """A copy that was kept equal and is now only created is written once more, and then left alone."""
        if source.annotations[PROPAGATE] == UPDATE:
            return Mode.SYNC
        there = view.get(ref)
        kept_for = origin(there, view) if there is not None else None
        is_stale = kept_for is not None and there is not None and there.made
        return Mode.SYNC if is_stale or kept_for == source.ref else Mode.SEED

    def _above(ref: Ref, view: View) -> Ref | None:
        """The place from which this one gets its copy."""
        namespace = view.get(namespace_ref(ref.namespace))
        above = upstream_of(namespace) if namespace is not None and not namespace.deleting else ""
        return Ref(ref.kind, above, ref.name) if above else None

    def _comes_back(ref: Ref, view: View) -> bool:
        """True where a copy is gone, or is no source any more, that its own source puts right: the next ones stay."""
        have, above = view.get(ref), _above(ref, view)
        if above is None or (have is not None and not have.deleting and not _is_copy(have)):
            return False
        found = view.get(above)
        if found is None or found.deleting or not is_source(found, view):
            return _comes_back(above, view)
        return have is None or have.deleting or found.annotations[PROPAGATE] == UPDATE

    def _is_astray(have: Object, view: View) -> bool:
        """True for a copy that is not as its own source is: it is put right first, and passed on then."""
        above = _above(have.ref, view)
        found = view.get(above) if above is not None and _is_copy(have) else None
        if found is None or found.deleting or found.annotations.get(PROPAGATE) != UPDATE:
            return False
        return not is_right(_copy(found, have.ref, view), have, made, view)

    def _is_copy(have: Object) -> bool:
        """True where a source above may write over an object: we made it, or it says that it is a copy."""
        return (have.made or FROM in have.annotations) and RELEASED not in have.annotations

    def also(obj: Object, view: View) -> Iterable[Ref]:
        """The sources of a Namespace's upstream, and of a loop that it closes or opens; what is passed on of a copy."""
        if obj.ref.kind == NAMESPACE:
            looped = [obj, *concerned_by(obj, view)] if is_in_loop(obj, view) else []
            homes = dict.fromkeys((upstream_of(obj), *(each.ref.name for each in looped)))
            return [source for home in homes if home for source in view.sources(PROPAGATION, home)]
        if obj.ref.kind not in served or obj.annotations.keys().isdisjoint((PROPAGATE, FROM)):
            return ()
        below = [each.ref.name for each in downstream_of(obj.ref.namespace, view)]
        return [Ref(obj.ref.kind, each, obj.ref.name) for each in below if any(downstream_of(each, view))]

    made = Dialect(
        PROPAGATION,
        kinds,
        is_source,
        origin,
        lambda source, view: Places(source.kind, source.name, source.namespace),
        want,
        marks=frozenset({FROM}),
        asks=frozenset({PROPAGATE, PROPAGATE_GENERATED, GENERATED}),
        also=also,
        managers=managers,
        rank=2,
        reach=Reach.NAMED,
        any_kind=True,
        relations=frozenset({PARENT, TEMPLATE}),
        upstream=upstream_of,
    )
    return made
