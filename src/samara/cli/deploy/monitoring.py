"""What Prometheus is told: where the figures are, and which of them need a person."""

from __future__ import annotations

from typing import NamedTuple

from samara.cli.deploy.base import LABELS, NAME, Installation, Json

GROUP = "monitoring.coreos.com/v1"


class Alert(NamedTuple):
    """One rule: when, for how long, and what to do."""

    name: str
    expression: str
    lasting: str
    severity: str
    summary: str
    description: str


ALERTS = (
    Alert(
        "SamaraNoLeader",
        "(max(samara_leader) or vector(0)) < 1",
        "2m",
        "critical",
        "No Samara operator leads.",
        "Nothing is copied, corrected or removed. Look at the pods, and at the Lease `samara` in their namespace.",
    ),
    Alert(
        "SamaraWorkWaits",
        "max(samara_oldest_pending_seconds) > 600",
        "5m",
        "warning",
        "Samara has work that is older than ten minutes.",
        "The API server may be slow or may refuse: see `samara_writes_total` by result, and the log.",
    ),
    Alert(
        "SamaraCopiesBlocked",
        'sum by (dialect) (max by (dialect, state) (samara_copies{state="blocked"})) > 0',
        "30m",
        "warning",
        "{{ $value }} copies of {{ $labels.dialect }} cannot be placed.",
        "`samara status` says which and why: a conflict, a quota, a namespace that does not accept them.",
    ),
    Alert(
        "SamaraRemovalsHeld",
        "max(samara_mass_delete_held) > 0",
        "1m",
        "warning",
        "{{ $value }} removals are held by the brake.",
        "Somebody removed a source or emptied a selection. `samara status` lists what is held and until when; restore the source, or let it go on with `samara release`.",  # noqa: E501 - one sentence of an alert
    ),
    Alert(
        "SamaraKindWaits",
        "max by (kind) (samara_kind_waiting) > 0",
        "15m",
        "warning",
        "Samara waits for the kind {{ $labels.kind }}.",
        "Its definition is not installed, or the operator may not list it: compare its rights with `samara rbac`.",
    ),
    Alert(
        "SamaraOrphans",
        "sum by (dialect) (max by (dialect) (samara_orphans)) > 0",
        "24h",
        "info",
        "{{ $value }} copies of {{ $labels.dialect }} are wanted by no source.",
        "`samara orphans` lists them, and removes them with `--delete`.",
    ),
)


def service_monitor(of: Installation) -> Json:
    chosen = {"matchLabels": {**LABELS, "app.kubernetes.io/component": "metrics"}}
    endpoint = {"port": "http", "path": "/metrics", "interval": "30s"}
    return of.object(GROUP, "ServiceMonitor", spec={"selector": chosen, "endpoints": [endpoint]})


def prometheus_rule(of: Installation) -> Json:
    return of.object(GROUP, "PrometheusRule", spec={"groups": groups()})


def groups() -> list[Json]:
    return [{"name": NAME, "rules": [_rule(alert) for alert in ALERTS]}]


def _rule(alert: Alert) -> Json:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.lasting,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.description},
    }
