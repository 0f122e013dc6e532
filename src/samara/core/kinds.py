"""The rules of each kind: immutable fields, the form that is stored, values of one object only, refused content."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from samara.core.model import CONFIG_MAP, SECRET, Content, Kind, KindName, ObjectName

Fields = Mapping[str, object]


class KindRules(NamedTuple):
    """The rules for one kind. A kind that is not in `KIND_RULES` has none."""

    immutable: Callable[[Content], tuple[str, ...]] = lambda content: ()
    """The fields of an object with this content that the API server lets no client change."""
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
    """By field: computes what an update sends from the value that is copied and the live value, so that the object
    keeps its own values. A field needs this only if the API server does not keep them by itself, as it keeps the
    addresses of a Service.
    """


NEVER_COPIED_TYPES = frozenset(
    {
        "kubernetes.io/service-account-token",
        "bootstrap.kubernetes.io/token",
        "helm.sh/release.v1",
    }
)
"""Types of Secrets that hold credentials of the cluster or the releases of Helm."""


def _immutable_secret_fields(content: Content) -> tuple[str, ...]:
    immutable = content.get("immutable")
    if immutable is not None and immutable.raw == b"true":
        return ("type", "data", "immutable")
    return ("type",)


def _secret_refusal(content: Content) -> str | None:
    field = content.get("type")
    type_ = "" if field is None or field.raw is None else field.raw.decode().strip('"')
    return f"Secrets of type {type_} are never copied" if type_ in NEVER_COPIED_TYPES else None


REFUSED_GROUPS = frozenset(
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
REFUSED_CORE_KINDS = frozenset({"ServiceAccount", "Event", "Namespace"})


def is_refused(kind: Kind) -> bool:
    """True for kinds whose copies would do harm: cluster-scoped ones, and those that grant rights or hold state."""
    if not kind.namespaced or kind.group in REFUSED_GROUPS:
        return True
    return kind.group == "" and kind.name in REFUSED_CORE_KINDS


_CONFIG_MAP = KindName(CONFIG_MAP.group, CONFIG_MAP.version, CONFIG_MAP.name)
ROOT_CA = ObjectName(_CONFIG_MAP, "kube-root-ca.crt")
KEPT_BY_CLUSTER = (
    ROOT_CA,
    ObjectName(_CONFIG_MAP, "istio-ca-root-cert"),
    ObjectName(_CONFIG_MAP, "openshift-service-ca.crt"),
)
"""Kubernetes, Istio and OpenShift create these ConfigMaps in every namespace. A source with equal content would adopt
them all, and change them when its own content changes."""


def is_kept_by_cluster(kind: Kind, name: str, kept: Iterable[ObjectName] = KEPT_BY_CLUSTER) -> bool:
    """True for an object that the cluster itself keeps in every namespace. It is never a source and never a copy."""
    return any((kind.group, kind.name, name) == (own.kind.group, own.kind.kind, own.name) for own in kept)


def _immutable_config_map_fields(content: Content) -> tuple[str, ...]:
    immutable = content.get("immutable")
    return ("data", "binaryData", "immutable") if immutable is not None and immutable.raw == b"true" else ()


def _canonical_secret(fields: Fields) -> Fields | None:
    """Merges `stringData` over `data`, fills in the default type, and writes base64 in its canonical form."""
    try:
        data = _base64(fields.get("data")) | {
            key: base64.b64encode(value.encode()).decode() for key, value in _texts(fields.get("stringData")).items()
        }
        type_ = _text(fields.get("type")) or "Opaque"
        return {**_unless_empty("data", data), "type": type_, **_immutable(fields)}
    except ValueError:
        return None


def _canonical_config_map(fields: Fields) -> Fields | None:
    try:
        data, binary = _texts(fields.get("data")), _base64(fields.get("binaryData"))
        return {**_unless_empty("data", data), **_unless_empty("binaryData", binary), **_immutable(fields)}
    except ValueError:
        return None


def _texts(field: object) -> dict[str, str]:
    if not isinstance(field, Mapping | None):
        raise ValueError("expected a mapping")
    return {str(key): _text(value) for key, value in (field or {}).items()}


def _text(value: object) -> str:
    if not isinstance(value, str | None):
        raise ValueError("expected a string")
    return value or ""


def _base64(field: object) -> dict[str, str]:
    return {key: canonical_base64(value) for key, value in _texts(field).items()}


def canonical_base64(text: str) -> str:
    """Base64 as the API server stores it: without line breaks. Raises ValueError for any other foreign character."""
    try:
        return base64.b64encode(base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)).decode()
    except ValueError as fault:  # binascii.Error if it is not base64, ValueError if it is not ASCII
        raise ValueError("expected base64") from fault


def _unless_empty(name: str, field: Mapping[str, str]) -> Fields:
    return {name: field} if field else {}


def _immutable(fields: Fields) -> Fields:
    value = fields.get("immutable")
    if not isinstance(value, bool | None):
        raise ValueError("expected true or false")
    return {} if value is None else {"immutable": value}


def _strip_addresses(spec: dict[str, Any]) -> dict[str, Any]:
    """Removes the addresses that the API server assigned. `clusterIP: None` is a choice of the author and stays."""
    assigned = {"healthCheckNodePort"} if spec.get("clusterIP") == "None" else _SERVICE_ADDRESSES
    chosen = {key: value for key, value in spec.items() if key not in assigned}
    ports = [{key: value for key, value in port.items() if key != "nodePort"} for port in spec.get("ports") or ()]
    return {**chosen, "ports": ports} if ports else chosen


def _strip_volume(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != "volumeName"}


def _restore_volume(copied: dict[str, Any] | None, live: dict[str, Any] | None) -> dict[str, Any]:
    """Keeps the volume of a bound claim, because the API server refuses an update without it."""
    return {**(copied or {}), **{key: value for key, value in (live or {}).items() if key == "volumeName"}}


def _is_generated(reference: object) -> bool:
    """True for a pull secret that OpenShift created for one ServiceAccount."""
    name = reference.get("name") if isinstance(reference, Mapping) else None
    return isinstance(name, str) and _GENERATED_PULL_SECRET.search(name) is not None


def _strip_pull_secrets(references: list[Any] | None) -> list[Any] | None:
    return [reference for reference in references or () if not _is_generated(reference)] or None


def _restore_pull_secrets(copied: list[Any] | None, live: list[Any] | None) -> list[Any] | None:
    return [*(copied or ()), *filter(_is_generated, live or ())] or None


ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
SERVICE = Kind("", "v1", "Service", "services")
CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
_GENERATED_PULL_SECRET = re.compile(r"-dockercfg-[a-z0-9]{5}$")
_SERVICE_ADDRESSES = frozenset({"clusterIP", "clusterIPs", "healthCheckNodePort"})

KIND_RULES: dict[Kind, KindRules] = {
    SECRET: KindRules(_immutable_secret_fields, _secret_refusal, _canonical_secret),
    CONFIG_MAP: KindRules(_immutable_config_map_fields, canonical=_canonical_config_map),
    SERVICE: KindRules(strip_own_fields={"spec": _strip_addresses}),
    CLAIM: KindRules(strip_own_fields={"spec": _strip_volume}, restore_own_fields={"spec": _restore_volume}),
    ROLE_BINDING: KindRules(immutable=lambda content: ("roleRef",)),
    SERVICE_ACCOUNT: KindRules(
        strip_own_fields={"secrets": lambda secrets: None, "imagePullSecrets": _strip_pull_secrets},
        restore_own_fields={"secrets": lambda copied, live: live, "imagePullSecrets": _restore_pull_secrets},
    ),
}
_NO_RULES = KindRules()


def rules_for(kind: Kind) -> KindRules:
    return KIND_RULES.get(kind, _NO_RULES)


def must_recreate(kind: Kind, live: Content, desired: Content) -> bool:
    """True if an immutable field differs, so that the object must be deleted and created."""
    return any(live.get(name) != desired.get(name) for name in rules_for(kind).immutable(live))
