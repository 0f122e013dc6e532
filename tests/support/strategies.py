"""Random worlds in which collisions are the rule: four namespaces, two names, every address claimed several times."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import cycle, product
from typing import Any

from hypothesis import strategies as st
from tests.support import toys
from tests.support.examples import Request, requests
from tests.support.settle import Fate
from tests.support.world import NOT_FOUND, World, a_field, at, config_map, content, path, secret

from samara.core.desired import Adopt
from samara.core.metadata_keys import ACCEPT, ADOPTED, IGNORE, PAUSED, RELEASED
from samara.core.model import (
    CONFIG_MAP,
    FIELD_MANAGER,
    NAMESPACE,
    SECRET,
    Content,
    Key,
    Kind,
    Object,
    OwnerReference,
    Ref,
    namespace_ref,
)
from samara.core.policy import ClusterPolicy
from samara.core.queries import SecretReading
from samara.core.registry import Registry
from samara.vocabularies import fishysecret, replicator, resource_distribution, sync_to
from samara.vocabularies.accurate import labels as trees
from samara.vocabularies.fishysecret import FISHY_SECRET, annotations_of, labels_of
from samara.vocabularies.resource_distribution import RESOURCE_DISTRIBUTION
from samara.vocabularies.secret_copy import FROM, ORIGIN, TARGETS

HOME, OTHERS = "admin", ("a", "b", "c")
NAMES = ("x", "y")
LISTS = ("", " ", "a,b", "b, c ,Bad_Name", "c", "admin,b,b", ",", "zz,b", '"a","c"', "kube-x,c")
CANARY = "canary-7f3a9"
VALUES = ("one", CANARY)
TYPES = ("Opaque", "Opaque", "Opaque", "kubernetes.io/tls", "kubernetes.io/service-account-token")
SOMEBODY = OwnerReference("apps/v1", "Deployment", "somebody", "u-somebody", controller=True)
FINALIZERS: tuple[tuple[str, ...], ...] = ((), (toys.GUARD,), (toys.GUARD, "somebody/else"), ("somebody/else",))
ZONE = "zone"
"""The label by which distributions select. No overlay sets it, so the selection does not depend on the order."""
GITOPS = "argocd.argoproj.io/instance"
Json = dict[str, Any]
SYNC_ASKS: tuple[dict[str, str], ...] = (
    {sync_to.SYNC_TO: "cluster"},
    {sync_to.SYNC_TO: " cluster "},
    {sync_to.SYNC_TO: "namespaces", sync_to.SYNC_TO_NAMESPACES: "a;b"},
    {sync_to.SYNC_TO: "namespace", sync_to.SYNC_TO_NAMESPACES: "b, c zz;b"},
    {sync_to.SYNC_TO: "namespaces", sync_to.SYNC_TO_NAMESPACES: "kube-x;c;admin"},
    {sync_to.SYNC_TO: "namespaces", sync_to.SYNC_TO_NAMESPACES: "b;Bad_Name"},
    {sync_to.SYNC_TO: "namespaces"},
    {sync_to.SYNC_TO: "everywhere", sync_to.SYNC_TO_NAMESPACES: "a"},
    {sync_to.SYNC_TO_NAMESPACES: "a"},
)
DISTRIBUTIONS = ("d1", "d2")
POSTER = Ref(toys.POSTER, "", NAMES[0])
REQUESTS = requests()
MODES = (trees.CREATE, trees.UPDATE, trees.UPDATE, "sometimes")
RELATIONS: tuple[dict[str, str], ...] = (
    {},
    {trees.TYPE: trees.ROOT},
    {trees.TYPE: trees.IS_TEMPLATE},
    *({trees.PARENT: name} for name in (HOME, "a", "a", "b", "c", "", "zz")),
    *({trees.TEMPLATE: name} for name in (HOME, "a", "b", "")),
    {trees.TYPE: trees.ROOT, trees.TEMPLATE: "a"},
    {trees.TYPE: trees.IS_TEMPLATE, trees.TEMPLATE: "b"},
    {trees.PARENT: "a", trees.TEMPLATE: "b"},
)
"""Tree labels of a namespace. Its parent may be itself, missing or one of its children."""
GROWN: dict[str, tuple[dict[str, str], ...]] = {
    HOME: ({trees.TYPE: trees.ROOT}, {trees.TYPE: trees.IS_TEMPLATE}),
    "a": ({trees.PARENT: HOME}, {trees.TYPE: trees.ROOT}),
    "b": ({trees.PARENT: "a"}, {trees.TEMPLATE: "a"}, {trees.PARENT: HOME}),
    "c": ({trees.PARENT: "b"}, {trees.PARENT: "a"}, {trees.TEMPLATE: "b"}),
}
SPECS: tuple[Json, ...] = (
    {},
    {"labels": {"color": "blue", "team": "none", "tree.dev/size": "L"}},
    {"labels": {trees.PARENT: "c", "samara.dev/paused": "true"}, "annotations": {"story": CANARY}},
)
FISHY = ("f", "a-fishysecret-whose-name-no-label-can-hold-" + "x" * 40)
FISHY_GUARDS: tuple[tuple[str, ...], ...] = (
    *((fishysecret.FINALIZER,),) * 3,
    (),
    (fishysecret.FINALIZER, "somebody/else"),
    ("somebody/else",),
)
FISHY_EXTRAS: tuple[Json, ...] = (
    *({},) * 6,
    {"suspend": True},
    {"data": []},
    {"data": [{"secretPath": toys.FORBIDDEN, "secretKeyName": "key"}]},
    {"data": [{"secretPath": "/q", "secretKeyName": "key", "optional": True}]},
)
READINGS = (
    *(SecretReading(value.encode(), "2026-11-15T10:00:00Z") for value in VALUES * 3),
    SecretReading(b"one", "2026-11-15T10:00:00Z", NOT_FOUND.fault),
    SecretReading(b"one", "2026-11-15T10:00:00Z", NOT_FOUND.fault, not_found=True, absent_for=300.0),
    SecretReading(fault=NOT_FOUND.fault, not_found=True, absent_for=300.0),
    NOT_FOUND,
)
SETTABLE = (Adopt.IDENTICAL, Adopt.ANY)
"""What the setting `conflicts` can mean."""
SUB_GUARDS: tuple[tuple[str, ...], ...] = ((), (trees.FINALIZER,), (trees.FINALIZER,), ("somebody/else",))


@cache
def registries() -> dict[tuple[str, Adopt, bool], Registry]:
    return {setting: toys.full_registry(*setting) for setting in product(("keep", "delete"), SETTABLE, (False, True))}


def contents(kind: Kind = SECRET) -> st.SearchStrategy[Content]:
    if kind == CONFIG_MAP:
        return st.builds(config_map, st.sampled_from(VALUES))
    return st.builds(secret, st.sampled_from(VALUES), st.sampled_from(TYPES))


def rarely(value: str = "true") -> st.SearchStrategy[str]:
    return st.sampled_from(("",) * 7 + (value,))


def mostly() -> st.SearchStrategy[bool]:
    return st.sampled_from((True, True, True, True, False))


def worlds() -> st.SearchStrategy[World]:
    return st.one_of(mixed(), forests())


@st.composite
def forests(draw: st.DrawFn) -> World:
    """Namespace trees in any state, with loops and missing parents, and few other objects."""
    world = World(draw(st.sampled_from(list(registries().values()))))
    for name in (HOME, *OTHERS):
        related = draw(st.sampled_from((*GROWN[name] * 12, *RELATIONS)))
        labels = _set(
            {
                "color": draw(st.sampled_from(("", "red", "blue"))),
                toys.PARENT: draw(rarely("a")) if name in "bc" else "",
            }
        )
        annotations = _set({"story": CANARY, PAUSED: draw(rarely()), ACCEPT: "*"})
        by = draw(st.sampled_from(("", FIELD_MANAGER, trees.ACCURATE_MANAGER)))
        world.put(namespace_ref(name), by=by, labels=labels | related, annotations=annotations)
    _tree(draw, world, at(draw(st.sampled_from((HOME, "a"))), NAMES[0]))
    for ref in [ref for ref in (at(name, NAMES[0]) for name in (HOME, *OTHERS)) if ref not in world.objects]:
        _leaf(draw, world, ref)
    for _ in range(draw(st.sampled_from((0, 1, 2)))):
        _sub_namespace(draw, world)
    return world


def _leaf(draw: st.DrawFn, world: World, ref: Ref) -> None:
    what = draw(st.sampled_from(("", "copy", "", "copy", "tree", "occupant", "sync")))
    if what == "tree":
        _tree(draw, world, ref)
    elif what == "copy":
        _branch(draw, world, ref)
    elif what == "occupant":
        _occupant(draw, world, ref)
    elif what == "sync":
        _sync(draw, world, ref)


def _branch(draw: st.DrawFn, world: World, ref: Ref) -> None:
    """A copy, mostly from the parent or template: created by us or the original, forged, or drifted."""
    labels = world.objects[namespace_ref(ref.namespace)].labels
    above = labels.get(trees.PARENT) or labels.get(trees.TEMPLATE) or draw(st.sampled_from(OTHERS))
    annotations = {trees.FROM: above, trees.PROPAGATE: draw(st.sampled_from(MODES[:3]))}
    by = draw(st.sampled_from((FIELD_MANAGER, FIELD_MANAGER, trees.ACCURATE_MANAGER, "")))
    world.put(ref, draw(contents()), by, labels={trees.CREATED_BY: trees.NAME}, annotations=annotations)
    if draw(rarely()):
        world.edit(ref, annotations=annotations | {trees.PROPAGATE: draw(st.sampled_from(MODES))})
    _mishaps(draw, world, ref)


@st.composite
def mixed(draw: st.DrawFn) -> World:
    """A cluster in use: sources, copies in sync and drifted, and foreign objects."""
    world = World(draw(st.sampled_from(list(registries().values()))), mutated=draw(st.sampled_from(("", CANARY))))
    for name in ("p", "q"):
        world.outside[path(name)] = draw(st.one_of(st.none(), contents()))
        world.outside[path(f"/{name}")] = draw(st.sampled_from(READINGS))
    _namespaces(draw, world)
    for namespace in draw(st.sampled_from(((), ("a",), ("a", "b"), ("b", "c")))):
        _fishy(draw, world, namespace)
    for name in DISTRIBUTIONS[: draw(st.integers(0, 2))]:
        _distribution(draw, world, name)
    _poster(draw, world)
    for name in NAMES[: draw(st.sampled_from((1, 1, 2)))]:
        _home(draw, world, name)
        for namespace in OTHERS:
            _fetch(draw, world, namespace, name)
            _place(draw, world, at(namespace, name))
    for namespace in (HOME, *OTHERS):
        _place(draw, world, at(namespace, NAMES[0], CONFIG_MAP))
    _bystanders(draw, world)
    withdrawn = (toys.FETCH,), (toys.POSTER,), (RESOURCE_DISTRIBUTION,), (FISHY_SECRET,)
    world.revoked = set(draw(st.sampled_from(((), (), (), *withdrawn))))
    return world


def fishy_specs() -> st.SearchStrategy[Content]:
    """Specs of FishySecrets: a contested target, optional fields, and invalid ones."""
    addresses = [{"namespace": space, "name": name} for space in (*OTHERS, HOME, "kube-x", "zz") for name in NAMES]
    types: tuple[Json, ...] = (*({},) * 5, {"type": "example.com/db"}, {"type": "kubernetes.io/service-account-token"})
    items = [{"secretPath": "/p", "secretKeyName": "key"}]
    return st.builds(
        lambda address, kind, extra: content(spec={"target": address | kind, "data": items, **extra}),
        *map(st.sampled_from, (addresses, types, FISHY_EXTRAS)),
    )


def _fishy(draw: st.DrawFn, world: World, namespace: str) -> None:
    ref = Ref(FISHY_SECRET, namespace, draw(st.sampled_from(FISHY)))
    if namespace_ref(namespace) not in world.objects:
        return
    guards, created = draw(st.sampled_from(FISHY_GUARDS)), draw(st.sampled_from(("2025", "2026")))
    annotations = _set({PAUSED: draw(rarely()), "note": CANARY})
    world.put(ref, draw(fishy_specs()), annotations=annotations, finalizers=guards, created=created, generation=1)
    goes = bool(draw(rarely()))
    if guards and goes:
        world.delete(ref)


def _sub_namespace(draw: st.DrawFn, world: World) -> None:
    holder = draw(st.sampled_from((HOME, *OTHERS)))
    ref = Ref(trees.SUB_NAMESPACE, holder, draw(st.sampled_from((*OTHERS, "zz", "kube-x"))))
    if namespace_ref(holder) not in world.objects or ref in world.objects:
        return
    guards, spec = draw(st.sampled_from(SUB_GUARDS)), content(spec=draw(st.sampled_from(SPECS)))
    annotations = _set({PAUSED: draw(rarely()), "note": CANARY})
    created = draw(st.sampled_from(("2025", "2026")))
    world.put(ref, spec, annotations=annotations, finalizers=guards, created=created, generation=1)
    if draw(st.booleans()):
        world.edit(ref, status=a_field("status", {"observedGeneration": 1}))
    goes = draw(st.booleans())
    if goes and guards:
        world.delete(ref)


def _place(draw: st.DrawFn, world: World, ref: Ref) -> None:
    """A source of a random vocabulary, or another object at this address."""
    if namespace_ref(ref.namespace) not in world.objects:
        return
    what = draw(st.sampled_from(("chain", "seed", "sync", "tree", "example", "occupant", "occupant", "", "", "")))
    if what == "chain" and ref.namespace == "a" and ref.kind == SECRET:
        _chain(draw, world, ref)
    elif what == "seed":
        _seed(draw, world, ref)
    elif what == "sync":
        _sync(draw, world, ref)
    elif what == "tree":
        _tree(draw, world, ref)
    elif what == "example":
        _requested(draw, world, ref)
    elif what:
        _occupant(draw, world, ref)


def _requested(draw: st.DrawFn, world: World, ref: Ref) -> None:
    """A source with the request of an example, also for vocabularies that this module does not name."""
    request = draw(st.sampled_from(REQUESTS))
    names = _names(request, request.ref.namespace, request.ref.name)
    created = draw(st.sampled_from(("2025", "2026")))
    world.put(
        ref,
        draw(contents(ref.kind)),
        annotations=request.renamed(request.annotations, names) | {"note": CANARY},
        labels=request.renamed(request.labels, names) | {"tier": "1"},
        created=created,
    )


def _names(request: Request, namespace: str, name: str) -> dict[str, str]:
    """Maps the names in an example to those of these worlds, and its source to this namespace and name."""
    others = [other for other in request.namespaces if other not in (HOME, request.ref.namespace)]
    return {
        **dict(zip(others, cycle(OTHERS), strict=False)),
        request.ref.namespace: namespace,
        request.ref.name: name,
    }


def _tree(draw: st.DrawFn, world: World, ref: Ref) -> None:
    """A source of a tree, possibly with a forged `from` annotation."""
    forged = {trees.FROM: draw(st.sampled_from(OTHERS))} if draw(rarely()) else {}
    annotations = {
        trees.PROPAGATE: draw(st.sampled_from(MODES)),
        "note": CANARY,
        **_set({PAUSED: draw(rarely())}),
        **forged,
    }
    created = draw(st.sampled_from(("2025", "2026")))
    labels = {"tier": "1", "color": "red", GITOPS: "x"}
    world.put(ref, draw(contents(ref.kind)), annotations=annotations, labels=labels, created=created)


def _sync(draw: st.DrawFn, world: World, ref: Ref) -> None:
    source = draw(contents(ref.kind))
    frozen = content(immutable=True) if draw(rarely()) else Content()
    annotations = {"note": CANARY, **_set({PAUSED: draw(rarely())}), **draw(st.sampled_from(SYNC_ASKS))}
    created = draw(st.sampled_from(("2025", "2026")))
    labels = {"tier": "1", GITOPS: "x"}
    world.put(ref, _joined(source, frozen), annotations=annotations, labels=labels, created=created)
    if draw(rarely()):
        world.edit(ref, finalizers=("somebody/else",), deleting=True)


def _joined(*parts: Content) -> Content:
    fields = [part_field for part in parts for part_field in part.fields]
    return Content(tuple(sorted(fields, key=lambda part_field: part_field.name)))


def _distribution(draw: st.DrawFn, world: World, name: str) -> None:
    ref = Ref(RESOURCE_DISTRIBUTION, "", name)
    spec = draw(specs())
    created = draw(st.sampled_from(("2025", "2026")))
    world.put(ref, spec, annotations=_set({PAUSED: draw(rarely())}), created=created, generation=1)
    if draw(rarely()):
        world.edit(ref, finalizers=("foregroundDeletion",), deleting=True)


def _poster(draw: st.DrawFn, world: World) -> None:
    excluded = draw(st.sampled_from((None, None, "", "a", "b,c", "zz,admin")))
    if excluded is None:
        return
    created = draw(st.sampled_from(("2025", "2026")))
    annotations = _set({toys.NOT_IN: excluded, PAUSED: draw(rarely())})
    world.put(POSTER, draw(contents(CONFIG_MAP)), annotations=annotations, created=created)
    if draw(rarely()):
        world.edit(POSTER, finalizers=("foregroundDeletion",), deleting=True)


def specs() -> st.SearchStrategy[Content]:
    return st.builds(lambda what, where: content(spec={"resource": what, "targets": where}), resources(), targets())


@st.composite
def resources(draw: st.DrawFn) -> Json:
    """An embedded object, good or bad; it carries keys that must not be copied, and one that may be copied here."""
    value = draw(st.sampled_from(VALUES))
    kind = draw(st.sampled_from(("Secret", "Secret", "ConfigMap", "ConfigMap", "Widget", "Deployment")))
    fields: dict[str, Json] = {
        "Secret": {"stringData": {"key": value}, **draw(st.sampled_from(({}, {"type": "kubernetes.io/tls"})))},
        "ConfigMap": {"data": {"key": value}, **draw(st.sampled_from(({}, {}, {"immutable": True}, {"data": 1})))},
        "Widget": {"spec": {"size": draw(st.sampled_from((1, 2, -1)))}},
        "Deployment": {"spec": {}},
    }
    annotations = {"note": CANARY, sync_to.SYNC_TO: "cluster", TARGETS: "", ORIGIN: f"{HOME}/x"}
    meta = {"name": NAMES[0], "labels": {"tier": "1", GITOPS: "x", FROM: "x"}, "annotations": annotations}
    version = "toys.dev/v1" if kind == "Widget" else "v1"
    return {"apiVersion": version, "kind": kind, "metadata": meta, **fields[kind]}


def _listed(*names: str) -> Json:
    return {"list": [{"name": name} for name in names]}


def targets() -> st.SearchStrategy[Json]:
    """All namespaces, names, labels and exclusions, and invalid ones."""
    who: list[Json] = [
        {"allNamespaces": True},
        {"includedNamespaces": _listed("a", "zz")},
        {"includedNamespaces": _listed("b", "kube-x", "Bad_Name")},
        {"namespaceLabelSelector": {"matchLabels": {ZONE: "red"}}},
        {"namespaceLabelSelector": {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["red"]}]}},
        {"namespaceLabelSelector": {"matchExpressions": [{"key": ZONE, "operator": "Perhaps"}]}},
        {},
    ]
    minus: list[Json] = [{}, {}, {"excludedNamespaces": _listed("b")}, {"excludedNamespaces": _listed("a", "c")}]
    return st.builds(lambda one, two, less: {**one, **two, **less}, *map(st.sampled_from, (who, who, minus)))


def _namespaces(draw: st.DrawFn, world: World) -> None:
    parents = {"a": ("",), "b": ("", "a"), "c": ("", "a", "b"), HOME: ("",)}  # a forest without loops
    for name in (*OTHERS, HOME):
        if name != HOME and draw(rarely()):
            continue
        team = draw(st.sampled_from(("", "red", "blue")))
        labels = {toys.PARENT: draw(st.sampled_from(parents[name])), toys.TEAM: team, ZONE: team}
        chosen = {ACCEPT: draw(st.sampled_from(("", "*", "*", "a", "b, a:Fetch/x", "tree:a"))), IGNORE: draw(rarely())}
        annotations = {**chosen, PAUSED: draw(rarely()), "story": CANARY}
        related = draw(st.sampled_from(({}, {}, *RELATIONS)))
        world.namespace(name, _set(labels) | {"color": name} | related, _set(annotations))
        if name != HOME and draw(rarely()):
            world.terminate(name)


def _set(metadata: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if value}


def _home(draw: st.DrawFn, world: World, name: str) -> None:
    if draw(mostly()):
        ask = {TARGETS: draw(st.sampled_from(LISTS))} if draw(mostly()) else {}
        paused = _set({PAUSED: draw(rarely()), "note": CANARY})
        world.put(at(HOME, name), draw(contents()), annotations=ask | paused, labels={GITOPS: "x"})
        if draw(rarely()):
            world.edit(at(HOME, name), finalizers=("somebody/else",), deleting=True)


def _fetch(draw: st.DrawFn, world: World, namespace: str, name: str) -> None:
    if namespace_ref(namespace) not in world.objects or draw(st.sampled_from((True, True, False))):
        return
    ref = at(namespace, name, toys.FETCH)
    ask = {toys.PATH: draw(st.sampled_from(("p", "q"))), toys.INTO: draw(st.sampled_from(LISTS))}
    created = draw(st.sampled_from(("2025", "2026")))
    finalizers = draw(st.sampled_from(FINALIZERS))
    paused = _set({PAUSED: draw(rarely())})
    world.put(ref, annotations=ask | paused, created=created, finalizers=finalizers)
    goes = draw(st.booleans())
    if finalizers and goes:
        world.delete(ref)


def _chain(draw: st.DrawFn, world: World, ref: Ref) -> None:
    if namespace_ref(ref.namespace) in world.objects:
        created = draw(st.sampled_from(("2025", "2026")))
        world.put(ref, draw(contents()), annotations={toys.CHAIN: "yes"}, labels={"tier": "1"}, created=created)


def _seed(draw: st.DrawFn, world: World, ref: Ref) -> None:
    frozen = content(immutable=True) if draw(rarely()) else Content()
    annotations = {toys.SEED: draw(st.sampled_from(LISTS)), "note": CANARY, **_set({PAUSED: draw(rarely())})}
    created = draw(st.sampled_from(("2025", "2026")))
    world.put(ref, _joined(draw(contents(ref.kind)), frozen), annotations=annotations, created=created)


def marks_of(ref: Ref) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """The labels and annotations that mark an object at this address as a copy of a source."""
    marks_by_holder = {"": ({}, {}), "secret-copy": ({FROM: f"{HOME}-{ref.name}"}, {ORIGIN: f"{HOME}/{ref.name}"})}
    for namespace in OTHERS[:2]:
        marks_by_holder[f"chain {namespace}"] = ({toys.LINK: f"{namespace}-{ref.name}"}, {toys.CHAINED: namespace})
        marks_by_holder[f"fetch {namespace}"] = ({}, {toys.FETCHED: namespace})
        marks_by_holder[f"seed {namespace}"] = ({}, {toys.SEEDED: f"{namespace}/{ref.name}"})
        tokens = f"{namespace}-{ref.name}", f"{namespace}/{ref.name}"
        for name in FISHY:
            owner = Ref(FISHY_SECRET, namespace, name)
            marks_by_holder[f"fishy {owner.path}"] = dict(labels_of(owner)), dict(annotations_of(owner))
        marks_by_holder[f"sync {namespace}"] = ({sync_to.FROM: tokens[0]}, {sync_to.FROM: tokens[1]})
        for mode in (trees.CREATE, trees.UPDATE):
            tree_annotations = {trees.FROM: namespace, trees.PROPAGATE: mode}
            marks_by_holder[f"tree {namespace} {mode}"] = ({trees.CREATED_BY: trees.NAME}, tree_annotations)
    for number, request in enumerate(REQUESTS):
        names = _names(request, HOME if request.ref.namespace == HOME else OTHERS[0], ref.name)
        for marks in request.marks:
            label_marks, annotation_marks = (request.renamed(metadata, names) for metadata in marks)
            marks_by_holder[f"example {request.vocabulary} {number}"] = label_marks, annotation_marks
    for name in DISTRIBUTIONS:
        marks_by_holder[name] = ({}, {resource_distribution.FROM: name, resource_distribution.HASHCODE: "0"})
    marks_by_holder["poster"] = ({}, {toys.POSTED: POSTER.name})
    return marks_by_holder | {"impossible": ({}, {ORIGIN: f"{HOME}/someone"})}


def owner_of(world: World, name: str, stale: bool) -> tuple[OwnerReference, ...]:
    """A controller reference to a distribution or a Poster with its uid, or a former one. Any user can write it."""
    ref = POSTER if name == "poster" else Ref(RESOURCE_DISTRIBUTION, "", name)
    if ref != POSTER and name not in DISTRIBUTIONS:
        return ()
    source = world.objects.get(ref)
    uid = "u-old" if stale or source is None else source.uid
    kind = ref.kind
    return (OwnerReference(kind.api_version, kind.name, ref.name, uid, controller=True, block_owner_deletion=True),)


def _occupant(draw: st.DrawFn, world: World, ref: Ref) -> None:
    """The object at an address: a copy in any state, a forgery or a foreign object."""
    marks = marks_of(ref)
    first = draw(st.sampled_from(sorted(marks)))
    others = [] if first.startswith("tree") else [name for name in sorted(marks) if not name.startswith("tree")]
    second = draw(st.sampled_from(("", "", "", *others)))
    labels, annotations = (marks[first][index] | marks[second][index] for index in (0, 1))
    extra = _set({ADOPTED: draw(rarely()), RELEASED: draw(rarely())})
    foreign = _set({"team": draw(rarely("red")), GITOPS: draw(rarely("app"))})
    frozen = {"immutable": True} if draw(rarely()) else {}
    value, kind = draw(st.sampled_from(VALUES)), draw(st.sampled_from(TYPES[:4]))
    existing = config_map(value, **frozen) if ref.kind == CONFIG_MAP else secret(value, kind, **frozen)
    by = draw(
        st.sampled_from(
            (FIELD_MANAGER, FIELD_MANAGER, "", *((trees.ACCURATE_MANAGER,) if first.startswith("tree") else ()))
        )
    )
    pulling = _set({draw(st.sampled_from((replicator.PULL, toys.PULL))): draw(rarely("b/x"))})
    theirs = {"note": CANARY, **pulling, **({toys.CHAIN: "yes"} if not by and draw(st.booleans()) else {})}
    owners = owner_of(world, first, stale=bool(draw(rarely())))
    world.put(ref, existing, by, labels=labels, annotations=annotations | extra, owner_references=owners)
    world.edit(ref, labels=labels | foreign, annotations=annotations | extra | theirs)
    _mishaps(draw, world, ref)


def _mishaps(draw: st.DrawFn, world: World, ref: Ref) -> None:
    mishap = draw(st.sampled_from(("", "", "", "owner", "stripped", "deleting", "pasted", "fetched")))
    if mishap == "owner":
        world.edit(ref, owner_references=world.objects[ref].owner_references or (SOMEBODY,))
    elif mishap == "stripped":
        world.strip(ref)
    elif mishap == "deleting":
        world.edit(ref, finalizers=("somebody/else",), deleting=True)
    elif mishap == "pasted":
        world.paste(ref, ref.namespace)
    elif mishap == "fetched":
        world.fetch([ref])


def _bystanders(draw: st.DrawFn, world: World) -> None:
    for namespace in [ref.name for ref in list(world.objects) if ref.kind == NAMESPACE and draw(st.booleans())]:
        world.put(at(namespace, "theirs"), secret(CANARY), labels={"app": "theirs"}, annotations={"note": CANARY})


def rules() -> st.SearchStrategy[ClusterPolicy]:
    own = st.sampled_from((frozenset(), frozenset({at("c", "y"), at("a", "x")})))
    return st.builds(
        ClusterPolicy, st.sampled_from(((), ("kube-*",), ("c",), ("kube-*", "b"))), mostly(), operators_own=own
    )


def orders() -> st.SearchStrategy[Callable[[list[Key]], list[Key]]]:
    """A new order of the keys for every round."""
    return st.randoms(use_true_random=False).map(lambda random: lambda keys: random.sample(keys, len(keys)))


def fates() -> st.SearchStrategy[list[Fate]]:
    every: tuple[Fate, ...] = ("done", "dropped", "unseen")
    return st.lists(st.sampled_from(every), max_size=12)


class UserAction:
    """A random action of a user on a world."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.what = draw(st.sampled_from(sorted(_ACTIONS)))
        self.pick = draw(st.integers(0, 99))
        self.value = {kind: draw(contents(kind)) for kind in (SECRET, CONFIG_MAP)}
        self.choice = draw(st.sampled_from(LISTS))
        self.ask = draw(st.sampled_from(SYNC_ASKS))
        self.spec = draw(specs())
        self.fishy = draw(fishy_specs())
        self.mode = draw(st.sampled_from(MODES))
        self.related = draw(st.sampled_from(RELATIONS))

    def __call__(self, world: World) -> None:
        there: list[Object] = sorted(world.objects.values(), key=lambda obj: (obj.ref.kind.name, obj.ref.path))
        _ACTIONS[self.what](self, world, there[self.pick % len(there)])

    def __repr__(self) -> str:
        choices = f"{self.choice!r} {self.ask} {self.mode} {self.related}"
        return f"<{self.what} {self.pick} {choices} {self.spec.fields[0].raw!r} {self.fishy.fields[0].raw!r}>"

    def delete(self, world: World, obj: Object) -> None:
        if not obj.deleting:
            world.delete(obj.ref)

    def strip(self, world: World, obj: Object) -> None:
        if obj.ref.kind in (SECRET, CONFIG_MAP) and obj.ref.namespace != HOME:
            world.strip(obj.ref)

    def edit(self, world: World, obj: Object) -> None:
        value = self.value.get(obj.ref.kind)
        free = obj.content.get("immutable") is None
        if value is not None and free and obj.content.get("type") == value.get("type"):
            world.edit(obj.ref, content=value)
        elif obj.ref == POSTER:
            world.edit(obj.ref, content=self.value[CONFIG_MAP])
        elif obj.ref.kind == RESOURCE_DISTRIBUTION:
            world.edit(obj.ref, content=self.spec, generation=obj.generation + 1)
        elif obj.ref.kind == FISHY_SECRET:
            world.edit(obj.ref, content=self.fishy, generation=obj.generation + 1)

    def note(self, world: World, obj: Object) -> None:
        labels = {**obj.labels, "team": "green", "color": "green", ZONE: "green"}
        world.edit(obj.ref, labels=labels, annotations={**obj.annotations, "note": "new"})

    def hang(self, world: World, obj: Object) -> None:
        """Moves, grafts, cuts, and even into a loop."""
        if obj.ref.kind == NAMESPACE:
            kept = {key: value for key, value in obj.labels.items() if key not in trees.ROLES}
            world.edit(obj.ref, labels=kept | self.related)

    def propagate(self, world: World, obj: Object) -> None:
        if obj.ref.kind in (SECRET, CONFIG_MAP):
            world.edit(obj.ref, annotations={**obj.annotations, trees.PROPAGATE: self.mode})

    def sub(self, world: World, obj: Object) -> None:
        ref = Ref(trees.SUB_NAMESPACE, obj.ref.name, "zz")
        if obj.ref.kind == NAMESPACE and ref not in world.objects:
            world.put(ref, content(spec=SPECS[self.pick % 3]), finalizers=(trees.FINALIZER,), generation=1)

    def terminate(self, world: World, obj: Object) -> None:
        if obj.ref.kind == NAMESPACE and obj.ref.name != HOME and not obj.deleting:
            world.terminate(obj.ref.name)

    def consent(self, world: World, obj: Object) -> None:
        if obj.ref.kind == NAMESPACE:
            world.edit(obj.ref, annotations={**obj.annotations, ACCEPT: self.choice})

    def namespace(self, world: World, obj: Object) -> None:
        if namespace_ref("zz") not in world.objects:
            world.namespace("zz", {toys.PARENT: "a"})

    def paste(self, world: World, obj: Object) -> None:
        free = obj.ref._replace(namespace="b") not in world.objects
        if obj.ref.kind in (SECRET, CONFIG_MAP) and free and namespace_ref("b") in world.objects:
            world.paste(obj.ref, "b")

    def request(self, world: World, obj: Object) -> None:
        if obj.ref.kind == toys.FETCH:
            ask = {toys.INTO: self.choice}
        elif obj.ref == POSTER:
            ask = {toys.NOT_IN: self.choice}
        elif obj.ref.kind in (SECRET, CONFIG_MAP):
            ask = {TARGETS: self.choice} if obj.ref.namespace == HOME else self.ask
        else:
            return
        world.edit(obj.ref, annotations={**obj.annotations, **ask})


_ACTIONS = {
    name: getattr(UserAction, name)
    for name in (
        *("delete", "strip", "edit", "note", "terminate", "consent", "namespace", "paste", "request"),
        *("hang", "propagate", "sub"),
    )
}


@st.composite
def user_actions(draw: st.DrawFn) -> Callable[[World], None]:
    return UserAction(draw)
