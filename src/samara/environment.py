"""Discovers what the operator depends on in the cluster: kinds, running original controllers, and installed CRDs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from samara import crds, log
from samara.assembly import WELL_KNOWN, Kinds, kinds_in, named_vocabularies, served_source_types
from samara.core.model import LEASE, Kind, Ref
from samara.core.names import sample
from samara.core.vocabulary import OriginalWorkload, RequiredRights, Vocabulary
from samara.engine.leader import boot_time
from samara.kube.client import Client, address, collection
from samara.kube.codec import MALFORMED, decode
from samara.kube.discovery import discover
from samara.kube.errors import ConfigError, Forbidden, NotFound, SamaraError, ServerFault, TooMany, Unreachable
from samara.kube.queries import CRD, is_allowed, may_account, may_any_account
from samara.kube.workloads import Workload, workloads
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
MOST_ACCOUNTS = 100
"""ServiceAccounts with a workload of an original that are asked about, the oldest workloads first."""
RETRY_AFTER = (1.0, 2.0)
"""Seconds until the API server is asked again about one namespace."""


@dataclass(slots=True)
class LeaseObservations:
    """Notes since when each Lease of an original has been unchanged, by a clock that does not jump."""

    clock: Callable[[], float] = boot_time
    unlisted: set[Kind] = field(default_factory=set)
    """The kinds of workloads that may not be listed. That is said once."""
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
    originals = await _running_originals(client, settings, discovered.kinds, leases)
    return Environment(discovered.kinds, discovered.missing, originals, leases)


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


async def _running_originals(
    client: Client, settings: Settings, kinds: Kinds, observed: LeaseObservations
) -> dict[str, str]:
    waiting = leases_of_originals(settings)
    reasons = {
        vocabulary.name: await _reason_to_wait(client, vocabulary, observed)
        for vocabulary, _ in named_vocabularies(settings)
        if vocabulary.name in waiting
    }
    reasons.update(await _running_workloads(client, settings, kinds, observed))
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
    in every namespace. A Lease alone proves nothing, since most users may write Leases in their namespaces."""
    return await _answer(lambda: _has_account(client, namespace, vocabulary, holder))


async def _answer(ask: Callable[[], Awaitable[bool]]) -> bool | SamaraError:
    """Asks again if the API server fails or is busy: tenants can cause many questions, and a vocabulary waits as long
    as the questions about it have no answer."""
    for wait in RETRY_AFTER:
        try:
            return await ask()
        except (TooMany, ServerFault, Unreachable):
            await asyncio.sleep(wait)
        except SamaraError as fault:
            return fault
    try:
        return await ask()
    except SamaraError as fault:
        return fault


async def _has_account(client: Client, namespace: str, vocabulary: Vocabulary[Any], holder: str) -> bool:
    """The holder of a Lease is usually named after its pod, and a pod after its account or the Lease."""
    hints = f"{holder} {vocabulary.original_lease}"
    for kind in vocabulary.custom_resources:
        if await may_any_account(client, namespace, "update", kind, hints):
            return True
    return False


# Originals that hold no Lease


def workloads_of_originals(settings: Settings) -> dict[str, OriginalWorkload]:
    """By vocabulary: the workload of its original, for which it waits unless `takeover` is set."""
    return {
        vocabulary.name: vocabulary.original_workload
        for vocabulary, own in named_vocabularies(settings)
        if vocabulary.original_workload is not None and not own.takeover
    }


async def _running_workloads(
    client: Client, settings: Settings, kinds: Kinds, observed: LeaseObservations
) -> dict[str, str | None]:
    """By vocabulary: why it waits for a workload of its original. None: there is none that runs."""
    originals = workloads_of_originals(settings)
    found: dict[Kind, list[Workload] | SamaraError] = {
        kind: await _listed(client, kind, originals, observed)
        for kind in dict.fromkeys(kind for original in originals.values() for kind in original.kinds)
    }
    reasons: dict[str, str | None] = {}
    for vocabulary, own in named_vocabularies(settings):
        if vocabulary.name not in originals:
            continue
        original, written = originals[vocabulary.name], [kinds[name] for name in vocabulary.kinds(own) if name in kinds]
        written += vocabulary.custom_resources
        running = list[Workload]()
        for kind in original.kinds:
            listed = found[kind]
            if isinstance(listed, SamaraError):
                reasons[vocabulary.name] = f"it is not known whether the original is running: {listed}"
            else:
                running += [one for one in listed if not one.images.isdisjoint(original.images)]
        reasons[vocabulary.name] = reasons.get(vocabulary.name) or await _reason_of(client, running, written)
    return reasons


async def _listed(
    client: Client, kind: Kind, originals: Mapping[str, OriginalWorkload], observed: LeaseObservations
) -> list[Workload] | SamaraError:
    """The workloads of this kind that run an image of an original. None that run if they may not be listed."""
    images = frozenset(image for original in originals.values() for image in original.images)
    try:
        return [one async for one in workloads(client, kind) if one.is_running and not one.images.isdisjoint(images)]
    except (Forbidden, NotFound) as fault:
        if kind not in observed.unlisted:
            observed.unlisted.add(kind)
            names = ",".join(name for name, original in originals.items() if kind in original.kinds)
            log.warning("original.not-looked-for", kind=kind.name, vocabularies=names, why=str(fault))
        return []
    except SamaraError as fault:
        return fault
    except MALFORMED:
        return SamaraError(f"the list of {kind.plural} cannot be read")


async def _reason_of(client: Client, running: list[Workload], written: Iterable[Kind]) -> str | None:
    """Why a vocabulary waits for one of these workloads, of which tenants may have made all."""
    by_account: dict[tuple[str, str], Workload] = {}
    for workload in sorted(running, key=lambda one: (one.created, one.ref.path)):
        by_account.setdefault((workload.ref.namespace, workload.account), workload)
    if len(by_account) > MOST_ACCOUNTS:
        log.warning("original.not-believed", why=f"{len(by_account)} accounts run its image; only the oldest count")
    asked = list(by_account.items())[:MOST_ACCOUNTS]
    answers = await asyncio.gather(*(_answer(partial(_may_write, client, *account, written)) for account, _ in asked))
    unknown = ""
    for (_, workload), answer in zip(asked, answers, strict=True):
        if answer is True:
            return f"original running ({workload.ref}); it must stop first, or set takeover: true"
        if answer is False:
            log.warning("original.not-believed", workload=str(workload.ref), why="its account has not the rights")
        else:
            unknown = f"{workload.ref} runs its image, and it is not known whether it is the original: {answer}"
    return unknown or None


async def _may_write(client: Client, namespace: str, account: str, kinds: Iterable[Kind]) -> bool:
    """True if an account may write objects of one of the kinds everywhere. Only an administrator can grant that."""
    for kind in kinds:
        if await may_account(client, namespace, account, "update", kind):
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
