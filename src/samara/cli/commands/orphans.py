"""`samara orphans`: lists marked copies that no source wants, and deletes them within the limit on mass deletion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import click

from samara.cli.filters import Filter, filter_flags, filter_of, namespace_of
from samara.cli.formats import LISTED, Form, Layout, headers_flag, layout_of, output_flag
from samara.cli.inspect.cluster_plans import (
    ClusterPlans,
    note_unknown_namespace,
    plan_cluster,
    take_full_snapshot,
)
from samara.cli.inspect.orphan_scan import (
    REASONS,
    Orphan,
    as_orphan,
    is_own_source,
    remove_orphans,
    unmarked_orphan,
)
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, wait_for
from samara.cli.output import emit, folded, kind_text, note_folding, plural, table
from samara.cli.session import Session, open_session
from samara.core.model import Kind, Object, Ref, namespace_ref
from samara.core.names import matches_any_glob, sample
from samara.core.ownership import is_operators_own, is_recorded, is_released
from samara.core.policy import ClusterPolicy
from samara.core.source_type import Protected
from samara.core.writes import Plan


@click.command(
    "orphans",
    cls=Command,
    namespace="Show only copies in this namespace.",
    examples={
        "Which copies does no source want any more?": "samara orphans",
        "Only those in namespace shop whose source is gone": "samara orphans -n shop --reason source-gone",
        "Delete them, after a question": "samara orphans --delete",
    },
)
@click.option("--all", "show_all", is_flag=True, help="One row per copy, even if there are many.")
@click.option("--delete", is_flag=True, help="Delete those that Samara created. The limit on mass deletion applies.")
@click.option("--yes", is_flag=True, help="Do not ask before deleting.")
@filter_flags(REASONS, "copies")
@config_flag
@output_flag(*LISTED)
@headers_flag
@kubectl_flags
def command(
    cluster: Cluster,
    show_all: bool,
    delete: bool,
    yes: bool,
    config: str | None,
    output: Form,
    no_headers: bool,
    **filters: Any,
) -> None:
    """List copies that no source wants: their source is gone, or asks for them no longer.

    With -n only those in that namespace. All kinds are read, also those that the settings name no longer. Objects that
    Samara wrote and whose marks another client removed are listed too, and never deleted.

    --delete deletes the listed copies whose marks Samara set, if they have not changed since they were listed. An
    adopted object stays and only loses its marks.
    """
    chosen = filter_of(cluster, **filters)
    layout = layout_of(output, show_all=show_all, no_headers=no_headers)

    def show(orphans: list[Orphan]) -> None:
        listed = [orphan.as_json() for orphan in orphans]
        emit(lambda: {"orphans": listed}, output, lambda: _show(orphans, layout, chosen.where), lambda: listed)

    wait_for(_orphans(cluster, config, chosen, show, delete=delete, yes=yes))


async def _orphans(
    cluster: Cluster,
    config: str | None,
    chosen: Filter,
    show: Callable[[list[Orphan]], None],
    *,
    delete: bool,
    yes: bool,
) -> None:
    async with open_session(cluster.without_namespace, config) as session:
        if delete:
            session.require_proven_settings()
        plans = await plan_cluster(session, await take_full_snapshot(session))
        note_unknown_namespace(session, plans.snapshot, chosen.namespace)
        orphans = [
            orphan
            for orphan in find_orphans(plans, session.policy)
            if chosen.admits(orphan.vocabulary, namespace_of(orphan.live.ref), (orphan.reason,), orphan.live.labels)
        ]
        orphans = _without_unread(session, plans, orphans)
        show(orphans)
        if delete:
            await remove_orphans(session, plans, _without_missing_definitions(session, plans, orphans), yes)


def find_orphans(cluster: ClusterPlans, policy: ClusterPolicy) -> Iterator[Orphan]:
    """The marked objects that no source wants or keeps, and that are no sources themselves.

    Those in terminating namespaces are left out.
    """
    protected = _refused_in_protected_namespaces(cluster, policy)
    wanted = {ref for plan in cluster.plans.values() for ref in plan.desired} - protected
    cache = cluster.snapshot.cache
    unmarked = {ref: live for ref, live in cluster.snapshot.unmarked.items() if _was_copy(live, policy)}
    for ref, live in sorted((cluster.snapshot.marked | unmarked).items()):
        namespace = cache.get(namespace_ref(ref.namespace))
        is_terminating = live.deleting or namespace is None or namespace.deleting
        is_kept = ref in wanted or (ref not in protected and _is_kept_by_source(cluster, live))
        if is_terminating or is_kept or is_own_source(cluster, live):
            continue
        orphan = unmarked_orphan(live) if ref in unmarked else as_orphan(cluster, live)
        if orphan is not None:
            yield orphan


def _was_copy(live: Object, policy: ClusterPolicy) -> bool:
    """True for an unmarked object that we wrote, unless it is the operator's own or was released."""
    return not (is_released(live) or is_operators_own(live) or live.ref in policy.operators_own)


def _without_unread(session: Session, cluster: ClusterPlans, orphans: list[Orphan]) -> list[Orphan]:
    """Leaves out copies whose sources could not be listed, because one of these may want them."""
    unread = [
        [kind for kind in _missing_kinds(session, cluster, orphan) if kind in cluster.snapshot.unlisted]
        for orphan in orphans
    ]

    def describe(count: int, kinds: str) -> str:
        copies = plural(count, "copy", "copies")
        return f"{copies} left out: {kinds} cannot be listed, so it is not known whether a source wants them"

    return _without(session, orphans, unread, describe)


def _without_missing_definitions(session: Session, cluster: ClusterPlans, orphans: list[Orphan]) -> list[Orphan]:
    """Leaves out copies whose sources went with their CRD, because its deletion is not a request to delete copies."""

    def describe(count: int, kinds: str) -> str:
        return (
            f"{plural(count, 'orphan')} not removed: the server does not serve {kinds}, and deleting a CRD is not"
            " a request to delete copies; to remove them give --config with settings that do not name their vocabulary"
        )

    missing = [_missing_kinds(session, cluster, orphan) for orphan in orphans]
    return _without(session, orphans, missing, describe)


def _without(
    session: Session, orphans: list[Orphan], missing: list[list[Kind]], describe: Callable[[int, str], str]
) -> list[Orphan]:
    """Leaves out the orphans with missing kinds, and notes how many and which kinds."""
    count = sum(map(bool, missing))
    if count:
        session.note_once(describe(count, sample({str(kind) for kinds in missing for kind in kinds})))
    return [orphan for orphan, kinds in zip(orphans, missing, strict=True) if not kinds]


def _missing_kinds(session: Session, cluster: ClusterPlans, orphan: Orphan) -> list[Kind]:
    """The kinds that must be listed before the orphan can be judged, and are not.

    They may not be listed, or the server does not serve them. A vocabulary that the settings do not name wants no
    copies, so none is missing.
    """
    cache, owner = cluster.snapshot.cache, cluster.registry.owner(orphan.live, cluster.snapshot.cache)
    source_type = orphan.source_type if owner is None else cluster.registry[owner.source_type]
    if source_type is None or source_type.vocabulary not in session.settings.vocabularies:
        return []
    if owner is not None and not cluster.plans.get(owner, Plan()).ready:
        needed = source_type.kinds
    else:
        needed = () if source_type.resource is None else (source_type.resource,)
    return [kind for kind in needed if not cache.has_synced(kind)]


def _refused_in_protected_namespaces(cluster: ClusterPlans, policy: ClusterPolicy) -> set[Ref]:
    """Addresses in protected namespaces that sources of tenants name. A copy there is older than the protection."""
    refused = (blocked for plan in cluster.plans.values() for blocked in plan.blocked if blocked.reason == "refused")
    by_tenants = (
        blocked for blocked in refused if cluster.registry[blocked.key.source_type].policy.protected is Protected.REFUSE
    )
    return {blocked.ref for blocked in by_tenants if matches_any_glob(policy.protected, blocked.ref.namespace)}


def _is_kept_by_source(cluster: ClusterPlans, live: Object) -> bool:
    """True if the source exists and lets an unwanted copy stay, forever or until the copy that replaces it exists."""
    cache = cluster.snapshot.cache
    owner = cluster.registry.owner(live, cache)
    source = cache.get(owner.source) if owner is not None else None
    if owner is None or source is None or owner not in cluster.registry.sources(source, cache):
        return False
    source_type = cluster.registry[owner.source_type]
    desired = source_type.desired(owner.source, cache)
    return is_recorded(live, source_type.ownership) and (desired.prune_last or not desired.prune)


def _show(orphans: list[Orphan], layout: Layout, where: str = "") -> None:
    if layout.has_headers:
        click.echo(_summary_line(orphans) if orphans else f"No orphans{where}.")
    if not orphans:
        return
    groups = [[orphan] for orphan in orphans] if layout.has_every_row else folded(orphans, id, _by_origin, _by_kind)
    headers = ("KIND", "COPIES", "WHERE", "VOCABULARY", "ORIGIN", "OURS", "REASON")
    table(headers, [_row(group, layout) for group in groups], layout, names="WHERE")
    note_folding(len(orphans), len(groups), "orphans")


def _summary_line(orphans: list[Orphan]) -> str:
    counts = Counter(orphan.reason for orphan in orphans)
    reasons = (f"{counts[reason]:,} {reason}" for reason in REASONS if counts[reason])
    return f"{plural(len(orphans), 'orphan')}: {', '.join(reasons)}."


def _by_kind(orphan: Orphan) -> Hashable:
    return orphan.live.ref.kind, orphan.vocabulary, orphan.ours, orphan.reason


def _by_origin(orphan: Orphan) -> Hashable:
    return _by_kind(orphan), orphan.origin


def _row(group: Sequence[Orphan], layout: Layout) -> tuple[object, ...]:
    first, where = group[0], sample(orphan.live.ref.path for orphan in group)
    kind = kind_text(str(first.live.ref.kind), layout)
    origins = sample({orphan.origin for orphan in group})
    ours = "yes" if first.ours else "no"
    return (kind, f"{len(group):,}", where, first.vocabulary or "-", origins or "-", ours, first.reason)
