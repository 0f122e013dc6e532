"""The webhook server: HTTPS on one port, `/admit`, `/mutate` and `/convert`. It never logs a request body."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from aiohttp import web

from samara import log
from samara.admission.bytes_in_flight import BytesInFlight, NoRoomError, RequestBytes
from samara.admission.certificates import Certificates
from samara.admission.conversion import MAX_CONVERSION_BYTES, Conversions, Converters
from samara.admission.live_recheck import Validator
from samara.admission.review import GuardedKinds, MalformedError, Review, check_names, patch, read_review, verdict
from samara.admission.webhooks import ADMIT, CONVERT, MUTATE
from samara.core.admission import PatchOperation
from samara.core.model import NAMESPACE, Kind
from samara.engine.metrics import Metrics
from samara.kube.auth.tls import pem_file
from samara.kube.codec import encode
from samara.kube.errors import ConfigError, SamaraError
from samara.web.listener import Handler, Limits, listening, send_in_pieces

MAX_REVIEW_BYTES = 8 * 2**20
MAX_BYTES_IN_FLIGHT = 16 * 2**20
"""Most bytes of all requests together, or of their answers once these are computed. The first `UNCOUNTED_BYTES` of each
do not count."""
ANSWER_SECONDS = 4.0
"""The time limit of an answer. It is shorter than the API server waits, so that the API server gets the reason."""
_BODY_SECONDS = 10.0
"""The time limit for the body of a request."""
_SEND_SECONDS = 5.0
"""The time limit for sending an answer. Until it is sent it takes memory, and a client may never read it."""
# The API server waits up to 30 s for a conversion. It must close idle connections first, or it would now and then write
# to one that is being closed.
_LIMITS = Limits(connections=256, answer=30.0, idle=180.0)


@dataclass(slots=True)
class RequestLabels:
    """The metric labels of one request. Unguarded kinds share one label, since a caller can make up names."""

    kind: str = "other"
    result: str = "failed"


class WebhookServer:
    """Listens as soon as it has a certificate. After `load`, all new connections get the new certificate."""

    def __init__(
        self,
        address: str,
        guarded: GuardedKinds,
        validator: Validator,
        is_listed: Callable[[Kind], bool],
        converters: Converters,
        metrics: Metrics,
    ) -> None:
        self._address = address
        self._guarded = guarded
        self._validator = validator
        self._is_listed = is_listed
        self._conversions = Conversions(converters)
        self._metrics = metrics
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._has_certificate = asyncio.Event()
        self._in_flight = BytesInFlight(MAX_BYTES_IN_FLIGHT)
        self.not_ready_reason: str | None = "not listening yet"

    def load(self, certificates: Certificates) -> None:
        """Uses this certificate for new connections."""
        try:
            with pem_file(certificates.serving + certificates.key) as path:
                self._context.load_cert_chain(path)
        except ssl.SSLError as fault:  # for example a key that is too short for this machine's policy
            raise ConfigError(f"expected a certificate that can be served, found: {fault.reason or 'none'}") from fault
        self._has_certificate.set()

    async def run(self) -> None:
        """Answers until cancelled."""
        await self._has_certificate.wait()
        routes = {
            ("POST", ADMIT): _guarding_values(self._admit),
            ("POST", MUTATE): _guarding_values(self._mutate),
            ("POST", CONVERT): _guarding_values(self._convert),
        }
        try:
            async with listening(self._address, "--webhook-address", routes, _LIMITS, self._context):
                log.info("webhooks.listening", address=self._address)
                self.not_ready_reason = None
                await asyncio.Event().wait()
        finally:
            self.not_ready_reason = "not listening any more"

    async def _admit(self, request: web.BaseRequest) -> web.StreamResponse:
        with self._in_flight.request(_client(request)) as held:
            return await self._send(request, held, await self._judged(request, held))

    async def _judged(self, request: web.BaseRequest, held: RequestBytes) -> bytes:
        started, labels = monotonic(), RequestLabels()
        try:
            review = await self._review(await self._body(request, held, MAX_REVIEW_BYTES))
            if review.guarded is not None:
                labels.kind = str(review.guarded.kind)
            faults = await self._faults(review)
            labels.result = "refused" if faults else "allowed"
            return encode(verdict(review.uid, faults))
        finally:
            self._metrics.count_admission(labels.kind, labels.result, monotonic() - started)

    async def _mutate(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers even before the caches are filled, because defaults depend only on the object."""
        with self._in_flight.request(_client(request)) as held:
            review = await self._review(await self._body(request, held, MAX_REVIEW_BYTES))
            edits: list[PatchOperation] = []
            if review.guarded is not None and review.request is not None:
                defaults = [admission.default for admission in review.guarded.admissions]
                edits = [edit for default in defaults if default is not None for edit in default(review.request)]
            return await self._send(request, held, encode(patch(review.uid, edits)))

    async def _convert(self, request: web.BaseRequest) -> web.StreamResponse:
        with self._in_flight.request(_client(request)) as held:
            answer = await self._conversions.answer(await self._body(request, held, MAX_CONVERSION_BYTES))
            return await self._send(request, held, answer)

    async def _body(self, request: web.BaseRequest, held: RequestBytes, most: int) -> bytes:
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise web.HTTPUnsupportedMediaType(text="expected a body without Content-Encoding")
        if (request.content_length or 0) > most:
            raise web.HTTPRequestEntityTooLarge(most, request.content_length or 0)
        received = bytearray()
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                while chunk := await request.content.readany():
                    received += chunk
                    if len(received) > most:
                        raise web.HTTPRequestEntityTooLarge(most, len(received))
                    await self._in_flight.hold(held, len(received))
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        return bytes(received)

    async def _send(self, request: web.BaseRequest, held: RequestBytes, answer: bytes) -> web.StreamResponse:
        """Sends an answer, which from now on counts in place of its request."""
        await self._in_flight.hold(held, len(answer))
        return await send_in_pieces(request, answer, "application/json", _SEND_SECONDS)

    async def _review(self, body: bytes) -> Review:
        return await self._validator.in_turn(lambda: read_review(body, self._guarded, self._validator.codec))

    async def _faults(self, review: Review) -> tuple[str, ...]:
        if review.guarded is None or review.request is None:
            return ()
        # Before a kind has been listed, an object that is not in the cache may still exist.
        kinds = dict.fromkeys(
            (NAMESPACE, *(kind for source_type in review.guarded.source_types for kind in source_type.kinds))
        )
        unlisted = [str(kind) for kind in kinds if not self._is_listed(kind)]
        if unlisted:
            raise web.HTTPServiceUnavailable(text=f"not listed yet: {', '.join(unlisted)}")
        check_names(review.request)
        async with asyncio.timeout(ANSWER_SECONDS):
            faults = await self._validator.faults(review.request, review.guarded.admissions)
        if faults:
            obj = review.request.new or review.request.old
            log.info("admission.refused", object=obj.ref if obj else review.guarded.kind, faults=len(faults))
        return faults


def _guarding_values(handler: Handler) -> Handler:
    """Turns an error into an HTTP error that quotes no value. The webhook's failurePolicy decides what follows."""

    async def guarded(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException:
            raise
        except NoRoomError:
            return web.Response(status=503, text="too many large requests at once; try again")
        except MalformedError as fault:
            return web.Response(status=400, text=str(fault))
        except Exception as fault:  # noqa: BLE001 - the message of a vocabulary's bug may hold values
            reason = str(fault) if isinstance(fault, SamaraError) else type(fault).__name__
            log.warning("admission.failed", fault=reason)
            return web.Response(status=500, text="no answer could be found in time")

    return guarded


def _client(request: web.BaseRequest) -> str:
    """The client's address."""
    return request.remote or ""
