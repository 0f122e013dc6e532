"""Removing marked copies by hand: what stays, what the brake holds, and the deletes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

import click

from samara.cli.inspect.orphan_scan import Orphan, of_source_types
from samara.cli.output import note, plural, progress
from samara.cli.session import Picture, Session
from samara.core.metadata_keys import ADOPTED
from samara.core.model import Key, namespace_ref
from samara.core.names import sample
from samara.core.policy import is_paused, paused_by
from samara.core.writes import Delete, Release
from samara.engine.apply import Applier, Outcome
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.process import FaultPoints
from samara.kube.errors import ConfigError, Forbidden


async def remove(at: Session, seen: Picture, found: list[Orphan], yes: bool) -> None:
    ours = [each for each in found if each.ours and not must_stay(seen, each)]
    holds = await _brake(at)
    waiting = holds.remembered
    free = _free(holds, seen, ours)
    going = {each.live.ref for each in free}
    held = [each for each in ours if each.live.ref not in going]
    _announce(len(found) - len(ours), free, held)
    if free and (yes or click.confirm(f"Remove {plural(len(free), 'orphan')}?", abort=True, err=True)):
        await perform(at, seen, free)
    if held:
        raise ConfigError(_refusal(held, waiting))


def must_stay(seen: Picture, copy: Orphan) -> bool:
    """True while its namespace or its source is paused; a source that cannot be read may be."""
    cache, source = seen.shot.cache, copy.key.source
    if source.kind in seen.shot.unknown:
        return True
    home, asks = cache.get(namespace_ref(copy.live.ref.namespace)), cache.get(source)
    rests = asks is not None and paused_by(asks, seen.registry[copy.key.source_type], cache)
    return bool(rests) or (home is not None and is_paused(home))


async def _brake(at: Session) -> MassDeleteGuard:
    try:
        return await at.brake(must_read=True)
    except Forbidden as fault:
        raise ConfigError(
            f"expected to read first what the brake holds, found: {fault}; nothing was removed"
        ) from fault


def _free(holds: MassDeleteGuard, seen: Picture, ours: list[Orphan]) -> list[Orphan]:
    """Those that the brake lets go, as the operator would judge them; what was adopted is not deleted and passes."""
    marked = (each for live in seen.shot.marked.values() for each in of_source_types(seen, live) if each.ours)
    has = Counter(each.key for each in marked)
    all_has = Counter[str]()
    for key, count in has.items():
        all_has[key.source.namespace] += count
    groups: dict[Key, list[Orphan]] = defaultdict(list)
    for each in ours:
        groups[each.key].append(each)
    free: list[Orphan] = []
    for key, members in sorted(groups.items(), key=lambda group: str(group[0])):
        deletes = [Delete(key, each.live.ref, each.live) for each in members if not _is_adopted(each)]
        passed = {each.ref for each in holds.check(key, deletes, has[key], all_has[key.source.namespace])}
        all_has[key.source.namespace] -= len(passed)
        free += [each for each in members if _is_adopted(each) or each.live.ref in passed]
    return free


def _is_adopted(copy: Orphan) -> bool:
    return ADOPTED in copy.live.annotations


def _announce(others: int, free: list[Orphan], held: list[Orphan]) -> None:
    why = "not marked by us, paused, or of a source that cannot be read"
    stay = f"; {plural(others, 'other')} stay: {why}" if others else ""
    click.echo(f"{plural(len(free), 'orphan')} to remove, {len(held):,} held by the brake{stay}.", err=True)


def _refusal(held: list[Orphan], waiting: Collection[str]) -> str:
    """`waiting` are the keys that the operator holds already: only a release lets them go on."""
    theirs = [each for each in held if str(each.key) in waiting]
    more = [each for each in held if str(each.key) not in waiting]
    told = []
    if theirs:
        release = sample({f"`samara release {each.key}`" for each in theirs})
        told.append(f"{_named(theirs)} stay: the operator holds their removal; {release} lets it go on")
    if more:
        told.append(
            f"{_named(more)} stay: expected no more than the brake lets pass at once (setting massDelete), found more;"
            " remove them by namespace with -n, or give --config with another massDelete"
        )
    return "; ".join(told)


def _named(held: Iterable[Orphan]) -> str:
    each = [f"{copy.source_type.vocabulary} {copy.origin}" for copy in held]
    return f"{plural(len(each), 'orphan')} of {sample(set(each))}"


async def perform(at: Session, seen: Picture, free: list[Orphan], one: str = "orphan", many: str = "") -> None:
    """Deletes by uid and version; what was adopted is given back."""
    applier = Applier(at.client, seen.shot.codec, seen.shot.cache, seen.registry, FaultPoints())
    stay: list[str] = []
    with progress() as told:
        for number, each in enumerate(free, 1):
            told(f"removing {number:,} of {len(free):,}")
            verb = Release if _is_adopted(each) else Delete
            result = await applier.perform(verb(each.key, each.live.ref, each.live), verify=False)
            if result.outcome is not Outcome.DONE:
                stay.append(f"{each.live.ref} stays: {result.message}")
    for text in stay:
        note(text)
    done = len(free) - len(stay)
    click.echo(f"Removed {plural(done, one, many)}.", err=True)
    if done < len(free):
        raise ConfigError(f"expected to remove {len(free):,}, removed {done:,}; look again with `samara orphans`")
