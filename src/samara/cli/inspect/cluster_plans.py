"""Lists a cluster, and plans every source in it as the operator would."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from samara.assembly import store_config
from samara.cli.inspect.reported import read_secret_paths, with_operator_readings
from samara.cli.output import plural, progress
from samara.cli.session import Session
from samara.cli.suggestions import unknown_namespace
from samara.core.model import Key, Kind, Ref
from samara.core.names import sample
from samara.core.queries import SecretPath, SecretReading
from samara.core.registry import Registry
from samara.core.writes import Delete, Plan
from samara.kube.discovery import listable
from samara.kube.errors import Forbidden, InvalidName
from samara.kube.one_address import OneAddress
from samara.kube.snapshot import OnRead, ReadPaths, Snapshot, list_cluster

_EVENTS = frozenset({("", "Event"), ("events.k8s.io", "Event")})
"""Never copied, and more numerous than all other objects."""


@dataclass(frozen=True, slots=True)
class ClusterPlans:
    """A snapshot of a cluster, and the plan of every key in it."""

    snapshot: Snapshot
    registry: Registry
    plans: dict[Key, Plan]

    def vocabulary(self, key: Key) -> str:
        return self.registry[key.source_type].vocabulary


async def take_snapshot(
    session: Session, registry: Registry | None = None, note_unread: Callable[[str], None] | None = None
) -> Snapshot:
    """Lists every kind of the registry. `note_unread` is called if the secret manager cannot be read from here."""
    with progress() as show_progress:
        snapshot = await list_cluster(
            session.client,
            registry or session.registry,
            session.operator_namespace,
            _read_paths(session, note_unread or session.note_once),
            _show_reading(show_progress, "reading"),
        )
    for kind, reason in snapshot.unlisted.items():
        session.note_once(f"{kind} is left out: {reason}")
    return snapshot


def _show_reading(show_progress: Callable[[str], None], what: str) -> OnRead:
    def on_read(kind: Kind, count: int) -> None:
        show_progress(f"{what} {kind}" + (f": {plural(count, 'object')}" if count else ""))

    return on_read


def _read_paths(session: Session, note_unread: Callable[[str], None]) -> ReadPaths:
    own_namespace = session.operator_namespace
    config = store_config(session.settings, own_namespace)
    if config is None:
        return _no_paths
    return partial(read_secret_paths, session.client, config, own_namespace, note_unread)


async def _no_paths(paths: Collection[SecretPath]) -> dict[str, SecretReading]:
    """Without a vocabulary that reads a secret manager, no plan asks for a path."""
    return {}


async def take_full_snapshot(session: Session) -> Snapshot:
    """Also finds the copies of all vocabularies, served or not, and of kinds that the settings do not name any more."""
    snapshot = await take_snapshot(session, session.full_registry)
    served, unanswered = await listable(session.client)
    listed = _EVENTS | {(kind.group, kind.name) for kind in snapshot.cache.stores}
    others = [kind for kind in served if (kind.group, kind.name) not in listed]
    with progress() as show_progress:
        await snapshot.look_for_marks(others, _show_reading(show_progress, "looking for copies in"))
    left_out = [*(str(kind) for kind in others if kind in snapshot.unlisted), *unanswered]
    if left_out:
        kinds = sample(left_out)
        session.note_once(f"not searched, because they cannot be listed: {kinds}; copies of these kinds are not found")
    return snapshot


class Waiting(NamedTuple):
    """A vocabulary that the settings serve, and that waits for its CRD."""

    vocabulary: str
    kind: Kind
    message: str


def note_waiting(session: Session, snapshot: Snapshot) -> list[Waiting]:
    """The vocabularies that wait for their CRD. Prints a note about all of them."""
    served = [source_type for source_type in snapshot.cache.registry.source_types if source_type.enabled]
    kinds = {source_type.resource: source_type.vocabulary for source_type in served if source_type.resource is not None}
    waiting = [Waiting(kinds[kind], kind, why) for kind, why in snapshot.undefined.items() if kind in kinds]
    if waiting:
        named = ", ".join(f"{entry.vocabulary} (no {entry.kind.name})" for entry in waiting)
        session.note_once(f"not served until the CRD is installed: {named}; `samara crds` prints them")
    return waiting


def note_unknown_namespace(session: Session, snapshot: Snapshot, name: str | None) -> None:
    """Notes that the namespace that -n names does not exist. Otherwise an empty answer would look like a good one."""
    names = list(snapshot.cache.namespaces())
    if name and name not in names:
        session.note_once(unknown_namespace(name, names))


async def plan_cluster(session: Session, snapshot: Snapshot | None = None) -> ClusterPlans:
    """Plans every source in the snapshot, or in a new one."""
    snapshot = snapshot or await take_snapshot(session)
    return ClusterPlans(snapshot, snapshot.cache.registry, await plan_keys(session, snapshot))


async def plan_one_address(session: Session, ref: Ref, note_unread: Callable[[str], None]) -> ClusterPlans | None:
    """Plans the sources of one address for its namespace, and the object there if it is an annotated source. Reads only
    what these plans need.

    None if the whole cluster must be read: for a custom resource, for an object outside of namespaces, for a deletion,
    which the limit on mass deletion counts together with all others, and if something may not be read.
    """
    if not ref.kind.namespaced or ref.kind in session.registry.resources:
        return None
    one = OneAddress(
        session.client, session.registry, session.operator_namespace, _read_paths(session, note_unread), ref
    )
    try:
        await one.read()
        plans = await one.plan(session.policy)
    except (Forbidden, InvalidName):
        return None
    if plans is None:
        return None
    if any(isinstance(write, Delete) for plan in plans.values() for write in plan.writes):
        return None
    registry = one.snapshot.cache.registry
    plans = {key: with_operator_readings(key, plan, one.snapshot.cache, registry) for key, plan in plans.items()}
    return ClusterPlans(one.snapshot, registry, plans)


async def plan_keys(session: Session, snapshot: Snapshot, keys: Iterable[Key] | None = None) -> dict[Key, Plan]:
    """The plans of these keys, or of all, with the operator's readings of the secret manager in place of ours."""
    with progress() as show_progress:
        plans = await snapshot.plans(
            session.policy, keys, lambda number, total: show_progress(f"planning source {number:,} of {total:,}")
        )
    registry = snapshot.cache.registry
    return {key: with_operator_readings(key, plan, snapshot.cache, registry) for key, plan in plans.items()}
