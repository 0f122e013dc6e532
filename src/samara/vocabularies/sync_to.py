"""Sync-to: users annotate an object in any namespace; Samara copies it to all namespaces, or to those in a list."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated

from samara.core.annotated import AnnotatedObjects, CopyRequest
from samara.core.desired import Adopt, Fault, Template
from samara.core.model import ANNOTATIONS, LABELS, Kind, Object, Ref
from samara.core.names import NamespaceNames, is_namespace_name, quoted, sample, to_label_value
from samara.core.selectors import EVERY_NAMESPACE, NO_NAMESPACES, NamespaceSelector
from samara.core.source_type import Copyable, Policy, SourceType
from samara.core.vocabulary import BuildContext, Vocabulary
from samara.setting_types import (
    SECRETS_AND_CONFIG_MAPS,
    CopiedKind,
    Managers,
    OwnConflicts,
    OwnCrossNamespace,
    Struct,
    Takeover,
    about,
)

NAME = "sync-to"
SYNC_TO = "openkruise.io/sync-to"
SYNC_TO_NAMESPACES = "openkruise.io/sync-to-namespaces"
FROM = "openkruise.io/synced-from"
"""The mark of a copy. The annotation names the source. The label holds a token for it, so that copies can be listed."""

CLUSTER = "cluster"
LISTED = ("namespaces", "namespace")
"""Both are accepted: the examples of the proposal use the first, its text the second."""
MAX_NAMES = 10_000
"""Names in one annotation. Bounds the memory that a tenant's annotation can use."""
_SEPARATORS = re.compile(r"[;,\s]+")


class SyncToSettings(Struct, frozen=True):
    kinds: Annotated[tuple[CopiedKind, ...], about("the kinds whose annotations are read", min_length=1)] = (
        SECRETS_AND_CONFIG_MAPS
    )
    cross_namespace: OwnCrossNamespace = None
    conflicts: OwnConflicts = None
    takeover: Takeover = False
    managers: Managers = ()


def build(settings: SyncToSettings, context: BuildContext) -> tuple[SourceType, ...]:
    return (
        source_type(
            context.kinds,
            context.copyable,
            context.adopt,
            consent=context.needs_consent,
            copy_labels=not context.is_strict,
            managers=context.managers,
        ),
    )


def source_type(
    kinds: tuple[Kind, ...],
    copyable: Copyable,
    adopt: Adopt = Adopt.IDENTICAL,
    consent: bool = False,
    copy_labels: bool = True,
    managers: frozenset[str] = frozenset(),
) -> SourceType:
    def is_source(obj: Object) -> bool:
        return SYNC_TO in obj.annotations and source_of(obj) is None

    def source_of(obj: Object) -> Ref | None:
        namespace, _, name = obj.annotations.get(FROM, "").partition("/")
        possible = name == obj.ref.name and namespace != obj.ref.namespace and is_namespace_name(namespace)
        return Ref(obj.ref.kind, namespace, name) if possible and obj.ref.kind in kinds else None

    def template(obj: Object) -> Template:
        labels = copyable(LABELS, obj.labels) if copy_labels else {}
        return Template(
            obj.content,
            labels={**labels, FROM: to_label_value(f"{obj.ref.namespace}-{obj.ref.name}")},
            annotations={**copyable(ANNOTATIONS, obj.annotations), FROM: obj.ref.path},
            adopt=adopt,
        )

    return AnnotatedObjects(
        NAME,
        kinds,
        annotations=frozenset({SYNC_TO, SYNC_TO_NAMESPACES}),
        marks=frozenset({FROM}),
        is_source=is_source,
        source_of=source_of,
        request=lambda obj: parse(obj.annotations[SYNC_TO], obj.annotations.get(SYNC_TO_NAMESPACES, "")),
        may_target=_may_target,
        template=template,
        managers=managers,
        policy=Policy(needs_consent=consent),
    ).source_type()


def _may_target(obj: Object, namespace: str) -> bool:
    return obj.annotations[SYNC_TO].strip() == CLUSTER or namespace in obj.annotations.get(SYNC_TO_NAMESPACES, "")


@lru_cache(maxsize=64)
def parse(value: str, listed: str) -> CopyRequest:
    """The namespaces that the two annotations select. The cache is small because a tenant's list can be long."""
    if value.strip() == CLUSTER:
        return CopyRequest(EVERY_NAMESPACE)
    if value.strip() not in LISTED:
        accepted = f"accepted are {CLUSTER!r} and {LISTED[0]!r}; to end the copying remove the key"
        return CopyRequest(NO_NAMESPACES, (Fault("Invalid", f"{SYNC_TO} is {quoted(value)}; {accepted}", SYNC_TO),))
    names = listed_names(listed)
    if len(names.legal) + len(names.illegal) > MAX_NAMES:
        message = f"{SYNC_TO_NAMESPACES} has more than {MAX_NAMES:,} names; {CLUSTER!r} means every namespace"
        return CopyRequest(NO_NAMESPACES, (Fault("Invalid", message, SYNC_TO_NAMESPACES),))
    return CopyRequest(NamespaceSelector(names), tuple(_faults(names, listed)))


def listed_names(text: str) -> NamespaceNames:
    """The names in a list that is separated by semicolons, commas or white space."""
    return NamespaceNames.of(filter(None, _SEPARATORS.split(text)))


def _faults(names: NamespaceNames, listed: str) -> Iterable[Fault]:
    form = "accepted are names of namespaces, as in 'ns-1;ns-2'"
    if names.illegal:
        found = sample(map(quoted, names.illegal))
        yield Fault(
            "Invalid", f"{SYNC_TO_NAMESPACES} names what cannot be a namespace: {found}; {form}", SYNC_TO_NAMESPACES
        )
    elif not names.legal:
        yield Fault(
            "Invalid", f"{SYNC_TO_NAMESPACES} is {quoted(listed)}, which names no namespace; {form}", SYNC_TO_NAMESPACES
        )


VOCABULARY = Vocabulary(NAME, SyncToSettings, build, is_written_by_tenants=True)
