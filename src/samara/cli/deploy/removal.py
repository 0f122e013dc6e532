"""Removes what would block a cluster without an operator: webhooks, then conversions, then finalizers.

The settings do not matter here: a vocabulary that is not served now may have been served before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from samara import crds
from samara.admission.webhooks import CONVERT, LABEL, NO_CONVERSION, PATHS, SERVICE, conversion_patch
from samara.assembly import LEASE_NAME, registry_of
from samara.cli.deploy.rights import NAME, Rule
from samara.cli.output import plural, progress
from samara.core.model import DEPLOYMENT, LEASE, Kind, Ref
from samara.environment import is_live
from samara.kube.client import MERGE_PATCH, OUR_WRITES, Client, address, collection
from samara.kube.codec import decode, encode
from samara.kube.errors import ConfigError, Conflict, NotFound, ServerFault
from samara.kube.queries import CRD
from samara.kube.reflector import pages
from samara.settings import Settings

WEBHOOK_DOMAIN = ".samara.dev"
"""The end of the names of the operator's webhooks."""
RETRY_SECONDS = 30.0
"""The API server may call a webhook for a while after its configuration is gone, and refuse writes until then."""
STOP_SECONDS = 90.0
"""How long to wait until the operator has released its Lease."""
POLL_SECONDS = 0.3
Json = dict[str, Any]


@dataclass(slots=True)
class Leftovers:
    """What an installation has left in a cluster."""

    deployments: list[Ref] = field(default_factory=list)
    """Those that must be stopped first: a running operator restores what is removed."""
    configurations: list[Ref] = field(default_factory=list)
    conversions: list[str] = field(default_factory=list)
    """The CRDs that call the operator's webhook."""
    finalizers: dict[Kind, int] = field(default_factory=dict)
    """The number of objects with a finalizer of ours."""
    unreadable: dict[Kind, str] = field(default_factory=dict)
    """Kinds whose conversion webhook does not answer. They can be read after it is removed."""

    def __bool__(self) -> bool:
        return any((self.deployments, self.configurations, self.conversions, self.finalizers, self.unreadable))


class Removal:
    """Finds what an installation has left, and removes it. Skips objects that are deleted meanwhile."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._lease = Ref(LEASE, namespace, LEASE_NAME)

    async def find(self) -> Leftovers:
        """Lists what is there. Raises if an operator runs that no Deployment of ours has started."""
        leftovers = Leftovers(deployments=await self._running_deployments())
        leader = await self._leader()
        if leader and not leftovers.deployments:
            raise ConfigError(_still_running(self._lease, leader))
        leftovers.configurations = [ref async for ref, _ in self._configurations()]
        leftovers.conversions = [name for name in crds.shipped() if _calls_us(await self._get(Ref(CRD, "", name)))]
        for kind in await self._stored_kinds():
            try:
                count = await self._count_finalizers(kind)
            except ServerFault as fault:
                leftovers.unreadable[kind] = str(fault)
            else:
                leftovers.finalizers |= {kind: count} if count else {}
        return leftovers

    async def perform(self, leftovers: Leftovers) -> None:
        """Stops the operator, and removes webhooks, conversions and finalizers, in this order."""
        await self.stop_operator(leftovers)
        async for ref, uid in self._configurations():
            await self._delete(ref, uid)
        for name in leftovers.conversions:
            await _retry(partial(self._remove_conversion, name))
        for kind in await self._stored_kinds():
            await _retry(partial(self._remove_finalizers, kind))

    # the operator

    async def stop_operator(self, leftovers: Leftovers) -> None:
        if leftovers.deployments:
            await self._stop(leftovers.deployments)

    async def _running_deployments(self) -> list[Ref]:
        """Found by their label, because the chart can give the Deployment another name."""
        path = collection(DEPLOYMENT, self._namespace)
        items = decode(await self._client.get(path, {"labelSelector": "=".join(LABEL)})).get("items") or ()
        running = [item["metadata"]["name"] for item in items if item["spec"].get("replicas") != 0]
        return [Ref(DEPLOYMENT, self._namespace, name) for name in running]

    async def _leader(self) -> str:
        """The holder of the Lease. Empty if it has expired."""
        spec: Json = (await self._get(self._lease) or {}).get("spec") or {}
        return str(spec["holderIdentity"]) if is_live(spec) else ""

    async def _stop(self, deployments: list[Ref]) -> None:
        """Scales the Deployments to 0, and waits until the operator has released its Lease."""
        for deployment in deployments:
            with suppress(NotFound):
                await self._patch(deployment, {"spec": {"replicas": 0}})
        deadline = time.monotonic() + STOP_SECONDS
        while leader := await self._leader():
            if time.monotonic() > deadline:
                raise ConfigError(_still_running(self._lease, leader))
            await asyncio.sleep(POLL_SECONDS)

    # webhooks and conversions

    async def _configurations(self) -> AsyncIterator[tuple[Ref, str]]:
        """The webhook configurations of the operator, each with its uid."""
        for kind in PATHS:
            raw = await self._client.get(collection(kind), {"labelSelector": "=".join(LABEL)})
            for configuration in decode(raw).get("items") or ():
                names = [str(webhook["name"]) for webhook in configuration.get("webhooks") or ()]
                if any(name.endswith(WEBHOOK_DOMAIN) for name in names):
                    yield Ref(kind, "", configuration["metadata"]["name"]), configuration["metadata"]["uid"]

    async def _delete(self, ref: Ref, uid: str) -> None:
        with suppress(NotFound):
            await self._client.request("DELETE", address(ref), encode({"preconditions": {"uid": uid}}))

    async def _remove_conversion(self, name: str) -> None:
        live = await self._get(Ref(CRD, "", name))
        if live is not None and _calls_us(live):
            await self._patch(Ref(CRD, "", name), conversion_patch(live, NO_CONVERSION))

    # finalizers

    async def _count_finalizers(self, kind: Kind) -> int:
        with progress() as show_progress:
            show_progress(f"reading {kind}")
            return len([metadata async for metadata in self._with_finalizers(kind)])

    async def _remove_finalizers(self, kind: Kind) -> None:
        count = 0
        with progress() as show_progress:
            async for metadata in self._with_finalizers(kind):
                count += 1
                show_progress(f"removing Samara's finalizer from {plural(count, kind.name)}")
                others = [finalizer for finalizer in metadata.finalizers or () if not _is_ours(kind, finalizer)]
                patch = {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion, "finalizers": others}
                with suppress(NotFound):
                    await self._patch(Ref(kind, metadata.namespace, metadata.name), {"metadata": patch})

    async def _with_finalizers(self, kind: Kind) -> AsyncIterator[_Metadata]:
        async for page in pages(self._client, kind):
            for raw in page.items or ():
                metadata = _object(raw).metadata
                if any(_is_ours(kind, finalizer) for finalizer in metadata.finalizers or ()):
                    yield metadata

    async def _stored_kinds(self) -> list[Kind]:
        """Those that are installed, in the version in which they are stored: reading it needs no conversion."""
        stored = []
        for kind in guarded_resources():
            live = await self._get(Ref(CRD, "", f"{kind.plural}.{kind.group}"))
            if live is not None:
                version = next(version["name"] for version in live["spec"]["versions"] if version.get("storage"))
                stored.append(Kind(kind.group, version, kind.name, kind.plural, kind.namespaced))
        return stored

    # requests

    async def _get(self, ref: Ref) -> Json | None:
        try:
            obj: Json = decode(await self._client.get(address(ref)))
        except NotFound:
            return None
        return obj

    async def _patch(self, ref: Ref, patch: Json) -> None:
        await self._client.request("PATCH", address(ref), encode(patch), params=OUR_WRITES, content_type=MERGE_PATCH)


class _Metadata(msgspec.Struct):
    name: str
    uid: str
    resourceVersion: str
    namespace: str = ""
    finalizers: list[str] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata


_object = msgspec.json.Decoder(_Object).decode


def guarded_resources() -> tuple[Kind, ...]:
    """The custom resources on which a vocabulary sets a finalizer. One that is not served now may have been before."""
    source_types = registry_of(Settings()).source_types
    guarded = (source_type.resource for source_type in source_types if source_type.finalizer)
    return tuple(dict.fromkeys(kind for kind in guarded if kind is not None))


def cluster_rights() -> list[Rule]:
    """The rights that a removal needs in the whole cluster."""
    rules = []
    for kind in PATHS:
        rules.append(Rule(kind, ("list",), "to find the webhooks of the operator"))
        rules.append(Rule(kind, ("delete",), "to delete them", (NAME,)))
    rules.append(Rule(CRD, ("get", "patch"), "to end the conversion by webhook", crds.shipped()))
    return rules + [Rule(kind, ("list", "patch"), "to remove finalizers") for kind in guarded_resources()]


def own_rights() -> list[Rule]:
    """The rights that a removal needs in the namespace of the operator."""
    return [
        Rule(DEPLOYMENT, ("list",), "to find the Deployment of the operator"),
        Rule(DEPLOYMENT, ("patch",), "to stop the operator", (NAME,)),
        Rule(LEASE, ("get",), "to see that it has stopped", (LEASE_NAME,)),
    ]


def _is_ours(kind: Kind, finalizer: str) -> bool:
    """A vocabulary's finalizers have the API group of its custom resource as their domain."""
    return finalizer.startswith(f"{kind.group}/")


def _calls_us(crd: Mapping[str, Any] | None) -> bool:
    """True if a CRD converts by the operator's webhook, at whatever address."""
    webhook: Json = ((crd or {}).get("spec", {}).get("conversion") or {}).get("webhook") or {}
    client: Json = webhook.get("clientConfig") or {}
    return str(client.get("url") or "").endswith(CONVERT) or (client.get("service") or {}).get("name") == SERVICE


def _still_running(lease: Ref, leader: str) -> str:
    return (
        f"expected no operator at work, found Lease {lease.path} held by {leader}: "
        "it would put back what is removed; stop it first"
    )


async def _retry(write: Callable[[], Awaitable[None]]) -> None:
    """Retries conflicts, and refusals of an API server that still calls a webhook which is gone."""
    deadline = time.monotonic() + RETRY_SECONDS
    while True:
        try:
            return await write()
        except (Conflict, ServerFault):
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(POLL_SECONDS)
