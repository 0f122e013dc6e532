"""What is special about a kind: its immutable fields, and the contents that are never copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from samara.core.model import SECRET, Content, Kind


class Row(NamedTuple):
    """One kind's peculiarities; a kind without a row has none."""

    fixed: Callable[[Content], tuple[str, ...]] = lambda content: ()
    """The fields that the server will not let us change on an object with this content."""
    denied: Callable[[Content], str | None] = lambda content: None
    """Why an object with this content is never copied, if it is not."""


NEVER_COPIED_TYPES = frozenset(
    {
        b'"kubernetes.io/service-account-token"',
        b'"bootstrap.kubernetes.io/token"',
        b'"helm.sh/release.v1"',
    }
)


def _secret_fixed(content: Content) -> tuple[str, ...]:
    immutable = content.get("immutable")
    if immutable is not None and immutable.raw == b"true":
        return ("type", "data", "immutable")
    return ("type",)


def _secret_denied(content: Content) -> str | None:
    kind = content.get("type")
    if kind is not None and kind.raw in NEVER_COPIED_TYPES:
        return f"Secrets of type {kind.raw.decode().strip(chr(34))} are never copied"
    return None


_DENIED_GROUPS = frozenset(
    {
        "rbac.authorization.k8s.io",
        "admissionregistration.k8s.io",
        "policy",
        "coordination.k8s.io",
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
    }
)
_DENIED_CORE = frozenset({"ServiceAccount", "Event", "Namespace"})


def is_denied(kind: Kind) -> bool:
    """True for kinds that give power or carry bookkeeping, and for cluster-scoped ones: copies of them do harm."""
    if not kind.namespaced or kind.group in _DENIED_GROUPS:
        return True
    return kind.group == "" and kind.name in _DENIED_CORE


ROWS: dict[Kind, Row] = {SECRET: Row(_secret_fixed, _secret_denied)}
_PLAIN = Row()


def row(kind: Kind) -> Row:
    return ROWS.get(kind, _PLAIN)


def must_recreate(kind: Kind, have: Content, want: Content) -> bool:
    """True where the difference lies in a field that only a new object can change."""
    return any(have.get(name) != want.get(name) for name in row(kind).fixed(have))
