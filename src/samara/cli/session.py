"""The connection of one command to a cluster, and the settings that the operator has there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf
from typing import Any

from samara.assembly import HOLDS, WELL_KNOWN, Kinds, cluster_policy, mass_delete_limit, registry_of
from samara.cli.options import Cluster
from samara.cli.output import note
from samara.core.metadata_keys import APP
from samara.core.model import CONFIG_MAP, Kind, Ref
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.engine.hold_records import HoldRecord, deleted_namespaces, records
from samara.engine.mass_delete import MassDeleteGuard
from samara.environment import discover_kinds
from samara.kube.auth import Access
from samara.kube.client import Client, address, collection, unrestricted
from samara.kube.codec import decode
from samara.kube.errors import ConfigError, Forbidden, NotFound, SamaraError, Unreachable
from samara.settings import Settings, load, parse

LABEL = f"{APP}=samara"
FILE = "config.yaml"
DEFAULT_NAMESPACE = "samara"
_BINDING = Kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)


@dataclass(frozen=True, slots=True)
class Installed:
    """The operator's settings in the cluster, and the ConfigMap that has them."""

    namespace: str
    name: str
    text: str
    is_proven: bool
    """True if the user named the namespace, or if a ClusterRoleBinding of ours gives it rights in the whole cluster.

    Every tenant can put our label on a ConfigMap. Only an administrator can create such a binding.
    """

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Session:
    """A connection, and the settings that its answers follow."""

    client: Client
    access: Access
    settings: Settings
    installed: Installed | None
    kinds: Kinds
    is_unproven: bool = False
    """True if a tenant could have written the settings. Commands that delete then need --config."""
    notes: set[str] = field(default_factory=set)
    """The notes that were printed already."""

    def note_once(self, text: str) -> None:
        """Prints a note unless it was printed before. `--watch` would repeat it in every round."""
        if text not in self.notes:
            self.notes.add(text)
            note(text)

    def require_proven_settings(self) -> None:
        """Raises if a tenant could have written the settings: they decide whose copies are deleted."""
        if self.is_unproven and self.installed is not None:
            raise ConfigError(
                f"expected settings that an administrator has written, found ConfigMap {self.installed} in a namespace "
                f"that no ClusterRoleBinding labelled {LABEL} names: any client may have written it; give --config FILE"
            )

    @property
    def registry(self) -> Registry:
        """The source types that the settings serve."""
        return registry_of(self.settings, self.kinds, own_namespace=self.operator_namespace)

    @property
    def full_registry(self) -> Registry:
        """The source types of all vocabularies, served or not, with every kind of which they may have left copies."""
        kinds = {**WELL_KNOWN, **self.kinds}
        return registry_of(self.settings, kinds, every_kind=True, own_namespace=self.operator_namespace)

    @property
    def policy(self) -> ClusterPolicy:
        """The operator's policy. Its namespace is protected, wherever this command runs."""
        policy = cluster_policy(self.settings, self.operator_namespace, in_cluster=self.access.in_cluster)
        own = (self.installed.namespace,) if self.installed is not None else ()
        return replace(policy, protected=(*policy.protected, *own))

    @property
    def operator_namespace(self) -> str:
        """The namespace of the operator's settings, else the one that -n or the kubeconfig names."""
        return self.installed.namespace if self.installed is not None else self.access.namespace

    async def held_deletions(self) -> dict[str, HoldRecord]:
        """The deletions that the operator holds, by key."""
        return records(await self._read_hold_store())

    async def mass_delete_guard(self, must_read: bool = False) -> MassDeleteGuard:
        """The limit on mass deletion in the operator's present state: held deletions, and recent ones of Namespaces.

        With `must_read`, for commands that delete, it raises if that state cannot be read.
        """
        guard = MassDeleteGuard(mass_delete_limit(self.settings), inf, lambda: 0.0, awaits_record=False)
        config_map: dict[str, Any] = {}
        try:
            config_map = await self._read_hold_store()
        except Forbidden:
            if must_read:
                raise
            self.note_once(
                f"the deletions that the operator holds could not be read in namespace {self.operator_namespace}"
            )
        now = datetime.now(UTC)
        deleted = deleted_namespaces(config_map)
        ages = {name: (now - entry.when).total_seconds() for name, entry in deleted.items()}
        guard.restore(records(config_map), ages, {name: entry.tree for name, entry in deleted.items()})
        return guard

    async def _read_hold_store(self) -> dict[str, Any]:
        """The ConfigMap with the held deletions. Empty if there is none."""
        ref = Ref(CONFIG_MAP, self.operator_namespace, HOLDS)
        try:
            config_map: dict[str, Any] = decode(await self.client.get(address(ref)))
        except NotFound:
            return {}
        return config_map


@asynccontextmanager
async def open_session(cluster: Cluster, config: str | None) -> AsyncIterator[Session]:
    """Connects, and reads the settings: those of the file, else those in the cluster, else the defaults.

    If the cluster has several, those in its namespace are taken.
    """
    from_file = load(config) if config is not None else None
    access = cluster.access()
    async with Client(access, timeout=cluster.timeout, may_write=unrestricted) as client:
        installed = await find_installed(client, cluster.namespace, access.namespace)
        settings = from_file if from_file is not None else _parse_installed(installed)
        environment = await discover_kinds(client, settings)
        for kind, reason in environment.missing.items():
            note(f"{kind} is left out: {reason}")
        is_unproven = from_file is None and installed is not None and not installed.is_proven
        yield Session(client, access, settings, installed, environment.kinds, is_unproven)


def _parse_installed(installed: Installed | None) -> Settings:
    """The settings in the cluster, else the defaults. Notes which of the two."""
    if installed is None:
        note(f"settings: the defaults (no ConfigMap labelled {LABEL} with {FILE} was found, and no --config was given)")
        return load(None)
    source = f"ConfigMap {installed}"
    note(f"settings: from {source}")
    return parse(installed.text, source)


async def settings_or_defaults(cluster: Cluster, config: str | None) -> tuple[Settings, Installed | None]:
    """The settings for a command that can do without a cluster: if there is none, it takes the defaults.

    Raises if the cluster that flags name refuses: the user asked for the settings there, not for the defaults.
    """
    if config is not None:
        return load(config), None
    installed: Installed | None = None
    try:
        access = cluster.access()
        async with Client(access, timeout=cluster.optional_timeout, may_write=unrestricted) as client:
            installed = await find_installed(client, cluster.namespace, access.namespace)
    except SamaraError as fault:
        if cluster.is_named and not isinstance(fault, Unreachable):
            raise
        note("settings: the defaults (no cluster could be reached, and no --config was given)")
        return load(None), None
    return _parse_installed(installed), installed


# the settings in the cluster


async def find_installed(client: Client, requested: str | None, own: str) -> Installed | None:
    """The ConfigMap in the `requested` namespace, else a proven one, else the one in our `own` namespace, else any."""
    labelled = await _labelled_settings(client, requested or own)
    if not labelled:
        return None
    bound = await _bound_namespaces(client)
    candidates = [
        Installed(namespace, name, text, is_proven=namespace == requested or namespace in bound)
        for namespace, name, text in labelled
    ]
    candidates.sort(
        key=lambda settings: (
            settings.namespace != requested,
            not settings.is_proven,
            settings.namespace != own,
            str(settings),
        )
    )
    if len(candidates) > 1:
        names = ", ".join(sorted(map(str, candidates)))
        note(f"found more than one ConfigMap with settings ({names}); --config FILE names others")
    return candidates[0]


async def find_operator_namespace(client: Client, otherwise: str) -> str:
    """The namespace of proven settings, else `otherwise`."""
    return operator_namespace_of(None, await find_installed(client, None, otherwise), otherwise)


def operator_namespace_of(
    requested: str | None, installed: Installed | None, otherwise: str = DEFAULT_NAMESPACE
) -> str:
    """The operator's namespace: the requested one, else that of its settings if they are proven."""
    return requested or (installed.namespace if installed is not None and installed.is_proven else otherwise)


async def _labelled_settings(client: Client, own: str) -> list[tuple[str, str, str]]:
    """Namespace, name and text of each ConfigMap: in every namespace, or in `own` if we may not list them all."""
    for namespace in ("", own):
        try:
            raw = await client.get(collection(CONFIG_MAP, namespace), {"labelSelector": LABEL})
        except Forbidden:
            continue
        items: list[dict[str, Any]] = decode(raw).get("items") or []
        return [
            (item["metadata"]["namespace"], item["metadata"]["name"], item["data"][FILE])
            for item in items
            if FILE in (item.get("data") or {})
        ]
    note("the operator's settings may exist, but the ConfigMaps may not be listed")
    return []


async def _bound_namespaces(client: Client) -> frozenset[str]:
    """The namespaces whose ServiceAccounts a ClusterRoleBinding of ours names. Empty if we may not list bindings."""
    try:
        raw = await client.get(collection(_BINDING), {"labelSelector": LABEL})
    except Forbidden:
        return frozenset()
    subjects = [subject for item in decode(raw).get("items") or () for subject in item.get("subjects") or ()]
    return frozenset(subject.get("namespace", "") for subject in subjects if subject.get("kind") == "ServiceAccount")
