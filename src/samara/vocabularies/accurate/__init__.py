"""Accurate: users label namespaces to form trees; Samara passes labels, annotations and objects on from the parents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, ClassVar

from samara.core.admission import Operation, Request
from samara.core.desired import Adopt
from samara.core.model import DEPLOYMENT, FIELD_MANAGER, NAMESPACE, Kind, KindName, Ref
from samara.core.source_type import Admission, Copyable, SourceType
from samara.core.view import View
from samara.core.vocabulary import (
    BuildContext,
    CrossNamespace,
    KindRights,
    OriginalConfig,
    RequiredRights,
    Rights,
    Vocabulary,
)
from samara.setting_types import FilePath, Inline, Managers, OwnConflicts, Struct, Takeover, about
from samara.vocabularies.accurate.admit import AdmitRules, add_finalizer, admit_namespace, admit_sub_namespace
from samara.vocabularies.accurate.config import (
    HINTS,
    KEYS,
    UNREADABLE,
    VERBS,
    Config,
    cluster_scoped_fault,
    missing_rights_fault,
    read,
)
from samara.vocabularies.accurate.convert import convert as convert
from samara.vocabularies.accurate.labels import ACCURATE_MANAGER as ACCURATE_MANAGER
from samara.vocabularies.accurate.labels import FROM, GENERATED, PROPAGATE, PROPAGATE_GENERATED, ROLES, SUB_NAMESPACE
from samara.vocabularies.accurate.labels import NAME as NAME
from samara.vocabularies.accurate.propagate import Propagation
from samara.vocabularies.accurate.sub import SubNamespaces
from samara.vocabularies.accurate.tree import NamespaceTree

EVERY_OPERATION: tuple[Operation, ...] = ("CREATE", "UPDATE", "DELETE")
CONFIG_KEYS = Inline(KEYS, "config_file", UNREADABLE, hints=HINTS)


class AccurateSettings(Struct, frozen=True):
    config_file: Annotated[FilePath | None, about("the original's own file, unchanged")] = None
    config: Annotated[
        Mapping[str, object],
        CONFIG_KEYS,
        about("the original's own keys, in place of configFile"),
    ] = MappingProxyType({})
    allow_cascading_deletion: Annotated[bool, about("a sub-namespace with children may be deleted")] = False
    propagate_generated: Annotated[bool, about("objects that a controller created are propagated too")] = False
    conflicts: OwnConflicts = None
    takeover: Takeover = False
    managers: Managers = (ACCURATE_MANAGER,)
    kinds: ClassVar[tuple[KindName, ...]] = ()
    """Named by `config` instead: see `watched_kinds`."""
    cross_namespace: ClassVar[CrossNamespace | None] = None


def build(settings: AccurateSettings, context: BuildContext) -> tuple[SourceType, ...]:
    options = Options(
        is_reserved=context.is_reserved,
        adopt=context.adopt,
        cascading=settings.allow_cascading_deletion,
        managers=context.managers,
        generated=settings.propagate_generated,
        is_strict=context.is_strict,
    )
    return source_types(read(settings.config), context.kinds, context.copyable, options)


def watched_kinds(settings: AccurateSettings) -> tuple[KindName, ...]:
    """The kinds that are propagated along the trees."""
    return _kinds(settings.config)


def originals_kinds(keys: Mapping[str, object]) -> tuple[KindName, ...]:
    """The kinds in the original's configuration. Other keys may belong to a later version of it."""
    return _kinds({"watches": keys["watches"]} if keys.get("watches") else {})


def _kinds(keys: Mapping[str, object]) -> tuple[KindName, ...]:
    return tuple(KindName(*watch) for watch in read(keys).watches)


def check(settings: AccurateSettings) -> None:
    """Raises SettingError with the original's message."""
    read(settings.config)


def refused_kind(vocabulary: str, kinds: Iterable[Kind]) -> str | None:
    """The original's message about a kind that has no namespace."""
    return cluster_scoped_fault(kinds)


@dataclass(frozen=True, slots=True)
class Options:
    """The settings, besides the configuration in the original's own keys."""

    is_reserved: Callable[[str], bool]
    adopt: Adopt = Adopt.IDENTICAL
    cascading: bool = False
    managers: frozenset[str] = frozenset({ACCURATE_MANAGER})
    generated: bool = False
    """True: `propagate-generated` on a controller makes the objects that it created sources."""
    is_strict: bool = False
    """True under `tenancy: strict`: messages name only namespaces that their readers named themselves."""


def source_types(
    config: Config, kinds: tuple[Kind, ...], copyable: Copyable, options: Options
) -> tuple[SourceType, ...]:
    """One source type for SubNamespaces, one for namespaces that inherit, and one for objects that are propagated."""
    naming = config.naming
    rules = AdmitRules(naming.refusal, naming.reserves, options.is_reserved, options.cascading, options.is_strict)
    # Labels and annotations of namespaces are always applied under the original's field manager.
    managers = options.managers | {ACCURATE_MANAGER, FIELD_MANAGER}

    def validate_namespace(request: Request, view: View) -> tuple[str, ...]:
        return admit_namespace(request, view, rules)

    def validate_sub_namespace(request: Request, view: View) -> tuple[str, ...]:
        return admit_sub_namespace(request, view, rules)

    sub_namespaces = replace(
        SubNamespaces(options.cascading, options.is_reserved, config, options.is_strict).source_type(managers),
        admission=Admission((SUB_NAMESPACE,), validate_sub_namespace, add_finalizer, EVERY_OPERATION),
    )
    tree = replace(
        NamespaceTree(config, managers).source_type(),
        admission=Admission(
            (NAMESPACE,), validate_namespace, None, EVERY_OPERATION, frozenset(ROLES), fail_closed=True
        ),
    )
    propagation = Propagation(
        config,
        kinds,
        copyable,
        options.adopt,
        options.managers | {FIELD_MANAGER},
        options.generated,
        options.is_strict,
    )
    return sub_namespaces, tree, propagation.source_type


ORIGINAL_CONFIG = OriginalConfig(
    Ref(DEPLOYMENT, "accurate", "accurate-controller-manager"), "config", "config.yaml", originals_kinds
)
VOCABULARY = Vocabulary(
    NAME,
    AccurateSettings,
    build,
    frozenset({*ROLES, PROPAGATE, PROPAGATE_GENERATED, GENERATED, FROM}),
    custom_resources=(SUB_NAMESPACE,),
    convert=convert,
    original_lease="accurate",
    original_config=ORIGINAL_CONFIG,
    kinds=watched_kinds,
    rights=Rights(
        refused_kind,
        RequiredRights(VERBS, missing_rights_fault),
        of_kinds={
            NAMESPACE: KindRights(  # without `update`: the operator applies metadata to Namespaces and replaces none
                ("create", "patch", "delete"),
                "SubNamespaces create and delete namespaces, and namespaces of a tree inherit labels",
            )
        },
        of_users=(SUB_NAMESPACE,),
    ),
    check=check,
)
