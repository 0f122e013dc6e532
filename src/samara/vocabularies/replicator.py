"""Replicator: users annotate an object as for kubernetes-replicator; Samara pushes it to the namespaces that match."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Annotated, NamedTuple

from samara import setting_types
from samara.core.annotated import AnnotatedObjects, CopyRequest
from samara.core.desired import Fault, Mistake, Stamp, Template, mismatch
from samara.core.model import CONFIG_MAP, LABELS, SECRET, Object, Ref
from samara.core.names import NO_NAMES, NamespaceNames, is_namespace_name, quoted
from samara.core.selectors import NamespaceSelector, parse_selector
from samara.core.source_type import ListedNames, Policy, SourceType
from samara.core.vocabulary import BuildContext, OriginalWorkload, SettingError, Vocabulary
from samara.regular_expressions import Regexp, RegexpError, compile_regexp
from samara.setting_types import SECRETS_AND_CONFIG_MAPS, CopiedKind, about

NAME, PREFIX = "replicator", "replicator.v1.mittwald.de/"
TO, MATCHING, STRIP_LABELS = f"{PREFIX}replicate-to", f"{PREFIX}replicate-to-matching", f"{PREFIX}strip-labels"
PULL = f"{PREFIX}replicate-from"
"""On a target of the original's pull mode. It pushes nothing, and the original marks it like a copy."""
FROM, KEYS = f"{PREFIX}replicated-from", f"{PREFIX}replicated-keys"
AT, VERSION = f"{PREFIX}replicated-at", f"{PREFIX}replicated-from-version"
"""The time of the last write, and the version of the source that was written."""
ASKS, REQUESTS = frozenset({TO, MATCHING}), frozenset({TO, MATCHING, STRIP_LABELS})
_EVERY_NAME = ("*", ".*", ".+")
"""Items that match every name. RE2 reads `^*$` as an end of the text, which every name has."""
MARKS = frozenset({FROM, KEYS, AT, VERSION})
"""The original writes all of them but `replicated-from`, so its copies do not say whose they are."""
FIELDS = {SECRET: ("type", "data"), CONFIG_MAP: ("data", "binaryData")}


class ReplicatorSettings(setting_types.Struct, frozen=True):
    kinds: Annotated[tuple[CopiedKind, ...], about("Secrets, ConfigMaps or both", min_length=1)] = (
        SECRETS_AND_CONFIG_MAPS
    )
    exclude_namespaces: Annotated[tuple[setting_types.NamespaceGlob, ...], about("namespaces without copies")] = ()
    cross_namespace: setting_types.OwnCrossNamespace = None
    conflicts: setting_types.OwnConflicts = None
    takeover: setting_types.Takeover = False
    managers: setting_types.Managers = ("kubernetes-replicator", "replicator")


def check(settings: ReplicatorSettings) -> None:
    for kind in settings.kinds:
        if kind not in SECRETS_AND_CONFIG_MAPS:
            raise SettingError(f"vocabularies.{NAME}.kinds: found {kind}, expected v1/Secret or v1/ConfigMap")


def build(settings: ReplicatorSettings, context: BuildContext) -> tuple[SourceType, ...]:
    def source_of(obj: Object) -> Ref | None:
        namespace, _, name = obj.annotations.get(FROM, "").partition("/")
        possible = name == obj.ref.name and namespace != obj.ref.namespace and is_namespace_name(namespace)
        return Ref(obj.ref.kind, namespace, name) if possible and obj.ref.kind in context.kinds else None

    def template(obj: Object) -> Template:
        has_labels = not context.is_strict and STRIP_LABELS not in obj.annotations  # strict: also not `copiedMetadata`
        content = obj.content.pick(*FIELDS[obj.ref.kind])
        data = [json.loads(field.raw or b"{}") or () for field in content.without("type").fields]
        return Template(
            content,
            labels=context.copyable(LABELS, obj.labels) if has_labels else {},
            annotations={FROM: obj.ref.path, KEYS: ",".join(sorted({*chain(*data)}))},
            adopt=context.adopt,
            unmanaged=frozenset({"immutable"}),
            stamps={AT: Stamp(str), VERSION: Stamp(str(obj.resource_version))},
        )

    def selected_labels(obj: Object) -> Iterator[tuple[str, str]]:
        selectors = parse(None, obj.annotations.get(MATCHING)).targets.selectors
        yield from ((MATCHING, key) for selector in selectors for key in sorted(selector.keys))

    vocabulary = AnnotatedObjects(
        NAME,
        context.kinds,
        annotations=REQUESTS,
        marks=MARKS,
        is_source=lambda obj: not (ASKS.isdisjoint(obj.annotations) or PULL in obj.annotations or source_of(obj)),
        source_of=source_of,
        request=lambda obj: parse(obj.annotations.get(TO), obj.annotations.get(MATCHING)),
        template=template,
        request_in=request_in,
        counted=counted,
        excluded=settings.exclude_namespaces,
        pull_keys=frozenset({PULL}),
        managers=context.managers,
        policy=Policy(needs_consent=context.needs_consent),
        is_discreet=context.is_strict,
        ineffective=ineffective,
        lint=lint,
    )
    return (replace(vocabulary.source_type(), selected_labels=selected_labels),)


NAMES_FOR_REGEXP = 100
"""A regular expression counts like so many names against the limits, because it costs more than a name."""
_MAX_LENGTH = 1000
_MAX_MEMORY = 16 * 1024
"""Of the program of one regular expression. So it takes 0.4 ms at most for a name of 63 characters."""


class _Searched(NamedTuple):
    """The original searches in the name: `a|b` finds names that begin with `a` or end with `b`."""

    item: str

    def fullmatch(self, text: str, /) -> object:
        return _regexp(self.item).search(text)


@lru_cache(maxsize=4096)
def _regexp(item: str) -> Regexp:
    """Raises `RegexpError`."""
    if len(item) > _MAX_LENGTH:
        raise RegexpError(f"longer than {_MAX_LENGTH:,} characters")
    return compile_regexp(f"^{_without_anchors(item)}$", _MAX_MEMORY)


@lru_cache(maxsize=8)
def parse(to: str | None, matching: str | None) -> CopyRequest:
    """The union of both. An empty list selects no namespace, an empty selector every one."""
    targets, faults = _without_names(to, matching)
    return CopyRequest(replace(targets, names=NamespaceNames.of(_items(to))), faults)


def request_in(source: Object, namespace: str) -> CopyRequest:
    """The same for one namespace, without the other names: many sources may list ten thousand of them."""
    to, matching = source.annotations.get(TO), source.annotations.get(MATCHING)
    targets, faults = _without_names(to, matching)
    is_listed = to is not None and re.search(rf"(?:^|,)\s*{re.escape(namespace)}\s*(?:,|$)", to) is not None
    return CopyRequest(replace(targets, names=NamespaceNames.of([namespace] if is_listed else ())), faults)


@lru_cache(maxsize=128)
def _without_names(to: str | None, matching: str | None) -> tuple[NamespaceSelector, tuple[Fault, ...]]:
    patterns, faults, everywhere = list[_Searched](), list[Fault](), False
    for item in dict.fromkeys(_items(to)):
        if _means_every_name(item):
            everywhere = True
        elif not is_namespace_name(item):
            try:
                _regexp(item)
                patterns.append(_Searched(item))
            except RegexpError as fault:
                faults.append(mismatch(TO, "a regular expression", f"{quoted(item)} ({fault})"))
    selector, wrong = parse_selector(matching or "")
    faults += [fault.below(MATCHING) for fault in wrong]
    selectors = () if matching is None or wrong else (selector,)
    return NamespaceSelector(NO_NAMES, everywhere, tuple(patterns), selectors), tuple(faults)


def counted(source: Object) -> ListedNames:
    """Compiles nothing: what exceeds the limits must cost nothing."""
    to = source.annotations.get(TO)
    names = NamespaceNames.of(_items(to))
    everywhere = sum(map(_means_every_name, names.illegal))
    regexps = len(names.illegal) - everywhere
    is_open = bool(names.illegal) or MATCHING in source.annotations
    total = len(names.legal) + everywhere + NAMES_FOR_REGEXP * regexps
    note = f"a regular expression counts like {NAMES_FOR_REGEXP}" if regexps else ""
    return ListedNames(names.members, total, is_open, TO, note)


def _means_every_name(item: str) -> bool:
    return _without_anchors(item) in _EVERY_NAME


def _without_anchors(item: str) -> str:
    return item.removeprefix("^").removesuffix("$")


def _items(to: str | None) -> list[str]:
    return [item.strip() for item in (to or "").split(",") if item.strip()]


_PITFALLS = (
    (re.compile(r"[^(]*\|"), "alternatives in parentheses: without them ^ belongs to the first one and $ to the last"),
    (re.compile(r".*(?<![].)])\*"), "a regular expression, no glob: * repeats what is before it, .* is any text"),
    (re.compile(r"[^}]*\{[^}]*$"), "no comma within braces, because every comma begins a new item"),
)


def lint(obj: Object) -> Iterator[Mistake]:
    items = _items(obj.annotations.get(TO))
    yield from (Mistake(TO, text, quoted(item)) for regexp, text in _PITFALLS for item in items if regexp.match(item))


def ineffective(obj: Object) -> Iterator[Mistake]:
    asked = sorted(ASKS.intersection(obj.annotations))
    if not asked:
        expected = f"{TO} or {MATCHING} beside it: alone it does nothing"
        yield Mistake(STRIP_LABELS, expected, "no request for copies")
    elif PULL in obj.annotations:
        yield Mistake(asked[0], "one of the two: a target of the pull mode pushes nothing", f"beside {PULL}")


_NO_PULL = "no such key: Samara does not pull, and copies only what a source pushes"
VOCABULARY = Vocabulary(
    NAME,
    ReplicatorSettings,
    build,
    REQUESTS | MARKS,
    unserved_keys={
        PULL: _NO_PULL,
        f"{PREFIX}replication-allowed": _NO_PULL,
        f"{PREFIX}replication-allowed-namespaces": _NO_PULL,
        f"{PREFIX}keep-owner-references": "no such key: copies get no owner references",
    },
    check=check,
    original_workload=OriginalWorkload(frozenset({"kubernetes-replicator"})),
    is_off_until_named=True,
    is_written_by_tenants=True,
)
