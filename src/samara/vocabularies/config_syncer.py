"""Config-syncer: users annotate an object as for config-syncer; Samara copies it to the namespaces that they select."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Annotated

from samara.core.annotated import AnnotatedObjects, CopyRequest
from samara.core.desired import BlockedTarget, Desired, Fault, Mistake, Stamp, Template, not_copied
from samara.core.model import ANNOTATIONS, CONFIG_MAP, FIELD_MANAGER, LABELS, SECRET, Kind, Object, Ref
from samara.core.names import is_namespace_name, quoted, to_label_value
from samara.core.ownership import ByMark
from samara.core.selectors import EVERY_NAMESPACE, NO_NAMESPACES, NamespaceSelector, parse_selector
from samara.core.source_type import Policy, SourceType
from samara.core.view import View
from samara.core.vocabulary import BuildContext, OriginalWorkload, SettingError, Vocabulary
from samara.setting_types import (
    SECRETS_AND_CONFIG_MAPS,
    CopiedKind,
    LabelValue,
    Managers,
    NamespaceName,
    OwnConflicts,
    OwnCrossNamespace,
    Struct,
    Takeover,
    about,
)

NAME, PREFIX = "config-syncer", "kubed.appscode.com/"
SYNC, CONTEXTS = f"{PREFIX}sync", f"{PREFIX}sync-contexts"
ORIGIN = f"{PREFIX}origin"
"""On a copy: an ObjectReference as JSON. It names the source; the uid and the version in it only record the write."""
ORIGIN_NAME, ORIGIN_NAMESPACE, ORIGIN_CLUSTER = f"{ORIGIN}.name", f"{ORIGIN}.namespace", f"{ORIGIN}.cluster"
"""Labels of a copy. The original finds its copies by these three."""
REQUESTS, MARKS = frozenset({SYNC, CONTEXTS}), frozenset({ORIGIN, ORIGIN_NAME, ORIGIN_NAMESPACE, ORIGIN_CLUSTER})
FIELDS = {SECRET: ("type", "data"), CONFIG_MAP: ("data", "binaryData")}
EVERYWHERE = ("", "true")


class ConfigSyncerSettings(Struct, frozen=True):
    kinds: Annotated[tuple[CopiedKind, ...], about("Secrets, ConfigMaps or both", min_length=1)] = (
        SECRETS_AND_CONFIG_MAPS
    )
    cluster_name: Annotated[
        LabelValue, about("the original's --cluster-name; copies of another one are left alone")
    ] = ""
    source_namespace: Annotated[
        NamespaceName | None, about("the only namespace with sources; null = every namespace has them")
    ] = None
    cross_namespace: OwnCrossNamespace = None
    conflicts: OwnConflicts = None
    takeover: Takeover = False
    managers: Managers = ("config-syncer", "kubed")


def check(settings: ConfigSyncerSettings) -> None:
    for kind in settings.kinds:
        if kind not in SECRETS_AND_CONFIG_MAPS:
            raise SettingError(f"vocabularies.{NAME}.kinds: found {kind}, expected v1/Secret or v1/ConfigMap")


def build(settings: ConfigSyncerSettings, context: BuildContext) -> tuple[SourceType, ...]:
    return (_Syncer(settings, context).source_type(),)


class _Syncer:
    """The source type, and what it does differently from other vocabularies with annotations."""

    def __init__(self, settings: ConfigSyncerSettings, context: BuildContext) -> None:
        self.cluster, self.home, self.context = settings.cluster_name, settings.source_namespace, context

    def source_type(self) -> SourceType:
        context = self.context
        pushed = AnnotatedObjects(
            NAME,
            context.kinds,
            annotations=REQUESTS,
            marks=MARKS,
            is_source=self.is_source,
            source_of=self.source_of,
            request=lambda obj: parse(obj.annotations[SYNC]),
            template=self.template,
            managers=context.managers,
            policy=Policy(needs_consent=context.needs_consent),
            is_discreet=context.is_strict,
            ineffective=self.ineffective,
            lint=self.lint,
        ).source_type()
        assert isinstance(pushed.ownership, ByMark)

        def desired(source: Ref, view: View) -> Desired:
            """With a fault for copies in other clusters, which keeps no copy from being deleted."""
            obj, wanted = view.get(source), self.without_other_clusters(pushed.desired(source, view), view)
            if obj is None or obj.deleting or CONTEXTS not in obj.annotations or not pushed.is_source(obj, view):
                return wanted
            mistake = _other_clusters(obj)
            fault = Fault("Invalid", f"{CONTEXTS}: {mistake.found}; {mistake.expected}", CONTEXTS, (mistake,))
            return replace(wanted, faults=(*wanted.faults, fault))

        ownership = replace(pushed.ownership, disowned=self.is_of_another_cluster)
        # The original refuses nothing, so no webhook checks sources.
        return replace(pushed, desired=desired, ownership=ownership, selected_labels=selected_labels, admission=None)

    def without_other_clusters(self, wanted: Desired, view: View) -> Desired:
        """Blocks the targets that hold a copy from another cluster: two clusters that write one object never stop."""
        there = ((copy.ref, view.get(copy.ref)) for copy in wanted.copies)
        theirs = {ref for ref, live in there if live is not None and self.is_of_another_cluster(live)}
        if not theirs:
            return wanted
        message = "the object there is a copy from another cluster"
        blocked = (BlockedTarget(ref, "conflict", message) for ref in sorted(theirs))
        copies = tuple(copy for copy in wanted.copies if copy.ref not in theirs)
        return replace(wanted, copies=copies, blocked=(*wanted.blocked, *blocked))

    def is_of_another_cluster(self, obj: Object) -> bool:
        """True if its label says so, unless another client put that on a copy of ours: then it is put right."""
        if obj.labels.get(ORIGIN_CLUSTER, self.cluster) == self.cluster:
            return False
        managers = self.context.managers | {FIELD_MANAGER}
        is_ours = any(owned.key in MARKS and owned.manager in managers for owned in obj.managed_keys)
        return not is_ours or obj.manages(LABELS, ORIGIN_CLUSTER, managers)

    def is_source(self, obj: Object) -> bool:
        is_foreign_copy = ORIGIN in obj.annotations and self.is_of_another_cluster(obj)
        return SYNC in obj.annotations and self.home in (None, obj.ref.namespace) and not is_foreign_copy

    def source_of(self, obj: Object) -> Ref | None:
        if obj.ref.kind not in self.context.kinds or self.is_of_another_cluster(obj):
            return None
        source = named_source(obj)
        if source is None or source.namespace == obj.ref.namespace or self.home not in (None, source.namespace):
            return None
        return source

    def template(self, obj: Object) -> Template:
        copyable = self.context.copyable
        labels = {} if self.context.is_strict else copyable(LABELS, obj.labels)  # strict: not even `copiedMetadata`
        marks = {
            ORIGIN_NAME: to_label_value(obj.ref.name),
            ORIGIN_NAMESPACE: obj.ref.namespace,
            ORIGIN_CLUSTER: self.cluster,
        }
        return Template(
            obj.content.pick(*FIELDS[obj.ref.kind]),
            labels={**labels, **marks},
            annotations=copyable(ANNOTATIONS, obj.annotations),
            adopt=self.context.adopt,
            unmanaged=frozenset({"immutable"}),
            stamps={ORIGIN: Stamp(origin_of(obj), _named_by(obj.ref.kind))},
        )

    def ineffective(self, obj: Object) -> Iterator[Mistake]:
        if SYNC not in obj.annotations:
            yield _other_clusters(obj)
        elif self.home not in (None, obj.ref.namespace):
            setting = f"vocabularies.{NAME}.sourceNamespace"
            expected = f"the namespace of the setting {setting}: elsewhere this key does nothing"
            yield Mistake(SYNC, expected, f"in namespace {quoted(obj.ref.namespace)}")

    def lint(self, obj: Object) -> Iterator[Mistake]:
        if SYNC not in obj.annotations:
            return
        value, strict = obj.annotations[SYNC], self.context.is_strict
        if value.lower() in ("false", "true") and value not in EVERYWHERE:
            found = f"{quoted(value)}, which selects the namespaces that have a label of this name"
            yield Mistake(SYNC, 'no such key for no copies, or "true" for every namespace', found)
        yield from (not_copied(LABELS, key) for key in (obj.labels if strict else ()) if key not in MARKS)
        yield from (not_copied(ANNOTATIONS, key) for key in self.context.withheld(ANNOTATIONS, obj.annotations))


def selected_labels(obj: Object) -> Iterator[tuple[str, str]]:
    """The keys in the label selector of a source."""
    selectors = parse(obj.annotations.get(SYNC, "")).targets.selectors
    yield from ((SYNC, key) for selector in selectors for key in sorted(selector.keys))


def _other_clusters(obj: Object) -> Mistake:
    found = f"{quoted(obj.annotations[CONTEXTS])}, which asks for copies in other clusters"
    return Mistake(
        CONTEXTS, "no such key: Samara copies within one cluster, and leaves those copies as they are", found
    )


@lru_cache(maxsize=1024)
def parse(value: str) -> CopyRequest:
    """The namespaces that the annotation selects. An invalid selector selects none."""
    if value in EVERYWHERE:
        return CopyRequest(EVERY_NAMESPACE)
    selector, wrong = parse_selector(value)
    if wrong:
        return CopyRequest(NO_NAMESPACES, tuple(fault.below(SYNC) for fault in wrong))
    return CopyRequest(NamespaceSelector(selectors=(selector,)))


# The mark


def origin_of(source: Object) -> str:
    """The fields of an ObjectReference, in the order in which the original writes them."""
    reference = {
        "kind": source.ref.kind.name,
        "namespace": source.ref.namespace,
        "name": source.ref.name,
        "uid": source.uid,
        "apiVersion": source.ref.kind.api_version,
        "resourceVersion": str(source.resource_version),
    }
    return json.dumps(reference, separators=(",", ":"))


@lru_cache(maxsize=2)
def _named_by(kind: Kind) -> Callable[[str], tuple[str, str] | None]:
    """Cached, so that the templates of one source are equal."""
    return partial(origin_named, kind)


def origin_named(kind: Kind, value: str) -> tuple[str, str] | None:
    """The namespace and the name of the source of this kind that an `origin` annotation names.

    The original leaves out kind and apiVersion where it got the source from a watch.
    """
    origin = _decoded(value)
    expected = {"kind": kind.name, "apiVersion": kind.api_version}
    if origin is None or any(origin.get(field) not in (None, "", expected[field]) for field in expected):
        return None
    return origin.get("namespace", ""), origin.get("name", "")


@lru_cache(maxsize=256)
def _decoded(value: str) -> dict[str, str] | None:
    """The texts of an `origin` annotation. None if it is not one: any client can write anything there."""
    try:
        fields = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return {key: text for key, text in fields.items() if isinstance(text, str)} if isinstance(fields, dict) else None


def named_source(copy: Object) -> Ref | None:
    """The source that the marks of a copy name: its annotation, or else its three labels. All that are there agree."""
    name, namespace = copy.labels.get(ORIGIN_NAME), copy.labels.get(ORIGIN_NAMESPACE)
    if ORIGIN in copy.annotations:
        named = origin_named(copy.ref.kind, copy.annotations[ORIGIN])
    else:
        named = None if None in (name, copy.labels.get(ORIGIN_CLUSTER)) else (namespace or "", copy.ref.name)
    if named is None or named[1] != copy.ref.name or not is_namespace_name(named[0]):
        return None
    agrees = name in (None, to_label_value(named[1])) and namespace in (None, named[0])
    return Ref(copy.ref.kind, *named) if agrees else None


VOCABULARY = Vocabulary(
    NAME,
    ConfigSyncerSettings,
    build,
    REQUESTS | MARKS,
    check=check,
    original_workload=OriginalWorkload(frozenset({"config-syncer", "kubed"})),
    is_off_until_named=True,
    is_written_by_tenants=True,
)
