"""`samara status`: every source, how its copies are, and what the brake holds."""

from __future__ import annotations

import re
from typing import Any

import click

from samara.cli.base import Command, config_flag, output_flag
from samara.cli.kubectl_flags import Cluster, kubectl_flags
from samara.cli.outcome import counted, place
from samara.cli.output import emit, plural, table
from samara.cli.session import Picture, Session, picture, session, wait_for
from samara.core.allow import is_paused
from samara.core.match import sample
from samara.core.model import Key
from samara.core.tally import Tally
from samara.core.want import Fault
from samara.core.write import Plan
from samara.engine.holdbook import Entry

_SAMPLE = 3


@click.command("status", cls=Command)
@config_flag
@output_flag()
@kubectl_flags
def command(cluster: Cluster, config: str | None, output: str) -> None:
    """Every source with its vocabulary, its copies wanted, right and blocked, the reasons; what the brake holds."""
    shape = wait_for(_status(cluster, config))
    emit(lambda: shape, output, lambda: _show(shape))


async def _status(cluster: Cluster, config: str | None) -> dict[str, Any]:
    async with session(cluster, config) as at:
        held = await at.held()
        seen = await picture(at)
        return {"sources": _sources(at, seen), "held": [_held(entry) for _, entry in sorted(held.items())]}


def _held(entry: Entry) -> dict[str, Any]:
    return {"key": entry.key, "count": entry.count, "since": entry.since, "until": entry.until}


def _sources(at: Session, seen: Picture) -> list[dict[str, Any]]:
    return [_source(at, seen, key, plan) for key, plan in seen.plans.items() if key.source in _served(seen, key)]


def _served(seen: Picture, key: Key) -> Any:
    return seen.shot.cache.sources(key.dialect)


def _source(at: Session, seen: Picture, key: Key, plan: Plan) -> dict[str, Any]:
    tally = counted(seen, key, plan, at.rules)
    return {
        "dialect": seen.title(key),
        **place(key.source),
        "wanted": tally.wanted,
        "right": tally.right,
        "pending": tally.pending,
        "blocked": tally.blocked,
        "reasons": [*_blocked(tally), *_faults(seen, key, plan, tally)],
    }


def _blocked(tally: Tally) -> list[dict[str, Any]]:
    return [
        {"reason": reason, "count": len(found), "sample": sorted(ref.namespace or ref.name for ref in found)[:_SAMPLE]}
        for reason, found in sorted(tally.by_reason().items())
    ]


def _faults(seen: Picture, key: Key, plan: Plan, tally: Tally) -> list[dict[str, Any]]:
    """What is wrong with the source itself: the sample says what, as there is no namespace to name."""
    faults = [(fault_word(each), each.message) for each in plan.faults]
    told: list[dict[str, Any]] = [
        {"reason": word, "count": 1, "sample": [message]}
        for word, message in faults
        if word != "no-namespace" or word not in tally.by_reason()  # of that the place itself tells
    ]
    source = seen.shot.cache.get(key.source)
    if source is not None and is_paused(source) and not plan.blocked:
        told.append({"reason": "held", "count": 0, "sample": ["the source is paused"]})
    return told


def fault_word(fault: Fault) -> str:
    """A fault's reason as reasons are written here: `FetchError` is `fetch-error`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", fault.reason).lower()


def _show(shape: dict[str, Any]) -> None:
    if not shape["sources"]:
        click.echo("No sources.")
    else:
        headers = ("VOCABULARY", "KIND", "SOURCE", "WANTED", "RIGHT", "PENDING", "BLOCKED", "REASONS")
        table(headers, [_row(each) for each in shape["sources"]])
    if shape["held"]:
        click.echo()
        rows = [(each["key"], each["count"], each["since"], each["until"]) for each in shape["held"]]
        table(("HELD", "REMOVALS", "SINCE", "UNTIL"), rows)
        held = plural(len(shape["held"]), "set")
        click.echo(f"The brake holds {held} of removals; `samara release KEY` lets one go on, with --discard it stays.")


def _row(each: dict[str, Any]) -> tuple[object, ...]:
    source = f"{each['namespace']}/{each['name']}" if each["namespace"] else each["name"]
    reasons = "; ".join(f"{why['reason']} ({why['count']}): {_sampled(why)}" for why in each["reasons"])
    counts = tuple(f"{each[name]:,}" for name in ("wanted", "right", "pending", "blocked"))
    return (each["dialect"], each["kind"], source, *counts, reasons)


def _sampled(why: dict[str, Any]) -> str:
    more = why["count"] - len(why["sample"])
    return sample(why["sample"], _SAMPLE) + (f" and {more:,} more" if more > 0 else "")
