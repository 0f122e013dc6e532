"""Random worlds in which collisions are the rule: four namespaces, two names, every address claimed several times."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product

from hypothesis import strategies as st
from tests import toys
from tests.settle import Fate
from tests.world import World, at, secret

from samara.core.allow import Rules
from samara.core.model import MANAGER, Content, Key, Object, Owner, Ref, namespace_ref
from samara.core.table import Table
from samara.core.travel import ACCEPT, ADOPTED, IGNORE, PAUSED, RELEASED
from samara.core.want import Adopt
from samara.dialects.secret_copy import FROM, ORIGIN, TARGETS

HOME, OTHERS = "admin", ("a", "b", "c")
NAMES = ("x", "y")
LISTS = ("", " ", "a,b", "b, c ,Bad_Name", "c", "admin,b,b", ",", "zz,b", '"a","c"', "kube-x,c")
CANARY = "canary-7f3a9"
VALUES = ("one", CANARY)
TYPES = ("Opaque", "Opaque", "Opaque", "kubernetes.io/tls", "kubernetes.io/service-account-token")
SOMEBODY = Owner("apps/v1", "Deployment", "somebody", "u-somebody", controller=True)
FINALIZERS: tuple[tuple[str, ...], ...] = ((), (toys.GUARD,), (toys.GUARD, "somebody/else"), ("somebody/else",))
GITOPS = "argocd.argoproj.io/instance"


@cache
def tables() -> dict[tuple[str, Adopt], Table]:
    return {each: toys.table(*each) for each in product(("keep", "delete"), Adopt)}


def contents() -> st.SearchStrategy[Content]:
    return st.builds(secret, st.sampled_from(VALUES), st.sampled_from(TYPES))


def rarely(value: str = "true") -> st.SearchStrategy[str]:
    return st.sampled_from(("",) * 7 + (value,))


def mostly() -> st.SearchStrategy[bool]:
    return st.sampled_from((True, True, True, True, False))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A cluster in the middle of its life: sources, copies right and wrong, other people's objects."""
    world = World(draw(st.sampled_from(list(tables().values()))))
    for path in ("p", "q"):
        world.outside[path] = draw(st.one_of(st.none(), contents()))
    _namespaces(draw, world)
    for name in NAMES[: draw(st.sampled_from((1, 1, 2)))]:
        _home(draw, world, name)
        for namespace in OTHERS:
            _fetch(draw, world, namespace, name)
            if namespace == "a" and draw(st.booleans()):
                _chain(draw, world, at(namespace, name))
            else:
                _occupant(draw, world, at(namespace, name))
    _bystanders(draw, world)
    return world


def _namespaces(draw: st.DrawFn, world: World) -> None:
    parents = {"a": ("",), "b": ("", "a"), "c": ("", "a", "b"), HOME: ("",)}  # a forest: people cannot make rings here
    for name in (*OTHERS, HOME):
        if name != HOME and draw(rarely()):
            continue
        labels = {
            toys.PARENT: draw(st.sampled_from(parents[name])),
            toys.TEAM: draw(st.sampled_from(("", "red", "blue"))),
        }
        told = {ACCEPT: draw(st.sampled_from(("", "*", "*", "a", "b, a:Fetch/x"))), IGNORE: draw(rarely())}
        annotations = {**told, PAUSED: draw(rarely())}
        world.namespace(name, _set(labels), _set(annotations))
        if name != HOME and draw(rarely()):
            world.terminate(name)


def _set(words: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in words.items() if value}


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


def marks_of(ref: Ref) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """Labels and annotations by which an object at this place says whose copy it is."""
    found = {"": ({}, {}), "secret-copy": ({FROM: f"{HOME}-{ref.name}"}, {ORIGIN: f"{HOME}/{ref.name}"})}
    for namespace in OTHERS[:2]:
        found[f"chain {namespace}"] = ({toys.LINK: f"{namespace}-{ref.name}"}, {toys.CHAINED: namespace})
        found[f"fetch {namespace}"] = ({}, {toys.FETCHED: namespace})
    return found | {"impossible": ({}, {ORIGIN: f"{HOME}/someone"})}


def _occupant(draw: st.DrawFn, world: World, ref: Ref) -> None:
    """Whatever is at a place: nothing, a copy in any state, a forgery, somebody's own object."""
    if namespace_ref(ref.namespace) not in world.objects or draw(st.sampled_from((True, False, False))):
        return
    marks = marks_of(ref)
    first, second = draw(st.sampled_from(sorted(marks))), draw(st.sampled_from(("", "", "", *sorted(marks))))
    labels, annotations = (marks[first][each] | marks[second][each] for each in (0, 1))
    extra = _set({ADOPTED: draw(rarely()), RELEASED: draw(rarely())})
    foreign = _set({"team": draw(rarely("red")), GITOPS: draw(rarely("app"))})
    frozen = {"immutable": True} if draw(rarely()) else {}
    has = secret(draw(st.sampled_from(VALUES)), draw(st.sampled_from(TYPES[:4])), **frozen)
    by = draw(st.sampled_from((MANAGER, MANAGER, "")))
    theirs = {"note": CANARY, **({toys.CHAIN: "yes"} if not by and draw(st.booleans()) else {})}
    world.put(ref, has, by, labels=labels, annotations=annotations | extra)
    world.edit(ref, labels=labels | foreign, annotations=annotations | extra | theirs)
    _mishaps(draw, world, ref)


def _mishaps(draw: st.DrawFn, world: World, ref: Ref) -> None:
    mishap = draw(st.sampled_from(("", "", "", "owner", "stripped", "deleting", "pasted", "looked")))
    if mishap == "owner":
        world.edit(ref, owners=(SOMEBODY,))
    elif mishap == "stripped":
        world.strip(ref)
    elif mishap == "deleting":
        world.edit(ref, finalizers=("somebody/else",), deleting=True)
    elif mishap == "pasted":
        world.paste(ref, ref.namespace)
    elif mishap == "looked":
        world.look([ref])


def _bystanders(draw: st.DrawFn, world: World) -> None:
    for namespace in [ref.name for ref in list(world.objects) if ref.namespace == "" and draw(st.booleans())]:
        world.put(at(namespace, "theirs"), secret(CANARY), labels={"app": "theirs"}, annotations={"note": CANARY})


def rules() -> st.SearchStrategy[Rules]:
    return st.builds(Rules, st.sampled_from(((), ("kube-*",), ("c",), ("kube-*", "b"))), mostly())


def orders() -> st.SearchStrategy[Callable[[list[Key]], list[Key]]]:
    """A new order of the keys for every round."""
    return st.randoms(use_true_random=False).map(lambda random: lambda keys: random.sample(keys, len(keys)))


def fates() -> st.SearchStrategy[list[Fate]]:
    every: tuple[Fate, ...] = ("done", "dropped", "unseen")
    return st.lists(st.sampled_from(every), max_size=12)


@st.composite
def deeds(draw: st.DrawFn) -> Callable[[World], None]:
    """Something that a person does to a world, whatever it holds."""
    what = draw(
        st.sampled_from(("delete", "strip", "edit", "words", "terminate", "namespace", "paste", "value", "ask"))
    )
    pick, value, words = draw(st.integers(0, 99)), draw(contents()), draw(st.sampled_from(LISTS))

    def do(world: World) -> None:
        there: list[Object] = sorted(world.objects.values(), key=lambda obj: (obj.ref.kind.name, obj.ref.path))
        _do(world, what, there[pick % len(there)], value, words)

    return do


def _do(world: World, what: str, obj: Object, value: Content, words: str) -> None:
    has_value = obj.content.get("type") == value.get("type") and obj.content.get("immutable") is None
    if what == "delete" and not obj.deleting:
        world.delete(obj.ref)
    elif what == "strip" and obj.ref.kind.name == "Secret" and obj.ref.namespace != HOME:
        world.strip(obj.ref)
    elif what in ("edit", "value") and has_value:
        world.edit(obj.ref, content=value)
    elif what == "words":
        world.edit(obj.ref, labels={**obj.labels, "team": "green"}, annotations={**obj.annotations, "note": "new"})
    else:
        _do_more(world, what, obj, words)


def _do_more(world: World, what: str, obj: Object, words: str) -> None:
    is_namespace = obj.ref.namespace == ""
    if what == "terminate" and is_namespace and obj.ref.name != HOME and not obj.deleting:
        world.terminate(obj.ref.name)
    elif what == "namespace" and namespace_ref("zz") not in world.objects:
        world.namespace("zz", {toys.PARENT: "a"})
    elif what == "paste" and not is_namespace and at("b", obj.ref.name, obj.ref.kind) not in world.objects:
        if namespace_ref("b") in world.objects and obj.ref.kind.name == "Secret":
            world.paste(obj.ref, "b")
    elif what == "ask":
        ask = (
            {TARGETS: words} if obj.ref.namespace == HOME else {toys.INTO: words} if obj.ref.kind == toys.FETCH else {}
        )
        world.edit(obj.ref, annotations={**obj.annotations, **ask})
