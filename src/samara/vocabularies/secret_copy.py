"""Secret copy: users annotate a Secret in the home namespace; Samara copies it to the namespaces that they list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

from samara.core.annotated import AnnotatedObjects, CopyRequest
from samara.core.desired import Adopt, Desired, Fault, Mistake, Template
from samara.core.model import SECRET, KindName, Object, Ref
from samara.core.names import NamespaceNames, parse_csv_names, quoted, sample, to_label_value
from samara.core.selectors import EVERY_NAMESPACE, NamespaceSelector, illegal_names
from samara.core.source_type import Policy, Protected, SourceType
from samara.core.view import View
from samara.core.vocabulary import BuildContext, CrossNamespace, Vocabulary
from samara.setting_types import Managers, NamespaceName, OwnConflicts, Struct, Takeover, about

NAME = "secret-copy"
TARGETS = "secret-copy/namespaces"
ORIGIN = "secret-copy/origin"
FROM = "secret-copy/from"
REQUESTS, MARKS = frozenset({TARGETS}), frozenset({ORIGIN, FROM})


class SecretCopySettings(Struct, frozen=True):
    home: Annotated[NamespaceName, about("the namespace whose Secrets are copied")] = "admin"
    on_source_gone: Annotated[Literal["keep", "delete"], about("what happens to copies whose source is gone")] = "keep"
    conflicts: OwnConflicts = None
    takeover: Takeover = False
    managers: Managers = ()
    kinds: ClassVar[tuple[KindName, ...]] = ()
    cross_namespace: ClassVar[CrossNamespace | None] = None


def build(settings: SecretCopySettings, context: BuildContext) -> tuple[SourceType, ...]:
    own = settings.home, settings.on_source_gone, context.adopt, context.managers
    return (source_type(*own, is_discreet=context.is_strict),)


def source_type(
    home: str = "admin",
    on_source_gone: str = "keep",
    adopt: Adopt = Adopt.IDENTICAL,
    managers: frozenset[str] = frozenset(),
    is_discreet: bool = False,
) -> SourceType:
    setting = f"the home namespace (setting vocabularies.{NAME}.home)"
    home_shown = setting if is_discreet else f"namespace {home}, the home namespace"

    def is_source(obj: Object) -> bool:
        return obj.ref.namespace == home and TARGETS in obj.annotations

    def source_of(obj: Object) -> Ref | None:
        if obj.ref.kind != SECRET or obj.ref.namespace == home:
            return None
        source = Ref(SECRET, home, obj.ref.name)
        return source if obj.annotations.get(ORIGIN) == source.path else None

    def template(secret: Object) -> Template:
        return Template(
            secret.content.pick("type", "data"),
            labels={FROM: to_label_value(f"{home}-{secret.ref.name}")},
            annotations={ORIGIN: secret.ref.path},
            adopt=adopt,
            unmanaged=frozenset({"immutable"}),
        )

    def ineffective(secret: Object) -> Iterator[Mistake]:
        namespace = secret.ref.namespace
        if namespace != home:
            found = f"in namespace {quoted(namespace)[1:-1]}" if namespace else "no namespace"
            yield Mistake(TARGETS, f"{home_shown}: elsewhere this key does nothing", found)

    pushed = AnnotatedObjects(
        NAME,
        (SECRET,),
        annotations=REQUESTS,
        marks=MARKS,
        is_source=is_source,
        source_of=source_of,
        request=lambda secret: parse(secret.annotations[TARGETS]),
        template=template,
        managers=managers,
        policy=Policy(Protected.ALLOW),  # only administrators write to the home namespace
        ineffective=ineffective,
        lint=lambda secret: _mistakes(secret.annotations[TARGETS]),
    ).source_type()

    def desired(source: Ref, view: View) -> Desired:
        """A mistake in the list keeps no copies. The end of the source does, if the setting says so."""
        secret = view.get(source)
        is_there = secret is not None and not secret.deleting and is_source(secret)
        return replace(pushed.desired(source, view), prune=is_there or on_source_gone == "delete")

    # Only administrators write sources, so no webhook checks them.
    return replace(pushed, desired=desired, admission=None)


@lru_cache(maxsize=1024)
def parse(value: str) -> CopyRequest:
    """An empty or blank annotation selects every namespace. A list without a legal name selects none."""
    if not value.strip():
        return CopyRequest(EVERY_NAMESPACE)
    names = parse_csv_names(value)
    return CopyRequest(NamespaceSelector(names), tuple(_faults(names, value)))


def _faults(names: NamespaceNames, value: str) -> list[Fault]:
    if names.illegal:
        found = sample(map(quoted, names.illegal))
        return [Fault("Invalid", f"{TARGETS} names what cannot be a namespace: {found}", TARGETS)]
    if not names.legal:
        message = f"{TARGETS} is {quoted(value)}, which names no namespace; an empty value means every one"
        return [Fault("Invalid", message, TARGETS, (_no_names(value),))]
    return []


def _mistakes(value: str) -> Iterator[Mistake]:
    names = parse_csv_names(value)
    yield from illegal_names(TARGETS, names, '""')
    if value.strip() and not names.legal and not names.illegal:
        yield _no_names(value)


def _no_names(value: str) -> Mistake:
    return Mistake(TARGETS, 'at least one namespace, or "" for every one', f"{quoted(value)}, which names nothing")


VOCABULARY = Vocabulary(
    NAME, SecretCopySettings, build, REQUESTS | MARKS, reserved_namespaces=lambda settings: (settings.home,)
)
