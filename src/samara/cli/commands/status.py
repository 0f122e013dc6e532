"""`samara status`: every source, how its copies are, and what the brake holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import click

from samara.cli.advice import advise
from samara.cli.inspect.outcome import counted, place
from samara.cli.inspect.reported import as_told
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, output_flag, wait_for
from samara.cli.output import emit, folded, hint, plural, table
from samara.cli.session import Picture, Session, picture, session
from samara.cli.watch import until_interrupted, watch_flag, watched
from samara.core.copy_counts import CopyCounts
from samara.core.desired import Fault
from samara.core.model import Key
from samara.core.names import sample
from samara.core.policy import paused_by
from samara.core.writes import Plan
from samara.engine.hold_store import HoldRecord

Shape = dict[str, Any]
_SAMPLE = 3
_COUNTS = ("wanted", "right", "pending", "blocked")


@click.command("status", cls=Command)
@click.option("--all", "each", is_flag=True, help="One row per source and per held key, however many there are.")
@watch_flag
@config_flag
@output_flag()
@kubectl_flags
def command(cluster: Cluster, each: bool, watch: bool, config: str | None, output: str) -> None:
    """Every source with its vocabulary, its copies wanted, right and blocked, the reasons; what the brake holds."""

    def tell(shape: Shape) -> None:
        emit(lambda: shape, output, lambda: _show(shape, each))

    if watch:
        until_interrupted(_watch(cluster, config, output, tell))
    else:
        tell(wait_for(_once(cluster, config)))


async def _once(cluster: Cluster, config: str | None) -> Shape:
    async with session(cluster, config) as at:
        return await _status(at)


async def _watch(cluster: Cluster, config: str | None, output: str, tell: Callable[[Shape], None]) -> None:
    async with session(cluster, config) as at:
        await watched(lambda: _status(at), tell, lambda shape: shape, output)


async def _status(at: Session) -> Shape:
    held = await at.held()
    seen = await as_told(at, await picture(at))
    return {"sources": _sources(at, seen), "held": [_held(entry) for _, entry in sorted(held.items())]}


def _held(entry: HoldRecord) -> Shape:
    return {"key": entry.key, "count": entry.count, "since": entry.since, "until": entry.until}


def _sources(at: Session, seen: Picture) -> list[Shape]:
    return [_source(at, seen, key, plan) for key, plan in seen.plans.items() if key.source in _served(seen, key)]


def _served(seen: Picture, key: Key) -> Any:
    return seen.shot.cache.sources(key.source_type)


def _source(at: Session, seen: Picture, key: Key, plan: Plan) -> Shape:
    tally = counted(seen, key, plan, at.rules)
    return {
        "vocabulary": seen.title(key),
        **place(key.source),
        "wanted": tally.wanted,
        "right": tally.in_sync,
        "pending": tally.pending,
        "blocked": tally.blocked,
        "reasons": [*_blocked(tally), *_faults(seen, key, plan, tally)],
    }


def _blocked(tally: CopyCounts) -> list[Shape]:
    return [
        {"reason": reason, "count": len(found), "sample": sorted(ref.namespace or ref.name for ref in found)[:_SAMPLE]}
        for reason, found in sorted(tally.problems().items())
    ]


def _faults(seen: Picture, key: Key, plan: Plan, tally: CopyCounts) -> list[Shape]:
    """What is wrong with the source itself: the sample says what, as there is no namespace to name."""
    faults = [(fault_word(each), each.message) for each in plan.faults]
    told: list[Shape] = [
        {"reason": word, "count": 1, "sample": [message]}
        for word, message in faults
        if word != "no-namespace" or word not in tally.by_reason()  # of that the place itself tells
    ]
    source = seen.shot.cache.get(key.source)
    rests = paused_by(source, seen.registry[key.source_type], seen.shot.cache) if source is not None else ""
    if rests and not plan.blocked:
        told.append({"reason": "held", "count": 0, "sample": [rests]})
    return told


def fault_word(fault: Fault) -> str:
    """A fault's reason as reasons are written here: `FetchError` is `fetch-error`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", fault.reason).lower()


# for people


def _show(shape: Shape, each: bool) -> None:
    sources: list[Shape] = shape["sources"]
    if not sources:
        click.echo("No sources.")
    else:
        groups = [[source] for source in sources] if each else folded(sources, id, _alike)
        headers = ("VOCABULARY", "KIND", "SOURCE", "WANTED", "RIGHT", "PENDING", "BLOCKED", "REASONS")
        table(headers, [_row(group) for group in groups])
        hint(len(sources), len(groups), "sources")
        reasons = [why["reason"] for source in sources for why in source["reasons"]]
        advise(reasons)
        if reasons:
            click.echo("`samara why KIND/NAME -n NAMESPACE` explains one place, and `samara plan` shows every message.")
    if shape["held"]:
        click.echo()
        _show_held(shape["held"], each)


def _show_held(held: list[Shape], each: bool) -> None:
    groups = [[one] for one in held] if each else folded(held, id, _alike_held, _home)
    table(("HELD", "REMOVALS", "SINCE", "UNTIL"), [_held_row(group) for group in groups])
    hint(len(held), len(groups), "held sets")
    sets = plural(len(held), "set")
    click.echo(f"The brake holds {sets} of removals; `samara release KEY` lets one go on, with --discard it stays.")


def _home(held: Shape) -> Hashable:
    """The vocabulary and the namespace of the source."""
    return tuple(held["key"].split("/")[:3:2])


def _alike_held(held: Shape) -> Hashable:
    return _home(held), held["until"]


def _held_row(group: Sequence[Shape]) -> tuple[object, ...]:
    removals = f"{sum(held['count'] for held in group):,}"
    since, until = ([held[name] for held in group] for name in ("since", "until"))
    ends = " to ".join(dict.fromkeys((min(until), max(until))))
    return sample(held["key"] for held in group), removals, min(since), ends


def _alike(source: Shape) -> Hashable:
    """Too many to list: of one vocabulary and kind, with the same to be said of them."""
    pending = source["pending"] > 0
    return source["vocabulary"], source["kind"], pending, tuple(sorted(why["reason"] for why in source["reasons"]))


def _row(group: Sequence[Shape]) -> tuple[object, ...]:
    first = group[0]
    counts = tuple(f"{sum(each[name] for each in group):,}" for name in _COUNTS)
    reasons = "; ".join(f"{why['reason']} ({why['count']:,}): {_sampled(why)}" for why in _merged(group))
    return (first["vocabulary"], first["kind"], sample(_path(each) for each in group), *counts, reasons)


def _path(source: Shape) -> str:
    return f"{source['namespace']}/{source['name']}" if source["namespace"] else str(source["name"])


def _merged(group: Sequence[Shape]) -> list[Shape]:
    """The reasons of several sources, each once."""
    found: dict[str, Shape] = {}
    for why in (why for source in group for why in source["reasons"]):
        same = found.setdefault(why["reason"], {"reason": why["reason"], "count": 0, "sample": []})
        same["count"] += why["count"]
        same["sample"] = list(dict.fromkeys([*same["sample"], *why["sample"]]))[:_SAMPLE]
    return list(found.values())


def _sampled(why: Shape) -> str:
    more = why["count"] - len(why["sample"])
    return sample(why["sample"], _SAMPLE) + (f" and {more:,} more" if more > 0 else "")
