"""FishySecret: a Secret whose values come from paths of a secret manager."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal
from weakref import WeakKeyDictionary

from samara.core.copy_counts import CopyCounts
from samara.core.desired import UNAVAILABLE, Adopt, Copy, Desired, Fault, Mistake, Template
from samara.core.model import FIELD_MANAGER, NAMESPACE, SECRET, Field, Key, KindName, Object, Ref, namespace_ref
from samara.core.names import matches_any_glob, quoted, sample
from samara.core.ownership import ByMark
from samara.core.queries import SecretPath
from samara.core.source_type import Addresses, CustomResource, Policy, SourceType, Status
from samara.core.view import View
from samara.core.vocabulary import BuildContext, Conflicts, Vocabulary
from samara.setting_types import (
    Duration,
    Managers,
    NamespaceGlob,
    NamespaceName,
    OwnCrossNamespace,
    PathGlob,
    Struct,
    Takeover,
    about,
)
from samara.vocabularies.fishysecret.fields import CONFIG as CONFIG
from samara.vocabularies.fishysecret.fields import FINALIZER as FINALIZER
from samara.vocabularies.fishysecret.fields import FISHY_SECRET as FISHY_SECRET
from samara.vocabularies.fishysecret.fields import NAME as NAME
from samara.vocabularies.fishysecret.fields import OWNER_NAME as OWNER_NAME
from samara.vocabularies.fishysecret.fields import OWNER_NAMESPACE as OWNER_NAMESPACE
from samara.vocabularies.fishysecret.fields import annotations_of, labels_of, owner_of
from samara.vocabularies.fishysecret.reasons import NO_NAMESPACE, PATH_NOT_ALLOWED, REASONS
from samara.vocabularies.fishysecret.spec import Spec, read
from samara.vocabularies.fishysecret.status import (
    ADVICE,
    MIN_STATUS_INTERVAL,
    READY,
    SUSPENDED,
    Condition,
    is_reported,
    outcome,
    removal_condition,
    status,
    synced_at,
    was_synced,
)
from samara.vocabularies.fishysecret.values import Values, collect, content, merged

MARKS = frozenset({OWNER_NAME, OWNER_NAMESPACE})
_NO_SPEC = Field("spec", b"", None)


class PathRule(Struct, frozen=True):
    namespaces: Annotated[tuple[NamespaceGlob, ...], about("of the FishySecrets")]
    allow: Annotated[tuple[PathGlob, ...], about("paths they may read")]


class FishySecretSettings(Struct, frozen=True):
    namespace: Annotated[NamespaceName | None, about("where fishysecret-config is; null = the operator's own")] = None
    cross_namespace: OwnCrossNamespace = None
    paths: Annotated[
        tuple[PathRule, ...] | None, about("who may read which paths; null = any under tenancy open, none if strict")
    ] = None
    refresh_interval: Annotated[Duration, about("how often the store is read, where the object does not say")] = 300.0
    last_synced: Annotated[Literal["interval", "change"], about("when status.lastSyncedTime is written")] = "interval"
    takeover: Takeover = False
    managers: Managers = ()
    kinds: ClassVar[tuple[KindName, ...]] = ()
    conflicts: ClassVar[Conflicts | None] = "refuse"


def build(settings: FishySecretSettings, context: BuildContext) -> tuple[SourceType, ...]:
    terms = Options(
        may_read(settings.paths, context.is_strict),
        settings.refresh_interval,
        settings.last_synced == "change",
        context.needs_consent,
        context.managers,
        context.is_protected,
    )
    return (source_type(terms),)


def may_read(rules: tuple[PathRule, ...] | None, is_strict: bool) -> Callable[[str, str], bool]:
    """Whether a namespace may read a path. Without rules every namespace may, or none under `tenancy: strict`."""
    if rules is None:
        return lambda namespace, path: not is_strict
    return lambda namespace, path: any(
        matches_any_glob(rule.namespaces, namespace) and matches_any_glob(rule.allow, path) for rule in rules
    )


def store_config(settings: FishySecretSettings, own_namespace: str) -> Ref:
    """The Secret that names the secret manager and holds the credentials for it."""
    return Ref(SECRET, settings.namespace or own_namespace, CONFIG)


@dataclass(frozen=True, slots=True)
class Options:
    """What the settings say."""

    may_read: Callable[[str, str], bool]
    """Whether the FishySecrets of a namespace may read a path."""
    every: float = 300.0
    """How often a path is read, in seconds, where the object does not say."""
    on_change: bool = False
    """True where the time of the last sync is written only when something has changed."""
    consent: bool = False
    managers: frozenset[str] = frozenset()
    is_protected: Callable[[str], bool] = lambda name: False


class SpecCache:
    """Makes specs ready and remembers them for as long as somebody holds them."""

    def __init__(self, terms: Options) -> None:
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
        least = min(MIN_STATUS_INTERVAL, self._terms.every)
        return None if self._terms.on_change else max(self.every(self.spec(obj)), least)

    def faults(self, obj: Object) -> tuple[Fault, ...]:
        """With one of these nothing is read and nothing is written."""
        spec = self.spec(obj)
        return merged((*spec.faults, *self._not_allowed(spec, obj.ref.namespace)))

    def _not_allowed(self, spec: Spec, namespace: str) -> Iterable[Fault]:
        closed = {path for path in spec.paths if not self._terms.may_read(namespace, path)}
        if namespace and closed and not spec.faults:  # a manifest may leave its namespace to kubectl
            told = f"FishySecrets of namespace {namespace} may not read {sample(map(quoted, closed))}"
            message = f"{told}; an administrator can allow it (setting vocabularies.{NAME}.paths)"
            expected = f"a path that FishySecrets of namespace {namespace} may read (setting vocabularies.{NAME}.paths)"
            mistakes = tuple(
                Mistake(f"spec.data[{number}].secretPath", expected, quoted(item.path))
                for number, item in enumerate(spec.items)
                if item.path in closed
            )
            yield Fault(PATH_NOT_ALLOWED, message, "spec.data", mistakes)

    def values(self, obj: Object, view: View) -> Values:
        spec = self.spec(obj)
        has = spec.target is not None and _has_secret(obj.ref, spec.target, view)
        return collect(spec, self.every(spec), view, has and is_reported(obj))


@dataclass(frozen=True, slots=True)
class FishySecrets:
    terms: Options
    specs: SpecCache

    def source_type(self) -> SourceType:
        return SourceType(
            NAME,
            (SECRET, FISHY_SECRET),
            source=CustomResource(FISHY_SECRET, FINALIZER, explicit_deletion=True, gone_after=0.0, lint=self.lint),
            ownership=ByMark(
                MARKS,
                lambda obj, view: owner_of(obj),
                self.terms.managers | {FIELD_MANAGER},
                copies_may_be_sources=True,
            ),
            desired=self.desired,
            addresses=self.addresses,
            affected_by=self.affected_by,
            policy=Policy(needs_consent=self.terms.consent),
            status=Status(self.report, frozenset({READY}), advice=ADVICE),
            per_namespace=False,
        )

    def lint(self, obj: Object) -> Iterator[Mistake]:
        target = self.specs.spec(obj).target
        if target is not None and self.terms.is_protected(target.namespace):
            expected = "a namespace that is not protected (setting protectedNamespaces)"
            yield Mistake("spec.target.namespace", expected, quoted(target.namespace))

    def addresses(self, source: Ref, view: View) -> Addresses | None:
        obj = view.get(source)
        target = self.specs.spec(obj).target if obj is not None else None
        return Addresses(SECRET, target.name, within=target.namespace) if target is not None else None

    def desired(self, source: Ref, view: View) -> Desired:
        obj = view.get(source)
        if obj is None:
            return Desired(prune=False)  # somebody removed the finalizer, and did not ask to delete the Secret
        if obj.deleting:
            return Desired(finalizer=FINALIZER)
        spec, faults = self.specs.spec(obj), self.specs.faults(obj)
        if faults or spec.suspended or spec.target is None:
            return Desired(prune=False, finalizer=FINALIZER, faults=faults)
        values = self.specs.values(obj, view)
        # While a path cannot be read, last-known values restore a deleted Secret, but create or change none.
        stale = bool(values.faults) and (_has_secret(source, spec.target, view) or not was_synced(obj))
        built = None if stale else content(spec, values, view)
        template = Template(
            UNAVAILABLE if built is None else built, labels_of(source), annotations_of(source), adopt=Adopt.NEVER
        )
        return Desired(
            (Copy(spec.target, template, by_name=True),),
            prune=built is not None,
            prune_last=True,
            finalizer=FINALIZER,
            faults=(*values.faults, *_no_namespace(spec.target, view)),
            reads=self._reads(obj),
        )

    def _reads(self, obj: Object) -> tuple[SecretPath, ...]:
        """Nothing is read before the finalizer is there: the values would have to wait for it."""
        return self.specs.paths(self.specs.spec(obj)) if FINALIZER in obj.finalizers else ()

    def affected_by(self, obj: Object, view: View) -> Iterable[Ref]:
        """A namespace: the FishySecrets with a target there. A Secret: its owner, if an old target waits for it."""
        if obj.ref.kind == NAMESPACE:
            return view.sources_targeting(NAME, obj.ref.name)
        owner = owner_of(obj)
        if owner is None or not any(each.ref != obj.ref for each in view.copies_of(Key(NAME, owner))):
            return ()
        return (owner,)

    def report(self, obj: Object, view: View, tally: CopyCounts) -> Mapping[str, object]:
        values = self.specs.values(obj, view)
        ready = self._condition(obj, values, tally)
        if ready is None:
            return {}
        return status(obj, ready, synced_at(obj, ready, tally, values.read_at, self.specs.told_every(obj)))

    def _condition(self, obj: Object, values: Values, tally: CopyCounts) -> Condition | None:
        if not obj.generation or FINALIZER not in obj.finalizers:
            return None
        if obj.deleting:
            return removal_condition(tally)
        faults = self.specs.faults(obj)
        if faults:
            return Condition(False, faults[0].reason, faults[0].message)
        return SUSPENDED if self.specs.spec(obj).suspended else outcome(values, tally)


def source_type(terms: Options) -> SourceType:
    return FishySecrets(terms, SpecCache(terms)).source_type()


def _has_secret(source: Ref, target: Ref, view: View) -> bool:
    live = view.get(target)
    return live is not None and owner_of(live) == source


def _no_namespace(target: Ref, view: View) -> Iterable[Fault]:
    namespace = view.get(namespace_ref(target.namespace))
    if namespace is None or namespace.deleting:
        found = "does not exist" if namespace is None else "is being deleted"
        message = f"spec.target.namespace: namespace {target.namespace} {found}; the Secret follows once it is there"
        yield Fault(NO_NAMESPACE, message)


VOCABULARY = Vocabulary(
    NAME,
    FishySecretSettings,
    build,
    MARKS,
    custom_resources=(FISHY_SECRET,),
    original_lease="dd9fe84d.2v.pm",
    is_written_by_tenants=True,
    reasons=REASONS,
    secret_store=store_config,
)
