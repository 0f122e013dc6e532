"""`samara plan`: what the operator would write now, or would if some manifests were applied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import click

from samara.cli.advice import advise
from samara.cli.files import Text, texts
from samara.cli.inspect.diff import Change, changes
from samara.cli.inspect.forecast import forecast
from samara.cli.inspect.outcome import VERBS, Outcome, shape, summary
from samara.cli.inspect.overlay import overlay_manifests
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, output_flag, wait_for
from samara.cli.output import common, emit, folded, hint, plural, shared, table
from samara.cli.session import Picture, Session, picture, session, snapshot
from samara.cli.watch import until_interrupted, watch_flag, watched
from samara.core.model import Content
from samara.core.names import sample
from samara.core.writes import Blocked, Create, Write
from samara.engine.apply import verb

WOULD_WRITE = 3


Looked = tuple[Picture, Outcome]
Look = Callable[[Session], Awaitable[Looked]]


class _Line(NamedTuple):
    """One write or one blocked place, in the words that a table has for it."""

    item: Write | Blocked
    word: str
    told: str


@click.command("plan", cls=Command)
@click.option("-f", "--filename", "files", multiple=True, metavar="FILE", help="Lay this over first; - is stdin.")
@click.option("--diff", is_flag=True, help="Per object: which keys come, change and go, and their sizes.")
@click.option("--all", "each", is_flag=True, help="One row per object in place of one per source.")
@click.option("--exit-code", is_flag=True, help=f"Exit {WOULD_WRITE} when something would be written.")
@watch_flag
@config_flag
@output_flag()
@kubectl_flags
@click.pass_context
def command(
    context: click.Context,
    cluster: Cluster,
    files: tuple[str, ...],
    diff: bool,
    each: bool,
    exit_code: bool,
    watch: bool,
    config: str | None,
    output: str,
) -> None:
    """What the operator would write now, without writing, with all that follows from it.

    With -f the manifests are laid over the cluster first: what if I applied this? Those that name no namespace
    belong to the one of -n. Of an object that is given twice the last manifest stays.
    """
    if watch and exit_code:
        raise click.UsageError("--watch: expected no --exit-code beside it, as a watch ends by Ctrl-C only")
    look = partial(_look, files=list(texts(files)), namespace=cluster.namespace, diff=diff)

    def tell(looked: Looked) -> None:
        seen, found = looked
        diffs = [changes(write, seen.registry) for write in found.writes] if diff else []
        emit(lambda: _shape(seen, found, diffs), output, lambda: _show(seen, found, diffs, each))

    if watch:
        until_interrupted(_watch(cluster, config, look, tell, output))
        return
    looked = wait_for(_once(cluster, config, look))
    tell(looked)
    context.exit(WOULD_WRITE if exit_code and looked[1].writes else 0)


async def _once(cluster: Cluster, config: str | None, look: Look) -> Looked:
    async with session(cluster.anywhere, config, cluster.namespace) as at:
        return await look(at)


async def _watch(cluster: Cluster, config: str | None, look: Look, tell: Callable[[Looked], None], output: str) -> None:
    async with session(cluster.anywhere, config, cluster.namespace) as at:
        await watched(lambda: look(at), tell, lambda looked: shape(*looked), output)


async def _look(at: Session, files: list[Text], namespace: str | None, diff: bool) -> Looked:
    shot = await snapshot(at, at.say)
    if files:
        await overlay_manifests(shot, files, namespace or at.access.namespace, at.say)
    seen = await picture(at, shot)
    found = await forecast(at, seen)
    return seen, await _unsealed(seen, found) if diff else found


async def _unsealed(seen: Picture, found: Outcome) -> Outcome:
    """A foreign object is kept as digests only; for a diff it is read again."""
    steps = []
    for step in found.steps:
        write = step.outcome
        if isinstance(write, Write) and not isinstance(write, Create) and _is_sealed(write.live.content):
            now = await seen.shot.read(write.ref)
            step = step._replace(outcome=replace(write, live=now)) if now is not None else step
        steps.append(step)
    return Outcome(tuple(steps))


def _is_sealed(content: Content) -> bool:
    return any(each.raw is None for each in content.fields)


def _shape(seen: Picture, found: Outcome, diffs: list[tuple[Change, ...]]) -> dict[str, Any]:
    made = shape(seen, found)
    for write, diff in zip(made["writes"], diffs, strict=False):
        write["diff"] = [change.shape() for change in diff]
    return made


def _show(seen: Picture, found: Outcome, diffs: list[tuple[Change, ...]], each: bool) -> None:
    if diffs:
        _show_diffs(seen, found, diffs, each)
    elif found.writes:
        _table(seen, [_Line(write, verb(write), write.why) for write in found.writes], each, ("VERB", "WHY"))
    if found.blocked:
        if found.writes:
            click.echo()
        lines = [_Line(blocked, blocked.reason, blocked.message) for blocked in found.blocked]
        _table(seen, lines, each, ("BLOCKED", "MESSAGE"))
    click.echo(_sum(found))
    advise(blocked.reason for blocked in found.blocked)


def _table(seen: Picture, lines: list[_Line], each: bool, named: tuple[str, str]) -> None:
    """One row per object, or one per source and word with a count and a sample: ten thousand must fit."""
    groups = [[line] for line in lines] if each else folded(lines, *_ways(seen))
    table((named[0], "OBJECTS", "WHERE", "VOCABULARY", "SOURCE", named[1]), [_row(seen, group) for group in groups])
    if len(groups) < len({line.item.key for line in lines}):
        hint(len(lines), len(groups), "objects")


def _ways(seen: Picture) -> tuple[Callable[[_Line], Hashable], ...]:
    """By source; where there are too many of those, by vocabulary, kind and what is said; at last without that."""

    def by_word(line: _Line) -> Hashable:
        return seen.title(line.item.key), line.word, line.item.ref.kind

    def by_message(line: _Line) -> Hashable:
        return by_word(line), common(line.told, line.item.ref)

    def by_source(line: _Line) -> Hashable:
        return by_message(line), line.item.key

    return by_source, by_message, by_word


def _row(seen: Picture, group: Sequence[_Line]) -> tuple[object, ...]:
    first = group[0]
    where = f"{first.item.ref.kind.name} {sample({line.item.ref.path for line in group})}"
    told = shared([line.told for line in group], [common(line.told, line.item.ref) for line in group])
    sources = sample({line.item.key.source.path for line in group})
    return (first.word, f"{len(group):,}", where, seen.title(first.item.key), sources, told)


def _show_diffs(seen: Picture, found: Outcome, diffs: list[tuple[Change, ...]], each: bool) -> None:
    """Objects that change in the same way are told together, unless each is asked for; every one is named."""
    groups: dict[Hashable, list[Write]] = defaultdict(list)
    for write, diff in zip(found.writes, diffs, strict=True):
        groups[(verb(write), write.key, write.why, diff, write.ref if each else None)].append(write)
    told = dict(zip((id(write) for write in found.writes), diffs, strict=True))
    for group in groups.values():
        first = group[0]
        count = f" ({plural(len(group), 'object')})" if len(group) > 1 else ""
        source = f"{seen.title(first.key)} from {first.key.source.path}"
        where = f"{first.ref.kind.name} {', '.join(sorted(write.ref.path for write in group))}"
        click.echo(f"{verb(first)} {where}{count}, {source}: {first.why}")
        for change in told[id(first)]:
            click.echo(f"  {change}")


def _sum(found: Outcome) -> str:
    counts = summary(found.writes, found.blocked)
    parts = [f"{counts[each]:,} to {each}" for each in VERBS if counts[each]]
    blocked = f"; {counts['blocked']:,} blocked" if counts["blocked"] else ""
    return f"{', '.join(parts) or 'Nothing to write'}{blocked}."
