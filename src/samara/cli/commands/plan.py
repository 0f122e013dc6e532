"""`samara plan`: what the operator would write now, or would if some manifests were applied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, get_args

import click

from samara.cli.advice import advise
from samara.cli.files import Text, read_texts
from samara.cli.filters import Filter, filter_flags, filter_of, namespace_of, operators_cluster
from samara.cli.formats import LISTED, Form, Layout, headers_flag, layout_of, output_flag
from samara.cli.inspect.caused import caused_by_manifests
from samara.cli.inspect.cluster_plans import (
    ClusterPlans,
    note_unknown_namespace,
    note_waiting,
    plan_cluster,
    take_snapshot,
)
from samara.cli.inspect.diff import Change, changes
from samara.cli.inspect.forecast import (
    VERBS,
    Anyway,
    PlannedWrites,
    address_as_json,
    as_json,
    first_writes,
    forecast,
    summary,
)
from samara.cli.inspect.overlay import overlay_manifests
from samara.cli.inspect.source_state import source_labels
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, wait_for
from samara.cli.output import (
    emit,
    folded,
    generalize,
    kind_text,
    merge_messages,
    note_folding,
    plural,
    print_line,
    table,
)
from samara.cli.session import Session, open_session
from samara.cli.watch import show_changes, until_interrupted, watch_flag
from samara.core.desired import Reason
from samara.core.model import Content
from samara.core.names import sample
from samara.core.writes import Blocked, Create, Write, verb

EXIT_WOULD_WRITE = 3

Forecast = tuple[ClusterPlans, PlannedWrites]
MakeForecast = Callable[[Session], Awaitable[Forecast]]
Diff = tuple[Change, ...]


class _Line(NamedTuple):
    """One write or one blocked address as a table shows it."""

    outcome: Write | Blocked
    title: str
    """The verb of a write, or the reason of a blocked address."""
    message: str
    rule: str


@click.command(
    "plan",
    cls=Command,
    namespace="Show only objects in this namespace. With -f: the namespace of manifests without one.",
    examples={
        "What would the operator write now?": "samara plan",
        "What would change if this manifest were applied, and which keys?": "samara plan -f database.yaml --diff",
        "In a pipeline: exit with 3 if anything would be written": "samara plan --exit-code",
    },
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Plan as if this manifest were applied; - is stdin; repeatable.",
)
@click.option(
    "--diff", is_flag=True, help="For each object: which keys are added, changed and removed, and their sizes."
)
@click.option("--all", "show_all", is_flag=True, help="One row per object instead of one per source.")
@click.option("--exit-code", is_flag=True, help=f"Exit with {EXIT_WOULD_WRITE} if something would be written.")
@filter_flags(get_args(Reason), "objects of sources")
@watch_flag
@config_flag
@output_flag(*LISTED)
@headers_flag
@kubectl_flags
@click.pass_context
def command(
    context: click.Context,
    /,
    cluster: Cluster,
    files: tuple[str, ...],
    diff: bool,
    show_all: bool,
    exit_code: bool,
    watch: bool,
    config: str | None,
    output: Form,
    no_headers: bool,
    **filters: Any,
) -> None:
    """Show what the operator would write now, and what follows from each write. Nothing is written.

    With -n only the objects in that namespace.

    With -f it plans as if the manifests were applied, and shows only what they change, in every namespace; a line
    counts what would be written anyway. A manifest without a namespace gets that of -n. If an object is given twice,
    the last manifest counts.
    """
    if watch and exit_code:
        raise click.UsageError("--watch: expected no --exit-code beside it, as a watch ends by Ctrl-C only")
    chosen = filter_of(cluster, **filters)
    if files:
        chosen = replace(chosen, namespace=None)
    namespace = cluster.namespace or None
    make_forecast = partial(_forecast, files=list(read_texts(files)), namespace=namespace, chosen=chosen, diff=diff)
    layout = layout_of(output, show_all=show_all, no_headers=no_headers)

    def show(result: Forecast) -> None:
        plans, planned = result
        diffs = [changes(write, plans.registry) for write in planned.writes] if diff else []
        emit(
            lambda: _as_json(plans, planned, diffs),
            output,
            lambda: _show(plans, planned, diffs, layout),
            lambda: (address_as_json(write.ref) for write in planned.writes),
        )

    if watch:
        until_interrupted(_watch(cluster, config, chosen, make_forecast, show, output.name))
        return
    result = wait_for(_once(cluster, config, chosen, make_forecast))
    show(result)
    context.exit(EXIT_WOULD_WRITE if exit_code and result[1].writes else 0)


async def _once(cluster: Cluster, config: str | None, chosen: Filter, make_forecast: MakeForecast) -> Forecast:
    async with open_session(operators_cluster(cluster, chosen), config) as session:
        return await make_forecast(session)


async def _watch(
    cluster: Cluster,
    config: str | None,
    chosen: Filter,
    make_forecast: MakeForecast,
    show: Callable[[Forecast], None],
    form: str,
) -> None:
    async with open_session(operators_cluster(cluster, chosen), config) as session:
        await show_changes(lambda: make_forecast(session), show, lambda result: as_json(*result), form)


async def _forecast(session: Session, files: list[Text], namespace: str | None, chosen: Filter, diff: bool) -> Forecast:
    snapshot = await take_snapshot(session)
    without_manifests = PlannedWrites()
    if files:
        cluster = await plan_cluster(session, snapshot)
        if first_writes(cluster, await session.mass_delete_guard()).steps:
            without_manifests = await _chosen_forecast(session, cluster, chosen)
            snapshot = await take_snapshot(session)  # the forecast has changed the first one
        await overlay_manifests(snapshot, files, namespace or session.access.namespace, session.note_once)
    cluster = await plan_cluster(session, snapshot)
    note_waiting(session, snapshot)
    note_unknown_namespace(session, snapshot, chosen.namespace)
    planned = await _chosen_forecast(session, cluster, chosen)
    if files:
        planned = caused_by_manifests(without_manifests, planned)
    return cluster, await _with_contents(cluster, planned) if diff else planned


async def _chosen_forecast(session: Session, cluster: ClusterPlans, chosen: Filter) -> PlannedWrites:
    """The steps that a user asks for. A source that the plan deletes is known by the labels that it has now."""
    labels = {key: source_labels(cluster, key) for key in cluster.plans}
    planned = await forecast(session, cluster)

    def is_chosen(outcome: Write | Blocked) -> bool:
        reasons = (outcome.reason,) if isinstance(outcome, Blocked) else ()
        of_source = labels.get(outcome.key) or source_labels(cluster, outcome.key)
        return chosen.admits(cluster.vocabulary(outcome.key), namespace_of(outcome.ref), reasons, of_source)

    steps = (step for step in planned.steps if isinstance(step.outcome, Write | Blocked) and is_chosen(step.outcome))
    return replace(planned, steps=tuple(steps))


async def _with_contents(cluster: ClusterPlans, planned: PlannedWrites) -> PlannedWrites:
    """Reads again the objects of which the snapshot has only digests, because a diff needs their keys and sizes."""
    steps = []
    for step in planned.steps:
        write = step.outcome
        if isinstance(write, Write) and not isinstance(write, Create) and _is_digest(write.live.content):
            live = await cluster.snapshot.read(write.ref)
            step = step._replace(outcome=replace(write, live=live)) if live is not None else step
        steps.append(step)
    return replace(planned, steps=tuple(steps))


def _is_digest(content: Content) -> bool:
    return any(field.raw is None for field in content.fields)


def _as_json(cluster: ClusterPlans, planned: PlannedWrites, diffs: list[Diff]) -> dict[str, Any]:
    answer = as_json(cluster, planned)
    for write, diff in zip(answer["writes"], diffs, strict=False):
        write["diff"] = [change.as_json() for change in diff]
    return answer


def _show(cluster: ClusterPlans, planned: PlannedWrites, diffs: list[Diff], layout: Layout) -> None:
    """Counts first, then what is blocked, then what would be written."""
    if layout.has_headers:
        click.echo(_summary_line(planned))
        if planned.anyway is not None and any(planned.anyway):
            click.echo(_anyway_line(planned.anyway))
    if planned.blocked:
        lines = [
            _Line(step.outcome, step.outcome.reason, step.outcome.message, step.rule)
            for step in planned.steps
            if isinstance(step.outcome, Blocked)
        ]
        _table(cluster, lines, layout, ("BLOCKED", "MESSAGE"))
        if planned.writes:
            click.echo()
    if diffs:
        _show_diffs(cluster, planned, diffs, layout.has_every_row)
    elif planned.writes:
        lines = [
            _Line(step.outcome, verb(step.outcome), step.outcome.why, step.rule)
            for step in planned.steps
            if isinstance(step.outcome, Write)
        ]
        _table(cluster, lines, layout, ("VERB", "WHY"))
    if layout.has_headers:
        advise(blocked.reason for blocked in planned.blocked)


def _table(cluster: ClusterPlans, lines: list[_Line], layout: Layout, headers: tuple[str, str]) -> None:
    """One row per object, or one per source and title with a count and a sample, so that 10,000 objects fit."""
    groups = [[line] for line in lines] if layout.has_every_row else folded(lines, *_groupings(cluster))
    first, last = headers
    rule = ("RULE",) if layout.is_wide else ()
    titles = (first, "OBJECTS", "WHERE", "VOCABULARY", "SOURCE", *rule, last)
    table(titles, [_row(cluster, group, layout) for group in groups], layout, names="WHERE")
    if len(groups) < len({line.outcome.key for line in lines}):
        note_folding(len(lines), len(groups), "objects")


def _groupings(cluster: ClusterPlans) -> tuple[Callable[[_Line], Hashable], ...]:
    """By source. If that gives too many groups: by vocabulary, kind and message, and last without the message."""

    def by_title(line: _Line) -> Hashable:
        return cluster.vocabulary(line.outcome.key), line.title, line.outcome.ref.kind

    def by_message(line: _Line) -> Hashable:
        return by_title(line), generalize(line.message, line.outcome.ref)

    def by_source(line: _Line) -> Hashable:
        return by_message(line), line.outcome.key

    return by_source, by_message, by_title


def _row(cluster: ClusterPlans, group: Sequence[_Line], layout: Layout) -> tuple[object, ...]:
    first = group[0]
    where = f"{kind_text(str(first.outcome.ref.kind), layout)} {sample({line.outcome.ref.path for line in group})}"
    generalized = [generalize(line.message, line.outcome.ref) for line in group]
    message = merge_messages([line.message for line in group], generalized)
    sources = sample({line.outcome.key.source.path for line in group})
    rules = (", ".join(dict.fromkeys(line.rule for line in group)),) if layout.is_wide else ()
    return (first.title, f"{len(group):,}", where, cluster.vocabulary(first.outcome.key), sources, *rules, message)


def _show_diffs(cluster: ClusterPlans, planned: PlannedWrites, diffs: list[Diff], show_all: bool) -> None:
    """Objects that change in the same way share their lines, unless `show_all` is set. Every object is named."""
    groups: dict[tuple[Diff, Hashable], list[Write]] = defaultdict(list)
    for write, diff in zip(planned.writes, diffs, strict=True):
        groups[diff, (verb(write), write.key, write.why, write.ref if show_all else None)].append(write)
    for (diff, _), group in groups.items():
        first = group[0]
        count = f" ({plural(len(group), 'object')})" if len(group) > 1 else ""
        source = f"{cluster.vocabulary(first.key)} from {first.key.source.path}"
        where = f"{first.ref.kind.name} {', '.join(sorted(write.ref.path for write in group))}"
        print_line(f"{verb(first)} {where}{count}, {source}: {first.why}")
        for change in diff:
            print_line(f"  {change}")


def _summary_line(planned: PlannedWrites) -> str:
    counts = summary(planned.writes, planned.blocked)
    parts = [f"{counts[name]:,} to {name}" for name in VERBS if counts[name]]
    blocked = f"; {counts['blocked']:,} blocked" if counts["blocked"] else ""
    return f"{', '.join(parts) or 'Nothing to write'}{blocked}."


def _anyway_line(anyway: Anyway) -> str:
    parts = []
    if anyway.writes or anyway.blocked:
        blocked = f", {anyway.blocked:,} blocked" if anyway.blocked else ""
        parts.append(f"without these manifests too: {anyway.writes:,} to write{blocked} (`samara plan` shows them)")
    if anyway.prevented:
        parts.append(f"only without them: {plural(anyway.prevented, 'object')} to write")
    line = "; ".join(parts)
    return f"{line[0].upper()}{line[1:]}."
