"""The webhooks as one part of the program: server, certificate and registration in one task group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from samara.admission.certificates import Timings, TlsSecret
from samara.admission.conversion import Converters
from samara.admission.live_recheck import Validator
from samara.admission.registrar import Registrar, Registration
from samara.admission.review import guarded_kinds
from samara.admission.server import WebhookServer
from samara.admission.webhooks import Endpoint, needed_configurations
from samara.core.model import Kind
from samara.core.registry import Registry
from samara.core.source_type import SourceType
from samara.core.view import View
from samara.engine.metrics import Metrics
from samara.kube.client import Client
from samara.kube.codec import Codec


@dataclass(frozen=True, slots=True)
class AdmissionDeps:
    """The parts of the program that admission uses."""

    client: Client
    """A client of its own, because a standby answers too, and sends reads and dry runs to do so."""
    codec: Codec
    view: View
    registry: Registry
    namespace: str
    """The operator's own."""
    is_leading: Callable[[], bool]
    is_listed: Callable[[Kind], bool]
    """True if a kind has been listed, or never will be."""
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class Listener:
    """Where the webhook server listens, and the URL at which the API server calls it: None for the chart's Service."""

    address: str = ":9443"
    url: str | None = None
    in_cluster: bool = False
    """True if the webhook configurations are the chart's: the operator creates and deletes none."""


class Admission:
    """Exists once in a process. Every replica answers, and only the leader writes."""

    def __init__(
        self,
        deps: AdmissionDeps,
        listener: Listener,
        registered: Iterable[SourceType],
        *,
        converters: Converters,
        crds: tuple[str, ...],
        timings: Timings,
    ) -> None:
        """`registered` are the source types that get webhook configurations, and `crds` the definitions to convert."""
        endpoint = Endpoint(deps.namespace, listener.url)
        validator = Validator(deps.view, deps.client, deps.codec, deps.namespace)
        self._server = WebhookServer(
            listener.address, guarded_kinds(deps.registry), validator, deps.is_listed, converters, deps.metrics
        )
        self._secret = TlsSecret(
            deps.client,
            deps.namespace,
            (endpoint.host,),
            deps.is_leading,
            self._server.load,
            timings,
        )
        registration = Registration(
            deps.registry,
            endpoint,
            needed_configurations(registered),
            crds,
            owns_configurations=listener.url is not None and not listener.in_cluster,
        )
        self._registrar = Registrar(deps.client, registration, self._bundle, deps.is_leading, timings)

    @property
    def not_ready_reason(self) -> str | None:
        """None while the webhook server answers."""
        return self._secret.not_ready_reason or self._server.not_ready_reason

    async def run(self) -> None:
        """Answers until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._server.run())
            group.create_task(self._secret.run())
            group.create_task(self._registrar.run())

    async def close(self) -> None:
        """Unregisters the webhooks. Await it before the lease is released and `run` is cancelled."""
        await self._registrar.close()

    def _bundle(self) -> bytes:
        """The authorities that the API server must trust. Empty while the server does not answer."""
        return self._secret.bundle if self.not_ready_reason is None else b""
