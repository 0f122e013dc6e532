"""Reflector: users annotate an object as for Reflector; Samara mirrors it to the namespaces that match, and fills those
mirrors that people make themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

from samara import setting_types
from samara.core.annotated import AnnotatedObjects, CopyRequest
from samara.core.desired import Desired, Mistake, Stamp, Template
from samara.core.model import CONFIG_MAP, SECRET, Object, Ref
from samara.core.names import matches_any_glob
from samara.core.source_type import Policy, SourceType
from samara.core.view import View
from samara.core.vocabulary import BuildContext, OriginalWorkload, SettingError, Vocabulary
from samara.setting_types import SECRETS_AND_CONFIG_MAPS, CopiedKind, about
from samara.vocabularies.reflector.annotations import (
    ALLOWED,
    ALLOWED_NAMES,
    ALLOWED_SELECTOR,
    AT,
    AUTO,
    AUTO_NAMES,
    AUTO_REFLECTS,
    AUTO_SELECTOR,
    MARKS,
    REFLECTS,
    SOURCE_KEYS,
    VERSION,
    allowed_by,
    auto_by,
    is_auto_mirror,
    is_true,
    pitfalls,
    reflected,
    value_of,
)
from samara.vocabularies.reflector.pull import PullMirrors

NAME = "reflector"
PULL = f"{NAME}:pull"
FIELDS = {SECRET: ("type", "data"), CONFIG_MAP: ("data", "binaryData")}
"""What an automatic mirror holds."""
_SOON = 0.05
"""Seconds until the patterns of a source are tried again that had no turn."""
_NEVER_REFLECTED = b'"helm.sh'


class ReflectorSettings(setting_types.Struct, frozen=True):
    kinds: Annotated[tuple[CopiedKind, ...], about("Secrets, ConfigMaps or both", min_length=1)] = (
        SECRETS_AND_CONFIG_MAPS
    )
    excluded_namespaces: Annotated[
        tuple[setting_types.NamespaceGlob, ...],
        about("what is in these namespaces is no source and is not filled; they still get automatic mirrors"),
    ] = ()
    cross_namespace: setting_types.OwnCrossNamespace = None
    conflicts: setting_types.OwnConflicts = None
    takeover: setting_types.Takeover = False
    managers: setting_types.Managers = ("kubernetes-csharp", "unknown")


def check(settings: ReflectorSettings) -> None:
    for kind in settings.kinds:
        if kind not in SECRETS_AND_CONFIG_MAPS:
            raise SettingError(f"vocabularies.{NAME}.kinds: found {kind}, expected v1/Secret or v1/ConfigMap")


def build(settings: ReflectorSettings, context: BuildContext) -> tuple[SourceType, ...]:
    def is_excluded(ref: Ref) -> bool:
        return matches_any_glob(settings.excluded_namespaces, ref.namespace)

    def is_source(obj: Object) -> bool:
        """A source of automatic mirrors."""
        asks = is_true(obj, ALLOWED) and is_true(obj, AUTO) and not value_of(obj, REFLECTS)
        return asks and not is_excluded(obj.ref) and not is_never_reflected(obj)

    def template(obj: Object) -> Template:
        return Template(
            obj.content.pick(*FIELDS[obj.ref.kind]),
            adopt=context.adopt,
            unmanaged=frozenset({"immutable"}),
            stamps={
                REFLECTS: Stamp(obj.ref.path, names=str.strip),
                AUTO_REFLECTS: Stamp("True", names=_as_boolean),
                VERSION: Stamp(str(obj.resource_version)),
                AT: Stamp(str),
            },
        )

    automatic = AnnotatedObjects(
        NAME,
        context.kinds,
        annotations=SOURCE_KEYS,
        marks=MARKS,
        proofs=frozenset({REFLECTS}),  # the others are also on mirrors that people made
        is_source=is_source,
        source_of=source_of,
        request=lambda obj: CopyRequest((targets := auto_by(obj)), targets.faults),
        template=template,
        managers=context.managers,
        policy=Policy(needs_consent=context.needs_consent),
        is_discreet=context.is_strict,
        ineffective=ineffective,
        lint=pitfalls,
    ).source_type()

    def desired(source: Ref, view: View) -> Desired:
        """If a pattern turns out to be slow, other patterns of this source may have had no turn. They get it soon."""
        found, obj = automatic.desired(source, view), view.get(source)
        if obj is None or not is_source(obj) or not (targets := auto_by(obj)).faults:
            return found
        again = _SOON if targets.is_unfinished else found.requeue_after
        return replace(found, prune=False, faults=targets.faults, requeue_after=again)

    pull = PullMirrors(PULL, context.kinds, is_excluded, is_never_reflected)
    # The original refuses nothing, so no webhook does.
    return replace(automatic, desired=desired, selected_labels=selected_labels, admission=None), pull.source_type()


def _as_boolean(value: str) -> bool:
    return value.strip().lower() == "true"


def source_of(mirror: Object) -> Ref | None:
    """The source that an automatic mirror names."""
    source = reflected(mirror) if is_auto_mirror(mirror) else None
    is_possible = source is not None and source.name == mirror.ref.name and source.namespace != mirror.ref.namespace
    return source if is_possible and mirror.ref.kind in (SECRET, CONFIG_MAP) else None


def is_never_reflected(obj: Object) -> bool:
    """True for the releases of Helm, of any version."""
    type_ = obj.content.get("type")
    return obj.ref.kind == SECRET and type_ is not None and (type_.raw or b"").startswith(_NEVER_REFLECTED)


def ineffective(obj: Object) -> Iterator[Mistake]:
    """Why keys on an object that has no automatic mirrors do nothing. Others may still be filled from it."""
    if is_auto_mirror(obj):
        return
    if value_of(obj, REFLECTS) and is_true(obj, AUTO):
        yield Mistake(AUTO, f"no {REFLECTS} beside it: a mirror makes no mirrors", f"beside {REFLECTS}")
    for key, needed in ((AUTO, ALLOWED), (AUTO_NAMES, AUTO), (AUTO_SELECTOR, AUTO), (ALLOWED_NAMES, ALLOWED)):
        asks = is_true(obj, key) if key == AUTO else bool(value_of(obj, key))
        if asks and needed not in obj.annotations:
            yield Mistake(key, f'{needed}: "true" beside it: alone it does nothing', f"no {needed}")
            return
    if is_true(obj, ALLOWED):
        yield from (mistake for fault in allowed_by(obj).faults for mistake in fault.mistakes)


def selected_labels(obj: Object) -> Iterator[tuple[str, str]]:
    for key, rules in zip((ALLOWED_SELECTOR, AUTO_SELECTOR), auto_by(obj).rules, strict=True):
        yield from ((key, label) for selector in rules.selectors for label in sorted(selector.keys))


VOCABULARY = Vocabulary(
    NAME,
    ReflectorSettings,
    build,
    SOURCE_KEYS | MARKS,
    check=check,
    original_workload=OriginalWorkload(frozenset({"kubernetes-reflector"})),
    is_off_until_named=True,
    is_written_by_tenants=True,
)
