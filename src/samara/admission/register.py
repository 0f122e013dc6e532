"""Tells the API server where we are: webhook configurations and the conversion of CRDs, written by the leader only.

With a URL the configuration is ours: registered while we run, removed when we stop. In a cluster it is the chart's, and
we write nothing in it but `caBundle`. In a CRD we write nothing but `spec.conversion`.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from samara import log
from samara.admission.configuration import (
    ADMIT,
    CONFIGURATION,
    CONVERT,
    LABEL,
    NAME,
    Endpoint,
    configuration,
    conversion,
)
from samara.admission.parts import Parts, Times
from samara.core.model import Kind, Ref
from samara.kube.client import AS_US, address, collection
from samara.kube.codec import decode, encode
from samara.kube.errors import AlreadyExists, Conflict, NotFound, SamaraError, Unreachable
from samara.kube.intake import ODD

CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
NONE = {"strategy": "None"}
_UNDOING = 3.0
"""Seconds that the undoing at the end may take."""
_REACHING = 2.0
Json = dict[str, Any]


class Registrar:
    """Puts right what differs, once per interval and as soon as the bundle changes or this process leads."""

    def __init__(
        self,
        parts: Parts,
        endpoint: Endpoint,
        crds: tuple[str, ...],
        bundle: Callable[[], bytes],
        ours: bool,
        times: Times,
    ) -> None:
        self._client = parts.client
        self._table = parts.table
        self._is_leading = parts.is_leading
        self._endpoint = endpoint
        self._crds = crds
        self._bundle = bundle
        self._ours = ours
        """True where the configuration is registered and removed by us."""
        self._times = times
        self._done = b""
        """The bundle for which all was right at the last look."""
        self._told = ""
        self._closed = False
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> None:
        looked = 0.0
        while True:
            bundle, now = self._bundle(), asyncio.get_running_loop().time()
            if bundle and self._is_leading() and (bundle != self._done or now - looked >= self._times.recheck):
                looked = now
                async with self._one_at_a_time:
                    await self._try(bundle)
            await asyncio.sleep(self._times.turn)

    async def _try(self, bundle: bytes) -> None:
        if self._closed:
            return
        try:
            await self._put_right(bundle)
            self._done, self._told = bundle, ""
        except (Conflict, AlreadyExists):
            log.debug("webhooks.changed-meanwhile")  # the next turn sees what somebody else has written
        except (SamaraError, *ODD, LookupError, TypeError, AttributeError) as fault:
            told = str(fault) if isinstance(fault, SamaraError) else type(fault).__name__
            if told != self._told:  # said once, not every turn
                log.warning("webhooks.failed", fault=told)
            self._told = told

    async def _put_right(self, bundle: bytes) -> None:
        if self._ours:
            await self._register(bundle)
        else:
            await self._write_bundles(bundle)
        for name in self._crds:
            await self._convert(name, conversion(self._endpoint.client_config(CONVERT, bundle)), bundle)

    # the configurations

    async def _register(self, bundle: bytes) -> None:
        wanted = configuration(self._table, self._endpoint.client_config(ADMIT, bundle))
        ref = Ref(CONFIGURATION, "", NAME)
        have = await self._get(ref)
        if not wanted["webhooks"] or (have is not None and have.get("webhooks") == wanted["webhooks"]):
            return
        await self._reach(bundle)
        if have is None:
            await self._send("POST", collection(CONFIGURATION), wanted)
        else:
            await self._send("PUT", address(ref), {**have, "webhooks": wanted["webhooks"]})
        log.info("webhooks.registered", webhooks=len(wanted["webhooks"]))

    async def _write_bundles(self, bundle: bytes) -> None:
        """The rest of a webhook is the chart's, or whoever's has changed it since."""
        raw = await self._client.get(collection(CONFIGURATION), {"labelSelector": "=".join(LABEL)})
        trusted = base64.b64encode(bundle).decode()
        for config in decode(raw).get("items") or ():
            told = [hook["clientConfig"] for hook in config.get("webhooks") or ()]
            wrong = [each for each in told if self._endpoint.is_in(each) and each.get("caBundle") != trusted]
            for each in wrong:
                each["caBundle"] = trusted
            if wrong:
                head = {"apiVersion": CONFIGURATION.api_version, "kind": CONFIGURATION.name}
                name = config["metadata"]["name"]
                await self._send("PUT", address(Ref(CONFIGURATION, "", name)), {**config, **head})
                log.info("webhooks.bundle-written", configuration=name)

    # the CRDs

    async def _convert(self, name: str, wanted: Json, bundle: bytes) -> None:
        """A CRD that leads to a webhook that nobody answers cannot be read: so first we try ourselves."""
        have = await self._get(Ref(CRD, "", name))
        if have is not None and have["spec"].get("conversion") != wanted:
            await self._reach(bundle)
            await self._write_conversion(have, wanted)

    async def _unconvert(self, name: str) -> None:
        have = await self._get(Ref(CRD, "", name))
        webhook = ((have or {}).get("spec", {}).get("conversion") or {}).get("webhook") or {}
        if have is not None and self._endpoint.is_in(webhook.get("clientConfig") or {}):
            await self._write_conversion(have, NONE)

    async def _write_conversion(self, have: Json, wanted: Json) -> None:
        name = have["metadata"]["name"]
        sent = {**have, "spec": {**have["spec"], "conversion": wanted}}
        await self._send("PUT", address(Ref(CRD, "", name)), sent)
        log.info("conversion.written", crd=name, strategy=wanted["strategy"])

    async def _reach(self, bundle: bytes) -> None:
        """Raises where our own server does not answer under the address that the API server uses."""
        host, port = self._endpoint.host, self._endpoint.port
        context = ssl.create_default_context(cadata=bundle.decode("ascii", "ignore"))
        try:
            async with asyncio.timeout(_REACHING):
                _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
        except (OSError, TimeoutError) as fault:
            raise Unreachable(f"the webhook does not answer at {host}:{port} yet: {type(fault).__name__}") from fault

    # the end

    async def close(self) -> None:
        """Removes what we registered: nobody will answer any more. What the chart registered stays."""
        if not self._ours or not self._is_leading():
            return
        self._closed = True
        try:
            async with asyncio.timeout(_UNDOING), self._one_at_a_time:
                await self._unregister()
                for name in self._crds:
                    await self._unconvert(name)
        except (SamaraError, TimeoutError) as fault:
            log.warning("webhooks.not-removed", fault=fault or "timed out")

    async def _unregister(self) -> None:
        try:
            await self._client.request("DELETE", address(Ref(CONFIGURATION, "", NAME)))
        except NotFound:
            return
        log.info("webhooks.removed")

    async def _get(self, ref: Ref) -> Json | None:
        try:
            found: Json = decode(await self._client.get(address(ref)))
        except NotFound:
            return None
        return found

    async def _send(self, method: str, path: str, body: Json) -> None:
        await self._client.request(method, path, encode(body), params=AS_US)
