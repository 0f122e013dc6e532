"""`samara status`: every source with the state of its copies, and the deletions that the operator holds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from samara.cli.advice import ADVICE, advise
from samara.cli.filters import Filter, filter_flags, filter_of, namespace_of, operators_cluster
from samara.cli.formats import LISTED, Form, Layout, headers_flag, layout_of, output_flag
from samara.cli.inspect.cluster_plans import note_unknown_namespace, note_waiting, plan_cluster
from samara.cli.inspect.reported import merge_reported
from samara.cli.inspect.source_state import MAX_NAMES, exists, reason_text, source_as_json, source_labels
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, wait_for
from samara.cli.output import emit, folded, kind_text, note_folding, plural, table
from samara.cli.session import Session, open_session
from samara.cli.watch import show_changes, until_interrupted, watch_flag
from samara.core.model import NAMESPACE, NO_METADATA, Key
from samara.core.names import sample
from samara.engine.hold_records import HoldRecord

Json = dict[str, Any]
_COUNTS = ("wanted", "right", "pending", "blocked")


@click.command(
    "status",
    cls=Command,
    namespace="Show only sources in this namespace.",
    examples={
        "Is everything in sync?": "samara status",
        "Which sources in namespace admin have copies with a conflict?": "samara status -n admin --reason conflict",
        "Print every change until Ctrl-C": "samara status --watch",
    },
)
@click.option("--all", "show_all", is_flag=True, help="One row per source and per held key, even if there are many.")
@filter_flags(sorted(ADVICE), "sources")
@watch_flag
@config_flag
@output_flag(*LISTED)
@headers_flag
@kubectl_flags
def command(
    cluster: Cluster,
    show_all: bool,
    watch: bool,
    config: str | None,
    output: Form,
    no_headers: bool,
    **filters: Any,
) -> None:
    """Show each source: how many copies are wanted, right and blocked, and why. Show held deletions.

    Sources with a problem come first. With -n only the sources in that namespace.
    """
    chosen = filter_of(cluster, **filters)
    layout = layout_of(output, show_all=show_all, no_headers=no_headers)

    def show(answer: Json) -> None:
        emit(lambda: answer, output, lambda: _show(answer, layout, chosen.where), lambda: answer["sources"])

    if watch:
        until_interrupted(_watch(cluster, config, chosen, output.name, show))
    else:
        show(wait_for(_once(cluster, config, chosen)))


async def _once(cluster: Cluster, config: str | None, chosen: Filter) -> Json:
    async with open_session(operators_cluster(cluster, chosen), config) as session:
        return await _status(session, chosen)


async def _watch(cluster: Cluster, config: str | None, chosen: Filter, form: str, show: Callable[[Json], None]) -> None:
    async with open_session(operators_cluster(cluster, chosen), config) as session:
        await show_changes(lambda: _status(session, chosen), show, lambda answer: answer, form)


async def _status(session: Session, chosen: Filter) -> Json:
    held = await session.held_deletions()
    cluster = await plan_cluster(session)
    cluster = replace(cluster, plans=await merge_reported(session, cluster.plans))
    sources = [
        (key, source_as_json(session, cluster, key, plan))
        for key, plan in cluster.plans.items()
        if exists(cluster, key)
    ]
    labels = {str(key): source_labels(cluster, key) for key in cluster.plans}
    records = [_hold_as_json(record) for _, record in sorted(held.items())]
    waiting = note_waiting(session, cluster.snapshot)
    note_unknown_namespace(session, cluster.snapshot, chosen.namespace)
    return {
        "sources": [source for key, source in sources if _is_chosen(key, source, labels[str(key)], chosen)],
        "held": [record for record in records if _is_held_chosen(record, labels, chosen)],
        "waiting": [
            {"vocabulary": entry.vocabulary, "kind": str(entry.kind), "message": entry.message} for entry in waiting
        ],
    }


def _is_chosen(key: Key, source: Json, labels: Mapping[str, str], chosen: Filter) -> bool:
    reasons = (reason["reason"] for reason in source["reasons"])
    return chosen.admits(source["vocabulary"], namespace_of(key.source), reasons, labels)


def _is_held_chosen(held: Json, labels: Mapping[str, Mapping[str, str]], chosen: Filter) -> bool:
    """By the vocabulary and the namespace in the key, and by the labels of its source, which may be gone.

    A key that is not of this form is always shown: any client may have edited the ConfigMap.
    """
    parts = held["key"].split("/")
    if len(parts) != 4:
        return True
    vocabulary, kind, namespace, name = parts
    where = name if kind == NAMESPACE.name else namespace.removeprefix("-")
    return chosen.admits(vocabulary, where, ("held",), labels.get(held["key"], NO_METADATA))


def _hold_as_json(record: HoldRecord) -> Json:
    return {"key": record.key, "count": record.count, "since": record.since, "until": record.until}


# tables


def _show(answer: Json, layout: Layout, where: str = "") -> None:
    sources = sorted(answer["sources"], key=_urgency)
    if layout.has_headers:
        click.echo(_summary_line(answer) if sources else f"No sources{where}.")
    if sources:
        _show_sources(sources, layout)
    if answer["held"]:
        if sources or layout.has_headers:
            click.echo()
        _show_held(answer["held"], layout)


def _urgency(source: Json) -> int:
    """Sources with a problem come first, then those with something to write."""
    if source["reasons"] or source["blocked"]:
        return 0
    return 1 if source["pending"] else 2


def _summary_line(answer: Json) -> str:
    sources = answer["sources"]
    totals = {name: sum(source[name] for source in sources) for name in _COUNTS}
    counts = (f"{totals[name]:,} {name}" for name in _COUNTS[1:] if totals[name] or name == "right")
    wanted = plural(totals["wanted"], "copy", "copies")
    with_problems = sum(_urgency(source) == 0 for source in sources)
    problems = f"; {plural(with_problems, 'source')} with a problem" if with_problems else ""
    held = f"; {plural(len(answer['held']), 'set')} of deletions held" if answer["held"] else ""
    return f"{plural(len(sources), 'source')}, {wanted} wanted: {', '.join(counts)}{problems}{held}."


def _show_sources(sources: list[Json], layout: Layout) -> None:
    groups = [[source] for source in sources] if layout.has_every_row else folded(sources, id, _by_reasons)
    headers = ("VOCABULARY", "KIND", "SOURCE", "WANTED", "RIGHT", "PENDING", "BLOCKED", "REASONS")
    table(headers, [_row(group, layout) for group in groups], layout, names="SOURCE")
    note_folding(len(sources), len(groups), "sources")
    reasons = [reason["reason"] for source in sources for reason in source["reasons"]]
    if reasons and layout.has_headers:
        advise(reasons)
        click.echo("`samara why KIND/NAME -n NAMESPACE` explains one place, and `samara plan` shows every message.")


def _show_held(held: list[Json], layout: Layout) -> None:
    groups = (
        [[entry] for entry in held] if layout.has_every_row else folded(held, id, _by_namespace_and_end, _by_namespace)
    )
    table(("HELD", "DELETIONS", "SINCE", "UNTIL"), [_held_row(group) for group in groups], layout)
    note_folding(len(held), len(groups), "held sets")
    if layout.has_headers:
        sets = plural(len(held), "set of deletions", "sets of deletions")
        release = "`samara release KEY` lets one continue, with --discard its copies stay"
        click.echo(f"The limit on mass deletion holds {sets}; {release}.")


def _by_namespace(held: Json) -> Hashable:
    """The vocabulary and the namespace in the key, which is not checked: any client may have edited the ConfigMap."""
    parts = held["key"].split("/")
    return (parts[0], *parts[2:3])


def _by_namespace_and_end(held: Json) -> Hashable:
    return _by_namespace(held), held["until"]


def _held_row(group: Sequence[Json]) -> tuple[object, ...]:
    deletions = f"{sum(held['count'] for held in group):,}"
    since, until = ([held[name] for held in group] for name in ("since", "until"))
    ends = " to ".join(dict.fromkeys((min(until), max(until))))
    return sample(held["key"] for held in group), deletions, min(since), ends


def _by_reasons(source: Json) -> Hashable:
    """The group of a source if there are too many to list: its vocabulary, its kind, and what is wrong with it."""
    is_pending = source["pending"] > 0
    reasons = tuple(sorted(reason["reason"] for reason in source["reasons"]))
    return source["vocabulary"], source["kind"], is_pending, reasons


def _row(group: Sequence[Json], layout: Layout) -> tuple[object, ...]:
    first = group[0]
    counts = tuple(f"{sum(source[name] for source in group):,}" for name in _COUNTS)
    reasons = "; ".join(map(reason_text, _merged_reasons(group)))
    kind, paths = kind_text(first["kind"], layout), sample(_path(source) for source in group)
    return (first["vocabulary"], kind, paths, *counts, reasons)


def _path(source: Json) -> str:
    return f"{source['namespace']}/{source['name']}" if source["namespace"] else str(source["name"])


def _merged_reasons(group: Sequence[Json]) -> list[Json]:
    """The reasons of several sources, each reason once."""
    merged: dict[str, Json] = {}
    for reason in (reason for source in group for reason in source["reasons"]):
        total = merged.setdefault(reason["reason"], {"reason": reason["reason"], "count": 0, "sample": []})
        total["count"] += reason["count"]
        total["sample"] = list(dict.fromkeys([*total["sample"], *reason["sample"]]))[:MAX_NAMES]
    return list(merged.values())
