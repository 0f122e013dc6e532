"""All objects of an installation, in the order in which they are applied.

The chart is the source of the objects that do not depend on the vocabularies. `base.yaml` is a rendering of it with
placeholders for the values that an administrator chooses here; `make chart` writes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from samara import __version__, crds
from samara.admission.webhooks import PATHS, SERVICE, Endpoint, needed_configurations, webhook_configuration
from samara.assembly import secret_store, secret_store_vocabularies, served_source_types
from samara.cli.deploy import rights
from samara.cli.deploy.marks import guarded_kinds
from samara.cli.deploy.rights import NAME
from samara.core.metadata_keys import APP
from samara.core.registry import Registry
from samara.core.source_type import SourceType
from samara.kube.errors import ConfigError
from samara.setting_types import FILE, settings_of
from samara.settings import Settings

IMAGE = f"samara:{__version__}"
BASE = "base.yaml"
MARKS_POLICY = "ValidatingAdmissionPolicy"
Json = dict[str, Any]

LOGIN_TOKEN = "login-token"  # noqa: S105 - the name of a volume
"""The volume with the pods' token for logins at the secret manager."""
DEFAULT_SETTINGS = "tenancy: strict\n"
"""Those of the chart, for an installation without settings of its own."""

# The placeholders in base.yaml for the administrator's choices. That for the settings is their default.
ANY_NAMESPACE = "any-namespace"
ANY_IMAGE = "any-image:any-tag"


@dataclass(frozen=True, slots=True)
class Installation:
    """The choices of an administrator."""

    settings: Settings
    text: str
    """The text of the settings, which the operator reads."""
    namespace: str
    image: str = IMAGE
    observe: bool = False
    webhook_url: str | None = None
    cert_manager: bool = False
    monitoring: bool = False
    marks_policy: bool = True

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.namespace, self.webhook_url)


def objects(installation: Installation) -> list[Json]:
    """Everything to apply, in order. Raises for choices that cannot work in a cluster."""
    _check_choices(installation)
    webhooks = _webhook_configurations(installation, rights.guessed_source_types(installation.settings))
    return [
        _namespace(installation),
        *map(yaml.safe_load, definitions(installation.settings)),
        *_rights_objects(installation),
        *_chart_objects(installation, admission=bool(webhooks)),
        *webhooks,
    ]


def definitions(settings: Settings) -> list[str]:
    """The CRDs that the settings need, as YAML with its comments."""
    return [
        crds.text(name)
        for name in crds.needed(kind for source_type in served_source_types(settings) for kind in source_type.kinds)
    ]


def _check_choices(installation: Installation) -> None:
    for name, own in installation.settings.vocabularies.items():
        for setting in settings_of(type(own)):
            path = getattr(own, setting.attribute)
            if getattr(setting.shape, "inner", setting.shape) is FILE and path is not None:
                raise ConfigError(
                    f"vocabularies.{name}.{setting.key}: expected the keys of that file in its place, found {path}: "
                    "there is no such file in the operator's pods"
                )
    if installation.cert_manager and installation.webhook_url is not None:
        raise ConfigError("--cert-manager is for the Service's certificate, found --webhook-url as well; leave one out")
    if installation.cert_manager and installation.observe:
        raise ConfigError("--cert-manager needs a webhook server, found --observe, which has none; leave one out")


def _namespace(installation: Installation) -> Json:
    """The chart has none, because helm creates it. Its label admits only pods as restricted as the operator's."""
    labels = {APP: NAME, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": installation.namespace, "labels": labels}}


def _rights_objects(installation: Installation) -> Iterator[Json]:
    """The same as `samara rbac` prints, but only pods that ask for a token of the ServiceAccount get one."""
    for obj in rights.objects(installation.settings, installation.namespace):
        yield {**obj, "automountServiceAccountToken": False} if obj["kind"] == "ServiceAccount" else obj
    yield from rights.aggregated_roles(installation.settings)


def _webhook_configurations(installation: Installation, source_types: tuple[SourceType, ...]) -> list[Json]:
    """Without `caBundle`, which the operator writes. An operator that only observes has no webhook server."""
    if installation.observe:
        return []
    registry, excepted = Registry(source_types), (installation.namespace,)
    return [
        webhook_configuration(registry, installation.endpoint.client_config(PATHS[kind], b""), excepted, kind)
        for kind in needed_configurations(source_types)
    ]


# from the chart


def _chart_objects(installation: Installation, *, admission: bool) -> list[Json]:
    guarded = guarded_kinds(installation.settings)
    guards_marks = installation.marks_policy and not installation.observe and bool(guarded)
    included = {
        ("Service", SERVICE): admission and installation.webhook_url is None,
        ("Issuer", SERVICE): admission and installation.cert_manager,
        ("Certificate", SERVICE): admission and installation.cert_manager,
        ("Service", "samara-metrics"): installation.monitoring,
        ("ServiceMonitor", NAME): installation.monitoring,
        ("PrometheusRule", NAME): installation.monitoring,
        (MARKS_POLICY, "samara-marks"): guards_marks,
        (f"{MARKS_POLICY}Binding", "samara-marks"): guards_marks,
    }
    base = yaml.safe_load_all((files(__package__) / BASE).read_text(encoding="utf-8"))
    rendered = [_fill_in(obj, installation) for obj in base]
    for obj in rendered:
        if obj["kind"] == "Deployment":
            pod = obj["spec"]["template"]["spec"]
            pod["containers"][0]["args"] += _chosen_arguments(installation)
            _choose_login_token(pod, installation.settings)
        if obj["kind"] == MARKS_POLICY:
            obj["spec"]["matchConstraints"]["resourceRules"] = guarded
    return [obj for obj in rendered if included.get((obj["kind"], obj["metadata"]["name"]), True)]


def _fill_in(value: Any, installation: Installation) -> Any:
    """Puts the administrator's choices in place of the placeholders."""
    match value:
        case dict():
            return {key: _fill_in(inner, installation) for key, inner in value.items()}
        case list():
            return [_fill_in(inner, installation) for inner in value]
        case str():
            if value == DEFAULT_SETTINGS:
                return installation.text
            if value == _checksum(DEFAULT_SETTINGS):
                return _checksum(installation.text)
            if value == ANY_IMAGE:
                return installation.image
            return value.replace(ANY_NAMESPACE, installation.namespace)
        case _:
            return value


def _choose_login_token(pod: Json, settings: Settings) -> None:
    """Sets the audience of the token for logins at the secret manager. Without a manager the pods get no such token."""
    container = pod["containers"][0]
    store = secret_store(settings, "") if secret_store_vocabularies(settings) else None
    if store is None:
        pod["volumes"] = [volume for volume in pod["volumes"] if volume["name"] != LOGIN_TOKEN]
        container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] != LOGIN_TOKEN]
        return
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == LOGIN_TOKEN]
    volume["projected"]["sources"][0]["serviceAccountToken"]["audience"] = store.token_audience


def _checksum(text: str) -> str:
    """The annotation of the pods that changes with the settings, so that a new text replaces the pods."""
    return hashlib.sha256(text.encode()).hexdigest()


def _chosen_arguments(installation: Installation) -> list[str]:
    if installation.observe:
        return ["--observe"]
    return [f"--webhook-url={installation.webhook_url}"] if installation.webhook_url else []
