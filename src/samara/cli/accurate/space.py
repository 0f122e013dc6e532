"""Namespaces and other objects by their metadata alone: no Secret's content is ever asked for."""

from __future__ import annotations

from typing import Any

import msgspec

from samara.core.model import NAMESPACE, Kind
from samara.dialects.accurate.words import APPLIER
from samara.kube.client import Client, collection
from samara.kube.errors import Gone, Unreachable

METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_PAGE = "5000"
_LISTS = 3


class _Words(msgspec.Struct):
    labels: dict[str, msgspec.Raw] = msgspec.field(name="f:labels", default_factory=dict)
    annotations: dict[str, msgspec.Raw] = msgspec.field(name="f:annotations", default_factory=dict)


class _Fields(msgspec.Struct):
    metadata: _Words | None = msgspec.field(name="f:metadata", default=None)


class _Record(msgspec.Struct):
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fieldsV1: _Fields | None = None


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    deletionTimestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Recorded(_Metadata):
    managedFields: list[_Record] | None = None


class Space(msgspec.Struct, frozen=True):
    """One namespace: its labels, and the keys that it has inherited."""

    name: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    uid: str = ""
    version: str = ""
    deleting: bool = False
    inherited_labels: tuple[str, ...] = ()
    inherited_annotations: tuple[str, ...] = ()


class Thing(msgspec.Struct, frozen=True):
    """One object of a watched kind."""

    namespace: str
    name: str
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _Item(msgspec.Struct):
    metadata: _Metadata


class _RecordedItem(msgspec.Struct):
    metadata: _Recorded


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class _Items(msgspec.Struct):
    metadata: _ListMeta
    items: list[_Item] | None = None


class _RecordedItems(msgspec.Struct):
    metadata: _ListMeta
    items: list[_RecordedItem] | None = None


_items = msgspec.json.Decoder(_Items)
_recorded_items = msgspec.json.Decoder(_RecordedItems)
_item = msgspec.json.Decoder(_RecordedItem)


async def spaces(client: Client, selector: str = "") -> list[Space]:
    """Every namespace, or those that a selector finds."""
    return [_space(each.metadata) for each in await _listed(client, collection(NAMESPACE), _recorded_items, selector)]


async def space(client: Client, name: str) -> Space:
    return read_space(await client.get(f"{collection(NAMESPACE)}/{name}", accept=METADATA))


def read_space(raw: bytes) -> Space:
    """A namespace as the server has answered it, whole or by its metadata alone."""
    return _space(_item.decode(raw).metadata)


async def things(client: Client, kind: Kind, namespace: str = "") -> list[Thing]:
    """Every object of a kind, in one namespace or in all."""
    found = await _listed(client, collection(kind, namespace), _items)
    return [Thing(each.metadata.namespace, each.metadata.name, each.metadata.annotations or {}) for each in found]


async def _listed(client: Client, path: str, decoder: msgspec.json.Decoder[Any], selector: str = "") -> list[Any]:
    for _ in range(_LISTS):
        try:
            return await _pages(client, path, decoder, selector)
        except Gone:
            continue  # the pages took too long: the list begins again
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Unreachable(f"the list {path} was answered with something that is no list") from None
    raise Unreachable(f"the list {path} expired {_LISTS} times before its last page")


async def _pages(client: Client, path: str, decoder: msgspec.json.Decoder[Any], selector: str) -> list[Any]:
    found: list[Any] = []
    params = {"limit": _PAGE, **({"labelSelector": selector} if selector else {})}
    while True:
        page = decoder.decode(await client.get(path, params, METADATA_LIST))
        found += page.items or ()
        if not page.metadata.continue_:
            return found
        params["continue"] = page.metadata.continue_


def _space(meta: _Recorded) -> Space:
    applied = [
        each.fieldsV1.metadata
        for each in meta.managedFields or ()
        if (each.manager, each.operation, each.subresource) == (APPLIER, "Apply", "")
        and each.fieldsV1 is not None
        and each.fieldsV1.metadata is not None
    ]
    return Space(
        meta.name,
        meta.labels or {},
        meta.uid,
        meta.resourceVersion,
        meta.deletionTimestamp is not None,
        tuple(sorted(key[2:] for each in applied for key in each.labels if key != ".")),
        tuple(sorted(key[2:] for each in applied for key in each.annotations if key != ".")),
    )
