"""FishySecret: users create a resource that names a Secret and paths of a secret manager; Samara fills the Secret."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal
from weakref import WeakKeyDictionary

from samara.core.copy_counts import CopyCounts
from samara.core.desired import UNAVAILABLE, Adopt, Copy, Desired, Fault, Mistake, Template
from samara.core.model import FIELD_MANAGER, NAMESPACE, SECRET, Field, Key, Kind, KindName, Object, Ref, namespace_ref
from samara.core.names import (
    is_dns_subdomain,
    is_label_value,
    is_namespace_name,
    matches_any_glob,
    quoted,
    sample,
    to_label_value,
)
from samara.core.ownership import ByMark
from samara.core.queries import SecretPath
from samara.core.source_limits import LIMIT_EXCEEDED
from samara.core.source_type import (
    LISTS_NONE,
    Addresses,
    CustomResource,
    ListedNames,
    Names,
    Policy,
    SourceType,
    Status,
    TrustedNamespaces,
)
from samara.core.view import View
from samara.core.vocabulary import (
    BuildContext,
    Conflicts,
    DeclaredReason,
    PathLimit,
    SecretStore,
    Vocabulary,
)
from samara.setting_types import (
    Audience,
    Duration,
    Limit,
    Managers,
    NamespaceGlobOrTree,
    NamespaceName,
    OwnCrossNamespace,
    PathGlob,
    Struct,
    Takeover,
    about,
)
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

NAME = "fishysecret"
GROUP = "fishykeys.2v.pm"
FISHY_SECRET = Kind(GROUP, "v1alpha1", "FishySecret", "fishysecrets")
FINALIZER = f"{GROUP}/finalizer"
OWNER_NAME = f"{GROUP}/owner-name"
"""As a label: the owner's name, or a token if a label cannot hold the name. The annotation then holds the name."""
OWNER_NAMESPACE = f"{GROUP}/owner-namespace"
CONFIG = "fishysecret-config"
"""The Secret with the address of the secret manager and the credentials for it."""
MARKS = frozenset({OWNER_NAME, OWNER_NAMESPACE})
PATHS = f"vocabularies.{NAME}.paths"
PATH_NOT_ALLOWED: Final = "PathNotAllowed"
NO_NAMESPACE: Final = "NoNamespace"
_NO_SPEC = Field("spec", b"", None)


class PathRule(Struct, frozen=True):
    namespaces: Annotated[tuple[NamespaceGlobOrTree, ...], about("of the FishySecrets: names, globs, tree:<namespace>")]
    allow: Annotated[tuple[PathGlob, ...], about("paths they may read")]


class FishySecretSettings(Struct, frozen=True):
    namespace: Annotated[NamespaceName | None, about("where fishysecret-config is; null = the operator's own")] = None
    token_audience: Annotated[Audience, about("the audience of the pod's token with which it logs in to Vault")] = (
        "vault"  # noqa: S105 - not a secret
    )
    cross_namespace: OwnCrossNamespace = None
    paths: Annotated[
        tuple[PathRule, ...] | None, about("who may read which paths; null = any with tenancy open, none with strict")
    ] = None
    refresh_interval: Annotated[Duration, about("how often paths are read if the FishySecret does not say")] = 300.0
    min_refresh_interval: Annotated[
        Duration, about("a FishySecret that asks for a shorter interval gets this one, or refreshInterval if shorter")
    ] = 10.0
    paths_per_namespace: Annotated[Limit, about("most paths that all FishySecrets of one namespace read together")] = (
        2000
    )
    last_synced: Annotated[Literal["interval", "change"], about("when status.lastSyncedTime is written")] = "interval"
    takeover: Takeover = False
    managers: Managers = ()
    kinds: ClassVar[tuple[KindName, ...]] = ()
    conflicts: ClassVar[Conflicts | None] = "refuse"


def build(settings: FishySecretSettings, context: BuildContext) -> tuple[SourceType, ...]:
    named = (name for rule in settings.paths or () if rule.allow for name in rule.namespaces)
    options = Options(
        readable(settings.paths, context.is_strict),
        context.is_protected,
        refresh_interval=settings.refresh_interval,
        min_refresh_interval=settings.min_refresh_interval,
        on_change=settings.last_synced == "change",
        consent=context.needs_consent,
        is_discreet=context.is_strict,
        managers=context.managers,
        trusted=TrustedNamespaces(PATHS, tuple(named)),
    )
    return (source_type(options),)


def readable(rules: tuple[PathRule, ...] | None, is_strict: bool) -> Callable[[str, View], tuple[str, ...]]:
    """The globs of the paths that a namespace may read: without rules every path, or none under `tenancy: strict`."""
    if rules is None:
        return lambda namespace, view: () if is_strict else ("*",)
    allowed = [(TrustedNamespaces(PATHS, rule.namespaces), rule.allow) for rule in rules]
    return lambda namespace, view: tuple(
        path for namespaces, paths in allowed if namespaces.includes(namespace, view) for path in paths
    )


def secret_store(settings: FishySecretSettings, own_namespace: str) -> SecretStore:
    config = Ref(SECRET, settings.namespace or own_namespace, CONFIG)
    most = settings.paths_per_namespace
    message = (
        f"the FishySecrets of one namespace may have {most:,} paths together "
        f"(setting vocabularies.{NAME}.pathsPerNamespace), and those of this one have more; "
        "remove some, or ask an administrator"
    )
    return SecretStore(config, PathLimit(most, message), settings.token_audience)


@dataclass(frozen=True, slots=True)
class Options:
    """The settings that the source type depends on."""

    readable: Callable[[str, View], tuple[str, ...]]
    """The globs of the paths that the FishySecrets of a namespace may read."""
    is_protected: Callable[[str], bool]
    """True for namespaces that the setting `protectedNamespaces` names."""
    refresh_interval: float = 300.0
    """Seconds between two reads of a path, for a FishySecret that sets no interval."""
    min_refresh_interval: float = 10.0
    """The shortest interval that a FishySecret can set, unless `refresh_interval` is shorter."""
    on_change: bool = False
    """True: write `status.lastSyncedTime` only when the Secret changes. False: also once per refresh interval."""
    consent: bool = False
    is_discreet: bool = False
    """True: messages to the author of a FishySecret name only the namespace of its target."""
    managers: frozenset[str] = frozenset()
    trusted: TrustedNamespaces | None = None
    """The namespaces whose FishySecrets may read paths."""


class SpecCache:
    """Parses each spec once, and answers what follows from a spec and the settings.

    A parsed spec is dropped with the object that holds the spec.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._specs: WeakKeyDictionary[Field, Spec] = WeakKeyDictionary()

    @property
    def _follows_trees(self) -> bool:
        return self._options.trusted is not None and bool(self._options.trusted.trees)

    def spec(self, obj: Object) -> Spec:
        field = obj.content.get("spec") or _NO_SPEC
        spec = self._specs.get(field)
        if spec is None:
            spec = self._specs[field] = read(field.raw)
        return spec

    def refresh_interval(self, spec: Spec) -> float:
        """Tenants choose the interval of a spec, and must not choose the load on the secret manager."""
        default = self._options.refresh_interval
        return max(spec.refresh_interval or default, min(self._options.min_refresh_interval, default))

    def paths(self, spec: Spec) -> tuple[SecretPath, ...]:
        required = {item.path for item in spec.items if not item.optional}
        interval = self.refresh_interval(spec)
        return tuple(SecretPath(path, interval, path not in required) for path in spec.paths)

    def status_interval(self, obj: Object) -> float | None:
        """Seconds between two status writes for a Secret that stays in sync. None: write changes only.

        It has a lower bound, because a tenant chooses the refresh interval and must not choose our rate of writes.
        """
        if self._options.on_change:
            return None
        lower_bound = min(MIN_STATUS_INTERVAL, self._options.refresh_interval)
        return max(self.refresh_interval(self.spec(obj)), lower_bound)

    def faults(self, obj: Object, view: View) -> tuple[Fault, ...]:
        """What is wrong with the spec. With a fault, nothing is read or written."""
        spec = self.spec(obj)
        return merged((*spec.faults, *self._not_allowed(spec, obj.ref.namespace, view)))

    def _not_allowed(self, spec: Spec, namespace: str, view: View) -> Iterable[Fault]:
        allowed = self._options.readable(namespace, view)
        denied = {path for path in spec.paths if not matches_any_glob(allowed, path)}
        if namespace and denied and not spec.faults:  # a manifest without a namespace gets it from kubectl
            refused = f"FishySecrets of namespace {namespace} may not read {sample(map(quoted, denied))}"
            message = f"{refused}; an administrator can allow it (setting {PATHS})"
            if self._follows_trees and view.get(namespace_ref(namespace)) is None:
                yield Fault(PATH_NOT_ALLOWED, message)  # without the cluster, the tree of the namespace is not known
                return
            expected = f"a path that FishySecrets of namespace {namespace} may read (setting {PATHS})"
            mistakes = tuple(
                Mistake(f"spec.data[{number}].secretPath", expected, quoted(item.path))
                for number, item in enumerate(spec.items)
                if item.path in denied
            )
            yield Fault(PATH_NOT_ALLOWED, message, "spec.data", mistakes)

    def values(self, obj: Object, view: View) -> Values:
        spec = self.spec(obj)
        has_secret = spec.target is not None and _has_secret(obj.ref, spec.target, view)
        return collect(spec, self.refresh_interval(spec), view, has_secret and is_reported(obj))


@dataclass(frozen=True, slots=True)
class FishySecrets:
    """The source type of FishySecrets. A FishySecret has one copy, its Secret."""

    options: Options
    specs: SpecCache

    def source_type(self) -> SourceType:
        return SourceType(
            NAME,
            (SECRET, FISHY_SECRET),
            source=CustomResource(FISHY_SECRET, FINALIZER, explicit_deletion=True, gone_after=0.0, lint=self.lint),
            ownership=ByMark(
                MARKS,
                lambda obj, view: owner_of(obj),
                self.options.managers | {FIELD_MANAGER},
                copies_may_be_sources=True,
            ),
            desired=self.desired,
            addresses=self.addresses,
            affected_by=self.affected_by,
            policy=Policy(needs_consent=self.options.consent, trusted=self.options.trusted),
            status=Status(self.report, frozenset({READY}), advice=ADVICE),
            names=Names(self.listed, self.options.is_discreet, lambda obj, name: name in self.listed(obj).names),
            per_namespace=False,
        )

    def listed(self, obj: Object) -> ListedNames:
        target = self.specs.spec(obj).target
        return LISTS_NONE if target is None else ListedNames((target.namespace,), 1, field="spec.target.namespace")

    def lint(self, obj: Object) -> Iterator[Mistake]:
        target = self.specs.spec(obj).target
        if target is not None and self.options.is_protected(target.namespace):
            expected = "a namespace that is not protected (setting protectedNamespaces)"
            yield Mistake("spec.target.namespace", expected, quoted(target.namespace))

    def addresses(self, source: Ref, view: View) -> Addresses | None:
        obj = view.get(source)
        target = self.specs.spec(obj).target if obj is not None else None
        return Addresses(SECRET, target.name, within=target.namespace) if target is not None else None

    def desired(self, source: Ref, view: View) -> Desired:
        """The Secret of one FishySecret. The first case that applies decides."""
        obj = view.get(source)

        # A FishySecret that is gone while its Secret still exists lost its finalizer to a client. The Secret stays.
        if obj is None:
            return Desired(prune=False)

        # Its Secret is deleted first, then the finalizer is removed.
        if obj.deleting:
            return Desired(finalizer=FINALIZER)

        # While the spec cannot be served or is suspended, the Secret stays as it is.
        spec, faults = self.specs.spec(obj), self.specs.faults(obj, view)
        if faults or spec.suspended or spec.target is None:
            return Desired(prune=False, finalizer=FINALIZER, faults=faults)

        # While a path cannot be read, the last good values only restore a deleted Secret.
        values = self.specs.values(obj, view)
        is_stale = bool(values.faults) and (_has_secret(source, spec.target, view) or not was_synced(obj))
        secret_content = None if is_stale else content(spec, values, view)

        # One Secret at the target. The Secret of an earlier target is deleted after that.
        template = Template(
            UNAVAILABLE if secret_content is None else secret_content,
            labels_of(source),
            annotations_of(source),
            adopt=Adopt.NEVER,
        )
        return Desired(
            (Copy(spec.target, template, by_name=True),),
            prune=secret_content is not None,
            prune_last=True,
            finalizer=FINALIZER,
            faults=(*values.faults, *_no_namespace(spec.target, view)),
            reads=self._reads(obj),
        )

    def _reads(self, obj: Object) -> tuple[SecretPath, ...]:
        """Paths are read only once the finalizer is set, because nothing can be written before."""
        return self.specs.paths(self.specs.spec(obj)) if FINALIZER in obj.finalizers else ()

    def affected_by(self, obj: Object, view: View) -> Iterable[Ref]:
        """For a Namespace: FishySecrets with a target there. For a Secret: its owner, if that has another Secret."""
        if obj.ref.kind == NAMESPACE:
            return view.sources_targeting(NAME, obj.ref.name)
        owner = owner_of(obj)
        if owner is None or not any(copy.ref != obj.ref for copy in view.copies_of(Key(NAME, owner))):
            return ()
        return (owner,)

    def report(self, obj: Object, view: View, counts: CopyCounts) -> Mapping[str, object]:
        values, excess = self.specs.values(obj, view), view.excess(Key(NAME, obj.ref))
        ready = Condition(False, LIMIT_EXCEEDED, excess) if excess else self._condition(obj, values, counts, view)
        if ready is None:
            return {}
        return status(obj, ready, synced_at(obj, ready, counts, values.read_at, self.specs.status_interval(obj)))

    def _condition(self, obj: Object, values: Values, counts: CopyCounts, view: View) -> Condition | None:
        """The condition to report. None leaves the status as it is."""
        if not obj.generation or FINALIZER not in obj.finalizers:
            return None
        if obj.deleting:
            return removal_condition(counts)
        faults = self.specs.faults(obj, view)
        if faults:
            return Condition(False, faults[0].reason, faults[0].message)
        return SUSPENDED if self.specs.spec(obj).suspended else outcome(values, counts)


def source_type(options: Options) -> SourceType:
    return FishySecrets(options, SpecCache(options)).source_type()


def labels_of(owner: Ref) -> Mapping[str, str]:
    return {OWNER_NAME: to_label_value(owner.name), OWNER_NAMESPACE: owner.namespace}


def annotations_of(owner: Ref) -> Mapping[str, str]:
    """Set only for a name that a label cannot hold, so that Secrets of the original need no write."""
    return {} if is_label_value(owner.name) else {OWNER_NAME: owner.name}


def owner_of(obj: Object) -> Ref | None:
    """The FishySecret that a Secret's labels name. None if a label is missing or is not a possible name."""
    token, namespace = obj.labels.get(OWNER_NAME, ""), obj.labels.get(OWNER_NAMESPACE, "")
    if obj.ref.kind != SECRET or not is_namespace_name(namespace):
        return None
    annotated = obj.annotations.get(OWNER_NAME, token)
    name = annotated if to_label_value(annotated) == token else token  # another client's annotation frees no Secret
    return Ref(FISHY_SECRET, namespace, name) if is_dns_subdomain(name) and to_label_value(name) == token else None


def _has_secret(source: Ref, target: Ref, view: View) -> bool:
    live = view.get(target)
    return live is not None and owner_of(live) == source


def _no_namespace(target: Ref, view: View) -> Iterable[Fault]:
    namespace = view.get(namespace_ref(target.namespace))
    if namespace is None or namespace.deleting:
        state = "does not exist" if namespace is None else "is being deleted"
        message = (
            f"spec.target.namespace: namespace {target.namespace} {state}; Samara creates the Secret once it exists"
        )
        yield Fault(NO_NAMESPACE, message)


REASONS: Mapping[str, DeclaredReason] = {
    NO_NAMESPACE: DeclaredReason("the target namespace of a FishySecret does not exist or is being deleted"),
    PATH_NOT_ALLOWED: DeclaredReason(
        "the settings do not let the namespace of a FishySecret read a path",
        "an administrator can allow the path in the settings (vocabularies.fishysecret.paths)",
    ),
    "TokenError": DeclaredReason(
        "the configuration of the secret manager is missing or incomplete",
        "complete the Secret that configures the secret manager",
        is_of_secret_manager=True,
    ),
    "ConnectionError": DeclaredReason(
        "the configuration names a secret manager that cannot be used",
        "correct the url in the Secret that configures the secret manager",
        is_of_secret_manager=True,
    ),
    "FetchError": DeclaredReason(
        "a path could not be read; the Secret stays as it is",
        "correct the path, or put the value into the secret manager; the Secret stays as it is",
        is_of_secret_manager=True,
    ),
}

VOCABULARY = Vocabulary(
    NAME,
    FishySecretSettings,
    build,
    MARKS,
    custom_resources=(FISHY_SECRET,),
    original_lease="dd9fe84d.2v.pm",
    is_written_by_tenants=True,
    reasons=REASONS,
    reserved_namespaces=lambda settings: (settings.namespace,) if settings.namespace else (),
    secret_store=secret_store,
)
