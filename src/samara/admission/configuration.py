"""Where the API server finds us, and what it asks us about: the webhook configurations, made from the table alone.

Every field that the server would fill in is given, so that what is stored can be compared with what is wanted.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args
from urllib.parse import urlsplit

from samara.core.admit import Operation
from samara.core.model import Kind
from samara.core.table import Table
from samara.core.travel import APP
from samara.core.want import Dialect
from samara.kube.errors import ConfigError

NAME = "samara"
LABEL = (APP, NAME)
"""Tells the configurations in a cluster: the chart's have our name too, but people may write further ones."""
ADMIT, MUTATE, CONVERT = "/admit", "/mutate", "/convert"
SERVICE = "samara-webhook"
PORT = 443
TIMEOUT = 5
"""Seconds for which the API server waits."""
_GROUP, _VERSION = "admissionregistration.k8s.io", "v1"
VALIDATING = Kind(
    _GROUP, _VERSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False
)
MUTATING = Kind(_GROUP, _VERSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False)
PATHS = {VALIDATING: ADMIT, MUTATING: MUTATE}
"""Where the webhooks of a configuration lead."""
Guarding = tuple[Kind, Dialect]
Json = dict[str, Any]
NO_CONVERSION: Json = {"strategy": "None"}
"""A CRD's `spec.conversion` that leads to nobody."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address under which the API server calls us: a URL, or a Service in the operator's namespace."""

    namespace: str
    url: str | None = None
    service: str = SERVICE

    def __post_init__(self) -> None:
        if self.url is not None:
            must_be_usable(self.url)

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


def must_be_usable(url: str) -> None:
    if not _is_usable(url):
        raise ConfigError(f"--webhook-url: expected a URL like https://127.0.0.1:9443, found {url!r}")


def _is_usable(url: str) -> bool:
    """As the API server sees it: https, with a host, and nothing that it would not send."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    return parts.scheme == "https" and bool(parts.hostname) and port != 0 and plain


def needed(dialects: Iterable[Dialect]) -> tuple[Kind, ...]:
    """The kinds of configuration that these dialects have something to put in."""
    found = tuple(dialects)
    return tuple(kind for kind in PATHS if any(_is_asked(kind, each) for each in found))


def configuration(
    table: Table, client_config: Mapping[str, Any], excepted: tuple[str, ...] = (), kind: Kind = VALIDATING
) -> Json:
    """One webhook per guarded kind, and all dialects that guard it answer together."""
    guarded: dict[tuple[str, str], list[Guarding]] = {}
    for dialect in table.dialects:
        for each in dialect.guarded if _is_asked(kind, dialect) else ():
            guarded.setdefault((each.group, each.plural), []).append((each, dialect))
    webhooks = [_webhook(kind, pairs, client_config, excepted) for pairs in guarded.values()]
    meta = {"name": NAME, "labels": dict((LABEL,))}
    head = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta}
    return {**head, "webhooks": sorted(webhooks, key=lambda each: str(each["name"]))}


def _is_asked(kind: Kind, dialect: Dialect) -> bool:
    return (dialect.mutate if kind == MUTATING else dialect.admit) is not None


def conversion(client_config: Mapping[str, Any]) -> Json:
    """A CRD's `spec.conversion` that leads to us."""
    webhook = {"clientConfig": dict(client_config), "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": webhook}


def conversion_patch(crd: Json, wanted: Mapping[str, Any]) -> Json:
    """A merge patch after which a CRD converts as wanted, and which the server refuses if the CRD has changed since."""
    have = crd["spec"].get("conversion") or {}
    meta = {"resourceVersion": crd["metadata"]["resourceVersion"]}
    return {"metadata": meta, "spec": {"conversion": _replacing(have, wanted)}}


def _replacing(have: Mapping[str, Any], wanted: Mapping[str, Any]) -> Json:
    """What must go is named as null: a merge patch keeps what it does not name, as the Service beside a new URL."""
    gone = dict.fromkeys(key for key in have if key not in wanted)
    return {**gone, **{key: _replaced(have.get(key), value) for key, value in wanted.items()}}


def _replaced(have: Any, wanted: Any) -> Any:
    return _replacing(have, wanted) if isinstance(have, dict) and isinstance(wanted, dict) else wanted


def _webhook(
    configured: Kind, pairs: list[Guarding], client_config: Mapping[str, Any], excepted: tuple[str, ...]
) -> Json:
    kind = pairs[0][0]
    rule = {
        "apiGroups": [kind.group],
        "apiVersions": sorted({each.version for each, _ in pairs}),
        "operations": ["CREATE"] if configured == MUTATING else _operations(pairs),
        "resources": [kind.plural],
        "scope": "Namespaced" if kind.namespaced else "Cluster",
    }
    return {
        "name": ".".join(filter(None, (kind.plural, kind.group, "samara.dev"))),
        "admissionReviewVersions": ["v1"],
        "clientConfig": dict(client_config),
        "failurePolicy": "Fail" if _is_closed(pairs) else "Ignore",
        "matchConditions": list(_conditions(pairs)),
        "matchPolicy": "Equivalent",
        "namespaceSelector": _all_but(excepted),
        "objectSelector": {},
        **({"reinvocationPolicy": "Never"} if configured == MUTATING else {}),
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT,
    }


def _operations(pairs: list[Guarding]) -> list[str]:
    judged = {operation for _, dialect in pairs for operation in dialect.judged}
    return [each for each in get_args(Operation) if each in judged]


def _is_ours(pairs: list[Guarding]) -> bool:
    """True for custom resources of ours: every change of one is a word of ours."""
    return any(kind in dialect.asking for kind, dialect in pairs)


def _is_closed(pairs: list[Guarding]) -> bool:
    """Custom resources of ours are refused where nobody can judge them; other people's objects where a dialect says."""
    return _is_ours(pairs) or any(dialect.fails_closed for _, dialect in pairs)


def _conditions(pairs: list[Guarding]) -> Iterator[Json]:
    """A write without a word of ours never depends on us, and neither does the end of an object's life."""
    if _is_closed(pairs):
        alive = "[object, oldObject].all(o, o == null || !has(o.metadata.deletionTimestamp))"
        yield {"name": "not-deleting", "expression": alive}
    if not _is_ours(pairs):
        asks = {word for _, dialect in pairs if not dialect.scope for word in dialect.asks}
        labels = {word for _, dialect in pairs for word in dialect.scope}
        yield {"name": "carries-our-words", "expression": _carries(annotations=asks, labels=asks | labels)}


def _carries(**words: set[str]) -> str:
    each = " || ".join(
        f"(has(o.metadata.{where}) && {_listed(keys)}.exists(k, k in o.metadata.{where}))"
        for where, keys in words.items()
        if keys
    )
    return f"[object, oldObject].exists(o, o != null && ({each or 'false'}))"


def _listed(keys: set[str]) -> str:
    return "[" + ", ".join(f"'{key}'" for key in sorted(keys)) + "]"


def _all_but(namespaces: tuple[str, ...]) -> Json:
    if not namespaces:
        return {}
    apart = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(namespaces)}
    return {"matchExpressions": [apart]}
