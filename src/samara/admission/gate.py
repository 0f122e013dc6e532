"""Admission as one part of the program: certificates, server and registration, in one task group."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from samara.admission.configuration import Endpoint, needed
from samara.admission.conversion import Converters
from samara.admission.parts import Parts, Place, Times
from samara.admission.register import Registrar
from samara.admission.server import Server
from samara.admission.tls_secret import TlsSecret
from samara.core.want import Dialect


class Admission:
    """One per process, on every replica; only the one that leads writes."""

    def __init__(
        self,
        parts: Parts,
        place: Place,
        asked: Iterable[Dialect] | None = None,
        *,
        converters: Converters | None = None,
        crds: tuple[str, ...] = (),
        times: Times | None = None,
    ) -> None:
        """`asked` are the dialects for which the server may have been told of us; without it, those of the table."""
        times = times or Times()
        configured = needed(parts.table.dialects if asked is None else asked)
        endpoint = Endpoint(parts.home, place.url, place.service)
        ours = place.url is not None and not place.in_cluster
        self._server = Server(place.address, parts, converters or {})
        self._secret = TlsSecret(parts, (endpoint.host,), self._server.load, times)
        self._registrar = Registrar(parts, endpoint, (configured, crds), self._bundle, ours, times)

    @property
    def waiting(self) -> str | None:
        """Why the webhook server does not answer, in words; None where it does."""
        return self._secret.waiting or self._server.waiting

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._server.run())
            group.create_task(self._secret.run())
            group.create_task(self._registrar.run())

    async def close(self) -> None:
        """Undoes at the stop what must not outlive the process; before the lease is released and the tasks end."""
        await self._registrar.close()

    def _bundle(self) -> bytes:
        """Whom the API server shall trust; nobody before there is a server to call."""
        return self._secret.bundle if self.waiting is None else b""
