"""Sync-to: users annotate an object in any namespace; Samara copies it to all namespaces, or to those in a list."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Annotated

from samara.core.annotated import AnnotatedObjects, CopyRequest
from samara.core.desired import Adopt, Fault, Mistake, Template, not_copied
from samara.core.model import ANNOTATIONS, LABELS, Kind, Object, Ref
from samara.core.names import NamespaceNames, is_namespace_name, quoted, sample, to_label_value
from samara.core.selectors import EVERY_NAMESPACE, NO_NAMESPACES, NamespaceSelector, illegal_names
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
REQUESTS, MARKS = frozenset({SYNC_TO, SYNC_TO_NAMESPACES}), frozenset({FROM})

CLUSTER = "cluster"
LISTED = ("namespaces", "namespace")
"""Both are accepted: OpenKruise's proposal uses the first in its examples and the second in its text."""
VALUE_FORM = f'"{CLUSTER}" for every namespace, or "{LISTED[0]}" for those that {SYNC_TO_NAMESPACES} lists'
LIST_FORM = 'names of namespaces, as in "ns-1;ns-2"'
_SEPARATORS = re.compile(r"[;,\s]+")
_WELL_FORMED = re.compile(r"[;,\s]*(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?(?:[;,\s]+|$))+")
"""Matches a list of names that a namespace can have."""
_IN_NAME = re.compile(r"[-a-z0-9]")


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
            withheld=context.withheld,
            managers=context.managers,
            is_protected=context.is_protected,
            is_discreet=context.is_strict,
        ),
    )


def source_type(  # noqa: PLR0913 - one parameter for each setting
    kinds: tuple[Kind, ...],
    copyable: Copyable,
    adopt: Adopt = Adopt.IDENTICAL,
    consent: bool = False,
    managers: frozenset[str] = frozenset(),
    *,
    withheld: Copyable,
    is_protected: Callable[[str], bool],
    is_discreet: bool = False,
) -> SourceType:
    def is_source(obj: Object) -> bool:
        return SYNC_TO in obj.annotations

    def source_of(obj: Object) -> Ref | None:
        namespace, _, name = obj.annotations.get(FROM, "").partition("/")
        is_possible = name == obj.ref.name and namespace != obj.ref.namespace and is_namespace_name(namespace)
        return Ref(obj.ref.kind, namespace, name) if is_possible and obj.ref.kind in kinds else None

    def template(obj: Object) -> Template:
        return Template(
            obj.content,
            labels={**copyable(LABELS, obj.labels), FROM: to_label_value(f"{obj.ref.namespace}-{obj.ref.name}")},
            annotations={**copyable(ANNOTATIONS, obj.annotations), FROM: obj.ref.path},
            adopt=adopt,
        )

    def lint(obj: Object) -> Iterator[Mistake]:
        yield from _list_mistakes(obj)
        if SYNC_TO in obj.annotations:
            yield from (not_copied(LABELS, key) for key in withheld(LABELS, obj.labels))
            yield from (not_copied(ANNOTATIONS, key) for key in withheld(ANNOTATIONS, obj.annotations))
        names = listed_names(obj.annotations.get(SYNC_TO_NAMESPACES, ""))
        yield from illegal_names(SYNC_TO_NAMESPACES, names, f"{SYNC_TO}: {CLUSTER}")
        expected = "a namespace that is not protected: copies to this one are refused (setting protectedNamespaces)"
        yield from (Mistake(SYNC_TO_NAMESPACES, expected, quoted(name)) for name in names.legal if is_protected(name))

    return AnnotatedObjects(
        NAME,
        kinds,
        annotations=REQUESTS,
        marks=MARKS,
        is_source=is_source,
        source_of=source_of,
        request=lambda obj: parse(obj.annotations[SYNC_TO], obj.annotations.get(SYNC_TO_NAMESPACES)),
        request_in=lambda obj, namespace: parse_for(
            namespace, obj.annotations[SYNC_TO], obj.annotations.get(SYNC_TO_NAMESPACES)
        ),
        template=template,
        managers=managers,
        policy=Policy(needs_consent=consent),
        is_discreet=is_discreet,
        ineffective=_list_alone,
        lint=lint,
    ).source_type()


@lru_cache(maxsize=8)
def parse(value: str, listed: str | None) -> CopyRequest:
    """The namespaces that the two annotations select. The cache is small because a tenant's list can be long."""
    if value.strip() == CLUSTER:
        return CopyRequest(EVERY_NAMESPACE)
    if value.strip() not in LISTED:
        accepted = f"accepted are {CLUSTER!r} and {LISTED[0]!r}; to end the copying remove the key"
        message, mistake = f"{SYNC_TO} is {quoted(value)}; {accepted}", Mistake(SYNC_TO, VALUE_FORM)
        return CopyRequest(NO_NAMESPACES, (Fault("Invalid", message, SYNC_TO, (mistake,)),))
    names = listed_names(listed or "")
    return CopyRequest(NamespaceSelector(names), tuple(_faults(names, listed)))


def listed_names(text: str) -> NamespaceNames:
    """The names in a list that is separated by semicolons, commas or white space."""
    return NamespaceNames.of(filter(None, _SEPARATORS.split(text)))


def parse_for(namespace: str, value: str, listed: str | None) -> CopyRequest:
    """The same for one namespace. A list without a mistake is searched and not taken apart."""
    text = listed or ""
    if value.strip() not in LISTED or not _is_well_formed(text):
        return parse(value, listed)
    return CopyRequest(NamespaceSelector(NamespaceNames.of((namespace,) if _lists(text, namespace) else ())))


@lru_cache(maxsize=64)
def _is_well_formed(text: str) -> bool:
    """True if a list certainly has no mistake. The cache is small because a tenant's list can be long."""
    return _WELL_FORMED.fullmatch(text) is not None


def _lists(text: str, namespace: str) -> bool:
    """True if a well-formed list contains this name."""
    start = text.find(namespace)
    while start >= 0:
        end = start + len(namespace)
        if not _IN_NAME.fullmatch(text[max(0, start - 1) : start]) and not _IN_NAME.fullmatch(text[end : end + 1]):
            return True
        start = text.find(namespace, start + 1)
    return False


def _faults(names: NamespaceNames, listed: str | None) -> Iterable[Fault]:
    form = "accepted are names of namespaces, as in 'ns-1;ns-2'"
    if names.illegal:
        found = sample(map(quoted, names.illegal))
        yield Fault(
            "Invalid", f"{SYNC_TO_NAMESPACES} names what cannot be a namespace: {found}; {form}", SYNC_TO_NAMESPACES
        )
    elif not names.legal:
        message = f"{SYNC_TO_NAMESPACES} is {quoted(listed or '')}, which names no namespace; {form}"
        yield Fault("Invalid", message, SYNC_TO_NAMESPACES, (_no_names(listed),))


def _no_names(listed: str | None) -> Mistake:
    if listed is None:
        return Mistake(SYNC_TO, f"that key beside it, with {LIST_FORM}", f"no {SYNC_TO_NAMESPACES}")
    return Mistake(SYNC_TO_NAMESPACES, LIST_FORM, f"{quoted(listed)}, which names nothing")


def _list_alone(obj: Object) -> Iterator[Mistake]:
    if SYNC_TO not in obj.annotations:
        expected = f"{SYNC_TO}: {LISTED[0]} beside it: the list alone does nothing"
        yield Mistake(SYNC_TO_NAMESPACES, expected, f"no {SYNC_TO}")


def _list_mistakes(obj: Object) -> Iterator[Mistake]:
    """The mistakes of a list that has no effect beside the other annotation, or that is empty."""
    value, listed = obj.annotations.get(SYNC_TO, ""), obj.annotations.get(SYNC_TO_NAMESPACES)
    if listed is not None and value.strip() == CLUSTER:
        expected = f'no list, or {SYNC_TO}: {LISTED[0]}: "{CLUSTER}" means every namespace'
        yield Mistake(SYNC_TO_NAMESPACES, expected, f"a list beside {SYNC_TO}: {CLUSTER}")
    if listed is not None and not _SEPARATORS.sub("", listed):
        yield _no_names(listed)


VOCABULARY = Vocabulary(
    NAME,
    SyncToSettings,
    build,
    REQUESTS | MARKS,
    shared_prefixes=frozenset({"openkruise.io"}),
    is_written_by_tenants=True,
)
