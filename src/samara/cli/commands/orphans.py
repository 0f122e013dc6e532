"""`samara orphans`: marked copies that no source wants, and their removal under the brake."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

import click

from samara.cli.inspect.orphan_removal import remove
from samara.cli.inspect.orphan_scan import Orphan, is_own_source, of_source_types
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, output_flag, wait_for
from samara.cli.output import emit, folded, hint, plural, table
from samara.cli.session import Picture, Session, picture, session, whole_snapshot
from samara.core.model import Kind, Object, Ref, namespace_ref
from samara.core.names import matches_any_glob, sample
from samara.core.ownership import is_recorded
from samara.core.policy import ClusterPolicy
from samara.core.source_type import Protected
from samara.core.writes import Plan


@click.command("orphans", cls=Command)
@click.option("--all", "each", is_flag=True, help="One row per copy, however many there are.")
@click.option("--delete", is_flag=True, help="Delete those that we made, under the brake.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@config_flag
@output_flag()
@kubectl_flags
def command(cluster: Cluster, each: bool, delete: bool, yes: bool, config: str | None, output: str) -> None:
    """Marked copies whose source is gone or that no source wants; with -n in that namespace only.

    Objects of all kinds are looked at, also of those that the settings name no more.
    --delete removes those whose marks we set, by uid and version; what was adopted only loses our marks.
    """

    def tell(found: list[Orphan]) -> None:
        emit(lambda: {"orphans": [orphan.shape() for orphan in found]}, output, lambda: _show(found, each))

    wait_for(_orphans(cluster, config, tell, yes if delete else None))


async def _orphans(
    cluster: Cluster, config: str | None, tell: Callable[[list[Orphan]], None], delete: bool | None
) -> None:
    """`delete` is None where nothing is to be deleted, and true where nobody is asked first."""
    async with session(cluster.anywhere, config) as at:
        if delete is not None:
            at.must_be_proven()
        seen = await picture(at, await whole_snapshot(at))
        here = [each for each in orphans(seen, at.rules) if cluster.namespace in (None, each.live.ref.namespace)]
        found = _certain(at, seen, here)
        tell(found)
        if delete is not None:
            await remove(at, seen, _meant(at, seen, found), delete)


def orphans(seen: Picture, rules: ClusterPolicy) -> Iterator[Orphan]:
    closed = _closed(seen, rules)
    wanted = {ref for plan in seen.plans.values() for ref in plan.desired} - closed
    cache = seen.shot.cache
    for ref, live in sorted(seen.shot.marked.items()):
        namespace = cache.get(namespace_ref(ref.namespace))
        goes = live.deleting or namespace is None or namespace.deleting
        kept = ref in wanted or (ref not in closed and _is_kept(seen, live))
        if not goes and not kept and not is_own_source(seen, live):
            yield from of_source_types(seen, live)


def _certain(at: Session, seen: Picture, found: list[Orphan]) -> list[Orphan]:
    """Without those of which nobody can say that no source wants them: what could not be read is not gone."""
    unread = [[kind for kind in _missing(at, seen, each) if kind in seen.shot.unknown] for each in found]

    def told(over: int, kinds: str) -> str:
        copies = plural(over, "copy", "copies")
        return f"{copies} passed over: whether a source wants them is not known, as {kinds} cannot be listed"

    return _without(at, found, unread, told)


def _meant(at: Session, seen: Picture, found: list[Orphan]) -> list[Orphan]:
    """Without those whose sources went with their definition: that is no wish to delete what they have made."""

    def told(stay: int, kinds: str) -> str:
        return (
            f"{plural(stay, 'orphan')} not removed: the server does not serve {kinds}, and a definition that went is no"
            " wish to delete; to remove them give --config with settings that do not name their vocabulary"
        )

    return _without(at, found, [_missing(at, seen, each) for each in found], told)


def _without(
    at: Session, found: list[Orphan], missing: list[list[Kind]], told: Callable[[int, str], str]
) -> list[Orphan]:
    """Leaves out those for which kinds are missing, and tells how many, and which kinds."""
    over = sum(map(bool, missing))
    if over:
        at.say(told(over, sample({str(kind) for several in missing for kind in several})))
    return [each for each, kinds in zip(found, missing, strict=True) if not kinds]


def _missing(at: Session, seen: Picture, orphan: Orphan) -> list[Kind]:
    """The kinds that are missing for a judgement; a vocabulary that the settings do not name wants nothing anyway.

    Of those that may not be listed nobody knows; the others the server does not know, so there are no sources.
    """
    cache, owner = seen.shot.cache, seen.registry.owner(orphan.live, seen.shot.cache)
    source_type = orphan.source_type if owner is None else seen.registry[owner.source_type]
    if source_type.vocabulary not in at.settings.vocabularies:
        return []
    ready = owner is None or seen.plans.get(owner, Plan()).ready
    needed = source_type.kinds if not ready else () if source_type.resource is None else (source_type.resource,)
    return [kind for kind in needed if not cache.has_synced(kind)]


def _closed(seen: Picture, rules: ClusterPolicy) -> set[Ref]:
    """Places in protected namespaces that a tenant names: what was copied there before they were protected stays."""
    blocked = (each for plan in seen.plans.values() for each in plan.blocked if each.reason == "refused")
    never = (each for each in blocked if seen.registry[each.key.source_type].policy.protected is Protected.REFUSE)
    return {each.ref for each in never if matches_any_glob(rules.protected, each.ref.namespace)}


def _is_kept(seen: Picture, live: Object) -> bool:
    """True for a copy whose source is there and lets it stay, for ever or until what comes in its place is there."""
    cache = seen.shot.cache
    owner = seen.registry.owner(live, cache)
    source = cache.get(owner.source) if owner is not None else None
    if owner is None or source is None or owner not in seen.registry.sources(source, cache):
        return False
    source_type = seen.registry[owner.source_type]
    desired = source_type.desired(owner.source, cache)
    return is_recorded(live, source_type.ownership) and (desired.prune_last or not desired.prune)


def _show(found: list[Orphan], each: bool) -> None:
    if not found:
        click.echo("No orphans.")
        return
    groups = [[orphan] for orphan in found] if each else folded(found, id, _by_origin, _by_kind)
    table(("KIND", "COPIES", "WHERE", "VOCABULARY", "ORIGIN", "OURS"), [_row(group) for group in groups])
    hint(len(found), len(groups), "orphans")


def _by_kind(orphan: Orphan) -> Hashable:
    return orphan.live.ref.kind, orphan.source_type.vocabulary, orphan.ours


def _by_origin(orphan: Orphan) -> Hashable:
    return _by_kind(orphan), orphan.origin


def _row(group: Sequence[Orphan]) -> tuple[object, ...]:
    first, where = group[0], sample(orphan.live.ref.path for orphan in group)
    origins = sample({orphan.origin for orphan in group})
    ours = "yes" if first.ours else "no"
    return (first.live.ref.kind, f"{len(group):,}", where, first.source_type.vocabulary, origins, ours)
