"""May this source have a copy there? The one place where that is decided; `plan` asks it for every copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from samara.core import kinds
from samara.core.match import any_glob, is_namespace_name
from samara.core.model import NAMESPACE, Object, Ref, namespace_ref
from samara.core.travel import ACCEPT, IGNORE, PAUSED
from samara.core.view import View
from samara.core.want import KEEP, Copy, Dialect, Reach

Reason = Literal["conflict", "no-namespace", "refused", "not-accepted", "invalid", "held", "fought"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What the administrator has set for all vocabularies."""

    protected: tuple[str, ...] = ()
    recreate: bool = True
    reserved: tuple[str, ...] = ()
    """Names, as globs, that no Namespace made by us may have; the protected ones join them."""
    own: frozenset[Ref] = frozenset()
    """What belongs to the operator itself: no target of a vocabulary that tenants write."""


class Refusal(NamedTuple):
    """Why a copy may not be placed, and whether one that is there has to go."""

    reason: Reason
    message: str
    withdraw: bool = False
    spared: bool = False
    """True where the namespace is simply not meant: nothing is wanted there, and nothing is touched."""


def _spared(why: str) -> Refusal:
    return Refusal("refused", f"{why}: no target but by its name", spared=True)


def allow(copy: Copy, source: Ref, namespace: Object | None, dialect: Dialect, rules: Rules) -> Refusal | None:
    """None where the copy may be placed; a Namespace lies in none. An error or a doubt means no."""
    if namespace is None:
        return None if copy.content is KEEP else _reserved(copy.ref, rules)
    return (
        _protected(copy, dialect, rules)
        or _ignored(copy, namespace)
        or _kind_denied(copy, dialect)
        or _own(copy, dialect, rules)
        or _content_denied(copy)
        or _paused(namespace)
        or _consent(copy, source, namespace, dialect)
    )


def unwelcome(copy: Ref, source: Ref, namespace: Object | None, dialect: Dialect, rules: Rules) -> Refusal | None:
    """Why a copy that is there has to go, whatever its source wants: its namespace does not accept it any more."""
    refusal = allow(Copy(copy, KEEP, named=True), source, namespace, dialect, rules)
    return refusal if refusal is not None and refusal.withdraw else None


def is_reserved(name: str, rules: Rules) -> bool:
    return any_glob((*rules.protected, *rules.reserved), name)


def _reserved(ref: Ref, rules: Rules) -> Refusal | None:
    if ref.kind != NAMESPACE:
        return Refusal("refused", f"{ref.kind} is cluster-scoped, and only Namespaces are made there")
    if is_reserved(ref.name, rules):
        return Refusal("refused", f"the name {ref.name} is reserved")
    return None


def _kind_denied(copy: Copy, dialect: Dialect) -> Refusal | None:
    if kinds.is_denied(copy.ref.kind) and not dialect.any_kind:
        return Refusal("refused", f"objects of kind {copy.ref.kind} are never copied")
    return None


def _protected(copy: Copy, dialect: Dialect, rules: Rules) -> Refusal | None:
    if dialect.reach is Reach.ANYWHERE or not any_glob(rules.protected, copy.ref.namespace):
        return None
    if copy.named and dialect.reach is Reach.NAMED:
        return None
    why = f"namespace {copy.ref.namespace} is protected (setting protectedNamespaces)"
    return Refusal("refused", why) if copy.named else _spared(why)


def _own(copy: Copy, dialect: Dialect, rules: Rules) -> Refusal | None:
    if dialect.reach is not Reach.NEVER or copy.ref not in rules.own:
        return None
    why = "the object of this name there is the operator's own"
    return Refusal("refused", why) if copy.named else _spared(why)


def _content_denied(copy: Copy) -> Refusal | None:
    if copy.content is KEEP:
        return None
    denied = kinds.row(copy.ref.kind).denied(copy.content)
    return None if denied is None else Refusal("refused", denied)


def is_paused(obj: Object) -> bool:
    return _says(obj, PAUSED)


def standstill(source: Object, dialect: Dialect, view: View) -> str:
    """Why nothing is written for a source, where that is so.

    A custom resource rests with its Namespace: there its finalizer and its status would be writes, too.
    """
    if is_paused(source):
        return f"the source is paused ({PAUSED})"
    within = source.ref.kind in dialect.asking and source.ref.kind.namespaced
    home = view.get(namespace_ref(source.ref.namespace)) if within else None
    return (
        f"namespace {home.ref.name} of the source is paused ({PAUSED})" if home is not None and is_paused(home) else ""
    )


def _says(obj: Object, control: str) -> bool:
    """A control may be an annotation or a label: people have both at hand, and it must not fail to stop us."""
    return "true" in (obj.annotations.get(control), obj.labels.get(control))


def _paused(namespace: Object) -> Refusal | None:
    if is_paused(namespace):
        return Refusal("held", f"namespace {namespace.ref.name} is paused ({PAUSED})")
    return None


def _ignored(copy: Copy, namespace: Object) -> Refusal | None:
    if not _says(namespace, IGNORE) or copy.named:
        return None
    return _spared(f"namespace {namespace.ref.name} says {IGNORE}")


def _consent(copy: Copy, source: Ref, namespace: Object, dialect: Dialect) -> Refusal | None:
    if not dialect.consent or source.namespace == copy.ref.namespace:
        return None
    if accepts(namespace.annotations.get(ACCEPT, ""), source):
        return None
    expected = f"namespace {namespace.ref.name} does not accept {source.path}: {ACCEPT} must name {source.namespace}"
    return Refusal("not-accepted", expected, withdraw=True)


def accepts(consent: str, source: Ref) -> bool:
    """True where a list of `<namespace>`, `<namespace>:<kind>/<name>` or `*` names this source."""
    names = {source.namespace, f"{source.namespace}:{source.kind.name}/{source.name}", "*"}
    return not names.isdisjoint(_accepted(consent))


def names_nothing(consent: str) -> list[str]:
    """The items of such a list that can name no source: a namespace or a kind cannot be called so."""
    return [item for item in _accepted(consent) if item != "*" and not _names_a_source(item)]


def _accepted(consent: str) -> list[str]:
    return [item.strip() for item in consent.split(",") if item.strip()]


def _names_a_source(item: str) -> bool:
    namespace, colon, one = item.partition(":")
    kind, slash, name = one.partition("/")
    named = kind.isalnum() and kind[:1].isupper() and bool(slash and name) and "/" not in name
    return is_namespace_name(namespace) and (named or not colon)
