"""The plugin's requests to the API server.

Changes and deletions carry the uid of the object that was read, so a newer object of the same name stays.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from kubectl_accurate.program import PROGRAM
from samara import __version__
from samara.cli.inspect.namespaces import Namespace, decode_namespace, not_found
from samara.cli.options import Cluster
from samara.core.model import Ref, namespace_ref
from samara.kube.client import JSON, MERGE_PATCH, METADATA, Client, address, collection, unrestricted
from samara.kube.codec import encode
from samara.kube.errors import ApiError, Conflict, NotFound, SamaraError, Unreachable
from samara.kube.queries import is_allowed
from samara.vocabularies.accurate.labels import ROLES, SUB_NAMESPACE

_MAX_ATTEMPTS = 8
"""Attempts of one write. A running operator may write the namespace between our read and our write."""
_FIELD_MANAGER = {"fieldManager": PROGRAM}
_DRY_RUN = {**_FIELD_MANAGER, "dryRun": "All"}
_GATEWAY_ERRORS = (502, 503, 504)


class Requests(Protocol):
    """The part of `samara.kube.client.Client` that the plugin's changes use."""

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
    """The labels and annotations that a SubNamespace gives to its namespace."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class SubNamespace(msgspec.Struct, frozen=True):
    """One SubNamespace as it was read."""

    namespace: str
    name: str
    uid: str
    spec: Spec
    is_terminating: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ApiClient:
    """Reads and changes namespaces and SubNamespaces."""

    def __init__(self, client: Requests) -> None:
        self._client = client

    async def get_namespace(self, name: str) -> Namespace:
        """Reads a namespace. Raises if there is none of this name."""
        namespace = await self.find_namespace(name)
        if namespace is None:
            raise not_found(name)
        return namespace

    async def find_namespace(self, name: str) -> Namespace | None:
        """Reads a namespace, or returns None if there is none of this name."""
        try:
            return decode_namespace(await self._client.get(address(namespace_ref(name)), accept=METADATA))
        except NotFound:
            return None

    async def check_relabel(self, namespace: Namespace, labels: Mapping[str, str | None]) -> None:
        """Sends the change as a dry run. Raises if the server would refuse it."""
        try:
            await self.relabel(namespace, labels, _DRY_RUN)
        except ApiError as error:
            if error.status != 400:  # a webhook with side effects does not support dry runs
                raise

    async def relabel(
        self, namespace: Namespace, labels: Mapping[str, str | None], params: Mapping[str, str] = _FIELD_MANAGER
    ) -> Namespace:
        """Changes labels of a namespace, unless its place in the trees has changed since it was read."""
        path = address(namespace_ref(namespace.name))
        for _ in range(_MAX_ATTEMPTS):
            meta = {"uid": namespace.uid, "resourceVersion": namespace.resource_version, "labels": dict(labels)}
            body = encode({"metadata": meta})
            try:
                raw = await self._client.request("PATCH", path, body, params=params, content_type=MERGE_PATCH)
                return decode_namespace(raw)
            except Conflict:
                namespace = await self._read_again(namespace)
        raise SamaraError(f"other clients keep changing namespace {namespace.name}; try again")

    async def _read_again(self, before: Namespace) -> Namespace:
        """The namespace as it is now. Raises if it was recreated, or if its place in the trees has changed."""
        now = await self.get_namespace(before.name)
        if (now.uid, _relations(now)) != (before.uid, _relations(before)):
            raise SamaraError(f"another client changed namespace {before.name}; run the command again")
        return now

    async def find_sub_namespace(self, namespace: str, name: str) -> SubNamespace | None:
        """Reads a SubNamespace, or returns None if there is none. Raises if the cluster does not have the kind."""
        try:
            return _decode_sub_namespace(await self._client.get(address(Ref(SUB_NAMESPACE, namespace, name))))
        except NotFound as error:
            _raise_if_kind_is_missing(error)
            return None

    async def create_sub_namespace(self, namespace: str, name: str, spec: Spec) -> SubNamespace:
        """Creates a SubNamespace. Raises if it exists, or if its namespace or the kind does not."""
        body = {
            "apiVersion": SUB_NAMESPACE.api_version,
            "kind": SUB_NAMESPACE.name,
            "metadata": {"namespace": namespace, "name": name},
            "spec": {key: value for key, value in msgspec.to_builtins(spec).items() if value},
        }
        path = collection(SUB_NAMESPACE, namespace)
        try:
            return _decode_sub_namespace(await self._client.request("POST", path, encode(body), params=_FIELD_MANAGER))
        except NotFound as error:
            _raise_if_kind_is_missing(error)
            raise not_found(namespace) from error

    async def delete_sub_namespace(self, sub: SubNamespace) -> None:
        """Deletes this SubNamespace by uid. Succeeds if it is gone already."""
        options = encode({"preconditions": {"uid": sub.uid}})
        try:
            await self._client.request("DELETE", address(Ref(SUB_NAMESPACE, sub.namespace, sub.name)), options)
        except NotFound:
            return

    async def may_delete_sub_namespace(self, namespace: str, name: str) -> bool:
        """Asks the server for the right. True if it does not answer: then the deletion itself will tell."""
        try:
            return await is_allowed(self._client.request, "delete", SUB_NAMESPACE, namespace, name)
        except (ApiError, msgspec.DecodeError):
            return True


def is_uncertain(error: SamaraError) -> bool:
    """True if the request may have been carried out, or may still be."""
    return isinstance(error, Unreachable) or (isinstance(error, ApiError) and error.status in _GATEWAY_ERRORS)


@asynccontextmanager
async def api_client(cluster: Cluster) -> AsyncIterator[ApiClient]:
    """A connection for the length of one command."""
    async with connect(cluster) as client:
        yield ApiClient(client)


def connect(cluster: Cluster) -> Client:
    """A connection with its own user agent, so that the audit log distinguishes the plugin from the operator."""
    return Client(cluster.access(), timeout=cluster.timeout, agent=f"{PROGRAM}/{__version__}", may_write=unrestricted)


def _relations(namespace: Namespace) -> list[str | None]:
    """The labels that decide the place of a namespace in the trees."""
    return [namespace.labels.get(key) for key in ROLES]


class _Meta(msgspec.Struct):
    namespace: str
    name: str
    uid: str = ""
    deletionTimestamp: str | None = None


class _Raw(msgspec.Struct):
    metadata: _Meta
    spec: Spec | None = None


_decode = msgspec.json.Decoder(_Raw).decode


def _decode_sub_namespace(raw: bytes) -> SubNamespace:
    obj = _decode(raw)
    meta = obj.metadata
    return SubNamespace(meta.namespace, meta.name, meta.uid, obj.spec or Spec(), meta.deletionTimestamp is not None)


def _raise_if_kind_is_missing(error: NotFound) -> None:
    """The server quotes the name of a missing object. Its answer for an unknown kind has no quotes."""
    if '"' not in error.message:
        raise SamaraError(
            f"the cluster does not know the kind {SUB_NAMESPACE.name} ({SUB_NAMESPACE.api_version}); "
            "install its CRD first: `samara crds` prints it"
        ) from error
