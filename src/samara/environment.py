"""Discovers what the operator depends on in the cluster: kinds, running original controllers, and installed CRDs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from samara import crds, log
from samara.assembly import WELL_KNOWN, Kinds, kinds_in, named_vocabularies, served_source_types
from samara.core.model import LEASE, Kind, Ref
from samara.core.names import sample
from samara.core.vocabulary import RequiredRights, Vocabulary
from samara.engine.leader import boot_time
from samara.kube.client import Client, address, collection
from samara.kube.codec import MALFORMED, decode
from samara.kube.discovery import discover
from samara.kube.errors import ConfigError, Forbidden, NotFound, SamaraError, ServerFault, TooMany, Unreachable
from samara.kube.queries import CRD, is_allowed, may_any_account
from samara.settings import Settings

Json = dict[str, Any]

DEFAULT_LEASE_SECONDS = 15
CLOCK_SKEW = timedelta(minutes=1)
"""How far clocks in a cluster may differ. A renewTime further in the future than this does not count as live."""
MAX_CLOCK_ERROR = timedelta(hours=2)
"""A Lease whose renewTime differs more from our time has no holder. Any nearer one may: a clock may be wrong."""
MOST_NAMESPACES = 20
"""Namespaces with a Lease of an original that are asked about. Tenants may have many; an original has one, and it is
among the oldest."""
RETRY_AFTER = (1.0, 2.0)
"""Seconds until the API server is asked again about one namespace."""


@dataclass(slots=True)
class LeaseObservations:
    """Notes since when each Lease of an original has been unchanged, by a clock that does not jump."""

    clock: Callable[[], float] = boot_time
    _unchanged_since: dict[str, tuple[str, float]] = field(default_factory=dict)

    def is_held(self, lease: Json) -> bool:
        """True until a Lease with a holder has been unchanged for twice its duration."""
        spec, meta = lease.get("spec") or {}, lease.get("metadata") or {}
        renewed = _renewed(spec)
        if not spec.get("holderIdentity") or renewed is None or abs(datetime.now(UTC) - renewed) > MAX_CLOCK_ERROR:
            return False
        name, version = f"{meta.get('namespace')}/{meta.get('name')}", str(meta.get("resourceVersion"))
        known, since = self._unchanged_since.get(name, ("", 0.0))
        if known != version:
            since = self.clock()
            self._unchanged_since[name] = version, since
        return self.clock() - since <= 2 * _duration(spec).total_seconds()


@dataclass(frozen=True, slots=True)
class Environment:
    """The operator is built for one environment, and rebuilt when it changes."""

    kinds: Kinds = field(default_factory=lambda: WELL_KNOWN)
    missing: dict[str, str] = field(default_factory=dict)
    """By kind: why it cannot be served. The API server does not have it, or refuses to answer."""
    originals: dict[str, str] = field(default_factory=dict)
    """By vocabulary: why it waits for its original controller."""
    leases: LeaseObservations = field(default_factory=LeaseObservations, compare=False)
    """Shared by successive discoveries: it takes several to see that a Lease does not change."""

    @property
    def waiting(self) -> dict[str, str]:
        return {**self.missing, **self.originals}

    def serves_same_as(self, other: Environment) -> bool:
        """True if the same is served and the same waits, even for another reason."""
        return (
            self.kinds == other.kinds
            and self.missing.keys() == other.missing.keys()
            and self.originals.keys() == other.originals.keys()
        )


async def discover_environment(client: Client, settings: Settings, before: Environment | None = None) -> Environment:
    """`before` is the result of the last discovery."""
    discovered = await discover_kinds(client, settings)
    leases = (before or Environment()).leases
    return Environment(discovered.kinds, discovered.missing, await _running_originals(client, settings, leases), leases)


async def discover_at_start(client: Client, settings: Settings) -> Environment:
    """Raises ConfigError if a required right is missing, instead of failing later on single objects."""
    environment = await discover_environment(client, settings)
    for vocabulary, own in named_vocabularies(settings):
        if vocabulary.rights.required is not None:
            kinds = [environment.kinds[name] for name in vocabulary.kinds(own) if name in environment.kinds]
            await _require(client, vocabulary.rights.required, kinds)
    await warn_of_outdated_crds(client, settings)
    return environment


async def unless_stopped(stop: asyncio.Event, discovery: Coroutine[None, None, Environment]) -> Environment | None:
    """The result of a discovery. None if `stop` is set first, since an API server may take long to answer."""
    discovering, stopping = asyncio.create_task(discovery), asyncio.create_task(stop.wait())
    await asyncio.wait((discovering, stopping), return_when=asyncio.FIRST_COMPLETED)
    for task in (discovering, stopping):
        task.cancel()
    return discovering.result() if discovering.done() else None


async def _require(client: Client, rights: RequiredRights, kinds: Iterable[Kind]) -> None:
    """Raises ConfigError if one of these rights on these kinds is missing."""
    needed = [(verb, kind) for kind in kinds for verb in rights.verbs]
    allowed = await asyncio.gather(*(_is_allowed(client, verb, kind) for verb, kind in needed))
    fault = rights.fault(right for right, is_granted in zip(needed, allowed, strict=True) if not is_granted)
    if fault is not None:
        raise ConfigError(fault)


async def _is_allowed(client: Client, verb: str, kind: Kind) -> bool:
    """True if the operator has a right in every namespace, or if that cannot be found out."""
    try:
        return await is_allowed(client.request, verb, kind)
    except SamaraError:
        return True


# Kinds


async def discover_kinds(client: Client, settings: Settings) -> Environment:
    """Discovers the kinds only. Commands use it, since they may run while an original controller does."""
    discovered = await discover(client, kinds_in(settings), WELL_KNOWN)
    for vocabulary, own in named_vocabularies(settings):
        kinds = [discovered.kinds[name] for name in vocabulary.kinds(own) if name in discovered.kinds]
        fault = vocabulary.rights.refused_kind(vocabulary.name, kinds)
        if fault is not None:
            raise ConfigError(fault)
    missing = {f"{name.group}/{name.version}/{name.kind}".lstrip("/"): why for name, why in discovered.missing.items()}
    return Environment(discovered.kinds, missing)


# Original controllers


async def _running_originals(client: Client, settings: Settings, leases: LeaseObservations) -> dict[str, str]:
    waiting = leases_of_originals(settings)
    reasons = {
        vocabulary.name: await _reason_to_wait(client, vocabulary, leases)
        for vocabulary, _ in named_vocabularies(settings)
        if vocabulary.name in waiting
    }
    return {vocabulary: why for vocabulary, why in reasons.items() if why is not None}


def leases_of_originals(settings: Settings) -> dict[str, str]:
    """By vocabulary: the Lease of its original, for which it waits unless `takeover` is set."""
    return {
        vocabulary.name: vocabulary.original_lease
        for vocabulary, own in named_vocabularies(settings)
        if vocabulary.original_lease and not own.takeover
    }


async def _reason_to_wait(client: Client, vocabulary: Vocabulary[Any], leases: LeaseObservations) -> str | None:
    lease = vocabulary.original_lease
    try:
        raw = await client.get(collection(LEASE), {"fieldSelector": f"metadata.name={lease}"})
    except (Forbidden, NotFound):
        return None  # without the original, this right need not be granted
    except SamaraError as fault:
        return f"it is not known whether the original is running: {fault}"
    held = sorted(
        (str(item["metadata"].get("creationTimestamp")), item["metadata"]["namespace"], item["spec"]["holderIdentity"])
        for item in decode(raw).get("items") or ()
        if leases.is_held(item)
    )
    if len(held) > MOST_NAMESPACES:
        log.warning("original.not-believed", lease=lease, why=f"there are {len(held)}; only the oldest count")
    held = held[:MOST_NAMESPACES]
    answers = await asyncio.gather(*(_may_run_in(client, space, vocabulary, holder) for _, space, holder in held))
    for (_, namespace, _), answer in zip(held, answers, strict=True):
        if answer is False:
            log.warning("original.not-believed", lease=f"{namespace}/{lease}", why="no account there has its rights")
    if True in answers:
        return f"original running (Lease {lease}); it must stop first, or set takeover: true"
    reason = f"Lease {lease} is held, and it is not known whether the original holds it"
    return next((f"{reason}: {answer}" for answer in answers if isinstance(answer, SamaraError)), None)


async def _may_run_in(client: Client, namespace: str, vocabulary: Vocabulary[Any], holder: str) -> bool | SamaraError:
    """True if an administrator installed an original in this namespace: an account there may write its custom resources
    in every namespace. A Lease alone proves nothing, since most users may write Leases in their namespaces.

    Asks again if the API server fails or is busy: tenants can cause many questions, and a vocabulary waits as long as
    the questions about it have no answer.
    """
    for wait in RETRY_AFTER:
        try:
            return await _has_account(client, namespace, vocabulary, holder)
        except (TooMany, ServerFault, Unreachable):
            await asyncio.sleep(wait)
        except SamaraError as fault:
            return fault
    try:
        return await _has_account(client, namespace, vocabulary, holder)
    except SamaraError as fault:
        return fault


async def _has_account(client: Client, namespace: str, vocabulary: Vocabulary[Any], holder: str) -> bool:
    """The holder of a Lease is usually named after its pod, and a pod after its account or the Lease."""
    hints = f"{holder} {vocabulary.original_lease}"
    for kind in vocabulary.custom_resources:
        if await may_any_account(client, namespace, "update", kind, hints):
            return True
    return False


def is_live(spec: Json) -> bool:
    """True if the holder of this Lease renewed it lately, judged by one read and our own clock."""
    renewed, now = _renewed(spec), datetime.now(UTC)
    if not spec.get("holderIdentity") or renewed is None:
        return False
    return -CLOCK_SKEW <= now - renewed < 2 * _duration(spec)


def _renewed(spec: Json) -> datetime | None:
    try:
        renewed = datetime.fromisoformat(str(spec["renewTime"]))
    except (KeyError, ValueError):
        return None
    return renewed if renewed.tzinfo is not None else None


def _duration(spec: Json) -> timedelta:
    try:
        return timedelta(seconds=int(spec.get("leaseDurationSeconds") or DEFAULT_LEASE_SECONDS))
    except (ValueError, OverflowError, TypeError):
        return timedelta(seconds=DEFAULT_LEASE_SECONDS)


# CRDs


async def warn_of_outdated_crds(client: Client, settings: Settings) -> None:
    """Warns of installed CRDs that lack fields of ours, because the API server drops such fields silently."""
    for name in crds.needed(
        source_type.resource for source_type in served_source_types(settings) if source_type.resource is not None
    ):
        try:
            installed = decode(await client.get(address(Ref(CRD, "", name))))
        except (SamaraError, *MALFORMED):
            continue  # if it is missing, or may not be read, the watch of its kind reports that
        missing = missing_fields(installed, crds.definition(name))
        if missing:
            log.warning(
                "definition.older",
                name=name,
                lacks=sample(missing),
                then="the server drops these fields; apply what `samara crds` prints",
            )


def missing_fields(installed: Json, shipped: Json) -> list[str]:
    """The fields of the shipped CRD that the installed one lacks, in the versions that both have."""
    installed_schemas = _schemas(installed)
    return [
        f"{version} {path}"
        for version, schema in _schemas(shipped).items()
        if version in installed_schemas
        for path in _missing_paths(installed_schemas[version], schema, "")
        if path.startswith(("spec", "status"))
    ]


def _schemas(crd: Json) -> dict[str, Json]:
    schemas = {
        version["name"]: (version.get("schema") or {}).get("openAPIV3Schema") for version in crd["spec"]["versions"]
    }
    return {version: schema for version, schema in schemas.items() if schema}


def _missing_paths(installed: Json, shipped: Json, path: str) -> Iterator[str]:
    if installed.get("x-kubernetes-preserve-unknown-fields"):
        return
    known = installed.get("properties") or {}
    for name, schema in (shipped.get("properties") or {}).items():
        below = f"{path}.{name}".lstrip(".")
        if name in known:
            yield from _missing_paths(known[name], schema, below)
        else:
            yield below
    if "items" in shipped:
        yield from _missing_paths(installed.get("items") or {}, shipped["items"], f"{path}[]")
