"""FishySecret: a Secret whose values come from paths of a secret manager."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from samara.core.match import sample, shown
from samara.core.model import NAMESPACE, SECRET, Field, Key, Object, Ref, namespace_ref
from samara.core.reads import SecretPath
from samara.core.tally import Tally
from samara.core.view import View
from samara.core.want import KEEP, Adopt, Copy, Dialect, Fault, Places, Want
from samara.dialects.fishysecret.spec import Spec, read
from samara.dialects.fishysecret.status import (
    ADVICE,
    READY,
    SELDOM,
    SUSPENDED,
    Told,
    is_told,
    outcome,
    status,
    stuck,
    synced_at,
    was_synced,
)
from samara.dialects.fishysecret.values import Values, content, gather, merged
from samara.dialects.fishysecret.words import CONFIG as CONFIG
from samara.dialects.fishysecret.words import FINALIZER as FINALIZER
from samara.dialects.fishysecret.words import FISHY_SECRET as FISHY_SECRET
from samara.dialects.fishysecret.words import NAME as NAME
from samara.dialects.fishysecret.words import OWNER_NAME as OWNER_NAME
from samara.dialects.fishysecret.words import OWNER_NAMESPACE as OWNER_NAMESPACE
from samara.dialects.fishysecret.words import annotations_of, labels_of, owner_of

_NO_SPEC = Field("spec", b"", None)


@dataclass(frozen=True, slots=True)
class Terms:
    """What the settings say."""

    may_read: Callable[[str, str], bool] = lambda namespace, path: True
    """Whether the FishySecrets of a namespace may read a path."""
    every: float = 300.0
    """How often a path is read, in seconds, where the object does not say."""
    on_change: bool = False
    """True where the time of the last sync is written only when something has changed."""
    consent: bool = False
    managers: frozenset[str] = frozenset()


class Asked:
    """Makes specs ready and remembers them for as long as somebody holds them."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._specs: WeakKeyDictionary[Field, Spec] = WeakKeyDictionary()

    def spec(self, obj: Object) -> Spec:
        raw = obj.content.get("spec") or _NO_SPEC
        found = self._specs.get(raw)
        if found is None:
            found = self._specs[raw] = read(raw.raw)
        return found

    def every(self, spec: Spec) -> float:
        return spec.every or self._terms.every

    def paths(self, spec: Spec) -> tuple[SecretPath, ...]:
        needed = {item.path for item in spec.items if not item.optional}
        return tuple(SecretPath(path, self.every(spec), path not in needed) for path in spec.paths)

    def told_every(self, obj: Object) -> float | None:
        """How often it is told that a Secret is still right; None where only a change is.

        A tenant may want a value within a second, but has no say in how often we write to the server.
        """
        least = min(SELDOM, self._terms.every)
        return None if self._terms.on_change else max(self.every(self.spec(obj)), least)

    def faults(self, obj: Object) -> tuple[Fault, ...]:
        """With one of these nothing is read and nothing is written."""
        spec = self.spec(obj)
        return merged((*spec.faults, *self._not_allowed(spec, obj.ref.namespace)))

    def _not_allowed(self, spec: Spec, namespace: str) -> Iterable[Fault]:
        closed = [path for path in spec.paths if not self._terms.may_read(namespace, path)]
        if closed and not spec.faults:
            told = f"FishySecrets of namespace {namespace} may not read {sample(map(shown, closed))}"
            yield Fault("PathNotAllowed", f"{told}; an administrator can allow it (setting vocabularies.{NAME}.paths)")

    def values(self, obj: Object, view: View) -> Values:
        spec = self.spec(obj)
        has = spec.target is not None and _has_its_own(obj.ref, spec.target, view)
        return gather(spec, self.every(spec), view, has and is_told(obj))


def dialect(terms: Terms | None = None) -> Dialect:
    terms = terms or Terms()
    asked = Asked(terms)

    def is_source(obj: Object, view: View) -> bool:
        return obj.ref.kind == FISHY_SECRET

    def origin(obj: Object, view: View) -> Ref | None:
        return owner_of(obj)

    def places(source: Ref, view: View) -> Places | None:
        obj = view.get(source)
        target = asked.spec(obj).target if obj is not None else None
        return Places(SECRET, target.name, within=target.namespace) if target is not None else None

    def reads(source: Ref, view: View) -> tuple[SecretPath, ...]:
        """Nothing before the finalizer is there: what is read would have to wait for it."""
        obj = view.get(source)
        if obj is None or obj.deleting or FINALIZER not in obj.finalizers or asked.faults(obj):
            return ()
        spec = asked.spec(obj)
        return () if spec.suspended else asked.paths(spec)

    def want(source: Ref, view: View) -> Want:
        obj = view.get(source)
        if obj is None:
            return Want(prune=False)  # its finalizer was taken off by hand, and nobody has said that the Secret goes
        if obj.deleting:
            return Want(guard=FINALIZER)
        spec, faults = asked.spec(obj), asked.faults(obj)
        if faults or spec.suspended or spec.target is None:
            return Want(prune=False, guard=FINALIZER, faults=faults)
        values = asked.values(obj, view)
        # What was read before a path failed is for who has had it: a deleted Secret comes back, a new one is not made.
        blind = bool(values.faults) and (_has_its_own(source, spec.target, view) or not was_synced(obj))
        built = None if blind else content(spec, values, view)
        has = KEEP if built is None else built
        copy = Copy(spec.target, has, labels_of(source), annotations_of(source), adopt=Adopt.NEVER, named=True)
        told = (*values.faults, *_no_namespace(spec.target, view))
        return Want((copy,), prune=built is not None, in_turn=True, guard=FINALIZER, faults=told)

    def also(obj: Object, view: View) -> Iterable[Ref]:
        """Those whose target is in a Namespace, or was; and of a Secret its owner, where an old one waits to go."""
        if obj.ref.kind == NAMESPACE:
            return view.bound(NAME, obj.ref.name)
        owner = owner_of(obj)
        return (owner,) if owner is not None and _has_others(obj, owner, view) else ()

    def report(obj: Object, view: View, tally: Tally) -> Mapping[str, object]:
        values = asked.values(obj, view)
        told = _told(obj, values, tally)
        if told is None:
            return {}
        return status(obj, told, synced_at(obj, told, tally, values.read_at, asked.told_every(obj)))

    def _told(obj: Object, values: Values, tally: Tally) -> Told | None:
        if not obj.generation or FINALIZER not in obj.finalizers:
            return None
        if obj.deleting:
            return stuck(tally)
        faults = asked.faults(obj)
        if faults:
            return Told(False, *faults[0])
        return SUSPENDED if asked.spec(obj).suspended else outcome(values, tally)

    return Dialect(
        NAME,
        (SECRET, FISHY_SECRET),
        is_source,
        origin,
        places,
        want,
        marks=frozenset({OWNER_NAME, OWNER_NAMESPACE}),
        asks=frozenset(),
        also=also,
        reads=reads,
        report=report,
        conditions=frozenset({READY}),
        managers=terms.managers,
        rank=3,
        consent=terms.consent,
        asking=(FISHY_SECRET,),
        finalizer=FINALIZER,
        hands_on=True,
        explicit=True,
        whole=True,
        advice=ADVICE,
        gone_after=0.0,
    )


def _has_its_own(source: Ref, target: Ref, view: View) -> bool:
    """True where its Secret is there: while a path cannot be read it stays whole, and gets no new values of others."""
    there = view.get(target)
    return there is not None and owner_of(there) == source


def _no_namespace(target: Ref, view: View) -> Iterable[Fault]:
    namespace = view.get(namespace_ref(target.namespace))
    if namespace is None or namespace.deleting:
        found = "does not exist" if namespace is None else "is being deleted"
        told = f"spec.target.namespace: namespace {target.namespace} {found}; the Secret follows once it is there"
        yield Fault("NoNamespace", told)


def _has_others(obj: Object, owner: Ref, view: View) -> bool:
    return any(each.ref != obj.ref for each in view.copies_of(Key(NAME, owner)))
