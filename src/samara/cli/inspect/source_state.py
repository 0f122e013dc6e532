"""The state of a source: how many copies it wants, how many are right, and why the others are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samara.cli.inspect.cluster_plans import ClusterPlans
from samara.cli.inspect.forecast import address_as_json, count_copies, waiting_for_finalizer
from samara.cli.session import Session
from samara.core.copy_counts import CopyCounts
from samara.core.desired import in_lower_case
from samara.core.model import NO_METADATA, Key, Ref
from samara.core.names import sample
from samara.core.policy import paused_by
from samara.core.writes import Plan

Json = dict[str, Any]
MAX_NAMES = 3


def exists(cluster: ClusterPlans, key: Key) -> bool:
    """False for a source that is gone, and that only the marks of its copies name."""
    return key.source in cluster.snapshot.cache.sources(key.source_type)


def source_labels(cluster: ClusterPlans, key: Key) -> Mapping[str, str]:
    """The labels of a source. One that is gone has none."""
    source = cluster.snapshot.cache.get(key.source)
    return NO_METADATA if source is None else source.labels


def source_as_json(session: Session, cluster: ClusterPlans, key: Key, plan: Plan) -> Json:
    counts = count_copies(cluster, key, plan, session.policy)
    return {
        "vocabulary": cluster.vocabulary(key),
        **address_as_json(key.source),
        "wanted": counts.wanted,
        "right": counts.in_sync,
        "pending": counts.pending,
        "blocked": counts.blocked,
        "reasons": [*_reasons_of_copies(counts), *_reasons_of_source(cluster, key, plan, counts)],
    }


def made_by(session: Session, cluster: ClusterPlans, ref: Ref) -> list[Json]:
    """What an object makes as a source: one entry for each vocabulary, with a sample of its copies."""
    keys = [key for key in cluster.plans if key.source == ref and exists(cluster, key)]
    return [_made_as_json(session, cluster, key, cluster.plans[key]) for key in keys]


def _made_as_json(session: Session, cluster: ClusterPlans, key: Key, plan: Plan) -> Json:
    copies = sorted({*plan.desired, *waiting_for_finalizer(cluster, key, plan, session.policy)})
    return {**source_as_json(session, cluster, key, plan), "sample": [str(ref) for ref in copies[:MAX_NAMES]]}


def reason_text(reason: Json) -> str:
    """A reason with its count and its sample."""
    return f"{reason['reason']} ({reason['count']:,}): {sampled(reason['sample'], reason['count'])}"


def sampled(names: list[str], count: int) -> str:
    """The names, and how many more there are."""
    more = count - len(names)
    return sample(names, MAX_NAMES) + (f" and {more:,} more" if more > 0 else "")


def _reasons_of_copies(counts: CopyCounts) -> list[Json]:
    return [
        {
            "reason": reason,
            "count": len(refs),
            "sample": sorted(ref.namespace_or_name for ref in refs)[:MAX_NAMES],
        }
        for reason, refs in sorted(counts.problems().items())
    ]


def _reasons_of_source(cluster: ClusterPlans, key: Key, plan: Plan, counts: CopyCounts) -> list[Json]:
    """The faults of the source itself, and its pause. The sample is the message, because a fault is in no namespace."""
    faults = [(in_lower_case(fault.reason), fault.message) for fault in plan.faults]
    reasons: list[Json] = [
        {"reason": reason, "count": 1, "sample": [message]}
        for reason, message in faults
        if reason != "no-namespace" or reason not in counts.by_reason()  # unless the copies have this reason already
    ]
    cache, source = cluster.snapshot.cache, cluster.snapshot.cache.get(key.source)
    paused = paused_by(source, cluster.registry[key.source_type], cache) if source is not None else ""
    if paused and not plan.blocked:
        reasons.append({"reason": "held", "count": 0, "sample": [paused]})
    return reasons
