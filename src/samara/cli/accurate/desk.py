"""What the plugin does at the API server, one request each, every change conditional on what was seen before it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from samara import __version__
from samara.cli.accurate.base import PROGRAM
from samara.cli.accurate.space import Space, not_found, read_space
from samara.cli.kubectl_flags import Cluster
from samara.core.model import Ref, namespace_ref
from samara.dialects.accurate.words import ROLES, SUB_NAMESPACE
from samara.kube.client import JSON, MERGE_PATCH, METADATA, Client, address, collection
from samara.kube.codec import encode
from samara.kube.errors import ApiError, Conflict, NotFound, SamaraError, Unreachable
from samara.kube.rights import may

_TRIES = 8
"""An operator at work may write a namespace between our read and our write."""
_AS_US = {"fieldManager": PROGRAM}
_REHEARSED = {**_AS_US, "dryRun": "All"}
_UNCERTAIN = (502, 503, 504)


class Server(Protocol):
    """As much of the client as is needed here."""

    async def get(self, path: str, params: Mapping[str, str] | None = None, accept: str = "") -> bytes: ...

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> bytes: ...


class Spec(msgspec.Struct, frozen=True):
    """What a SubNamespace asks for."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Meta(msgspec.Struct):
    namespace: str
    name: str
    uid: str = ""
    deletionTimestamp: str | None = None


class _Raw(msgspec.Struct):
    metadata: _Meta
    spec: Spec | None = None


class Sub(msgspec.Struct, frozen=True):
    """One SubNamespace."""

    namespace: str
    name: str
    uid: str
    spec: Spec
    deleting: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


_raw = msgspec.json.Decoder(_Raw).decode


def is_uncertain(fault: SamaraError) -> bool:
    """True where nobody can say whether the request was carried out, or still will be."""
    return isinstance(fault, Unreachable) or (isinstance(fault, ApiError) and fault.status in _UNCERTAIN)


class Desk:
    """Reads and writes of namespaces and SubNamespaces."""

    def __init__(self, server: Server) -> None:
        self._server = server

    # namespaces

    async def space(self, name: str) -> Space:
        found = await self.find_space(name)
        if found is None:
            raise not_found(name)
        return found

    async def find_space(self, name: str) -> Space | None:
        try:
            return read_space(await self._server.get(address(namespace_ref(name)), accept=METADATA))
        except NotFound:
            return None

    async def rehearse(self, seen: Space, labels: Mapping[str, str | None]) -> None:
        """Asks whether the labels would be accepted, and changes nothing."""
        try:
            await self.relabel(seen, labels, _REHEARSED)
        except ApiError as fault:
            if fault.status != 400:  # the answer where somebody's webhook cannot be asked without effect
                raise

    async def relabel(self, seen: Space, labels: Mapping[str, str | None], params: Mapping[str, str] = _AS_US) -> Space:
        """Changes labels of a namespace whose place in the trees is still the one that was seen."""
        for _ in range(_TRIES):
            meta = {"uid": seen.uid, "resourceVersion": seen.version, "labels": dict(labels)}
            path = address(namespace_ref(seen.name))
            body = encode({"metadata": meta})
            try:
                raw = await self._server.request("PATCH", path, body, params=params, content_type=MERGE_PATCH)
                return read_space(raw)
            except Conflict:
                seen = await self._unmoved(seen)
        raise SamaraError(f"namespace {seen.name} is written all the time by others; try again")

    async def _unmoved(self, seen: Space) -> Space:
        now = await self.space(seen.name)
        if (now.uid, _relations(now)) != (seen.uid, _relations(seen)):
            raise SamaraError(f"somebody else has changed the namespace {seen.name} meanwhile; look again")
        return now

    # SubNamespaces

    async def sub(self, namespace: str, name: str) -> Sub | None:
        try:
            return _sub(await self._server.get(address(Ref(SUB_NAMESPACE, namespace, name))))
        except NotFound as fault:
            _know_sub_namespaces(fault)
            return None

    async def create_sub(self, namespace: str, name: str, spec: Spec) -> Sub:
        body = {
            "apiVersion": SUB_NAMESPACE.api_version,
            "kind": SUB_NAMESPACE.name,
            "metadata": {"namespace": namespace, "name": name},
            "spec": {key: value for key, value in msgspec.to_builtins(spec).items() if value},
        }
        path = collection(SUB_NAMESPACE, namespace)
        try:
            return _sub(await self._server.request("POST", path, encode(body), params=_AS_US))
        except NotFound as fault:
            _know_sub_namespaces(fault)
            raise not_found(namespace) from fault

    async def delete_sub(self, sub: Sub) -> None:
        """Deletes exactly this one; one that is gone is deleted."""
        options = encode({"preconditions": {"uid": sub.uid}})
        try:
            await self._server.request("DELETE", address(Ref(SUB_NAMESPACE, sub.namespace, sub.name)), options)
        except NotFound:
            return

    async def may_delete_sub(self, namespace: str, name: str) -> bool:
        """What the server says about our rights; where it says nothing, it will be seen."""
        try:
            return await may(self._server.request, "delete", SUB_NAMESPACE, namespace, name)
        except (ApiError, msgspec.DecodeError):
            return True


def _relations(space: Space) -> list[str | None]:
    return [space.labels.get(key) for key in ROLES]


def _sub(raw: bytes) -> Sub:
    found = _raw(raw)
    meta = found.metadata
    return Sub(meta.namespace, meta.name, meta.uid, found.spec or Spec(), meta.deletionTimestamp is not None)


def _know_sub_namespaces(fault: NotFound) -> None:
    """An object that is missing is named in the answer; a kind that is missing is not."""
    if '"' not in fault.message:
        raise SamaraError(
            f"the cluster does not know the kind {SUB_NAMESPACE.name} ({SUB_NAMESPACE.api_version}); "
            "install its definition first: `samara crds` prints it"
        ) from fault


@asynccontextmanager
async def opened(cluster: Cluster) -> AsyncIterator[Desk]:
    async with reached(cluster) as client:
        yield Desk(client)


def reached(cluster: Cluster) -> Client:
    """A client that the server's audit log can tell from the operator."""
    return Client(cluster.access(), timeout=cluster.timeout, agent=f"{PROGRAM}/{__version__}")
