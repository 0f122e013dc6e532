"""Asks the server what a deletion rests on: does a definition stand, and a Namespace, and is a resource itself gone?"""

from __future__ import annotations

import msgspec

from samara.core.model import NAMESPACE, Kind, Ref
from samara.core.reads import Absence, Definition, Standing
from samara.kube.cache import Cache
from samara.kube.client import Client, address, collection
from samara.kube.codec import Codec
from samara.kube.errors import NotFound

CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)


class _Metadata(msgspec.Struct):
    name: str
    deletionTimestamp: str | None = None


class _Defined(msgspec.Struct):
    metadata: _Metadata


class _Several(msgspec.Struct):
    items: list[_Defined] | None = None


_defined = msgspec.json.Decoder(_Defined).decode
_several = msgspec.json.Decoder(_Several).decode


async def stands(client: Client, asked: Definition) -> bool:
    """False where the definition is being deleted or is gone: then its objects go, whatever people wish."""
    kind = asked.kind
    try:
        found = _defined(await client.get(address(Ref(CRD, "", f"{kind.plural}.{kind.group}"))))
    except NotFound:
        return False
    return found.metadata.deletionTimestamp is None


async def is_standing(client: Client, asked: Standing) -> bool:
    """Asked by a list of one: the right to list Namespaces is there for the watch."""
    found = _several(await client.get(collection(NAMESPACE, ""), {"fieldSelector": f"metadata.name={asked.name}"}))
    return any(each.metadata.deletionTimestamp is None for each in found.items or ())


async def is_absent(client: Client, codec: Codec, cache: Cache, asked: Absence) -> bool:
    """What is there all the same is taken into the cache, and its kind is listed anew when its watch ends."""
    try:
        found = codec.object(asked.ref.kind, await client.get(address(asked.ref)))
    except NotFound:
        return True
    cache.put(found)
    cache.stores[asked.ref.kind].needs_relist = True
    return False
