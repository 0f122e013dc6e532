"""Namespaces and other objects by their metadata alone: no Secret's content is ever asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from samara.core.model import ANNOTATIONS, LABELS, NAMESPACE, Kind, namespace_ref
from samara.dialects.accurate.words import APPLIER
from samara.kube.client import METADATA, METADATA_LIST, Client, address, collection
from samara.kube.codec import Codec
from samara.kube.errors import Gone, SamaraError, Unreachable

_PAGE = "5000"
_LISTS = 3

T = TypeVar("T")


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    annotations: dict[str, str] | None = None


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


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class _Items(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_items = msgspec.json.Decoder(_Items).decode
_item = msgspec.json.Decoder(_Item).decode
_codec = Codec(frozenset({APPLIER}))


def not_found(name: str) -> SamaraError:
    return SamaraError(f"namespace {name} not found; expected the name of a namespace that exists")


async def spaces(client: Client, selector: str = "") -> list[Space]:
    """Every namespace, or those that a selector finds."""
    return await _listed(client, collection(NAMESPACE), read_space, selector)


async def space(client: Client, name: str) -> Space:
    return read_space(await client.get(address(namespace_ref(name)), accept=METADATA))


def read_space(raw: bytes | msgspec.Raw) -> Space:
    """A namespace as the server has answered it, whole or by its metadata alone."""
    found = _codec.object(NAMESPACE, raw)
    labels, annotations = (
        tuple(sorted(each.key for each in found.applied if each.where == where)) for where in (LABELS, ANNOTATIONS)
    )
    return Space(found.ref.name, dict(found.labels), found.uid, str(found.version), found.deleting, labels, annotations)


async def things(client: Client, kind: Kind, namespace: str = "") -> list[Thing]:
    """Every object of a kind, in one namespace or in all."""
    return await _listed(client, collection(kind, namespace), _thing)


def _thing(raw: msgspec.Raw) -> Thing:
    meta = _item(raw).metadata
    return Thing(meta.namespace, meta.name, meta.annotations or {})


async def _listed(client: Client, path: str, read: Callable[[msgspec.Raw], T], selector: str = "") -> list[T]:
    for _ in range(_LISTS):
        try:
            return await _pages(client, path, read, selector)
        except Gone:
            continue  # the pages took too long: the list begins again
        except (KeyError, ValueError):
            raise Unreachable(f"the list {path} was answered with something that is no list") from None
    raise Unreachable(f"the list {path} expired {_LISTS} times before its last page")


async def _pages(client: Client, path: str, read: Callable[[msgspec.Raw], T], selector: str) -> list[T]:
    found: list[T] = []
    params = {"limit": _PAGE, **({"labelSelector": selector} if selector else {})}
    while True:
        page = _items(await client.get(path, params, METADATA_LIST))
        found += map(read, page.items or ())
        if not page.metadata.continue_:
            return found
        params["continue"] = page.metadata.continue_
