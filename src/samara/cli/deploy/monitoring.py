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
        "absent(samara_leader) or sum by (job) (samara_leader) < 1",
        "2m",
        "critical",
        "No Samara operator leads; copies are neither made nor put right.",
        "Look at the pods, and at the Lease `samara` in their namespace. `/healthz` names the part that is not well.",
    ),
    Alert(
        "SamaraTwoLeaders",
        "sum by (job) (samara_leader) > 1",
        "2m",
        "warning",
        "Several Samara operators lead at the same time.",
        "Either there are two installations, or the figures of a process that has ended are still read. Stop one.",
    ),
    Alert(
        "SamaraWatchSilent",
        "max by (kind, instance) (samara_watch_last_event_seconds) > 150",
        "2m",
        "warning",
        "Samara has not heard of {{ $labels.kind }} from the API server for {{ $value | humanizeDuration }}.",
        "Look at the API server, and at what lies between: something may drop quiet connections.",
    ),
    Alert(
        "SamaraKindWaits",
        "max by (kind) (samara_kind_waiting) > 0",
        "15m",
        "warning",
        "Samara waits, and does not serve {{ $labels.kind }}.",
        "Its definition is missing, the operator may not list it, or the original of a vocabulary runs: see /readyz.",
    ),
    Alert(
        "SamaraNotSynced",
        "max by (job) (samara_synced) < 1",
        "30m",
        "warning",
        "Samara is not ready, or has not come to the end of its first work since it started.",
        "`/syncz` says which. If `samara_queue_depth` falls it only takes long; if not, the API server is slow.",
    ),
    Alert(
        "SamaraWorkWaits",
        "max by (job) (samara_oldest_pending_seconds) > 300",
        "5m",
        "warning",
        "Work has been waiting in Samara for {{ $value | humanizeDuration }}.",
        "The API server may be slow or may refuse: see `samara_writes_total` by result, and the log.",
    ),
    Alert(
        "SamaraCopiesBlocked",
        'max by (vocabulary) (samara_copies{state="blocked"}) > 0',
        "30m",
        "warning",
        "{{ $value }} copies of {{ $labels.vocabulary }} cannot be made or put right.",
        "`samara status` says which and why: a conflict, a quota, a namespace that is missing or does not accept them.",
    ),
    Alert(
        "SamaraWritesFailing",
        'sum by (vocabulary) (rate(samara_writes_total{result="failed"}[10m]))'
        " > 0.1 * sum by (vocabulary) (rate(samara_writes_total[10m]))",
        "15m",
        "warning",
        "More than a tenth of the writes for {{ $labels.vocabulary }} fail at the API server.",
        "They are tried again. If it concerns one namespace only, a webhook that guards that namespace may be down.",
    ),
    Alert(
        "SamaraRemovalsHeld",
        "max by (job) (samara_mass_delete_held) > 0",
        "1m",
        "warning",
        "{{ $value }} removals are held by the brake; those of namespaces do not go on by themselves.",
        "`samara status` lists them and until when. Undo the change, or let it go on with `samara release`.",
    ),
    Alert(
        "SamaraOrphans",
        "max by (vocabulary) (samara_orphans) > 0",
        "1d",
        "info",
        "{{ $value }} copies of {{ $labels.vocabulary }} are wanted by no source, and stay.",
        "`samara orphans` lists them, and removes them with `--delete`.",
    ),
    Alert(
        "SamaraSecretManagerFailing",
        'sum by (store) (rate(samara_provider_calls_total{result=~"unavailable|timeout|unauthenticated"}[10m]))'
        " > 0.5 * sum by (store) (rate(samara_provider_calls_total[10m]))",
        "10m",
        "warning",
        "The secret manager {{ $labels.store }} does not answer, or does not know Samara any more.",
        "Secrets stay as they were. Look at the condition of a FishySecret, and at the keys of `fishysecret-config`.",
    ),
    Alert(
        "SamaraAdmissionFailing",
        'sum by (kind) (increase(samara_admission_requests_total{result="failed"}[10m])) > 0',
        "5m",
        "warning",
        "Questions of the API server about {{ $labels.kind }} are not answered.",
        "Our custom resources, and namespaces of trees, cannot be written meanwhile. The log has a line for each.",
    ),
    Alert(
        "SamaraAdmissionSlow",
        "histogram_quantile(0.99, sum by (le) (rate(samara_admission_seconds_bucket[10m]))) > 1",
        "10m",
        "warning",
        "One answer in a hundred of Samara's admission takes more than a second.",
        "Look at the API server, which is asked before a refusal, and then at the CPU of the pods.",
    ),
)
"""All alerts: `samara manifests`, the chart and the rules for a plain Prometheus have these. A standby counts no copies
and has no work waiting, so the largest value of all processes is the leader's."""


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
