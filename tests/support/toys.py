"""Three toy dialects that show the core to be plain: a chain of copies, an overlay, and reads with status and guard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from samara.core.match import csv_names, label_token
from samara.core.model import CONFIG_MAP, LABELS, NAMESPACE, SECRET, Content, Kind, Object, Ref, namespace_ref
from samara.core.table import Table
from samara.core.tally import Tally
from samara.core.view import View
from samara.core.want import KEEP, Adopt, Bare, Copy, Dialect, Overlay, Places, Reach, Want
from samara.dialects import accurate, fishysecret, resource_distribution, secret_copy, sync_to
from samara.dialects.accurate import config as accurate_config
from samara.dialects.accurate import propagate

PARENT, TEAM = "toys.dev/parent", "team"
CHAIN, CHAINED, LINK = "toys.dev/chain", "toys.dev/chained-from", "toys.dev/link"
CHAIN_WORDS = frozenset({CHAINED, LINK}), frozenset({CHAIN})
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


def parent_of(namespace: str, view: View) -> str:
    have = view.get(namespace_ref(namespace))
    return have.labels.get(PARENT, "") if have is not None else ""


def told(obj: Object, mark: str, kind: Kind) -> Ref | None:
    namespace = obj.annotations.get(mark) if obj.ref.kind == SECRET else None
    return Ref(kind, namespace, obj.ref.name) if namespace else None


def chain(bare: Bare) -> Dialect:
    def is_source(obj: Object, view: View) -> bool:  # a copy counts while it hangs on a source: a mark proves nothing
        above = view.get(Ref(SECRET, parent_of(obj.ref.namespace, view), obj.ref.name))
        hangs = above is not None and told(obj, CHAINED, SECRET) == above.ref and is_source(above, view)
        return hangs or (obj.ref.kind == SECRET and CHAIN in obj.annotations)

    def want(source: Ref, view: View) -> Want:
        have = view.get(source)
        if have is None or have.deleting or not is_source(have, view):
            return Want()
        words = bare(LABELS, have.labels) | {LINK: label_token(source.path)}, {CHAINED: source.namespace}
        near = [Ref(SECRET, ns.ref.name, source.name) for ns in view.labelled(PARENT, source.namespace)]
        return Want(tuple(Copy(ref, have.content, *words, adopt=Adopt.NEVER) for ref in near))

    def also(obj: Object, view: View) -> Iterable[Ref]:
        marked = [obj.ref] if CHAINED in obj.annotations else ()
        return view.sources("chain", obj.labels.get(PARENT, "-")) if obj.ref.kind == NAMESPACE else marked

    made = Dialect("chain", (SECRET,), is_source, by(CHAINED, SECRET), below, want, *CHAIN_WORDS, also, rank=2)
    return replace(made, relations=frozenset({PARENT}), upstream=lambda namespace: namespace.labels.get(PARENT, ""))


def inherit() -> Dialect:
    def want(source: Ref, view: View) -> Want:
        above = view.get(namespace_ref(parent_of(source.name, view)))
        team = above.labels.get(TEAM) if above is not None else None
        return Want(overlays=(Overlay(source, {TEAM: team} if team else {}),))

    def below(obj: Object, view: View) -> Iterable[Ref]:
        return [ns.ref for ns in view.labelled(PARENT, obj.ref.name)] if obj.ref.kind == NAMESPACE else ()

    words: frozenset[str] = frozenset()
    made = Dialect("inherit", (NAMESPACE,), any_of(NAMESPACE), nobody, same_name, want, words, words, below, rank=3)
    return replace(made, whole=True)


def fetch() -> Dialect:
    def also(obj: Object, view: View) -> Iterable[Ref]:
        return view.sources("fetch") if obj.ref.kind == NAMESPACE else ()

    def reads(source: Ref, view: View) -> tuple[str, ...]:
        have = view.get(source)
        return () if have is None or have.deleting else (have.annotations[PATH],)

    def want(source: Ref, view: View) -> Want:
        have = view.get(source)
        if have is None or have.deleting:  # what a Fetch made goes while its guard holds it, and never without
            return Want(prune=have is not None, guard=GUARD)
        found, into = view.value(have.annotations[PATH]), view.namespaces(csv_names(have.annotations[INTO]))
        value, marks = found if isinstance(found, Content) else KEEP, {FETCHED: source.namespace}
        places = [Ref(SECRET, namespace, source.name) for namespace in into]
        return Want(tuple(Copy(ref, value, {}, marks, named=True) for ref in places), guard=GUARD, recheck=60.0)

    words = frozenset({FETCHED}), frozenset({PATH, INTO})
    made = Dialect("fetch", (SECRET, FETCH), any_of(FETCH), by(FETCHED, FETCH), same_name, want, *words, also, reads)
    return replace(made, asking=(FETCH,), report=counted, rank=1, reach=Reach.NAMED, consent=True)


def same_name(source: Ref, view: View) -> Places:
    return Places(NAMESPACE if source.kind == NAMESPACE else SECRET, source.name)


def below(source: Ref, view: View) -> Places:
    return Places(SECRET, source.name, source.namespace)


def any_of(kind: Kind) -> Callable[[Object, View], bool]:
    return lambda obj, view: obj.ref.kind == kind


def by(mark: str, kind: Kind) -> Callable[[Object, View], Ref | None]:
    return lambda obj, view: told(obj, mark, kind)


def nobody(obj: Object, view: View) -> Ref | None:
    return None


def counted(obj: Object, view: View, tally: Tally) -> Mapping[str, object]:
    return {"wanted": tally.wanted, "right": tally.right}


def table(on_source_gone: str = "keep", adopt: Adopt = Adopt.IDENTICAL) -> Table:
    """Secret copy and the three toys, in order of rank."""
    made: list[Table] = []
    toys = fetch(), chain(lambda where, words: made[0].bare(where, words)), inherit()
    made.append(Table((secret_copy.dialect("admin", on_source_gone, adopt), *toys)))
    return made[0]


def propagation(*kinds: Kind, generated: bool = False) -> Dialect:
    """Accurate's objects alone, beside no other vocabulary."""
    alone = propagate.Propagation(
        accurate_config.Config(),
        kinds,
        lambda where, words: dict(words),
        lambda obj, view: None,
        Adopt.IDENTICAL,
        generated=generated,
    )
    return alone.dialect


def whole_table(on_source_gone: str = "keep", adopt: Adopt = Adopt.IDENTICAL, consent: bool = False) -> Table:
    """All real dialects and the three toys, in order of rank: every place can be claimed by several."""
    made: list[Table] = []

    def bare(where: str, words: Mapping[str, str]) -> dict[str, str]:
        return made[0].bare(where, words)

    def as_written(where: str, words: Mapping[str, str]) -> dict[str, str]:
        return made[0].bare(where, words, by_default=())

    first = secret_copy.dialect("admin", on_source_gone, adopt)
    second = resource_distribution.dialect((SECRET, CONFIG_MAP, WIDGET), as_written)
    terms = accurate.Terms(adopt, cascading=consent, is_reserved=lambda name: name in ("admin", "kube-x"))
    config = accurate_config.read(TREE_KEYS)
    trees = accurate.dialects(config, (SECRET, CONFIG_MAP), bare, lambda obj, view: made[0].owner(obj, view), terms)
    last = sync_to.dialect((SECRET, CONFIG_MAP), bare, adopt, consent, carry_labels=not consent)
    fishy = fishysecret.dialect(fishysecret.Terms(lambda where, path: path != FORBIDDEN, consent=consent))
    made.append(Table((first, second, fetch(), *trees, fishy, replace(chain(bare), rank=3), inherit(), last)))
    return made[0]
