"""`samara status`: every source with the state of its copies, and the deletions that the operator holds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import click

from samara.cli.advice import ADVICE, advise
from samara.cli.filters import Filter, filter_flags
from samara.cli.inspect.cluster_plans import note_waiting, plan_cluster
from samara.cli.inspect.reported import merge_reported
from samara.cli.inspect.source_state import MAX_NAMES, exists, reason_text, source_as_json
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, output_flag, wait_for
from samara.cli.output import emit, folded, note_folding, plural, table
from samara.cli.session import Session, open_session
from samara.cli.watch import show_changes, until_interrupted, watch_flag
from samara.core.names import sample
from samara.engine.hold_store import HoldRecord

Json = dict[str, Any]
_COUNTS = ("wanted", "right", "pending", "blocked")


@click.command("status", cls=Command)
@click.option("--all", "show_all", is_flag=True, help="One row per source and per held key, even if there are many.")
@filter_flags(sorted(ADVICE))
@watch_flag
@config_flag
@output_flag()
@kubectl_flags
def command(
    cluster: Cluster,
    show_all: bool,
    vocabularies: tuple[str, ...],
    reasons: tuple[str, ...],
    watch: bool,
    config: str | None,
    output: str,
) -> None:
    """Show each source: how many copies are wanted, right and blocked, and why. Show held deletions.

    With -n only the sources in that namespace.
    """
    chosen = Filter(cluster.namespace, vocabularies, reasons)

    def show(answer: Json) -> None:
        emit(lambda: answer, output, lambda: _show(answer, show_all))

    if watch:
        until_interrupted(_watch(cluster, config, chosen, output, show))
    else:
        show(wait_for(_once(cluster, config, chosen)))


async def _once(cluster: Cluster, config: str | None, chosen: Filter) -> Json:
    async with open_session(cluster.without_namespace, config, cluster.namespace) as session:
        return await _status(session, chosen)


async def _watch(
    cluster: Cluster, config: str | None, chosen: Filter, output: str, show: Callable[[Json], None]
) -> None:
    async with open_session(cluster.without_namespace, config, cluster.namespace) as session:
        await show_changes(lambda: _status(session, chosen), show, lambda answer: answer, output)


async def _status(session: Session, chosen: Filter) -> Json:
    held = await session.held_deletions()
    cluster = await plan_cluster(session)
    cluster = replace(cluster, plans=await merge_reported(session, cluster.plans))
    sources = [
        source_as_json(session, cluster, key, plan) for key, plan in cluster.plans.items() if exists(cluster, key)
    ]
    records = [_hold_as_json(record) for _, record in sorted(held.items())]
    waiting = note_waiting(session, cluster.snapshot)
    return {
        "sources": [source for source in sources if _is_chosen(source, chosen)],
        "held": [record for record in records if _is_held_chosen(record, chosen)],
        "waiting": [
            {"vocabulary": entry.vocabulary, "kind": str(entry.kind), "message": entry.message} for entry in waiting
        ],
    }


def _is_chosen(source: Json, chosen: Filter) -> bool:
    reasons = (reason["reason"] for reason in source["reasons"])
    return chosen.admits(source["vocabulary"], source["namespace"], reasons)


def _is_held_chosen(held: Json, chosen: Filter) -> bool:
    """By the vocabulary and the namespace in the key. A key that is not of this form is always shown: any client may
    have edited the ConfigMap."""
    parts = held["key"].split("/")
    return len(parts) != 4 or chosen.admits(parts[0], parts[2].removeprefix("-"), ("held",))


def _hold_as_json(record: HoldRecord) -> Json:
    return {"key": record.key, "count": record.count, "since": record.since, "until": record.until}


# tables


def _show(answer: Json, show_all: bool) -> None:
    sources: list[Json] = answer["sources"]
    if not sources:
        click.echo("No sources.")
    else:
        groups = [[source] for source in sources] if show_all else folded(sources, id, _by_reasons)
        headers = ("VOCABULARY", "KIND", "SOURCE", "WANTED", "RIGHT", "PENDING", "BLOCKED", "REASONS")
        table(headers, [_row(group) for group in groups])
        note_folding(len(sources), len(groups), "sources")
        reasons = [reason["reason"] for source in sources for reason in source["reasons"]]
        advise(reasons)
        if reasons:
            click.echo("`samara why KIND/NAME -n NAMESPACE` explains one place, and `samara plan` shows every message.")
    if answer["held"]:
        click.echo()
        _show_held(answer["held"], show_all)


def _show_held(held: list[Json], show_all: bool) -> None:
    groups = [[entry] for entry in held] if show_all else folded(held, id, _by_namespace_and_end, _by_namespace)
    table(("HELD", "DELETIONS", "SINCE", "UNTIL"), [_held_row(group) for group in groups])
    note_folding(len(held), len(groups), "held sets")
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


def _row(group: Sequence[Json]) -> tuple[object, ...]:
    first = group[0]
    counts = tuple(f"{sum(source[name] for source in group):,}" for name in _COUNTS)
    reasons = "; ".join(map(reason_text, _merged_reasons(group)))
    return (first["vocabulary"], first["kind"], sample(_path(source) for source in group), *counts, reasons)


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
