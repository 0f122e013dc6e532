"""Takes back what would block a cluster in which no operator answers: webhooks, conversions, finalizers, in this order.

Nothing here depends on the settings: a vocabulary that is off may have been on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from samara import crds
from samara.admission.webhooks import CONVERT, LABEL, NO_CONVERSION, PATHS, SERVICE, conversion_patch
from samara.cli.deploy.rights import NAME, Rule
from samara.core.model import DEPLOYMENT, Kind, Ref
from samara.engine.lease import LEASE
from samara.engine.lease import NAME as LEASE_NAME
from samara.environment import is_live
from samara.kube.client import AS_US, MERGE_PATCH, Client, address, collection
from samara.kube.codec import decode, encode
from samara.kube.definition import CRD
from samara.kube.errors import ConfigError, Conflict, NotFound, ServerFault
from samara.kube.ingest import pages
from samara.settings import Settings
from samara.vocabularies import served

DOMAIN = ".samara.dev"
"""How the names of our webhooks end."""
PATIENCE = 30.0
"""Seconds in which the server has seen that a webhook is gone; until then it may still ask it."""
STOPPING = 90.0
PAUSE = 0.3
Json = dict[str, Any]
T = TypeVar("T")


class _Meta(msgspec.Struct):
    name: str
    uid: str
    resourceVersion: str
    namespace: str = ""
    finalizers: list[str] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta


_object = msgspec.json.Decoder(_Object).decode


@dataclass(slots=True)
class Found:
    """What there is to take back."""

    deployment: bool = False
    """True where a Deployment of ours is to be stopped first: a running operator puts back what is removed."""
    configurations: list[Ref] = field(default_factory=list)
    conversions: list[str] = field(default_factory=list)
    guarded: dict[Kind, int] = field(default_factory=dict)
    """How many objects carry a finalizer of ours."""
    unread: dict[Kind, str] = field(default_factory=dict)
    """Kinds that cannot be read while their conversion leads nowhere; they can be after it has gone."""

    @property
    def anything(self) -> bool:
        return bool(self.deployment or self.configurations or self.conversions or self.guarded or self.unread)


class Removal:
    """One look at a cluster, and one go at it. Whatever is gone already is passed over."""

    def __init__(self, client: Client, home: str) -> None:
        self._client = client
        self._deployment = Ref(DEPLOYMENT, home, NAME)
        self._lease = Ref(LEASE, home, LEASE_NAME)

    async def look(self) -> Found:
        found = Found(deployment=await self._runs())
        holder = await self._holder()
        if holder and not found.deployment:
            raise ConfigError(_at_work(self._lease, holder))
        found.configurations = [ref async for ref, _ in self._configurations()]
        found.conversions = [name for name in crds.shipped() if _leads_to_us(await self._get(Ref(CRD, "", name)))]
        for kind in await self._asking():
            try:
                count = len([each async for each in self._guarded(kind)])
            except ServerFault as fault:
                found.unread[kind] = str(fault)
            else:
                found.guarded |= {kind: count} if count else {}
        return found

    async def perform(self, found: Found) -> None:
        if found.deployment:
            await self._stop()
        async for ref, uid in self._configurations():
            await self._delete(ref, uid)
        for name in found.conversions:
            await _patiently(lambda name=name: self._unconvert(name))  # type: ignore[misc]
        for kind in await self._asking():
            await _patiently(lambda kind=kind: self._unguard(kind))  # type: ignore[misc]

    # the operator

    async def _runs(self) -> bool:
        have = await self._get(self._deployment)
        return have is not None and have["spec"].get("replicas") != 0

    async def _holder(self) -> str:
        """Who leads now, nobody where the Lease is not kept."""
        spec: Json = (await self._get(self._lease) or {}).get("spec") or {}
        return str(spec["holderIdentity"]) if is_live(spec) else ""

    async def _stop(self) -> None:
        """Scales it to nothing, and waits until it has let go of its Lease."""
        with suppress(NotFound):
            await self._patch(self._deployment, {"spec": {"replicas": 0}})
        until = time.monotonic() + STOPPING
        while holder := await self._holder():
            if time.monotonic() > until:
                raise ConfigError(_at_work(self._lease, holder))
            await asyncio.sleep(PAUSE)

    # the steps

    async def _configurations(self) -> AsyncIterator[tuple[Ref, str]]:
        for kind in PATHS:
            raw = await self._client.get(collection(kind), {"labelSelector": "=".join(LABEL)})
            for each in decode(raw).get("items") or ():
                if any(str(hook["name"]).endswith(DOMAIN) for hook in each.get("webhooks") or ()):
                    yield Ref(kind, "", each["metadata"]["name"]), each["metadata"]["uid"]

    async def _delete(self, ref: Ref, uid: str) -> None:
        with suppress(NotFound):
            await self._client.request("DELETE", address(ref), encode({"preconditions": {"uid": uid}}))

    async def _unconvert(self, name: str) -> None:
        have = await self._get(Ref(CRD, "", name))
        if have is not None and _leads_to_us(have):
            await self._patch(Ref(CRD, "", name), conversion_patch(have, NO_CONVERSION))

    async def _unguard(self, kind: Kind) -> None:
        async for each in self._guarded(kind):
            left = [finalizer for finalizer in each.finalizers or () if not _is_ours(kind, finalizer)]
            meta = {"uid": each.uid, "resourceVersion": each.resourceVersion, "finalizers": left}
            with suppress(NotFound):
                await self._patch(Ref(kind, each.namespace, each.name), {"metadata": meta})

    async def _guarded(self, kind: Kind) -> AsyncIterator[_Meta]:
        async for page in pages(self._client, kind):
            for raw in page.items or ():
                meta = _object(raw).metadata
                if any(_is_ours(kind, finalizer) for finalizer in meta.finalizers or ()):
                    yield meta

    async def _asking(self) -> list[Kind]:
        """The custom resources, in the version in which they are stored: that one needs no conversion to be read."""
        found = []
        for kind in custom_resources():
            have = await self._get(Ref(CRD, "", f"{kind.plural}.{kind.group}"))
            if have is not None:
                stored = next(each["name"] for each in have["spec"]["versions"] if each.get("storage"))
                found.append(Kind(kind.group, stored, kind.name, kind.plural, kind.namespaced))
        return found

    async def _get(self, ref: Ref) -> Json | None:
        try:
            found: Json = decode(await self._client.get(address(ref)))
        except NotFound:
            return None
        return found

    async def _patch(self, ref: Ref, patch: Json) -> None:
        await self._client.request("PATCH", address(ref), encode(patch), params=AS_US, content_type=MERGE_PATCH)


def custom_resources() -> tuple[Kind, ...]:
    """Those of every vocabulary."""
    return tuple(dict.fromkeys(kind for dialect in served(Settings()) for kind in dialect.asking))


def cluster_rights() -> list[Rule]:
    """Enough for everything that any vocabulary may have left in a cluster."""
    rules = []
    for kind in PATHS:
        rules.append(Rule(kind, ("list",), "to find the webhooks of the operator"))
        rules.append(Rule(kind, ("delete",), "to delete them", (NAME,)))
    rules.append(Rule(CRD, ("get", "patch"), "to end the conversion by webhook", crds.shipped()))
    return rules + [Rule(kind, ("list", "patch"), "to remove finalizers") for kind in custom_resources()]


def own_rights() -> list[Rule]:
    """In the operator's namespace."""
    return [
        Rule(DEPLOYMENT, ("get", "patch"), "to stop the operator", (NAME,)),
        Rule(LEASE, ("get",), "to see that it has stopped", (LEASE_NAME,)),
    ]


def _is_ours(kind: Kind, finalizer: str) -> bool:
    """The finalizers of a vocabulary are of the domain of its custom resource."""
    return finalizer.startswith(f"{kind.group}/")


def _leads_to_us(crd: Json | None) -> bool:
    """True where a definition has its objects converted by us, under whichever address."""
    webhook: Json = ((crd or {}).get("spec", {}).get("conversion") or {}).get("webhook") or {}
    client: Json = webhook.get("clientConfig") or {}
    return str(client.get("url") or "").endswith(CONVERT) or (client.get("service") or {}).get("name") == SERVICE


def _at_work(lease: Ref, holder: str) -> str:
    return (
        f"expected no operator at work, found Lease {lease.path} held by {holder}: "
        "it would put back what is removed; stop it first"
    )


async def _patiently(act: Callable[[], Awaitable[T]]) -> T:
    """Again and again for a while: the server itself needs a moment to see what has changed."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return await act()
        except (Conflict, ServerFault):
            if time.monotonic() > until:
                raise
        await asyncio.sleep(PAUSE)
