"""Rules for single kinds: immutable fields, defaults of the API server, fields of one object only, refused content."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from samara.core.model import CONFIG_MAP, SECRET, Content, Kind

Fields = Mapping[str, object]


class KindRules(NamedTuple):
    """The rules for one kind. A kind that is not in `KIND_RULES` has none."""

    immutable: Callable[[Content], tuple[str, ...]] = lambda content: ()
    """The fields that the API server does not let anybody change on an object with this content."""
    refusal: Callable[[Content], str | None] = lambda content: None
    """Why an object with this content is never copied. None if it may be copied."""
    canonical: Callable[[Fields], Fields | None] | None = None
    """The fields as the API server stores them, or None if it would refuse them.

    For a kind without this rule, a dry run asks the API server.
    """
    strip_own_fields: Mapping[str, Callable[[Any], Any]] = MappingProxyType({})
    """By field: removes values that belong to one object, such as a Service's addresses. None removes the field.

    What is removed is neither compared nor copied.
    """
    restore_own_fields: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType({})
    """By field: from the value that is copied and the live value, what an update must send so that the object keeps
    its own values. Other fields need no such rule, because the API server keeps their values, as a Service's addresses.
    """


NEVER_COPIED_TYPES = frozenset(
    {
        "kubernetes.io/service-account-token",
        "bootstrap.kubernetes.io/token",
        "helm.sh/release.v1",
    }
)
"""Types of Secrets that hold credentials of the cluster or the releases of Helm."""


def _secret_fixed(content: Content) -> tuple[str, ...]:
    immutable = content.get("immutable")
    if immutable is not None and immutable.raw == b"true":
        return ("type", "data", "immutable")
    return ("type",)


def _secret_denied(content: Content) -> str | None:
    found = content.get("type")
    kind = "" if found is None or found.raw is None else found.raw.decode().strip('"')
    return f"Secrets of type {kind} are never copied" if kind in NEVER_COPIED_TYPES else None


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


def is_refused(kind: Kind) -> bool:
    """True for kinds whose copies would do harm: cluster-scoped ones, and those that grant rights or hold state."""
    if not kind.namespaced or kind.group in _DENIED_GROUPS:
        return True
    return kind.group == "" and kind.name in _DENIED_CORE


ROOT_CA = (CONFIG_MAP, "kube-root-ca.crt")
"""Kubernetes keeps this ConfigMap in every namespace. A source equal to it would adopt it, and then change it."""


def is_kept_by_cluster(kind: Kind, name: str) -> bool:
    """True for an object that the cluster itself keeps in every namespace. It is never a source and never a copy."""
    return (kind, name) == ROOT_CA


def _config_map_fixed(content: Content) -> tuple[str, ...]:
    immutable = content.get("immutable")
    return ("data", "binaryData", "immutable") if immutable is not None and immutable.raw == b"true" else ()


def _secret_normal(fields: Fields) -> Fields | None:
    """Merges `stringData` over `data`, fills in the default type, and writes base64 in its canonical form."""
    try:
        data = _base64(fields.get("data")) | {
            key: base64.b64encode(value.encode()).decode() for key, value in _texts(fields.get("stringData")).items()
        }
        kind = _text(fields.get("type")) or "Opaque"
        return {**_filled("data", data), "type": kind, **_flag(fields)}
    except ValueError:
        return None


def _config_map_normal(fields: Fields) -> Fields | None:
    try:
        data, binary = _texts(fields.get("data")), _base64(fields.get("binaryData"))
        return {**_filled("data", data), **_filled("binaryData", binary), **_flag(fields)}
    except ValueError:
        return None


def _texts(found: object) -> dict[str, str]:
    if not isinstance(found, Mapping | None):
        raise ValueError("expected a mapping")
    return {str(key): _text(value) for key, value in (found or {}).items()}


def _text(found: object) -> str:
    if not isinstance(found, str | None):
        raise ValueError("expected a string")
    return found or ""


def _base64(found: object) -> dict[str, str]:
    return {key: canonical_base64(value) for key, value in _texts(found).items()}


def canonical_base64(text: str) -> str:
    """Base64 as the API server stores it: it drops line breaks and refuses any other foreign character."""
    try:
        return base64.b64encode(base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)).decode()
    except ValueError as fault:  # binascii.Error if it is no base64, ValueError if it is not ASCII
        raise ValueError("expected base64") from fault


def _filled(name: str, found: Mapping[str, str]) -> Fields:
    return {name: found} if found else {}


def _flag(fields: Fields) -> Fields:
    flag = fields.get("immutable")
    if not isinstance(flag, bool | None):
        raise ValueError("expected true or false")
    return {} if flag is None else {"immutable": flag}


def _service_own(spec: dict[str, Any]) -> dict[str, Any]:
    """Removes the addresses that the API server assigned. `clusterIP: None` is a choice of the author and stays."""
    given = {"healthCheckNodePort"} if spec.get("clusterIP") == "None" else _SERVICE_ADDRESSES
    left = {key: value for key, value in spec.items() if key not in given}
    ports = [{key: value for key, value in port.items() if key != "nodePort"} for port in spec.get("ports") or ()]
    return {**left, "ports": ports} if ports else left


def _claim_own(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != "volumeName"}


def _claim_kept(sent: dict[str, Any] | None, there: dict[str, Any] | None) -> dict[str, Any]:
    """Keeps the volume of a bound claim, because the API server refuses an update without it."""
    return {**(sent or {}), **{key: value for key, value in (there or {}).items() if key == "volumeName"}}


def _is_given(reference: object) -> bool:
    """True for a pull secret that OpenShift created for one ServiceAccount."""
    name = reference.get("name") if isinstance(reference, Mapping) else None
    return isinstance(name, str) and _GIVEN.search(name) is not None


def _pull_secrets_own(references: list[Any] | None) -> list[Any] | None:
    return [each for each in references or () if not _is_given(each)] or None


def _pull_secrets_kept(sent: list[Any] | None, there: list[Any] | None) -> list[Any] | None:
    return [*(sent or ()), *filter(_is_given, there or ())] or None


def _role_binding_fixed(content: Content) -> tuple[str, ...]:
    return ("roleRef",)


ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
SERVICE = Kind("", "v1", "Service", "services")
CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
_GIVEN = re.compile(r"-dockercfg-[a-z0-9]{5}$")
_SERVICE_ADDRESSES = frozenset({"clusterIP", "clusterIPs", "healthCheckNodePort"})

KIND_RULES: dict[Kind, KindRules] = {
    SECRET: KindRules(_secret_fixed, _secret_denied, _secret_normal),
    CONFIG_MAP: KindRules(_config_map_fixed, canonical=_config_map_normal),
    SERVICE: KindRules(strip_own_fields={"spec": _service_own}),
    CLAIM: KindRules(strip_own_fields={"spec": _claim_own}, restore_own_fields={"spec": _claim_kept}),
    ROLE_BINDING: KindRules(_role_binding_fixed),
    SERVICE_ACCOUNT: KindRules(
        strip_own_fields={"secrets": lambda secrets: None, "imagePullSecrets": _pull_secrets_own},
        restore_own_fields={"secrets": lambda sent, there: there, "imagePullSecrets": _pull_secrets_kept},
    ),
}
_PLAIN = KindRules()


def rules_for(kind: Kind) -> KindRules:
    return KIND_RULES.get(kind, _PLAIN)


def must_recreate(kind: Kind, have: Content, want: Content) -> bool:
    """True if an immutable field differs, so that the object must be deleted and created."""
    return any(have.get(name) != want.get(name) for name in rules_for(kind).immutable(have))
