"""Lists namespaces and other objects by their metadata alone. No content of a Secret is ever requested."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from samara.cli.suggestions import did_you_mean
from samara.core.model import ANNOTATIONS, LABELS, NAMESPACE, Kind, namespace_ref
from samara.kube.client import METADATA, METADATA_LIST, Client, address, collection
from samara.kube.codec import Codec
from samara.kube.errors import Gone, SamaraError, Unreachable
from samara.vocabularies.accurate.labels import ACCURATE_MANAGER

_PAGE_SIZE = "5000"
_MAX_ATTEMPTS = 3

T = TypeVar("T")


class Namespace(msgspec.Struct, frozen=True):
    """One namespace: its labels, and the keys that it inherited."""

    name: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    uid: str = ""
    resource_version: str = ""
    is_terminating: bool = False
    inherited_labels: tuple[str, ...] = ()
    inherited_annotations: tuple[str, ...] = ()


class Object(msgspec.Struct, frozen=True):
    """One object of a watched kind."""

    namespace: str
    name: str
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


def not_found(name: str, existing: Iterable[str] = ()) -> SamaraError:
    """The error for a namespace that does not exist. It names those of the `existing` ones that are spelt nearly so."""
    similar = did_you_mean(name, existing)
    return SamaraError(f"namespace {name} not found; expected the name of a namespace that exists{similar}")


async def list_namespaces(client: Client, selector: str = "") -> list[Namespace]:
    """All namespaces, or those that match a label selector."""
    return await _list(client, collection(NAMESPACE), decode_namespace, selector)


async def read_namespace(client: Client, name: str) -> Namespace:
    """Reads the metadata of a namespace. Raises `NotFound` if there is none of this name."""
    return decode_namespace(await client.get(address(namespace_ref(name)), accept=METADATA))


def decode_namespace(raw: bytes | msgspec.Raw) -> Namespace:
    """Decodes a whole Namespace, or its metadata alone."""
    obj = Codec(frozenset({ACCURATE_MANAGER})).object(NAMESPACE, raw)
    labels, annotations = (
        tuple(sorted(applied.key for applied in obj.applied_keys if applied.where == where))
        for where in (LABELS, ANNOTATIONS)
    )
    return Namespace(
        obj.ref.name, dict(obj.labels), obj.uid, str(obj.resource_version), obj.deleting, labels, annotations
    )


async def list_objects(client: Client, kind: Kind, namespace: str = "") -> list[Object]:
    """All objects of a kind, in one namespace or in all."""
    return await _list(client, collection(kind, namespace), _decode_object)


def _decode_object(raw: msgspec.Raw) -> Object:
    meta = _decode_item(raw).metadata
    return Object(meta.namespace, meta.name, meta.annotations or {})


async def _list(client: Client, path: str, decode: Callable[[msgspec.Raw], T], selector: str = "") -> list[T]:
    for _ in range(_MAX_ATTEMPTS):
        try:
            return await _list_pages(client, path, decode, selector)
        except Gone:
            continue  # the continue token expired between two pages, so the list starts again
        except (KeyError, ValueError):
            raise Unreachable(f"the list {path} was answered with something that is no list") from None
    raise Unreachable(f"the list {path} expired {_MAX_ATTEMPTS} times before its last page")


async def _list_pages(client: Client, path: str, decode: Callable[[msgspec.Raw], T], selector: str) -> list[T]:
    items: list[T] = []
    params = {"limit": _PAGE_SIZE, **({"labelSelector": selector} if selector else {})}
    while True:
        page = _decode_page(await client.get(path, params, METADATA_LIST))
        items += map(decode, page.items or ())
        if not page.metadata.continue_:
            return items
        params["continue"] = page.metadata.continue_


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    annotations: dict[str, str] | None = None


class _Item(msgspec.Struct):
    metadata: _Metadata


class _ListMetadata(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


_decode_page = msgspec.json.Decoder(_Page).decode
_decode_item = msgspec.json.Decoder(_Item).decode
