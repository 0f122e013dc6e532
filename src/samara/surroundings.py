"""What the operator finds before it serves: the kinds that settings name, and originals that are still at work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from samara.core.kinds import is_denied
from samara.core.model import Kind
from samara.dialects.accurate.config import VERBS, cluster_scoped, lacking
from samara.engine.lease import LEASE, boot_time
from samara.kube.client import Client, collection
from samara.kube.codec import decode
from samara.kube.discovery import discover
from samara.kube.errors import ConfigError, Forbidden, NotFound, SamaraError
from samara.kube.rights import may
from samara.settings import KindName, Settings
from samara.vocabularies import WELL_KNOWN, Kinds, kinds_for_all, kinds_in, kinds_of_trees

ORIGINALS = {"resource-distribution": "kruise-manager", "accurate": "accurate", "fishysecret": "dd9fe84d.2v.pm"}
"""By vocabulary: the Lease of the program that served it before."""
_USUAL = 15
_ASKEW = timedelta(minutes=1)
"""How far clocks in a cluster may differ. A renewTime further in the future than this does not count as live."""
_WRONG = timedelta(hours=2)
"""So far a clock may be wrong: a Lease that is nearer than that to our time is looked at for longer."""


@dataclass(slots=True)
class Sightings:
    """Since when, by a clock that does not jump, each Lease of an original has been as it is."""

    clock: Callable[[], float] = boot_time
    _since: dict[str, tuple[str, float]] = field(default_factory=dict)

    def is_kept(self, lease: dict[str, Any]) -> bool:
        """True until a Lease that somebody holds has been seen unchanged for twice its duration."""
        spec, meta = lease.get("spec") or {}, lease.get("metadata") or {}
        renewed, lasts = _renewed(spec), _lasts(spec)
        if not spec.get("holderIdentity") or renewed is None or abs(datetime.now(UTC) - renewed) > _WRONG:
            return False
        place, version = f"{meta.get('namespace')}/{meta.get('name')}", str(meta.get("resourceVersion"))
        known, since = self._since.get(place, ("", 0.0))
        if known != version:
            known, since = self._since[place] = version, self.clock()
        return self.clock() - since <= 2 * lasts.total_seconds()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where it is not the same as before, the operator begins anew."""

    kinds: Kinds = field(default_factory=lambda: WELL_KNOWN)
    missing: dict[str, str] = field(default_factory=dict)
    """Kinds that the server does not have, or does not tell about, and why."""
    originals: dict[str, str] = field(default_factory=dict)
    """Vocabularies that wait for somebody else to stop."""
    sightings: Sightings = field(default_factory=Sightings, compare=False)
    """What the next look has to know of this one."""

    @property
    def waiting(self) -> dict[str, str]:
        return {**self.missing, **self.originals}

    def is_as(self, other: Surroundings) -> bool:
        """True where the same is served and waited for; why it is waited for may be said in other words."""
        mine, theirs = ((each.kinds, each.missing.keys(), each.originals.keys()) for each in (self, other))
        return mine == theirs


async def look_around(client: Client, settings: Settings, before: Surroundings | None = None) -> Surroundings:
    found, sightings = await find_kinds(client, settings), (before or Surroundings()).sightings
    return Surroundings(found.kinds, found.missing, await _originals(client, settings, sightings), sightings)


async def first_look(client: Client, settings: Settings) -> Surroundings:
    """The same at the start, where a right that is missing stops it: people shall not find out one by one."""
    found = await look_around(client, settings)
    kinds = [found.kinds[name] for name in kinds_of_trees(settings) if name in found.kinds]
    asked = [(verb, kind) for kind in kinds for verb in VERBS]
    allowed = await asyncio.gather(*(_may(client, verb, kind) for verb, kind in asked))
    fault = lacking(pair for pair, may in zip(asked, allowed, strict=True) if not may)
    if fault is not None:
        raise ConfigError(fault)
    return found


async def looked_until(stop: asyncio.Event, look: Coroutine[None, None, Surroundings]) -> Surroundings | None:
    """What a look finds; nothing where a signal comes first: a server that does not answer must not keep us."""
    looking, stopping = asyncio.create_task(look), asyncio.create_task(stop.wait())
    await asyncio.wait((looking, stopping), return_when=asyncio.FIRST_COMPLETED)
    for each in (looking, stopping):
        each.cancel()
    return looking.result() if looking.done() else None


async def _may(client: Client, verb: str, kind: Kind) -> bool:
    """What the server says of our own right, in every namespace; no answer is no reason to stop."""
    try:
        return await may(client.request, verb, kind)
    except SamaraError:
        return True


async def find_kinds(client: Client, settings: Settings) -> Surroundings:
    """The kinds alone, for those who do not serve."""
    found = await discover(client, kinds_in(settings), WELL_KNOWN)
    _refuse_denied([found.kinds[name] for name in kinds_for_all(settings) if name in found.kinds], settings)
    _refuse_cluster_scoped([found.kinds[name] for name in kinds_of_trees(settings) if name in found.kinds])
    missing = {f"{name.group}/{name.version}/{name.kind}".lstrip("/"): why for name, why in found.missing.items()}
    return Surroundings(found.kinds, missing)


def _refuse_cluster_scoped(kinds: Iterable[Kind]) -> None:
    fault = cluster_scoped(kinds)
    if fault is not None:
        raise ConfigError(fault)


def _refuse_denied(kinds: Iterable[Kind], settings: Settings) -> None:
    """What a name alone does not tell: it is the server that knows what has no namespace."""
    for kind in filter(is_denied, kinds):
        named = KindName(kind.group, kind.version, kind.name)
        keys = [
            f"vocabularies.{name}.kinds"
            for name, own in settings.vocabularies.items()
            if named in getattr(own, "kinds", ())
        ]
        expected = "expected kinds that may be copied; kinds that have no namespace are never copied"
        raise ConfigError(f"{', '.join(keys)}: found {kind}, {expected}")


async def _originals(client: Client, settings: Settings, seen: Sightings) -> dict[str, str]:
    found = {name: await _is_at_work(client, lease, seen) for name, lease in leases_of_originals(settings).items()}
    return {name: why for name, why in found.items() if why is not None}


def leases_of_originals(settings: Settings) -> dict[str, str]:
    """By vocabulary: the Lease that must not be live, unless a take-over is meant."""
    return {
        name: lease
        for name, lease in ORIGINALS.items()
        if name in settings.vocabularies and not settings.vocabularies[name].takeover
    }


async def _is_at_work(client: Client, lease: str, seen: Sightings) -> str | None:
    """Why a vocabulary has to wait, if it has."""
    try:
        raw = await client.get(collection(LEASE), {"fieldSelector": f"metadata.name={lease}"})
    except (Forbidden, NotFound):
        return None  # it cannot be known, and must not stop those who do not use the original
    except SamaraError as fault:
        return f"whether the original is running is not known: {fault}"
    kept = [seen.is_kept(each) for each in decode(raw).get("items") or ()]
    return f"original running (Lease {lease}); it must stop first, or set takeover: true" if any(kept) else None


def is_live(spec: dict[str, Any]) -> bool:
    """True where whoever holds this Lease has renewed it, and not long ago, as far as one look can tell."""
    renewed, now = _renewed(spec), datetime.now(UTC)
    if not spec.get("holderIdentity") or renewed is None:
        return False
    return -_ASKEW <= now - renewed < 2 * _lasts(spec)


def _renewed(spec: dict[str, Any]) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(spec["renewTime"]))
    except (KeyError, ValueError):
        return None
    return found if found.tzinfo is not None else None


def _lasts(spec: dict[str, Any]) -> timedelta:
    try:
        return timedelta(seconds=int(spec.get("leaseDurationSeconds") or _USUAL))
    except (ValueError, OverflowError, TypeError):
        return timedelta(seconds=_USUAL)
