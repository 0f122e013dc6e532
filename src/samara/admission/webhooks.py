"""Builds webhook configurations and the conversion of CRDs.

The configurations follow from the vocabularies alone. Every field that the API server would default is set, so that a
stored configuration can be compared with a wanted one.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args
from urllib.parse import urlsplit

from samara.core.admission import Operation
from samara.core.metadata_keys import APP
from samara.core.model import Kind
from samara.core.registry import Registry
from samara.core.source_type import Admission, SourceType
from samara.kube.errors import ConfigError

NAME = "samara"
LABEL = (APP, NAME)
"""On every configuration that calls the operator: the chart's, and others that administrators write."""
ADMIT, MUTATE, CONVERT = "/admit", "/mutate", "/convert"
SERVICE = "samara-webhook"
PORT = 443
TIMEOUT = 5
"""Seconds for which the API server waits for an answer."""
_GROUP, _VERSION = "admissionregistration.k8s.io", "v1"
VALIDATING = Kind(
    _GROUP, _VERSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False
)
MUTATING = Kind(_GROUP, _VERSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False)
PATHS = {VALIDATING: ADMIT, MUTATING: MUTATE}
"""The path that the webhooks of a configuration call."""
NO_CONVERSION: Mapping[str, Any] = {"strategy": "None"}
"""A CRD's `spec.conversion` without a webhook."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address under which the API server calls the operator: a URL, or a Service in the operator's namespace."""

    namespace: str
    url: str | None = None

    def __post_init__(self) -> None:
        if self.url is not None:
            check_webhook_url(self.url)

    @property
    def host(self) -> str:
        """The name that the certificate must have."""
        host = urlsplit(self.url).hostname if self.url is not None else None
        return host or f"{SERVICE}.{self.namespace}.svc"

    @property
    def port(self) -> int:
        return (urlsplit(self.url).port if self.url is not None else None) or PORT

    def client_config(self, path: str, bundle: bytes) -> Json:
        """The `clientConfig` of a webhook, without `caBundle` if the bundle is empty."""
        trusted = {"caBundle": base64.b64encode(bundle).decode()} if bundle else {}
        if self.url is not None:
            return {"url": self.url.rstrip("/") + path, **trusted}
        service = {"name": SERVICE, "namespace": self.namespace, "path": path, "port": PORT}
        return {"service": service, **trusted}

    def is_called_by(self, client_config: Mapping[str, Any]) -> bool:
        """True if a `clientConfig` leads to this operator. Its author does not matter."""
        service = client_config.get("service") or {}
        if self.url is not None and str(client_config.get("url") or "").startswith(self.url.rstrip("/")):
            return True
        return (service.get("namespace"), service.get("name")) == (self.namespace, SERVICE)


def check_webhook_url(url: str) -> None:
    """Raises unless the API server would accept the URL: https, with a host, without query, fragment or user."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        usable = False
    else:
        plain = not (parts.query or parts.fragment or "@" in parts.netloc)
        usable = parts.scheme == "https" and bool(parts.hostname) and port != 0 and plain
    if not usable:
        raise ConfigError(f"--webhook-url: expected a URL like https://127.0.0.1:9443, found {url!r}")


# webhook configurations


class Guard(NamedTuple):
    """A source type that validates or defaults the objects of a kind."""

    kind: Kind
    admission: Admission
    source_type: SourceType


def needed_configurations(source_types: Iterable[SourceType]) -> tuple[Kind, ...]:
    """The kinds of configuration for which these vocabularies have webhooks."""
    source_types = tuple(source_types)
    return tuple(kind for kind in PATHS if any(_guards(kind, source_type) for source_type in source_types))


def webhook_configuration(
    registry: Registry,
    client_config: Mapping[str, Any],
    excluded_namespaces: tuple[str, ...] = (),
    kind: Kind = VALIDATING,
) -> Json:
    """One webhook for each guarded kind. All vocabularies that guard it answer together."""
    guards_of: dict[tuple[str, str], list[Guard]] = {}
    for source_type in registry.source_types:
        for guard in _guards(kind, source_type):
            guards_of.setdefault((guard.kind.group, guard.kind.plural), []).append(guard)
    webhooks = [_webhook(kind, guards, client_config, excluded_namespaces) for guards in guards_of.values()]
    metadata = {"name": NAME, "labels": dict((LABEL,))}
    head = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    return {**head, "webhooks": sorted(webhooks, key=lambda webhook: str(webhook["name"]))}


def _guards(configuration: Kind, source_type: SourceType) -> list[Guard]:
    """The guards of a source type in this configuration, one for each kind."""
    admission = source_type.admission
    if admission is None or (configuration == MUTATING and admission.default is None):
        return []
    return [Guard(kind, admission, source_type) for kind in admission.kinds]


def _webhook(
    configuration: Kind,
    guards: list[Guard],
    client_config: Mapping[str, Any],
    excluded_namespaces: tuple[str, ...],
) -> Json:
    kind = guards[0].kind
    rule = {
        "apiGroups": [kind.group],
        "apiVersions": sorted({guard.kind.version for guard in guards}),
        "operations": ["CREATE"] if configuration == MUTATING else _operations(guards),
        "resources": [kind.plural],
        "scope": "Namespaced" if kind.namespaced else "Cluster",
    }
    return {
        "name": ".".join(filter(None, (kind.plural, kind.group, "samara.dev"))),
        "admissionReviewVersions": ["v1"],
        "clientConfig": dict(client_config),
        "failurePolicy": "Fail" if _fails_closed(guards) else "Ignore",
        "matchConditions": list(_match_conditions(guards)),
        "matchPolicy": "Equivalent",
        "namespaceSelector": _excluding(excluded_namespaces),
        "objectSelector": {},
        **({"reinvocationPolicy": "Never"} if configuration == MUTATING else {}),
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT,
    }


def _operations(guards: list[Guard]) -> list[str]:
    validated = {operation for guard in guards for operation in guard.admission.operations}
    return [operation for operation in get_args(Operation) if operation in validated]


def _is_custom_resource(guards: list[Guard]) -> bool:
    """True for a custom resource of ours: the operator is asked about every write of it."""
    return any(guard.kind == guard.source_type.resource for guard in guards)


def _fails_closed(guards: list[Guard]) -> bool:
    """True if a write is refused while no operator answers."""
    return _is_custom_resource(guards) or any(guard.admission.fail_closed for guard in guards)


def _match_conditions(guards: list[Guard]) -> Iterator[Json]:
    """Excludes objects without our keys, and objects under deletion, so that neither depends on the operator."""
    if _fails_closed(guards):
        is_alive = "[object, oldObject].all(o, o == null || !has(o.metadata.deletionTimestamp))"
        yield {"name": "not-deleting", "expression": is_alive}
    if not _is_custom_resource(guards):
        # One part for each vocabulary, because the chart joins the parts of the vocabularies that its settings name.
        vocabularies = dict.fromkeys(guard.source_type.vocabulary for guard in guards)
        parts = (
            _carries_keys([guard for guard in guards if guard.source_type.vocabulary == name]) for name in vocabularies
        )
        yield {"name": "carries-our-words", "expression": " || ".join(parts)}


def _carries_keys(guards: list[Guard]) -> str:
    """A CEL expression: true for an object with a key that makes it a source of these guards."""
    sources = [guard.source_type.source for guard in guards if not guard.admission.labels]
    keys = {key for source in sources for key in source.metadata_keys}
    labels = {key for guard in guards for key in guard.admission.labels}
    return _has_any(annotations=keys, labels=keys | labels)


def _has_any(**keys_of: set[str]) -> str:
    """A CEL expression: true if the old or the new object has one of these keys, by field of its metadata."""
    has_key = " || ".join(
        f"(has(o.metadata.{field}) && {_list_literal(keys)}.exists(k, k in o.metadata.{field}))"
        for field, keys in keys_of.items()
        if keys
    )
    return f"[object, oldObject].exists(o, o != null && ({has_key or 'false'}))"


def _list_literal(keys: set[str]) -> str:
    return "[" + ", ".join(f"'{key}'" for key in sorted(keys)) + "]"


def _excluding(namespaces: tuple[str, ...]) -> Json:
    if not namespaces:
        return {}
    others = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(namespaces)}
    return {"matchExpressions": [others]}


# how CRDs convert


def webhook_conversion(client_config: Mapping[str, Any]) -> Json:
    """A CRD's `spec.conversion` with a webhook."""
    webhook = {"clientConfig": dict(client_config), "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": webhook}


def conversion_patch(crd: Json, wanted: Mapping[str, Any]) -> Json:
    """A merge patch that makes a CRD convert as wanted. The API server refuses it if the CRD has changed since."""
    live = crd["spec"].get("conversion") or {}
    metadata = {"resourceVersion": crd["metadata"]["resourceVersion"]}
    return {"metadata": metadata, "spec": {"conversion": _replacement(live, wanted)}}


def _replacement(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> Json:
    """A merge patch that replaces a value. It sets unwanted fields to null, such as a Service beside a new URL: a merge
    patch keeps the fields that it does not name."""
    removed = dict.fromkeys(key for key in live if key not in wanted)
    return {**removed, **{key: _replaced(live.get(key), value) for key, value in wanted.items()}}


def _replaced(live: Any, wanted: Any) -> Any:
    return _replacement(live, wanted) if isinstance(live, dict) and isinstance(wanted, dict) else wanted
