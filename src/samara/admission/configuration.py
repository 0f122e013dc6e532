"""Where the API server finds us, and what it asks us about: the webhook configuration, as a pure function of the table.

Every field that the server would fill in is given, so that what is stored can be compared with what is wanted.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from samara.core.model import Kind
from samara.core.table import Table
from samara.core.want import Dialect
from samara.kube.errors import ConfigError

NAME = "samara"
LABEL = ("app.kubernetes.io/name", NAME)
"""In a cluster the chart names the configuration as it likes; this label tells it."""
ADMIT, CONVERT = "/admit", "/convert"
SERVICE = "samara-webhook"
PORT = 443
TIMEOUT = 5
"""Seconds for which the API server waits."""
CONFIGURATION = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address under which the API server calls us: a URL, or a Service in the operator's namespace."""

    namespace: str
    url: str | None = None
    service: str = SERVICE

    def __post_init__(self) -> None:
        if self.url is not None and not _is_usable(self.url):
            raise ConfigError(f"--webhook-url {self.url!r}: expected a URL like https://127.0.0.1:9443")

    @property
    def host(self) -> str:
        """What the certificate must be for."""
        found = urlsplit(self.url).hostname if self.url is not None else None
        return found or f"{self.service}.{self.namespace}.svc"

    @property
    def port(self) -> int:
        return (urlsplit(self.url).port if self.url is not None else None) or PORT

    def client_config(self, path: str, bundle: bytes) -> Json:
        """As in a webhook; without `caBundle` where the bundle is empty."""
        trusted = {"caBundle": base64.b64encode(bundle).decode()} if bundle else {}
        if self.url is not None:
            return {"url": self.url.rstrip("/") + path, **trusted}
        service = {"name": self.service, "namespace": self.namespace, "path": path, "port": PORT}
        return {"service": service, **trusted}

    def is_in(self, config: Mapping[str, Any]) -> bool:
        """True where a client configuration, whoever wrote it, leads to us."""
        service = config.get("service") or {}
        if self.url is not None and str(config.get("url") or "").startswith(self.url.rstrip("/")):
            return True
        return (service.get("namespace"), service.get("name")) == (self.namespace, self.service)


def _is_usable(url: str) -> bool:
    """As the API server sees it: https, with a host, and nothing that it would not send."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    return parts.scheme == "https" and bool(parts.hostname) and port != 0 and plain


def configuration(table: Table, client_config: Mapping[str, Any], excepted: tuple[str, ...] = ()) -> Json:
    """One webhook per guarded kind, and all dialects that guard it answer together."""
    guarded: dict[tuple[str, str], list[tuple[Kind, Dialect]]] = {}
    for dialect in table.dialects:
        for kind in dialect.guarded if dialect.admit is not None else ():
            guarded.setdefault((kind.group, kind.plural), []).append((kind, dialect))
    webhooks = [_webhook(pairs, client_config, excepted) for pairs in guarded.values()]
    meta = {"name": NAME, "labels": dict((LABEL,))}
    head = {"apiVersion": CONFIGURATION.api_version, "kind": CONFIGURATION.name, "metadata": meta}
    return {**head, "webhooks": sorted(webhooks, key=lambda each: str(each["name"]))}


def conversion(client_config: Mapping[str, Any]) -> Json:
    """A CRD's `spec.conversion` that leads to us."""
    webhook = {"clientConfig": dict(client_config), "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": webhook}


def _webhook(pairs: list[tuple[Kind, Dialect]], client_config: Mapping[str, Any], excepted: tuple[str, ...]) -> Json:
    kind = pairs[0][0]
    rule = {
        "apiGroups": [kind.group],
        "apiVersions": sorted({each.version for each, _ in pairs}),
        "operations": ["CREATE", "UPDATE"],
        "resources": [kind.plural],
        "scope": "Namespaced" if kind.namespaced else "Cluster",
    }
    return {
        "name": ".".join(filter(None, (kind.plural, kind.group, "samara.dev"))),
        "admissionReviewVersions": ["v1"],
        "clientConfig": dict(client_config),
        "failurePolicy": "Fail" if _is_ours(pairs) else "Ignore",
        "matchConditions": [_condition(pairs)],
        "matchPolicy": "Equivalent",
        "namespaceSelector": _all_but(excepted),
        "objectSelector": {},
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT,
    }


def _is_ours(pairs: list[tuple[Kind, Dialect]]) -> bool:
    """Custom resources of ours are refused where nobody can judge them; other people's objects never are."""
    return any(kind in dialect.asking for kind, dialect in pairs)


def _condition(pairs: list[tuple[Kind, Dialect]]) -> Json:
    """A write without a word of ours never depends on us, and neither does the end of an object's life."""
    if _is_ours(pairs):
        return {"name": "not-deleting", "expression": "object == null || !has(object.metadata.deletionTimestamp)"}
    words = sorted({word for _, dialect in pairs for word in dialect.asks})
    return {"name": "carries-our-words", "expression": _carries(words)}


def _carries(words: Iterable[str]) -> str:
    keys = "[" + ", ".join(f"'{word}'" for word in words) + "]"
    each = " || ".join(
        f"(has(o.metadata.{where}) && {keys}.exists(k, k in o.metadata.{where}))" for where in ("annotations", "labels")
    )
    return f"[object, oldObject].exists(o, o != null && ({each}))"


def _all_but(namespaces: tuple[str, ...]) -> Json:
    if not namespaces:
        return {}
    apart = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(namespaces)}
    return {"matchExpressions": [apart]}
