"""All objects of an installation, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from samara.cli import crds, rbac
from samara.cli.deploy import guards, monitoring, network, people, workload
from samara.cli.deploy.base import Installation, Json
from samara.kube.errors import ConfigError
from samara.settings import Accurate


def objects(of: Installation) -> list[Json]:
    _check(of)
    return [workload.namespace(of), *_definitions(of), *_rights(of), *_running(of), *_asked(of), *_watched(of)]


def _check(of: Installation) -> None:
    accurate = of.settings.vocabularies.get("accurate")
    if isinstance(accurate, Accurate) and accurate.config_file is not None:
        raise ConfigError(
            "vocabularies.accurate.configFile: expected the keys of that file in its place, found "
            f"{accurate.config_file}: there is no such file in the operator's pods"
        )
    if of.cert_manager and of.webhook_url is not None:
        raise ConfigError("--cert-manager is for the Service's certificate, found --webhook-url as well; leave one out")
    if of.cert_manager and of.observe:
        raise ConfigError("--cert-manager needs a webhook server, found --observe, which has none; leave one out")


def _definitions(of: Installation) -> Iterator[Json]:
    for text in crds.definitions(of.settings):
        yield yaml.safe_load(text)


def _rights(of: Installation) -> Iterator[Json]:
    """The operator's, as `samara rbac` prints them, and people's. Only its pods get a token of the account."""
    for each in rbac.objects(of.settings, of.namespace):
        yield {**each, "automountServiceAccountToken": False} if each["kind"] == "ServiceAccount" else each
    yield from people.roles(of.settings)


def _running(of: Installation) -> list[Json]:
    return [
        workload.config_map(of),
        workload.priority_class(),
        *network.flow_control(of),
        network.network_policy(of),
        workload.disruption_budget(of),
        workload.deployment(of),
    ]


def _asked(of: Installation) -> list[Json]:
    """Admission, where a vocabulary has something to say."""
    configured = guards.configurations(of, rbac.chosen(of.settings))
    if not configured:
        return []
    service = [network.webhook_service(of)] if of.webhook_url is None else []
    return [*service, *(guards.certificate(of) if of.cert_manager else ()), *configured]


def _watched(of: Installation) -> list[Json]:
    if not of.monitoring:
        return []
    return [network.metrics_service(of), monitoring.service_monitor(of), monitoring.prometheus_rule(of)]
