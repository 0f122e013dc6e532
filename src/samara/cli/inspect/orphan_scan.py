"""Orphans, which are marked objects that no source wants: what their marks name, and how a user removes them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import click

from samara.cli.inspect.cluster_plans import ClusterPlans
from samara.cli.inspect.forecast import address_as_json
from samara.cli.inspect.namespace_only import marked_origin
from samara.cli.output import note, plural, progress
from samara.cli.session import Session
from samara.core.metadata_keys import ADOPTED
from samara.core.model import Key, Object, Ref, namespace_ref
from samara.core.names import sample
from samara.core.ownership import ByMark, is_recorded
from samara.core.policy import is_paused, paused_by
from samara.core.source_type import SourceType, has_parents
from samara.core.writes import Delete, Release
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.process import FaultPoints
from samara.engine.writer import Applier, Ending
from samara.kube.errors import ConfigError, Forbidden

SOURCE_GONE, NOT_WANTED, MARKS_REMOVED = "source-gone", "not-wanted", "marks-removed"
REASONS = (SOURCE_GONE, NOT_WANTED, MARKS_REMOVED)
"""Why a copy is an orphan. Part of the JSON output: do not rename."""
PROBES = 3
"""Copies of each vocabulary that are removed first, to see whether an operator restores them."""
WATCH_SECONDS = 5.0
"""How long to watch whether an operator restores the first copies that are removed."""
POLL_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Orphan:
    """An object that is a copy by its marks, or was one, and that no source wants."""

    live: Object
    source_type: SourceType | None
    """None for a copy without marks."""
    key: Key
    """The key of its source, built from the text of the mark if these settings have no such source."""
    origin: str
    ours: bool
    """True if we set its marks, so that it may be deleted."""
    reason: str

    @property
    def vocabulary(self) -> str:
        return "" if self.source_type is None else self.source_type.vocabulary

    def as_json(self) -> dict[str, Any]:
        return {
            **address_as_json(self.live.ref),
            "vocabulary": self.vocabulary,
            "origin": self.origin,
            "ours": self.ours,
            "reason": self.reason,
        }


def as_orphan(cluster: ClusterPlans, live: Object) -> Orphan | None:
    """A marked object as an orphan of the first source type whose mark it has. None if it is a copy of none."""
    for source_type in cluster.registry.source_types:
        mark = marked_origin(live, source_type)
        if mark is not None and not _is_disowned(live, source_type):
            source = source_type.ownership.source_of(live, cluster.snapshot.cache)
            key = Key(source_type.name, source or _source_in_mark(live, source_type, mark))
            is_ours = is_recorded(live, source_type.ownership)
            cache = cluster.snapshot.cache
            is_there = cache.get(key.source) is not None or cache.exists_unread(key.source)
            reason = NOT_WANTED if is_there else SOURCE_GONE
            return Orphan(live, source_type, key, source.path if source else mark, is_ours, reason)
    return None


def unmarked_orphan(live: Object) -> Orphan:
    """A copy whose marks another client removed. Its source is not known, so it is never deleted."""
    return Orphan(live, None, Key("", live.ref), "", ours=False, reason=MARKS_REMOVED)


def _is_disowned(live: Object, source_type: SourceType) -> bool:
    """True for an object in create mode: it belongs to its namespace, although it has a mark."""
    return isinstance(source_type.ownership, ByMark) and source_type.ownership.disowned(live)


def _source_in_mark(live: Object, source_type: SourceType, mark: str) -> Ref:
    """The source that a mark names: by its path, or by its namespace if it has the same name as the copy."""
    namespace, _, name = mark.rpartition("/")
    if source_type.resource is not None:
        return Ref(source_type.resource, namespace, name)
    return Ref(live.ref.kind, namespace, name) if namespace else Ref(live.ref.kind, mark, live.ref.name)


def is_own_source(cluster: ClusterPlans, live: Object) -> bool:
    """True if people request copies of the object. False for a copy in a tree, which is a source only as a copy.

    Also false for a recorded copy of a source type whose copies may be sources, such as the Secret of a FishySecret:
    people may request copies of it, but it remains a copy.
    """
    cache, registry = cluster.snapshot.cache, cluster.registry
    ownerships = (source_type.ownership for source_type in registry.source_types)
    if any(ownership.copies_may_be_sources and is_recorded(live, ownership) for ownership in ownerships):
        return False
    source_types = (registry[key.source_type] for key in registry.sources(live, cache))
    return any(
        not has_parents(source_type) or source_type.ownership.source_of(live, cache) is None
        for source_type in source_types
    )


# removal


async def remove_orphans(session: Session, cluster: ClusterPlans, orphans: list[Orphan], yes: bool) -> None:
    """Removes the orphans that we made, within the limit on mass deletion. Asks first, unless `yes` is set.

    Raises if the limit holds some of them.
    """
    removable = [orphan for orphan in orphans if orphan.ours and not must_stay(cluster, orphan)]
    guard = await _read_guard(session)
    held_keys = frozenset(guard.remembered)
    allowed = _allowed(guard, cluster, removable)
    refs = {orphan.live.ref for orphan in allowed}
    held = [orphan for orphan in removable if orphan.live.ref not in refs]
    _announce(len(orphans) - len(removable), allowed, held)
    if allowed and (yes or click.confirm(f"Remove {plural(len(allowed), 'orphan')}?", abort=True, err=True)):
        await remove_copies(session, cluster, allowed)
    if held:
        raise ConfigError(_why_held(held, held_keys))


def must_stay(cluster: ClusterPlans, orphan: Orphan) -> bool:
    """True if its namespace or its source is paused, or if its source cannot be read and so may be paused."""
    cache, ref = cluster.snapshot.cache, orphan.key.source
    if ref.kind in cluster.snapshot.unlisted:
        return True
    namespace, source = cache.get(namespace_ref(orphan.live.ref.namespace)), cache.get(ref)
    is_source_paused = source is not None and paused_by(source, cluster.registry[orphan.key.source_type], cache)
    return bool(is_source_paused) or (namespace is not None and is_paused(namespace))


async def _read_guard(session: Session) -> MassDeleteGuard:
    try:
        return await session.mass_delete_guard(must_read=True)
    except Forbidden as fault:
        raise ConfigError(
            f"expected to read first which deletions the operator holds, found: {fault}; nothing was removed"
        ) from fault


def _allowed(guard: MassDeleteGuard, cluster: ClusterPlans, removable: list[Orphan]) -> list[Orphan]:
    """The orphans that the limit on mass deletion allows to remove, counted as the operator counts.

    Adopted objects always pass, because they are not deleted.
    """
    marked = (as_orphan(cluster, live) for live in cluster.snapshot.marked.values())
    counts = Counter(orphan.key for orphan in marked if orphan is not None and orphan.ours)
    namespace_counts = Counter[str]()
    for key, count in counts.items():
        namespace_counts[key.source.namespace] += count
    groups: dict[Key, list[Orphan]] = defaultdict(list)
    for orphan in removable:
        groups[orphan.key].append(orphan)
    allowed: list[Orphan] = []
    for key, orphans in sorted(groups.items(), key=lambda group: str(group[0])):
        deletes = [Delete(key, orphan.live.ref, orphan.live) for orphan in orphans if not _is_adopted(orphan)]
        passed = {
            delete.ref for delete in guard.check(key, deletes, counts[key], namespace_counts[key.source.namespace])
        }
        namespace_counts[key.source.namespace] -= len(passed)
        allowed += [orphan for orphan in orphans if _is_adopted(orphan) or orphan.live.ref in passed]
    return allowed


def _is_adopted(orphan: Orphan) -> bool:
    return ADOPTED in orphan.live.annotations


def _announce(others: int, allowed: list[Orphan], held: list[Orphan]) -> None:
    why = "not marked by Samara, paused, or of a source that cannot be read"
    staying = f"; {plural(others, 'other')} stay: {why}" if others else ""
    click.echo(
        f"{plural(len(allowed), 'orphan')} to remove, {len(held):,} held by the limit on mass deletion{staying}.",
        err=True,
    )


def _why_held(held: list[Orphan], held_keys: Collection[str]) -> str:
    """Why orphans stay. `held_keys` are those that the operator holds already: only a release deletes them."""
    by_operator = [orphan for orphan in held if str(orphan.key) in held_keys]
    by_limit = [orphan for orphan in held if str(orphan.key) not in held_keys]
    reasons = []
    if by_operator:
        release = sample({f"`samara release {orphan.key}`" for orphan in by_operator})
        reasons.append(f"{_counted(by_operator)} stay: the operator holds their deletion; {release} lets it continue")
    if by_limit:
        reasons.append(
            f"{_counted(by_limit)} stay: expected no more than the limit on mass deletion allows at once (setting"
            " massDelete), found more; remove them by namespace with -n, or give --config with another massDelete"
        )
    return "; ".join(reasons)


def _counted(orphans: Iterable[Orphan]) -> str:
    """The number of the orphans, and a sample of their sources."""
    sources = [f"{orphan.vocabulary} {orphan.origin}" for orphan in orphans]
    return f"{plural(len(sources), 'orphan')} of {sample(set(sources))}"


async def refuse_if_restored(session: Session, cluster: ClusterPlans, copies: list[Orphan]) -> list[Orphan]:
    """Deletes a few copies of each vocabulary, and raises if an operator restores one. Returns the other copies.

    An operator that runs without leader election has no Lease, and one that is in sync writes nothing by itself.
    """
    probes = await _probes(session, cluster, copies)
    failures = await _remove(session, cluster, probes)
    if failures:
        raise ConfigError(f"expected to remove the first copies, found: {sample(failures)}")
    with progress() as show_progress:
        deadline = time.monotonic() + WATCH_SECONDS
        while probes and time.monotonic() < deadline:
            show_progress("watching whether an operator restores a copy")
            for probe in probes:
                live = await cluster.snapshot.read(probe.live.ref)
                if (
                    live is not None
                    and live.uid != probe.live.uid
                    and is_recorded(live, cluster.registry[probe.key.source_type].ownership)
                ):
                    raise ConfigError(
                        f"expected no operator at work, found one that has restored {probe.live.ref}: "
                        "it would restore every copy; stop it first"
                    )
            await asyncio.sleep(POLL_SECONDS)
    removed = {probe.live.ref for probe in probes}
    return [copy for copy in copies if copy.live.ref not in removed]


async def _probes(session: Session, cluster: ClusterPlans, copies: list[Orphan]) -> list[Orphan]:
    """A few copies of each vocabulary that an operator would restore: those that a plan finds wanted and in sync.

    More than one, because the operator may be slow to restore a copy that others delete again and again.
    """
    by_vocabulary: dict[str, list[Orphan]] = defaultdict(list)
    for copy in copies:
        probes = by_vocabulary[copy.vocabulary]
        if len(probes) < PROBES and not _is_adopted(copy) and await _is_in_sync(session, cluster, copy):
            probes.append(copy)
    return [probe for probes in by_vocabulary.values() for probe in probes]


async def _is_in_sync(session: Session, cluster: ClusterPlans, copy: Orphan) -> bool:
    key = cluster.registry.part(copy.key, copy.live.ref.namespace)
    plans = await cluster.snapshot.plans(session.policy, [key])
    return any(step.ref == copy.live.ref and step.rule == "in-sync" for step in plans[key].steps)


async def _remove(session: Session, cluster: ClusterPlans, orphans: list[Orphan]) -> list[str]:
    """Returns the messages about those that stay."""
    snapshot = cluster.snapshot
    applier = Applier(session.client, snapshot.codec, snapshot.cache, cluster.registry, FaultPoints())
    failures: list[str] = []
    with progress() as show_progress:
        for number, orphan in enumerate(orphans, 1):
            show_progress(f"removing {number:,} of {len(orphans):,}")
            write = Release if _is_adopted(orphan) else Delete
            result = await applier.perform(write(orphan.key, orphan.live.ref, orphan.live), verify=False)
            if result.ending is not Ending.DONE:
                failures.append(f"{orphan.live.ref} stays: {result.message}")
    return failures


async def remove_copies(
    session: Session,
    cluster: ClusterPlans,
    orphans: list[Orphan],
    one: str = "orphan",
    many: str = "",
    *,
    removed_before: int = 0,
) -> None:
    """Deletes copies by uid and resource version. Adopted objects stay and lose our marks.

    `one` and `many` are what messages call the copies. `removed_before` counts those that are gone already. Raises if
    some could not be removed.
    """
    failures = await _remove(session, cluster, orphans)
    for failure in failures:
        note(failure)
    total = removed_before + len(orphans)
    removed = total - len(failures)
    click.echo(f"Removed {plural(removed, one, many)}.", err=True)
    if failures:
        raise ConfigError(f"expected to remove {total:,}, removed {removed:,}; look again with `samara orphans`")
