"""The webhook server: HTTPS on one port, `/admit`, `/mutate` and `/convert`. What it is sent is never logged."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from aiohttp import web

from samara import log
from samara.admission.certificates import Material
from samara.admission.configuration import ADMIT, CONVERT, MUTATE
from samara.admission.conversion import Converters, converted
from samara.admission.parts import Parts
from samara.admission.review import MalformedError, Review, answer, guards_of, patch, read_review
from samara.admission.second_look import Judge
from samara.core.model import NAMESPACE, Kind
from samara.kube.codec import encode
from samara.kube.errors import ConfigError, SamaraError
from samara.web.server import split_address

MOST_REVIEW = 8 * 2**20
MOST_CONVERSION = 32 * 2**20
"""A conversion brings a whole page of a list."""
LIMIT = 4.0
"""Seconds for one answer: less than the API server waits, so that it hears why."""
_KEEP = 180.0
"""Idle connections live longer here than in the API server: else it would now and then write into a closed one."""
_ENDING = 2.0
Respond = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class _Tale:
    """What is counted of one question. Only kinds that we guard have a name: whoever calls could make up others."""

    kind: str = "other"
    result: str = "failed"


class Server:
    """Listens from the first certificate on. A new one serves all handshakes that follow."""

    def __init__(self, address: str, parts: Parts, converters: Converters) -> None:
        self._address = address
        self._judge = Judge(parts.view, parts.client, parts.codec, parts.home)
        self._guards = guards_of(parts.table)
        self._converters = converters
        self._listed = parts.listed
        self._meter = parts.meter
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._loaded = asyncio.Event()
        self.waiting: str | None = "not listening yet"

    def load(self, material: Material) -> None:
        try:
            with _on_disk(material.serving + material.key) as path:
                self._context.load_cert_chain(path)
        except ssl.SSLError as fault:  # as a key that is too short for this machine
            raise ConfigError(f"expected a certificate that can be served, found: {fault.reason or 'none'}") from fault
        self._loaded.set()

    async def run(self) -> None:
        """Answers until cancelled."""
        await self._loaded.wait()
        app = web.Application(client_max_size=MOST_CONVERSION)
        app.router.add_post(ADMIT, _bounded(self._admit))
        app.router.add_post(MUTATE, _bounded(self._mutate))
        app.router.add_post(CONVERT, _bounded(self._convert))
        runner = web.AppRunner(app, access_log=None, keepalive_timeout=_KEEP, shutdown_timeout=_ENDING)
        await runner.setup()
        host, port = split_address(self._address)
        try:
            await web.TCPSite(runner, host, port, ssl_context=self._context).start()
            log.info("webhooks.listening", address=self._address)
            self.waiting = None
            await asyncio.Event().wait()
        except OSError as fault:
            said = fault.strerror or fault
            raise ConfigError(f"cannot listen on {self._address}: {said}; choose another --webhook-address") from fault
        finally:
            self.waiting = "not listening any more"
            await runner.cleanup()

    async def _admit(self, request: web.Request) -> web.StreamResponse:
        began, tale = monotonic(), _Tale()
        try:
            return await self._answer(request, tale)
        finally:
            self._meter.admitted(tale.kind, tale.result, monotonic() - began)

    async def _answer(self, request: web.Request, tale: _Tale) -> web.StreamResponse:
        review = await self._review(request)
        if review.guard is not None:
            tale.kind = str(review.guard.kind)
        faults = await self._faults(review)
        tale.result = "refused" if faults else "allowed"
        return _json(answer(review.uid, faults))

    async def _mutate(self, request: web.Request) -> web.StreamResponse:
        """Needs nothing but the object, so it is answered before any cache is filled."""
        review = await self._review(request)
        if review.guard is None or review.request is None:
            return _json(patch(review.uid, ()))
        asked = [each.mutate for each in review.guard.dialects if each.mutate is not None]
        return _json(patch(review.uid, [edit for mutate in asked for edit in mutate(review.request)]))

    async def _review(self, request: web.Request) -> Review:
        body = await request.read()
        if len(body) > MOST_REVIEW:
            raise web.HTTPRequestEntityTooLarge(MOST_REVIEW, len(body))
        return read_review(body, self._guards, self._judge.codec)

    async def _faults(self, review: Review) -> tuple[str, ...]:
        if review.guard is None or review.request is None:
            return ()
        unlisted = [str(kind) for kind in _needed(review) if not self._listed(kind)]
        if unlisted:
            raise web.HTTPServiceUnavailable(text=f"not listed yet: {', '.join(unlisted)}")
        async with asyncio.timeout(LIMIT):
            faults = await self._judge.faults(review.request, review.guard.dialects)
        if faults:
            about = review.request.new or review.request.old
            log.info("admission.refused", object=about.ref if about else review.guard.kind, faults=len(faults))
        return faults

    async def _convert(self, request: web.Request) -> web.StreamResponse:
        return _json(converted(await request.read(), self._converters))


def _needed(review: Review) -> dict[Kind, None]:
    """What must have been listed before anybody can judge: absence means nothing before."""
    assert review.guard is not None
    return dict.fromkeys((NAMESPACE, *(kind for dialect in review.guard.dialects for kind in dialect.kinds)))


def _bounded(respond: Respond) -> Respond:
    """An error becomes an HTTP error, for the webhook's failurePolicy to judge; a body is never quoted."""

    async def bounded(request: web.Request) -> web.StreamResponse:
        try:
            return await respond(request)
        except web.HTTPException:
            raise
        except MalformedError as fault:
            return web.Response(status=400, text=str(fault))
        except Exception as fault:  # noqa: BLE001 - the boundary: a dialect's bug must not show what it was given
            told = str(fault) if isinstance(fault, SamaraError) else type(fault).__name__
            log.warning("admission.failed", fault=told)
            return web.Response(status=500, text="no answer could be found in time")

    return bounded


def _json(told: dict[str, Any]) -> web.Response:
    return web.Response(body=encode(told), content_type="application/json")


@contextmanager
def _on_disk(pem: bytes) -> Iterator[str]:
    """A path for OpenSSL, which loads certificates from files only; in memory where the system can do that."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("samara"), "wb") as file:
            file.write(pem)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.TemporaryDirectory(prefix="samara-") as folder:  # readable by nobody else
            path = Path(folder, "pem")
            path.write_bytes(pem)
            yield str(path)
