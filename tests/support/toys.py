"""Five toy vocabularies that show how small one can be, and that use what only one real vocabulary needs.

A chain of copies, an overlay, a custom resource with a finalizer, one whose copies it owns by reference, and annotated
objects that are copied once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from msgspec.structs import replace as replaced

from samara.assembly import WELL_KNOWN, Kinds, copyable_metadata, registry_of
from samara.core.annotated import AnnotatedObjects, CopyRequest
from samara.core.copy_counts import CopyCounts
from samara.core.desired import UNAVAILABLE, Adopt, Copy, Desired, Mode, Overlay, Template, mismatch
from samara.core.model import (
    CONFIG_MAP,
    LABELS,
    NAMESPACE,
    SECRET,
    Content,
    Kind,
    KindName,
    Object,
    OwnerReference,
    Ref,
    namespace_ref,
)
from samara.core.names import NamespaceNames, parse_csv_names, to_label_value
from samara.core.ownership import ByMark, ByOwnerReference
from samara.core.queries import SecretPath
from samara.core.registry import Registry
from samara.core.selectors import NamespaceSelector
from samara.core.source_type import (
    Addresses,
    Annotated,
    Copyable,
    CustomResource,
    Hierarchy,
    Names,
    Policy,
    Protected,
    SourceType,
    Status,
)
from samara.core.view import View
from samara.core.vocabulary import Conflicts, CrossNamespace, Vocabulary
from samara.setting_types import Managers, Struct, Takeover
from samara.settings import Settings
from samara.vocabularies import VOCABULARIES, accurate, fishysecret, resource_distribution, secret_copy, sync_to
from samara.vocabularies.accurate import config as accurate_config
from samara.vocabularies.accurate import propagate
from samara.vocabularies.fishysecret import Options, PathRule

PARENT, TEAM = "toys.dev/parent", "team"
CHAIN, CHAINED, LINK = "toys.dev/chain", "toys.dev/chained-from", "toys.dev/link"
FETCH = Kind("toys.dev", "v1", "Fetch", "fetches")
POSTER = Kind("toys.dev", "v1", "Poster", "posters", namespaced=False)
WIDGET = Kind("toys.dev", "v1", "Widget", "widgets")
"""A kind without rules: a dry run shows its stored form."""
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
POSTED, NOT_IN = "toys.dev/posted-by", "toys.dev/not-in"
SEED, SEEDED, PULL = "toys.dev/seed-into", "toys.dev/seeded-from", "toys.dev/pull"


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

    tree = Hierarchy(frozenset({PARENT}), lambda namespace: namespace.labels.get(PARENT, ""))
    marked, requested = by({CHAINED, LINK}, CHAINED, SECRET), Annotated(frozenset({CHAIN}), is_source)
    return SourceType("chain", (SECRET,), requested, marked, desired, affected_by, below, hierarchy=tree)


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
    return SourceType("inherit", kinds, every, unmarked, desired, affected_by, same_name, per_namespace=False)


def fetch() -> SourceType:
    def affected_by(obj: Object, view: View) -> Iterable[Ref]:
        return view.sources("fetch") if obj.ref.kind == NAMESPACE else ()

    def desired(source: Ref, view: View) -> Desired:
        live = view.get(source)
        if live is None or live.deleting:  # the copies of a Fetch are deleted only while its finalizer is there
            return Desired(prune=live is not None, finalizer=GUARD)
        path, names = SecretPath(live.annotations[PATH], 60.0), view.namespaces(parse_csv_names(live.annotations[INTO]))
        value = view.answer(path)
        template = Template(value if isinstance(value, Content) else UNAVAILABLE, {}, {FETCHED: source.namespace})
        copies = tuple(Copy(Ref(SECRET, name, source.name), template, by_name=True) for name in names)
        return Desired(copies, finalizer=GUARD, requeue_after=60.0, reads=(path,))

    custom, marked = CustomResource(FETCH, GUARD, metadata_keys=frozenset({PATH, INTO})), by({FETCHED}, FETCHED, FETCH)
    made = SourceType("fetch", (SECRET, FETCH), custom, marked, desired, affected_by, same_name)
    made = replace(made, names=Names(trusts=lambda obj, name: name in parse_csv_names(obj.annotations[INTO]).members))
    return replace(made, policy=Policy(Protected.BY_NAME, needs_consent=True), status=Status(counted))


def poster() -> SourceType:
    def chosen(obj: Object) -> NamespaceSelector:
        excluded = frozenset(parse_csv_names(obj.annotations.get(NOT_IN, "")).members)
        return NamespaceSelector(everywhere=True, excluded=excluded, terminating=True)

    def desired(source: Ref, view: View) -> Desired:
        live = view.get(source)
        if live is None or live.deleting:  # the garbage collector deletes the copies while the Poster is there
            return Desired(prune=live is None)
        owner = OwnerReference(POSTER.api_version, POSTER.name, source.name, live.uid, True, True)
        template = Template(live.content, {}, {POSTED: source.name}, adopt=Adopt.NEVER, owner=owner)
        refs = [Ref(CONFIG_MAP, name, source.name) for name, _ in chosen(live).namespaces(view)]
        return Desired(tuple(Copy(ref, template) for ref in refs), prune_last=True)

    def affected_by(obj: Object, view: View) -> Iterable[Ref]:
        return view.sources("poster") if obj.ref.kind == NAMESPACE else ()

    custom = CustomResource(POSTER, explicit_deletion=True, metadata_keys=frozenset({NOT_IN}))
    owned = ByOwnerReference(POSTER, frozenset({CONFIG_MAP}), frozenset({POSTED}))
    policy, kinds = Policy(Protected.ALLOW, any_kind=True), (CONFIG_MAP, POSTER)
    made = SourceType("poster", kinds, custom, owned, desired, affected_by, policy=policy, per_namespace=False)
    return replace(made, addresses=lambda source, view: Addresses(CONFIG_MAP, source.name))


def seed() -> SourceType:
    def source_of(obj: Object) -> Ref | None:
        namespace, _, name = obj.annotations.get(SEEDED, "").partition("/")
        return Ref(SECRET, namespace, name) if (obj.ref.kind, obj.ref.name) == (SECRET, name) else None

    def template(obj: Object) -> Template:
        content, marks = obj.content.pick("type", "data"), {SEEDED: obj.ref.path}
        return Template(content, {}, marks, Mode.CREATE_ONLY, unmanaged=frozenset({"immutable"}))

    def request(obj: Object) -> CopyRequest:
        names = parse_csv_names(obj.annotations[SEED])
        faults = tuple(mismatch(SEED, "a namespace name", name) for name in names.illegal)
        return CopyRequest(NamespaceSelector(names), faults)

    def request_in(obj: Object, namespace: str) -> CopyRequest:
        targets, faults = request(obj)
        return CopyRequest(NamespaceSelector(NamespaceNames.of({namespace} & targets.names.members)), faults)

    requests, marks, excluded = frozenset({SEED}), frozenset({SEEDED}), ("kube-*",)
    made = AnnotatedObjects(
        "seed", (SECRET,), requests, marks, has_seed, source_of, request, template, request_in, excluded=excluded
    )
    pushed = replace(made, pull_keys=frozenset({PULL})).source_type()
    kept = ByMark(marks, lambda obj, view: source_of(obj), disowned=lambda obj: True)
    return replace(pushed, ownership=kept, desired=lambda *of: replace(pushed.desired(*of), prune=False))


def has_seed(obj: Object) -> bool:
    return SEED in obj.annotations


def same_name(source: Ref, view: View) -> Addresses:
    return Addresses(NAMESPACE if source.kind == NAMESPACE else SECRET, source.name)


def below(source: Ref, view: View) -> Addresses:
    return Addresses(SECRET, source.name, source.namespace)


def by(marks: set[str], mark: str, kind: Kind) -> ByMark:
    return ByMark(frozenset(marks), lambda obj, view: named(obj, mark, kind))


def counted(obj: Object, view: View, tally: CopyCounts) -> Mapping[str, object]:
    return {"wanted": tally.wanted, "right": tally.in_sync}


def unaffected(obj: Object, view: View) -> Iterable[Ref]:
    """For source types whose sources depend on no other object."""
    return ()


def options(**more: Any) -> Options:
    """FishySecrets of every namespace may read every path, unless a test says otherwise."""
    return Options(**{"readable": lambda namespace, view: ("*",), "is_protected": lambda name: False, **more})


class ToySettings(Struct, frozen=True):
    kinds: ClassVar[tuple[KindName, ...]] = ()
    conflicts: ClassVar[Conflicts | None] = None
    cross_namespace: ClassVar[CrossNamespace | None] = None
    takeover: Takeover = False
    managers: Managers = ()


FETCHES = Vocabulary("fetch", ToySettings, lambda own, context: (fetch(),), frozenset({PATH, INTO, FETCHED}))
CHAINS = Vocabulary(
    "chain", ToySettings, lambda own, context: (chain(context.copyable),), frozenset({CHAIN, CHAINED, LINK})
)
TEAMS = Vocabulary("inherit", ToySettings, lambda own, context: (inherit(),), frozenset())
POSTERS = Vocabulary(
    "poster", ToySettings, lambda own, context: (poster(),), frozenset({POSTED, NOT_IN}), custom_resources=(POSTER,)
)
SEEDS = Vocabulary("seed", ToySettings, lambda own, context: (seed(),), frozenset({SEED, SEEDED}))
TOYS_AFTER = {
    resource_distribution.NAME: (FETCHES,),
    accurate.NAME: (POSTERS,),
    fishysecret.NAME: (SEEDS,),
    sync_to.NAME: (CHAINS, TEAMS),
}
"""By real vocabulary: the toys that stand behind it, so that each toy comes before some and after others."""
EVERY: tuple[Vocabulary[Any], ...] = tuple(
    vocabulary for real in VOCABULARIES for vocabulary in (real, *TOYS_AFTER.get(real.name, ()))
)
KINDS: Kinds = {**WELL_KNOWN, KindName("toys.dev", "v1", "Widget"): WIDGET}
COPYABLE = copyable_metadata(Settings(), EVERY)
WATCHES = [{"version": "v1", "kind": "Secret"}, {"version": "v1", "kind": "ConfigMap"}]


def registry(on_source_gone: str = "keep", adopt: Adopt = Adopt.IDENTICAL) -> Registry:
    """Secret copy and three of the toys, in order of rank."""
    copied = secret_copy.source_type("admin", on_source_gone, adopt)
    return Registry((copied, fetch(), chain(COPYABLE.of_source), inherit()))


def propagation(*kinds: Kind, generated: bool = False) -> SourceType:
    """The source type that propagates objects along trees, without the other two of Accurate."""
    alone = propagate.Propagation(
        accurate_config.Config(), kinds, lambda where, metadata: dict(metadata), Adopt.IDENTICAL, generated=generated
    )
    return alone.source_type


def a_sync_to(kinds: tuple[Kind, ...] = (SECRET,), copyable: Copyable = COPYABLE.of_source, **more: Any) -> SourceType:
    """Sync-to without protected namespaces, under tenancy open, unless a test says otherwise."""
    wiring: dict[str, Any] = {"is_protected": lambda name: False, "withheld": lambda where, metadata: {}}
    return sync_to.source_type(kinds, copyable, **{**wiring, **more})


def full_registry(on_source_gone: str = "keep", adopt: Adopt = Adopt.IDENTICAL, consent: bool = False) -> Registry:
    """All real vocabularies and the toys, in order of rank: several can want any address.

    What is set here makes collisions likely. A vocabulary that is not named here has its default settings.
    """
    assert adopt is not Adopt.NEVER, "no setting says so"
    changes: dict[str, dict[str, object]] = {
        "secret-copy": {"on_source_gone": on_source_gone},
        "resource-distribution": {"kinds": tuple(KINDS)},
        "accurate": {"config": {**TREE_KEYS, "watches": WATCHES}, "allow_cascading_deletion": consent},
        "fishysecret": {"paths": (PathRule(("*",), ("/p*", "/q*")),)},
    }
    settings = Settings(
        vocabularies={
            vocabulary.name: replaced(vocabulary.settings(), **changes.get(vocabulary.name, {})) for vocabulary in EVERY
        },
        conflicts="overwrite" if adopt is Adopt.ANY else "refuse",
        tenancy="strict" if consent else "open",
    )
    return registry_of(settings, KINDS, vocabularies=EVERY)
