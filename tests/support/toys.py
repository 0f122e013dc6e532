"""Three toy vocabularies that show how small one can be: a chain of copies, an overlay, and a custom resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from samara.core.copy_counts import CopyCounts
from samara.core.desired import UNAVAILABLE, Adopt, Copy, Desired, Overlay, Template
from samara.core.model import CONFIG_MAP, LABELS, NAMESPACE, SECRET, Content, Key, Kind, Object, Ref, namespace_ref
from samara.core.names import parse_csv_names, to_label_value
from samara.core.ownership import ByMark
from samara.core.registry import Registry
from samara.core.source_type import (
    Addresses,
    Annotated,
    Copyable,
    CustomResource,
    Hierarchy,
    Policy,
    Protected,
    SourceType,
    Status,
)
from samara.core.view import View
from samara.core.vocabulary import BuildContext
from samara.vocabularies import VOCABULARIES, accurate, fishysecret, resource_distribution, secret_copy
from samara.vocabularies.accurate import config as accurate_config
from samara.vocabularies.accurate import propagate

PARENT, TEAM = "toys.dev/parent", "team"
CHAIN, CHAINED, LINK = "toys.dev/chain", "toys.dev/chained-from", "toys.dev/link"
FETCH = Kind("toys.dev", "v1", "Fetch", "fetches")
WIDGET = Kind("toys.dev", "v1", "Widget", "widgets")
"""A kind of which nothing is known beforehand: what the server makes of one is asked."""
TREE_KEYS = {
    "labelKeys": ["color", "tree.dev/*"],
    "annotationKeys": ["story"],
    "subNamespaceLabelKeys": ["color", "*/*"],
    "subNamespaceAnnotationKeys": ["story"],
    "propagateLabelKeyExcludes": ["tier", "accurate.cybozu.com/*"],
    "propagateAnnotationKeyExcludes": ["*kubernetes.io/*"],
}
FORBIDDEN = "/forbidden"
"""A path of the secret manager that no FishySecret may read."""
PATH, INTO, FETCHED, GUARD = "toys.dev/path", "toys.dev/into", "toys.dev/fetched-by", "toys.dev/guard"
TREE = Hierarchy(frozenset({PARENT}), lambda namespace: namespace.labels.get(PARENT, ""))


def parent_of(namespace: str, view: View) -> str:
    live = view.get(namespace_ref(namespace))
    return live.labels.get(PARENT, "") if live is not None else ""


def named(obj: Object, mark: str, kind: Kind) -> Ref | None:
    """The source that the mark of a copy names."""
    namespace = obj.annotations.get(mark) if obj.ref.kind == SECRET else None
    return Ref(kind, namespace, obj.ref.name) if namespace else None


def chain(copyable: Copyable) -> SourceType:
    def is_source(obj: Object, view: View) -> bool:  # a copy is a source only while its own source is one
        above = view.get(Ref(SECRET, parent_of(obj.ref.namespace, view), obj.ref.name))
        linked = above is not None and named(obj, CHAINED, SECRET) == above.ref and is_source(above, view)
        return linked or (obj.ref.kind == SECRET and CHAIN in obj.annotations)

    def desired(source: Ref, view: View) -> Desired:
        live = view.get(source)
        if live is None or live.deleting or not is_source(live, view):
            return Desired()
        marks = copyable(LABELS, live.labels) | {LINK: to_label_value(source.path)}, {CHAINED: source.namespace}
        refs = [Ref(SECRET, ns.ref.name, source.name) for ns in view.namespaces_with_label(PARENT, source.namespace)]
        return Desired(tuple(Copy(ref, Template(live.content, *marks, adopt=Adopt.NEVER)) for ref in refs))

    def affected_by(obj: Object, view: View) -> Iterable[Ref]:
        marked = [obj.ref] if CHAINED in obj.annotations else ()
        return view.sources("chain", obj.labels.get(PARENT, "-")) if obj.ref.kind == NAMESPACE else marked

    marked, asked = by({CHAINED, LINK}, CHAINED, SECRET), Annotated(frozenset({CHAIN}), is_source)
    return SourceType("chain", (SECRET,), asked, marked, desired, below, affected_by, hierarchy=TREE)


def inherit() -> SourceType:
    def desired(source: Ref, view: View) -> Desired:
        above = view.get(namespace_ref(parent_of(source.name, view)))
        team = above.labels.get(TEAM) if above is not None else None
        return Desired(overlays=(Overlay(source, {TEAM: team} if team else {}),))

    def affected_by(obj: Object, view: View) -> Iterable[Ref]:
        return [ns.ref for ns in view.namespaces_with_label(PARENT, obj.ref.name)] if obj.ref.kind == NAMESPACE else ()

    every = Annotated(frozenset(), lambda obj, view: obj.ref.kind == NAMESPACE)
    unmarked = ByMark(frozenset(), lambda obj, view: None)
    kinds = (NAMESPACE,)
    return SourceType("inherit", kinds, every, unmarked, desired, same_name, affected_by, per_namespace=False)


def fetch() -> SourceType:
    def affected_by(obj: Object, view: View) -> Iterable[Ref]:
        return view.sources("fetch") if obj.ref.kind == NAMESPACE else ()

    def desired(source: Ref, view: View) -> Desired:
        live = view.get(source)
        if live is None or live.deleting:  # the copies of a Fetch are deleted only while its finalizer is there
            return Desired(prune=live is not None, finalizer=GUARD)
        path, names = live.annotations[PATH], view.namespaces(parse_csv_names(live.annotations[INTO]))
        value = view.answer(path)
        template = Template(value if isinstance(value, Content) else UNAVAILABLE, {}, {FETCHED: source.namespace})
        copies = tuple(Copy(Ref(SECRET, name, source.name), template, by_name=True) for name in names)
        return Desired(copies, finalizer=GUARD, requeue_after=60.0, reads=(path,))

    custom, marked = CustomResource(FETCH, metadata_keys=frozenset({PATH, INTO})), by({FETCHED}, FETCHED, FETCH)
    made = SourceType("fetch", (SECRET, FETCH), custom, marked, desired, same_name, affected_by)
    return replace(made, policy=Policy(Protected.BY_NAME, needs_consent=True), status=Status(counted))


def same_name(source: Ref, view: View) -> Addresses:
    return Addresses(NAMESPACE if source.kind == NAMESPACE else SECRET, source.name)


def below(source: Ref, view: View) -> Addresses:
    return Addresses(SECRET, source.name, source.namespace)


def by(marks: set[str], mark: str, kind: Kind) -> ByMark:
    return ByMark(frozenset(marks), lambda obj, view: named(obj, mark, kind))


def counted(obj: Object, view: View, tally: CopyCounts) -> Mapping[str, object]:
    return {"wanted": tally.wanted, "right": tally.in_sync}


def registry(on_source_gone: str = "keep", adopt: Adopt = Adopt.IDENTICAL) -> Registry:
    """Secret copy and the three toys, in order of rank."""

    def copyable(where: str, metadata: Mapping[str, str]) -> dict[str, str]:
        return made.copyable(where, metadata)

    made = Registry((secret_copy.source_type("admin", on_source_gone, adopt), fetch(), chain(copyable), inherit()))
    return made


def propagation(*kinds: Kind, generated: bool = False) -> SourceType:
    """Accurate's objects alone, beside no other vocabulary."""
    alone = propagate.Propagation(
        accurate_config.Config(),
        kinds,
        lambda where, metadata: dict(metadata),
        lambda obj, view: None,
        Adopt.IDENTICAL,
        generated=generated,
    )
    return alone.source_type


def full_registry(on_source_gone: str = "keep", adopt: Adopt = Adopt.IDENTICAL, consent: bool = False) -> Registry:
    """All real vocabularies and the three toys, in order of rank: several can want any address."""

    def copyable(where: str, metadata: Mapping[str, str]) -> dict[str, str]:
        return made.copyable(where, metadata)

    def as_written(where: str, metadata: Mapping[str, str]) -> dict[str, str]:
        return made.copyable(where, metadata, by_default=())

    def owner(obj: Object, view: View) -> Key | None:
        return made.owner(obj, view)

    def is_reserved(name: str) -> bool:
        return name in ("admin", "kube-x")

    kinds = (SECRET, CONFIG_MAP)
    context = BuildContext(kinds, copyable, as_written, owner, is_reserved, adopt, consent, is_strict=consent)
    options = accurate.Options(adopt, cascading=consent, is_reserved=is_reserved)
    trees = accurate.source_types(accurate_config.read(TREE_KEYS), kinds, copyable, owner, options)
    fishy = fishysecret.source_type(fishysecret.Options(lambda where, path: path != FORBIDDEN, consent=consent))
    by_hand: dict[str, tuple[SourceType, ...]] = {
        secret_copy.NAME: (secret_copy.source_type("admin", on_source_gone, adopt),),
        resource_distribution.NAME: (resource_distribution.source_type((*kinds, WIDGET), as_written), fetch()),
        accurate.NAME: trees,
        fishysecret.NAME: (fishy, chain(copyable), inherit()),
    }
    made = Registry(
        tuple(
            source_type
            for vocabulary in VOCABULARIES
            for source_type in by_hand.get(vocabulary.name) or vocabulary.build(vocabulary.settings(), context)
        )
    )
    return made
