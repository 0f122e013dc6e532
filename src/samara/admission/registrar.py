"""Keeps the webhook configurations and the conversion of CRDs correct. Only the leader writes.

An operator with a URL creates the configurations, and deletes them when it stops. In a cluster they are the chart's,
and the operator writes only `caBundle` into them. In a CRD it writes only `spec.conversion`.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from samara import log
from samara.admission.certificates import Timings
from samara.admission.webhooks import (
    CONVERT,
    LABEL,
    NAME,
    NO_CONVERSION,
    PATHS,
    Endpoint,
    conversion_patch,
    webhook_configuration,
    webhook_conversion,
)
from samara.core.model import Kind, Ref
from samara.core.registry import Registry
from samara.kube.client import JSON, MERGE_PATCH, OUR_WRITES, Client, address, collection
from samara.kube.codec import MALFORMED, decode, encode
from samara.kube.errors import AlreadyExists, ConfigError, Conflict, NotFound, SamaraError, Unreachable
from samara.kube.queries import CRD

_CLOSE_SECONDS = 3.0
_CONNECT_SECONDS = 2.0
DEFAULT_NAMESPACE = "default"
"""The namespace of an operator outside a cluster, if its kubeconfig names none."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Registration:
    """The webhook configurations and CRDs to keep correct."""

    registry: Registry
    endpoint: Endpoint
    configurations: tuple[Kind, ...]
    """The kinds of configuration that have webhooks of the operator."""
    crds: tuple[str, ...]
    """The names of the CRDs whose versions the operator converts."""
    owns_configurations: bool
    """True if the operator creates and deletes the configurations, False if they are the chart's."""

    def configuration(self, kind: Kind, bundle: bytes) -> Json:
        """The wanted configuration. It excludes the operator's own namespace, but not the default namespace, which an
        operator outside a cluster may use: people work there."""
        own = self.endpoint.namespace
        excluded_namespaces = () if own == DEFAULT_NAMESPACE else (own,)
        client_config = self.endpoint.client_config(PATHS[kind], bundle)
        return webhook_configuration(self.registry, client_config, excluded_namespaces, kind)


class Registrar:
    """Corrects what differs: regularly, and as soon as the bundle changes or this process leads."""

    def __init__(
        self,
        client: Client,
        registration: Registration,
        bundle: Callable[[], bytes],
        is_leading: Callable[[], bool],
        timings: Timings,
    ) -> None:
        self._client = client
        self._registration = registration
        self._endpoint = registration.endpoint
        self._bundle = bundle
        self._is_leading = is_leading
        self._timings = timings
        self._correct_for = b""
        """The bundle with which everything was correct at the last check."""
        self._logged: set[str] = set()
        self._closed = False
        self._lock = asyncio.Lock()
        """Held while anything is written. `close` takes it too, so that it deletes everything that was written."""

    async def run(self) -> None:
        checked = 0.0
        while True:
            bundle, now = self._bundle(), asyncio.get_running_loop().time()
            due = bundle != self._correct_for or now - checked >= self._timings.recheck_interval
            if bundle and self._is_leading() and due:
                checked = now
                async with self._lock:
                    await self._correct(bundle)
            await asyncio.sleep(self._timings.interval)

    async def _correct(self, bundle: bytes) -> None:
        """Attempts every correction: one that fails does not stop the others."""
        if self._closed:
            return
        successes = [await self._attempt(correction) for correction in self._corrections(bundle)]
        if all(successes):
            self._correct_for = bundle
            self._logged.clear()

    def _corrections(self, bundle: bytes) -> Iterator[Coroutine[None, None, None]]:
        register = self._register if self._registration.owns_configurations else self._write_bundles
        for kind in self._registration.configurations:
            yield register(kind, bundle)
        for name in self._registration.crds:
            yield self._convert(name, bundle)

    async def _attempt(self, correction: Coroutine[None, None, None]) -> bool:
        """True if it succeeded. The same failure is logged once, not at every interval."""
        try:
            await correction
        except (Conflict, AlreadyExists):  # another client was faster; the next check sees what it wrote
            return False
        except (SamaraError, *MALFORMED, LookupError, TypeError, AttributeError) as fault:
            reason = str(fault) if isinstance(fault, SamaraError) else type(fault).__name__
            if reason not in self._logged:
                log.warning("webhooks.failed", fault=reason)
            self._logged.add(reason)
            return False
        return True

    # webhook configurations

    async def _register(self, kind: Kind, bundle: bytes) -> None:
        wanted = self._registration.configuration(kind, bundle)
        ref = Ref(kind, "", NAME)
        live = await self._get(ref)
        if not wanted["webhooks"] or (live is not None and live.get("webhooks") == wanted["webhooks"]):
            return
        self._refuse_service(f"{kind.name} {NAME}", _client_configs(live))
        await self._check_reachable(bundle)
        if live is None:
            await self._send("POST", collection(kind), wanted)
        else:
            await self._send("PUT", address(ref), {**live, "webhooks": wanted["webhooks"]})
        log.info("webhooks.registered", configuration=kind.name, webhooks=len(wanted["webhooks"]))

    async def _write_bundles(self, kind: Kind, bundle: bytes) -> None:
        """Writes the bundle into every configuration with our label, and then raises the last error. RBAC may allow
        only the chart's configuration, which another one must not delay."""
        raw = await self._client.get(collection(kind), {"labelSelector": "=".join(LABEL)})
        failure: SamaraError | None = None
        for configuration in decode(raw).get("items") or ():
            try:
                await self._write_bundle(kind, configuration, base64.b64encode(bundle).decode())
            except SamaraError as fault:
                failure = fault
        if failure is not None:
            raise failure

    async def _write_bundle(self, kind: Kind, configuration: Json, bundle: str) -> None:
        """Changes `caBundle` only, because the chart or an administrator wrote the other fields."""
        ours = [client for client in _client_configs(configuration) if self._endpoint.is_called_by(client)]
        outdated = [client for client in ours if client.get("caBundle") != bundle]
        for client in outdated:
            client["caBundle"] = bundle
        if outdated:
            head = {"apiVersion": kind.api_version, "kind": kind.name}
            name = configuration["metadata"]["name"]
            await self._send("PUT", address(Ref(kind, "", name)), {**configuration, **head})
            log.info("webhooks.bundle-written", configuration=name)

    # CRDs

    async def _convert(self, name: str, bundle: bytes) -> None:
        """Makes a CRD call our webhook. Its objects cannot be read while that does not answer, so we call it first."""
        wanted = webhook_conversion(self._endpoint.client_config(CONVERT, bundle))
        live = await self._get(Ref(CRD, "", name))
        if live is not None and live["spec"].get("conversion") != wanted:
            self._refuse_service(f"{CRD.name} {name}", [_conversion_client_config(live)])
            await self._check_reachable(bundle)
            await self._write_conversion(live, wanted)

    async def _unconvert(self, name: str) -> None:
        while True:
            live = await self._get(Ref(CRD, "", name))
            if live is None or not self._endpoint.is_called_by(_conversion_client_config(live)):
                return
            with suppress(Conflict):  # the API server itself writes the status of a CRD that has changed
                await self._write_conversion(live, NO_CONVERSION)

    async def _write_conversion(self, live: Json, wanted: Mapping[str, Any]) -> None:
        name = live["metadata"]["name"]
        await self._send("PATCH", address(Ref(CRD, "", name)), conversion_patch(live, wanted), MERGE_PATCH)
        log.info("conversion.written", crd=name, strategy=wanted["strategy"])

    def _refuse_service(self, name: str, client_configs: list[Json]) -> None:
        """Raises if this operator is outside the cluster and the object calls a Service: the operator behind that
        Service and this one would overwrite each other's changes."""
        if self._registration.owns_configurations and any(client.get("service") for client in client_configs):
            raise ConfigError(f"{name} calls a Service; --webhook-url is for clusters without an installation")

    async def _check_reachable(self, bundle: bytes) -> None:
        """Raises if our own server does not answer at the address that the API server will use."""
        host, port = self._endpoint.host, self._endpoint.port
        try:
            context = ssl.create_default_context(cadata=bundle.decode("ascii", "ignore"))
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
        except (OSError, ValueError, TimeoutError) as fault:
            raise Unreachable(f"the webhook does not answer at {host}:{port} yet: {type(fault).__name__}") from fault

    # the end

    async def close(self) -> None:
        """Deletes the configurations and conversions that this operator wrote, since it will not answer any more. The
        chart's objects stay."""
        if not self._registration.owns_configurations or not self._is_leading():
            return
        self._closed = True
        try:
            async with asyncio.timeout(_CLOSE_SECONDS), self._lock:
                for kind in self._registration.configurations:
                    await self._attempt(self._unregister(kind))
                for name in self._registration.crds:
                    await self._attempt(self._unconvert(name))
        except TimeoutError:
            log.warning("webhooks.not-removed", fault="timed out")

    async def _unregister(self, kind: Kind) -> None:
        ref = Ref(kind, "", NAME)
        live = await self._get(ref)
        if live is not None and any(map(self._endpoint.is_called_by, _client_configs(live))):
            options = {"preconditions": {"uid": live["metadata"]["uid"]}}
            await self._client.request("DELETE", address(ref), encode(options))
            log.info("webhooks.removed", configuration=kind.name)

    async def _get(self, ref: Ref) -> Json | None:
        try:
            configuration: Json = decode(await self._client.get(address(ref)))
        except NotFound:
            return None
        return configuration

    async def _send(self, method: str, path: str, body: Json, content_type: str = JSON) -> None:
        await self._client.request(method, path, encode(body), params=OUR_WRITES, content_type=content_type)


def _client_configs(configuration: Json | None) -> list[Json]:
    return [webhook["clientConfig"] for webhook in (configuration or {}).get("webhooks") or ()]


def _conversion_client_config(crd: Json) -> Json:
    webhook: Json = (crd["spec"].get("conversion") or {}).get("webhook") or {}
    return webhook.get("clientConfig") or {}
