"""Tells the API server where we are: webhook configurations and the conversion of CRDs, written by the leader only.

With a URL the configurations are ours: registered while we run, removed when we stop. In a cluster they are the
chart's, and we write nothing in them but `caBundle`. In a CRD we write nothing but `spec.conversion`.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

from samara import log
from samara.admission.configuration import (
    CONVERT,
    LABEL,
    NAME,
    NO_CONVERSION,
    PATHS,
    Endpoint,
    configuration,
    conversion,
    conversion_patch,
)
from samara.admission.parts import Parts, Times
from samara.core.model import Kind, Ref
from samara.kube.client import AS_US, JSON, MERGE_PATCH, address, collection
from samara.kube.codec import MALFORMED, decode, encode
from samara.kube.definition import CRD
from samara.kube.errors import AlreadyExists, ConfigError, Conflict, NotFound, SamaraError, Unreachable

_UNDOING = 3.0
"""Seconds that the undoing at the end may take."""
_REACHING = 2.0
EVERYBODYS = "default"
"""The namespace of an operator outside a cluster that was told of none: what people do there is judged."""
Json = dict[str, Any]


class Registrar:
    """Puts right what differs, once per interval and as soon as the bundle changes or this process leads."""

    def __init__(
        self,
        parts: Parts,
        endpoint: Endpoint,
        registered: tuple[tuple[Kind, ...], tuple[str, ...]],
        bundle: Callable[[], bytes],
        ours: bool,
        times: Times,
    ) -> None:
        self._client = parts.client
        self._table = parts.table
        self._excepted = () if parts.home == EVERYBODYS else (parts.home,)
        self._is_leading = parts.is_leading
        self._endpoint = endpoint
        self._configured, self._crds = registered
        """The kinds of configuration in which we are, and the CRDs whose versions we convert."""
        self._bundle = bundle
        self._ours = ours
        """True where the configurations are registered and removed by us."""
        self._times = times
        self._done = b""
        """The bundle for which all was right at the last look."""
        self._told: set[str] = set()
        self._closed = False
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> None:
        looked = 0.0
        while True:
            bundle, now = self._bundle(), asyncio.get_running_loop().time()
            if bundle and self._is_leading() and (bundle != self._done or now - looked >= self._times.recheck):
                looked = now
                async with self._one_at_a_time:
                    await self._put_right(bundle)
            await asyncio.sleep(self._times.turn)

    async def _put_right(self, bundle: bytes) -> None:
        """Each part by itself: one that fails delays no other."""
        if self._closed:
            return
        right = [await self._tried(part) for part in self._parts(bundle)]
        if all(right):
            self._done = bundle
            self._told.clear()

    def _parts(self, bundle: bytes) -> Iterator[Coroutine[None, None, None]]:
        for kind in self._configured:
            yield self._register(kind, bundle) if self._ours else self._write_bundles(kind, bundle)
        for name in self._crds:
            yield self._convert(name, bundle)

    async def _tried(self, part: Coroutine[None, None, None]) -> bool:
        try:
            await part
        except (Conflict, AlreadyExists):  # the next turn sees what somebody else has written
            return False
        except (SamaraError, *MALFORMED, LookupError, TypeError, AttributeError) as fault:
            told = str(fault) if isinstance(fault, SamaraError) else type(fault).__name__
            if told not in self._told:  # said once, not every turn
                log.warning("webhooks.failed", fault=told)
            self._told.add(told)
            return False
        return True

    # the configurations

    async def _register(self, kind: Kind, bundle: bytes) -> None:
        client_config = self._endpoint.client_config(PATHS[kind], bundle)
        wanted = configuration(self._table, client_config, self._excepted, kind)
        ref = Ref(kind, "", NAME)
        have = await self._get(ref)
        if not wanted["webhooks"] or (have is not None and have.get("webhooks") == wanted["webhooks"]):
            return
        self._must_not_be_the_charts(f"{kind.name} {NAME}", _clients(have))
        await self._reach(bundle)
        if have is None:
            await self._send("POST", collection(kind), wanted)
        else:
            await self._send("PUT", address(ref), {**have, "webhooks": wanted["webhooks"]})
        log.info("webhooks.registered", configuration=kind.name, webhooks=len(wanted["webhooks"]))

    async def _write_bundles(self, kind: Kind, bundle: bytes) -> None:
        """Each by itself: `samara rbac` gives the right to write the chart's only, and people may have further ones."""
        raw = await self._client.get(collection(kind), {"labelSelector": "=".join(LABEL)})
        refused: SamaraError | None = None
        for config in decode(raw).get("items") or ():
            try:
                await self._write_bundle(kind, config, base64.b64encode(bundle).decode())
            except SamaraError as fault:
                refused = fault
        if refused is not None:
            raise refused

    async def _write_bundle(self, kind: Kind, config: Json, trusted: str) -> None:
        """The rest of a webhook is the chart's, or whoever's has changed it since."""
        wrong = [each for each in _clients(config) if self._endpoint.is_in(each) and each.get("caBundle") != trusted]
        for each in wrong:
            each["caBundle"] = trusted
        if wrong:
            head = {"apiVersion": kind.api_version, "kind": kind.name}
            name = config["metadata"]["name"]
            await self._send("PUT", address(Ref(kind, "", name)), {**config, **head})
            log.info("webhooks.bundle-written", configuration=name)

    # the CRDs

    async def _convert(self, name: str, bundle: bytes) -> None:
        """A CRD that leads to a webhook that nobody answers cannot be read: so first we try ourselves."""
        wanted = conversion(self._endpoint.client_config(CONVERT, bundle))
        have = await self._get(Ref(CRD, "", name))
        if have is not None and have["spec"].get("conversion") != wanted:
            self._must_not_be_the_charts(f"{CRD.name} {name}", [_converting(have)])
            await self._reach(bundle)
            await self._write_conversion(have, wanted)

    async def _unconvert(self, name: str) -> None:
        while True:
            have = await self._get(Ref(CRD, "", name))
            if have is None or not self._endpoint.is_in(_converting(have)):
                return
            with suppress(Conflict):  # the server itself writes the status of a CRD that has changed
                await self._write_conversion(have, NO_CONVERSION)

    async def _write_conversion(self, have: Json, wanted: Json) -> None:
        name = have["metadata"]["name"]
        await self._send("PATCH", address(Ref(CRD, "", name)), conversion_patch(have, wanted), MERGE_PATCH)
        log.info("conversion.written", crd=name, strategy=wanted["strategy"])

    def _must_not_be_the_charts(self, what: str, clients: list[Json]) -> None:
        """An operator that runs outside must not take from an installation what that would take back."""
        if self._ours and any(each.get("service") for each in clients):
            raise ConfigError(f"{what} leads to a Service; --webhook-url is for clusters without an installation")

    async def _reach(self, bundle: bytes) -> None:
        """Raises where our own server does not answer under the address that the API server uses."""
        host, port = self._endpoint.host, self._endpoint.port
        try:
            context = ssl.create_default_context(cadata=bundle.decode("ascii", "ignore"))
            async with asyncio.timeout(_REACHING):
                _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
        except (OSError, ValueError, TimeoutError) as fault:
            raise Unreachable(f"the webhook does not answer at {host}:{port} yet: {type(fault).__name__}") from fault

    # the end

    async def close(self) -> None:
        """Removes what we registered: nobody will answer any more. What the chart registered stays."""
        if not self._ours or not self._is_leading():
            return
        self._closed = True
        try:
            async with asyncio.timeout(_UNDOING), self._one_at_a_time:
                for kind in self._configured:
                    await self._tried(self._unregister(kind))
                for name in self._crds:
                    await self._tried(self._unconvert(name))
        except TimeoutError:
            log.warning("webhooks.not-removed", fault="timed out")

    async def _unregister(self, kind: Kind) -> None:
        ref = Ref(kind, "", NAME)
        have = await self._get(ref)
        if have is not None and any(map(self._endpoint.is_in, _clients(have))):
            options = {"preconditions": {"uid": have["metadata"]["uid"]}}
            await self._client.request("DELETE", address(ref), encode(options))
            log.info("webhooks.removed", configuration=kind.name)

    async def _get(self, ref: Ref) -> Json | None:
        try:
            found: Json = decode(await self._client.get(address(ref)))
        except NotFound:
            return None
        return found

    async def _send(self, method: str, path: str, body: Json, content_type: str = JSON) -> None:
        await self._client.request(method, path, encode(body), params=AS_US, content_type=content_type)


def _clients(config: Json | None) -> list[Json]:
    """Where the webhooks of a configuration lead."""
    return [hook["clientConfig"] for hook in (config or {}).get("webhooks") or ()]


def _converting(crd: Json) -> Json:
    """Where the conversion of a CRD leads."""
    webhook: Json = (crd["spec"].get("conversion") or {}).get("webhook") or {}
    return webhook.get("clientConfig") or {}
