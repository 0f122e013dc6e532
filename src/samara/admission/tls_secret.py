"""The Secret that holds our certificates: the leader keeps it right, every replica follows it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from samara import log
from samara.admission.certificates import Material, is_servable, renewed
from samara.admission.parts import Parts, Times
from samara.core.model import SECRET, Ref
from samara.core.travel import APP
from samara.kube.client import AS_US, address, collection
from samara.kube.codec import MALFORMED, encode
from samara.kube.errors import AlreadyExists, Conflict, Invalid, NotFound, SamaraError
from samara.kube.object_watch import Bytes, ObjectWatcher, secret_data
from samara.vocabularies import CERTIFICATE

TYPE = "kubernetes.io/tls"
KEYS = {"serving": "tls.crt", "key": "tls.key", "bundle": "ca.crt", "authority_key": "ca.key"}
CERT_MANAGER = "cert-manager.io/certificate-name"
"""cert-manager puts this annotation on what it keeps: then we only follow."""
_AFTER_FAILURE = 10
"""A failed write is tried again after this many turns."""


class _Meta(msgspec.Struct):
    uid: str
    resourceVersion: str
    annotations: dict[str, str] | None = None


class _Secret(msgspec.Struct):
    metadata: _Meta


_secret = msgspec.json.Decoder(_Secret).decode


@dataclass(frozen=True, slots=True)
class Found:
    """The Secret as it was last seen."""

    uid: str
    version: int
    type: str
    material: Material
    foreign: bool

    @classmethod
    def of(cls, raw: Bytes) -> Found:
        meta, (kind, data) = _secret(raw).metadata, secret_data(raw)
        foreign = CERT_MANAGER in (meta.annotations or {})
        return cls(meta.uid, int(meta.resourceVersion), kind or TYPE, material_of(data), foreign)


def material_of(data: Mapping[str, bytes]) -> Material:
    """What a Secret's data hold; a key that is missing is empty."""
    return Material(**{name: data.get(key, b"") for name, key in KEYS.items()})


def data_of(material: Material) -> dict[str, str]:
    return {key: base64.b64encode(getattr(material, name)).decode() for name, key in KEYS.items()}


class TlsSecret:
    """One per process. `taken` is told of every certificate that can be served, the first and each new one."""

    def __init__(self, parts: Parts, names: tuple[str, ...], taken: Callable[[Material], None], times: Times) -> None:
        self._client = parts.client
        self._ref = Ref(SECRET, parts.home, CERTIFICATE)
        self._names = names
        self._is_leading = parts.is_leading
        self._taken = taken
        self._times = times
        self._watcher = ObjectWatcher(
            parts.client, self._ref, self._take, lambda fault: self._failed("read", fault), times.turn
        )
        self._seen = False
        """True once the server has told whether the Secret is there."""
        self._found: Found | None = None
        self._held: Material | None = None
        """The last that could be served: what becomes of the Secret does not take it from us."""
        self.waiting: str | None = "no certificate yet"

    @property
    def bundle(self) -> bytes:
        """Whom the API server must trust, empty where that is not known or not ours to say."""
        return self._held.bundle if self._held is not None else b""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watcher.run())
            group.create_task(self._keep())

    # every replica

    def _take(self, raw: Bytes | None) -> None:
        found = None if raw is None else Found.of(raw)
        self._seen, self._found = True, found
        if found is None or found.material == self._held:
            return
        if not is_servable(found.material):
            log.warning("webhook-certificate.odd", secret=self._ref.path)
            return
        self._taken(found.material)
        self._held, self.waiting = found.material, None
        log.info("webhook-certificate.loaded", secret=self._ref.path)

    # the leader

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._times.turn)
            if self._seen and self._is_leading():
                try:
                    await self._put_right()
                except (SamaraError, *MALFORMED) as fault:
                    self._failed("write", fault)
                    await asyncio.sleep(_AFTER_FAILURE * self._times.turn)

    async def _put_right(self) -> None:
        found = self._found
        if found is not None and found.foreign:
            return
        wanted = renewed(self._base(), self._names, self._times.now(), self._times.terms)
        if found is not None and found.material == wanted:
            return
        try:
            await self._write(found, wanted)
        except (Conflict, AlreadyExists, NotFound):
            await self._watcher.read()  # somebody else was first
        except Invalid:
            if found is not None:
                await self._remove(found)  # immutable, or of a type that takes no certificates: made anew in a moment

    def _base(self) -> Material | None:
        """What is in the Secret, or, where that cannot be served or is gone, what we still have."""
        inside = self._found.material if self._found is not None else None
        return inside if self._held is None or (inside is not None and is_servable(inside)) else self._held

    async def _write(self, found: Found | None, wanted: Material) -> None:
        meta = {"name": CERTIFICATE, "namespace": self._ref.namespace, "labels": {APP: "samara"}}
        sent = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": TYPE, "data": data_of(wanted)}
        if found is None:
            raw = await self._client.request(
                "POST", collection(SECRET, self._ref.namespace), encode(sent), params=AS_US
            )
        else:
            meta["resourceVersion"], sent["type"] = str(found.version), found.type
            raw = await self._client.request("PUT", address(self._ref), encode(sent), params=AS_US)
        log.info("webhook-certificate.written", secret=self._ref.path)
        self._watcher.take(raw)

    async def _remove(self, found: Found) -> None:
        options = {"preconditions": {"uid": found.uid, "resourceVersion": str(found.version)}}
        await self._client.request("DELETE", address(self._ref), encode(options))
        self._watcher.take(None)

    def _failed(self, what: str, fault: Exception) -> None:
        told = str(fault) if isinstance(fault, SamaraError) else type(fault).__name__
        if self._held is None:
            self.waiting = f"cannot {what} Secret {self._ref.path}: {told}"
        log.warning("webhook-certificate.failed", what=what, secret=self._ref.path, fault=told)
