"""One command's conversation with one cluster: the connection, the settings that hold there, and what was seen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any, TypeVar

from samara.app import cluster_policy
from samara.assembly import WELL_KNOWN, Kinds, brake_of, registry_of, store_config
from samara.cli.inspect.secret_values import corrected, readings
from samara.cli.installed import FILE, LABEL, Installed, find_installed
from samara.cli.options import Cluster
from samara.cli.output import note, progress
from samara.core.model import CONFIG_MAP, Key, Ref
from samara.core.names import sample
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.core.writes import Plan
from samara.engine.hold_store import NAME, Entry, endings, entries
from samara.engine.mass_delete import MassDeleteGuard
from samara.environment import discover_kinds
from samara.kube.auth import Access
from samara.kube.client import Client, address, unrestricted
from samara.kube.codec import decode
from samara.kube.discovery import listable
from samara.kube.errors import ConfigError, Forbidden, NotFound, SamaraError, Unreachable
from samara.kube.snapshot import Snapshot, list_cluster
from samara.settings import Settings, load, parse

EVENTS = frozenset({("", "Event"), ("events.k8s.io", "Event")})
"""Nobody copies these, and there are more of them than of anything else."""
_BRIEFLY = 3.0
"""A command that can do without a cluster waits this long for one."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Session:
    """A connection, and the settings by which its answers are given."""

    client: Client
    access: Access
    settings: Settings
    installed: Installed | None
    kinds: Kinds
    unproven: bool = False
    """True where nobody but the cluster says so, and not an administrator: by these nothing is deleted."""
    said: set[str] = field(default_factory=set)
    """What a person has been told already: whoever looks again and again says it once."""

    def say(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            note(text)

    def must_be_proven(self) -> None:
        """Raises where the settings may be anybody's: by another's word nobody's copies are deleted."""
        if self.unproven and self.installed is not None:
            raise ConfigError(
                f"expected settings that an administrator has written, found ConfigMap {self.installed} in a namespace "
                f"that no ClusterRoleBinding labelled {LABEL} names: anybody may have written it; give --config FILE"
            )

    @property
    def registry(self) -> Registry:
        return registry_of(self.settings, self.kinds, own_namespace=self.home)

    @property
    def full_registry(self) -> Registry:
        """With every kind that any vocabulary may have left copies of, served or not."""
        return registry_of(self.settings, {**WELL_KNOWN, **self.kinds}, every_kind=True, own_namespace=self.home)

    @property
    def rules(self) -> ClusterPolicy:
        rules = cluster_policy(self.settings, replace(self.access, namespace=self.home))
        own = (self.installed.namespace,) if self.installed is not None else ()
        return replace(rules, protected=(*rules.protected, *own))

    @property
    def home(self) -> str:
        """The namespace of the operator: where its settings are, else the one that was named."""
        return self.installed.namespace if self.installed is not None else self.access.namespace

    async def held(self) -> dict[str, Entry]:
        """What the brake holds, by key."""
        return entries(await self._hold_book())

    async def brake(self, must_read: bool = False) -> MassDeleteGuard:
        """The brake as the operator has it now: what it holds already, and the Namespaces that it let go lately.

        `must_read` is for whoever deletes: what is held already must be known then.
        """
        holds = MassDeleteGuard(brake_of(self.settings), inf, lambda: 0.0, awaits_record=False)
        book, now = dict[str, Any](), datetime.now(UTC)
        try:
            book = await self._hold_book()
        except Forbidden:
            if must_read:
                raise
            self.say(f"what the brake holds already could not be read in namespace {self.home}")
        holds.remembered = set(entries(book))
        holds.recall({name: (now - when).total_seconds() for name, when in endings(book).items()})
        return holds

    async def _hold_book(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = decode(await self.client.get(address(Ref(CONFIG_MAP, self.home, NAME))))
        except NotFound:
            return {}
        return found


@asynccontextmanager
async def session(cluster: Cluster, config: str | None, asked: str | None = None) -> AsyncIterator[Session]:
    """`asked` is a namespace whose settings come first although the operator need not be there."""
    given = load(config) if config is not None else None
    access = cluster.access()
    async with Client(access, timeout=cluster.timeout, may_write=unrestricted) as client:
        installed = await find_installed(client, asked or cluster.namespace, access.namespace)
        settings = given if given is not None else _told(installed)
        environment = await discover_kinds(client, settings)
        for what, why in environment.missing.items():
            note(f"{what} is left out: {why}")
        unproven = given is None and installed is not None and not installed.proven
        yield Session(client, access, settings, installed, environment.kinds, unproven)


def _told(installed: Installed | None) -> Settings:
    if installed is None:
        wanted = f"ConfigMap labelled {LABEL} with {FILE}"
        note(f"settings: the defaults (no {wanted} was found, and no --config was given)")
        return load(None)
    where = f"ConfigMap {installed}"
    note(f"settings: from {where}")
    return parse(installed.text, where)


async def settings_if_any(cluster: Cluster, config: str | None) -> tuple[Settings, Installed | None]:
    """The settings for a command that needs no cluster: without one it takes the defaults.

    Whoever named a cluster and named it wrongly is told: the defaults would answer another question than was asked.
    """
    if config is not None:
        return load(config), None
    installed: Installed | None = None
    try:
        access = cluster.access()
        async with Client(access, timeout=min(_BRIEFLY, cluster.timeout), may_write=unrestricted) as client:
            installed = await find_installed(client, cluster.namespace, access.namespace)
    except SamaraError as fault:
        if cluster.named and not isinstance(fault, Unreachable):
            raise
        note("settings: the defaults (no cluster could be asked, and no --config was given)")
        return load(None), None
    return _told(installed), installed


@dataclass(frozen=True, slots=True)
class Picture:
    """A cluster as it was seen, and what every key needs there."""

    shot: Snapshot
    registry: Registry
    plans: dict[Key, Plan]

    def title(self, key: Key) -> str:
        return self.registry[key.source_type].vocabulary


async def snapshot(at: Session, of_store: Callable[[str], None], registry: Registry | None = None) -> Snapshot:
    """`of_store` takes what there is to say of the secret manager, where that is not for everybody's ears."""
    read_paths = partial(readings, at.client, store_config(at.settings, at.home), of_store)
    with progress() as told:
        shot = await list_cluster(
            at.client, registry or at.registry, at.home, read_paths, lambda kind: told(f"reading {kind}")
        )
    for kind, why in shot.unknown.items():
        at.say(f"{kind} is left out: {why}")
    return shot


async def whole_snapshot(at: Session) -> Snapshot:
    """With all that any vocabulary may have left behind: also of kinds that no setting names any more."""
    shot = await snapshot(at, at.say, at.full_registry)
    served, silent = await listable(at.client)
    known = EVENTS | {(kind.group, kind.name) for kind in shot.cache.stores}
    more = [kind for kind in served if (kind.group, kind.name) not in known]
    with progress() as told:
        told("looking for copies of other kinds")
        await shot.look_for_marks(more)
    left_out = [*(str(kind) for kind in more if kind in shot.unknown), *silent]
    if left_out:
        at.say(f"not looked at, as they cannot be listed: {sample(left_out)}; copies of theirs would not be found")
    return shot


async def picture(at: Session, shot: Snapshot | None = None) -> Picture:
    shot = shot or await snapshot(at, at.say)
    return Picture(shot, shot.cache.registry, await planned(at, shot))


async def planned(at: Session, shot: Snapshot, keys: Iterable[Key] | None = None) -> dict[Key, Plan]:
    """What these keys need, or all of them; without what is wrong only from where we stand."""
    registry = shot.cache.registry
    made = await shot.plans(at.rules, keys)
    return {key: corrected(key, plan, shot.cache, registry) for key, plan in made.items()}
